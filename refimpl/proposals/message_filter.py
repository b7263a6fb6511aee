"""PR 7629: a filter that a consumer gives the broker when it subscribes.

A consumer that wants few of the messages of a busy topic gets all of them and throws most away. The proposal lets the broker do
that: it sends the messages that match, and acknowledges the others on behalf of the consumer. What it changes on the wire:

    CONNECTED      feature flag supports_message_filter
    SUBSCRIBE      filter_meta: the name of a filter class, and its properties
    MESSAGE        ack_set: of a batch, the messages that match (the field is older than the proposal)

No release of Apache Pulsar has it, and the number that the text gives to the new field was taken by another one later; here the
flag and the field have private numbers, 7629. A broker that does not know them ignores both and delivers everything, so a client
looks at the flag.

The filters stand in `message_filter_kinds` and `message_filter_avro`, the rules that both sides share in `message_filter_rules`.
The broker's side is `MessageFilterBroker`, with a `SubscriptionMessageFilter` for each subscription, below; the client's is
`ConsumerFilter`, in `message_filter_client`. All are synchronous, without input and output. Sources: the text of PR 7629, and the
settled reading of what it leaves open. Where the two contradict each other, a `Profile` says which is followed.
"""

from __future__ import annotations

from collections.abc import Hashable

from refimpl.proposals.message_filter_client import (
    TRANSITIONS,
    ConsumerFilter,
    Event,
    MessageFilterPolicy,
    State,
)
from refimpl.proposals.message_filter_kinds import (
    BASIC_AVRO_FILTER,
    BYTES_PREFIX_FILTER,
    ENTRY_POINT_GROUP,
    PREFIX_BASE64_KEY,
    PREFIX_KEY,
    REGEX_FILTER,
    REGEX_KEY,
    REGEX_MAX_LENGTH,
    Candidate,
    EntryPoint,
    FilterFactory,
    FilterRegistry,
    InvalidFilter,
    MessageFilter,
    SchemaAccess,
    Undecidable,
)
from refimpl.proposals.message_filter_rules import (
    AS_WRITTEN,
    BUILT_IN,
    BUILT_IN_REGISTRY,
    DEFAULT,
    PROFILES,
    FilterCounters,
    Judgement,
    Outcome,
    Profile,
    RequestedFilter,
    judge,
    requested_filter,
)
from refimpl.proposals.refused import Refused
from refimpl.wire import DEFAULT_MAX_MESSAGE_SIZE
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, ConsumerBusy, FeatureFlags, Schema

__all__ = [
    "AS_WRITTEN",
    "BASIC_AVRO_FILTER",
    "BUILT_IN",
    "BUILT_IN_REGISTRY",
    "BYTES_PREFIX_FILTER",
    "DEFAULT",
    "ENTRY_POINT_GROUP",
    "PREFIX_BASE64_KEY",
    "PREFIX_KEY",
    "PROFILES",
    "REGEX_FILTER",
    "REGEX_KEY",
    "REGEX_MAX_LENGTH",
    "TRANSITIONS",
    "Candidate",
    "ConsumerFilter",
    "EntryPoint",
    "Event",
    "FilterCounters",
    "FilterFactory",
    "FilterRegistry",
    "InvalidFilter",
    "Judgement",
    "MessageFilter",
    "MessageFilterBroker",
    "MessageFilterPolicy",
    "Outcome",
    "Profile",
    "RequestedFilter",
    "SchemaAccess",
    "State",
    "SubscriptionMessageFilter",
    "Undecidable",
    "judge",
    "requested_filter",
]

_NO_SCHEMAS = SchemaAccess()


class MessageFilterBroker:
    """The broker's side: builds the filters that consumers ask for. One per broker.

    Args:
        registry: The filters that may be asked for.
        profile: Whom to follow where text and settled reading differ.
        max_message_size: Most bytes that a body may have when decompressed; of one with more, nothing is judged.
    """

    def __init__(
        self,
        registry: FilterRegistry = BUILT_IN_REGISTRY,
        *,
        profile: Profile = DEFAULT,
        max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE,
    ) -> None:
        self._registry = registry
        self._profile = profile
        self._max_message_size = max_message_size

    def advertise(self, flags: FeatureFlags) -> None:
        """Set the feature flag of this proposal; it depends on nothing that the client says: pr7629.flag.set."""
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
        max_message_size: Most bytes that a body may have when decompressed.

    Attributes:
        counters: All messages that were judged, whatever filter was in force.
    """

    def __init__(self, profile: Profile, max_message_size: int) -> None:
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
        """Record that a consumer is gone."""
        self._filters.pop(consumer, None)

    def judge(self, consumer: Hashable, data: bytes, open_messages: frozenset[int] | None = None) -> Judgement:
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
            return Judgement(Outcome.ACCEPT, open_messages)
        judgement = judge(requested.filter, data, open_messages, max_size=self._max_message_size)
        self.counters.add(judgement)
        return judgement
