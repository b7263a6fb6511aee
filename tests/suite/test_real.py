"""The command line against a real Apache Pulsar, started and stopped by the suite."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.real
COMMAND = [sys.executable, "-m", "conformance.cli", "run", "apache-pulsar@4.2.4"]
CASES = ["core/handshake/connected", "core/frame/foreign-http", "pip145/watch/create-then-delete", "pip145/list/filter"]


def brokers_of(folder: Path) -> list[str]:
    """Return the processes that live in temporary folders of runs which this test started."""
    marker = folder.name.encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in path.read_bytes() and str(os.getpid()) != path.parent.name:
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_real_broker_is_judged_and_nothing_is_left(tmp_path):
    select = [argument for case in CASES for argument in ("--select", case)]
    environment = {**os.environ, "MARKER": tmp_path.name}
    done = subprocess.run(
        [*COMMAND, *select, "--report", str(tmp_path)], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "conformant in the selected cases" in done.stdout
    results = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert {one["case"] for one in results if one["record"] == "result" and one["verdict"] == "PASS"} >= set(CASES)
    assert brokers_of(tmp_path) == []


def test_interrupt_stops_the_broker(tmp_path):
    environment = {**os.environ, "MARKER": tmp_path.name}
    arguments = [*COMMAND, "--select", "core/keepalive/default-interval", "--report", str(tmp_path)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    events, waiting = tmp_path / "events.jsonl", threading.Event()
    try:
        while process.poll() is None and not (events.exists() and '"record":"frame"' in events.read_text()):
            waiting.wait(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 3, output
    assert json.loads(events.read_text().splitlines()[-1])["stopped"] == "interrupted"
    assert brokers_of(tmp_path) == []
