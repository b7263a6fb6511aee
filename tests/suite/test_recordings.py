"""Recordings are kept, merged, found stale, and judged again to the same verdict."""

import asyncio
from dataclasses import replace

import pytest

from conformance.engine import log
from conformance.judging.applicability import completed, not_recorded
from conformance.judging.results import RunLog, judge_log
from conformance.running import recorder
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import load_suite
from refimpl.wire.commands import command, command_name
from refimpl.wire.frames import encode_frame
from tests.fakes.peers import Peer, running


def record(home, folder, peer=None, **options):
    suite = load_suite(home)

    async def go():
        async with running(peer or Peer()) as target:
            return (await run_suite(suite, target, Options(**options), lambda _: None, Silent()))[0]

    run = asyncio.run(go())
    return suite, recorder.save(run, judge_log(suite, run), folder)


def test_recording_is_judged_to_the_same_verdict(add, tmp_path):
    suite, paths = record(add(), tmp_path / "rec")
    assert [path.name for path in paths] == ["test.jsonl.gz"]
    run = recorder.load(paths[0])
    again = judge_log(suite, run).results
    assert [(one.case, one.verdict, one.clauses) for one in again] == [(one.case, one.verdict, one.clauses) for one in run.results]
    assert recorder.stale(suite, run) == []
    assert recorder.targets(tmp_path / "rec") == ["peer"]
    assert run.header.service_url == ""


def test_new_recording_keeps_other_cases(add, ping, tmp_path):
    add()
    home = add(ping.replace("test/ping", "test/two"), "test/two")
    _, paths = record(home, tmp_path / "rec", select=["test/ping"])
    _, paths = record(home, tmp_path / "rec", select=["test/two"])
    assert list(recorder.load(paths[0]).trial_logs) == ["test/ping#0", "test/two#0"]


def test_matrix_with_another_variable_makes_a_recording_stale(add, ping, tmp_path):
    with_matrix = ping.replace("steps:", "matrix: {old: [1]}\nvars: {n: $old}\nsteps:", 1)
    _, paths = record(add(with_matrix), tmp_path / "rec")
    run = recorder.load(paths[0])
    assert recorder.stale(load_suite(add(with_matrix)), run) == []
    assert recorder.stale(load_suite(add(with_matrix.replace("old", "new"))), run) == ["test/ping"]


def test_changed_actions_make_a_recording_stale_and_changed_expectations_do_not(add, ping, tmp_path):
    _, paths = record(add(), tmp_path / "rec")
    run = recorder.load(paths[0])
    changed = load_suite(add(ping.replace("{pong: {}}", "{success: {}}")))
    assert recorder.stale(changed, run) == []
    assert judge_log(changed, run).results[0].verdict == "FAIL"
    recorder.accept(changed, paths[0])
    assert recorder.load(paths[0]).results[0].verdict == "FAIL"
    assert recorder.stale(load_suite(add(ping.replace("client: {ping: {}}", "client: {pong: {}}"))), run) == ["test/ping"]
    assert recorder.without(run, ["test/ping"]).trial_logs == {}


def test_of_trials_the_first_ten_are_kept(add, ping, tmp_path):
    _, paths = record(add(ping.replace("ambient: []", "ambient: []\ntrials: {count: 13}")), tmp_path / "rec")
    assert len(recorder.load(paths[0]).trial_logs) == 10


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x1f\x8bbroken", "can't be read"),
        (b"not json\n", r":1: not a record of an event log"),
        (b'{"record":"frame","key":"a"}\n', r":1: not a record of an event log \(frame.n: Field required\)"),
        (b"", "no header"),
        (b'{"record":"header","format":9,"suite":"x","transcripts":"x","target":"x","started":"x"}', "format 9; this version reads 1"),
    ],
)
def test_recording_that_can_not_be_read(tmp_path, content, words):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(log.LogError, match=words):
        recorder.load(path)


def test_log_that_was_cut_is_judged_as_far_as_it_goes(add):
    suite = load_suite(add())
    records = []

    async def go():
        async with running(Peer()) as target:
            await run_suite(suite, target, Options(), records.append, Silent())

    asyncio.run(go())
    run = recorder.read_log(records[:-2], "cut")
    assert isinstance(run, RunLog)
    assert not run.complete
    assert judge_log(suite, run).results[0].verdict == "ERROR"


@pytest.fixture(name="add_second")
def second_case(add, ping):
    """Write a second case with the keys given in front of its steps."""
    return lambda keys: load_suite(add(ping.replace("test/ping", "test/two").replace("steps:", f"{keys}\nsteps:", 1), "test/two"))


def test_a_case_that_a_target_can_not_be_asked_needs_no_recording(add, add_second, tmp_path):
    _, (path,) = record(add(), tmp_path / "rec")
    suite = add_second("requires: [partition-watch]")
    run = completed(suite, recorder.load(path))
    assert [(one.case, one.verdict) for one in judge_log(suite, run).results] == [("test/ping", "PASS"), ("test/two", "NOT-APPLICABLE")]
    assert "supports_partition_update_watchers" in run.skipped[0].reason
    assert recorder.stale(suite, run) == []


def test_a_case_that_a_target_could_run_is_missed_or_said_to_be_pending(add, add_second, tmp_path):
    _, (path,) = record(add(), tmp_path / "rec")
    run = recorder.load(path)
    suite = add_second('requires: ["!partition-watch"]')
    assert recorder.stale(suite, completed(suite, run)) == ["test/two"]
    assert not_recorded(suite, run) == []
    suite = add_second("recorded: pending")
    assert recorder.stale(suite, completed(suite, run)) == []
    assert not_recorded(suite, run) == ["test/two"]
    pending = judge_log(suite, completed(suite, run)).results[1]
    assert (pending.verdict, pending.summary) == ("UNTESTABLE", "not recorded yet")


@pytest.mark.parametrize(("flags", "verdicts"), [({}, ["NOT-APPLICABLE"]), ({"supports_partition_update_watchers": True}, [])])
def test_a_flag_that_is_younger_than_a_recording_is_read_from_its_connected(add, ping, add_second, tmp_path, flags, verdicts):
    shaking = ping.replace(
        "  - client: {ping", "  - client: {connect: {client_version: x}}\n  - broker: {connected: {}}\n  - client: {ping"
    )
    _, (path,) = record(add(shaking), tmp_path / "rec", peer=Flagged(flags))
    run = recorder.load(path)
    header = run.header.model_copy(update={"capabilities": {"admin": True, "config": True}})
    suite = add_second("requires: [partition-watch]")
    older = replace(run, header=header)
    assert [one.verdict for one in completed(suite, older).skipped] == verdicts
    path.write_text(
        "".join(
            log.dump(record) + "\n"
            for record in (header, *(one for trial in run.trial_logs.values() for one in (trial.begin, *trial.events)))
        )
    )
    read = recorder.load_target("peer", tmp_path / "rec", only={"other/two"})
    assert (read.trial_logs, read.header.capabilities["partition-watch"]) == ({}, bool(flags))


class Flagged(Peer):
    """A broker of a few lines that sets feature flags."""

    def __init__(self, flags):
        self.flags = flags

    async def answer(self, frame, writer):
        if command_name(frame.command) == "connect":
            writer.write(encode_frame(command("connected", server_version="Peer", protocol_version=21, feature_flags=self.flags)))
        else:
            await super().answer(frame, writer)
