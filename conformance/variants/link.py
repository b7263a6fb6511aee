"""Freedoms of the link: when bytes come, in which pieces, and what frames carry beside what the schema knows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from conformance.mutants.model import Patches
from conformance.variants.model import MESSAGES, variant
from refimpl.broker import Session
from refimpl.net.memory_link import Faults, MemoryConnection, MemoryLink
from refimpl.wire.pulsar_api_pb2 import (
    CommandCloseProducer,
    CommandConnected,
    CommandGetLastMessageIdResponse,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopicResponse,
    CommandMessage,
    CommandPartitionedTopicMetadataResponse,
    CommandPing,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
)

Send = Callable[..., None]
UNKNOWN_FIELD = b"\xf8\xff\x07\x01" + b"\xfa\xff\x07\x04more"
"""Fields 16383, a number, and 16383, a text: of no message that the schema knows."""
_NOT_FOR_MINUTES = (
    "!*/large",
    "!*/largest",
    "!*/slow-reader",
    "!*/too-large",
    "!core/handshake/max-message-size-set",
    "!core/send/compressed-above",
    "!pip247/watch/many-topics",
)
"""All cases but those in which megabytes are sent."""
_ANSWERS_THAT_ONLY_TELL = (
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
    CommandGetTopicsOfNamespaceResponse,
    CommandGetLastMessageIdResponse,
    CommandGetSchemaResponse,
)


def later(session: Session, seconds: float, call: Callable[[], None]) -> None:
    """Call something after some seconds, unless the connection has ended by then."""
    session.broker.timers.at(session.broker.now + seconds, lambda: None if session.closing else call())


def on_send(patches: Patches, make: Callable[[Send], Send]) -> None:
    """Replace what puts a command into the output of a session: (session, message, payload)."""
    patches.wrap(Session, "send", make)


def with_faults(patches: Patches, faults: Faults) -> None:
    """Give each link inside the process some faults."""

    def make(original: Callable[..., None]) -> Callable[..., None]:
        return lambda link, broker, **options: original(link, broker, **{**options, "faults": faults})

    patches.wrap(MemoryLink, "__init__", make)


@variant("core.frame.any-segmentation", cases=_NOT_FOR_MINUTES)
def sends_every_byte_alone(patches: Patches) -> None:
    """Each byte comes by itself."""
    with_faults(patches, Faults(largest_piece=1))


@variant("core.frame.any-segmentation", cases=_NOT_FOR_MINUTES)
def sends_pieces_at_odd_times(patches: Patches) -> None:
    """Frames come in pieces of up to 50 bytes, each up to 3 ms after the last one, in both directions."""
    with_faults(patches, Faults(seed=7, largest_piece=50, delay=(0, 0.003)))


@variant("core.frame.several-at-once")
def sends_several_frames_at_once(patches: Patches) -> None:
    """What the broker sends within 10 ms comes as one piece."""

    def make(pump: Callable[[MemoryConnection], None]) -> Callable[[MemoryConnection], None]:
        waiting: set[MemoryConnection] = set()

        def send(connection: MemoryConnection) -> None:
            waiting.discard(connection)
            pump(connection)

        def changed(connection: MemoryConnection) -> None:
            if connection not in waiting:
                waiting.add(connection)
                asyncio.get_running_loop().call_later(0.01, send, connection)

        return changed

    patches.wrap(MemoryConnection, "pump", make)


@variant("order-of-answers", late=True)
def answers_half_a_second_late(patches: Patches) -> None:
    """All that is sent in either direction takes a quarter of a second."""
    with_faults(patches, Faults(delay=(0.25, 0.25)))


@variant("order-of-answers", late=True)
def answers_two_seconds_late(patches: Patches) -> None:
    """All that is sent in either direction takes a second."""
    with_faults(patches, Faults(delay=(1, 1)))


@variant("order-of-answers", "pip145.list.pipelined")
def answers_look_ups_in_another_order(patches: Patches) -> None:
    """Of requests that only ask, every second one is answered 30 ms later, so after those that came behind it."""

    def make(send: Send) -> Send:
        asked = 0

        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            nonlocal asked
            asked += isinstance(message, _ANSWERS_THAT_ONLY_TELL)
            if isinstance(message, _ANSWERS_THAT_ONLY_TELL) and asked % 2:
                later(session, 0.03, lambda: send(session, message, payload))
            else:
                send(session, message, payload)

        return changed

    on_send(patches, make)


@variant("core.send.receipt", cases=MESSAGES)
def sends_receipts_late(patches: Patches) -> None:
    """A receipt comes 0.3 s after the message was stored, when consumers have it."""

    def make(send: Send) -> Send:
        waiting: dict[Session, deque[Message]] = {}

        def flush(session: Session) -> None:
            for receipt in waiting.pop(session, ()):
                send(session, receipt)

        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            if isinstance(message, CommandSendReceipt):
                if session not in waiting:
                    waiting[session] = deque()
                    later(session, 0.3, lambda: flush(session))
                waiting[session].append(message)
                return
            if isinstance(message, CommandSendError | CommandSuccess | CommandCloseProducer):  # receipts keep their place before these
                flush(session)
            send(session, message, payload)

        return changed

    on_send(patches, make)


@variant("core.deliver.needs-permits", cases=MESSAGES)
def delivers_one_message_at_a_time(patches: Patches) -> None:
    """A message is sent 20 ms after the last one, and whatever the broker sends behind it waits."""

    def make(send: Send) -> Send:
        waiting: dict[Session, deque[tuple[Message, bytes | None]]] = {}

        def go_on(session: Session) -> None:
            send(session, *waiting[session].popleft())
            while waiting[session] and not isinstance(waiting[session][0][0], CommandMessage):
                send(session, *waiting[session].popleft())
            if waiting[session]:
                later(session, 0.02, lambda: go_on(session))
            else:
                del waiting[session]

        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            if session in waiting:
                waiting[session].append((message, payload))
            elif isinstance(message, CommandMessage):
                waiting[session] = deque([(message, payload)])
                later(session, 0.02, lambda: go_on(session))
            else:
                send(session, message, payload)

        return changed

    on_send(patches, make)


@variant("core.command.unknown-field-ignored", "unknown-commands")
def adds_unknown_fields(patches: Patches) -> None:
    """Every command has fields that the schema does not know."""

    def make(send: Send) -> Send:
        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            more = type(message)()
            more.CopyFrom(message)
            more.MergeFromString(UNKNOWN_FIELD)
            send(session, more, payload)

        return changed

    on_send(patches, make)


@variant("core.flags.unset-means-unknown", cases=("core/*", "*/flag/*", "*/compat/*"))
def sets_flags_of_the_future(patches: Patches) -> None:
    """CONNECTED has feature flags that nobody has named yet, and those of Pulsar that no case speaks of."""

    def change(_: Session, answer: CommandConnected) -> None:
        flags = answer.feature_flags
        flags.supports_auth_refresh = flags.supports_partial_producer = flags.supports_repl_dedup_by_lid_and_eid = True
        flags.MergeFromString(UNKNOWN_FIELD + b"\x50\x01\x58\x01")  # 10 and 11

    patches.outgoing(CommandConnected, change)


@variant("core.handshake.connected", "core.handshake.version-minimum", cases=("core/*",))
def introduces_itself_otherwise(patches: Patches) -> None:
    """CONNECTED has another server_version, which is no name with a number."""

    def change(_: Session, answer: CommandConnected) -> None:
        answer.server_version = "«Größter Broker» v∞ / 99.99.99-SNAPSHOT\tbuild #1"

    patches.outgoing(CommandConnected, change)


@variant("core.keepalive.ping-answered", "keep-alive")
def pings_at_odd_times(patches: Patches) -> None:
    """The broker asks for a sign of life before every third frame, besides its usual times."""

    def make(send: Send) -> Send:
        frames = 0

        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            nonlocal frames
            frames += 1
            if frames % 3 == 0 and session.protocol_version and not isinstance(message, CommandPing | CommandConnected):
                send(session, CommandPing())
            send(session, message, payload)

        return changed

    on_send(patches, make)


@variant("core.frame.too-large-closes", cases=("core/*", "*/flag/*", "pip145/list/*", "pip145/watch/*"))
def closes_with_a_reset(patches: Patches) -> None:
    """A connection that the broker ends is reset, after all that it has sent."""

    def make(arrive: Callable[..., None]) -> Callable[..., None]:
        def changed(connection: Any) -> None:
            closed = connection._on_closed
            connection._on_closed = lambda _: closed("rst")
            try:
                arrive(connection)
            finally:
                connection._on_closed = closed

        return changed

    patches.wrap(MemoryConnection, "_arrive_at_peer", make)


__all__ = ["UNKNOWN_FIELD", "later", "on_send", "with_faults"]
