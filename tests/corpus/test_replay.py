import dataclasses
import json
from collections import Counter

import pytest

from conformance.corpus.errors import CorpusError
from conformance.corpus.jobs import replay_watches
from conformance.corpus.replay import partitions, scalable
from conformance.corpus.replay.changes import (
    LogOptions,
    PartitionLog,
    ScalableChange,
    ScalableLog,
    Watcher,
    partition_log,
    scalable_log,
    watcher,
)
from conformance.corpus.replay.spread import Way, replay, replayed, ways
from conformance.corpus.replay.tally import Tally
from refimpl.wire import decode_frame, encode_frame, wrap
from refimpl.wire.pulsar_api_pb2 import CommandWatchScalableTopicsUpdate, ScalableTopicsDiff

OPTIONS = LogOptions(seed=5, namespaces=3, seconds=120, quiet=11, topics=30)
EU = Watcher(0, 0, 0, {"region": "eu"}, ())
ALL = Watcher(0, 0, 0, {}, ())


def scalable_changes(*changes, beginning=()):
    listed = [ScalableChange(at, f"topic://t/n/{name}", None if region is None else {"region": region}) for at, name, region in changes]
    return ScalableLog("t/n", {f"topic://t/n/{name}": {"region": "eu"} for name in beginning}, tuple(listed))


def diffs(frames):
    def short(topics):
        return [topic.rpartition("/")[2] for topic in topics]

    told = [(at, decode_frame(frame).command.watchScalableTopicsUpdate.diff) for at, frame in frames]
    return [(at, short(diff.added), short(diff.removed)) for at, diff in told]


def watched(log, window, rule="last_wins", who=EU):
    frames = []
    tally = scalable.watch(log, who, window, rule, 1, frames)
    return tally, diffs(frames)


def test_logs_depend_on_seed_and_namespace_alone():
    assert scalable_log.__wrapped__(OPTIONS, 1) == scalable_log.__wrapped__(OPTIONS, 1)
    assert scalable_log(OPTIONS, 1).changes != scalable_log(OPTIONS, 2).changes
    assert partition_log(OPTIONS, 1).changes != partition_log(dataclasses.replace(OPTIONS, seed=6), 1).changes
    assert watcher(OPTIONS, 7) == watcher(OPTIONS, 7) != watcher(OPTIONS, 10)


@pytest.mark.parametrize("namespace", range(3))
def test_logs_are_in_order_and_end_before_the_quiet(namespace):
    times = [change.at for change in scalable_log(OPTIONS, namespace).changes]
    assert times == sorted(times)
    assert times[-1] <= OPTIONS.seconds * 1000 < OPTIONS.end
    log = partition_log(OPTIONS, namespace)
    assert [change[0] for change in log.changes] == sorted(change[0] for change in log.changes)
    counts = dict(log.beginning)
    for _, topic, count in log.changes:
        assert count > counts[topic]
        counts[topic] = count
    assert log.at(OPTIONS.end) == counts


def test_a_log_has_a_background_and_bursts():
    quiet = dataclasses.replace(OPTIONS, seconds=1000, per_second=0.5, bursts_per_minute=0)
    bursts = dataclasses.replace(quiet, per_second=0, bursts_per_minute=6, burst=30)
    background = partition_log(quiet, 0).changes
    assert len(background) == pytest.approx(500, rel=0.2)
    assert len(partition_log(bursts, 0).changes) == pytest.approx(3000, rel=0.3)
    seconds = Counter(at // 1000 for at, _, _ in partition_log(bursts, 0).changes)
    assert max(seconds.values()) > 20 > max(Counter(at // 1000 for at, _, _ in background).values())


def test_a_window_begins_with_its_first_change_and_ends_before_a_change_of_that_instant():
    log = scalable_changes((100, "a", "eu"), (149, "b", "eu"), (150, "c", "eu"), (151, "d", "us"), (400, "a", None))
    tally, told = watched(log, 50)
    assert told == [(150, ["a", "b"], []), (200, ["c"], []), (450, [], ["a"])]
    assert tally.staleness == {51: 3, 2: 1}
    assert (tally.changes, tally.untold, tally.frames_to_client) == (4, 0, 3)
    assert all(tally.laws.values())


def test_a_window_of_nothing_is_a_diff_for_each_change():
    tally, told = watched(scalable_changes((100, "a", "eu"), (100, "b", "eu"), (100, "a", "us")), 0)
    assert told == [(100, ["a"], []), (100, ["b"], []), (100, [], ["a"])]
    assert tally.staleness == {1: 3}


def test_what_comes_and_goes_is_told_or_not_by_the_rule():
    log = scalable_changes((100, "a", "eu"), (110, "a", None), (300, "b", None), (310, "b", "eu"), beginning=["b"])
    tally, told = watched(log, 50, "last_wins")
    assert told == [(150, [], ["a"]), (350, ["b"], [])]
    assert tally.untold == 0
    tally, told = watched(log, 50, "cancels_out")
    assert told == [(350, ["b"], ["b"])]
    assert (tally.changes, tally.untold, tally.staleness) == (4, 2, {51: 1, 41: 1})
    assert all(tally.laws.values())


def test_a_poll_gets_the_list_only_if_it_has_changed():
    log = scalable_changes((1500, "b", "eu"), (3100, "c", "eu"), (3200, "c", None), beginning=["a"])
    tally = scalable.poll(log, EU, 1000, 6000, 1)
    assert (tally.frames_to_broker, tally.frames_to_client) == (5, 5)
    assert (tally.changes, tally.untold, tally.staleness) == (3, 2, {2002 - 1500: 1})
    same = scalable.poll(scalable_changes(beginning=["a"]), EU, 1000, 6000, 1)
    assert tally.bytes_to_client - same.bytes_to_client == sum(2 + len(f"topic://t/n/{name}") for name in "ab")
    assert tally.laws == {"listing": True, "hash": True}


def test_who_polls_too_seldom_is_found_out():
    log = scalable_changes((5000, "b", "eu"))
    assert scalable.poll(log, ALL, 4000, 6000, 1).laws == {"listing": False, "hash": False}


def test_frames_are_compared_with_those_of_the_reference():
    log = scalable_changes((100, "a", "eu"), (110, "a", None), (300, "b", "eu"), (349, "c", "eu"), (350, "d", "eu"))
    for rule in ("last_wins", "cancels_out"):
        frames = []
        scalable.watch(log, EU, scalable.REFERENCE_WINDOW, rule, 1, frames)
        assert frames == scalable.reference_frames(log, EU, rule)
    assert frames != scalable.reference_frames(log, EU, "last_wins")
    assert frames != scalable.reference_frames(log, ALL, "cancels_out")[1:]


def test_bytes_are_those_of_the_frames():
    tally = Tally()
    update = CommandWatchScalableTopicsUpdate(watch_id=1, diff=ScalableTopicsDiff(added=["topic://public/a2/t1"]))
    tally.to_client(update)
    assert tally.bytes_to_client == len(encode_frame(wrap(update))) == 0x23 + 4
    assert tally.frames_to_client == 1


PARTITIONED = PartitionLog({"a": 2, "b": 3, "c": 1}, ((100, "a", 4), (130, "b", 5), (135, "a", 6), (140, "c", 9), (900, "b", 7)))
BOTH = Watcher(0, 0, 0, {}, ("a", "b"))


def test_partition_updates_go_out_for_each_change_or_after_a_window():
    each, gathered = partitions.watch(PARTITIONED, BOTH, 0, 1), partitions.watch(PARTITIONED, BOTH, 50, 1)
    assert (each.frames_to_client, each.frames_to_broker, each.staleness) == (4, 4, {1: 4})
    assert (gathered.frames_to_client, gathered.frames_to_broker) == (2, 2)
    assert gathered.staleness == {51: 2, 21: 1, 16: 1}
    assert each.laws == gathered.laws == {"listing": True, "versions-grow": True}
    assert each.bytes_to_client == 2 * gathered.bytes_to_client


def test_partition_polls_ask_for_each_topic():
    tally = partitions.poll(PARTITIONED, BOTH, 500, 1600, 1)
    assert (tally.frames_to_broker, tally.frames_to_client) == (6, 6)
    assert tally.staleness == {402: 1, 372: 1, 367: 1, 102: 1}
    assert tally.laws == {"listing": True}
    assert partitions.poll(PARTITIONED, BOTH, 500, 900, 1).laws == {"listing": False}


@pytest.mark.parametrize("way", ways([5000], [0, 50, 1000]), ids=lambda way: f"{way.proposal} {way.kind} {way.milliseconds}")
def test_all_laws_hold_for_many_watchers(way):
    tallies = [replay(OPTIONS, number, way, latency=3, compare=True) for number in range(12)]
    assert all(tally.laws and all(tally.laws.values()) for tally in tallies)
    assert sum(tally.changes for tally in tallies) > 0
    for tally in tallies:
        assert tally.changes == tally.untold + tally.staleness.total()
        assert all(3 <= late <= way.milliseconds + 6 for late in tally.staleness)
    has_reference = (way.proposal, way.milliseconds) == ("pr25648", 50)
    assert ("reference" in tallies[0].laws) == has_reference


def test_a_longer_window_has_fewer_frames():
    def frames(window):
        return sum(
            replay(OPTIONS, number, Way("pr25648", "last_wins", window), latency=1, compare=False).frames_to_client for number in range(6)
        )

    assert frames(0) > frames(50) > frames(1000) > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ways([0], [1]), "polls have intervals from 1 ms, watches have windows from 0 ms, not [0] and [1]"),
        (lambda: LogOptions(per_second=-1), "a log has no negative seed"),
        (lambda: LogOptions(topics=0), "a log has at least 1 namespace"),
        (
            lambda: replayed(None, OPTIONS, 1, ways([11_000], [])),
            "a poll each 11000 ms needs as long a time without changes at the end, not 11 s",
        ),
        (lambda: replay_watches._numbers("1,x"), "separated by commas, not '1,x'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(make, message):
    with pytest.raises(CorpusError) as refused:
        make()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_job_replays_and_sums_up(spark):
    arguments = "--watchers 12 --namespaces 2 --seconds 60 --quiet 6 --topics 20 --intervals 5000 --windows 0,50 --compare-every 2"
    options = replay_watches.JOB.parser().parse_args(arguments.split())
    findings = replay_watches.check(replay_watches.Run(spark, options))
    assert [law.name for law in findings.laws] == [law.name for law in replay_watches.LAWS]
    assert all(law.holds for law in findings.laws)
    assert next(law for law in findings.laws if law.name == "reference").checked == 12
    found = {(way["proposal"], way["way"], way["milliseconds"]): way for way in findings.counters["ways"]}
    assert len(found) == 8
    log = LogOptions(options.seed, 2, 60, 6, 20)
    here = [replay(log, number, Way("pr25648", "cancels_out", 50), latency=1, compare=False) for number in range(12)]
    there = found["pr25648", "cancels_out", 50]
    assert there["bytes_to_client"] == sum(one.bytes_to_client for one in here)
    assert there["staleness_ms"]["max"] == max(late for one in here for late in one.staleness)
    assert json.dumps(findings.counters)
