"""One connection: bytes in, bytes out; handshake, keep-alive, and its producers and consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from google.protobuf.message import Message

from refimpl.broker.consumer import Consumer
from refimpl.broker.credentials import Credentials
from refimpl.broker.members import Member
from refimpl.broker.requests import refusal
from refimpl.broker.topic import MAX_U64, Producer
from refimpl.names import TopicName
from refimpl.proposals.extension import Preparation
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.timers import Timer
from refimpl.wire import FRAME_PADDING, FrameDecoder, WireError, command_name, encode_frame, sub_message, type_name, wrap
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnect,
    CommandConnected,
    CommandError,
    CommandPing,
    CommandPong,
    ServerError,
    ServiceNotReady,
)

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker

PROTOCOL_VERSION = 21
MESSAGES_WAIT_ABOVE = 256 * 1024
"""Bytes of unsent output above which the broker sends no messages to the peer."""
REQUESTS_WAIT_ABOVE = 1024 * 1024
"""Bytes of unsent output above which the peer's requests wait."""
PIECE = 8192
"""Received bytes that are read into frames at a time."""
OUTPUT_LIMIT = 32 * 1024 * 1024
"""Bytes of unsent output above which the broker disconnects the peer."""


class Session:
    """A connection of a peer.

    Attributes:
        number: The number of the connection, from 1, for the log.
        address: The address of the peer, without its port.
        member: The broker of the cluster that it is a connection to.
        client_version: What the client says of itself.
        credentials: Who the peer is, and until when.
        protocol_version: The lower of both sides' versions; None before CONNECT.
        producers: Producers by producer_id.
        consumers: Consumers by consumer_id.
        closed_producers: The producer_ids that the broker has closed, and until when the peer may not have heard of it.
        closing: Whether the broker has ended this connection; the remaining output is still sent.
    """

    def __init__(self, broker: Broker, number: int, address: str, member: Member) -> None:
        self.broker = broker
        self.number = number
        self.address = address
        self.member = member
        self.client_version = ""
        self.credentials = Credentials(self)
        self.protocol_version: int | None = None
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}
        self.closed_producers: dict[int, float] = {}
        self.closing = False
        self._decoder = FrameDecoder(broker.configuration.max_message_size + FRAME_PADDING)
        self._received = bytearray()
        self._frames: deque[Frame] = deque()
        self._preparing: Preparation | None = None
        self._working = False
        self._output = bytearray()
        self._pinged = False
        self._liveness: list[Callable[[bool], None]] = []
        self._liveness_timer: Timer | None = None
        self._keep_alive: Timer | None = self._later(broker.configuration.keep_alive_interval_seconds, self._check_alive)

    @property
    def role(self) -> str | None:
        """The role of the peer; None if authentication is off."""
        return self.credentials.role

    @property
    def counted(self) -> tuple[Member | tuple[Member, str], ...]:
        """Return what it counts for, where connections have limits: its broker, and that with its address."""
        return self.member, (self.member, self.address)

    def __str__(self) -> str:
        """Return how the log names the connection."""
        return f"connection {self.number} ({self.address})"

    # Bytes

    def receive(self, data: bytes, now: float) -> None:
        """Process bytes from the peer."""
        self.broker.now = now
        if self.closing:
            return
        self._received += data
        if self not in self.broker.waiting:
            self._work()

    def proceed(self, now: float) -> None:
        """Process received commands that wait for another turn."""
        self.broker.now = now
        self._work()

    def eof(self, now: float) -> None:
        """Handle the end or the loss of the connection: core.frame.cut-frame-dropped."""
        self.broker.now = now
        self.end("the peer has ended the connection")

    def data_to_send(self, limit: int = 65536) -> bytes:
        """Remove and return at most `limit` bytes of output; empty if there is none."""
        taken = bytes(self._output[:limit])
        waited = not self.takes_messages
        del self._output[:limit]
        if waited and self.takes_messages and not self.closing:
            self._work()
            for consumer in list(self.consumers.values()):
                consumer.subscription.dispatch()
        return taken

    @property
    def reading(self) -> bool:
        """Return whether to read from the peer; False while it does not read its output, and while its commands wait for a turn."""
        return not self.closing and self._peer_reads and self not in self.broker.waiting

    @property
    def _peer_reads(self) -> bool:
        return len(self._output) <= REQUESTS_WAIT_ABOVE

    @property
    def takes_messages(self) -> bool:
        """Return whether messages may be sent now."""
        return not self.closing and len(self._output) <= MESSAGES_WAIT_ABOVE

    @property
    def has_output(self) -> bool:
        """Return whether there is output to send, or the connection should be closed."""
        return bool(self._output) or self.closing

    def speaks(self, version: int) -> bool:
        """Return whether the peer has a protocol version, or a later one."""
        return (self.protocol_version or 0) >= version

    def send(self, message: Message, payload: bytes | None = None) -> None:
        """Queue a command."""
        if self.closing:
            return
        self._output += encode_frame(wrap(message), payload)
        self.broker.touched(self)
        if len(self._output) > OUTPUT_LIMIT and not self._working:
            self.end(f"the peer has left {len(self._output)} bytes unread")

    def refuse(self, request: Message, refused: Refused) -> None:
        """Answer a refused request: core.request.error-echoes-id."""
        self.log_refusal(type_name(wrap(request)), refused)
        self.send(refusal(request, refused))

    def log_refusal(self, what: str, refused: Refused) -> None:
        """Log a refusal."""
        self.broker.log.refused(what, ServerError.Name(refused.code), refused.message, str(self))

    def turn_away(self, refused: Refused, what: str = "CONNECT") -> None:
        """Refuse the connection: an error that answers no request, and the end."""
        self.log_refusal(what, refused)
        self.send(CommandError(request_id=MAX_U64, error=refused.code, message=refused.message))  # type: ignore[arg-type]
        self.end(refused.message)

    def end(self, reason: str) -> None:
        """End the connection and its producers, consumers and watchers."""
        if self.closing:
            return
        self.closing = True
        self._received.clear()
        self._frames.clear()
        self._preparing = None
        for timer in (self._keep_alive, self._liveness_timer):
            if timer is not None:
                timer.cancel()
        self.broker.ended(self, reason)
        for producer in list(self.producers.values()):
            self.drop_producer(producer)
        for consumer in list(self.consumers.values()):
            self.drop_consumer(consumer)
        self._answer_liveness(alive=False)

    # Commands

    def _work(self) -> None:
        """Process the received commands while the peer reads the answers and the turn lasts."""
        self._working = True
        while self._peer_reads and not self.broker.turn_is_over() and self._has_frame():
            if self._is_prepared(self._frames[0]):
                self._carry_out(self._frames.popleft())
                self._preparing = None
        self._working = False
        if (self._frames or self._received) and self._peer_reads:
            self.broker.waiting[self] = None
        elif self._decoder.error is not None and not self._frames:
            self.end(str(self._decoder.error))

    def _has_frame(self) -> bool:
        """Read received bytes until there is a whole frame, and return whether there is one."""
        while self._received and not self._frames:
            piece = bytes(self._received[:PIECE])
            del self._received[:PIECE]
            try:
                self._frames.extend(self._decoder.receive(piece))
            except WireError:  # the decoder keeps the error
                self._received.clear()
        return bool(self._frames)

    def _is_prepared(self, frame: Frame) -> bool:
        """Do a piece of what the next command needs before, and return whether nothing of it is left."""
        if self._preparing is None:
            prepare = self.broker.preparations.get(command_name(frame.command))
            self._preparing = prepare(sub_message(frame.command)) if prepare and self.protocol_version is not None else None
        return self._preparing is None or self._preparing.advance()

    def _carry_out(self, frame: Frame) -> None:
        self._pinged = False  # core.keepalive.any-command-counts
        self._answer_liveness(alive=True)
        name = command_name(frame.command)
        request = sub_message(frame.command)
        try:
            if isinstance(request, CommandPing):  # core.keepalive.ping-answered, core.handshake.ping-before-connect
                self.send(CommandPong())
            elif isinstance(request, CommandConnect):
                self._connect(request)
            elif not isinstance(request, CommandPong):
                self._carry_out_request(name, request, frame)
        except ProtocolViolation as violation:
            self.end(str(violation))

    def _carry_out_request(self, name: str, request: Message, frame: Frame) -> None:
        if self.protocol_version is None:  # core.handshake.connect-first
            raise ProtocolViolation(f"{name} before CONNECT")
        handler = self.broker.handler(name)
        if handler is None:  # core.command.broker-type-closes, core.flags.unset-means-unknown
            raise ProtocolViolation(f"{name} is not for a broker")
        try:
            handler(self, request, frame)
        except Refused as refused:  # core.request.error-keeps-connection
            self.refuse(request, refused)

    def _connect(self, request: CommandConnect) -> None:
        if self.protocol_version is not None:  # core.handshake.second-connect-closes
            raise ProtocolViolation("a second CONNECT")
        try:
            self.credentials.connect(request)
        except Refused as refused:  # core.auth.refused
            self.turn_away(refused)
            return
        self.client_version = request.client_version
        self.protocol_version = min(request.protocol_version, PROTOCOL_VERSION)  # core.handshake.version-minimum
        self.send(
            CommandConnected(
                server_version=self.broker.server_version,
                protocol_version=self.protocol_version,
                max_message_size=self.broker.configuration.max_message_size,
                feature_flags=self.broker.feature_flags(),
            )
        )

    # Keep-alive

    def _later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self.broker.timers.at(self.broker.now + seconds, call)

    def _check_alive(self) -> None:
        if self.protocol_version is None:  # core.keepalive.no-connect-dropped
            self.end("no CONNECT came")
        elif self.protocol_version == 0:  # core.keepalive.version-0-exempt
            self._keep_alive = None
        elif self._pinged:  # core.keepalive.silent-peer-dropped
            self.end("the peer is silent")
        else:  # core.keepalive.ping-after-interval
            self.send(CommandPing())
            self._pinged = True
            self._keep_alive = self._later(self.broker.configuration.keep_alive_interval_seconds, self._check_alive)

    def check_liveness(self, then: Callable[[bool], None]) -> None:
        """Check whether the peer is alive; disconnect it if it does not answer in time.

        Args:
            then: Called once with the result.
        """
        self._liveness.append(then)
        if len(self._liveness) == 1:
            self.send(CommandPing())
            millis = self.broker.configuration.connection_liveness_check_timeout_millis
            self._liveness_timer = self._later(millis / 1000, lambda: self.end("the peer does not answer"))

    def _answer_liveness(self, *, alive: bool) -> None:
        if self._liveness:
            waiting, self._liveness = self._liveness, []
            if self._liveness_timer is not None:
                self._liveness_timer.cancel()
            for then in waiting:
                then(alive)

    # Producers and consumers

    def check_owner(self, name: TopicName) -> None:
        """Check that a topic is served here: core.cluster.owner-only.

        Raises:
            Refused: ServiceNotReady: another broker owns it.
        """
        owner = self.broker.members.owner_of(name.namespace, name.full)
        if owner not in (None, self.member):
            raise Refused(ServiceNotReady, f"{name.full} is not served by this instance:{self.member.broker_id}. Please redo the lookup.")

    def close_producer(self, producer: Producer) -> None:
        """Close a producer from the broker's side."""
        self.send(CommandCloseProducer(producer_id=producer.producer_id, request_id=MAX_U64))
        self.drop_producer(producer)
        self.closed_producers[producer.producer_id] = self.broker.now + self.broker.configuration.keep_alive_interval_seconds

    def close_consumer(self, consumer: Consumer) -> None:
        """Close a consumer from the broker's side."""
        self.send(CommandCloseConsumer(consumer_id=consumer.consumer_id, request_id=MAX_U64))
        self.drop_consumer(consumer)

    def drop_producer(self, producer: Producer) -> None:
        """Remove a producer from the connection and from its topic: core.producer.name-freed."""
        self.producers.pop(producer.producer_id, None)
        producer.topic.remove_producer(producer)

    def drop_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer from the connection and from its subscription; a non-durable subscription ends with its last consumer."""
        self.consumers.pop(consumer.consumer_id, None)
        subscription = consumer.subscription
        if consumer in subscription.consumers:
            subscription.remove(consumer)
            if not subscription.durable and not subscription.consumers:  # core.subscribe.reader
                subscription.topic.unsubscribe(subscription.name)
