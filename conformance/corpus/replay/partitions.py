"""A watcher of partitioned topics (PIP-247), with the reference's own broker and client.

poll     PARTITIONED_METADATA for each topic, once in an interval
watch    WATCH_PARTITION_UPDATE, its success, then an update with all topics of the watcher for each change, and a result for
         each update. With a window, which the proposal does not have, the update goes out at its end

The listener applies at once, so that no update is in flight when the next change comes. Time is in milliseconds;
broker and client do not depend on the unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from google.protobuf.message import Message

from conformance.corpus.replay.changes import PartitionLog, Watcher
from conformance.corpus.replay.tally import Tally
from refimpl.proposals.partition_watch import DEFAULT, PartitionWatch, PartitionWatchBroker
from refimpl.wire import wrap
from refimpl.wire.pulsar_api_pb2 import (
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandPartitionUpdate,
    CommandPartitionUpdateResult,
    CommandWatchPartitionUpdate,
    FeatureFlags,
)

_FLAGS = FeatureFlags(supports_partition_update_watchers=True)
_WATCHER_ID = 1
_RESULT_TIMEOUT = 10_000.0
_WITHOUT_RECONCILING = replace(DEFAULT, reconciles=False)


def poll(log: PartitionLog, watcher: Watcher, interval: int, end: int, latency: int) -> Tally:
    """Replay a log for a watcher that polls.

    Args:
        log: Of its namespace.
        watcher: Who.
        interval: Milliseconds from one round of requests to the next.
        end: When the replay ends, in milliseconds.
        latency: Milliseconds that a frame takes.
    """
    tally = Tally(latency)
    counts = log.at(watcher.opened)
    client = PartitionWatch(
        watcher.topics, _WATCHER_ID, counts={topic: counts[topic] for topic in watcher.topics}, enabled=False, poll_interval=interval
    )
    client.connected(None, watcher.opened)
    number = count(1)
    changes = iter(_changes(log, watcher))
    change = next(changes, None)
    while (sent := client.next_deadline()) is not None and sent <= end - 2 * latency:
        while change is not None and change[0] <= sent + latency:
            at, topic, grown = change
            counts[topic] = grown
            tally.changed(topic, at)
            change = next(changes, None)
        client.tick(sent)
        for request in client.commands_to_send(lambda: next(number), sent):
            assert isinstance(request, CommandPartitionedTopicMetadata)
            tally.to_broker(request)
            response = CommandPartitionedTopicMetadataResponse(
                request_id=request.request_id, response=CommandPartitionedTopicMetadataResponse.Success, partitions=counts[request.topic]
            )
            tally.to_client(response)
            client.received(wrap(response), sent + 2 * latency)
        _listen(client, sent)
        tally.knows(watcher.topics, int(sent) + 2 * latency)
    tally.laws = {"listing": _is_right(client, log, watcher, end)}
    return tally


def watch(log: PartitionLog, watcher: Watcher, window: int, latency: int) -> Tally:
    """Replay a log for a watcher that watches.

    Args:
        log: Of its namespace.
        watcher: Who.
        window: Milliseconds from the first announced change to the update.
        latency: Milliseconds that a frame takes.
    """
    tally = Tally(latency)
    counts = log.at(watcher.opened)
    side = PartitionWatchBroker(counts.__getitem__, str, result_timeout=_RESULT_TIMEOUT)
    client = PartitionWatch(watcher.topics, _WATCHER_ID, profile=_WITHOUT_RECONCILING)
    client.connected(_FLAGS, watcher.opened)
    number = count(1)
    for request in client.commands_to_send(lambda: next(number), watcher.opened):
        assert isinstance(request, CommandWatchPartitionUpdate)
        tally.opened(request)
        success = side.watch(watcher.number, request)
        tally.opened(success)
        client.received(wrap(success), watcher.opened)
        _listen(client, watcher.opened)
    versions: list[int] = []
    topics: dict[str, None] = {}
    due = None

    def tell(at: int) -> None:
        for topic in topics:
            exchange([update for _, update in side.changed(topic, at)], at)
        topics.clear()
        tally.knows(watcher.topics, at + latency)

    def exchange(updates: Iterable[Message], at: int) -> None:
        for update in updates:
            assert isinstance(update, CommandPartitionUpdate)
            versions.append(update.version)
            tally.to_client(update)
            client.received(wrap(update), at)
            _listen(client, at)
            for result in client.commands_to_send(lambda: next(number), at):
                assert isinstance(result, CommandPartitionUpdateResult)
                tally.to_broker(result)
                side.result(watcher.number, result, at)

    for at, topic, grown in _changes(log, watcher):
        if due is not None and due <= at:
            tell(due)
            due = None
        counts[topic] = grown
        topics[topic] = None
        tally.changed(topic, at)
        if window == 0:
            tell(at)
        elif due is None:
            due = at + window
    if due is not None:
        tell(due)
    tally.laws = {
        "listing": _is_right(client, log, watcher, log.changes[-1][0] if log.changes else 0),
        "versions-grow": versions == list(range(1, len(versions) + 1)) and side.next_deadline() is None and not side.unexpected_results,
    }
    return tally


def _changes(log: PartitionLog, watcher: Watcher) -> list[tuple[int, str, int]]:
    watched = set(watcher.topics)
    return [change for change in log.changes if change[0] > watcher.opened and change[1] in watched]


def _listen(client: PartitionWatch, at: float) -> None:
    while client.next_call() is not None:
        client.called(True, at)


def _is_right(client: PartitionWatch, log: PartitionLog, watcher: Watcher, time: int) -> bool:
    counts = log.at(time)
    return client.counts == {topic: counts[topic] for topic in watcher.topics}
