"""The command line: exit codes, and messages that say what to do."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import jsonschema
import pytest

from conformance import names
from conformance.judging.baseline import HOME as BASELINES
from conformance.report import terminal
from conformance.running.doctor import examine
from conformance.targets import AdminClient, AdminResult, AttachedTarget, Endpoint
from conformance.targets.target_file import EXAMPLE
from refimpl.net.embedded import EmbeddedBroker
from tests.fakes.peers import NoPong, Peer, running

CASE = "core/handshake/connected"
VERSION = "core/handshake/version-absent"


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


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "pulsar://127.0.0.1:1", "--select", "nothing/*"], 2, "nothing is selected by nothing/*: `list` shows the cases"),
        (["run", "pulsar://127.0.0.1:1", "--select", "core"], 2, "nothing is selected by core; did you mean 'core/**'?"),
        (["run", "pulsar://127.0.0.1:1", "--select", "core/**", "--select", "!pip-145/**"], 2, "did you mean '!pip145/**'?"),
        (["run", "pulsar://127.0.0.1:1", "--select", "core.frame"], 2, "did you mean 'core.frame.*'?"),
        (["run", "apache-pulsar@9.9"], 2, "9.9"),
        (["run", "apache-pulsar@4.2.5"], 2, "the suite does not start Apache Pulsar 4.2.5 (it starts 2.10.5, "),
        (["driver", "lint", "./nothing"], 2, "client:./nothing: the driver does not exist ("),
        (["run", "client:./nothing"], 2, "client:./nothing: the driver does not exist ("),
        (["doctor", "referense"], 2, "did you mean 'reference'?"),
        (["list", "--select", "pip145/wach/**"], 2, "did you mean 'pip145/watch/**'?"),
        (["run", "no-such-file.toml"], 2, "no-such-file.toml"),
        (["run", "pulsar://127.0.0.1:1", "--profile", "x"], 2, "--profile is one of default, as-written; not 'x'"),
        (
            ["run", "pulsar://127.0.0.1:1", "--claim", "property-filter"],
            2,
            "no capability 'property-filter'; did you mean 'property-entry-filter'?",
        ),
        (["doctor", "pulsar://127.0.0.1:1", "--claim", "admin"], 2, "--claim: there is no capability 'admin'"),
        (["explore", "pulsar://127.0.0.1:1", "--claim", "admin"], 2, "--claim: there is no capability 'admin'"),
        *(
            ([command, "in-process", *option], 2, "in-process takes no allowed hosts, no listener")
            for command in ("run", "explore", "doctor")
            for option in (["--allow-host", "broker-2"], ["--listener", "external"])
        ),
        *(([command, "pulsar://127.0.0.1:1", "--admin-url", ""], 2, "the admin URL ''") for command in ("run", "explore", "doctor")),
        (["run", "client:python", "--listener", "external"], 2, "options about addresses, tokens and claims are for brokers"),
        (["run", "pulsar://127.0.0.1:1", "--failed-in", "nothing"], 2, "nothing can't be read"),
        (["run", "pulsar://127.0.0.1:1", "--failed-in", "a", "--select", "b"], 2, "--failed-in selects the cases: leave out --select"),
        (["run", "pulsar://127.0.0.1:1", "--level", "must"], 2, "--level is one of MUST, SHOULD, MAY; not 'must'"),
        (["run", "pulsar://127.0.0.1:1"], 3, "is it running, and is the address right?"),
        (["show", "core/nothing"], 2, "there is no case core/nothing"),
        (["show", "core/handshake/conected"], 2, f"there is no case core/handshake/conected; did you mean '{CASE}'?"),
        (["show", "core/handshake"], 2, "`list --select 'core/handshake/**'` shows those that begin so"),
        (["show", CASE, "--target", "apache-pulsar@4.2.5"], 2, "no recording of apache-pulsar@4.2.5; did you mean 'apache-pulsar@4.2.4'?"),
        (["explain", "core.keepalive.ping-answerd"], 2, "did you mean 'core.keepalive.ping-answered'?"),
        (["explain", CASE], 2, f"{CASE} is a case, not a clause: `show {CASE}`"),
        (["show", CASE, "--as", "picture"], 2, "--as is one of line, hex, sequence"),
        (["explain", "core.nothing"], 2, "there is no clause core.nothing"),
        (["run", "in-process", CASE], 2, "choose cases with --select CASE"),
        (["list", CASE], 2, "choose cases with --select CASE"),
        (["show", "in-process", CASE], 2, "name the recording"),
        (["judge", "no-such-file"], 2, "can't be read"),
        (["report", "no-such-file"], 2, "can't be read"),
        (["doctor", "pulsar://127.0.0.1:1"], 3, "no connection to pulsar://127.0.0.1:1: Connection refused ("),
        (["schema", "thing"], 2, "KIND is one of transcript, fragment, register, baseline, target, log"),
    ],
)
def test_wrong_usage_is_explained(run, tmp_path, arguments, code, words):
    extra = ["--report", tmp_path] if arguments[0] == "run" else []
    result = run(*arguments, *extra)
    said = " ".join(result.output.replace("│", " ").split())
    assert (result.exit_code, words in said) == (code, True), result.output


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


@pytest.mark.parametrize("command", ["run", "explore"])
def test_a_file_where_the_reports_should_be(run, tmp_path, command):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        result = run(command, "in-process", "--report", folder)
        assert (result.exit_code, f"{tmp_path / 'file'} is a file" in result.output) == (2, True), result.output
    assert (tmp_path / "file").read_text() == "mine"


def test_target_that_does_not_conform(run, tmp_path):
    with Background(NoPong()) as url:
        result = run("run", url, "--select", "core/keepalive/ping-answered", "--slow", "0.1", "--report", tmp_path)
    assert result.exit_code == 1
    assert "not conformant" in result.output


def test_what_failed_is_run_again_alone(run, tmp_path):
    first, again, third = tmp_path / "first", tmp_path / "again", tmp_path / "third"
    with Background(NoPong()) as url:
        run("run", url, "--select", "core/keepalive/ping-answered", "--select", VERSION, "--slow", "0.1", "--report", first)
    with Background(Peer()) as url:  # answers a ping, and knows one version of the protocol
        run("run", url, "--failed-in", first, "--report", again)
        run("run", url, "--failed-in", again, "--report", third)
        run("run", url, "--select", "core/keepalive/ping-answered", "--report", first)
        nothing = run("run", url, "--failed-in", first, "--report", tmp_path / "fourth")
    assert [{one["name"] for one in json.loads((folder / "results.json").read_text())["cases"]} for folder in (again, third)] == [
        {"core/keepalive/ping-answered", VERSION},
        {VERSION},
    ]
    assert (nothing.exit_code, "no case failed" in nothing.output, (tmp_path / "fourth").exists()) == (0, True, False)


@pytest.mark.parametrize(
    ("more", "options", "code", "words"),
    [
        ({"complete": False}, [], 2, "did not reach its end: run all cases again"),
        ({"exit_code": 4, "stale": ["core/x: expired"]}, [], 2, "is stale: core/x: expired; correct it, and run all cases again"),
        ({"exit_code": 5}, [], 5, "no case failed in"),
        ({"exit_code": 0, "cases": [{"name": CASE, "verdict": "WARN", "clauses": {}}]}, [], 0, "no case failed in"),
        ({"exit_code": 1, "cases": [{"name": CASE, "verdict": "WARN", "clauses": {}}]}, ["--strict"], 3, "no connection to"),
    ],
)
def test_what_can_not_be_run_again_is_no_success(run, tmp_path, more, options, code, words):
    results = {"target": "a", "server_version": "b", "profile": "default", "suite": "1", "transcripts": "x", "started": "", "sentence": ""}
    (tmp_path / "results.json").write_text(json.dumps({**results, "complete": True, "clauses": [], "cases": [], **more}))
    result = run("run", "pulsar://127.0.0.1:1", "--failed-in", tmp_path, "--report", tmp_path / "again", *options)
    assert (result.exit_code, words in result.output) == (code, True), result.output


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_keeps_what_was_measured(tmp_path, number):
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
        threading.Thread(target=_interrupt_when, args=(process, tmp_path / "events.jsonl", number), daemon=True).start()
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 3, output
    last = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert (last["record"], last["complete"], last["stopped"]) == ("footer", False, "interrupted")
    assert "interrupted" in output
    assert "interrupted" in (tmp_path / "report.html").read_text()


def test_a_terminal_that_is_closed_ends_a_run_with_its_report(tmp_path):
    ours, theirs = pty.openpty()
    with Background(NoPong()) as url:
        command = [sys.executable, "-m", "conformance.cli", "run", url, "--select", "core/keepalive/ping-answered", "--slow", "60"]
        process = subprocess.Popen([*command, "--report", str(tmp_path)], stdout=theirs, stderr=theirs, stdin=theirs)
        os.close(theirs)
        _wait_for_a_frame(process, tmp_path / "events.jsonl")
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 3
    assert "interrupted" in (tmp_path / "report.html").read_text()


def test_a_command_in_the_background_of_a_shell_ends_too(tmp_path):
    with Background(NoPong()) as url:
        command = [sys.executable, "-m", "conformance.cli", "run", url, "--select", "core/keepalive/ping-answered", "--slow", "60"]
        in_background = [
            sys.executable,
            "-c",
            "import os, signal, sys; signal.signal(2, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
        ]
        process = subprocess.Popen([*in_background, *command, "--report", str(tmp_path)], stdout=subprocess.DEVNULL)
        _wait_for_a_frame(process, tmp_path / "events.jsonl")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 3
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["explain", "core.frame.largest-accepted"]])
def test_output_that_nobody_reads_is_no_verdict(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "conformance.cli", *arguments], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (3, "")


def test_a_crash_is_no_verdict(run, monkeypatch):
    monkeypatch.setattr("conformance.commands.showing.print_clause", lambda _: 1 / 0)
    result = run("explain", names.clause_ids()[0])
    assert result.exit_code == 6
    assert "ZeroDivisionError" in result.stderr
    assert "the suite itself failed" in result.stderr


def _interrupt_when(process, events, number):
    """Send a signal as soon as the first frame is logged."""
    _wait_for_a_frame(process, events)
    process.send_signal(number)


def _wait_for_a_frame(process, events):
    waiting = threading.Event()
    while process.poll() is None:
        if events.exists() and '"record":"frame"' in events.read_text():
            return
        waiting.wait(0.05)


PROBE = """
import sys
from conformance.cli import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    print(end.code, *sys.modules, file=sys.stderr)
"""
NETWORK, SUITE = {"aiohttp", "conformance.running.runner"}, {"conformance.engine.model", "yaml", "conformance.suite"}


@pytest.mark.parametrize(
    ("arguments", "code", "unwanted"),
    [
        (["--version"], 0, NETWORK | SUITE | {"refimpl.broker"}),
        (["--help"], 0, NETWORK | SUITE | {"refimpl.broker"}),
        (["run", "in-process", "--select", "core"], 2, NETWORK | SUITE),
        (["run", "in-process", "--profile", "x"], 2, NETWORK | SUITE),
        (["explain", "core.nothing"], 2, NETWORK | SUITE),
        (["show", "core/nothing"], 2, NETWORK | SUITE),
        (["run", "apache-pulsar@9.9"], 2, {"conformance.suite", "conformance.running.runner"}),
        (["list"], 0, NETWORK),
        (["show", CASE], 0, NETWORK),
        (["explain", "core.keepalive.ping-answered"], 0, NETWORK),
    ],
)
def test_command_imports_what_it_needs(arguments, code, unwanted):
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, timeout=120, check=False)
    ended, *imported = done.stderr.splitlines()[-1].split()
    assert (int(ended), unwanted & set(imported)) == (code, set()), done.stdout


@pytest.mark.parametrize("arguments", [["report", "no-such-file"], ["judge", "no-such-file"], ["matrix", "no-such-file"]])
def test_file_that_is_not_there_is_told_before_the_suite_is_loaded(run, monkeypatch, arguments):
    monkeypatch.setattr("conformance.commands.loading.load_suite", lambda **_: pytest.fail("loaded"))
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("kind", ["transcript", "fragment", "register", "baseline", "target", "log", "driver"])
def test_schema(run, kind):
    assert json.loads(run("schema", kind).output)


def test_the_example_of_a_target_file_fits_its_schema(run):
    schema = json.loads(run("schema", "target").output)
    example = tomllib.loads(EXAMPLE)
    jsonschema.validate(example, schema)
    for key, value in (("service_urls", "pulsar://127.0.0.1:6650"), ("name", ""), ("start", {"command": []})):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**example, key: value}, schema)


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
    assert "cluster: no (needed: the admin interface lists several brokers)" in result.output
    assert "without-credentials: yes (no token and no certificate is shown" in result.output
    assert result.exit_code == 1


def test_doctor_tells_what_a_run_makes_up_for(run):
    with EmbeddedBroker({"allowAutoTopicCreation": "false"}) as broker:
        result = run("doctor", broker.service_url, "--admin-url", broker.admin_url)
    assert "allowAutoTopicCreation=false: the namespaces of a run get autoTopicCreationOverride of their own" in result.output
    assert result.exit_code == 0


def test_doctor_names_settings_as_the_broker_lists_them(run):
    with EmbeddedBroker() as broker:
        result = run("doctor", broker.service_url, "--admin-url", broker.admin_url)
    assert "enableBrokerSideSubscriptionPatternEvaluation=true" in result.output
    assert "of their own" not in result.output
    assert "=None" not in result.output


def test_doctor_tells_what_the_admin_interface_refuses(monkeypatch):
    """One that answers nothing, or not for this user, is no proof that all is well."""
    refused = AdminResult(403, None, "no superuser")
    usual = AdminClient.call

    async def call(self, op, args=None):
        return refused if op in ("runtime_configuration", "namespaces") and self.endpoint.name == "x" else await usual(self, op, args)

    monkeypatch.setattr(AdminClient, "call", call)

    async def main():
        async with EmbeddedBroker() as broker:
            target = AttachedTarget(Endpoint(name="x", service_url=broker.service_url, admin_url=broker.admin_url))
            monkeypatch.setattr("conformance.running.probe._check_admin_interface", lambda *_: asyncio.sleep(0))
            return await examine(target)

    found = {one.text: one.good for one in asyncio.run(main())}
    assert found["the admin interface lists no settings: brokers/configuration/runtime is answered with 403, 'no superuser'"] is None
    assert found["the namespaces of the tenant public can't be listed: the admin interface answers 403, 'no superuser'"] is False
    assert not any("not listed" in text for text in found)


def test_doctor_names_settings_that_cases_take_for_granted(run):
    wanted = {"subscriptionPatternMaxLength": "50", "enableBrokerSideSubscriptionPatternEvaluation": "true"}
    with EmbeddedBroker() as broker:
        usual = run("doctor", broker.service_url, "--admin-url", broker.admin_url)
    assert [f"{key}={value}\n" in usual.output for key, value in wanted.items()] == [True, True]
    others = {"subscriptionPatternMaxLength": "100", "enableBrokerSideSubscriptionPatternEvaluation": "false"}
    with EmbeddedBroker(others) as broker:
        changed = run("doctor", broker.service_url, "--admin-url", broker.admin_url)
    assert [f"{key}={value}: cases about" in changed.output for key, value in others.items()] == [True, True]
    assert (usual.exit_code, changed.exit_code) == (0, 1)


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


def test_baselines_are_checked_against_cases_and_recordings(run, tmp_path, monkeypatch):
    """One of them; tests/suite/test_content.py looks at all."""
    monkeypatch.setattr("conformance.commands.judging.HOME", tmp_path)
    path = tmp_path / "apache-pulsar@2.10.5.yaml"
    text = (BASELINES / path.name).read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    assert run("baseline", "check").exit_code == 0
    added = [
        f"- {{case: core/{name}, clause: core.ping.answered, verdict: FAIL, reason: none}}"
        for name in ("no-such", "keepalive/ping-answered")
    ]
    path.write_text("\n".join([text.rstrip(), *added, ""]), encoding="utf-8")
    result = run("baseline", "check")
    assert (result.exit_code, "there is no case core/no-such" in result.output) == (2, True)
    assert "core/keepalive/ping-answered" in result.output


@pytest.mark.parametrize("command", ["report", "matrix", "judge"])
def test_cases_of_a_log_that_the_suite_does_not_have_are_told(run, tmp_path, command):
    with Background(Peer()) as url:
        run("run", url, "--select", CASE, "--select", "core/frame/cut-frame", "--report", tmp_path)
    events = tmp_path / "events.jsonl"
    events.write_text(events.read_text().replace(CASE, "core/of-tomorrow"))
    result = run(command, events)
    assert f"{url}: left out: 1 case that this version of the suite does not have, such as core/of-tomorrow\n" in result.output
    assert "core/of-tomorrow" not in run("report", tmp_path / "events.jsonl", "--format", "json").stdout
