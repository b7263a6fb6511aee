"""Brokers whose feature flags promise what they do not do."""

from collections.abc import Hashable

from conformance.mutants.listing import before_pip145
from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import topic_lists
from refimpl.broker import Session
from refimpl.broker.requests import Handler
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list import EMPTY_HASH, TopicListBroker
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandPartitionedTopicMetadata,
    CommandWatchTopicList,
    CommandWatchTopicListSuccess,
    NotAllowedError,
)


@mutant("core.flags.topic-watchers")
def takes_a_first_watcher_for_its_request(patches: Patches) -> None:
    """The first WATCH_TOPIC_LIST of a connection is refused if both its ids are 1 and nobody has listed its namespace."""
    listed: set[str] = set()
    patches.incoming(CommandGetTopicsOfNamespace, lambda _, request: listed.add(request.namespace))

    def make(watch: Handler) -> Handler:
        def changed(session: Session, request: CommandWatchTopicList, frame: Frame) -> None:
            first = request.namespace not in listed and not topic_lists(session.broker).watcher_count(session)
            if first and request.watcher_id == request.request_id == 1:
                raise Refused(NotAllowedError, "The id 1 is in use")
            watch(session, request, frame)

        return changed

    patches.request("watchTopicList", make)


@mutant("core.flags.topic-watcher-reconcile")
def takes_an_empty_list_for_final(patches: Patches) -> None:
    """WATCH_TOPIC_LIST with the hash of the empty list is answered by it if the watcher began with the empty list."""
    watch = TopicListBroker.watch
    first: dict[tuple[Hashable, int], str] = {}

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        answer = watch(lists, connection, request)
        if first.setdefault((connection, request.watcher_id), answer.topics_hash) == request.topics_hash == EMPTY_HASH:
            answer.ClearField("topic")
            answer.topics_hash = EMPTY_HASH
        return answer

    patches.replace(TopicListBroker, "watch", changed)


@mutant("core.flags.metadata-without-creation")
def creates_topics_that_nobody_wants(patches: Patches) -> None:
    """PARTITIONED_METADATA counts as if metadata_auto_creation_enabled were true."""

    def change(_: object, request: CommandPartitionedTopicMetadata) -> None:
        request.metadata_auto_creation_enabled = True

    patches.incoming(CommandPartitionedTopicMetadata, change)


@mutant("core.flags.unset-means-unknown")
def refuses_what_it_can_not_know(patches: Patches) -> None:
    """A broker without PIP-145 answers WATCH_TOPIC_LIST by ERROR."""
    before_pip145(patches)

    def refuse(*_: object) -> None:
        raise Refused(NotAllowedError, "WATCH_TOPIC_LIST is unknown")

    patches.request("watchTopicList", lambda _: refuse)
