"""What several monitors know: of a connection, and of all connections of a conversation."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from conformance.monitors.sets import KnownSets

NO_ENTRY = (1 << 63) - 1
"""Ledger and entry ids from here on mean no entry: the first message, the last one, or the one before the first."""

DEFAULT_QUEUE = 1000
"""Messages that a receiver queue holds if its user says nothing else, in Pulsar's own clients."""

_REMEMBERED = 10_000
"""Sequence ids of a producer that are remembered: more than wait for receipts."""


class Entries:
    """Ids of entries, kept as ranges: what is delivered in order takes no room."""

    def __init__(self) -> None:
        self._ledgers: dict[int, list[list[int]]] = {}

    def add(self, ledger: int, entry: int) -> None:
        """Add an entry, which may be there already."""
        ranges = self._ledgers.setdefault(ledger, [])
        place = bisect_right(ranges, entry, key=_first)
        if place and entry <= ranges[place - 1][1]:
            return
        before = bool(place) and ranges[place - 1][1] == entry - 1
        after = place < len(ranges) and ranges[place][0] == entry + 1
        if before and after:
            ranges[place - 1][1] = ranges.pop(place)[1]
        elif before:
            ranges[place - 1][1] = entry
        elif after:
            ranges[place][0] = entry
        else:
            ranges.insert(place, [entry, entry])

    def has(self, ledger: int, entry: int) -> bool:
        """Tell whether an entry is there."""
        ranges = self._ledgers.get(ledger, [])
        place = bisect_right(ranges, entry, key=_first)
        return bool(place) and entry <= ranges[place - 1][1]

    def reach(self, ledger: int, entry: int) -> bool:
        """Tell whether an entry is there that is this one or comes after it."""
        ranges = self._ledgers.get(ledger)
        return any(other > ledger for other in self._ledgers) or (ranges is not None and ranges[-1][1] >= entry)


def _first(one: list[int]) -> int:
    return one[0]


@dataclass(frozen=True, slots=True)
class Content:
    """What was sent under a sequence id: how many messages, and a digest of their bytes."""

    count: int
    digest: int


class SentContents:
    """What a producer has sent under each of its last sequence ids."""

    def __init__(self) -> None:
        self._contents: dict[int, Content] = {}

    def keep(self, sequence_id: int, content: Content) -> Content | None:
        """Note what is sent under an id; return what was sent under it before, if anything was."""
        known = self._contents.pop(sequence_id, None)
        self._contents[sequence_id] = content
        if len(self._contents) > _REMEMBERED:
            del self._contents[next(iter(self._contents))]
        return known

    def free(self, sequence_id: int) -> None:
        """Forget what was sent under an id."""
        self._contents.pop(sequence_id, None)


@dataclass
class Conversation:
    """What all connections of a conversation share.

    Attributes:
        whole: All connections were seen, each from its first frame on and without gaps.
        queue: Messages that the largest receiver queue has room for, by what users of the client have asked for; None: that is not known.
        consumers: The consumer_ids of all SUBSCRIBE commands.
        entries: The entries that the broker has named.
        sets: The sets of topics that the broker has announced, by their hash.
        sent: What producers have sent, by topic and name.
    """

    whole: bool = True
    queue: int | None = None
    consumers: set[int] = field(default_factory=set)
    entries: Entries = field(default_factory=Entries)
    sets: KnownSets = field(default_factory=KnownSets)
    sent: dict[tuple[str, str], SentContents] = field(default_factory=dict)


@dataclass
class Link:
    """What the frames of a connection have told so far.

    Attributes:
        name: The connection.
        whole: All its frames were seen, from its first on.
        conversation: What all connections share.
        time: When its last frame was seen, in seconds.
    """

    name: str
    whole: bool
    conversation: Conversation
    time: float = 0.0
