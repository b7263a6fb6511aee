"""Brokers that answer WATCH_TOPIC_LIST with something else than the set, or not at all."""

from collections.abc import Hashable

from conformance.mutants.commands import has_unknown_field
from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import topic_lists
from refimpl.broker import Broker, Session
from refimpl.broker.requests import Handler
from refimpl.names import is_namespace, partitioned_topic_name
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list import EMPTY_HASH, TopicListBroker, topics_hash
from refimpl.proposals.topic_list.rules import matched_name
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import CommandWatchTopicList, CommandWatchTopicListSuccess, TopicNotFound


@mutant("pip145.watch.success")
def gives_no_answer_to_a_request_with_an_unknown_field(patches: Patches) -> None:
    """A WATCH_TOPIC_LIST with a field that the broker does not know gets no answer."""
    patches.incoming(CommandWatchTopicList, lambda _, request: not has_unknown_field(request))


@mutant("pip145.watch.success-lists-matching")
def wants_something_behind_a_prefix(patches: Patches) -> None:
    """A topic whose name is what stands before the `.*` of the pattern is not listed."""
    watch = TopicListBroker.watch

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        answer = watch(lists, connection, request)
        pattern = lists._watched_pattern(request)
        if pattern.open_end:
            answer.topic[:] = [topic for topic in answer.topic if matched_name(topic) != pattern.literal]
        return answer

    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.watch.success-carries-hash")
def hashes_the_empty_list_that_it_sends(patches: Patches) -> None:
    """To a client that has the set already goes the hash of the empty list."""

    def change(_: Session, answer: CommandWatchTopicListSuccess) -> None:
        if not answer.topic:
            answer.topics_hash = EMPTY_HASH

    patches.outgoing(CommandWatchTopicListSuccess, change)


@mutant("pip145.watch.equal-hash")
def pays_no_attention_to_the_hash_of_a_request(patches: Patches) -> None:
    """Each answer lists the whole set, whatever the client has."""
    patches.incoming(CommandWatchTopicList, lambda _, request: request.ClearField("topics_hash"))


@mutant("pip145.watch.other-hash")
def compares_hashes_as_numbers(patches: Patches) -> None:
    """A topics_hash is the current one if it is the same hexadecimal number, with 0x, with blanks or in upper case, too."""

    def change(_: Session, request: CommandWatchTopicList) -> None:
        try:
            request.topics_hash = f"{int(request.topics_hash, 16):08x}"
        except ValueError:
            request.ClearField("topics_hash")

    patches.incoming(CommandWatchTopicList, change)


@mutant("pip145.watch.agrees-with-get")
def lists_no_partitions_for_a_pattern_that_is_no_prefix(patches: Patches) -> None:
    """A watch with a pattern that is more than a name or the beginning of names lists no partitions."""
    watch = TopicListBroker.watch

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        answer = watch(lists, connection, request)
        pattern = lists._watched_pattern(request)
        if answer.topic and not pattern.whole and not pattern.open_end:
            answer.topic[:] = [topic for topic in answer.topic if partitioned_topic_name(topic) == topic]
            answer.topics_hash = topics_hash(answer.topic)
        return answer

    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.watch.partition-names")
def lists_two_partitions_at_most(patches: Patches) -> None:
    """Of a partitioned topic only the first two partitions are listed."""

    def change(_: Session, answer: CommandWatchTopicListSuccess) -> None:
        hidden = [topic for topic in answer.topic if topic != partitioned_topic_name(topic) and not topic.endswith(("-0", "-1"))]
        answer.topic[:] = [topic for topic in answer.topic if topic not in hidden]

    patches.outgoing(CommandWatchTopicListSuccess, change)


@mutant("pip145.watch.persistent-only")
def begins_with_non_persistent_topics(patches: Patches) -> None:
    """The set of a new watcher contains the non-persistent topics that match."""
    make_broker = Broker.__init__

    def changed(broker: Broker, *args: object, **settings: object) -> None:
        make_broker(broker, *args, **settings)  # type: ignore[arg-type]
        topic_lists(broker)._topics_of = lambda namespace: [*broker.persistent_topics(namespace), *broker.non_persistent_topics(namespace)]

    patches.replace(Broker, "__init__", changed)


@mutant("pip145.watch.unknown-namespace")
def refuses_to_watch_a_missing_namespace(patches: Patches) -> None:
    """A namespace that does not exist is refused with TopicNotFound."""

    def make(watch: Handler) -> Handler:
        def changed(session: Session, request: CommandWatchTopicList, frame: Frame) -> None:
            missing = is_namespace(request.namespace) and request.namespace not in session.broker.store.namespaces
            if missing and session.broker.may_list(session, request.namespace):
                raise Refused(TopicNotFound, "Namespace not found")
            watch(session, request, frame)

        return changed

    patches.request("watchTopicList", make)


@mutant("pip145.watch.ids-any")
def answers_with_ids_of_63_bits(patches: Patches) -> None:
    """WATCH_TOPIC_LIST_SUCCESS carries the request_id without its highest bit."""

    def change(_: Session, answer: CommandWatchTopicListSuccess) -> None:
        answer.request_id &= (1 << 63) - 1

    patches.outgoing(CommandWatchTopicListSuccess, change)


@mutant("pip145.watch.request-id-reuse")
def answers_one_of_two_requests_with_one_id(patches: Patches) -> None:
    """A watch request with the request_id of one whose answer has not been taken yet gets no answer."""
    last: dict[Session, int] = {}

    def change(session: Session, request: CommandWatchTopicList) -> bool:
        before, last[session] = last.get(session), request.request_id
        return not session.has_output or before != request.request_id

    patches.incoming(CommandWatchTopicList, change)


@mutant("pip145.watch.pipelined")
def forgets_requests_in_a_long_queue(patches: Patches) -> None:
    """A watch request behind which more than 64 others wait gets no answer."""
    patches.incoming(CommandWatchTopicList, lambda session, _: len(session._frames) <= 64)
