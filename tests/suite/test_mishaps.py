"""What goes wrong around a run: another web server, a broker that goes away, two runs at once."""

import asyncio
import http.server
import threading
from dataclasses import replace

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from conformance.cli import app
from conformance.engine import log
from conformance.engine.diagnosis import Diagnosis
from conformance.engine.verdict import Outcome, TrialLog, Verdict
from conformance.judging.results import RunLog, judge_log, read_log
from conformance.running import conversation, runner
from conformance.running.loss import first_gone, which_broker
from conformance.running.namespaces import remove_namespaces
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import load_suite
from conformance.targets import AttachedTarget, Endpoint, TargetError
from conformance.targets.admin import AdminResult, AdminUnreachable
from refimpl.net.embedded import EmbeddedBroker
from refimpl.wire import command_name
from tests.fakes.peers import PLAIN, PONG, Peer, running
from tests.fakes.runs import judged
from tests.samples.cases import OWN_NAMESPACE


class _Site(http.server.BaseHTTPRequestHandler):
    status, body = 404, b"<html><title>Not here</title><p>No such page</p></html>"

    def do_GET(self):
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    """Serve a web server that answers everything alike; yield a function that starts it."""
    servers = []

    def serve(status, body):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Site", (_Site,), {"status": status, "body": body}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, _Site.body, "with 404, 'Not here No such page' (is it another web server?"),
        (200, b"<html>welcome</html>", "with 200, 'welcome'"),
        (200, b'{"status": "up"}', """with 200, '{"status": "up"}'"""),
        (200, b'["a"]', """with 200, '["a"]'"""),
        (200, b"[1, 2]", "with 200, '[1, 2]'"),
        (200, b"[]", "pulsar-conformance-no-such-namespace with 200"),
        (200, b"null", "with 200 (is it"),
        (404, b'{"error": "not found"}', "with 404, "),
    ],
)
def test_an_admin_url_of_another_web_server_is_noticed_before_the_run(add, site, status, body, words):
    url = site(status, body)
    with pytest.raises(TargetError, match="is no admin interface of a broker") as caught:
        judged(add(), Peer(), replace(PLAIN, admin_url=url))
    assert str(caught.value).startswith(url)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "token", "words"),
    [
        (
            401,
            b"<p>who?</p>",
            None,
            "refuses GET /admin/v2/namespaces/public with 401, 'who?' (give the token of an administrator with --token-file",
        ),
        (
            403,
            b"",
            SecretStr("x"),
            "refuses GET /admin/v2/namespaces/public with 403 (its role has to be a superuser, or an administrator of the tenant public; or has the token expired",
        ),
        (502, b"<h1>Bad Gateway</h1>nginx", None, "with 502, 'Bad Gateway nginx' (is the broker up, and no proxy in between?"),
    ],
)
def test_an_admin_interface_that_refuses_or_is_down_is_told_before_the_run(add, site, status, body, token, words):
    url = site(status, body)
    with pytest.raises(TargetError) as caught:
        judged(add(), Peer(), replace(PLAIN, admin_url=url, token=token))
    assert str(caught.value).startswith(f"the admin URL {url} ")
    assert words in str(caught.value)


@pytest.mark.parametrize(("status", "body"), [(404, b'{"reason": "Tenant does not exist"}'), (200, b'["public/default"]')])
def test_a_broker_that_has_nothing_is_no_other_web_server(add, site, status, body):
    results, _, stopped = judged(add(), Peer(), replace(PLAIN, admin_url=site(status, body)))
    assert (stopped, [one.verdict for one in results]) == (None, [Verdict.PASS])


@pytest.mark.parametrize(
    ("report", "code", "words"),
    [
        ("file", 2, "--report: {0}/file is a file, and reports need a folder: choose another one"),
        ("file/below", 2, "--report: {0}/file is a file, and reports need a folder: choose another one"),
        ("dangling", 2, "--report: {0}/dangling is a link that leads nowhere, and reports need a folder: choose another one"),
        ("full", 3, "{0}/full/report.html: Is a directory: the events are kept, `report` makes the rest again"),
        ("link", 0, "in-process: core: conformant in the selected cases"),
    ],
)
def test_a_folder_for_reports_that_is_none_is_told_in_one_line(tmp_path, report, code, words):
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "full" / "report.html").mkdir(parents=True)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    found = CliRunner().invoke(app, ["run", "in-process", "--select", "core/deliver/order", "--report", str(tmp_path / report)])
    assert found.exit_code == code
    assert words.format(tmp_path) in found.output
    assert (tmp_path / "folder" / "report.html").exists() == (report == "link")


class _DiesAtThird(Peer):
    """Answers one PING, waits for two more, and dies of the third."""

    server: asyncio.Server

    def __init__(self):
        self.pings, self.writers = 0, []

    async def answer(self, frame, writer):
        if command_name(frame.command) != "ping":
            await super().answer(frame, writer)
            return
        self.pings += 1
        self.writers.append(writer)
        if self.pings == 1:
            writer.write(PONG)
        elif self.pings == 3:
            self.server.close()
            for each in self.writers:
                each.transport.abort()


def test_what_was_in_flight_when_the_broker_went_away_does_not_count(add, ping):
    for name in ("b", "c"):
        add(ping.replace("id: test/ping", f"id: test/{name}"), f"test/{name}")
    first = ping.replace("within: 20", "within: 10").replace("id: test/ping", "id: test/a")
    home = add(first.replace("ambient: []", "ambient: []\nmatrix: {number: [1, 2, 3]}"), "test/a")
    results, records, stopped = judged(home, _DiesAtThird(), select=["test/a"], jobs=2)
    assert [(one.case, one.cell, one.verdict) for one in results] == [("test/a", {"number": 1}, Verdict.PASS)]
    assert stopped is not None
    assert "the broker went away at 0." in stopped
    assert " s during test/a[number=" in stopped
    assert stopped.endswith("it and 1 more at that time do not count")
    assert len({one.key for one in records if isinstance(one, log.TrialStarted)}) == 3


def test_of_a_cluster_the_broker_that_went_away_is_named():
    given = Endpoint(name="e", service_url="pulsar://127.0.0.1:6650")
    assert which_broker(given, given) == "the broker"
    assert "pulsar://127.0.0.1:6651" in which_broker(replace(given, service_url="pulsar://127.0.0.1:6651"), given)
    assert "pulsar://inside:6650" in which_broker(replace(given, proxy_to="inside:6650"), given)


def test_a_broker_that_goes_is_seen_also_where_another_one_holds_the_case():
    async def main():
        async with running(Peer()) as target:
            given, there = target.endpoint, replace(target.endpoint, service_url="pulsar://127.0.0.1:1")
            return await first_gone("c#0", [given], given), await first_gone("c#0", [given, there], given)

    none, gone = asyncio.run(main())
    assert none is None
    assert (gone.what, gone.key) == ("the broker at pulsar://127.0.0.1:1, to which look-ups lead, went away", "c#0")
    assert "Connection refused" in str(gone)


def test_a_log_of_a_broker_that_went_away_is_judged_again_in_the_same_way(add, ping):
    home = add(ping.replace("within: 20", "within: 10"))
    suite = load_suite(home)
    records = []

    async def go():
        async with running(_DiesAtOnce()) as target:
            return await run_suite(suite, target, Options(), records.append, Silent())

    run, stopped = asyncio.run(go())
    assert run.footer is not None
    assert run.footer.in_flight == ["test/ping#0"]
    read = read_log([*records, run.footer], "x")
    assert judge_log(suite, read).results == judge_log(suite, run).results == []
    assert read.footer is not None
    assert read.footer.stopped == stopped


class _DiesAtOnce(Peer):
    server: asyncio.Server

    async def answer(self, frame, writer):
        if command_name(frame.command) == "ping":
            self.server.close()
            writer.transport.abort()
        else:
            await super().answer(frame, writer)


def test_two_runs_with_one_seed_do_not_collide(add):
    suite = load_suite(add(OWN_NAMESPACE, "test/own"))

    async def go():
        async with EmbeddedBroker() as broker:
            target = AttachedTarget(Endpoint(name="attached", service_url=broker.service_url, admin_url=broker.admin_url))
            runs = (run_suite(suite, target, Options(select=["test/own"], seed=5), lambda _: None, Silent()) for _ in range(2))
            return await asyncio.gather(*runs)

    done = asyncio.run(go())
    assert [stopped for _, stopped in done] == [None, None]
    assert [[one.verdict for one in judge_log(suite, run).results] for run, _ in done] == [[Verdict.PASS] * 4] * 2
    names = [name for run, _ in done for one in run.trial_logs.values() for name in one.begin.fresh.values()]
    assert len(set(names)) == len(names) == 8


class _ClosesAtPing(Peer):
    """Closes a connection at PING; before that, time passes in which nobody else could run."""

    def __init__(self, passes):
        self.passes = passes

    async def answer(self, frame, writer):
        if command_name(frame.command) != "ping":
            await super().answer(frame, writer)
            return
        self.passes()
        writer.transport.abort()


@pytest.mark.parametrize(("seconds", "verdict"), [(60.0, Verdict.INCONCLUSIVE), (0.0, Verdict.FAIL)])
def test_a_suite_that_slept_does_not_accuse_a_broker_that_closed(add, monkeypatch, seconds, verdict):
    ahead = [0.0]
    real = conversation.loop_time
    monkeypatch.setattr(conversation, "loop_time", lambda: real() + ahead[0])

    def passes():
        ahead[0] += seconds

    results, records, stopped = judged(add(), _ClosesAtPing(passes))
    assert stopped is None
    assert [one.verdict for one in results] == [verdict]
    assert any(isinstance(one, log.Lag) and one.seconds > 50 for one in records) == (verdict == Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(("times", "verdicts"), [(1, [Verdict.PASS] * 4), (99, [])])
def test_an_admin_interface_that_does_not_answer_once_is_asked_again(add, monkeypatch, times, verdicts):
    suite = load_suite(add(OWN_NAMESPACE, "test/own"))
    create, failed = runner.create_namespaces, []

    async def busy(admin, names, made, bundles):
        if len(failed) < times:
            failed.append(names)
            raise AdminUnreachable("PUT: no answer in 30 s")
        return await create(admin, names, made, bundles)

    monkeypatch.setattr(runner, "create_namespaces", busy)

    async def go():
        async with EmbeddedBroker() as broker:
            target = AttachedTarget(Endpoint(name="attached", service_url=broker.service_url, admin_url=broker.admin_url))
            return await run_suite(suite, target, Options(select=["test/own"], seed=5, jobs=1), lambda _: None, Silent())

    run, stopped = asyncio.run(go())
    assert [one.verdict for one in judge_log(suite, run).results] == verdicts
    assert (stopped or "").startswith("" if verdicts else "the admin interface went away at 0.0 s during test/own")


@pytest.mark.parametrize(
    ("complete", "keys", "verdict"),
    [
        (False, ["test/ping#0"], Verdict.INCONCLUSIVE),
        (False, ["test/ping#0", "test/ping#0~1"], Verdict.FAIL),
        (True, ["test/ping#0"], Verdict.FAIL),
    ],
)
def test_what_did_not_come_in_time_counts_if_it_was_asked_again(add, complete, keys, verdict):
    nothing = Diagnosis("late", "nothing came", missing="pong")
    suite = load_suite(add())
    broken = dict.fromkeys(suite.transcripts["test/ping"].clauses, Verdict.FAIL)
    outcomes = {key: Outcome(key, Verdict.FAIL, broken, nothing) for key in keys}
    trial_logs = {key: TrialLog(log.TrialStarted(key=key, case="test/ping", actions="")) for key in keys}
    header = log.Header(suite="", transcripts="", target="t", started="")
    judged_again = judge_log(suite, RunLog(header, trial_logs, footer=log.Footer(complete=complete), outcomes=outcomes))
    (result,) = judged_again.results
    assert result.verdict == verdict
    assert {one.verdict for one in judged_again.outcomes.values()} == {verdict}
    assert ("before this was asked again" in result.summary) == (verdict == Verdict.INCONCLUSIVE)


def test_what_never_comes_counts_in_other_cases_too(add, ping):
    add()
    suite = load_suite(add(ping.replace("id: test/ping", "id: test/b"), "test/b"))
    nothing = Diagnosis("late", "nothing came", missing="pong")
    trial_logs, outcomes = {}, {}
    for key in ("test/b#0", "test/ping#0", "test/ping#0~1"):
        case = key.partition("#")[0]
        trial_logs[key] = TrialLog(log.TrialStarted(key=key, case=case, actions=""))
        outcomes[key] = Outcome(key, Verdict.FAIL, dict.fromkeys(suite.transcripts[case].clauses, Verdict.FAIL), nothing)
    header = log.Header(suite="", transcripts="", target="t", started="")
    results = judge_log(suite, RunLog(header, trial_logs, footer=log.Footer(complete=False), outcomes=outcomes)).results
    assert [one.verdict for one in results] == [Verdict.FAIL, Verdict.FAIL]


@pytest.mark.parametrize(("stalled", "again"), [(2, True), (1, False), (0, False)])
def test_what_did_not_come_while_others_lacked_frames_is_asked_again(add, ping, monkeypatch, stalled, again):
    names = [f"test/{name}" for name in ("a", "b", "c")]
    for name in names:
        suite = load_suite(add(ping.replace("id: test/ping", f"id: {name}"), name))
    held, all_begun = [], asyncio.Barrier(len(names))

    async def converse(_, unit, *__):
        held.append(unit.key)
        broken = dict.fromkeys(suite.transcripts[unit.case.id].clauses, Verdict.FAIL)
        waits = unit.case.id in names[:stalled]
        if unit.attempt:
            return Outcome(unit.key, Verdict.PASS, dict.fromkeys(broken, Verdict.PASS))
        await all_begun.wait()
        return Outcome(unit.key, Verdict.FAIL, broken, Diagnosis("late", "nothing came", missing="pong" if waits else None))

    monkeypatch.setattr(runner._Part, "_converse", converse)

    async def go():
        async with EmbeddedBroker() as broker:
            target = AttachedTarget(Endpoint(name="attached", service_url=broker.service_url))
            await run_suite(suite, target, Options(select=names, seed=5), lambda _: None, Silent())

    asyncio.run(go())
    assert ("test/c#0~1" in held) is again


class _InUse:
    """An admin interface that does not let go of namespaces before each was asked once."""

    def __init__(self, count):
        self.asked, self.count = [], count

    async def remove_namespace(self, name, *, patient):
        self.asked.append((name, patient))
        return AdminResult(204 if len(self.asked) > self.count else 409, None, "")


def test_only_some_namespaces_are_waited_for_when_a_run_ends(capsys):
    admin = _InUse(10)
    asyncio.run(remove_namespaces(admin, [f"t/{number}" for number in range(10)], 1))
    assert [patient for _, patient in admin.asked] == [True] * 6 + [False] * 9 + [True] * 5
    assert capsys.readouterr().err == ""
