"""What a monitor is: a rule about one side, which hears the frames of one connection and judges them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

from conformance.monitors.link import Link
from refimpl.wire import Frame

Side: TypeAlias = Literal["client", "broker"]
Direction: TypeAlias = Literal["->", "<-"]
SENDER: Final[Mapping[Direction, Side]] = {"->": "client", "<-": "broker"}
Judged: TypeAlias = tuple[str, str | None]
"""A clause that was looked at, and how it was broken; None: it was kept."""


@dataclass(frozen=True, slots=True)
class Breach:
    """Something that a side did and a clause forbids.

    Attributes:
        clause: The clause.
        side: Who did it.
        connection: The connection on which it was seen.
        time: Seconds, on the clock of the frames.
        text: What was wrong, in a sentence.
        monitor: The name of the monitor that found it.
    """

    clause: str
    side: Side
    connection: str
    time: float
    text: str
    monitor: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A frame, decoded.

    Attributes:
        side: Who sent it.
        name: Its command as BaseCommand calls it, such as `watchTopicList`.
        command: The command itself.
        frame: The frame.
        time: Seconds.
    """

    side: Side
    name: str
    command: Any
    frame: Frame
    time: float


class Monitor:
    """A rule about one side of one connection. It hears the frames that its methods with `hears` name, in their order.

    When a part of a connection was not seen, another one takes its place, whose link is not `whole`.

    Attributes:
        name: What `observed_by` of a clause says.
        side: Whom it judges.
        clauses: The clauses that it judges.
        of_all_connections: It judges what a client knows from other connections: only where all of them are seen.
    """

    name: ClassVar[str]
    side: ClassVar[Side]
    clauses: ClassVar[tuple[str, ...]]
    of_all_connections: ClassVar[bool] = False
    ears: ClassVar[Mapping[str, str]] = {}
    """The method for each command."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def __init_subclass__(cls) -> None:
        """Collect what it hears."""
        found = {name: method for base in reversed(cls.__mro__) for method, one in vars(base).items() for name in getattr(one, "hears", ())}
        cls.ears = found

    def closed(self, time: float) -> Iterator[Judged]:  # noqa: ARG002
        """Judge what the end of the connection leaves open.

        Args:
            time: When it has ended, in seconds.
        """
        return iter(())


_Method = TypeVar("_Method", bound=Callable[..., Iterator[Judged]])


def hears(*commands: str) -> Callable[[_Method], _Method]:
    """Let a method of a monitor hear commands, with the side that sends them in front: `-> send`, `<- message`.

    The method yields a clause and how it was broken, or None if it was kept. The link does not know of the frame yet.
    """

    def marked(method: _Method) -> _Method:
        method.hears = commands  # type: ignore[attr-defined]
        return method

    return marked
