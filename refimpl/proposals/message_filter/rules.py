"""PR 7629, the rules that both sides share: the profiles, how to read a FilterMeta, and how to judge an entry.

An entry is what one SEND carries. Each of its messages that is not acknowledged yet is judged on its own:

    all messages match     ACCEPT     deliver the entry unchanged
    no message matches     REJECT     acknowledge the entry on behalf of the subscription
    some messages match    PARTIAL    deliver the entry with an `ack_set` that names the messages that match
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Literal

from refimpl.proposals.message_filter.avro import BasicAvroFilter
from refimpl.proposals.message_filter.kinds import (
    BASIC_AVRO_FILTER,
    BYTES_PREFIX_FILTER,
    REGEX_FILTER,
    BytesPrefixFilter,
    Candidate,
    FilterFactory,
    FilterRegistry,
    InvalidFilter,
    MessageFilter,
    RegexFilter,
    SchemaAccess,
)
from refimpl.proposals.refused import Refused
from refimpl.wire import DEFAULT_MAX_MESSAGE_SIZE, Payload, WireError, decode_batch, decompress, is_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import FilterMeta, KeyValue, MessageMetadata, NotAllowedError

BUILT_IN: Mapping[str, FilterFactory] = MappingProxyType(
    {REGEX_FILTER: RegexFilter, BYTES_PREFIX_FILTER: BytesPrefixFilter, BASIC_AVRO_FILTER: BasicAvroFilter}
)
"""The filters that every broker with this proposal has: pr7629.class.built-in."""

BUILT_IN_REGISTRY = FilterRegistry(BUILT_IN)
"""A registry of the built-in filters only."""

_SHOWN = 200
"""Maximum number of characters of a name or a reason that an error message repeats."""


@dataclass(frozen=True)
class MessageFilterProfile:
    """Which reading of PR 7629 a peer speaks, where the settled one differs from the text."""

    filter_scope: Literal["subscription", "consumer"]
    """What has one filter. `subscription`: all consumers of a subscription have the same filter; a consumer with another one, or
    with none, is refused with ConsumerBusy. `consumer`, as the text says: each consumer has its own filter. On a shared
    subscription, chance then decides which filter judges a message, and the consumers lose what another one's filter rejects."""


DEFAULT = MessageFilterProfile(filter_scope="subscription")
"""The settled reading; no release of Apache Pulsar implements this proposal."""

AS_WRITTEN = MessageFilterProfile(filter_scope="consumer")
"""What the text says."""

PROFILES: Mapping[str, MessageFilterProfile] = MappingProxyType({"default": DEFAULT, "as-written": AS_WRITTEN})
"""Both profiles, by name."""


@dataclass(frozen=True, slots=True)
class RequestedFilter:
    """The filter that a SUBSCRIBE asks for. Two are equal if they have the same name and the same properties.

    Attributes:
        class_name: The filter's name in the registry.
        properties: The properties in the request; their order does not matter.
        filter: The filter itself.
    """

    class_name: str
    properties: Mapping[str, str]
    filter: MessageFilter = field(compare=False)


def requested_filter(meta: FilterMeta, registry: FilterRegistry, schemas: SchemaAccess) -> RequestedFilter:
    """Build the filter that a FilterMeta describes.

    Raises:
        Refused: NotAllowedError; its message names the key: pr7629.subscribe.refused.
    """
    name = meta.filter_class_name
    try:
        properties = _properties(meta.filter_properties)
        return RequestedFilter(name, MappingProxyType(properties), registry.build(name, properties, schemas))
    except InvalidFilter as error:
        raise Refused(NotAllowedError, f"Message filter {_clipped(name)!r} is refused: {_explained(error)}") from None


def _properties(pairs: Iterable[KeyValue]) -> dict[str, str]:
    counts = Counter(pair.key for pair in pairs)
    for key, count in counts.items():
        if count > 1:  # pr7629.properties.repeated-key
            raise InvalidFilter(f"this key stands there {count} times", key)
    return {pair.key: pair.value for pair in pairs}


def _explained(error: InvalidFilter) -> str:
    reason = _clipped(error.reason)
    return reason if error.key is None else f"key {_clipped(error.key)!r}: {reason}"  # pr7629.properties.key-named


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class EntryOutcome(Enum):
    """What the broker does with an entry."""

    ACCEPT = "deliver it"
    REJECT = "acknowledge it"
    PARTIAL = "deliver the messages that match; acknowledge the others"


@dataclass(frozen=True, slots=True)
class EntryJudgement:
    """The verdict on one entry.

    Attributes:
        outcome: What the broker does with the entry.
        open_messages: Indexes of the messages to deliver, for `ack_set`; None: all of them.
        accepted: Number of messages that match.
        rejected: Number of messages that do not match.
        undecidable: Number of messages that the filter can't judge; they are delivered.
        reason: Why the filter can't judge the first of these; empty if there are none.
    """

    outcome: EntryOutcome
    open_messages: frozenset[int] | None = None
    accepted: int = 0
    rejected: int = 0
    undecidable: int = 0
    reason: str = ""


def _judge_each(message_filter: MessageFilter, candidates: list[Candidate], open_messages: frozenset[int] | None) -> EntryJudgement:
    wanted: set[int] = set()
    accepted = rejected = undecidable = 0
    reason = ""
    for index, candidate in enumerate(candidates):
        if open_messages is not None and index not in open_messages:  # pr7629.judge.acknowledged-not-judged
            continue
        try:
            matches = message_filter.matches(candidate)
        except Exception as error:  # pr7629.judge.filter-fails: third-party code; no message is lost, and dispatch continues
            undecidable += 1
            reason = reason or f"{type(error).__name__}: {error}"
        else:
            accepted += bool(matches)
            rejected += not matches
            if not matches:
                continue
        wanted.add(index)
    if not wanted:  # pr7629.judge.none-matches
        return EntryJudgement(EntryOutcome.REJECT, frozenset(), accepted, rejected, undecidable, reason)
    if not rejected:  # pr7629.judge.all-match
        return EntryJudgement(EntryOutcome.ACCEPT, open_messages, accepted, rejected, undecidable, reason)
    return EntryJudgement(EntryOutcome.PARTIAL, frozenset(wanted), accepted, rejected, undecidable, reason)  # pr7629.judge.some-match


def _candidates(payload: Payload, max_size: int) -> list[Candidate]:
    """Split an entry into its messages: pr7629.judge.compressed, .batch-each, .unbatched.

    Raises:
        WireError: The body can't be decompressed, or the batch can't be decoded.
    """
    metadata = payload.metadata
    body = decompress(payload.body, metadata.compression, metadata.uncompressed_size, limit=max_size)
    if not is_batch(metadata):
        return [Candidate(body, metadata)]
    return [Candidate(one.body, metadata, one.metadata) for one in decode_batch(body, metadata.num_messages_in_batch)]


def _unreadable(metadata: MessageMetadata) -> str:
    """Return why only the consumer can read a message; empty: the broker can read it, too."""
    if metadata.encryption_keys:  # pr7629.judge.encrypted
        return "it is encrypted"
    if metadata.num_chunks_from_msg > 1:  # pr7629.judge.chunked
        return "it is a chunk of a message"
    return ""


def judge(
    message_filter: MessageFilter,
    data: bytes,
    open_messages: frozenset[int] | None = None,
    *,
    max_size: int = DEFAULT_MAX_MESSAGE_SIZE,
) -> EntryJudgement:
    """Judge an entry.

    Args:
        message_filter: The filter that messages have to match.
        data: Everything that follows the command in its frame: checksum, metadata, body.
        open_messages: Of a batch, the indexes of the messages that are not acknowledged; None: all of them.
        max_size: Maximum size of its decompressed body, in bytes.
    """
    try:
        payload = parse_payload(data)
    except WireError as error:
        return _undecidable(1, open_messages, f"the headers can't be read: {error}")
    metadata = payload.metadata
    if metadata.HasField("marker_type"):  # pr7629.judge.marker
        return EntryJudgement(EntryOutcome.ACCEPT, open_messages)
    reason = _unreadable(metadata)
    if not reason:
        try:
            candidates = _candidates(payload, max_size)
        except WireError as error:  # pr7629.judge.damaged
            reason = f"the body can't be read: {error.reason}"
        else:
            return _judge_each(message_filter, candidates, open_messages)
    count = max(metadata.num_messages_in_batch, 1) if open_messages is None else len(open_messages)
    return _undecidable(count, open_messages, reason)


def _undecidable(count: int, open_messages: frozenset[int] | None, reason: str) -> EntryJudgement:
    return EntryJudgement(EntryOutcome.ACCEPT, open_messages, undecidable=count, reason=reason)


@dataclass(slots=True)
class FilterCounters:
    """Counters of judged messages; a message counts each time it is judged: pr7629.stats.counters, .by-messages, .again.

    Attributes:
        processed: All messages; the sum of the other three.
        accepted: Messages that matched.
        rejected: Messages that did not match; acknowledged and not delivered.
        undecidable: Messages that the filter could not judge; delivered.
    """

    processed: int = 0
    accepted: int = 0
    rejected: int = 0
    undecidable: int = 0

    def add(self, judgement: EntryJudgement) -> None:
        """Add the verdict on one entry."""
        self.accepted += judgement.accepted
        self.rejected += judgement.rejected
        self.undecidable += judgement.undecidable
        self.processed += judgement.accepted + judgement.rejected + judgement.undecidable

    def stats(self) -> dict[str, int]:
        """Return the counters under their names in topic stats. Entry filters have other names."""
        return {
            "messageFilterProcessedMsgCount": self.processed,
            "messageFilterAcceptedMsgCount": self.accepted,
            "messageFilterRejectedMsgCount": self.rejected,
            "messageFilterUndecidableMsgCount": self.undecidable,
        }
