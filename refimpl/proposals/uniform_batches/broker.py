"""PIP-191, the broker's side: entry filters, and the built-in filter that compares properties.

An entry filter judges each entry before the broker sends it to a consumer. A `FilterContext` shows it what the text lists: the entry,
its header, the subscription and the consumer. It needs only the header and the properties of the subscription, and never decodes a
batch (pip191.filter.header-only). Its verdict applies to all messages of the entry (pip191.filter.whole-entry):

    ACCEPT      the broker sends the entry
    REJECT      the broker acknowledges the entry for the subscription; it uses no permits
    RESCHEDULE  the broker tries this entry again after a second

`SubscriptionEntryFilters` runs the filters of one subscription and counts their verdicts; the dispatcher applies them.
`PropertyEntryFilter` is built in; another filter needs a class and a factory (`EntryFilter`, `EntryFilterFactory`). Sources: PIP-191,
PIP-105, and Apache Pulsar 4.2.4 as observed, with two differences. There, a filter that raised an error stopped its subscription
permanently. And on an exclusive or failover subscription, RESCHEDULE redelivered all unacknowledged entries once a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Protocol, Self

from refimpl.proposals.extension import Consumer, EntryJudge, EntryVerdict, Extension, Host, Subscription
from refimpl.proposals.refused import Refused
from refimpl.proposals.uniform_batches.rules import UniformBatchesProfile
from refimpl.store import Cursor, Entry
from refimpl.wire import WireError, parse_payload
from refimpl.wire.pulsar_api_pb2 import MessageIdData, MessageMetadata, NotAllowedError

PREFIX = "entry-filter."
"""Prefix of a subscription property that selects entries by a property: `entry-filter.region` = `eu,us`."""

MISSING = "entry-filter-missing"
"""Subscription property: the verdict on an entry without one of the selected properties; `accept` (default) or `reject`."""

ENTRY_POINT_GROUP = "pulsar_conformance.entry_filters"
"""The entry point group for filters of other distributions; an entry point refers to an `EntryFilterFactory`."""

RESCHEDULE_DELAY = 1.0
"""Seconds before a rescheduled entry is tried again (`dispatcherEntryFilterRescheduledMessageDelay`; observed default)."""


@dataclass(frozen=True, slots=True)
class FilterContext:
    """What a filter sees: `Entry` and `FilterContext` of the text.

    Attributes:
        entry: The entry as stored; `data` is everything after the SEND command.
        message_id: The position of the entry.
        metadata: The header. In a batch, the properties are what its producer wrote; `num_messages_in_batch` is present only in a batch.
        subscription: The subscription that the filter judges for.
        consumer: The consumer that would receive the entry.
    """

    entry: Entry
    message_id: MessageIdData
    metadata: MessageMetadata
    subscription: Subscription
    consumer: Consumer


class EntryFilter(Protocol):
    """Judges the entries of one subscription."""

    def judge(self, context: FilterContext) -> EntryVerdict | None:
        """Judge an entry.

        Args:
            context: The entry, its header, and for whom it is.

        Returns:
            None counts as ACCEPT (pip191.filter.no-verdict).
        """


EntryFilterFactory = Callable[[Mapping[str, str]], EntryFilter | None]
"""Makes a filter from the properties of a subscription; None: they do not ask for it. Raises ValueError if they are invalid."""


class PropertyEntryFilter:
    """Accepts an entry if each selected property has one of the selected values.

    A property that is missing from the header is accepted, unless `entry-filter-missing` is `reject`. So if the producer's setting
    allows the versions 1 and 2, a filter on version 1 also accepts messages of version 5, because their header has no version.

    Args:
        wanted: The selected values, by property name.
        missing: The verdict on an entry whose header lacks a selected property.
    """

    def __init__(self, wanted: Mapping[str, frozenset[str]], missing: EntryVerdict = EntryVerdict.ACCEPT) -> None:
        self._wanted = wanted
        self._missing = missing

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self | None:
        """Make the filter for the properties of a subscription: pip191.filter.switched-on.

        Args:
            properties: `entry-filter.NAME` = values separated by commas, used exactly as written (pip191.filter.values-exact).

        Returns:
            None if no property is selected (pip191.filter.off).

        Raises:
            ValueError: A name is empty, or `entry-filter-missing` is neither `accept` nor `reject` (pip191.filter.invalid).
        """
        missing = {"accept": EntryVerdict.ACCEPT, "reject": EntryVerdict.REJECT}.get(properties.get(MISSING, "accept"))
        if missing is None:
            raise ValueError(f"{MISSING} is accept or reject, not {properties[MISSING]!r}")
        if PREFIX in properties:
            raise ValueError(f"{PREFIX} lacks the name of a property")
        wanted = {key.removeprefix(PREFIX): frozenset(values.split(",")) for key, values in properties.items() if key.startswith(PREFIX)}
        return cls(wanted, missing) if wanted else None

    def judge(self, context: FilterContext) -> EntryVerdict:
        """Judge an entry by its header."""
        return self.verdict(context.metadata)

    def verdict(self, metadata: MessageMetadata) -> EntryVerdict:
        """Compare the properties in a header with the selected values."""
        header = {one.key: one.value for one in metadata.properties}  # pip191.filter.repeated-name
        for name, values in self._wanted.items():
            if name not in header:
                if self._missing is EntryVerdict.REJECT:  # pip191.filter.missing-rejected
                    return EntryVerdict.REJECT
            elif header[name] not in values:  # pip191.filter.rejects
                return EntryVerdict.REJECT
        return EntryVerdict.ACCEPT  # pip191.filter.accepts, pip191.filter.missing-accepted


BUILT_IN: Mapping[str, EntryFilterFactory] = MappingProxyType({"PropertyEntryFilter": PropertyEntryFilter.of})
"""The built-in filters, by name."""


def with_entry_points(entry_points: Iterable[EntryPoint], log: Callable[[str], None] = lambda _: None) -> dict[str, EntryFilterFactory]:
    """Return the built-in filters, followed by those of other distributions in the order of their names.

    Args:
        entry_points: Entry points, such as `importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)`.
        log: Called with a line for each entry point that fails to load; the others work.
    """
    found = dict(BUILT_IN)
    for entry_point in sorted(entry_points, key=lambda one: one.name):
        name = entry_point.name
        if name in found:
            log(f"entry filter {name} of {entry_point.value} is left out: there is another one of that name")
            continue
        try:
            factory = entry_point.load()
        except Exception as error:  # third-party code: one failure must not affect the others
            log(f"entry filter {name} of {entry_point.value} is left out: {type(error).__name__}: {error}")
            continue
        if callable(factory):
            found[name] = factory
        else:
            log(f"entry filter {name} of {entry_point.value} is left out: it is a {type(factory).__name__}, not a class or function")
    return found


def filters_of(properties: Mapping[str, str], factories: Mapping[str, EntryFilterFactory] = BUILT_IN) -> dict[str, EntryFilter]:
    """Return the filters for the properties of a subscription, by name, in the order of their execution.

    Args:
        properties: The properties in the SUBSCRIBE that creates the subscription: pip191.filter.properties-of-first.
        factories: The factories, by name.

    Raises:
        Refused: NotAllowedError: the properties are invalid; do not create the subscription (pip191.filter.invalid).
    """
    found: dict[str, EntryFilter] = {}
    for name, factory in factories.items():
        try:
            made = factory(properties)
        except Exception as error:  # third-party code may raise anything
            raise Refused(NotAllowedError, f"Entry filter {name}: {error}") from None
        if made is not None:
            found[name] = made
    return found


@dataclass
class FilterCounts:
    """Counters of the verdicts of a subscription's filters, in messages: pip191.stats.messages.

    `processed` is the sum of `accepted`, `rejected` and `rescheduled`: pip191.stats.sum.

    Attributes:
        failed: Accepted messages that were accepted because a filter failed.
    """

    processed: int = 0
    accepted: int = 0
    rejected: int = 0
    rescheduled: int = 0
    failed: int = 0

    def stats(self) -> dict[str, int]:
        """Return the counters under Pulsar's names in topic stats; Pulsar has no name for the last one."""
        return {
            "filterProcessedMsgCount": self.processed,
            "filterAcceptedMsgCount": self.accepted,
            "filterRejectedMsgCount": self.rejected,
            "filterRescheduledMsgCount": self.rescheduled,
            "filterFailedMsgCount": self.failed,
        }


class SubscriptionEntryFilters:
    """The filters of one subscription, and its rescheduled entries.

    Entries are identified by their index. The caller asks before each delivery of an entry, including redeliveries
    (pip191.filter.each-delivery), and only while a consumer has permits (pip191.filter.needs-permits).

    Args:
        filters: The filters, from `filters_of`. They run in order until one does not accept (pip191.filter.chain).
        delay: Seconds before a rescheduled entry is tried again.
        log: Called with a line when a filter fails for the first time.

    Attributes:
        counts: Counts of the verdicts.
    """

    def __init__(
        self, filters: Mapping[str, EntryFilter], *, delay: float = RESCHEDULE_DELAY, log: Callable[[str], None] = lambda _: None
    ) -> None:
        self.counts = FilterCounts()
        self._filters = filters
        self._delay = delay
        self._log = log
        self._waiting: dict[int, float] = {}
        self._failing: set[str] = set()

    @classmethod
    def restored(
        cls,
        properties: Mapping[str, str],
        factories: Mapping[str, EntryFilterFactory] = BUILT_IN,
        *,
        delay: float = RESCHEDULE_DELAY,
        log: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Return the filters of an existing subscription, whose properties may be invalid.

        With invalid properties, the filter fails for each entry, so that all entries are delivered.
        """
        try:
            filters = filters_of(properties, factories)
        except Refused as refused:
            filters = {"unusable": _Unusable(refused.message)}
        return cls(filters, delay=delay, log=log)

    @property
    def active(self) -> bool:
        """Return whether there is any filter; without one, every entry is accepted and not counted."""
        return bool(self._filters)

    def judge(self, consumer: Consumer, index: int, entry: Entry, now: float) -> EntryVerdict:
        """Judge an entry and count the verdict.

        Args:
            consumer: The consumer that would receive it.
            index: The index of the entry.
            entry: The entry as stored.
            now: Seconds, on a clock that never goes back.

        Returns:
            REJECT: the caller acknowledges the entry and uses no permits (pip191.filter.reject-acknowledged,
            pip191.filter.reject-no-permits).
            RESCHEDULE: the caller does not send the entry; `due` returns it after the delay (pip191.filter.reschedule-delay).
        """
        if not self.active:
            return EntryVerdict.ACCEPT
        verdict, messages = self._verdict(consumer, index, entry), entry.messages
        self.counts.processed += messages
        if verdict is EntryVerdict.REJECT:
            self.counts.rejected += messages
        elif verdict is EntryVerdict.RESCHEDULE:
            self.counts.rescheduled += messages
            self._waiting.pop(index, None)
            self._waiting[index] = now + self._delay
        else:
            self.counts.accepted += messages
        return verdict

    def _verdict(self, consumer: Consumer, index: int, entry: Entry) -> EntryVerdict:
        try:
            metadata = parse_payload(entry.data).metadata
        except WireError as error:  # pip191.filter.unreadable-delivers
            return self._failed("(the header can't be read)", str(error), entry.messages)
        subscription = consumer.subscription
        context = FilterContext(entry, subscription.topic.message_id(index), metadata, subscription, consumer)
        for name, one in self._filters.items():
            try:
                verdict = one.judge(context)
                if verdict is not None and not isinstance(verdict, EntryVerdict):
                    raise TypeError(f"{verdict!r} is not an EntryVerdict")
            except Exception as error:  # pip191.filter.failing-delivers, pip191.filter.failing-goes-on
                return self._failed(name, f"{type(error).__name__}: {error}", entry.messages)
            if verdict in (EntryVerdict.REJECT, EntryVerdict.RESCHEDULE):
                return verdict
        return EntryVerdict.ACCEPT

    def _failed(self, name: str, reason: str, messages: int) -> EntryVerdict:
        self.counts.failed += messages
        if name not in self._failing:
            self._failing.add(name)
            self._log(f"entry filter {name} failed, the entry is delivered, and further failures are only counted: {reason}")
        return EntryVerdict.ACCEPT

    def due(self, now: float) -> list[int]:
        """Return the rescheduled entries whose delay is over.

        For each, the caller counts a redelivery (pip191.filter.reschedule-counted) and asks `judge` again. It skips entries that a
        cumulative acknowledgement has passed since then: pip191.filter.cumulative-passes.
        """
        due = list(itertools.takewhile(lambda index: self._waiting[index] <= now, self._waiting))
        for index in due:
            del self._waiting[index]
        return due

    def next_deadline(self) -> float | None:
        """Return when to call `due` next, in seconds; None: no entry is rescheduled."""
        return next(iter(self._waiting.values()), None)

    def reset(self) -> None:
        """Forget the rescheduled entries, after the subscription's position was reset."""
        self._waiting.clear()


class _Unusable:
    """Replaces filters with invalid properties."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def judge(self, context: FilterContext) -> EntryVerdict:  # noqa: ARG002
        raise ValueError(self._reason)


class UniformBatchesExtension(Extension):
    """What PIP-191 adds to a broker: entry filters.

    Args:
        host: The broker.
        profile: The producer's profile; brokers have only one reading.
        entry_filters: The factories of entry filters, by name; None: the built-in ones.

    Attributes:
        entry_filters: The factories of entry filters, by name.
    """

    def __init__(self, host: Host, profile: UniformBatchesProfile, entry_filters: Mapping[str, EntryFilterFactory] | None = None) -> None:  # noqa: ARG002
        super().__init__(host)
        self.entry_filters = entry_filters if entry_filters is not None else BUILT_IN

    def entry_judge(self, properties: Mapping[str, str], *, is_new: bool) -> EntryJudge:
        """Return the judge for the properties of a subscription. A new one is refused if they are invalid: pip191.filter.invalid."""
        delay, log = self.host.configuration.dispatcher_entry_filter_rescheduled_message_delay / 1000, self.host.log
        if is_new:
            return HeaderJudge(SubscriptionEntryFilters(filters_of(properties, self.entry_filters), delay=delay, log=log))
        return HeaderJudge(SubscriptionEntryFilters.restored(properties, self.entry_filters, delay=delay, log=log))


class HeaderJudge(EntryJudge):
    """Runs the entry filters of a subscription.

    Args:
        filters: The filters and the rescheduled entries.
    """

    def __init__(self, filters: SubscriptionEntryFilters) -> None:
        self.filters = filters

    def judge(self, consumer: Consumer, index: int, entry: Entry, cursor: Cursor, now: float) -> EntryVerdict:  # noqa: ARG002
        """Judge an entry by its header."""
        return self.filters.judge(consumer, index, entry, now)

    def next_deadline(self) -> float | None:
        """Return when to call `due` next, in seconds; None: no entry is rescheduled."""
        return self.filters.next_deadline()

    def due(self, now: float) -> Iterable[int]:
        """Return the rescheduled entries whose delay is over."""
        return self.filters.due(now)

    def reset(self) -> None:
        """Forget the rescheduled entries."""
        self.filters.reset()

    def stats(self) -> Mapping[str, int]:
        """Return the counters for topic stats."""
        return self.filters.counts.stats()
