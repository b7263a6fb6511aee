"""Brokers that do not get along with old clients, or that are old brokers and pretend to be more, or whose switch does not switch."""

from conformance.mutants.commands import has_unknown_field
from conformance.mutants.listing import Request, before_pip145, change_topics
from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.broker.admin import Admin
from refimpl.broker.lookups import get_topics
from refimpl.configuration import Configuration
from refimpl.indexes.topic_patterns import TopicsPattern, compile_pattern
from refimpl.names import partitioned_topic_name
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.proposals.topic_list import TopicListBroker, without_domain
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import MetadataError


def _check(pattern: str) -> None:
    """Refuse a pattern that does not compile."""
    try:
        compile_pattern(without_domain(pattern))
    except ValueError as error:
        raise Refused(MetadataError, str(error)) from None


@mutant("pip145.compat.switch-default")
def says_that_it_evaluates_no_patterns(patches: Patches) -> None:
    """The runtime configuration says that patterns are not evaluated."""
    settings = Configuration.settings

    def changed(configuration: Configuration) -> dict[str, str]:
        return settings(configuration) | {"enableBrokerSideSubscriptionPatternEvaluation": "false"}

    patches.replace(Configuration, "settings", changed)


@mutant("pip145.compat.switch-off")
def evaluates_patterns_though_switched_off(patches: Patches) -> None:
    """With pattern evaluation switched off, lists are filtered all the same."""
    filter_of = TopicListBroker._filter_of

    def changed(lists: TopicListBroker, request: Request) -> TopicsPattern | None:
        switched = lists._evaluation_enabled
        lists._evaluation_enabled = True
        try:
            return filter_of(lists, request)
        finally:
            lists._evaluation_enabled = switched

    patches.replace(TopicListBroker, "_filter_of", changed)


@mutant("pip145.compat.switch-off-hash")
def overlooks_the_hash_if_switched_off(patches: Patches) -> None:
    """With pattern evaluation switched off, the hash of a request is not looked at."""

    def change(session: Session, request: Request) -> None:
        if not session.broker.configuration.enable_broker_side_subscription_pattern_evaluation:
            request.ClearField("topics_hash")

    patches.incoming(Request, change)


@mutant("pip145.compat.switch-off-no-error")
def compiles_patterns_though_switched_off(patches: Patches) -> None:
    """With pattern evaluation switched off, a pattern that does not compile is refused."""
    filter_of = TopicListBroker._filter_of

    def changed(lists: TopicListBroker, request: Request) -> TopicsPattern | None:
        if not lists._evaluation_enabled:
            _check(request.topics_pattern)
        return filter_of(lists, request)

    patches.replace(TopicListBroker, "_filter_of", changed)


@mutant("pip145.compat.old-client")
def lists_partitioned_topics_once_for_old_clients(patches: Patches) -> None:
    """A client whose protocol version is below 19 gets the names of partitioned topics instead of their partitions."""

    def change(session: Session, _: Request, topics: list[str]) -> list[str]:
        if (session.protocol_version or 0) >= 19:
            return topics
        return list(dict.fromkeys(map(partitioned_topic_name, topics)))

    change_topics(patches, change)


@mutant("pip145.compat.old-broker")
def filters_without_saying_so(patches: Patches) -> None:
    """A broker from before the proposal lists only what begins as a pattern in .* does."""

    def change(_: Session, request: Request, topics: list[str]) -> list[str]:
        pattern = request.topics_pattern
        return [topic for topic in topics if not pattern.endswith(".*") or topic.startswith(pattern[:-2])]

    before_pip145(patches)
    change_topics(patches, change)


@mutant("pip145.compat.old-broker-no-pattern-error")
def refuses_patterns_that_it_does_not_need(patches: Patches) -> None:
    """A broker from before the proposal refuses a pattern that does not compile."""

    def changed(session: Session, request: Request, frame: Frame) -> None:
        _check(request.topics_pattern)
        get_topics(session, request, frame)

    before_pip145(patches)
    patches.request("getTopicsOfNamespace", lambda _: changed)


@mutant("pip145.compat.unknown-fields")
def ends_the_connection_for_a_field_of_a_later_proposal(patches: Patches) -> None:
    """A request for a list with a field that the broker does not know ends the connection."""

    def change(_: Session, request: Request) -> None:
        if has_unknown_field(request):
            raise ProtocolViolation("an unknown field")

    patches.incoming(Request, change)


@mutant("pip145.compat.http-list")
def lists_partitioned_topics_once_over_http(patches: Patches) -> None:
    """The admin interface lists a partitioned topic by its own name instead of its partitions."""

    def changed(admin: Admin, namespace: str, domain: str, *, include_system: bool = False) -> list[str]:
        return list(dict.fromkeys(map(partitioned_topic_name, admin.topics(namespace, domain, include_system=include_system))))

    patches.operation(Admin.topics, changed)
