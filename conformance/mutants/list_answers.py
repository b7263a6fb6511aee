"""Brokers that answer a request for a list, but with something else than the list."""

from collections import Counter
from collections.abc import Iterable, Sequence

from conformance.mutants.listing import Answer, Matcher, Request, change_answers, change_topics
from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.broker.lookups import get_topics
from refimpl.names import is_system_topic, namespace_of
from refimpl.proposals.extension import send_all
from refimpl.proposals.topic_list import TopicListBroker, topics_hash
from refimpl.proposals.topic_list import broker as topic_list_broker
from refimpl.wire import sub_message
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import CommandPartitionUpdate, CommandWatchTopicUpdate


@mutant("pip145.list.answered")
def forgets_every_tenth_request(patches: Patches) -> None:
    """The tenth request for a list on a connection gets no answer."""
    asked: Counter[Session] = Counter()

    def change(session: Session, _: Request) -> bool:
        asked[session] += 1
        return asked[session] % 10 != 0

    patches.incoming(Request, change)


@mutant("pip145.list.request-id-any")
def keeps_one_request_for_each_id(patches: Patches) -> None:
    """Of two requests in flight with the same request_id only the second is answered."""

    def change(session: Session, request: Request) -> bool:
        waiting = [sub_message(frame.command) for frame in session._frames]
        return not any(isinstance(other, Request) and other.request_id == request.request_id for other in waiting)

    patches.incoming(Request, change)


@mutant("pip145.list.pipelined")
def answers_a_waiting_request_for_the_namespace_of_the_one_before(patches: Patches) -> None:
    """A request that arrived together with another is answered with topics of that one's namespace."""
    before: dict[Session, str] = {}

    def changed(session: Session, request: Request, frame: Frame) -> None:
        request.namespace = before.pop(session, request.namespace)
        if session._frames:
            before[session] = request.namespace
        get_topics(session, request, frame)

    patches.request("getTopicsOfNamespace", lambda _: changed)


@mutant("pip145.list.no-pattern-all")
def lists_a_page_of_two_without_a_pattern(patches: Patches) -> None:
    """A request without a pattern gets the first two topics only."""

    def change(_: Session, request: Request, topics: list[str]) -> list[str]:
        return topics if request.HasField("topics_pattern") else [topic for topic in topics if not is_system_topic(topic)][:2]

    change_topics(patches, change)


@mutant("pip145.list.filter")
def filters_only_where_no_mode_is_written(patches: Patches) -> None:
    """With mode PERSISTENT written out, all topics are listed, whatever the pattern."""
    filter_of = TopicListBroker._filter_of

    def changed(lists: TopicListBroker, request: Request) -> object:
        pattern = filter_of(lists, request)
        written = request.HasField("mode") and request.mode == Request.PERSISTENT
        return Matcher(lambda _: True) if written and pattern is not None else pattern

    patches.replace(TopicListBroker, "_filter_of", changed)


@mutant("pip145.list.filtered-flag")
def says_unfiltered_where_nothing_was_left_out(patches: Patches) -> None:
    """A list for the pattern .* says filtered=false, since it is the whole one."""

    def change(_: TopicListBroker, request: Request, __: Sequence[str], answer: Answer) -> None:
        answer.filtered &= request.topics_pattern != ".*" or not answer.topics

    change_answers(patches, change)


@mutant("pip145.list.changed-with-list")
def takes_a_prefix_that_nothing_has_for_no_change(patches: Patches) -> None:
    """If no topic of a namespace that has some begins as the pattern does, the empty list says changed=false."""

    def change(_: TopicListBroker, request: Request, topics: Sequence[str], answer: Answer) -> None:
        prefix = request.topics_pattern.startswith(f"persistent://{request.namespace}/") and request.topics_pattern.endswith(".*")
        if prefix and topics and not answer.topics and not request.HasField("topics_hash"):
            answer.changed = False

    change_answers(patches, change)


@mutant("pip145.list.own-namespace")
def follows_the_pattern_into_other_namespaces(patches: Patches) -> None:
    """A pattern that begins with the tenant but not with the namespace is matched with all topics of the tenant."""

    def change(session: Session, request: Request, topics: list[str]) -> list[str]:
        tenant = request.namespace.partition("/")[0] + "/"
        if not request.topics_pattern.startswith(tenant) or request.topics_pattern.startswith(request.namespace):
            return topics
        namespaces = [name for name in session.broker.store.namespaces if name.startswith(tenant)]
        return [topic for namespace in namespaces for topic in session.broker.persistent_topics(namespace)]

    change_topics(patches, change)


@mutant("pip145.list.deterministic")
def takes_a_question_asked_twice_for_a_poll(patches: Patches) -> None:
    """A request that is repeated on its connection and has the same result gets changed=false and no topics."""
    asking: dict[Session, bytes] = {}
    told: dict[tuple[Session, bytes], str] = {}

    def note(session: Session, request: Request) -> None:
        fields = {field.name: value for field, value in request.ListFields()} | {"request_id": 0}
        asking[session] = Request(**fields).SerializeToString()

    def change(session: Session, answer: Answer) -> None:
        if told.get((session, asking[session])) == answer.topics_hash:
            answer.changed = False
            answer.ClearField("topics")
        told[session, asking[session]] = answer.topics_hash

    patches.incoming(Request, note)
    patches.outgoing(Answer, change)


@mutant("pip145.list.large")
def cuts_a_list_off_at_32_kib(patches: Patches) -> None:
    """A list holds as many names as 32 KiB have room for, and their hash."""

    def change(_: TopicListBroker, __: Request, ___: Sequence[str], answer: Answer) -> None:
        while answer.ByteSize() > 32 * 1024:
            answer.topics.pop()
            answer.topics_hash = topics_hash(answer.topics)

    change_answers(patches, change)


@mutant("pip145.list.no-watch")
def tells_whoever_asked_for_the_list(patches: Patches) -> None:
    """What is announced to a watcher is announced to all connections that asked for a filtered list of its namespace, too."""
    announce = send_all
    asked: dict[str, set[Session]] = {}

    def note(session: Session, request: Request) -> None:
        if request.HasField("topics_pattern"):
            asked.setdefault(request.namespace, set()).add(session)

    def changed(updates: Iterable[tuple[Session, CommandWatchTopicUpdate | CommandPartitionUpdate]]) -> None:
        told = list(updates)
        lists = [update for _, update in told if isinstance(update, CommandWatchTopicUpdate)]
        names = [namespace_of(topic) for update in lists[:1] for topic in (*update.new_topics, *update.deleted_topics)]
        others = {session for name in names for session in asked.get(name, ())} - {session for session, _ in told}
        announce([*told, *((session, update) for session in others for _, update in told)])

    patches.incoming(Request, note)
    patches.replace(topic_list_broker, "send_all", changed)
