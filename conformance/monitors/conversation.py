"""All monitors before one conversation, which may have any number of connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from conformance.monitors.attached import OwnIds
from conformance.monitors.delivering import DeliveredChecksums, DeliveredFirst, GrantedPermits, Permits
from conformance.monitors.handshake import BrokerKeepsAlive, ClientKeepsAlive, ConnectFirst, FlagsOffered
from conformance.monitors.link import Conversation, Link
from conformance.monitors.model import SENDER, Breach, Direction, Judged, Monitor, Seen, Side
from conformance.monitors.requests import AnsweredOnce, RequestIds
from conformance.monitors.sending import Receipts, SentChecksums, WellFormedBatches
from conformance.monitors.sequence_ids import SequenceIds
from conformance.monitors.uniform import UniformBatches
from conformance.monitors.watching import (
    OnlyWatchers,
    PartitionResults,
    PartitionVersions,
    ScalableHashes,
    TopicListHashes,
    WatcherIds,
)
from refimpl.wire import Frame
from refimpl.wire.commands import command_name, sub_message

MONITORS: Final[tuple[type[Monitor], ...]] = (
    ConnectFirst,
    FlagsOffered,
    ClientKeepsAlive,
    BrokerKeepsAlive,
    RequestIds,
    AnsweredOnce,
    OwnIds,
    SentChecksums,
    WellFormedBatches,
    SequenceIds,
    Receipts,
    UniformBatches,
    Permits,
    GrantedPermits,
    DeliveredChecksums,
    DeliveredFirst,
    OnlyWatchers,
    TopicListHashes,
    WatcherIds,
    PartitionVersions,
    PartitionResults,
    ScalableHashes,
)
"""All monitors. `observed_by` of a clause names one of them."""


def monitors_of(side: Side | None) -> tuple[type[Monitor], ...]:
    """Return the monitors that judge a side; None: all."""
    return tuple(one for one in MONITORS if side in (None, one.side))


class Monitors:
    """Judges one conversation, frame by frame.

    A connection is known by any name. Without `opened`, one whose first frame is not CONNECT has begun before that frame.

    Args:
        kinds: The monitors.
        whole: All connections that the clients have ever had are seen. Only then what a client knows from an earlier one can be judged.

    Attributes:
        judged: How often each clause was looked at, broken or not.
    """

    def __init__(self, kinds: tuple[type[Monitor], ...] = MONITORS, *, whole: bool = False) -> None:
        self.judged: Counter[str] = Counter()
        self._kinds = kinds
        self._conversation = Conversation(whole)
        self._links: dict[str, Link] = {}
        self._monitors: dict[str, list[Monitor]] = {}
        self._hearing: dict[str, dict[str, list[tuple[Monitor, str]]]] = {}

    def queue(self, size: int) -> None:
        """Note that a user of the client has asked for a receiver queue with room for so many messages."""
        self._conversation.queue = max(size, self._conversation.queue or 0)

    def opened(self, connection: str) -> None:
        """Note that a connection begins: its next frame is its first."""
        self._begin(connection, whole=True)

    def frame(self, connection: str, direction: Direction, frame: Frame, time: float) -> list[Breach]:
        """Judge a frame.

        Args:
            connection: The name of its connection.
            direction: `->` from the client, `<-` from the broker.
            frame: The frame.
            time: Seconds, on any clock that does not go back.

        Returns:
            What it breaks, usually nothing.
        """
        name = command_name(frame.command)
        if connection not in self._links:
            self._begin(connection, whole=name == "connect" and direction == "->")
        hearing = self._hearing[connection]
        seen = Seen(SENDER[direction], name, sub_message(frame.command), frame, time)
        self._links[connection].time = time
        heard = [*hearing.get(f"{direction} *", ()), *hearing.get(f"{direction} {name}", ())]
        return [one for monitor, method in heard for one in self._breaches(monitor, getattr(monitor, method)(seen), time)]

    def gap(self, connection: str) -> None:
        """Note that bytes of a connection were lost or can't be read: what they said is unknown from now on."""
        self._begin(connection, whole=False)

    def closed(self, connection: str, time: float) -> list[Breach]:
        """Note the end of a connection, whoever has ended it, and judge what it leaves open. Another one may have its name."""
        self._links.pop(connection, None)
        self._hearing.pop(connection, None)
        found = self._monitors.pop(connection, [])
        return [one for monitor in found for one in self._breaches(monitor, monitor.closed(time), time)]

    def ended(self) -> list[Breach]:
        """Note that nothing more is seen, and judge what each connection has left open with its last frame."""
        return [one for connection, link in list(self._links.items()) for one in self.closed(connection, link.time)]

    def _begin(self, connection: str, *, whole: bool) -> None:
        self._conversation.whole = self._conversation.whole and whole
        link = self._links[connection] = Link(connection, whole, self._conversation)
        self._monitors[connection] = [kind(link) for kind in self._kinds]
        hearing = self._hearing[connection] = {}
        for monitor in self._monitors[connection]:
            for command, method in monitor.ears.items():
                hearing.setdefault(command, []).append((monitor, method))

    def _breaches(self, monitor: Monitor, judged: Iterable[Judged], time: float) -> Iterator[Breach]:
        for clause, text in judged:
            self.judged[clause] += 1
            if text is not None:
                yield Breach(clause, monitor.side, monitor.link.name, time, text, monitor.name)
