"""The PyPI client through `pulsar-conformance proxy`, as a user runs it, in front of a cluster: it stays on the proxy, which sees all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pulsar
import pytest

from conformance.targets.reference import ReferenceTarget
from tests.interop.conftest import BackgroundLoop
from tests.samples.captured import everything

pytestmark = pytest.mark.interop
TOPICS = [f"persistent://public/default/through-proxy-{number}" for number in range(8)]


def test_a_client_of_a_cluster_stays_on_the_proxy(loop: BackgroundLoop, tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    with loop.entered(ReferenceTarget(brokers=2).run()) as cluster:
        words = [sys.executable, "-m", "conformance.cli", "proxy", "--to", cluster.service_url, "--record", str(folder), "--judge"]
        proxy = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert proxy.stdout is not None
            client = pulsar.Client(json.loads(proxy.stdout.readline())["service_url"])
            for topic in TOPICS:
                consumer = client.subscribe(topic, "s")
                client.create_producer(topic).send(topic.encode())
                message = consumer.receive(30_000)
                assert message.data() == topic.encode()
                consumer.acknowledge(message)
            client.close()
            proxy.terminate()
            lines, end = proxy.communicate(timeout=60)
        finally:
            proxy.kill()
            proxy.communicate()
    assert proxy.returncode == 0, end
    leads = [line for line in lines.splitlines() if " leads to pulsar://" in line and " opened by " not in line]
    opened = {line.rpartition(" ")[2] for line in lines.splitlines() if " opened by " in line}
    assert (len(leads), len(opened)) == (1, 2)  # the second broker has a port of its own
    rows = everything(folder)
    assert {row.corrupt for row in rows} == {None}
    commands = [(row.origin.direction, row.command) for row in rows]
    assert [commands.count(one) for one in (("client", "send"), ("broker", "send_receipt"), ("broker", "message"))] == [len(TOPICS)] * 3
    assert lines.count("-> SEND{") == len(TOPICS)
    assert "times: 0 breaches" in end
