"""Runs against small peers that behave, misbehave, hang, flood and die."""

import asyncio
import re
import socket
import ssl
from dataclasses import replace
from datetime import date
from typing import ClassVar

import pytest
import trustme
from pydantic import SecretStr

from conformance.engine import log
from conformance.engine.source import SourceProblem
from conformance.engine.verdict import Verdict
from conformance.judging.baseline import Baseline
from conformance.judging.results import judge_log
from conformance.report.conclusion import conclude
from conformance.report.model import build_report
from conformance.running.exchange import first_bytes, why_not_connected
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import load_suite
from conformance.targets import AdminClient, AdminResult, AttachedTarget, Endpoint, InProcessTarget, TargetError
from refimpl.net.embedded import EmbeddedBroker
from refimpl.wire import command, command_name, encode_frame
from refimpl.wire.pulsar_api_pb2 import ServerError
from tests.fakes.certificates import Certificates
from tests.fakes.peers import (
    BusyAtFirst,
    DiesAtPing,
    Flood,
    GarbagePong,
    HalfPong,
    HangsAtPing,
    LatePong,
    NoPong,
    Peer,
    PongTwice,
    RefusesAfterPing,
    SaysBefore,
    SpeaksHttp,
    running,
)
from tests.fakes.runs import judged


@pytest.mark.parametrize(
    ("peer", "verdict", "words"),
    [
        (Peer(), Verdict.PASS, ""),
        (NoPong(), Verdict.FAIL, "nothing came: the case waits for pong"),
        (HalfPong(), Verdict.FAIL, "the connection ended inside a frame"),
        (GarbagePong(), Verdict.FAIL, "bytes that are no frame"),
    ],
)
def test_verdicts_on_peers(add, ping, peer, verdict, words):
    patience = "within: 2" if isinstance(peer, NoPong) else "within: 20"
    results, _, stopped = judged(add(ping.replace("within: 20", patience)), peer)
    assert stopped is None
    assert [result.verdict for result in results] == [verdict]
    assert words in results[0].summary


IN_USE = "Producer is already failed to register present on the connection"
NEEDS_ADMIN = """\
  - admin: {create_topic: "persistent://public/default/${n}"}
  - client: {ping: {}}"""


@pytest.mark.parametrize(("refusals", "verdict", "attempts"), [(0, "PASS", 1), (1, "PASS", 2), (2, "PASS", 3), (9, "ERROR", 3)])
def test_what_the_harness_could_not_run_is_tried_again(add, ping, monkeypatch, refusals, verdict, attempts):
    answers = iter([AdminResult(409, None, "another is at work")] * refusals)
    call = AdminClient.call

    async def refused_at_first(self, name, arguments=None):
        refusal = next(answers, None) if name == "create_topic" else None
        return refusal or await call(self, name, arguments)

    monkeypatch.setattr(AdminClient, "call", refused_at_first)
    text = ping.replace("clauses:", "vars: {n: {$fresh: name}}\nclauses:").replace("  - client: {ping: {}}", NEEDS_ADMIN)
    suite = load_suite(add(text))
    run, stopped = asyncio.run(run_suite(suite, InProcessTarget(), Options(), lambda _: None, Silent()))
    (result,) = judge_log(suite, run).results
    assert stopped is None
    assert (result.verdict, len(result.keys)) == (verdict, attempts)
    if verdict == "ERROR":
        sentence = conclude(build_report(suite, run, Baseline(format=1, target="x"), date(2026, 1, 1))).sentence
        assert sentence.startswith("incomplete: 1 case could not be run by the suite; see test/ping (admin create_topic")


@pytest.mark.parametrize(("late", "verdict", "runs"), [(1, "PASS", 2), (9, "WARN", 3)])
def test_what_comes_late_is_asked_for_again(add, ping, late, verdict, runs):
    home = add(ping.replace("    within: 20\n", ""))
    clauses = home / "clauses" / "test.yaml"
    rule = "text: another, soon: [{seconds: 0.3, frames: [{pong: {}}]}]"
    clauses.write_text(clauses.read_text().replace("text: another", rule))
    (result,), _, _ = judged(home, LatePong(late))
    assert (result.verdict, len(result.keys)) == (verdict, runs)
    assert result.clauses == {"test.pong": "PASS"} | ({"test.warn": "WARN"} if verdict == "WARN" else {})


PREPARES = """\
  - client: {ping: {}}
  - broker: {pong: {}}
    within: 0.3
  - client: {ping: {}}"""


@pytest.mark.parametrize(("busy", "verdict", "runs"), [(0, "PASS", 1), (1, "PASS", 2), (2, "PASS", 3), (9, "FAIL", 3)])
def test_a_preparation_without_an_answer_is_tried_again(add, ping, busy, verdict, runs):
    home = add(ping.replace("  - client: {ping: {}}", PREPARES).replace("    within: 20", "    clause: test.pong"))
    (result,), _, _ = judged(home, BusyAtFirst(busy))
    assert (result.verdict, len(result.keys)) == (verdict, runs)


@pytest.mark.parametrize(
    ("busy", "window", "verdict", "runs"),
    [
        (0, "min: 0, max: 0.3", "PASS", 1),
        (1, "min: 0, max: 0.3", "PASS", 2),
        (9, "min: 0, max: 0.3", "FAIL", 3),
        (0, "min: 5, max: 9", "FAIL", 3),
    ],
)
def test_a_frame_outside_of_a_window_counts_if_it_is_so_each_time(add, ping, busy, window, verdict, runs):
    text = ping.replace("  - client: {ping: {}}", "  - client: {ping: {}}\n    label: asked")
    home = add(text.replace("within: 20", f"window: {{since: asked, {window}}}\n    clause: test.pong"))
    (result,), _, _ = judged(home, BusyAtFirst(busy))
    assert (result.verdict, len(result.keys)) == (verdict, runs)


CLOSED_LATER = """\
  - client: {ping: {}}
  - broker: {pong: {}}
    clause: test.pong
  - broker: {close_producer: {producer_id: 1}}"""


def test_a_producer_that_is_closed_too_early_accuses_nobody_unless_it_is_so_each_time(add, ping):
    home = add(ping.replace("  - client: {ping: {}}\n  - broker: {pong: {}}\n    within: 20", CLOSED_LATER))
    (result,), _, _ = judged(home, SaysBefore(9, "close_producer", producer_id=1, request_id=1))
    assert (result.verdict, len(result.keys), "too early" in result.summary) == ("FAIL", 3, True)


@pytest.mark.parametrize(
    ("said", "verdict", "runs"),
    [
        ((0, "success", {"request_id": 1}), "PASS", 1),
        ((1, "close_producer", {"producer_id": 1, "request_id": 1}), "PASS", 2),
        ((2, "close_consumer", {"consumer_id": 1, "request_id": 1}), "PASS", 3),
        ((9, "close_consumer", {"consumer_id": 1, "request_id": 1}), "FAIL", 3),
        ((1, "error", {"request_id": 1, "error": ServerError.ServiceNotReady, "message": "look it up again"}), "PASS", 2),
        ((9, "error", {"request_id": 1, "error": ServerError.ServiceNotReady, "message": "look it up again"}), "FAIL", 3),
        ((1, "error", {"request_id": 1, "error": ServerError.UnknownError, "message": ""}), "FAIL", 1),
        ((1, "error", {"request_id": 1, "error": ServerError.UnknownError, "message": IN_USE}), "PASS", 2),
        ((1, "success", {"request_id": 1}), "FAIL", 1),
    ],
)
def test_a_topic_that_was_unloaded_meanwhile_accuses_nobody_unless_it_is_so_each_time(add, said, verdict, runs):
    times, name, fields = said
    (result,), _, _ = judged(add(), SaysBefore(times, name, **fields))
    assert (result.verdict, len(result.keys)) == (verdict, runs)


def test_a_preparation_that_never_has_an_answer_is_known_after_one_case(add, ping):
    text = ping.replace("  - client: {ping: {}}", PREPARES)
    home = add(text)
    add(text.replace("test/ping", "test/second"), "test/second")
    peer = BusyAtFirst(99)
    results, _, _ = judged(home, peer)
    assert [result.verdict for result in results] == ["FAIL", "FAIL"]
    assert (sorted(len(result.keys) for result in results), peer.asked) == ([1, 3], 4)


def test_an_answer_that_a_clause_speaks_of_is_waited_for_once(add, ping):
    home = add(ping.replace("within: 20", "within: 0.3\n    clause: test.pong"))
    (result,), _, _ = judged(home, BusyAtFirst(1))
    assert (result.verdict, len(result.keys)) == ("FAIL", 1)


def test_a_rule_about_how_soon_frames_come_is_checked(add):
    home = add()
    clauses = home / "clauses" / "test.yaml"
    clauses.write_text(clauses.read_text().replace("text: PING is answered", "text: x, soon: [{seconds: 1, frames: [{pung: {}}]}]"))
    with pytest.raises(SourceProblem) as found:
        load_suite(home)
    assert "is a SHOULD" in str(found.value)
    assert "pung" in str(found.value)


@pytest.mark.parametrize("peer", [PongTwice(), Flood()])
def test_frames_that_nobody_asked_for_fail(add, ping, peer):
    strict = ping.replace("end: none", "  - client: {connect: {client_version: x}}\n  - broker: {connected: {}}\nend: none")
    results, _, _ = judged(add(strict), peer)
    assert results[0].verdict == Verdict.FAIL
    assert "PONG{}" in results[0].summary


class WantsToken(Peer):
    """Speaks only to those who bring the token."""

    async def answer(self, frame, writer):
        if command_name(frame.command) == "connect" and frame.command.connect.auth_data != b"open-sesame":
            writer.write(
                encode_frame(command("error", request_id=2**64 - 1, error="AuthenticationError", message="Failed to authenticate"))
            )
            writer.close()
            return
        await super().answer(frame, writer)


GREET = "  - use: lib/handshake\n    at: d\nend: none"


def test_token_is_sent_and_never_logged(add, ping):
    secret = Endpoint(name="peer", service_url="pulsar://x", token=SecretStr("open-sesame"))
    results, records, _ = judged(add(ping.replace("end: none", GREET)), WantsToken(), endpoint=secret)
    assert results[0].verdict == Verdict.PASS
    text = "\n".join(map(log.dump, records))
    assert "open-sesame" not in text
    assert b"open-sesame".hex() not in text
    assert b"********".hex() in text


def test_token_is_sent_with_a_connect_that_has_others_around_it(add, ping):
    secret = Endpoint(name="peer", service_url="pulsar://x", token=SecretStr("open-sesame"))
    together = "  - open: d\n  - one_write: [{ping: {}}, {connect: {client_version: x}}, {ping: {}}]\n    at: d\n"
    answers = "  - broker: {pong: {}}\n    at: d\n  - broker: {connected: {}}\n    at: d\n  - broker: {pong: {}}\n    at: d\n"
    results, records, _ = judged(add(ping.replace("end: none", f"{together}{answers}end: none")), WantsToken(), endpoint=secret)
    assert (results[0].verdict, results[0].summary) == (Verdict.PASS, "")
    assert b"open-sesame".hex() not in "\n".join(map(log.dump, records))


@pytest.mark.parametrize(("token", "verdict"), [(None, Verdict.PASS), ("open-sesame", Verdict.NOT_APPLICABLE)])
def test_what_credentials_would_change_is_left_out_with_a_token(add, ping, token, verdict):
    endpoint = Endpoint(name="peer", service_url="pulsar://x", token=SecretStr(token) if token else None)
    only_without = ping.replace("steps:", "requires: [without-credentials]\nsteps:", 1)
    results, _, _ = judged(add(only_without), WantsToken() if token else Peer(), endpoint=endpoint)
    assert results[0].verdict == verdict


def test_target_that_wants_a_token(add):
    with pytest.raises(TargetError, match=r"refused CONNECT: Failed to authenticate \(give a token with --token-file\)"):
        judged(add(), WantsToken())
    with pytest.raises(TargetError, match=r"refused CONNECT: Failed to authenticate \(has the token expired, and was it made"):
        judged(add(), WantsToken(), Endpoint(name="peer", service_url="pulsar://x", token=SecretStr("another")))


def test_tls(add, tmp_path):
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    endpoint = Endpoint(name="peer", service_url="pulsar+ssl://x", tls_trust_certs=trusted)
    results, _, _ = judged(add(), Peer(), endpoint=endpoint, tls=server)
    assert results[0].verdict == Verdict.PASS
    with pytest.raises(TargetError, match="certificate verify failed"):
        judged(add(), Peer(), endpoint=Endpoint(name="peer", service_url="pulsar+ssl://x"), tls=server)


def test_a_certificate_of_our_own_is_shown_and_named_in_connect(add, tmp_path):
    class Broker(Peer):
        methods: ClassVar[set[str]] = set()

        async def answer(self, frame, writer):
            if frame.command.HasField("connect"):
                self.methods.add(frame.command.connect.auth_method_name)
            await super().answer(frame, writer)

    certificates = Certificates(tmp_path, "broker.example")
    certificate, key = certificates.client
    url = "pulsar+ssl://x"
    known = Endpoint(name="peer", service_url=url, tls_trust_certs=certificates.trust_file, tls_hostname="broker.example")
    own = replace(known, tls_certificate=certificate, tls_key=key)
    results, _, _ = judged(add(), Broker(), endpoint=own, tls=certificates.asking())
    assert (results[0].verdict, Broker.methods) == (Verdict.PASS, {"tls"})
    for wrong in (known, replace(own, tls_hostname=None)):
        with pytest.raises(TargetError):
            judged(add(), Broker(), endpoint=wrong, tls=certificates.asking())


def test_log_says_everything_in_order(add):
    _, records, _ = judged(add(), Peer())
    assert [record.record for record in records] == ["header", "conversation", "begin", "end", "begin", "end", "frame", "finished"]
    assert records[0].server_version == "Peer"
    lines = [log.dump(record) for record in records]
    assert list(log.load(lines, "x")) == records


def test_target_that_speaks_another_protocol(add):
    with pytest.raises(TargetError, match="does not speak Pulsar's protocol: a web server answers"):
        judged(add(), SpeaksHttp())


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"HTTP/1.1 400", "a web server answers"), (b"SSH-2.0-x\r\n", '"SSH-2.0-x"'), (b"\x15\x03\x01", "15 03 01"), (b"\r\n", "0d 0a")],
)
def test_first_bytes_of_another_protocol_are_shown_as_people_write_them(data, words):
    assert words in first_bytes(data)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (
            OSError(
                "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 111] Connect call failed ('127.0.0.1', 1)"
            ),
            "Connection refused",
        ),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (TimeoutError(), "time-out"),
    ],
)
def test_why_there_is_no_connection_is_said_in_words_of_the_system(error, words):
    assert why_not_connected(error) == words


def test_target_that_is_not_there(add):
    target = AttachedTarget(Endpoint(name="none", service_url="pulsar://127.0.0.1:1"))
    with pytest.raises(TargetError, match="is it running"):
        asyncio.run(run_suite(load_suite(add()), target, Options(), lambda _: None, Silent()))


def test_target_that_dies_in_the_middle_is_not_accused(add, ping):
    one = ping.replace("within: 20", "within: 10")  # with more they would be slow, and run beside each other
    add(one)
    home = add(one.replace("id: test/ping", "id: test/zlater"), "test/zlater")
    results, _, stopped = judged(home, DiesAtPing(), jobs=1)
    assert stopped is not None
    assert re.match(r"the broker went away at 0\.\d s during test/ping: no connection to .*; it does not count$", stopped)
    assert results == []


def test_target_that_refuses_in_the_middle_is_not_accused(add, ping):
    results, _, stopped = judged(add(ping.replace("within: 20", "within: 10")), RefusesAfterPing(), jobs=1)
    assert stopped is not None
    assert re.match(
        r"the broker began to refuse connections at 0\.\d s during test/ping: .* refused CONNECT: expired \(give a token", stopped
    )
    assert results == []


def test_target_that_hangs_in_the_middle_is_not_asked_for_ever(add, ping, monkeypatch):
    peer = HangsAtPing(lambda: monkeypatch.setattr("conformance.running.exchange._SECONDS", 0.5))
    add(ping.replace("within: 20", "within: 0.2"))
    home = add(ping.replace("id: test/ping", "id: test/zlater").replace("within: 20", "within: 600"), "test/zlater")
    results, _, stopped = judged(home, peer, jobs=1)
    assert stopped is not None
    assert "the broker went away at 0.0 s during test/ping" in stopped
    assert "does not answer connect within 0.5 s" in stopped
    assert results == []


def test_requirements_and_settings_that_a_target_does_not_meet(add, ping):
    add(ping.replace("ambient: []", "ambient: []\nrequires: [topic-list-watch]"))
    add(ping.replace("test/ping", "test/settings").replace("ambient: []", "ambient: []\ntarget_config: {a: b}"), "test/settings")
    add(ping.replace("test/ping", "test/absent").replace("ambient: []", 'ambient: []\nrequires: ["!connected-flags"]'), "test/absent")
    other = ping.replace("test/ping", "test/other").replace(
        "ambient: []", "ambient: []\nrequires: [partition-watch]\ntarget_config: {a: b}"
    )
    add(other, "test/other")
    home = add(ping.replace("test/ping", "test/room").replace("ambient: []", "ambient: []\nvars: {ns: {$fresh: namespace}}"), "test/room")
    results, _, _ = judged(home, Peer())
    assert {result.case: str(result.verdict) for result in results} == {
        "test/absent": "PASS",
        "test/other": "NOT-APPLICABLE",  # nothing was started for its settings
        "test/ping": "NOT-APPLICABLE",
        "test/room": "UNTESTABLE",
        "test/settings": "UNTESTABLE",
    }


def test_negative_case_without_its_control_says_nothing(add, ping):
    add(
        ping.replace("test/ping", "test/control").replace("{pong: {}}", "{success: {}}").replace("within: 20", "within: 0.2"),
        "test/control",
    )
    home = add(ping.replace("ambient: []", "ambient: []\ncontrol: test/control"))
    results, _, _ = judged(home, Peer(), select=["test/ping"])
    assert {result.case: str(result.verdict) for result in results} == {"test/control": "FAIL", "test/ping": "UNTESTABLE"}


def test_trials_matrix_and_repeat(add, ping):
    home = add(ping.replace("ambient: []", "ambient: []\ntrials: {count: 3}\nmatrix: {x: [1, 2]}"))
    results, records, _ = judged(home, Peer(), repeat=2)
    assert [(result.cell, result.trials, result.verdict) for result in results] == [({"x": 1}, 6, "PASS"), ({"x": 2}, 6, "PASS")]
    keys = [record.key for record in records if record.record == "conversation"]
    assert len(set(keys)) == 12
    assert "the rate is below 50.0%" in results[0].summary


def test_what_waits_for_many_answers_begins_first(add, ping):
    quick = ping.replace("    within: 20\n", "")
    add(quick.replace("test/ping", "test/a"), "test/a")
    loop = "  - for: {i: {$range: [0, 60]}}\n    do:\n      - client: {ping: {}}\n      - broker: {pong: {}}\n"
    home = add(quick.replace("test/ping", "test/b").replace("end: none", f"{loop}end: none"), "test/b")
    results, records, _ = judged(home, Peer(), jobs=1)
    assert [result.verdict for result in results] == ["PASS", "PASS"]
    assert [record.case for record in records if record.record == "conversation"] == ["test/b", "test/a"]


def test_interrupted_run_keeps_what_was_measured(add, ping):
    endless = ping.replace("  - broker: {pong: {}}\n    within: 20", "  - broker: {success: {}}\n    within: 600")
    suite = load_suite(add(endless))
    records = []

    async def go():
        async with running(Peer()) as target:
            begun = asyncio.Event()

            def write(record):
                records.append(record)
                if record.record == "frame":
                    begun.set()

            task = asyncio.create_task(run_suite(suite, target, Options(), write, Silent()))
            async with asyncio.timeout(60):
                await begun.wait()
            task.cancel()
            return await task

    run, stopped = asyncio.run(go())
    assert stopped == "interrupted"
    assert not run.complete
    assert records[-1].record == "finished"


OWN_NAMESPACES = """\
format: 1
id: test/own
title: A case with two namespaces
tests: [broker]
clauses: [test.pong]
ambient: []
vars: {a: {$fresh: namespace}, b: {$fresh: namespace}, own: {$fresh: missing-namespace}}
steps:
  - admin: [{create_topic: "persistent://${a}/t"}, {create_namespace: $own}]
  - open: c
  - client: {ping: {}}
  - broker: {pong: {}}
  - advance: 600
end: none
"""


def own_namespaces(broker):
    return [name for name in broker.call(lambda one: one.admin.namespaces("public")) if "/pc-" in name]


@pytest.mark.parametrize("interrupted", [False, True])
def test_namespaces_are_gone_after_a_run_on_a_broker_that_stays(add, interrupted):
    text = OWN_NAMESPACES if interrupted else OWN_NAMESPACES.replace("  - advance: 600\n", "")
    suite = load_suite(add(text, "test/own"))

    async def go():
        async with EmbeddedBroker() as broker:
            target = AttachedTarget(Endpoint(name="attached", service_url=broker.service_url, admin_url=broker.admin_url))
            run = asyncio.create_task(run_suite(suite, target, Options(), lambda _: None, Silent()))
            if interrupted:
                async with asyncio.timeout(60):
                    while len(own_namespaces(broker)) < 4:  # the first one shows that both addresses are of one broker
                        await asyncio.sleep(0)
                run.cancel()
            _, stopped = await run
            return stopped, own_namespaces(broker)

    assert asyncio.run(go()) == ("interrupted" if interrupted else None, [])
