"""PIP-191, the broker's side: entry filters, and the one that compares properties.

An entry filter says of each entry, before it is sent to a consumer, what becomes of it. It sees the header of the entry and the
properties of the subscription, and never opens a batch (pip191.filter.header-only): its verdict holds for all messages of the
entry (pip191.filter.whole-entry).

    ACCEPT        it is sent
    REJECT        the broker acknowledges it for the subscription; it costs no permits
    RESCHEDULE    it is offered again after a second, it alone

`SubscriptionEntryFilters` asks the filters of one subscription and counts; the dispatcher does what it says. `PropertyEntryFilter` is
built in, others are a small class and a function (`EntryFilter`, `EntryFilterFactory`). Sources: PIP-191 and PIP-105, and Apache
Pulsar 4.2.4 as observed. Two things that happened there are left out: a filter that raised an error stopped its subscription for
good, and on an exclusive or failover subscription RESCHEDULE sent again everything that was not acknowledged, once a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Protocol, Self

from refimpl.proposals.extension import EntryJudge, EntryVerdict, Extension, Host
from refimpl.proposals.refused import Refused
from refimpl.proposals.uniform_batches.rules import UniformBatchesProfile
from refimpl.store import Cursor, Entry
from refimpl.wire import WireError, parse_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, NotAllowedError

PREFIX = "entry-filter."
"""Begins the name of a subscription property that asks for values of an entry's property: `entry-filter.region` = `eu,us`."""

MISSING = "entry-filter-missing"
"""Subscription property: what becomes of an entry whose header lacks a property that is asked for; `accept` (default) or `reject`."""

ENTRY_POINT_GROUP = "pulsar_conformance.entry_filters"
"""The group in which other distributions register filters; what an entry point names is an `EntryFilterFactory`."""

RESCHEDULE_DELAY = 1.0
"""Seconds until an entry is offered again (`dispatcherEntryFilterRescheduledMessageDelay`; observed default)."""


class EntryFilter(Protocol):
    """Judges the entries of one subscription."""

    def judge(self, metadata: MessageMetadata) -> EntryVerdict | None:
        """Say what becomes of an entry.

        Args:
            metadata: Its header. Of a batch the properties are whatever its producer put there; `num_messages_in_batch` is
                present if it is one.

        Returns:
            None counts as ACCEPT (pip191.filter.no-verdict).
        """


EntryFilterFactory = Callable[[Mapping[str, str]], EntryFilter | None]
"""Makes a filter for a subscription with these properties; None: they do not ask for it. Raises ValueError for bad properties."""


class PropertyEntryFilter:
    """Accepts an entry if each property that is asked for has one of the values that are asked for.

    A property that the header lacks does not count, unless `entry-filter-missing` is `reject`. So where a producer may extract
    the versions 1 and 2, a filter on version 1 also lets messages of version 5 pass: their header has no version.

    Args:
        wanted: Values by property name.
        missing: What becomes of an entry whose header lacks one of the names.
    """

    def __init__(self, wanted: Mapping[str, frozenset[str]], missing: EntryVerdict = EntryVerdict.ACCEPT) -> None:
        self._wanted = wanted
        self._missing = missing

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self | None:
        """Make the filter that a subscription's properties ask for: pip191.filter.switched-on.

        Args:
            properties: `entry-filter.NAME` = values separated by commas, taken as they stand (pip191.filter.values-exact).

        Returns:
            None if no property is asked for (pip191.filter.off).

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

    def judge(self, metadata: MessageMetadata) -> EntryVerdict:
        """Compare the header's properties with what is asked for."""
        header = {one.key: one.value for one in metadata.properties}  # pip191.filter.repeated-name
        for name, values in self._wanted.items():
            if name not in header:
                if self._missing is EntryVerdict.REJECT:  # pip191.filter.missing-rejected
                    return EntryVerdict.REJECT
            elif header[name] not in values:  # pip191.filter.rejects
                return EntryVerdict.REJECT
        return EntryVerdict.ACCEPT  # pip191.filter.accepts, pip191.filter.missing-accepted


BUILT_IN: Mapping[str, EntryFilterFactory] = MappingProxyType({"PropertyEntryFilter": PropertyEntryFilter.of})
"""Filters that every broker has, by name."""


def with_entry_points(entry_points: Iterable[EntryPoint], log: Callable[[str], None] = lambda _: None) -> dict[str, EntryFilterFactory]:
    """Return the filters that every broker has, followed by those that other distributions register, in the order of their names.

    Args:
        entry_points: Such as `importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)` gives them.
        log: Gets one line for each that can't be used; the others work.
    """
    found = dict(BUILT_IN)
    for entry_point in sorted(entry_points, key=lambda one: one.name):
        name = entry_point.name
        if name in found:
            log(f"entry filter {name} of {entry_point.value} is left out: there is another one of that name")
            continue
        try:
            factory = entry_point.load()
        except Exception as error:  # code of others, of which one piece must not keep the rest from working
            log(f"entry filter {name} of {entry_point.value} is left out: {type(error).__name__}: {error}")
            continue
        if callable(factory):
            found[name] = factory
        else:
            log(f"entry filter {name} of {entry_point.value} is left out: it is no class or function but {type(factory).__name__}")
    return found


def filters_of(properties: Mapping[str, str], factories: Mapping[str, EntryFilterFactory] = BUILT_IN) -> dict[str, EntryFilter]:
    """Return the filters that a subscription's properties ask for, by name, in the order in which they are asked.

    Args:
        properties: Those of the SUBSCRIBE that creates the subscription: pip191.filter.properties-of-first.
        factories: By name.

    Raises:
        Refused: NotAllowedError: they can't be used; nothing may be created (pip191.filter.invalid).
    """
    found: dict[str, EntryFilter] = {}
    for name, factory in factories.items():
        try:
            made = factory(properties)
        except Exception as error:  # a filter of somebody else may raise anything
            raise Refused(NotAllowedError, f"Entry filter {name}: {error}") from None
        if made is not None:
            found[name] = made
    return found


@dataclass
class FilterCounts:
    """What the filters of a subscription have said; counted in messages, a batch by its size: pip191.stats.messages.

    `processed` is the sum of `accepted`, `rejected` and `rescheduled`: pip191.stats.sum.

    Attributes:
        failed: Of the accepted ones, those that were accepted because a filter failed.
    """

    processed: int = 0
    accepted: int = 0
    rejected: int = 0
    rescheduled: int = 0
    failed: int = 0

    def stats(self) -> dict[str, int]:
        """Return them under the names of Pulsar's statistics; the last has none there."""
        return {
            "filterProcessedMsgCount": self.processed,
            "filterAcceptedMsgCount": self.accepted,
            "filterRejectedMsgCount": self.rejected,
            "filterRescheduledMsgCount": self.rescheduled,
            "filterFailedMsgCount": self.failed,
        }


class SubscriptionEntryFilters:
    """The filters of one subscription, and the entries that it has put off.

    Entries are named by their index. It is to be asked each time that an entry is about to be sent, also again
    (pip191.filter.each-delivery), and only while a consumer has permits (pip191.filter.needs-permits).

    Args:
        filters: From `filters_of`; asked in their order until one does not accept (pip191.filter.chain).
        delay: Seconds until an entry that was put off is offered again.
        log: Gets one line when a filter fails for the first time.

    Attributes:
        counts: What has been said so far.
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
        """Return what judges for a subscription that exists, be its properties good or not.

        With properties that can't be used each entry counts as one whose filter failed, so that nothing is lost.
        """
        try:
            filters = filters_of(properties, factories)
        except Refused as refused:
            filters = {"unusable": _Unusable(refused.message)}
        return cls(filters, delay=delay, log=log)

    @property
    def active(self) -> bool:
        """Return whether there is any filter; if not, every entry is sent and nothing is counted."""
        return bool(self._filters)

    def judge(self, index: int, data: bytes, messages: int, now: float) -> EntryVerdict:
        """Say what becomes of an entry, and count it.

        Args:
            index: Of the entry.
            data: Everything behind the SEND command, as it was stored.
            messages: How many it holds.
            now: Seconds, on a clock that never goes back.

        Returns:
            REJECT: the caller acknowledges it, without permits (pip191.filter.reject-acknowledged,
            pip191.filter.reject-no-permits).
            RESCHEDULE: it is not sent; `due` names it when it is time (pip191.filter.reschedule-delay).
        """
        if not self.active:
            return EntryVerdict.ACCEPT
        verdict = self._verdict(data, messages)
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

    def _verdict(self, data: bytes, messages: int) -> EntryVerdict:
        try:
            metadata = parse_payload(data).metadata
        except WireError as error:  # pip191.filter.unreadable-delivers
            return self._failed("(the header can't be read)", str(error), messages)
        for name, one in self._filters.items():
            try:
                verdict = one.judge(metadata)
                if verdict is not None and not isinstance(verdict, EntryVerdict):
                    raise TypeError(f"{verdict!r} is no verdict")
            except Exception as error:  # pip191.filter.failing-delivers, pip191.filter.failing-goes-on
                return self._failed(name, f"{type(error).__name__}: {error}", messages)
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
        """Return the entries that are to be offered again now.

        The caller counts one more redelivery for each (pip191.filter.reschedule-counted) and asks `judge` again. It leaves out what a
        cumulative acknowledgement has passed since: pip191.filter.cumulative-passes.
        """
        due = list(itertools.takewhile(lambda index: self._waiting[index] <= now, self._waiting))
        for index in due:
            del self._waiting[index]
        return due

    def next_deadline(self) -> float | None:
        """Return when `due` has something; None: nothing was put off."""
        return next(iter(self._waiting.values()), None)

    def reset(self) -> None:
        """Forget what was put off: the subscription goes on elsewhere and meets these entries again, or never."""
        self._waiting.clear()


class _Unusable:
    """Stands for filters that can't be made."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def judge(self, metadata: MessageMetadata) -> EntryVerdict:  # noqa: ARG002
        raise ValueError(self._reason)


class UniformBatchesExtension(Extension):
    """What PIP-191 adds to a broker: entry filters.

    Args:
        host: The broker.
        profile: Of the producer's side; brokers have one reading.
        entry_filters: What makes entry filters for subscriptions, by name; None: the built-in ones.

    Attributes:
        entry_filters: The same.
    """

    def __init__(self, host: Host, profile: UniformBatchesProfile, entry_filters: Mapping[str, EntryFilterFactory] | None = None) -> None:  # noqa: ARG002
        super().__init__(host)
        self.entry_filters = entry_filters if entry_filters is not None else BUILT_IN

    def entry_judge(self, properties: Mapping[str, str], *, is_new: bool) -> EntryJudge:
        """Return what judges by the properties of the subscription; those of a new one have to be good: pip191.filter.invalid."""
        delay, log = self.host.configuration.dispatcher_entry_filter_rescheduled_message_delay / 1000, self.host.log
        if is_new:
            return HeaderJudge(SubscriptionEntryFilters(filters_of(properties, self.entry_filters), delay=delay, log=log))
        return HeaderJudge(SubscriptionEntryFilters.restored(properties, self.entry_filters, delay=delay, log=log))


class HeaderJudge(EntryJudge):
    """What judges the entries of a subscription.

    Args:
        filters: The filters, and what they have put off.
    """

    def __init__(self, filters: SubscriptionEntryFilters) -> None:
        self.filters = filters

    def judge(self, consumer: Hashable, index: int, entry: Entry, cursor: Cursor, now: float) -> EntryVerdict:  # noqa: ARG002
        """Judge an entry by its header."""
        return self.filters.judge(index, entry.data, entry.messages, now)

    def next_deadline(self) -> float | None:
        """Return when `due` has something."""
        return self.filters.next_deadline()

    def due(self, now: float) -> Iterable[int]:
        """Return the entries that are to be offered again now."""
        return self.filters.due(now)

    def reset(self) -> None:
        """Forget what was put off."""
        self.filters.reset()

    def stats(self) -> Mapping[str, int]:
        """Return the counters of messages."""
        return self.filters.counts.stats()
