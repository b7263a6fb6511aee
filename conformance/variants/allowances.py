"""Freedoms that a clause gives by its level: what a broker MAY do, and what it SHOULD do and does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify
from typing import Any

from conformance.mutants.model import Patches
from conformance.variants.link import later
from conformance.variants.model import variant
from refimpl.broker import Session, consuming, schemas
from refimpl.broker.requests import Handler
from refimpl.broker.subscription import Subscription
from refimpl.proposals.message_filter import rules
from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics.broker import ScalableTopicsBroker
from refimpl.proposals.topic_list.broker import TopicListBroker
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnected,
    CommandError,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandScalableTopicUpdate,
    CommandSubscribe,
    ConsumerNotFound,
    InvalidTopicName,
    MetadataError,
    NotAllowedError,
    ServiceNotReady,
    UnknownError,
)


@variant("core.producer.lookup-first")
def needs_a_look_up_first(patches: Patches) -> None:
    """PRODUCER and SUBSCRIBE are refused with ServiceNotReady unless somebody has looked their topic up."""
    known: set[tuple[int, str]] = set()

    def note(session: Session, request: CommandLookupTopic) -> None:
        known.add((id(session.broker), session.broker.topic_name(request.topic).full))

    def make(handler: Handler) -> Handler:
        def changed(session: Session, request: Any, frame: Frame) -> None:
            name = session.broker.topic_name(request.topic)
            if name.domain in ("persistent", "non-persistent") and (id(session.broker), name.full) not in known:
                raise Refused(ServiceNotReady, "Please redo the lookup")
            handler(session, request, frame)

        return changed

    patches.incoming(CommandLookupTopic, note)
    patches.request("producer", make)
    patches.request("subscribe", make)


@variant("pr25648.watch.permission-revoked", not_kept=("pr25648.watch.permission-revoked",), cases=("pr25648/*",))
def tells_watches_what_they_may_no_longer_see(patches: Patches) -> None:
    """A watch of scalable topics goes on when its role has lost the permission; only new ones are refused."""
    patches.wrap(ScalableTopicsBroker, "_still_may", lambda _: lambda *_: True)


@variant("pr25648.layout.epoch-repeated", cases=("pr25648/*",))
def repeats_layouts(patches: Patches) -> None:
    """The layout of a scalable topic comes once more, 3 s later, with the same epoch; the first one has the epoch 12."""

    def make(send: Callable[..., None]) -> Callable[..., None]:
        def changed(session: Session, message: Any, payload: bytes | None = None) -> None:
            if isinstance(message, CommandScalableTopicUpdate) and not message.HasField("error"):
                message.dag.epoch += 12
            send(session, message, payload)
            if isinstance(message, CommandScalableTopicUpdate) and not message.HasField("error"):
                later(session, 3, lambda: send(session, message))

        return changed

    patches.wrap(Session, "send", make)


@variant("core.handshake.ping-before-connect", cases=("core/*",))
def needs_connect_before_ping(patches: Patches) -> None:
    """A PING before CONNECT closes the connection, as any other command does."""

    def make(carry_out: Callable[..., None]) -> Callable[..., None]:
        def changed(session: Session, frame: Frame) -> None:
            if session.protocol_version is None and frame.command.HasField("ping"):
                session.end("PING before CONNECT")
            else:
                carry_out(session, frame)

        return changed

    patches.wrap(Session, "_carry_out", make)


@variant("core.consumer.stats", cases=("core/*",))
def has_no_consumer_stats(patches: Patches) -> None:
    """CONSUMER_STATS is refused."""

    def make(_: Handler) -> Handler:
        def refuse(session: Session, request: Any, frame: Frame) -> None:
            raise Refused(NotAllowedError, "CONSUMER_STATS is not supported")

        return refuse

    patches.request("consumerStats", make)


@variant("core.deliver.zero-permits-close", cases=("core/*",))
def ignores_a_flow_of_zero(patches: Patches) -> None:
    """A FLOW of zero permits changes nothing, and the connection stays."""

    def make(handler: Handler) -> Handler:
        def changed(session: Session, request: Any, frame: Frame) -> None:
            if request.messagePermits:
                handler(session, request, frame)

        return changed

    patches.request("flow", make)


@variant("core.schema.of-domain", not_kept=("core.schema.of-domain",), cases=("core/*", "pr7629/*"))
def keeps_schemas_of_each_domain_apart(patches: Patches) -> None:
    """A persistent and a non-persistent topic of one name have schemas of their own."""
    patches.wrap(schemas, "_key", lambda key: lambda name: key(name) if name.persistent else f"{name.domain}/{key(name)}")


@variant("pr7629.judge.chunked", cases=("pr7629/*",))
def judges_no_message_of_one_chunk(patches: Patches) -> None:
    """A message in one chunk is a chunk, too: it is delivered as it is, and counted as undecidable."""

    def make(unreadable: Callable[[Any], str]) -> Callable[[Any], str]:
        return lambda metadata: "it is a chunk of a message" if metadata.num_chunks_from_msg else unreadable(metadata)

    patches.wrap(rules, "_unreadable", make)


@variant("core.handshake.connected", cases=("core/handshake/*", "core/flags/*", "core/frame/*"))
def says_no_largest_message(patches: Patches) -> None:
    """CONNECTED says max_message_size, an optional field, only if it is not 5 MiB, which clients take it for."""

    def change(_: Session, answer: CommandConnected) -> None:
        if answer.max_message_size == 5 << 20:
            answer.ClearField("max_message_size")

    patches.outgoing(CommandConnected, change)


@variant("core.lookup.connect", cases=("core/lookup/*", "core/partitions/*", "core/access/*"))
def is_not_authoritative(patches: Patches) -> None:
    """A look-up is answered by the broker itself without authoritative, which counts in a redirect only."""

    def change(_: Session, answer: CommandLookupTopicResponse) -> None:
        if answer.response == CommandLookupTopicResponse.Connect:
            answer.ClearField("authoritative")

    patches.outgoing(CommandLookupTopicResponse, change)


@variant("core.push.topic-deleted", cases=("core/push/*", "core/admin/*", "core/seek/*", "core/terminate/*", "core/policy/*"))
def numbers_what_it_closes(patches: Patches) -> None:
    """CLOSE_PRODUCER and CLOSE_CONSUMER that nobody has asked for have the request_id 0, not 2^64-1: they answer nothing."""

    def change(_: Session, close: CommandCloseProducer | CommandCloseConsumer) -> None:
        close.request_id = 0

    patches.outgoing(CommandCloseProducer, change)
    patches.outgoing(CommandCloseConsumer, change)


@variant("core.redeliver.before-new", cases=("core/ack/*", "core/redeliver/*", "core/seek/*", "pr7629/ack/*", "pr7629/refused/*"))
def gives_again_after_the_unread(patches: Patches) -> None:
    """A Shared subscription delivers again after what is unread, the youngest first. Chunks go as before."""

    def make(candidates: Callable[..., Iterator[int]]) -> Callable[..., Iterator[int]]:
        def changed(subscription: Subscription, *, unread: bool) -> Iterator[int]:
            entries = subscription.topic.entries
            if subscription.type != CommandSubscribe.Shared or any(
                one >= entries.first and entries[one].chunk for one in subscription._replay
            ):
                yield from candidates(subscription, unread=unread)
                return
            while unread and subscription._read < entries.end:
                subscription._read += 1
                yield subscription._read - 1
            while subscription._replay:
                youngest = max(subscription._replay)
                subscription._replay.remove(youngest)
                heapify(subscription._replay)
                yield youngest

        return changed

    patches.wrap(Subscription, "_candidates", make)


@variant("core.producer.success", cases=("pip247/update/created-*",))
def takes_its_time_to_attach(patches: Patches) -> None:
    """PRODUCER and SUBSCRIBE are carried out 0.3 s later, and other commands of the connection before them."""

    def make(name: str, handler: Handler) -> Handler:
        if name not in ("producer", "subscribe"):
            return handler

        def carry_out(session: Session, request: Any, frame: Frame) -> None:
            def later() -> None:
                if session.closing:
                    return
                try:
                    handler(session, request, frame)
                except Refused as refused:
                    session.refuse(request, refused)

            session.broker.timers.at(session.broker.now + 0.3, later)

        return carry_out

    patches.handlers(make)


@variant("pip145.pattern.invalid", cases=("pip145/*", "promoted/*", "core/consumer/*", "core/position/*", "core/seek/*"))
def refuses_with_other_codes(patches: Patches) -> None:
    """A bad pattern is InvalidTopicName in a list, and MetadataError in a watch; a consumer that is not open is ConsumerNotFound."""

    def instead(code: int, other: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(carry_out: Callable[..., Any]) -> Callable[..., Any]:
            def changed(*given: Any) -> Any:
                try:
                    return carry_out(*given)
                except Refused as refused:
                    raise Refused(other if refused.code == code else refused.code, refused.message) from None

            return changed

        return make

    patches.wrap(TopicListBroker, "_watched_pattern", instead(InvalidTopicName, MetadataError))
    patches.wrap(TopicListBroker, "_filter_of", instead(MetadataError, InvalidTopicName))
    patches.function(consuming._consumer, instead(MetadataError, ConsumerNotFound)(consuming._consumer))


@variant(
    "core.send.unknown-producer-closes",
    cases=("core/access/*", "core/auth/*", "core/command/*", "core/frame/*", "core/handshake/*", "core/send/*", "pip145/watch/malformed-*"),
)
def says_why_it_closes(patches: Patches) -> None:
    """An ERROR with request_id 2^64-1 says why, before the broker ends a connection."""

    def make(end: Callable[[Session, str], None]) -> Callable[[Session, str], None]:
        def changed(session: Session, reason: str) -> None:
            told = session.protocol_version is None or reason.startswith(("the peer", "the role"))
            if not session.closing and not told and not session.__dict__.get("told"):
                session.send(CommandError(request_id=2**64 - 1, error=UnknownError, message=reason))
            end(session, reason)

        return changed

    def turn_away(original: Callable[..., None]) -> Callable[..., None]:
        def changed(session: Session, *given: Any) -> None:
            session.__dict__["told"] = True
            original(session, *given)

        return changed

    patches.wrap(Session, "end", make)
    patches.wrap(Session, "turn_away", turn_away)
