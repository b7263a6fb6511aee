"""Brokers that select scalable topics wrongly: from other namespaces, by other filters, or by another hash."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from crc32c import crc32c

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import scalable_of
from refimpl.broker import Broker, Session
from refimpl.indexes.topics_hash import TopicSet
from refimpl.names import TopicName, is_namespace, partition_name
from refimpl.proposals import scalable_topics
from refimpl.proposals.scalable_topics import COALESCING_SECONDS, EMPTY_HASH, ScalableTopicsBroker, topics_hash
from refimpl.proposals.scalable_topics.rules import filters_of, fits, topic_of_path
from refimpl.wire.pulsar_api_pb2 import (
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsUpdate,
    KeyValue,
    ScalableTopicsDiff,
    ScalableTopicsSnapshot,
    TopicNotFound,
)

Update = CommandWatchScalableTopicsUpdate
Properties = Mapping[str, str]


def _with_update(patches: Patches, change: Any) -> None:
    """Replace the answer to a watch by what `change` makes of it: (broker's watches, session, request, answer) -> answer."""
    watch = ScalableTopicsBroker.watch

    def changed(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics) -> Update | None:
        answer: Update | None = change(watches, connection, request, watch(watches, connection, request))
        return answer

    patches.replace(ScalableTopicsBroker, "watch", changed)


# Namespaces


@mutant("pr25648.namespace.malformed")
def takes_a_blank_in_a_namespace(patches: Patches) -> None:
    """A namespace with a blank in it is watched."""
    patches.replace(scalable_topics, "is_namespace", lambda text: is_namespace(text.replace(" ", "-")))


@mutant("pr25648.namespace.trailing-slash")
def cuts_off_a_slash_at_the_end(patches: Patches) -> None:
    """A namespace with a slash at its end is watched without it."""

    def change(_: Session, request: CommandWatchScalableTopics) -> None:
        if is_namespace(request.namespace.removesuffix("/")):
            request.namespace = request.namespace.removesuffix("/")

    patches.incoming(CommandWatchScalableTopics, change)


@mutant("pr25648.namespace.unknown")
def refuses_a_namespace_that_does_not_exist(patches: Patches) -> None:
    """A watch over a namespace that does not exist is refused with TopicNotFound."""

    def change(
        watches: ScalableTopicsBroker, session: Session, request: CommandWatchScalableTopics, update: Update | None
    ) -> Update | None:
        if request.namespace in session.broker.store.namespaces or (update is not None and update.HasField("error")):
            return update
        watches._drop(session, request.watch_id)
        return Update(watch_id=request.watch_id, error=TopicNotFound, message="Namespace not found")

    _with_update(patches, change)


@mutant("pr25648.namespace.only")
def looks_beyond_the_namespace_for_a_narrow_selection(patches: Patches) -> None:
    """A watch with three filters or more is also told of new topics of other namespaces."""
    notified = ScalableTopicsBroker.notified

    def changed(watches: ScalableTopicsBroker, path: str, now: float) -> None:
        notified(watches, path, now)
        topic = topic_of_path(path) or ""
        properties = watches._properties_of(topic)
        for selections in list(watches._selections.values()):
            for selection in selections.values():
                if len(selection.filters) > 2 and properties is not None and fits(properties, selection.filters):
                    for session in selection.sessions:
                        session.changed(topic, True)
                        watches._armed.setdefault(session, now + COALESCING_SECONDS)

    patches.replace(ScalableTopicsBroker, "notified", changed)


@mutant("pr25648.namespace.ordinary-topics")
def tells_of_partitions_too(patches: Patches) -> None:
    """Whoever watches a namespace is told which partitions of ordinary topics come."""
    create = Broker.create_partitions

    def changed(broker: Broker, name: TopicName, partitions: int) -> None:
        create(broker, name, partitions)
        for session, watches in scalable_of(broker).watches._sessions.items():
            for watch_id, one in watches.items():
                if one.selection.namespace == name.namespace:
                    added = [partition_name(name.full, number) for number in range(partitions)]
                    session.send(Update(watch_id=watch_id, diff=ScalableTopicsDiff(added=added)))  # type: ignore[attr-defined]

    patches.replace(Broker, "create_partitions", changed)


# Filters


def _judge(patches: Patches, judge: Any) -> None:
    patches.replace(scalable_topics, "fits", judge)


@mutant("pr25648.filter.none")
def wants_a_filter_for_topics_with_many_properties(patches: Patches) -> None:
    """Without filters, topics with two properties or more are not selected."""
    _judge(patches, lambda properties, filters: fits(properties, filters) and (bool(filters) or len(properties) < 2))


@mutant("pr25648.filter.all-hold")
def takes_any_filter_for_enough(patches: Patches) -> None:
    """A topic that has one of the properties asked for is selected."""
    _judge(patches, lambda properties, filters: not filters or any(properties.get(key) == value for key, value in filters.items()))


@mutant("pr25648.filter.exact")
def overlooks_blanks_around_a_value(patches: Patches) -> None:
    """Values are compared without the blanks around them."""

    def judge(properties: Properties, filters: Properties) -> bool:
        return all(key in properties and properties[key].strip() == value.strip() for key, value in filters.items())

    _judge(patches, judge)


@mutant("pr25648.filter.empty-value")
def takes_an_empty_value_for_any(patches: Patches) -> None:
    """A filter with an empty value selects the topics that have the key."""

    def judge(properties: Properties, filters: Properties) -> bool:
        return all(key in properties and value in ("", properties[key]) for key, value in filters.items())

    _judge(patches, judge)


@mutant("pr25648.filter.repeated-key")
def counts_the_first_of_repeated_keys(patches: Patches) -> None:
    """Of filters with the same key the first one counts."""

    def first(pairs: Iterable[KeyValue]) -> dict[str, str]:
        return filters_of(reversed(list(pairs)))

    patches.replace(scalable_topics, "filters_of", first)


# Hashes


@mutant("pr25648.hash.function")
def sorts_names_without_regard_to_case(patches: Patches) -> None:
    """The names are hashed in an order in which case does not count."""

    class Careless(TopicSet):
        @property
        def hash(self) -> str:
            return crc32c(",".join(sorted(self, key=str.lower)).encode()).to_bytes(4, "little").hex()

    patches.replace(scalable_topics, "TopicSet", Careless)


@mutant("pr25648.hash.silence")
def answers_an_equal_hash(patches: Patches) -> None:
    """The right hash is answered by the snapshot."""

    def change(watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics, update: Update | None) -> Update:
        topics = watches._sessions[connection][request.watch_id].selection.topics if update is None else None
        return update or Update(watch_id=request.watch_id, snapshot=ScalableTopicsSnapshot(topics=topics))

    _with_update(patches, change)


@mutant("pr25648.hash.alive")
def goes_to_sleep_after_silence(patches: Patches) -> None:
    """A watch that is answered by silence is told nothing."""

    def change(
        watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics, update: Update | None
    ) -> Update | None:
        if update is None:
            watches._drop(connection, request.watch_id)
        return update

    _with_update(patches, change)


def _is_silent_for(patches: Patches, known: Any) -> None:
    """Answer by silence where `known(hash of the request, hash of the set)` holds."""

    def change(
        _watches: ScalableTopicsBroker, _connection: Hashable, request: CommandWatchScalableTopics, update: Update | None
    ) -> Update | None:
        if update is None or not update.HasField("snapshot") or not request.HasField("current_hash"):
            return update
        return None if known(request.current_hash, topics_hash(update.snapshot.topics)) else update

    _with_update(patches, change)


@mutant("pr25648.hash.other")
def takes_the_hash_of_the_empty_set_for_any(patches: Patches) -> None:
    """The hash 00000000 is met with silence, whatever there is."""
    _is_silent_for(patches, lambda given, _: given == EMPTY_HASH)


@mutant("pr25648.hash.exact-text")
def overlooks_blanks_around_a_hash(patches: Patches) -> None:
    """Hashes are compared without the blanks around them, and without regard to case."""
    _is_silent_for(patches, lambda given, right: given.strip().lower() == right)


@mutant("pr25648.hash.of-filtered")
def hashes_the_whole_namespace(patches: Patches) -> None:
    """The hash of a watch with filters is compared with that of all topics of the namespace."""

    def change(
        watches: ScalableTopicsBroker, connection: Hashable, request: CommandWatchScalableTopics, update: Update | None
    ) -> Update | None:
        if not request.property_filters or not request.HasField("current_hash") or (update is not None and update.HasField("error")):
            return update
        if request.current_hash == topics_hash(watches._topics_of(request.namespace)):
            return None
        topics = watches._sessions[connection][request.watch_id].selection.topics
        return Update(watch_id=request.watch_id, snapshot=ScalableTopicsSnapshot(topics=topics))

    _with_update(patches, change)
