"""The filters of a subscription: the judges that proposals add. Judges that read only headers run first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from refimpl.proposals.extension import EntryJudge, EntryVerdict
from refimpl.store import Cursor, Entry

if TYPE_CHECKING:
    from refimpl.broker.consumer import Consumer

Requested = Mapping[str, object]
"""What a SUBSCRIBE asks of each proposal, by register."""


class SubscriptionFilters:
    """The judges of one subscription.

    Args:
        judges: The judges, by register.
    """

    def __init__(self, judges: Mapping[str, EntryJudge]) -> None:
        self.judges = dict(sorted(judges.items(), key=lambda one: one[1].opens_entries))

    # Consumers

    def check_joins(self, requested: Requested) -> None:
        """Check whether a consumer may join.

        Raises:
            Refused: Its request conflicts with that of another consumer.
        """
        for register, judge in self.judges.items():
            judge.check_joins(requested.get(register))

    def joined(self, consumer: Consumer, requested: Requested) -> None:
        """Add a consumer."""
        for register, judge in self.judges.items():
            judge.joined(consumer, requested.get(register))

    def left(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        for judge in self.judges.values():
            judge.left(consumer)

    # Entries

    def judge(self, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        """Judge an entry before it is sent to a consumer: the first judge that does not accept it decides.

        Rejected messages of a batch are acknowledged before this returns, so that the caller sends the entry with the messages that are
        still open.

        Returns:
            RESCHEDULE: try the entry again at `next_deadline`.
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
        """Return when to call `due` next, in seconds; None: no entry is rescheduled."""
        return min((when for judge in self.judges.values() if (when := judge.next_deadline()) is not None), default=None)

    def due(self, now: float) -> Iterable[int]:
        """Return the indexes of the rescheduled entries whose delay is over."""
        return [index for judge in self.judges.values() for index in judge.due(now)]

    def reset(self) -> None:
        """Forget the rescheduled entries."""
        for judge in self.judges.values():
            judge.reset()

    def stats(self) -> dict[str, int]:
        """Return the counters of all judges for topic stats."""
        return {name: count for judge in self.judges.values() for name, count in judge.stats().items()}


FiltersOf = Callable[[Mapping[str, str]], SubscriptionFilters]
"""Makes the filters of a subscription with these properties."""
