"""One connection through the proxy: the client's side, the broker's side, and a lane in each direction.

Each side is read only while the other one takes what is written to it, so that whoever is slow slows the other side and nobody else.
The end of one side is the end of the other, once what was on its way has arrived.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from conformance.captures.rows import OTHER_SIDE, Direction
from conformance.proxy.addresses import LEADING
from conformance.proxy.lane import HELD, Lane
from conformance.proxy.watching import Passed
from conformance.targets.model import Endpoint, TargetError
from refimpl.net.faults import Switch, refusal_of
from refimpl.wire import Frame, command_name, encode_frame, wrap
from refimpl.wire.pulsar_api_pb2 import BaseCommand

if TYPE_CHECKING:
    from conformance.proxy.proxy import Proxy

CONNECT_SECONDS = 10.0
"""Seconds for the connection to a broker."""
LINGER_SECONDS = 5.0
"""Seconds for a peer to read the last bytes of a connection."""
BUFFERED = 256 * 1024
"""Bytes that wait for a peer that does not read, before the other side is no longer read."""
TURN = 64 * 1024
"""Bytes of one side that are passed on before others have their turn."""

Change = Callable[[BaseCommand], BaseCommand | None]
"""What becomes of a command; None: it is dropped."""


class Side(asyncio.BufferedProtocol):
    """One end of a relay.

    Args:
        relay: The relay.
        direction: Whose bytes come in here.
    """

    def __init__(self, relay: Relay, direction: Direction) -> None:
        self._relay = relay
        self._direction = direction
        self.transport: asyncio.Transport | None = None
        self.writable = True
        self.ended = False
        self.lost = False
        self._closing = False
        self._buffer = memoryview(bytearray(TURN))  # TLS cuts it, which must not copy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=BUFFERED)
        self._relay.made(self._direction)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return where the next bytes go."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass bytes on."""
        self._relay.received(self._direction, bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool:
        """Pass the end on; this side may still be written to, unless that has ended before."""
        self.ended = True
        self._relay.eof(self._direction)
        return self.transport is not None and self.transport.can_write_eof() and not self._closing

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """End the other side."""
        self.lost = True
        self._relay.lost(self._direction, told=self.ended)

    def pause_writing(self) -> None:
        """Read no more from the other side: this one does not read."""
        self.writable = False
        self._relay.balance()

    def resume_writing(self) -> None:
        """Read from the other side again."""
        self.writable = True
        self._relay.balance()

    def write(self, data: bytes | memoryview) -> bool:
        """Send bytes; return whether that is still possible."""
        if self.transport is None or self._closing or self.transport.is_closing():
            return False
        self.transport.write(data)
        return True

    def write_eof(self) -> None:
        """Tell that nothing more comes."""
        if self.transport is None or self._closing or self.transport.is_closing():
            return
        if self.transport.can_write_eof() and not self.ended:
            self._closing = True
            self.transport.write_eof()
        else:
            self.close()

    def close(self) -> None:
        """End the connection once what was written has arrived, or soon."""
        self._closing = True
        if self.transport is not None and not self.lost:
            self.transport.close()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self.transport.abort)

    def abort(self) -> None:
        """End the connection at once."""
        self._closing = True
        if self.transport is not None:
            self.transport.abort()

    def read(self, wanted: bool) -> None:
        """Read, or do not."""
        if self.transport is None or self.transport.is_closing() or self.ended:
            return
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()


class Relay:
    """One connection.

    Args:
        broker: Where it leads.
        proxy: The proxy.

    Attributes:
        number: Its number, from 1, once the client is there.
    """

    def __init__(self, broker: Endpoint, proxy: Proxy) -> None:
        self.number = 0
        self._endpoint = broker
        self.proxy = proxy
        self._host = ""
        self.sides: dict[Direction, Side] = {"client": Side(self, "client"), "broker": Side(self, "broker")}
        self.lanes: dict[Direction, Lane] = {side: Lane(side, self) for side in self.sides}
        self._connecting: asyncio.Task[None] | None = None
        self._cut = False
        self._over = False

    # what the sides tell

    def made(self, direction: Direction) -> None:
        """Connect to the broker when the client has come; read when both are there."""
        if direction == "broker":
            if self._over:
                self.sides["broker"].abort()
            self.balance()
            return
        transport = self.sides["client"].transport
        assert transport is not None
        self.number = self.proxy.enter(self)
        transport.pause_reading()
        self._host = str((transport.get_extra_info("sockname") or ("",))[0])
        peer = transport.get_extra_info("peername") or ("", "")
        for watcher in self.proxy.watchers:
            watcher.opened(self.number, self.proxy.now(), _address(str(peer[0]), peer[1]), self._endpoint.service_url)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def received(self, direction: Direction, data: bytes) -> None:
        """Pass bytes on."""
        if direction == "client":
            self._record(direction, data)
        self.lanes[direction].put(data)

    def eof(self, direction: Direction) -> None:
        """Pass the end of one side on."""
        for watcher in self.proxy.watchers:
            watcher.ended(self.number, direction, self.proxy.now())
        self.lanes[direction].end(self.sides[OTHER_SIDE[direction]].write_eof)

    def lost(self, direction: Direction, *, told: bool) -> None:
        """End the other side behind what is on its way there; forget the connection when both are lost."""
        other = self.sides[OTHER_SIDE[direction]]
        if not told and not self._cut:
            for watcher in self.proxy.watchers:
                watcher.ended(self.number, direction, self.proxy.now())
        if not other.lost and not self._cut:
            self.lanes[direction].end(other.close)
            self.lanes[OTHER_SIDE[direction]].close()
        if direction == "client" and self._connecting is not None:
            self._connecting.cancel()
        if all(side.lost or side.transport is None for side in self.sides.values()):
            self._finish()

    # what the lanes need

    def changed(self, frame: Frame, direction: Direction) -> tuple[Frame | None, str]:
        """Return a frame as it goes on: addresses lead to the proxy, and whoever uses the proxy may have changed it."""
        name = command_name(frame.command)
        command, remark = frame.command, ""
        if direction == "broker" and name in LEADING:
            command = BaseCommand.FromString(command.SerializeToString())
            remark = "leads back" if self.proxy.lead_back(command, self._host) else ""
        change = self.proxy.changes.get(name)
        if change is None and not remark:
            return frame, ""
        changed = command if change is None else change(command)
        if changed is None:
            return None, "dropped"
        return Frame(encode_frame(changed, frame.payload_bytes), changed, frame.payload_bytes), remark or "changed"

    def write(self, direction: Direction, data: bytes | memoryview) -> None:
        """Send bytes in a direction."""
        if self.sides[OTHER_SIDE[direction]].write(data) and direction == "broker":
            self._record(direction, data)

    def refuse(self, frame: Frame, switch: Switch) -> None:
        """Answer a request in place of the broker."""
        assert switch.refused is not None
        command = wrap(refusal_of(frame.command, switch.refused))
        answer = Frame(encode_frame(command), command)
        self.lanes["broker"].insert(answer.data, Passed(self.number, "broker", self.proxy.now(), answer, 0, "by the proxy"))

    def told(self, passed: Passed) -> None:
        """Tell the watchers of a frame."""
        name = command_name(passed.frame.command)
        for watcher in self.proxy.watchers:
            if watcher.commands is None or name in watcher.commands:
                watcher.frame(passed)

    def note(self, text: str, *, unseen: bool = False) -> None:
        """Tell the watchers of what is out of the ordinary, and whether a frame may have gone on unseen."""
        for watcher in self.proxy.watchers:
            watcher.note(self.number, self.proxy.now(), text)
            if unseen:
                watcher.unseen(self.number)

    def cut(self) -> None:
        """End the connection behind what is written."""
        self.note("cut")
        self._cut = True
        for side in self.sides.values():
            side.close()

    def balance(self) -> None:
        """Read from each side as long as the other one takes it."""
        for direction, side in self.sides.items():
            other = self.sides[OTHER_SIDE[direction]]
            side.read(other.transport is not None and other.writable and self.lanes[direction].held < HELD)

    def abort(self) -> None:
        """End the connection at once."""
        self._cut = True
        if self._connecting is not None:
            self._connecting.cancel()
        for side in self.sides.values():
            side.abort()

    async def _connect(self) -> None:
        loop, endpoint = asyncio.get_running_loop(), self._endpoint
        try:
            tls = endpoint.ssl_context() if endpoint.tls else None
            name = (endpoint.tls_hostname or endpoint.host) if tls else None
            async with asyncio.timeout(CONNECT_SECONDS):
                await loop.create_connection(lambda: self.sides["broker"], endpoint.host, endpoint.port, ssl=tls, server_hostname=name)
        except (OSError, TargetError, ssl.SSLError) as error:
            reason = "it does not answer" if isinstance(error, TimeoutError) else str(error)
            self.note(f"{endpoint.service_url} can't be reached: {reason}")
            self.sides["client"].abort()

    def _record(self, direction: Direction, data: bytes | memoryview) -> None:
        for watcher in self.proxy.watchers:
            watcher.data(self.number, direction, data, self.proxy.now())

    def _finish(self) -> None:
        if self._over:
            return
        self._over = True
        for lane in self.lanes.values():
            lane.close()
        for watcher in self.proxy.watchers:
            watcher.closed(self.number, self.proxy.now())
        self.proxy.forget(self)


def _address(host: str, port: object) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
