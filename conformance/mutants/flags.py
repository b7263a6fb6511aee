"""Brokers whose feature flags promise what they do not do."""

from typing import Any

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Broker, Session
from refimpl.broker.requests import Handler
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list import EMPTY_HASH
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandPartitionedTopicMetadata,
    CommandWatchTopicList,
    CommandWatchTopicListSuccess,
    NotAllowedError,
)


@mutant("core.flags.topic-watchers")
def takes_a_watcher_for_its_request(patches: Patches) -> None:
    """WATCH_TOPIC_LIST is refused if watcher_id and request_id are the same number."""

    def change(session: Session, request: CommandWatchTopicList) -> bool:
        if request.watcher_id != request.request_id:
            return True
        session.refuse(request, Refused(NotAllowedError, "The id is in use"))
        return False

    patches.incoming(CommandWatchTopicList, change)


@mutant("core.flags.topic-watcher-reconcile")
def takes_the_empty_list_for_final(patches: Patches) -> None:
    """WATCH_TOPIC_LIST for an open watcher_id with the hash of the empty list is answered by that hash."""

    def make(watch: Handler) -> Handler:
        def changed(session: Session, request: CommandWatchTopicList, frame: Frame) -> None:
            count = session.broker.topic_lists.watcher_count(session)
            answer = CommandWatchTopicListSuccess(request_id=request.request_id, watcher_id=request.watcher_id, topics_hash=EMPTY_HASH)
            if count and request.topics_hash == EMPTY_HASH:
                session.send(answer)
            else:
                watch(session, request, frame)

        return changed

    patches.request("watchTopicList", make)


@mutant("core.flags.metadata-without-creation")
def creates_topics_that_nobody_wants(patches: Patches) -> None:
    """PARTITIONED_METADATA counts as if metadata_auto_creation_enabled were true."""

    def change(_: object, request: CommandPartitionedTopicMetadata) -> None:
        request.metadata_auto_creation_enabled = True

    patches.incoming(CommandPartitionedTopicMetadata, change)


@mutant("core.flags.unset-means-unknown")
def refuses_what_it_can_not_know(patches: Patches) -> None:
    """A broker from before PIP-145 answers WATCH_TOPIC_LIST by ERROR."""
    make_broker = Broker.__init__

    def changed(broker: Broker, *args: Any, **settings: Any) -> None:
        make_broker(broker, *args, **(settings | {"proposals": frozenset()}))

    def refuse(session: Session, request: CommandWatchTopicList) -> bool:
        session.refuse(request, Refused(NotAllowedError, "WATCH_TOPIC_LIST is unknown"))
        return False

    patches.replace(Broker, "__init__", changed)
    patches.incoming(CommandWatchTopicList, refuse)
