"""One connection to a broker: bytes in, bytes out; handshake, keep-alive, requests, and routing of pushed commands.

new -- opened() --> CONNECT sent -- CONNECTED --> ready        any of them -- eof(), a defect, end() --> closing
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from google.protobuf.message import Message

from refimpl import proposals
from refimpl.client.errors import BrokerRefused, ClientError, Closed, ConnectionLost, ProtocolError, TimedOut
from refimpl.client.names import Target
from refimpl.client.options import ClientOptions
from refimpl.client.requests import RequestTable, refusal_of
from refimpl.client.scheduler import Pending, Scheduler
from refimpl.timers import Timer
from refimpl.wire import (
    DEFAULT_MAX_MESSAGE_SIZE,
    FRAME_PADDING,
    Frame,
    FrameDecoder,
    WireError,
    command_name,
    encode_frame,
    type_name,
    wrap,
)
from refimpl.wire.pulsar_api_pb2 import (
    AuthData,
    BaseCommand,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandPing,
    CommandPong,
    FeatureFlags,
)

PROTOCOL_VERSION = 21
LARGEST_MAX_MESSAGE_SIZE = 256 * 1024 * 1024
"""Upper limit for the message size that a broker announces, in bytes."""

PONG_LIMIT = 64 * 1024 * 1024
"""Bytes of unsent output above which the client does not answer PING."""

_OF_THE_CORE = {
    "send_receipt": "producer_id",
    "send_error": "producer_id",
    "close_producer": "producer_id",
    "message": "consumer_id",
    "close_consumer": "consumer_id",
    "active_consumer_change": "consumer_id",
    "reachedEndOfTopic": "consumer_id",
}
"""The field that addresses each pushed command of the broker."""

_IGNORED = frozenset({"pong", "topicMigrated"})


def addressed_by() -> dict[str, str]:
    """Return the field that addresses each pushed command of a broker."""
    added = (one for proposal in proposals.PROPOSALS for one in proposal.commands if one.addressed_by)
    return {**_OF_THE_CORE, **{one.name: one.addressed_by for one in added}}


class Peer(Protocol):
    """A user of a connection: a producer, a consumer, a watcher."""

    def received(self, frame: Frame) -> None:
        """Handle a command that is addressed to it."""

    def connection_lost(self, connection: Connection) -> None:
        """Handle the end of the connection."""


class Connection:
    """A connection to a broker.

    Attributes:
        target: The address of the broker.
        ready: Comes with CONNECTED; fails if the connection ends before.
        closing: Whether the connection has ended: send the rest of `data_to_send`, then close the transport.
        reason: Why it has ended.
        flags: What the broker supports.
        max_message_size: Maximum payload size that the broker accepts, in bytes.
        server_version: The version string of the broker.
        protocol_version: The lower of both sides' versions.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        target: Target,
        options: ClientOptions,
        *,
        request_ids: Iterator[int] | None = None,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.target = target
        self.ready: Pending[Connection] = Pending(scheduler)
        self.closing = False
        self.reason: ClientError | None = None
        self.flags = FeatureFlags()
        self.max_message_size = DEFAULT_MAX_MESSAGE_SIZE
        self.server_version = ""
        self.protocol_version = 0
        self._scheduler = scheduler
        self._options = options
        self._log = log
        self._request_ids = request_ids or itertools.count()
        self._requests = RequestTable(scheduler)
        self._addressed_by = addressed_by()
        self._peers: dict[tuple[str, int], Peer] = {}
        self._decoder = FrameDecoder()
        self._output = bytearray()
        self._opened = False
        self._silent = False
        self._timer: Timer = self._later(options.connection_timeout, self._too_late)

    # Bytes

    def opened(self, now: float) -> None:
        """Handle the opened transport; send CONNECT."""
        with self._scheduler.entered(now):
            if not self._opened and not self.closing:
                self._opened = True
                self._connect()

    def receive(self, data: bytes, now: float) -> None:
        """Process bytes from the broker."""
        with self._scheduler.entered(now):
            if self.closing:
                return
            self._silent = False
            try:
                frames = self._decoder.receive(data)
            except WireError as error:
                frames = []
                self.end(ProtocolError(f"{self.target} sent a malformed frame: {error}"))
            for frame in frames:
                if not self.closing:
                    self._handle(frame)
                    self._scheduler.run_ready()
            if self._decoder.error is not None:
                self.end(ProtocolError(f"{self.target} sent a malformed frame: {self._decoder.error}"))

    def eof(self, now: float, reason: str = "the broker has ended the connection") -> None:
        """Handle a transport that could not be opened, or has ended."""
        with self._scheduler.entered(now):
            self._output.clear()
            self.end(ConnectionLost(f"{self.target}: {reason}"))

    def data_to_send(self, limit: int = 65536) -> bytes:
        """Remove and return at most `limit` bytes of output; empty if there is none."""
        taken = bytes(self._output[:limit])
        del self._output[:limit]
        return taken

    @property
    def has_output(self) -> bool:
        """Return whether there is anything to send."""
        return bool(self._output)

    # For producers, consumers and watchers

    def new_request_id(self) -> int:
        """Return an id that no other request of this client has."""
        return next(self._request_ids)

    def attach(self, kind: str, number: int, peer: Peer) -> None:
        """Route the commands that are addressed to a peer.

        Args:
            kind: The field of the address, such as "producer_id" or a field of a proposal.
            number: The id.
            peer: The peer.
        """
        self._peers[kind, number] = peer

    def detach(self, kind: str, number: int, peer: Peer) -> None:
        """Stop routing commands to a peer."""
        if self._peers.get((kind, number)) is peer:
            del self._peers[kind, number]

    def is_answered(self, message: Message) -> bool:
        """Return whether a command is a request, to be sent with `exchange`."""
        return self._requests.is_answered(message)

    def send(self, message: Message, payload: bytes | None = None) -> None:
        """Send a command and its payload; an ended connection drops it silently."""
        if not self.closing:
            self._output += encode_frame(wrap(message), payload)

    def exchange(self, request: Message) -> Pending[BaseCommand]:
        """Send a request with its `request_id` and return the answer, even if it is ERROR."""
        if self.closing:
            lost: Pending[BaseCommand] = Pending(self._scheduler)
            lost.fail(self.reason or Closed("the connection is closed"))
            return lost
        pending = self._requests.expect(request)
        self.send(request)
        return pending

    async def request(self, request: Message) -> BaseCommand:
        """Set the `request_id` of a request, send it and return the answer: for PRODUCER, the one that says that the producer is ready.

        Raises:
            BrokerRefused: The broker refused the request.
            TimedOut: No answer came within the operation time-out.
            ConnectionLost: The connection ended before the answer.
        """
        request_id = cast(Any, request).request_id = self.new_request_id()
        name = type(request).__name__.removeprefix("Command")
        answer = await self._scheduler.limit(
            self.exchange(request),
            self._options.operation_timeout,
            f"{self.target} did not answer {name}",
            unless=lambda: self.is_deferred(request_id),
        )
        if (refusal := refusal_of(answer)) is not None:
            raise refusal
        return answer

    def is_deferred(self, request_id: int) -> bool:
        """Return whether the broker has answered PRODUCER by putting the producer behind others."""
        return request_id in self._requests.deferred

    def give_up(self, request_id: int, error: ClientError) -> None:
        """Fail a request whose producer waits for its turn; do nothing if it does not."""
        self._requests.give_up(request_id, error)

    def end(self, reason: ClientError) -> None:
        """End the connection; fail everything that waits for it."""
        if self.closing:
            return
        self.closing = True
        self.reason = reason
        self._timer.cancel()
        self._note(f"{self.target} is ended: {reason}")
        self.ready.fail(reason)
        self._requests.fail_all(reason)
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.connection_lost(self)

    # Commands

    def _handle(self, frame: Frame) -> None:
        command = frame.command
        name = command_name(command)
        if command.type == BaseCommand.PING:
            if len(self._output) < PONG_LIMIT:
                self.send(CommandPong())  # core.client.answers-ping
        elif name == "connected":
            self._connected(command.connected)
        elif name == "authChallenge":
            self._challenged(command)
        elif not self.ready.done:
            self._refused(command)
        elif name == "error" or name in self._requests.kinds:
            if not self._requests.answered(command):
                self._note(f"{self.target}: {type_name(command)} answers no open request")
        elif name in self._addressed_by:
            kind = self._addressed_by[name]
            peer = self._peers.get((kind, getattr(getattr(command, name), kind)))
            if peer is not None:  # otherwise it has left
                peer.received(frame)
        elif name not in _IGNORED:
            self.end(ProtocolError(f"{self.target} sent {type_name(command)}, which is not for clients"))

    def _connect(self) -> None:
        connect = CommandConnect(client_version=self._options.client_version, protocol_version=PROTOCOL_VERSION, auth_method_name="none")
        if (credential := self._credential()) is not None:
            connect.auth_method_name = credential.auth_method_name
            connect.auth_data = credential.auth_data
        if self.target.proxy_to is not None:
            connect.proxy_to_broker_url = self.target.proxy_to
        flags = connect.feature_flags
        flags.supports_auth_refresh = True
        flags.supports_broker_entry_metadata = True
        flags.supports_get_partitioned_metadata_without_auto_creation = True
        self.send(connect)

    def _credential(self) -> AuthData | None:
        """Get the token from the application; if that fails, the connection ends."""
        if self._options.token is None:
            return None
        try:
            return AuthData(auth_method_name="token", auth_data=self._options.token().encode())
        except Exception as error:
            self.end(ConnectionLost(f"there is no token for {self.target}: {type(error).__name__}: {error}"))
            return None

    def _connected(self, connected: CommandConnected) -> None:
        size = connected.max_message_size if connected.HasField("max_message_size") else DEFAULT_MAX_MESSAGE_SIZE
        if self.ready.done or not self._opened or size <= 0:
            self.end(ProtocolError(f"{self.target} sent CONNECTED out of turn, or with max_message_size {size}"))
            return
        self.max_message_size = min(size, LARGEST_MAX_MESSAGE_SIZE)
        self._decoder.max_frame_size = self.max_message_size + FRAME_PADDING
        self.flags = connected.feature_flags
        self.server_version = connected.server_version
        self.protocol_version = min(connected.protocol_version, PROTOCOL_VERSION)
        self._timer.cancel()
        self._timer = self._later(self._options.keep_alive_interval, self._keep_alive)
        self.ready.succeed(self)

    def _refused(self, command: BaseCommand) -> None:
        if command.type == BaseCommand.ERROR:
            self.end(BrokerRefused(command.error.error, command.error.message))
        else:
            self.end(ProtocolError(f"{self.target} sent {type_name(command)} before CONNECTED"))

    def _challenged(self, command: BaseCommand) -> None:
        credential = self._credential()
        if credential is None:
            method = command.authChallenge.challenge.auth_method_name or "no method named"
            self.end(ProtocolError(f"{self.target} asks for credentials ({method}), and there are none: set the option token"))
            return
        version = self._options.client_version
        self.send(CommandAuthResponse(client_version=version, protocol_version=PROTOCOL_VERSION, response=credential))

    # Time

    def _later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self._scheduler.call_at(self._scheduler.now + seconds, call)

    def _too_late(self) -> None:
        step = "answer CONNECT" if self._opened else "take the connection"
        self.end(ConnectionLost(str(TimedOut(f"{self.target} did not {step} within {self._options.connection_timeout:g} s"))))

    def _keep_alive(self) -> None:
        if self._silent:
            self.end(ConnectionLost(f"{self.target} has been silent since the last PING"))
            return
        self._timer = self._later(self._options.keep_alive_interval, self._keep_alive)
        if self.protocol_version >= 1:
            self._silent = True
            self.send(CommandPing())

    def _note(self, line: str) -> None:
        if self._log is not None:
            self._log(line)
