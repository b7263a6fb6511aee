"""Freedoms that a clause gives by its level: what a broker MAY do, and what it SHOULD do and does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.mutants.model import Patches
from conformance.variants.link import later
from conformance.variants.model import variant
from refimpl.broker import Session, schemas
from refimpl.broker.requests import Handler
from refimpl.proposals.message_filter import rules
from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics.broker import ScalableTopicsBroker
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandLookupTopic,
    CommandScalableTopicUpdate,
    NotAllowedError,
    ServiceNotReady,
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
    """The layout of a scalable topic comes once more, 3 s later, with the same epoch."""

    def make(send: Callable[..., None]) -> Callable[..., None]:
        def changed(session: Session, message: Any, payload: bytes | None = None) -> None:
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
