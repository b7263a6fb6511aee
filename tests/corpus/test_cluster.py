"""A job through `spark-submit` on a cluster of two workers on the loopback, in a packed environment."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.corpus.cluster.environment import ROOT, pack
from conformance.corpus.cluster.standalone import standalone_cluster
from conformance.corpus.errors import SparkError

JOBS = ROOT / "conformance" / "corpus" / "jobs"


def test_an_environment_is_packed_from_a_checkout_only(tmp_path: Path) -> None:
    with pytest.raises(SparkError, match=r"requirements.txt is missing \(an environment is packed from a checkout"):
        pack(tmp_path, tmp_path)


@pytest.mark.cluster
def test_a_job_finds_the_same_on_a_cluster_as_here(tmp_path: Path) -> None:
    environments = ROOT / "build" / "spark"
    environments.mkdir(parents=True, exist_ok=True)
    packed = pack(environments)
    results = tmp_path / "cluster.json", tmp_path / "broken.json", tmp_path / "here.json"
    here = ["-m", "conformance.corpus.jobs.hashes_agree", "--rows", "20000", "--cores", "2", "--result", str(results[2])]
    subprocess.run([sys.executable, *here], check=True)

    async def run() -> list[int]:
        async with standalone_cluster() as cluster:
            good = await cluster.submit(JOBS / "hashes_agree.py", ["--rows", "20000", "--result", str(results[0])], packed)
            bad = await cluster.submit(JOBS / "hashes_agree.py", ["--corpus", "nowhere", "--result", str(results[1])], packed)
            return [good, bad]

    assert asyncio.run(run()) == [0, 2]
    assert not results[1].exists()
    found = json.loads(results[0].read_text(encoding="utf-8"))
    assert found["laws"] == json.loads(results[2].read_text(encoding="utf-8"))["laws"]
    assert found["versions"]["cluster"] is True
    assert found["versions"]["cores"] == 2
