"""PR 7629, the broker's side: which messages of an entry a subscription's consumers get.

`MessageFilterBroker` and `SubscriptionMessageFilter` are the rules of the broker; `MessageFilterExtension` joins them to one.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import cast

from refimpl.names import TopicName
from refimpl.proposals.extension import EntryJudge, EntryVerdict, Extension, Host
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
    """The broker's side: builds the filters that consumers ask for. One per broker.

    Args:
        registry: The filters that may be asked for.
        profile: Which reading to follow where the text and the settled reading differ.
        max_message_size: Maximum size of a decompressed body, in bytes; of one with more, nothing is judged.
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
            request: If it has a schema, that takes the place of the topic's: pr7629.avro.subscribe-schema.
            schemas: Those of the topic, if it exists.

        Returns:
            None if it asks for none: pr7629.subscribe.without-filter.

        Raises:
            Refused: NotAllowedError: pr7629.subscribe.refused.
        """
        if not request.HasField("filter_meta"):
            return None
        if request.HasField("schema") and request.schema.type != Schema.AutoConsume:
            schemas = SchemaAccess(request.schema, schemas.of_version)
        return requested_filter(request.filter_meta, self._registry, schemas)

    def subscription(self) -> SubscriptionMessageFilter:
        """Return the part that belongs to one subscription."""
        return SubscriptionMessageFilter(self._profile, self._max_message_size)


class SubscriptionMessageFilter:
    """What filters the entries of one subscription; made by `MessageFilterBroker.subscription`.

    Args:
        profile: Whether the subscription has a filter, or each consumer.
        max_message_size: Maximum size of a decompressed body, in bytes.

    Attributes:
        counters: All messages that were judged, whatever filter was in force.
    """

    def __init__(self, profile: MessageFilterProfile, max_message_size: int) -> None:
        self.counters = FilterCounters()
        self._profile = profile
        self._max_message_size = max_message_size
        self._filters: dict[Hashable, RequestedFilter | None] = {}  # by consumer

    def check_joins(self, requested: RequestedFilter | None) -> None:
        """Let a consumer join, whose filter is built already: pr7629.scope.bad-before-busy.

        Args:
            requested: Its filter; None: it has none.

        Raises:
            Refused: ConsumerBusy: pr7629.scope.other-filter, .no-filter, .free-when-empty.
        """
        if self._profile.filter_scope == "subscription" and any(one != requested for one in self._filters.values()):
            raise Refused(ConsumerBusy, "A consumer with another message filter, or with none, is connected to the subscription")

    def joined(self, consumer: Hashable, requested: RequestedFilter | None) -> None:
        """Record a consumer that `check_joins` has passed."""
        in_force = next(iter(self._filters.values()), requested) if self._profile.filter_scope == "subscription" else requested
        self._filters[consumer] = in_force  # pr7629.scope.one-filter, .per-consumer

    def left(self, consumer: Hashable) -> None:
        """Record that a consumer has left."""
        self._filters.pop(consumer, None)  # pr7629.scope.one-leaves

    def judge(self, consumer: Hashable, data: bytes, open_messages: frozenset[int] | None = None) -> EntryJudgement:
        """Judge an entry that a consumer would be sent now, having permits: pr7629.permits.judged-with-permits.

        What the judgement rejects has to be acknowledged for the subscription at once, whole entries by themselves
        (pr7629.ack.individual, .not-again) and messages of a batch by their indexes (pr7629.ack.indexes, .merged). It costs no
        permits (pr7629.permits.free); what is delivered costs one for each open message (pr7629.permits.open-messages). The bytes of
        the entry go out as they are (pr7629.deliver.unchanged).

        Args:
            consumer: Who would be sent it.
            data: Everything that follows the command in its frame.
            open_messages: Of a batch, the indexes of the messages that are not acknowledged; None: all of them.

        Returns:
            ACCEPT, counted nowhere, for a consumer without a filter.
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
        profile: Which reading is spoken.
        registry: The filters that may be asked for; None: the built-in ones.

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
        """Build the filter that a SUBSCRIBE asks for; it sees the topic's schemas, later ones included."""
        schemas = SchemaAccess(self.host.newest_schema(name), lambda version: self.host.schema_of_version(name, version))
        return self.filters.requested(request, schemas)

    def entry_judge(self, properties: Mapping[str, str], *, is_new: bool) -> EntryJudge:  # noqa: ARG002
        """Return what judges by the filters of consumers."""
        return PayloadJudge(self.filters.subscription())


class PayloadJudge(EntryJudge):
    """What judges the entries of a subscription.

    Args:
        message_filter: The filters in force.
    """

    opens_entries = True

    def __init__(self, message_filter: SubscriptionMessageFilter) -> None:
        self.message_filter = message_filter

    def check_joins(self, requested: object) -> None:
        """Let a consumer join that asks for a message filter, or for none."""
        self.message_filter.check_joins(cast("RequestedFilter | None", requested))

    def joined(self, consumer: Hashable, requested: object) -> None:
        """Record a consumer."""
        self.message_filter.joined(consumer, cast("RequestedFilter | None", requested))

    def left(self, consumer: Hashable) -> None:
        """Record that a consumer has left."""
        self.message_filter.left(consumer)

    def judge(self, consumer: Hashable, index: int, entry: Entry, cursor: Cursor, now: float) -> EntryVerdict:  # noqa: ARG002
        """Judge an entry; of a batch that is wanted in part, the rest is acknowledged: pr7629.ack.indexes, .merged."""
        judgement = self.message_filter.judge(consumer, entry.data, cursor.open_messages.get(index))
        if judgement.outcome is EntryOutcome.PARTIAL:
            cursor.acknowledge_in_part(index, judgement.open_messages or ())
        return EntryVerdict.REJECT if judgement.outcome is EntryOutcome.REJECT else EntryVerdict.ACCEPT

    def stats(self) -> Mapping[str, int]:
        """Return the counters of messages."""
        return self.message_filter.counters.stats()
