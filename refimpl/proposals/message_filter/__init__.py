"""PR 7629: a message filter that the consumer chooses and the broker runs.

A consumer that wants few messages of a busy topic receives all of them and discards most. With this proposal the broker filters:
it delivers the messages that match, and acknowledges the others on behalf of the subscription. On the wire:

    CONNECTED (3)    broker   feature_flags 7629: supports_message_filter
    SUBSCRIBE (4)    client   filter_meta: which filter to run
    MESSAGE (9)      broker   ack_set: which messages of a batch match; the field is older than the proposal

    message      field                      type        meaning
    SUBSCRIBE    7629 filter_meta           FilterMeta  absent: no filter
    FilterMeta   1 filter_class_name        string      name of the filter, such as `REGEX_FILTER`
                 2 filter_properties        KeyValue*   settings of the filter, such as a regular expression
    MESSAGE      4 ack_set                  int64*      one bit for each message of the batch, lowest first; 1: deliver it

No release of Apache Pulsar implements the proposal, and a later release assigned the field number in the text to another field.
This project uses the private number 7629 for the flag and the field. A broker that does not know them ignores both and delivers
every message, so a client checks the flag before it relies on the filter.

`rules` has the rules that both sides share; `kinds` and `avro` have the filters. The broker's side is in `broker`
(`MessageFilterBroker`, with a `SubscriptionMessageFilter` for each subscription), the client's side in `client` (`ConsumerFilter`).
All are synchronous and do no I/O. Sources: the text of PR 7629, and this project's settled reading of what it leaves open. Where the
two contradict each other, a `MessageFilterProfile` selects one.
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
    capabilities=(
        Capability(  # the text has no flag, so a broker may claim it without
            "message-filter",
            "feature flag supports_message_filter, or declared",
            flag="supports_message_filter",
            declared=True,
            part="filters",
        ),
        Capability("message-filter-flag", "feature flag supports_message_filter", flag="supports_message_filter"),
    ),
    commands=(),
    broker=MessageFilterExtension,
    profiles=PROFILES,
)
