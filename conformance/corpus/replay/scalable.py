"""A watcher of scalable topics (PR 25648).

poll     GET_TOPICS_OF_NAMESPACE with the filters as properties and the hash of what is known, once in an interval; the answer has
         the topics only if the hash is another
watch    WATCH_SCALABLE_TOPICS, a snapshot, then a diff at the end of each window, which begins with the first change in it;
         a window of 0 is one diff for each change

The watching client is the reference's own. What the broker says after a window of 50 ms is compared with the reference's own broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Literal

from google.protobuf.message import Message

from conformance.corpus.replay.changes import ScalableLog, Watcher
from conformance.corpus.replay.tally import Tally
from refimpl.proposals.scalable_topics import (
    COALESCING_SECONDS,
    ScalableTopicsBroker,
    ScalableTopicsProfile,
    ScalableTopicsWatch,
    record_path,
    topics_hash,
)
from refimpl.proposals.scalable_topics.rules import DEFAULT, fits
from refimpl.wire import encode_frame, wrap
from refimpl.wire.pulsar_api_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsUpdate,
    FeatureFlags,
    KeyValue,
    ScalableTopicsDiff,
    ScalableTopicsSnapshot,
)

Rule = Literal["last_wins", "cancels_out"]
REFERENCE_WINDOW = round(COALESCING_SECONDS * 1000)
"""Milliseconds of the window that the proposal has."""
_WATCH_ID = 1
_FLAGS = FeatureFlags(supports_scalable_topics=True)


def listing(log: ScalableLog, watcher: Watcher, time: int) -> set[str]:
    """Return what a watcher selects at a time."""
    return {topic for topic, properties in log.at(time).items() if fits(properties, watcher.filters)}


def flips(log: ScalableLog, watcher: Watcher) -> Iterator[tuple[int, str, bool]]:
    """Yield when a topic comes into the selection of a watcher, or leaves it, after the watcher began."""
    selected = listing(log, watcher, watcher.opened)
    for change in log.changes:
        if change.at <= watcher.opened:
            continue
        comes = change.properties is not None and fits(change.properties, watcher.filters)
        if comes != (change.topic in selected):
            (selected.add if comes else selected.remove)(change.topic)
            yield change.at, change.topic, comes


def poll(log: ScalableLog, watcher: Watcher, interval: int, end: int, latency: int) -> Tally:
    """Replay a log for a watcher that polls.

    Args:
        log: Of its namespace.
        watcher: Who.
        interval: Milliseconds from one request to the next.
        end: When the replay ends, in milliseconds.
        latency: Milliseconds that a frame takes.
    """
    tally = Tally(latency)
    known = listing(log, watcher, watcher.opened)
    tally.opened(_request(log, watcher, 1, None))
    tally.opened(_response(1, known, topics_hash(known), changed=True))
    known_hash, topics = topics_hash(known), set(known)
    coming = flips(log, watcher)
    flip = next(coming, None)
    for number, sent in enumerate(range(watcher.opened + interval, end - 2 * latency + 1, interval), 2):
        tally.to_broker(_request(log, watcher, number, known_hash))
        while flip is not None and flip[0] <= sent + latency:
            at, topic, comes = flip
            (topics.add if comes else topics.remove)(topic)
            tally.changed(topic, at)
            flip = next(coming, None)
        changed = known_hash != (current := topics_hash(topics) if tally.waits else known_hash)
        response = _response(number, topics if changed else (), current, changed=changed)
        tally.to_client(response)
        tally.knows(known ^ topics, sent + 2 * latency)
        known, known_hash = set(response.topics) if response.changed else known, response.topics_hash
    right = listing(log, watcher, end)
    tally.laws = {"listing": known == right, "hash": known_hash == topics_hash(right)}
    return tally


def watch(
    log: ScalableLog, watcher: Watcher, window: int, rule: Rule, latency: int, frames: list[tuple[int, bytes]] | None = None
) -> Tally:
    """Replay a log for a watcher that watches.

    Args:
        log: Of its namespace.
        watcher: Who.
        window: Milliseconds from the first announced change to the diff.
        rule: How changes within a window are folded.
        latency: Milliseconds that a frame takes.
        frames: Gets when each frame after the snapshot is sent, and its bytes.
    """
    tally = Tally(latency)
    client = _client(log, watcher)
    for request in client.commands_to_send(int, watcher.opened):
        tally.opened(request)
    snapshot = ScalableTopicsSnapshot(topics=sorted(listing(log, watcher, watcher.opened)))
    _tell(client, _update(snapshot=snapshot), tally.opened)
    happened: list[tuple[str, bool]] = []
    due, empty = None, False

    def tell(at: int) -> None:
        nonlocal empty
        diff = folded(happened, rule)
        happened.clear()
        if diff is None:
            tally.knows((), at + latency)
            return
        update = _update(diff=diff)
        empty |= not (update.diff.added or update.diff.removed)
        _tell(client, update, tally.to_client)
        tally.knows({*diff.added, *diff.removed}, at + latency)
        if frames is not None:
            frames.append((at, encode_frame(wrap(update))))

    for at, topic, comes in flips(log, watcher):
        if due is not None and due <= at:
            tell(due)
            due = None
        happened.append((topic, comes))
        tally.changed(topic, at)
        if window == 0:
            tell(at)
        elif due is None:
            due = at + window
    if due is not None:
        tell(due)
    right = listing(log, watcher, log.changes[-1].at if log.changes else 0)
    tally.laws = {"listing": client.topics == right, "hash": client.topics_hash == topics_hash(right), "never-empty": not empty}
    return tally


def folded(happened: Sequence[tuple[str, bool]], rule: Rule) -> ScalableTopicsDiff | None:
    """Fold what happened in a window into a diff; None: there is nothing to tell. It shares no code with the reference's broker.

    A topic is added if the last that happened to it was that it came. It is removed if the last (`last_wins`), or the first
    (`cancels_out`), was that it left. Each list is in the order of these.

    Args:
        happened: Topics, and whether they came; of each topic, one comes after the other is over.
        rule: How.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, (topic, _) in enumerate(happened):
        first.setdefault(topic, place)
        last[topic] = place
    added = [happened[place][0] for place in sorted(last.values()) if happened[place][1]]
    which = last if rule == "last_wins" else first
    removed = [happened[place][0] for place in sorted(which.values()) if not happened[place][1]]
    return ScalableTopicsDiff(added=added, removed=removed) if added or removed else None


def reference_frames(log: ScalableLog, watcher: Watcher, rule: Rule) -> list[tuple[int, bytes]]:
    """Return what the reference's own broker sends a watcher after the snapshot: when, in milliseconds, and the bytes of the frame."""
    topics = log.at(watcher.opened)
    side = ScalableTopicsBroker(lambda _: topics, topics.get, profile=ScalableTopicsProfile(rule, DEFAULT.loss_before_first_set))
    client = _client(log, watcher)
    for request in client.commands_to_send(int, watcher.opened):
        assert isinstance(request, CommandWatchScalableTopics)
        side.watch(watcher.number, request)
    sent: list[tuple[int, bytes]] = []

    def tick(until: float) -> None:
        while (deadline := side.next_deadline()) is not None and round(deadline * 1000) <= until:
            sent.extend((round(deadline * 1000), encode_frame(wrap(update))) for _, update in side.tick(deadline))

    for change in log.changes:
        if change.at <= watcher.opened:
            continue
        tick(change.at)
        if change.properties is None:
            topics.pop(change.topic, None)
        else:
            topics[change.topic] = change.properties
        side.notified(record_path(change.topic), change.at / 1000)
    tick(float("inf"))
    return sent


def _client(log: ScalableLog, watcher: Watcher) -> ScalableTopicsWatch:
    client = ScalableTopicsWatch(log.namespace, _WATCH_ID, Random(watcher.number), property_filters=watcher.filters)
    client.start()
    client.connected(_FLAGS, 0.0)
    return client


def _tell(client: ScalableTopicsWatch, update: CommandWatchScalableTopicsUpdate, count: Callable[[Message], None]) -> None:
    count(update)
    client.received(wrap(update), 0.0)


def _update(*, snapshot: ScalableTopicsSnapshot | None = None, diff: ScalableTopicsDiff | None = None) -> CommandWatchScalableTopicsUpdate:
    return CommandWatchScalableTopicsUpdate(watch_id=_WATCH_ID, snapshot=snapshot, diff=diff)


def _request(log: ScalableLog, watcher: Watcher, number: int, known: str | None) -> CommandGetTopicsOfNamespace:
    properties = [KeyValue(key=key, value=value) for key, value in watcher.filters.items()]
    return CommandGetTopicsOfNamespace(request_id=number, namespace=log.namespace, topics_hash=known, properties=properties)


def _response(number: int, topics: set[str] | tuple[()], current: str, *, changed: bool) -> CommandGetTopicsOfNamespaceResponse:
    return CommandGetTopicsOfNamespaceResponse(
        request_id=number, topics=sorted(topics), filtered=False, topics_hash=current, changed=changed
    )
