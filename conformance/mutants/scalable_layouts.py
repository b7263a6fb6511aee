"""Brokers that are wrong about what a scalable topic is made of, or in what administrators are told of it."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.broker.admin import Admin
from refimpl.proposals.refused import ProtocolViolation
from refimpl.proposals.scalable_topics import LayoutBroker, ScalableTopicsExtension, first_layout, parse_segment_topic
from refimpl.proposals.scalable_topics import broker as scalable_topics_broker
from refimpl.proposals.scalable_topics.admin import ScalableTopicsAdmin
from refimpl.proposals.scalable_topics.layout import LAST_HASH, Layout, Segment
from refimpl.store import StoredTopic
from refimpl.wire.pulsar_api_pb2 import (
    CommandError,
    CommandScalableTopicClose,
    CommandScalableTopicLookup,
    CommandScalableTopicUpdate,
    InvalidTopicName,
    NotAllowedError,
    TopicNotFound,
)

Update = CommandScalableTopicUpdate


@mutant("pr25648.layout.answer")
def counts_epochs_from_one(patches: Patches) -> None:
    """The epoch of a new topic is 1."""

    def change(_: Session, update: Update) -> None:
        if update.HasField("dag"):
            update.dag.epoch += 1

    patches.outgoing(Update, change)


@mutant("pr25648.layout.covers-hashes")
def gives_the_rest_to_the_first_segment(patches: Patches) -> None:
    """Where the hashes can't be shared equally the first segment has the rest."""

    def changed(topic: str, segments: int = 1, created_at_ms: int = 0) -> Layout:
        layout = first_layout(topic, segments, created_at_ms)
        rest = (LAST_HASH + 1) % segments
        parts = [Segment(one.number, one.start + rest if one.number else 0, one.end + rest) for one in layout.segments[:-1]]
        last = layout.segments[-1]
        return Layout(topic, (*parts, Segment(last.number, last.start + (rest if parts else 0), last.end)))

    patches.replace(scalable_topics_broker, "first_layout", changed)


@mutant("pr25648.layout.brokers")
def names_the_broker_of_the_first_segment_only(patches: Patches) -> None:
    """Only the first segment has an entry in segment_brokers."""
    patches.outgoing(Update, lambda _, update: update.dag.segment_brokers.__delitem__(slice(1, None)) if update.HasField("dag") else None)


@mutant("pr25648.layout.resolved-name")
def leaves_the_domain_out_of_the_resolved_name(patches: Patches) -> None:
    """The resolved_topic_name has no topic:// in front."""

    def change(_: Session, update: Update) -> None:
        if update.resolved_topic_name:
            update.resolved_topic_name = update.resolved_topic_name.removeprefix("topic://")

    patches.outgoing(Update, change)


@mutant("pr25648.layout.segment-name")
def serves_the_first_segment_only(patches: Patches) -> None:
    """Segments with a number above 0 are unknown to PRODUCER and SUBSCRIBE."""
    segment = ScalableTopicsExtension.segment

    def changed(scalable: ScalableTopicsExtension, name: str) -> StoredTopic | None:
        _, found = parse_segment_topic(name) or ("", None)
        return None if found is not None and found.number else segment(scalable, name)

    patches.replace(ScalableTopicsExtension, "segment", changed)


@mutant("pr25648.layout.segment-unknown")
def creates_any_segment_of_a_topic(patches: Patches) -> None:
    """PRODUCER and SUBSCRIBE create segments that their topic does not have."""

    def changed(scalable: ScalableTopicsExtension, name: str) -> StoredTopic | None:
        topic, _ = parse_segment_topic(name) or ("", None)
        record = scalable.record(topic)
        return None if record is None else record.topics.setdefault(name, scalable.host.store.new_topic())

    patches.replace(ScalableTopicsExtension, "segment", changed)


@mutant("pr25648.layout.error-in-update")
def tells_a_missing_topic_by_ERROR(patches: Patches) -> None:  # noqa: N802
    """The look-up of a topic that does not exist is refused by ERROR with the session_id as its request_id."""

    def change(session: Session, update: Update) -> bool:
        missing = update.HasField("error") and update.error == TopicNotFound
        if missing:
            session.send(CommandError(request_id=update.session_id, error=update.error, message=update.message))
        return not missing

    patches.outgoing(Update, change)


@mutant("pr25648.layout.invalid-name")
def ends_the_connection_for_a_name_that_it_cannot_read(patches: Patches) -> None:
    """The look-up of a name that can't be a topic ends the connection."""

    def change(_: Session, update: Update) -> None:
        if update.HasField("error") and update.error == InvalidTopicName:
            raise ProtocolViolation(update.message)

    patches.outgoing(Update, change)


@mutant("pr25648.layout.pushed")
def tells_no_look_up_of_a_new_layout(patches: Patches) -> None:
    """An open look-up is not told that its topic has another layout."""
    patches.replace(LayoutBroker, "changed", lambda _layouts, _topic: [])


@mutant("pr25648.layout.session-lost")
def keeps_the_look_ups_of_lost_connections(patches: Patches) -> None:
    """A look-up of the same topic with the session_id of a lost connection is refused."""
    disconnected, lookup = LayoutBroker.disconnected, LayoutBroker.lookup
    taken: set[tuple[int, str]] = set()

    def lost(layouts: LayoutBroker, connection: Hashable) -> None:
        taken.update(layouts._sessions.get(connection, {}).items())
        disconnected(layouts, connection)

    def changed(layouts: LayoutBroker, connection: Hashable, request: CommandScalableTopicLookup) -> Update:
        if (request.session_id, request.topic) in taken:
            return Update(session_id=request.session_id, error=NotAllowedError, message="the session exists already")
        return lookup(layouts, connection, request)

    patches.replace(LayoutBroker, "disconnected", lost)
    patches.replace(LayoutBroker, "lookup", changed)


@mutant("pr25648.layout.close-silent")
def goes_on_telling_a_closed_look_up(patches: Patches) -> None:
    """A look-up that is closed is told of a new layout all the same."""
    patches.incoming(CommandScalableTopicClose, lambda _session, _request: False)


# Administration


@mutant("pr25648.admin.create")
def overwrites_the_properties_before_it_refuses(patches: Patches) -> None:
    """The creation of a topic that exists is refused, and its properties are replaced."""
    create = ScalableTopicsAdmin.create_scalable_topic

    def changed(admin: ScalableTopicsAdmin, topic: str, properties: Mapping[str, str] | None = None, *, segments: int = 1) -> None:
        record = admin._scalable.record(topic)
        if record is not None:
            record.properties = dict(properties or {})
        create(admin, topic, properties, segments=segments)

    patches.replace(ScalableTopicsAdmin, "create_scalable_topic", changed)


@mutant("pr25648.admin.list")
def lists_topics_with_any_of_the_properties(patches: Patches) -> None:
    """A list by several properties has the topics with one of them."""
    listed = ScalableTopicsAdmin.scalable_topics

    def changed(admin: ScalableTopicsAdmin, namespace: str, filters: Iterable[str] = ()) -> list[str]:
        several = [listed(admin, namespace, [one]) for one in filters]
        return sorted({topic for some in several for topic in some}) if several else listed(admin, namespace)

    patches.replace(ScalableTopicsAdmin, "scalable_topics", changed)


@mutant("pr25648.admin.get")
def gives_away_a_number_that_is_taken(patches: Patches) -> None:
    """The nextSegmentId of a topic is the number of its last segment."""
    read = ScalableTopicsAdmin.scalable_topic

    def changed(admin: ScalableTopicsAdmin, topic: str) -> dict[str, Any]:
        found = read(admin, topic)
        return found | {"nextSegmentId": found["nextSegmentId"] - 1}

    patches.replace(ScalableTopicsAdmin, "scalable_topic", changed)


@mutant("pr25648.admin.delete")
def goes_on_listing_a_deleted_topic(patches: Patches) -> None:
    """A topic that was deleted is still in the list of administrators."""
    delete, listed = ScalableTopicsAdmin.delete_scalable_topic, ScalableTopicsAdmin.scalable_topics
    gone: list[str] = []

    def deleted(admin: ScalableTopicsAdmin, topic: str) -> None:
        delete(admin, topic)
        gone.append(topic)

    def changed(admin: ScalableTopicsAdmin, namespace: str, filters: Iterable[str] = ()) -> list[str]:
        return listed(admin, namespace, filters) + [topic for topic in gone if topic.startswith(f"topic://{namespace}/")]

    patches.replace(ScalableTopicsAdmin, "delete_scalable_topic", deleted)
    patches.replace(ScalableTopicsAdmin, "scalable_topics", changed)


@mutant("pr25648.admin.invisible")
def lists_segments_with_the_ordinary_topics(patches: Patches) -> None:
    """The list of persistent topics has the segments that are in use."""
    listed = Admin.topics

    def changed(admin: Admin, namespace: str, domain: str, **options: bool) -> list[str]:
        used = [name for name, topic in admin._broker._topics.items() if name.startswith("segment:") and topic.name.namespace == namespace]
        return listed(admin, namespace, domain, **options) + (used if domain == "persistent" else [])

    patches.operation(listed, changed)
