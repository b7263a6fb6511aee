"""Brokers that tell wrongly how a set of scalable topics has changed: too early, twice, in pieces, or not at all."""

from collections import Counter
from collections.abc import Hashable, Mapping

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import scalable_of
from refimpl.broker import Session
from refimpl.broker.requests import Handler
from refimpl.proposals import scalable_topics
from refimpl.proposals.scalable_topics import COALESCING_SECONDS, ScalableTopicsBroker, ScalableTopicsExtension
from refimpl.proposals.scalable_topics.layout import parse_segment_topic
from refimpl.proposals.scalable_topics.rules import FoldedChanges, topic_of_path
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, CommandWatchScalableTopicsUpdate, ScalableTopicsDiff

Update = CommandWatchScalableTopicsUpdate
Updates = list[tuple[Hashable, Update]]


@mutant("pr25648.diff.on-create")
def tells_thirty_new_topics_at_most(patches: Patches) -> None:
    """Of more than thirty topics that come within a window thirty are told."""

    def change(_: Session, update: Update) -> None:
        if update.HasField("diff"):
            del update.diff.added[30:]

    patches.outgoing(Update, change)


@mutant("pr25648.diff.on-delete")
def tells_a_deletion_as_an_addition(patches: Patches) -> None:
    """A topic that was deleted is told as added."""

    def change(session: Session, update: Update) -> None:
        gone = [topic for topic in update.diff.removed if scalable_of(session.broker).record(topic) is None]
        if update.HasField("diff"):
            update.diff.removed[:] = [topic for topic in update.diff.removed if topic not in gone]
            update.diff.added.extend(gone)

    patches.outgoing(Update, change)


@mutant("pr25648.diff.on-property-change")
def reads_properties_at_the_creation_only(patches: Patches) -> None:
    """A change of properties is told to nobody."""

    def changed(scalable: ScalableTopicsExtension, topic: str, properties: Mapping[str, str]) -> None:
        record = scalable.record(topic)
        assert record is not None
        record.properties = dict(properties)

    patches.replace(ScalableTopicsExtension, "change", changed)


@mutant("pr25648.diff.flips-only")
def tells_every_change_of_a_selected_topic(patches: Patches) -> None:
    """A topic whose properties change and that is still selected is told as added again."""
    change = ScalableTopicsExtension.change

    def changed(scalable: ScalableTopicsExtension, topic: str, properties: Mapping[str, str]) -> None:
        watches = scalable.watches
        before = [one for some in watches._sessions.values() for one in some.values() if topic in (one.selection.topics or ())]
        change(scalable, topic, properties)
        for session in before:
            if topic in (session.selection.topics or ()):
                session.changed(topic, True)
                watches._armed.setdefault(session, scalable.host.now + COALESCING_SECONDS)

    patches.replace(ScalableTopicsExtension, "change", changed)


@mutant("pr25648.diff.filtered")
def judges_a_new_topic_by_one_filter(patches: Patches) -> None:
    """A new topic that has the first of several properties asked for is told."""
    notified = ScalableTopicsBroker.notified

    def changed(watches: ScalableTopicsBroker, path: str, now: float) -> None:
        notified(watches, path, now)
        topic = topic_of_path(path) or ""
        properties = watches._properties_of(topic)
        for selection in watches._selections.get("/".join(path.split("/")[2:4]), {}).values():
            key, value = next(iter(selection.filters.items()), ("", ""))
            if len(selection.filters) == 2 and properties is not None and properties.get(key) == value:
                for session in selection.sessions:
                    session.changed(topic, True)
                    watches._armed.setdefault(session, now + COALESCING_SECONDS)

    patches.replace(ScalableTopicsBroker, "notified", changed)


@mutant("pr25648.diff.direct-children")
def takes_a_subscription_for_a_change(patches: Patches) -> None:
    """A topic is told as added again when somebody subscribes to one of its segments."""

    def make(subscribe: Handler) -> Handler:
        def changed(session: Session, request: CommandSubscribe, frame: Frame) -> None:
            subscribe(session, request, frame)
            topic, _ = parse_segment_topic(request.topic) or ("", None)
            watches = scalable_of(session.broker).watches
            for one in [one for some in watches._sessions.values() for one in some.values()]:
                if topic in (one.selection.topics or ()):
                    one.changed(topic, True)
                    watches._armed.setdefault(one, session.broker.now + COALESCING_SECONDS)

        return changed

    patches.request("subscribe", make)


@mutant("pr25648.diff.every-watch")
def tells_fifteen_connections_at_most(patches: Patches) -> None:
    """Of the connections that watch a namespace the first fifteen are told of a change."""
    tick = ScalableTopicsBroker.tick

    def changed(watches: ScalableTopicsBroker, now: float) -> Updates:
        told: Counter[str] = Counter()
        updates = []
        for connection, update in tick(watches, now):
            namespace = watches._sessions[connection][update.watch_id].selection.namespace
            told[namespace] += 1
            if told[namespace] <= 15:
                updates.append((connection, update))
        return updates

    patches.replace(ScalableTopicsBroker, "tick", changed)


# The window


@mutant("pr25648.diff.window")
def closes_its_window_too_early(patches: Patches) -> None:
    """A diff is sent 20 ms after the first change that it tells."""
    patches.replace(scalable_topics, "COALESCING_SECONDS", 0.02)


@mutant("pr25648.diff.window-fixed")
def slides_its_window(patches: Patches) -> None:
    """Each further change prolongs the window."""
    notified = ScalableTopicsBroker.notified

    def changed(watches: ScalableTopicsBroker, path: str, now: float) -> None:
        notified(watches, path, now)
        namespace = "/".join(path.split("/")[2:4])
        for session in [one for one in watches._armed if one.selection.namespace == namespace]:
            watches._armed.pop(session)
            watches._armed[session] = now + COALESCING_SECONDS

    patches.replace(ScalableTopicsBroker, "notified", changed)


@mutant("pr25648.diff.one-frame")
def tells_removals_and_additions_apart(patches: Patches) -> None:
    """What was removed and what was added within a window are told in two frames."""

    def change(session: Session, update: Update) -> bool:
        if not (update.diff.removed and update.diff.added):
            return True
        session.send(Update(watch_id=update.watch_id, diff=ScalableTopicsDiff(removed=update.diff.removed)))
        session.send(Update(watch_id=update.watch_id, diff=ScalableTopicsDiff(added=update.diff.added)))
        return False

    patches.outgoing(Update, change)


@mutant("pr25648.diff.never-empty")
def ends_a_burst_with_an_empty_diff(patches: Patches) -> None:
    """After a diff with more than twenty topics comes one that is empty."""
    tick = ScalableTopicsBroker.tick

    def changed(watches: ScalableTopicsBroker, now: float) -> Updates:
        updates = []
        for connection, update in tick(watches, now):
            updates.append((connection, update))
            if len(update.diff.added) + len(update.diff.removed) > 20:
                updates.append((connection, Update(watch_id=update.watch_id, diff=ScalableTopicsDiff())))
        return updates

    patches.replace(ScalableTopicsBroker, "tick", changed)


# Several changes of one topic


@mutant("pr25648.diff.net-effect")
def forgets_that_a_topic_came_back(patches: Patches) -> None:
    """A topic that is deleted and created again within a window is told as removed."""
    add = FoldedChanges.add

    def changed(changes: FoldedChanges, topic: str) -> None:
        if topic not in changes._removed:
            add(changes, topic)

    patches.replace(FoldedChanges, "add", changed)


@mutant("pr25648.diff.cancels-out")
def tells_the_end_of_a_topic_that_nobody_saw(patches: Patches) -> None:
    """A topic that is created and deleted within a window is told as removed."""

    def changed(changes: FoldedChanges, topic: str) -> None:
        changes._added.pop(topic, None)
        changes._removed[topic] = None

    patches.replace(FoldedChanges, "remove", changed)


@mutant("pr25648.diff.both")
def tells_the_last_change_alone(patches: Patches) -> None:
    """A topic that is deleted and created again within a window is told as added."""

    def changed(changes: FoldedChanges, topic: str) -> None:
        changes._removed.pop(topic, None)
        changes._added[topic] = None

    patches.replace(FoldedChanges, "add", changed)
