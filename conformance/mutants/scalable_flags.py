"""Brokers that lie about scalable topics before anything is watched: in flags, numbers, and to whom they speak."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, cast

from google.protobuf.message import Message

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Broker, Session
from refimpl.broker.broker import PROPOSALS
from refimpl.names import namespace_of
from refimpl.proposals.scalable_topics import ScalableTopicsBroker, ScalableTopicsExtension
from refimpl.wire.pulsar_api_pb2 import (
    CommandConnect,
    CommandConnected,
    CommandGetTopicsOfNamespace,
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsUpdate,
    NotAllowedError,
    ScalableTopicsDiff,
)


@mutant("pr25648.flag.advertised")
def tells_its_first_client_only_that_it_has_scalable_topics(patches: Patches) -> None:
    """CONNECTED carries supports_scalable_topics on the broker's first connection, and on no later one."""
    numbers: dict[Broker, Callable[[], int]] = {}

    def change(session: Session, answer: CommandConnected) -> None:
        number = numbers.setdefault(session.broker, itertools.count().__next__)()
        answer.feature_flags.supports_scalable_topics &= number == 0

    patches.outgoing(CommandConnected, change)


@mutant("pr25648.flag.switched-off")
def keeps_its_flag_when_it_is_switched_off(patches: Patches) -> None:
    """CONNECTED carries supports_scalable_topics whatever scalableTopicsEnabled is."""

    def change(_: Session, answer: CommandConnected) -> None:
        answer.feature_flags.supports_scalable_topics = True

    patches.outgoing(CommandConnected, change)


@mutant("pr25648.flag.absent-before")
def claims_scalable_topics_that_it_does_not_know(patches: Patches) -> None:
    """A broker without PR 25648 sets supports_scalable_topics, except on its first connections."""
    make_broker = Broker.__init__
    numbers: dict[Broker, Callable[[], int]] = {}

    def changed(broker: Broker, *args: Any, **settings: Any) -> None:
        make_broker(broker, *args, **(settings | {"proposals": PROPOSALS - {"pr25648"}}))

    def change(session: Session, answer: CommandConnected) -> None:
        number = numbers.setdefault(session.broker, itertools.count().__next__)()
        answer.feature_flags.supports_scalable_topics = number > 1

    patches.replace(Broker, "__init__", changed)
    patches.outgoing(CommandConnected, change)


@mutant("pr25648.flag.nothing-unasked")
def tells_whoever_has_listed_the_namespace(patches: Patches) -> None:
    """A connection without a watch that has listed the topics of a namespace is told which scalable topics come."""
    create = ScalableTopicsExtension.create
    listed: dict[Session, str] = {}

    def changed(scalable: ScalableTopicsExtension, topic: str, properties: Mapping[str, str], segments: int) -> None:
        create(scalable, topic, properties, segments)
        for session in cast(Broker, scalable.host).sessions:
            if listed.get(session) == namespace_of(topic) and not scalable.watches.watch_count(session):
                session.send(CommandWatchScalableTopicsUpdate(watch_id=0, diff=ScalableTopicsDiff(added=[topic])))

    patches.replace(ScalableTopicsExtension, "create", changed)
    patches.incoming(CommandGetTopicsOfNamespace, lambda session, request: listed.__setitem__(session, request.namespace))


@mutant("pr25648.watch.numbers")
def takes_an_update_from_a_client(patches: Patches) -> None:
    """A WATCH_SCALABLE_TOPICS_UPDATE that comes from a client is ignored."""
    patches.incoming(CommandWatchScalableTopicsUpdate, lambda _session, _update: False)


@mutant("pr25648.watch.after-connect")
def is_not_ready_for_watches_right_after_connect(patches: Patches) -> None:
    """A WATCH_SCALABLE_TOPICS that comes before CONNECTED has been taken gets no answer."""
    connect = Session._connect
    written: dict[Session, int] = {}

    def changed(session: Session, request: CommandConnect) -> None:
        connect(session, request)
        written[session] = len(session._output)

    patches.replace(Session, "_connect", changed)
    patches.incoming(CommandWatchScalableTopics, lambda session, _: len(session._output) != written.get(session))


@mutant("pr25648.watch.protocol-version")
def serves_watches_to_newer_clients_only(patches: Patches) -> None:
    """A watch of a client that states protocol version 1 to 11 is refused with NotAllowedError."""
    watch = ScalableTopicsBroker.watch

    def changed(watches: ScalableTopicsBroker, session: Session, request: CommandWatchScalableTopics) -> Message | None:
        if session.protocol_version in range(1, 12):
            return CommandWatchScalableTopicsUpdate(watch_id=request.watch_id, error=NotAllowedError, message="too old")
        return watch(watches, session, request)

    patches.replace(ScalableTopicsBroker, "watch", changed)


@mutant("pr25648.error.switched-off")
def looks_at_the_namespace_before_the_switch(patches: Patches) -> None:
    """Switched off, it still says of a malformed namespace that it is malformed."""
    check = ScalableTopicsBroker._check

    def changed(watches: ScalableTopicsBroker, session: Session, request: CommandWatchScalableTopics, known: int) -> None:
        enabled, watches._enabled = watches._enabled, True
        try:
            check(watches, session, request, known)
        finally:
            watches._enabled = enabled
        check(watches, session, request, known)

    patches.replace(ScalableTopicsBroker, "_check", changed)
