"""PR 7629, the broker's side: which messages of an entry the consumers of a subscription receive.

`MessageFilterBroker` and `SubscriptionMessageFilter` have the rules; `MessageFilterExtension` connects them to a broker.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import cast

from refimpl.names import TopicName
from refimpl.proposals.extension import Consumer, EntryJudge, EntryVerdict, Extension, Host
from refimpl.proposals.message_filter.kinds import (
    FilterRegistry,
    SchemaAccess,
)
from refimpl.proposals.message_filter.rules import (
    BUILT_IN_REGISTRY,
    DEFAULT,
    EntryJudgement,
    EntryOutcome,
    FilterCounters,
    MessageFilterProfile,
    RequestedFilter,
    judge,
    requested_filter,
)
from refimpl.proposals.refused import Refused
from refimpl.store import Cursor, Entry
from refimpl.wire import DEFAULT_MAX_MESSAGE_SIZE
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, ConsumerBusy, FeatureFlags, Schema

_NO_SCHEMAS = SchemaAccess()


class MessageFilterBroker:
    """The broker's side: builds the filters that consumers ask for. A broker has one.

    Args:
        registry: The available filters.
        profile: Which reading to follow where the text and the settled reading differ.
        max_message_size: Maximum size of a decompressed body, in bytes; a larger one is not judged.
    """

    def __init__(
        self,
        registry: FilterRegistry = BUILT_IN_REGISTRY,
        *,
        profile: MessageFilterProfile = DEFAULT,
        max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE,
    ) -> None:
        self._registry = registry
        self._profile = profile
        self._max_message_size = max_message_size

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flag of this proposal; it does not depend on the client: pr7629.flag.set."""
        flags.supports_message_filter = True

    def requested(self, request: CommandSubscribe, schemas: SchemaAccess = _NO_SCHEMAS) -> RequestedFilter | None:
        """Build the filter that a SUBSCRIBE asks for, before anything is created for it: pr7629.subscribe.nothing-created.

        Args:
            request: The request. Its schema, if any, replaces the topic's: pr7629.avro.subscribe-schema.
            schemas: The schemas of the topic, if it exists.

        Returns:
            None if it asks for no filter: pr7629.subscribe.without-filter.

        Raises:
            Refused: NotAllowedError: pr7629.subscribe.refused.
        """
        if not request.HasField("filter_meta"):
            return None
        if request.HasField("schema") and request.schema.type != Schema.AutoConsume:
            schemas = SchemaAccess(request.schema, schemas.of_version)
        return requested_filter(request.filter_meta, self._registry, schemas)

    def subscription(self) -> SubscriptionMessageFilter:
        """Return a new filter state for one subscription."""
        return SubscriptionMessageFilter(self._profile, self._max_message_size)


class SubscriptionMessageFilter:
    """Filters the entries of one subscription; made by `MessageFilterBroker.subscription`.

    Args:
        profile: Whether the subscription has one filter, or each consumer has its own.
        max_message_size: Maximum size of a decompressed body, in bytes.

    Attributes:
        counters: Counts of the judged messages, for all filters.
    """

    def __init__(self, profile: MessageFilterProfile, max_message_size: int) -> None:
        self.counters = FilterCounters()
        self._profile = profile
        self._max_message_size = max_message_size
        self._filters: dict[Hashable, RequestedFilter | None] = {}  # by consumer

    def check_joins(self, requested: RequestedFilter | None) -> None:
        """Check whether a consumer may join. Its filter has been built before: pr7629.scope.bad-before-busy.

        Args:
            requested: The consumer's filter; None: it has none.

        Raises:
            Refused: ConsumerBusy: pr7629.scope.other-filter, .no-filter, .free-when-empty.
        """
        if self._profile.filter_scope == "subscription" and any(one != requested for one in self._filters.values()):
            raise Refused(ConsumerBusy, "A consumer with another message filter, or with none, is connected to the subscription")

    def joined(self, consumer: Hashable, requested: RequestedFilter | None) -> None:
        """Add a consumer that `check_joins` has accepted."""
        in_force = next(iter(self._filters.values()), requested) if self._profile.filter_scope == "subscription" else requested
        self._filters[consumer] = in_force  # pr7629.scope.one-filter, .per-consumer

    def left(self, consumer: Hashable) -> None:
        """Remove a consumer."""
        self._filters.pop(consumer, None)  # pr7629.scope.one-leaves

    def judge(self, consumer: Hashable, data: bytes, open_messages: frozenset[int] | None = None) -> EntryJudgement:
        """Judge an entry before it is sent to a consumer that has permits: pr7629.permits.judged-with-permits.

        The caller acknowledges rejected messages for the subscription at once: whole entries individually (pr7629.ack.individual,
        .not-again), messages of a batch by their indexes (pr7629.ack.indexes, .merged). Rejected messages use no permits
        (pr7629.permits.free); a delivered entry uses one for each open message (pr7629.permits.open-messages). The bytes of the entry
        are sent unchanged (pr7629.deliver.unchanged).

        Args:
            consumer: The consumer that would receive the entry.
            data: Everything after the command in its frame.
            open_messages: For a batch, the indexes of the unacknowledged messages; None: all of them.

        Returns:
            For a consumer without a filter: ACCEPT, which is not counted.
        """
        requested = self._filters.get(consumer)
        if requested is None:
            return EntryJudgement(EntryOutcome.ACCEPT, open_messages)
        judgement = judge(requested.filter, data, open_messages, max_size=self._max_message_size)
        self.counters.add(judgement)
        return judgement


class MessageFilterExtension(Extension):
    """What PR 7629 adds to a broker.

    Args:
        host: The broker.
        profile: Which reading the broker speaks.
        registry: The available filters; None: the built-in ones.

    Attributes:
        filters: Builds the filters.
    """

    def __init__(self, host: Host, profile: MessageFilterProfile, registry: FilterRegistry | None = None) -> None:
        super().__init__(host)
        self.filters = MessageFilterBroker(
            registry if registry is not None else BUILT_IN_REGISTRY, profile=profile, max_message_size=host.configuration.max_message_size
        )

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flag."""
        self.filters.advertise(flags)

    def requested(self, request: CommandSubscribe, name: TopicName) -> RequestedFilter | None:
        """Build the filter that a SUBSCRIBE asks for; it can read all schemas of the topic, including later ones."""
        schemas = SchemaAccess(self.host.newest_schema(name), lambda version: self.host.schema_of_version(name, version))
        return self.filters.requested(request, schemas)

    def entry_judge(self, properties: Mapping[str, str], *, is_new: bool) -> EntryJudge:  # noqa: ARG002
        """Return a judge that runs the message filters of the consumers."""
        return PayloadJudge(self.filters.subscription())


class PayloadJudge(EntryJudge):
    """Judges the entries of a subscription.

    Args:
        message_filter: The filters of the subscription.
    """

    opens_entries = True

    def __init__(self, message_filter: SubscriptionMessageFilter) -> None:
        self.message_filter = message_filter

    def check_joins(self, requested: object) -> None:
        """Check whether a consumer with this filter, or without one, may join."""
        self.message_filter.check_joins(cast("RequestedFilter | None", requested))

    def joined(self, consumer: Consumer, requested: object) -> None:
        """Add a consumer."""
        self.message_filter.joined(consumer, cast("RequestedFilter | None", requested))

    def left(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.message_filter.left(consumer)

    def judge(self, consumer: Consumer, index: int, entry: Entry, cursor: Cursor, now: float) -> EntryVerdict:  # noqa: ARG002
        """Judge an entry; in a batch that matches in part, acknowledge the other messages: pr7629.ack.indexes, .merged."""
        judgement = self.message_filter.judge(consumer, entry.data, cursor.open_messages.get(index))
        if judgement.outcome is EntryOutcome.PARTIAL:
            cursor.acknowledge_in_part(index, judgement.open_messages or ())
        return EntryVerdict.REJECT if judgement.outcome is EntryOutcome.REJECT else EntryVerdict.ACCEPT

    def stats(self) -> Mapping[str, int]:
        """Return the counters for topic stats."""
        return self.message_filter.counters.stats()
