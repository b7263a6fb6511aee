"""What judges the entries of a subscription before they are sent: what proposals add, those that look at headers only first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from refimpl.proposals.extension import EntryJudge, EntryVerdict
from refimpl.store import Cursor, Entry

if TYPE_CHECKING:
    from refimpl.broker.subscription import Consumer

Requested = Mapping[str, object]
"""What a consumer asks of each proposal, by register."""


class SubscriptionFilters:
    """The judges of one subscription.

    Args:
        judges: By register.
    """

    def __init__(self, judges: Mapping[str, EntryJudge]) -> None:
        self.judges = dict(sorted(judges.items(), key=lambda one: one[1].opens_entries))

    # Consumers

    def check_joins(self, requested: Requested) -> None:
        """Let a consumer join.

        Raises:
            Refused: What it asks for does not go with what others have asked for.
        """
        for register, judge in self.judges.items():
            judge.check_joins(requested.get(register))

    def joined(self, consumer: Consumer, requested: Requested) -> None:
        """Record a consumer."""
        for register, judge in self.judges.items():
            judge.joined(consumer, requested.get(register))

    def left(self, consumer: Consumer) -> None:
        """Record that a consumer has left."""
        for judge in self.judges.values():
            judge.left(consumer)

    # Entries

    def judge(self, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        """Judge an entry that a consumer would be sent now: the first judge that does not accept it decides.

        What is rejected is acknowledged before this returns, a whole entry or messages of a batch, so that what is accepted goes
        out with the messages that are still open.

        Returns:
            RESCHEDULE: the entry is to be offered again at `next_deadline`.
        """
        now = consumer.session.broker.now
        for judge in self.judges.values():
            verdict = judge.judge(consumer, index, entry, cursor, now)
            if verdict is EntryVerdict.REJECT:
                cursor.acknowledge(index)
            if verdict is not EntryVerdict.ACCEPT:
                return verdict
        return EntryVerdict.ACCEPT

    def next_deadline(self) -> float | None:
        """Return when `due` has something; None: never."""
        return min((when for judge in self.judges.values() if (when := judge.next_deadline()) is not None), default=None)

    def due(self, now: float) -> Iterable[int]:
        """Return the indexes of the entries that are to be offered again now."""
        return [index for judge in self.judges.values() for index in judge.due(now)]

    def reset(self) -> None:
        """Forget which entries are to be offered again."""
        for judge in self.judges.values():
            judge.reset()

    def stats(self) -> dict[str, int]:
        """Return the counters of all judges, as topic stats show them."""
        return {name: count for judge in self.judges.values() for name, count in judge.stats().items()}


FiltersOf = Callable[[Mapping[str, str]], SubscriptionFilters]
"""Makes the filters of a subscription with these properties."""
