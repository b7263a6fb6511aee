"""Brokers that list too many topics of a namespace, or too few."""

from collections.abc import Iterable
from urllib.parse import unquote

from conformance.mutants.listing import Answer, Request, change_topics, while_listing
from conformance.mutants.model import Patches, mutant
from refimpl.broker import Broker, Session
from refimpl.names import TopicName, is_system_topic, partition_name
from refimpl.proposals.topic_list import rules as topic_list_rules
from refimpl.proposals.topic_list import topics_hash
from refimpl.store import StoredNamespace
from refimpl.wire.scan import scan
from refimpl.wire.schema import descriptor_of


def _local(topic: str) -> str:
    return topic.partition("://")[2]


def _missing_from(topics: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return those whose name, without the domain, none of the others has."""
    names = set(map(_local, others))
    return [topic for topic in topics if _local(topic) not in names]


@mutant("pip145.list.reflects-creation")
def overlooks_partitions_that_were_added(patches: Patches) -> None:
    """When a partitioned topic grows, its new partitions are not listed."""
    create_partitions = Broker.create_partitions
    added: set[str] = set()

    def changed(broker: Broker, name: TopicName, partitions: int) -> None:
        present = broker.partitions(name)
        create_partitions(broker, name, partitions)
        if present:
            added.update(partition_name(name.full, number) for number in range(present, partitions))

    patches.replace(Broker, "create_partitions", changed)
    change_topics(patches, lambda _, __, topics: [topic for topic in topics if topic not in added])


@mutant("pip145.list.reflects-deletion")
def goes_on_listing_partitions_of_a_deleted_topic(patches: Patches) -> None:
    """When a partitioned topic is deleted, its partitions stay in the list."""
    delete_topic = Broker.delete_topic
    gone: set[TopicName] = set()

    def changed(broker: Broker, name: TopicName) -> None:
        delete_topic(broker, name)
        gone.add(name)

    def change(session: Session, request: Request, topics: list[str]) -> list[str]:
        stored = session.broker.store.namespaces.get(request.namespace, StoredNamespace())
        mine = [name for name in gone if name.namespace == request.namespace and name.partition >= 0]
        return topics + [name.full for name in mine if name.partitioned not in stored.partitioned]

    patches.replace(Broker, "delete_topic", changed)
    change_topics(patches, change)


@mutant("pip145.list.consistent")
def hashes_topics_that_are_no_longer_quite_new(patches: Patches) -> None:
    """While a new topic is being indexed, from just after its creation until 0.1 s later, it is in lists but not in their hash."""
    create_topic = Broker.create_topic
    born: dict[str, float] = {}

    def changed(broker: Broker, name: TopicName) -> None:
        create_topic(broker, name)
        born[name.full] = broker.now

    def change(session: Session, answer: Answer) -> None:
        young = {topic for topic in answer.topics if 0 < session.broker.now - born.get(topic, session.broker.now) < 0.1}
        if young:
            answer.topics_hash = topics_hash(set(answer.topics) - young)

    patches.replace(Broker, "create_topic", changed)
    patches.outgoing(Answer, change)


@mutant("pip145.list.name-decoding")
def decodes_names_once_more(patches: Patches) -> None:
    """What follows a percent sign in a name is decoded before the name is listed: t%41 becomes tA."""
    change_topics(patches, lambda _, __, topics: map(unquote, topics))


@mutant("pip145.list.mode-persistent")
def lists_volatile_namesakes_of_persistent_topics(patches: Patches) -> None:
    """Mode PERSISTENT, if it is written out, also lists the non-persistent topics that have the name of a persistent one."""

    def change(session: Session, request: Request, topics: list[str]) -> list[str]:
        if not request.HasField("mode") or request.mode != Request.PERSISTENT:
            return topics
        volatile = session.broker.non_persistent_topics(request.namespace)
        others = _missing_from(volatile, topics)
        return topics + [topic for topic in volatile if topic not in others]

    change_topics(patches, change)


@mutant("pip145.list.mode-default")
def lists_every_name_once_without_a_mode(patches: Patches) -> None:
    """Without a mode, non-persistent topics are listed too, unless a persistent one has the same name."""

    def change(session: Session, request: Request, topics: list[str]) -> list[str]:
        if request.HasField("mode"):
            return topics
        return topics + _missing_from(session.broker.non_persistent_topics(request.namespace), topics)

    change_topics(patches, change)


@mutant("pip145.list.mode-non-persistent")
def lists_persistent_namesakes_of_volatile_topics(patches: Patches) -> None:
    """Mode NON_PERSISTENT also lists the persistent topics that have the name of a non-persistent one."""

    def change(session: Session, request: Request, topics: list[str]) -> list[str]:
        if request.mode != Request.NON_PERSISTENT:
            return topics
        persistent = session.broker.persistent_topics(request.namespace)
        others = _missing_from(persistent, topics)
        return topics + [topic for topic in persistent if topic not in others]

    change_topics(patches, change)


@mutant("pip145.list.mode-all")
def lists_every_name_once_for_all_modes(patches: Patches) -> None:
    """Mode ALL lists a non-persistent topic only if no persistent one has the same name."""

    def change(session: Session, request: Request, topics: list[str]) -> list[str]:
        if request.mode != Request.ALL:
            return topics
        persistent = session.broker.persistent_topics(request.namespace)
        return persistent + _missing_from(session.broker.non_persistent_topics(request.namespace), persistent)

    change_topics(patches, change)


@mutant("pip145.list.mode-unknown")
def takes_an_unknown_mode_for_all(patches: Patches) -> None:
    """A mode that the broker does not know counts as ALL."""

    def change(session: Session, request: Request, topics: list[str]) -> list[str]:
        present = {piece.field.name for piece in scan(descriptor_of(request), request.SerializeToString()) if piece.field}
        if "mode" not in present or request.HasField("mode"):
            return topics
        return topics + session.broker.non_persistent_topics(request.namespace)

    change_topics(patches, change)


@mutant("pip145.list.partitions")
def lists_a_topic_beside_its_partitions(patches: Patches) -> None:
    """A partitioned topic that has three partitions or more, and all of them, is listed too."""

    def change(session: Session, request: Request, topics: list[str]) -> list[str]:
        stored = session.broker.store.namespaces.get(request.namespace)
        counts = stored.partitioned.items() if stored else ()
        many = [name for name, count in counts if count > 2 and {partition_name(name, number) for number in range(count)} <= set(topics)]
        return topics + many

    change_topics(patches, change)


@mutant("pip145.list.system-hidden")
def lists_segments_of_transaction_snapshots(patches: Patches) -> None:
    """The system topic __transaction_buffer_snapshot_segments is listed."""

    def is_hidden(topic: str) -> bool:
        return is_system_topic(topic) and not topic.endswith("_segments")

    while_listing(patches, topic_list_rules, "is_system_topic", is_hidden)


@mutant("pip145.list.underscore-listed")
def hides_all_names_that_begin_with_two_underscores(patches: Patches) -> None:
    """A topic whose name begins with two underscores is not listed."""
    change_topics(patches, lambda _, __, topics: [topic for topic in topics if not topic.rpartition("/")[2].startswith("__")])
