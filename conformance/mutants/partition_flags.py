"""Brokers that lie about whether they tell of new partitions, and to whom, or that read the commands of PIP-247 wrongly."""

import itertools
from collections.abc import Callable, Hashable
from typing import Any

from google.protobuf.message import Message

from conformance.mutants.commands import has_unknown_field
from conformance.mutants.framing import tolerate
from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import partition_watches
from refimpl.broker import Broker, Session
from refimpl.broker.broker import PROPOSALS
from refimpl.configuration import Configuration
from refimpl.names import partition_name
from refimpl.proposals.partition_watch import PartitionWatchBroker
from refimpl.proposals.refused import ProtocolViolation
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandConnected,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandPartitionUpdate,
    CommandWatchPartitionUpdate,
    FeatureFlags,
)

Updates = list[tuple[Hashable, CommandPartitionUpdate]]


@mutant("pip247.flag.advertised")
def tells_its_first_client_only_that_it_counts_partitions(patches: Patches) -> None:
    """CONNECTED carries supports_partition_update_watchers on the broker's first connection, and on no later one."""
    numbers: dict[Broker, Callable[[], int]] = {}

    def change(session: Session, answer: CommandConnected) -> None:
        number = numbers.setdefault(session.broker, itertools.count().__next__)()
        answer.feature_flags.supports_partition_update_watchers &= number == 0

    patches.outgoing(CommandConnected, change)


@mutant("pip247.flag.whatever-client")
def hides_partition_watchers_from_older_clients(patches: Patches) -> None:
    """CONNECTED carries supports_partition_update_watchers only for a client of protocol version 20 or later."""

    def change(_: Session, answer: CommandConnected) -> None:
        answer.feature_flags.supports_partition_update_watchers &= answer.protocol_version >= 20

    patches.outgoing(CommandConnected, change)


@mutant("pip247.flag.default-on")
def says_that_it_notifies_nobody(patches: Patches) -> None:
    """The runtime configuration says that notifications are switched off."""
    settings = Configuration.settings

    def changed(configuration: Configuration) -> dict[str, str]:
        return settings(configuration) | {"enableNotificationForPartitionUpdate": "false"}

    patches.replace(Configuration, "settings", changed)


@mutant("pip247.flag.switched-off")
def offers_watchers_though_switched_off(patches: Patches) -> None:
    """With notifications switched off the feature flag is still set."""

    def changed(_: PartitionWatchBroker, flags: FeatureFlags) -> None:
        flags.supports_partition_update_watchers = True

    patches.replace(PartitionWatchBroker, "advertise", changed)


@mutant("pip247.flag.absent-before")
def claims_to_know_pip_247(patches: Patches) -> None:
    """A broker without PIP-247 sets supports_partition_update_watchers, except on its first connections."""
    make_broker = Broker.__init__
    numbers: dict[Broker, Callable[[], int]] = {}

    def changed(broker: Broker, *args: Any, **settings: Any) -> None:
        make_broker(broker, *args, **(settings | {"proposals": PROPOSALS - {"pip247"}}))

    def change(session: Session, answer: CommandConnected) -> None:
        number = numbers.setdefault(session.broker, itertools.count().__next__)()
        answer.feature_flags.supports_partition_update_watchers = number > 1

    patches.replace(Broker, "__init__", changed)
    patches.outgoing(CommandConnected, change)


@mutant("pip247.flag.nothing-unasked")
def tells_producers_unasked(patches: Patches) -> None:
    """A growth is told to each connection, too, that produces to the first partition of the topic and has no watcher."""
    changed_partitions = Broker.partitions_changed

    def changed(broker: Broker, topic: str) -> None:
        changed_partitions(broker, topic)
        update = CommandPartitionUpdate(version=1, watcher_id=0)
        update.topic_with_partition.add(topic=topic, partition=broker.partition_count(topic))
        for session in broker.sessions:
            produces = any(producer.topic.name.full == partition_name(topic, 0) for producer in session.producers.values())
            if produces and not partition_watches(broker).watcher_count(session):
                session.send(update)

    patches.replace(Broker, "partitions_changed", changed)


@mutant("pip247.compat.polling")
def keeps_polls_waiting_beside_a_watcher(patches: Patches) -> None:
    """While somebody watches a topic, PARTITIONED_METADATA repeats on each other connection what it answered first."""
    topics: dict[tuple[Session, int], str] = {}
    answered: dict[tuple[Session, str], int] = {}

    def ask(session: Session, request: CommandPartitionedTopicMetadata) -> None:
        topics[session, request.request_id] = request.topic

    def answer(session: Session, response: CommandPartitionedTopicMetadataResponse) -> None:
        topic = topics[session, response.request_id]
        watches = partition_watches(session.broker)
        first = answered.setdefault((session, topic), response.partitions)
        if topic in watches._by_topic and not watches.watcher_count(session):
            response.partitions = first

    patches.incoming(CommandPartitionedTopicMetadata, ask)
    patches.outgoing(CommandPartitionedTopicMetadataResponse, answer)


@mutant("pip247.watch.after-connect")
def ignores_results_before_connect(patches: Patches) -> None:
    """A PARTITION_UPDATE_RESULT before CONNECT is ignored."""
    carry_out = Session._carry_out_request

    def changed(session: Session, name: str, request: Message, frame: Frame) -> None:
        if session.protocol_version is not None or name != "partitionUpdateResult":
            carry_out(session, name, request, frame)

    patches.replace(Session, "_carry_out_request", changed)


@mutant("pip247.watch.required-fields")
def closes_watcher_0_when_none_is_named(patches: Patches) -> None:
    """A WATCH_PARTITION_UPDATE_CLOSE that lacks its required watcher_id is carried out with the watcher_id 0."""

    def fill(octets: bytes) -> list[Frame]:
        command = BaseCommand()
        command.MergeFromString(octets[8:])
        command.watchPartitionUpdateClose.watcher_id = 0
        return [Frame(octets, command)]

    tolerate(patches, "CommandWatchPartitionUpdateClose lacks its required field watcher_id", fill)


@mutant("pip247.watch.layout")
def knows_no_later_version_of_the_request(patches: Patches) -> None:
    """A watch request with a field that the broker does not know ends the connection."""

    def change(_: Session, request: CommandWatchPartitionUpdate) -> None:
        if has_unknown_field(request):
            raise ProtocolViolation("a field of WATCH_PARTITION_UPDATE is not known")

    patches.incoming(CommandWatchPartitionUpdate, change)


@mutant("pip247.watch.others-unaffected")
def suspects_all_who_name_a_topic(patches: Patches) -> None:
    """When the broker ends a connection, it ends the watchers of all topics that were named there, on every connection."""
    named: dict[Session, set[str]] = {}
    end = Session.end

    def change(session: Session, request: CommandWatchPartitionUpdate) -> None:
        named.setdefault(session, set()).update(request.topics)

    def changed(session: Session, reason: str) -> None:
        end(session, reason)
        watches = partition_watches(session.broker)
        if reason != "the peer has ended the connection":
            for topic in named.pop(session, ()):
                for watcher in list(watches._by_topic.get(topic, ())):
                    watches._drop(watcher)

    patches.incoming(CommandWatchPartitionUpdate, change)
    patches.replace(Session, "end", changed)
