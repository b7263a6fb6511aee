"""PR 7629: a filter that a consumer gives the broker when it subscribes.

A consumer that wants few of the messages of a busy topic gets all of them and throws most away. The proposal lets the broker do
that: it sends the messages that match, and acknowledges the others on behalf of the consumer. What it changes on the wire:

    CONNECTED      feature flag supports_message_filter
    SUBSCRIBE      filter_meta: the name of a filter class, and its properties
    MESSAGE        ack_set: of a batch, the messages that match (the field is older than the proposal)

No release of Apache Pulsar has it, and the number that the text gives to the new field was taken by another one later; here the
flag and the field have private numbers, 7629. A broker that does not know them ignores both and delivers everything, so a client
looks at the flag.

The filters stand in `kinds` and `avro`, the rules that both sides share in `rules`.
The broker's side is `MessageFilterBroker`, with a `SubscriptionMessageFilter` for each subscription, in `broker`; the client's is
`ConsumerFilter`, in `client`. All are synchronous, without input and output. Sources: the text of PR 7629, and the
settled reading of what it leaves open. Where the two contradict each other, a `MessageFilterProfile` says which is followed.
"""

from refimpl.proposals.declaration import Capability, Proposal
from refimpl.proposals.message_filter.broker import MessageFilterBroker, MessageFilterExtension, SubscriptionMessageFilter
from refimpl.proposals.message_filter.client import (
    IGNORED,
    TRANSITIONS,
    ConsumerFilter,
    MessageFilterEvent,
    MessageFilterPolicy,
    MessageFilterState,
)
from refimpl.proposals.message_filter.kinds import (
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
from refimpl.proposals.message_filter.rules import (
    AS_WRITTEN,
    BUILT_IN,
    BUILT_IN_REGISTRY,
    DEFAULT,
    PROFILES,
    EntryJudgement,
    EntryOutcome,
    FilterCounters,
    MessageFilterProfile,
    RequestedFilter,
    judge,
    requested_filter,
)

__all__ = [
    "AS_WRITTEN",
    "BASIC_AVRO_FILTER",
    "BUILT_IN",
    "BUILT_IN_REGISTRY",
    "BYTES_PREFIX_FILTER",
    "DEFAULT",
    "ENTRY_POINT_GROUP",
    "IGNORED",
    "PREFIX_BASE64_KEY",
    "PREFIX_KEY",
    "PROFILES",
    "PROPOSAL",
    "REGEX_FILTER",
    "REGEX_KEY",
    "REGEX_MAX_LENGTH",
    "TRANSITIONS",
    "Candidate",
    "ConsumerFilter",
    "EntryJudgement",
    "EntryOutcome",
    "EntryPoint",
    "FilterCounters",
    "FilterFactory",
    "FilterRegistry",
    "InvalidFilter",
    "MessageFilter",
    "MessageFilterBroker",
    "MessageFilterEvent",
    "MessageFilterExtension",
    "MessageFilterPolicy",
    "MessageFilterProfile",
    "MessageFilterState",
    "RequestedFilter",
    "SchemaAccess",
    "SubscriptionMessageFilter",
    "Undecidable",
    "judge",
    "requested_filter",
]

PROPOSAL: Proposal[MessageFilterProfile] = Proposal(
    register="pr7629",
    name="PR 7629",
    title="message filters on SUBSCRIBE",
    address="https://github.com/apache/pulsar/pull/7629",
    capabilities=(Capability("message-filter", "feature flag supports_message_filter", flag="supports_message_filter"),),
    commands=(),
    broker=MessageFilterExtension,
    profiles=PROFILES,
)
