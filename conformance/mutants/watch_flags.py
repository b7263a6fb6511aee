"""Brokers that lie about whether they serve topic list watchers."""

import itertools
from collections.abc import Callable, Iterable

from conformance.mutants.framing import tolerate
from conformance.mutants.listing import before_pip145
from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import topic_lists
from refimpl.broker import Broker, Session
from refimpl.names import namespace_of
from refimpl.proposals.extension import send_all
from refimpl.proposals.topic_list import TopicListBroker
from refimpl.proposals.topic_list import broker as topic_list_broker
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandConnect,
    CommandConnected,
    CommandGetTopicsOfNamespace,
    CommandPartitionUpdate,
    CommandWatchTopicList,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    FeatureFlags,
)


@mutant("pip145.flag.advertised")
def tells_its_first_client_only_that_it_has_watchers(patches: Patches) -> None:
    """CONNECTED carries supports_topic_watchers on the broker's first connection, and on no later one."""
    numbers: dict[Broker, Callable[[], int]] = {}

    def change(session: Session, answer: CommandConnected) -> None:
        number = numbers.setdefault(session.broker, itertools.count().__next__)()
        answer.feature_flags.supports_topic_watchers = number == 0

    patches.outgoing(CommandConnected, change)


@mutant("pip145.flag.whatever-client")
def hides_watchers_from_older_clients(patches: Patches) -> None:
    """CONNECTED carries supports_topic_watchers only for a client of protocol version 20 or later."""

    def change(_: Session, answer: CommandConnected) -> None:
        answer.feature_flags.supports_topic_watchers &= answer.protocol_version >= 20

    patches.outgoing(CommandConnected, change)


@mutant("pip145.flag.absent-before")
def claims_watchers_that_it_does_not_know(patches: Patches) -> None:
    """A broker without PIP-145 sets supports_topic_watchers, except on its first connections."""
    numbers: dict[Broker, Callable[[], int]] = {}

    def change(session: Session, answer: CommandConnected) -> None:
        number = numbers.setdefault(session.broker, itertools.count().__next__)()
        answer.feature_flags.supports_topic_watchers = number > 1

    before_pip145(patches)
    patches.outgoing(CommandConnected, change)


@mutant("pip145.flag.reconcile")
def takes_a_repeated_request_for_a_sign_of_life(patches: Patches) -> None:
    """The same request again, without a hash, is answered by no topics if nothing has changed since its answer was taken."""
    watch = TopicListBroker.watch
    answered: dict[tuple[Session, int], tuple[str, str]] = {}

    def changed(lists: TopicListBroker, session: Session, request: CommandWatchTopicList) -> CommandWatchTopicListSuccess:
        answer = watch(lists, session, request)
        key, now = (session, request.watcher_id), (request.topics_pattern, answer.topics_hash)
        if answered.get(key) == now and not request.HasField("topics_hash") and not session.has_output:
            answer.ClearField("topic")
        answered[key] = now
        return answer

    patches.replace(TopicListBroker, "watch", changed)


@mutant("pip145.flag.watcher-switch")
def hides_one_of_two_flags(patches: Patches) -> None:
    """With enableBrokerTopicListWatcher=false supports_topic_watcher_reconcile is still set."""
    advertise = TopicListBroker.advertise

    def changed(lists: TopicListBroker, flags: FeatureFlags) -> None:
        advertise(lists, flags)
        flags.supports_topic_watcher_reconcile = True

    patches.replace(TopicListBroker, "advertise", changed)


@mutant("pip145.flag.filtering-off-clears")
def announces_watchers_that_it_will_refuse(patches: Patches) -> None:
    """With the evaluation of patterns switched off supports_topic_watchers is still set."""
    patches.replace(TopicListBroker, "offers_watchers", property(lambda lists: lists._watchers_enabled))


@mutant("pip145.flag.nothing-unasked")
def pushes_to_old_clients(patches: Patches) -> None:
    """What a watcher is told is told to each connection, too, that has no watcher and has listed the namespace without a pattern."""
    listed: dict[str, dict[Session, None]] = {}
    announce = send_all

    def change(session: Session, request: CommandGetTopicsOfNamespace) -> None:
        if not request.HasField("topics_pattern"):
            listed.setdefault(request.namespace, {})[session] = None

    def changed(updates: Iterable[tuple[Session, CommandWatchTopicUpdate | CommandPartitionUpdate]]) -> None:
        told = list(updates)
        announce(told)
        for update in [update for _, update in told if isinstance(update, CommandWatchTopicUpdate)][:1]:
            for session in listed.get(namespace_of([*update.new_topics, *update.deleted_topics][0]), ()):
                if not topic_lists(session.broker).watcher_count(session):
                    session.send(update)

    patches.incoming(CommandGetTopicsOfNamespace, change)
    patches.replace(topic_list_broker, "send_all", changed)


@mutant("pip145.watch.after-connect")
def is_not_ready_right_after_connect(patches: Patches) -> None:
    """A WATCH_TOPIC_LIST that comes before CONNECTED has been taken gets no answer."""
    connect = Session._connect
    written: dict[Session, int] = {}

    def changed(session: Session, request: CommandConnect) -> None:
        connect(session, request)
        written[session] = len(session._output)

    patches.replace(Session, "_connect", changed)
    patches.incoming(CommandWatchTopicList, lambda session, _: len(session._output) != written.get(session))


@mutant("pip145.watch.required-fields")
def takes_a_missing_watcher_id_for_0(patches: Patches) -> None:
    """A WATCH_TOPIC_LIST that lacks its required watcher_id is served with the watcher_id 0."""

    def fill(octets: bytes) -> list[Frame]:
        command = BaseCommand()
        command.MergeFromString(octets[8:])
        command.watchTopicList.watcher_id = 0
        return [Frame(octets, command)]

    tolerate(patches, "CommandWatchTopicList lacks its required field watcher_id", fill)
