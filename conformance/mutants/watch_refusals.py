"""Brokers that serve watch requests that can't be served, or refuse them in the wrong way."""

from collections.abc import Callable, Hashable

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import topic_lists
from refimpl.broker import Session
from refimpl.broker.requests import Handler
from refimpl.indexes.topic_patterns import TopicsPattern, compile_pattern
from refimpl.names import is_namespace
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.proposals.topic_list import TopicListBroker, without_domain
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandWatchTopicList,
    CommandWatchTopicListSuccess,
    InvalidTopicName,
    MetadataError,
    NotAllowedError,
    TopicNotFound,
)


def _change_refusals(patches: Patches, change: Callable[[Refused], Exception]) -> None:
    """Change every refusal of a pattern."""
    watched_pattern = TopicListBroker._watched_pattern

    def changed(lists: TopicListBroker, request: CommandWatchTopicList) -> TopicsPattern:
        try:
            return watched_pattern(lists, request)
        except Refused as refused:
            raise change(refused) from None

    patches.replace(TopicListBroker, "_watched_pattern", changed)


def _refuse_too(patches: Patches, unfit: Callable[[TopicListBroker, CommandWatchTopicList], bool]) -> None:
    """Refuse more patterns as too long."""
    watched_pattern = TopicListBroker._watched_pattern

    def changed(lists: TopicListBroker, request: CommandWatchTopicList) -> TopicsPattern:
        pattern = watched_pattern(lists, request)
        if unfit(lists, request):
            raise Refused(NotAllowedError, "Unable to create topic list watcher: Pattern longer than maximum")
        return pattern

    patches.replace(TopicListBroker, "_watched_pattern", changed)


@mutant("pip145.watch.error-keeps-connection")
def ends_a_connection_for_a_pattern_that_does_not_compile(patches: Patches) -> None:
    """A watch with a pattern that does not compile ends the connection; any other refusal is an ERROR."""
    _change_refusals(patches, lambda refused: ProtocolViolation(str(refused)) if refused.code == InvalidTopicName else refused)


@mutant("pip145.watch.invalid-pattern")
def blames_itself_for_a_pattern_that_does_not_compile(patches: Patches) -> None:
    """A pattern that does not compile is refused with MetadataError."""
    _change_refusals(patches, lambda refused: Refused(MetadataError, str(refused)) if refused.code == InvalidTopicName else refused)


@mutant("pip145.watch.pattern-too-long")
def measures_a_pattern_in_octets(patches: Patches) -> None:
    """The length of a watched pattern is that of its UTF-8."""
    _refuse_too(patches, lambda lists, request: len(without_domain(request.topics_pattern).encode()) > lists._pattern_max_length)


@mutant("pip145.watch.length-without-scheme")
def measures_a_pattern_with_its_domain(patches: Patches) -> None:
    """The topic domain in front of a watched pattern counts for its length."""
    _refuse_too(patches, lambda lists, request: lists._is_too_long(request.topics_pattern))


@mutant("pip145.watch.domain-unsupported")
def knows_domains_in_upper_case(patches: Patches) -> None:
    """A watched pattern may begin with PERSISTENT://."""

    def change(_: Session, request: CommandWatchTopicList) -> None:
        domain, separator, rest = request.topics_pattern.partition("://")
        request.topics_pattern = (domain.lower() if domain == "PERSISTENT" else domain) + separator + rest

    patches.incoming(CommandWatchTopicList, change)


@mutant("pip145.watch.evaluation-off")
def watches_although_evaluation_is_off(patches: Patches) -> None:
    """With enableBrokerSideSubscriptionPatternEvaluation=false watch requests are served."""
    watched_pattern = TopicListBroker._watched_pattern

    def changed(lists: TopicListBroker, request: CommandWatchTopicList) -> TopicsPattern:
        if lists._evaluation_enabled:
            return watched_pattern(lists, request)
        return compile_pattern(without_domain(request.topics_pattern))

    patches.replace(TopicListBroker, "_watched_pattern", changed)


@mutant("pip145.watch.id-free-after-error")
def keeps_the_id_of_a_refused_request(patches: Patches) -> None:
    """A watcher_id whose request was refused is refused from then on, in the same way."""
    watch = TopicListBroker.watch
    refusals: dict[tuple[Hashable, int], Refused] = {}

    def changed(lists: TopicListBroker, connection: Hashable, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        key = connection, request.watcher_id
        if key in refusals:
            raise refusals[key]
        try:
            return watch(lists, connection, request)
        except Refused as refused:
            refusals[key] = refused
            raise

    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.watch.malformed-namespace")
def watches_what_is_no_namespace(patches: Patches) -> None:
    """A namespace that is not of the form tenant/name is watched like an empty one."""

    def make(watch: Handler) -> Handler:
        def changed(session: Session, request: CommandWatchTopicList, frame: Frame) -> None:
            if is_namespace(request.namespace):
                watch(session, request, frame)
            else:
                session.send(topic_lists(session.broker).watch(session, request))

        return changed

    patches.request("watchTopicList", make)


@mutant("pip145.watch.unauthorized")
def tells_strangers_which_namespaces_are_missing(patches: Patches) -> None:
    """Without permission, a namespace that does not exist is refused with TopicNotFound."""

    def make(watch: Handler) -> Handler:
        def changed(session: Session, request: CommandWatchTopicList, frame: Frame) -> None:
            missing = is_namespace(request.namespace) and request.namespace not in session.broker.store.namespaces
            if missing and not session.broker.may_list(session, request.namespace):
                raise Refused(TopicNotFound, "Namespace not found")
            watch(session, request, frame)

        return changed

    patches.request("watchTopicList", make)


@mutant("pip145.watch.permission-revoked")
def asks_for_permission_once(patches: Patches) -> None:
    """A watcher goes on after its connection has lost the permission to list the namespace."""
    make_lists = TopicListBroker.__init__

    def changed(lists: TopicListBroker, *args: object, **settings: object) -> None:
        make_lists(lists, *args, **(settings | {"may_watch": None}))  # type: ignore[arg-type]

    patches.replace(TopicListBroker, "__init__", changed)
