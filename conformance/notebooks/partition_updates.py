"""What the page over PIP-247 shows: bytes of polls and watchers, and clients that meet the reference broker in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from conformance.notebooks.live import Stage, applies
from conformance.notebooks.recorded import Recorded
from conformance.notebooks.shown import attempt
from refimpl.broker import PROPOSALS
from refimpl.proposals.partition_watch import DEFAULT, PartitionWatch, PartitionWatchBroker
from refimpl.proposals.partition_watch.rules import PROFILES
from refimpl.proposals.profiles import profile_name
from refimpl.wire import command, encode_frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand, CommandPartitionUpdateResult, CommandWatchPartitionUpdate, FeatureFlags

_FLAG = FeatureFlags(supports_partition_update_watchers=True)
_CASE = "pip247/flag/before-pip247"


def sizes(topics: int) -> dict[str, int]:
    """Return the bytes of each frame of a watcher for so many topics, and of a poll, which is about one topic."""
    names = [f"persistent://shop/eu/orders-{number:05}" for number in range(topics)]
    told = {"watcher_id": 0, "topic_with_partition": [{"topic": name, "partition": 4} for name in names]}
    one = {"topic": "persistent://shop/eu/orders-00000", "request_id": 9}
    return {
        "poll": _size("partitionMetadata", **one, metadata_auto_creation_enabled=False),
        "its answer": _size("partitionMetadataResponse", partitions=4, request_id=9, response="Success"),
        "watch request": _size("watchPartitionUpdate", request_id=9, watcher_id=0, topics=names),
        "success": _size("watchPartitionUpdateSuccess", request_id=9, **told),
        "update": _size("partitionUpdate", version=1, **told),
        "result": _size("partitionUpdateResult", version=1, success=True, watcher_id=0),
    }


def an_hour(topics: int, growths: int) -> dict[str, tuple[int, int]]:
    """Return how many frames and bytes an hour costs, in both directions, by the way in which a client learns of partitions.

    Args:
        topics: Of the client.
        growths: How many of them grow in the hour, one at a time.
    """
    all_, one = sizes(topics), sizes(1)
    opened = all_["watch request"] + all_["success"]
    growth = growths * (all_["update"] + all_["result"])
    each = topics * (one["watch request"] + one["success"]) + growths * (one["update"] + one["result"])
    return {
        "polls": (120 * topics, 60 * topics * (one["poll"] + one["its answer"])),
        "one watcher, default": (14 + 2 * growths, 7 * opened + growth),
        "one watcher, as-written": (2 + 2 * growths, opened + growth),
        "one each, as-written": (2 * topics + 2 * growths, each),
    }


def refusal(*topics: str, **settings: object) -> str:
    """Return how a broker answers a request for a watcher of topics that have two partitions each.

    Args:
        topics: Of the request.
        settings: Of `PartitionWatchBroker`.
    """
    broker = PartitionWatchBroker(lambda _: 2, str, **settings)  # type: ignore[arg-type]
    request = CommandWatchPartitionUpdate(request_id=1, watcher_id=1, topics=topics)
    return attempt(broker.watch, "a connection", request)[:90]


def watching(topic: str, partitions: int) -> PartitionWatch:
    """Return a client that has asked for watcher 7 of a topic that it knows with so many partitions, and has no answer yet."""
    client = PartitionWatch([topic], 7, counts={topic: partitions})
    client.connected(_FLAG, 0)
    client.commands_to_send(lambda: 1, 0)
    return client


def confirmed(*, topic: str, partition: int, watcher_id: int = 7) -> BaseCommand:
    """Return the success of that watcher."""
    pair = [{"topic": topic, "partition": partition}]
    return command("watchPartitionUpdateSuccess", request_id=1, watcher_id=watcher_id, topic_with_partition=pair)


def updated(version: int, *, topic: str, partition: int, watcher_id: int = 7) -> BaseCommand:
    """Return an update with one topic."""
    pair = [{"topic": topic, "partition": partition}]
    return command("partitionUpdate", version=version, watcher_id=watcher_id, topic_with_partition=pair)


def handle(client: PartitionWatch, update: BaseCommand, *, fails: bool = False) -> tuple[bool, int, int]:
    """Let a client of one topic take an update.

    Args:
        client: From `watching`.
        update: What it receives.
        fails: Whether its listener fails, if it is called.

    Returns:
        Whether the listener was called, how many results the client sent, and the number of partitions that it uses now.
    """
    client.received(update, 0)
    call = client.next_call()
    if call:
        client.called(not fails, 0)
    return bool(call), len(client.commands_to_send(lambda: 9, 0)), next(iter(client.counts.values()))


def sent_to_bad_client(profile: str, *, fails: bool, topic: str, seconds: float = 120) -> list[float]:
    """Return when the broker sent the update of one growth to a client that does not apply it.

    Args:
        profile: `default` or `as-written`.
        fails: Whether the client reports a failure each time, as it reads its input eight times a second; else it never answers.
        topic: Its topic.
        seconds: How long this lasts.
    """
    stage, answered = Stage(profile=profile), 0
    stage.connect()
    stage.say("watchPartitionUpdate", request_id=1, watcher_id=7, topics=[topic])
    stage.admin("create_partitioned_topic", topic, 3)
    while stage.wait(0.125) < seconds:
        sent = _updates(stage)
        if fails and sent > answered:
            answered = sent
            stage.say("partitionUpdateResult", version=1, success=False, watcher_id=7)
    return [row.t for row in stage.rows if row.head == "PARTITION_UPDATE" and row.t is not None]


def sent_to_slow_client(version_of: str, *, answers_after: int, topic: str, seconds: int = 100) -> dict[int, int]:
    """Return the versions that the broker sent for one growth, by the second, to a client that answers each update late.

    Args:
        version_of: `counts` if an update that is sent again keeps its version, `each` if each sending has its own.
        answers_after: How many seconds after an update its result comes.
        topic: Its topic.
        seconds: How long this lasts.
    """
    counts = {topic: 2}
    broker = PartitionWatchBroker(counts.get, str, profile=replace(DEFAULT, resend_version=version_of))  # type: ignore[arg-type]
    broker.watch("c", CommandWatchPartitionUpdate(request_id=1, watcher_id=1, topics=[topic]))
    counts[topic] = 3
    told = {0: broker.changed(topic, 0)[0][1].version}
    for now in range(1, seconds + 1):
        for _, update in broker.tick(now):
            told[now] = update.version
        if now - answers_after in told:
            broker.result("c", CommandPartitionUpdateResult(version=told[now - answers_after], success=True, watcher_id=1), now)
    return told


def polls(
    seconds: float, topic: str, settings: Mapping[str, str] | None = None, *, old: bool = False, enabled: bool = True
) -> list[object]:
    """Connect a client to a broker, and return the flag, the client's state, and how often it polls.

    Args:
        seconds: How long this lasts.
        topic: Its topic.
        settings: Of the broker, by Pulsar's keys.
        old: Whether the broker is from before the proposal.
        enabled: The client's setting.
    """
    stage = Stage(settings, proposals=PROPOSALS - {"pip247"} if old else PROPOSALS)
    client = PartitionWatch([topic], 7, enabled=enabled)
    flags = stage.connect("c", client, partial(client.tell, applies))
    stage.wait(seconds)
    asked = sum(row.head == "PARTITIONED_METADATA" for row in stage.rows)
    return [flags.supports_partition_update_watchers, client.state.name, asked]


def hour_of(client: str, broker: str, profile: str, *, topics: Iterable[str], grows_after: float) -> list[object]:
    """Let a client and a broker live through an hour, in which one of the topics grows.

    Args:
        client: `old` or `new`: whether it knows the proposal.
        broker: The same of the broker.
        profile: `default` or `as-written`.
        topics: Of the client, with two partitions each; the last one grows.
        grows_after: When, in seconds.

    Returns:
        Frames and bytes about partitions, in both directions, and how many seconds after the growth the client knew of it.
    """
    names = list(topics)
    stage = Stage(profile=profile, proposals=PROPOSALS - {"pip247"} if broker == "old" else PROPOSALS)
    for name in names:
        stage.admin("create_partitioned_topic", name, 2)
    known = dict.fromkeys(names, 2)
    watch = PartitionWatch(names, 0, counts=known, profile=PROFILES[profile_name(profile)], enabled=client == "new")
    stage.connect("c", watch, partial(watch.tell, applies))
    stage.wait(grows_after)
    stage.admin("update_partitioned_topic", names[-1], 3)
    stage.wait(3600 - grows_after)
    rows = [row for row in stage.rows if row.at == "c" and "PARTITION" in row.head]
    knew = next(row.t or 0.0 for row in rows if "partition: 3" in row.rest or "partitions: 3" in row.rest)
    return [len(rows), sum(len(row.data or b"") for row in rows), knew - grows_after]


def unknown_commands(release: str) -> list[object]:
    """Return whether a recorded release sets flag 5, and what it does on each command of the proposal that a client sends."""
    real = Recorded(release, "pip247")
    said = real.message("CONNECTED", _CASE)
    five = said.feature_flags.supports_get_partitioned_metadata_without_auto_creation
    did = {cell: what for cell, _, what in real.reactions(f"{_CASE}-commands")}
    return [release, five if said.HasField("feature_flags") else "without flags", *(did[one] for one in ("watch", "result", "close"))]


def _updates(stage: Stage) -> int:
    return sum(row.head == "PARTITION_UPDATE" for row in stage.rows)


def _size(name: str, **fields: object) -> int:
    return len(encode_frame(command(name, **fields)))
