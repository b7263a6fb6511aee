"""The command line: exit codes, and messages that say what to do."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.cli import app
from conformance.report import terminal
from conformance.suite import load_suite
from tests.fakes.peers import NoPong, Peer, running

CASE = "core/handshake/connected"


class Background:
    """A peer in a thread of its own, for commands that block."""

    def __init__(self, peer):
        self._peer, self._ready, self._loop = peer, threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))

    async def _serve(self):
        self._stop = asyncio.Event()
        async with running(self._peer) as target:
            self.url = target.endpoint.service_url
            self._ready.set()
            await self._stop.wait()

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(20)
        return self.url

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        self._loop.close()


@pytest.fixture(scope="module")
def suite():
    return load_suite()


@pytest.fixture
def run(suite, monkeypatch):
    monkeypatch.setattr("conformance.commands.loading.load_suite", lambda **_: suite)

    def call(*arguments):
        return CliRunner().invoke(app, [str(one) for one in arguments])

    return call


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "pulsar://127.0.0.1:1", "--select", "nothing/*"], 2, "nothing is selected by nothing/*: `list` shows the cases"),
        (["run", "apache-pulsar@9.9"], 2, "9.9"),
        (["run", "no-such-file.toml"], 2, "no-such-file.toml"),
        (["run", "pulsar://127.0.0.1:1", "--profile", "x"], 2, "--profile is one of default, as-written; not 'x'"),
        (["run", "pulsar://127.0.0.1:1", "--level", "must"], 2, "--level is one of MUST, SHOULD, MAY; not 'must'"),
        (["run", "pulsar://127.0.0.1:1"], 3, "is it running, and is the address right?"),
        (["show", "core/nothing"], 2, "there is no case core/nothing"),
        (["show", CASE, "--as", "picture"], 2, "--as is one of line, hex, sequence"),
        (["explain", "core.nothing"], 2, "there is no clause core.nothing"),
        (["judge", "no-such-file"], 2, "can't be read"),
        (["report", "no-such-file"], 2, "can't be read"),
        (["doctor", "pulsar://127.0.0.1:1"], 3, "no connection to pulsar://127.0.0.1:1"),
        (["schema", "thing"], 2, "KIND is one of transcript, fragment, register, baseline, log"),
    ],
)
def test_wrong_usage_is_explained(run, tmp_path, arguments, code, words):
    extra = ["--report", tmp_path] if arguments[0] == "run" else []
    result = run(*arguments, *extra)
    assert (result.exit_code, words in result.output) == (code, True), result.output


def test_run_leaves_reports_and_says_what_failed(run, tmp_path):
    with Background(Peer()) as url:
        good = run("run", url, "--select", "core/handshake/ping-first", "--select", CASE, "--report", tmp_path)
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "badge.json").read_text())["schemaVersion"] == 1
    assert json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])["complete"] is True
    assert good.exit_code in (0, 1)
    assert run("report", tmp_path / "events.jsonl").exit_code == good.exit_code
    for form in ("junit", "html", "json", "badge"):
        assert run("report", tmp_path / "events.jsonl", "--format", form).exit_code == good.exit_code
    assert run("matrix", tmp_path / "events.jsonl").exit_code == 0


def test_target_that_does_not_conform(run, tmp_path):
    with Background(NoPong()) as url:
        result = run("run", url, "--select", "core/keepalive/ping-answered", "--slow", "0.1", "--report", tmp_path)
    assert result.exit_code == 1
    assert "not conformant" in result.output


def test_truncated_log_is_never_a_green_one(run, tmp_path):
    with Background(Peer()) as url:
        run("run", url, "--select", CASE, "--report", tmp_path)
    events = tmp_path / "events.jsonl"
    events.write_text("".join(line + "\n" for line in events.read_text().splitlines()[:-1]))
    result = run("report", events)
    assert result.exit_code == 3
    assert "incomplete" in result.output
    assert "green" not in run("report", events, "--format", "badge").output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_full_disk(run, tmp_path):
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    with Background(Peer()) as url:
        result = run("run", url, "--select", CASE, "--report", tmp_path)
    assert result.exit_code == 3
    assert "No space left on device: free some space or choose another --report folder" in result.output


def test_interrupt_keeps_what_was_measured(tmp_path):
    with Background(NoPong()) as url:
        command = [
            sys.executable,
            "-m",
            "conformance.cli",
            "run",
            url,
            "--select",
            "core/keepalive/ping-answered",
            "--slow",
            "60",
            "--report",
            str(tmp_path),
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "COLUMNS": "200"}
        )
        assert process.stdout is not None
        threading.Thread(target=_interrupt_when, args=(process, tmp_path / "events.jsonl"), daemon=True).start()
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 3, output
    last = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert (last["record"], last["complete"], last["stopped"]) == ("footer", False, "interrupted")
    assert "interrupted" in output


def _interrupt_when(process, events):
    """Send SIGINT as soon as the first frame is logged."""
    waiting = threading.Event()
    while process.poll() is None:
        if events.exists() and '"record":"frame"' in events.read_text():
            process.send_signal(signal.SIGINT)
            return
        waiting.wait(0.05)


def test_list_and_show_and_explain(run, suite):
    assert CASE in run("list").output
    cases = json.loads(run("list", "--json").output)
    assert len(cases) == len(suite.select(()))
    clauses = json.loads(run("list", "--clauses", "--json").output)
    assert {one["clause"] for one in clauses} == set(suite.clauses)
    for form in ("line", "hex", "sequence"):
        assert "CONNECT" in run("show", CASE, "--as", form).output
    clause = suite.transcripts[CASE].clauses[0]
    assert suite.clauses[clause].text.split()[0] in run("explain", clause).output


@pytest.mark.parametrize("kind", ["transcript", "fragment", "register", "baseline", "log"])
def test_schema(run, kind):
    assert json.loads(run("schema", kind).output)


def test_progress_is_plain_when_it_is_no_terminal(run, tmp_path):
    with Background(Peer()) as url:
        result = run("run", url, "--select", CASE, "--report", tmp_path)
    assert "\x1b" not in result.output
    assert terminal.Progress.__doc__


def test_doctor_says_what_it_found(run):
    with Background(Peer()) as url:
        result = run("doctor", url)
    assert "speaks Pulsar: Peer, protocol version 21" in result.output
    assert "no admin URL" in result.output
    assert result.exit_code == 1


def test_baseline_that_was_written_explains_the_run(run, tmp_path):
    options = ["--select", "core/keepalive/ping-answered", "--slow", "0.1", "--report", tmp_path]
    with Background(NoPong()) as url:
        assert run("run", url, *options).exit_code == 1
        written = run("baseline", "write", tmp_path / "events.jsonl", "--reason", "never mind")
        baseline = tmp_path / "known.yaml"
        baseline.write_text(written.output)
        again = run("run", url, *options, "--baseline", baseline)
    assert again.exit_code == 0, again.output
    assert "known failure" in again.output


def test_baselines_of_the_suite_are_good(run):
    result = run("baseline", "check")
    assert result.exit_code == 0, result.output
