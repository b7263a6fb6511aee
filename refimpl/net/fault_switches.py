"""Faults that a test switches on between a broker and its clients: commands that are refused, delayed or lost, or come twice.

    broker.faults.refuse("PRODUCER", error="ServiceNotReady", times=2)
    broker.faults.drop("SEND_RECEIPT")
    broker.faults.disconnect()

A switch counts for the next commands of its kind, on whichever connection they come. Commands of one connection and direction never
overtake each other: what follows a delayed one waits behind it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from google.protobuf.message import Message

from refimpl.net.faults import REFUSED, Switch, field_of, read_switch, refusal_of, refusing
from refimpl.wire import Frame, FrameDecoder, WireError, command_name, encode_frame, wrap

_LARGEST = 1 << 26
"""Bytes of a frame. They do not wait for the end of a larger one, such as a TLS handshake, read as a frame: the broker judges its size."""
_CUT = b""
"""Stands among what is held where the connection ends."""


class FaultSwitches:
    """The switches of one broker; any thread may use them.

    Names of commands are those of the protocol, `SEND_RECEIPT` or `send_receipt`; LOOKUP is `lookupTopic`, too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._switches: list[Switch] = []
        self._links: dict[FaultyLink, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self.reading = True
        """Whether the broker reads from its clients."""

    def switch(self, fault: str) -> None:
        """Switch on a fault that is written in words, such as `delay 200ms watchTopicUpdate`; see `refimpl.net.faults`.

        Raises:
            ValueError: It can't be understood.
        """
        self.add(read_switch(fault))

    def refuse(self, command: str, error: str = "ServiceNotReady", *, message: str = REFUSED, times: int = 1) -> None:
        """Refuse the next requests; the broker does not see them.

        Args:
            command: Such as CONNECT, LOOKUP, PRODUCER, SUBSCRIBE or SEND.
            error: The code, a name of `ServerError`.
            message: The text.
            times: How many.

        Raises:
            ValueError: There is no such command or code, or the command has no answer.
        """
        self.add(refusing(command, error, message, times))

    def drop(self, command: str, *, times: int = 1) -> None:
        """Lose the next commands, requests or answers.

        Raises:
            ValueError: There is no such command.
        """
        self.add(Switch(field_of(command), "drop", times))

    def twice(self, command: str, *, times: int = 1) -> None:
        """Send the next commands twice, requests or answers.

        Raises:
            ValueError: There is no such command.
        """
        self.add(Switch(field_of(command), "twice", times))

    def delay(self, command: str, seconds: float, *, times: int = 1) -> None:
        """Hold the next commands back, with all that follows them in their direction.

        Raises:
            ValueError: There is no such command, or the time is negative.
        """
        self.add(Switch(field_of(command), "delay", times, seconds))

    def cut(self, command: str, *, after: int = 1, times: int = 1) -> None:
        """End the connection behind each so many of the next commands, requests or answers.

        Raises:
            ValueError: There is no such command.
        """
        self.add(Switch(field_of(command), "cut", times, after=after))

    def disconnect(self) -> None:
        """Drop all connections."""
        self._with_links(lambda link: link.abort())

    def stop_reading(self) -> None:
        """Read nothing from any client until `read_again`; what they send waits in the sockets."""
        self.reading = False
        self._with_links(lambda link: link.pump())

    def read_again(self) -> None:
        """Read from clients again."""
        self.reading = True
        self._with_links(lambda link: link.pump())

    def clear(self) -> None:
        """Switch everything off."""
        with self._lock:
            self._switches.clear()
        self.read_again()

    @property
    def armed(self) -> list[str]:
        """Return what is still switched on, such as `refuse PRODUCER ProducerBusy 2 times`."""
        with self._lock:
            return [str(one) for one in self._switches]

    def link(self, take: Callable[[bytes], None], pump: Callable[[], None], abort: Callable[[], None]) -> FaultyLink:
        """Return the switches' part of a new connection, on the broker's event loop; it has to be closed.

        Args:
            take: Passes bytes of the client to the broker.
            pump: Sends what is ready for the client, and reads from it or not.
            abort: Drops the connection.
        """
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        link = FaultyLink(self, take, pump, abort)
        self._links[link] = None
        return link

    def unlink(self, link: FaultyLink) -> None:
        """Forget a connection."""
        self._links.pop(link, None)

    def met(self, command: str) -> Switch | None:
        """Use the first switch for a command once, if there is one."""
        with self._lock:
            for found in self._switches:
                if found.command != command:
                    continue
                found.counted += 1
                if found.counted % found.after:
                    continue
                if found.left is not None:
                    found.left -= 1
                if found.left == 0:
                    self._switches.remove(found)
                return found
        return None

    def add(self, switch: Switch) -> None:
        """Switch on a fault."""
        with self._lock:
            self._switches.append(switch)

    def _with_links(self, act: Callable[[FaultyLink], None]) -> None:
        """Act on each connection on the broker's event loop, and wait until it is done."""

        def act_on_each() -> None:
            for link in list(self._links):
                act(link)

        async def on_the_loop() -> None:
            act_on_each()

        if self._loop is None or self._loop.is_closed():
            return
        if threading.get_ident() == self._thread:
            act_on_each()
        else:
            asyncio.run_coroutine_threadsafe(on_the_loop(), self._loop).result()


class FaultyLink:
    """One connection, command by command in both directions."""

    def __init__(self, switches: FaultSwitches, take: Callable[[bytes], None], pump: Callable[[], None], abort: Callable[[], None]) -> None:
        self._switches = switches
        self._ready = bytearray()
        self._to_broker = _Lane(switches, take, self._refuse, abort)
        self._to_client = _Lane(switches, self._ready.extend, self._refuse, abort, pump)
        self.pump = pump
        self.abort = abort

    def received(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._to_broker.put(data)

    def sent(self, data: bytes) -> None:
        """Take bytes of the broker."""
        self._to_client.put(data)

    def ready(self) -> bytes:
        """Remove and return the bytes that are to be sent to the client now."""
        ready = bytes(self._ready)
        self._ready.clear()
        return ready

    def close(self) -> None:
        """Drop what is held back."""
        self._to_broker.close()
        self._to_client.close()
        self._switches.unlink(self)

    def _refuse(self, answer: Message) -> None:
        self._ready += encode_frame(wrap(answer))
        self.pump()


class _Lane:
    """One direction."""

    def __init__(
        self,
        switches: FaultSwitches,
        deliver: Callable[[bytes], None],
        refuse: Callable[[Message], None],
        abort: Callable[[], None],
        delivered_later: Callable[[], None] = lambda: None,
    ) -> None:
        self._switches = switches
        self._deliver = deliver
        self._refuse = refuse
        self._abort = abort
        self._delivered_later = delivered_later
        self._loop = asyncio.get_running_loop()
        self._decoder: FrameDecoder | None = FrameDecoder(_LARGEST)
        self._held: deque[tuple[float, bytes]] = deque()
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, data: bytes) -> None:
        """Deliver what is to be delivered now, and hold the rest."""
        now = self._loop.time()
        if self._decoder is None:
            self._held.append((max(self._last, now), data))
        else:
            try:
                for frame in self._decoder.receive(data):
                    self._put(frame, now)
            except WireError:
                pass
            if self._decoder.error is not None:  # for the broker to judge, and so is all that follows
                self._held.append((max(self._last, now), self._decoder.unread))
                self._decoder = None
        self._deliver_due()

    def close(self) -> None:
        """Drop what is held."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _put(self, frame: Frame, now: float) -> None:
        switch = self._switches.met(command_name(frame.command))
        kind = switch.kind if switch else None
        if switch is not None and switch.refused is not None:
            self._refuse(refusal_of(frame.command, switch.refused))
        if kind in ("refuse", "drop"):
            return
        self._last = max(self._last, now + (switch.seconds if switch else 0.0))
        self._held.extend([(self._last, frame.data)] * (2 if kind == "twice" else 1))
        if kind == "cut":
            self._held.append((self._last, _CUT))

    def _deliver_due(self) -> None:
        due = bytearray()
        while self._held and self._held[0][0] <= self._loop.time():
            data = self._held.popleft()[1]
            if data == _CUT:
                self._held.clear()
                self._loop.call_soon(self._abort)  # behind what is delivered now
            due += data
        if self._held and self._timer is None:
            self._timer = self._loop.call_at(self._held[0][0], self._later)
        if due:
            self._deliver(bytes(due))

    def _later(self) -> None:
        self._timer = None
        self._deliver_due()
        self._delivered_later()
