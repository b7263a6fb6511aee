"""What judges the entries of a subscription before they are sent: first its entry filters, then its message filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from refimpl.proposals.message_filter import Outcome, RequestedFilter, SubscriptionMessageFilter
from refimpl.proposals.uniform_batches import SubscriptionEntryFilters, Verdict
from refimpl.store import Cursor, Entry

if TYPE_CHECKING:
    from refimpl.broker.subscription import Consumer


class SubscriptionFilters:
    """The filters of one subscription.

    Args:
        entry_filters: PIP-191: they see the header of an entry, and were chosen by the properties of the subscription.
        message_filter: PR 7629: it sees the payloads, and is chosen by consumers; None: this broker does not know the proposal.
    """

    def __init__(self, entry_filters: SubscriptionEntryFilters, message_filter: SubscriptionMessageFilter | None) -> None:
        self.entry_filters = entry_filters
        self.message_filter = message_filter

    # Consumers

    def check_joins(self, requested: RequestedFilter | None) -> None:
        """Let a consumer join that asks for a message filter, or for none.

        Raises:
            Refused: ConsumerBusy: consumers with another message filter are connected.
        """
        if self.message_filter is not None:
            self.message_filter.check_joins(requested)

    def joined(self, consumer: Consumer, requested: RequestedFilter | None) -> None:
        """Record a consumer."""
        if self.message_filter is not None:
            self.message_filter.joined(consumer, requested)

    def left(self, consumer: Consumer) -> None:
        """Record that a consumer is gone."""
        if self.message_filter is not None:
            self.message_filter.left(consumer)

    # Entries

    def judge(self, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> Verdict:
        """Judge an entry that a consumer would be sent now.

        What is rejected is acknowledged before this returns, a whole entry or messages of a batch, so that what is accepted goes
        out with the messages that are still open.

        Returns:
            RESCHEDULE: the entry is to be offered again at `next_deadline`.
        """
        verdict = self.entry_filters.judge(index, entry.data, entry.messages, consumer.session.broker.now)
        if verdict is Verdict.ACCEPT and self.message_filter is not None:
            judgement = self.message_filter.judge(consumer, entry.data, cursor.open_messages.get(index))
            if judgement.outcome is Outcome.PARTIAL:
                cursor.acknowledge_in_part(index, judgement.open_messages or ())
            elif judgement.outcome is Outcome.REJECT:
                verdict = Verdict.REJECT
        if verdict is Verdict.REJECT:
            cursor.acknowledge(index)
        return verdict

    def next_deadline(self) -> float | None:
        """Return when `due` has something; None: never."""
        return self.entry_filters.next_deadline()

    def due(self, now: float) -> Iterable[int]:
        """Return the indexes of the entries that are to be offered again now."""
        return self.entry_filters.due(now)

    def reset(self) -> None:
        """Forget which entries are to be offered again."""
        self.entry_filters.reset()

    def stats(self) -> dict[str, int]:
        """Return the counters of both kinds, as topic stats show them; each message filter counts behind the entry filters."""
        message_filter = self.message_filter
        return {**self.entry_filters.counts.stats(), **(message_filter.counters.stats() if message_filter is not None else {})}


FiltersOf = Callable[[Mapping[str, str]], SubscriptionFilters]
"""Makes the filters of a subscription with these properties."""
