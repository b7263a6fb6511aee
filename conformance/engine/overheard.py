"""What monitors say of a conversation in a log, whichever role was under test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from conformance.engine import log
from conformance.engine.matching import see
from conformance.engine.step import Role
from conformance.monitors import Breach, Monitors
from conformance.monitors.link import DEFAULT_QUEUE
from refimpl.wire import FrameDecoder, WireError

_SIZES = 8
"""Bytes before the command in a frame."""


@dataclass(frozen=True)
class Overheard:
    """What monitors say.

    Attributes:
        breaches: What the role under test did wrong. The other one is the suite, which does so on purpose.
        judged: How often each clause was looked at.
    """

    breaches: Sequence[Breach] = ()
    judged: Counter[str] = field(default_factory=Counter)


def overhear(events: Iterable[log.Event], role: Role) -> Overheard:
    """Let all monitors hear a conversation.

    Args:
        events: The events of one conversation, in their order.
        role: The role under test.
    """
    heard = _OfClient() if role == "client" else _OfBroker()
    for event in events:
        heard.take(event)
    heard.breaches += heard.monitors.ended()
    return Overheard([one for one in heard.breaches if one.side == role], heard.monitors.judged)


class _Heard:
    def __init__(self) -> None:
        self.monitors = Monitors(whole=True)
        self.breaches: list[Breach] = []

    def take(self, event: log.Event) -> None:
        raise NotImplementedError

    def _ended(self, connection: str, time: float) -> None:
        self.breaches += self.monitors.closed(connection, time)


class _OfClient(_Heard):
    """A client in front of the backdrop: what either side sends is in the log frame by frame, with the number of its connection."""

    def take(self, event: log.Event) -> None:
        if isinstance(event, log.Opened):
            self.monitors.opened(_link(event.link))
        elif isinstance(event, log.Begin) and event.what == "drive":
            if (options := event.detail.get("consumer", event.detail.get("reader"))) is not None:
                self.monitors.queue(options.get("queue", DEFAULT_QUEUE))
        elif isinstance(event, log.Frame | log.Passed):
            frame = see(event).frame
            if frame is None:
                self.monitors.gap(_link(event.link))
            else:
                self.breaches += self.monitors.frame(_link(event.link), "->" if isinstance(event, log.Frame) else "<-", frame, event.t)
        elif isinstance(event, log.Begin) and event.what == "send" and event.data is not None:
            self._injected(event, event.data)
        elif isinstance(event, log.Closed):
            self._ended(_link(event.link), event.t)

    def _injected(self, event: log.Begin, data: str) -> None:
        """Hear what the case sends to the client."""
        connection = _link(event.detail.get("link"))
        try:
            frames = FrameDecoder().receive(bytes.fromhex(data))
        except WireError:
            return
        for frame in frames:
            self.breaches += self.monitors.frame(connection, "<-", frame, event.t)


class _OfBroker(_Heard):
    """A broker: what it sends is in the log frame by frame, and what the suite sends in pieces of any size."""

    def __init__(self) -> None:
        super().__init__()
        self._sent: dict[str, FrameDecoder] = {}

    def take(self, event: log.Event) -> None:
        if isinstance(event, log.Begin) and event.at is not None and event.what == "open":
            self._ended(event.at, event.t)
            self.monitors.opened(event.at)
            self._sent[event.at] = FrameDecoder()
        elif isinstance(event, log.Begin) and event.at is not None and event.what == "send":
            self._send(event.at, event.data or "", event.size or 0, event.t)
        elif isinstance(event, log.Answer):
            self._send(event.at, event.data, 0, event.t)
        elif isinstance(event, log.Frame):
            frame = see(event).frame
            if frame is not None:
                self.breaches += self.monitors.frame(event.at, "<-", frame, event.t)
        elif isinstance(event, log.Closed):
            self._ended(event.at, event.t)

    def _send(self, connection: str, data: str, size: int, time: float) -> None:
        """Hear a piece of what the suite sends. After one that is no frame, or of which the log lacks a part, its borders are lost."""
        decoder = self._sent.get(connection)
        head, cut, _ = data.partition("..")
        if cut:
            whole = decoder is not None and not decoder.pending and int(head[:_SIZES], 16) + 4 == size
            self._lost(connection, for_good=not whole)
        elif decoder is not None:
            try:
                frames = decoder.receive(bytes.fromhex(head))
            except WireError:
                self._lost(connection, for_good=True)
                return
            for frame in frames:
                self.breaches += self.monitors.frame(connection, "->", frame, time)

    def _lost(self, connection: str, *, for_good: bool) -> None:
        self.monitors.gap(connection)
        if for_good:
            self._sent.pop(connection, None)


def _link(number: int | None) -> str:
    return f"connection {number}"
