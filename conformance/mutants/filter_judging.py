"""Brokers that judge entries otherwise than a message filter should, or deliver them otherwise than they came."""

from dataclasses import replace

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import message_filter_of
from refimpl.broker import subscription
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.broker.subscription import Consumer
from refimpl.proposals import message_filter
from refimpl.proposals.message_filter import (
    Candidate,
    EntryJudgement,
    EntryOutcome,
    MessageFilter,
    RequestedFilter,
    SubscriptionMessageFilter,
)
from refimpl.proposals.message_filter import rules as message_filter_rules
from refimpl.proposals.message_filter.broker import PayloadJudge
from refimpl.proposals.uniform_batches import EntryVerdict
from refimpl.store import Cursor, Entry
from refimpl.wire import Payload, is_batch, parse_payload
from refimpl.wire.pulsar_api_pb2 import NONE, MessageMetadata


def _has_filter(consumer: Consumer) -> bool:
    filters = message_filter_of(consumer.subscription.filters)
    return filters._filters.get(consumer) is not None


@mutant("pr7629.regex.example")
def holds_31_back_until_32_has_gone_out(patches: Patches) -> None:
    """A consumer with a filter gets the message with entry id 31 behind the next one."""
    send = Consumer.send

    def changed(consumer: Consumer, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        if index != 31 or not _has_filter(consumer):
            send(consumer, index, entry, redeliveries, open_messages)
        if index == 32 and _has_filter(consumer):
            send(consumer, 31, consumer.subscription.topic.entries[31], 0, None)

    patches.replace(Consumer, "send", changed)


@mutant("pr7629.deliver.matching-only")
def lets_every_eighth_entry_pass(patches: Patches) -> None:
    """Entries 7, 15, 23 and so on of a topic are delivered without being judged."""
    judge = SubscriptionFilters.judge

    def changed(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        return EntryVerdict.ACCEPT if index % 8 == 7 else judge(filters, consumer, index, entry, cursor)

    patches.replace(SubscriptionFilters, "judge", changed)


@mutant("pr7629.deliver.unchanged")
def takes_the_checksum_off_a_batch_in_part(patches: Patches) -> None:
    """A batch of which a part matches goes out without its checksum."""
    send = Consumer.send

    def changed(consumer: Consumer, index: int, entry: Entry, redeliveries: int, open_messages: frozenset[int] | None) -> None:
        in_part = open_messages is not None and entry.data.startswith(b"\x0e\x01")
        send(consumer, index, replace(entry, data=entry.data[6:]) if in_part else entry, redeliveries, open_messages)

    patches.replace(Consumer, "send", changed)


@mutant("pr7629.deliver.late")
def filters_only_what_is_published_from_now_on(patches: Patches) -> None:
    """What was published before a consumer with a filter came is delivered to it unfiltered."""
    judge, joined = SubscriptionFilters.judge, PayloadJudge.joined
    before: dict[Consumer, int] = {}

    def remember(filters: PayloadJudge, consumer: Consumer, requested: RequestedFilter | None) -> None:
        before[consumer] = len(consumer.subscription.topic.entries) if requested is not None else 0
        joined(filters, consumer, requested)

    def changed(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        return EntryVerdict.ACCEPT if index < before[consumer] else judge(filters, consumer, index, entry, cursor)

    patches.replace(PayloadJudge, "joined", remember)
    patches.replace(SubscriptionFilters, "judge", changed)


@mutant("pr7629.judge.unbatched")
def skips_a_header_that_is_not_there(patches: Patches) -> None:
    """Of a message that is no batch, too, the octets that its first four number are skipped, where there are so many."""
    take_apart = message_filter_rules._candidates

    def changed(payload: Payload, max_size: int) -> list[Candidate]:
        size = int.from_bytes(payload.body[:4])
        if is_batch(payload.metadata) or len(payload.body) < 4 + size:
            return take_apart(payload, max_size)
        return take_apart(replace(payload, body=payload.body[4 + size :]), max_size)

    patches.replace(message_filter_rules, "_candidates", changed)


@mutant("pr7629.judge.batch-each")
def takes_a_batch_of_one_for_a_message(patches: Patches) -> None:
    """A batch of one is judged with the header that its message has in the batch."""
    take_apart = message_filter_rules._candidates

    def changed(payload: Payload, max_size: int) -> list[Candidate]:
        if payload.metadata.num_messages_in_batch == 1 and payload.metadata.compression == NONE:
            return [Candidate(payload.body, payload.metadata)]
        return take_apart(payload, max_size)

    patches.replace(message_filter_rules, "_candidates", changed)


@mutant("pr7629.judge.all-match")
def names_the_messages_although_all_match(patches: Patches) -> None:
    """A batch of which all messages match is delivered with an ack_set that names all."""
    judge_each = message_filter_rules._judge_each

    def changed(one: MessageFilter, candidates: list[Candidate], open_messages: frozenset[int] | None) -> EntryJudgement:
        judgement = judge_each(one, candidates, open_messages)
        if len(candidates) > 1 and judgement.accepted == len(candidates):
            return replace(judgement, outcome=EntryOutcome.PARTIAL, open_messages=frozenset(range(len(candidates))))
        return judgement

    patches.replace(message_filter_rules, "_judge_each", changed)


@mutant("pr7629.judge.none-matches")
def leaves_a_batch_that_nobody_wants(patches: Patches) -> None:
    """A batch of which no message matches is not delivered and not acknowledged either."""
    judge = SubscriptionFilters.judge

    def changed(filters: SubscriptionFilters, consumer: Consumer, index: int, entry: Entry, cursor: Cursor) -> EntryVerdict:
        return judge(filters, consumer, index, entry, Cursor() if entry.batch and _rejected(consumer, entry) else cursor)

    patches.replace(SubscriptionFilters, "judge", changed)


def _rejected(consumer: Consumer, entry: Entry) -> bool:
    filters = message_filter_of(consumer.subscription.filters)
    requested = filters._filters.get(consumer)
    return requested is not None and message_filter.judge(requested.filter, entry.data).outcome is EntryOutcome.REJECT


@mutant("pr7629.judge.some-match")
def writes_one_word_of_an_ack_set(patches: Patches) -> None:
    """The ack_set of a batch holds its first 64 messages."""
    write = subscription.ack_set
    patches.replace(subscription, "ack_set", lambda open_messages: write(open_messages)[:1])


@mutant("pr7629.judge.acknowledged-not-judged")
def judges_what_is_acknowledged(patches: Patches) -> None:
    """All messages of a batch are judged and counted each time, also those that are acknowledged."""
    judge = SubscriptionMessageFilter.judge
    patches.replace(SubscriptionMessageFilter, "judge", lambda one, consumer, octets, _=None: judge(one, consumer, octets))


@mutant("pr7629.judge.compressed")
def judges_compressed_octets(patches: Patches) -> None:
    """A compressed message that is no batch is judged as it is."""
    take_apart = message_filter_rules._candidates

    def changed(payload: Payload, max_size: int) -> list[Candidate]:
        return take_apart(payload, max_size) if is_batch(payload.metadata) else [Candidate(payload.body, payload.metadata)]

    patches.replace(message_filter_rules, "_candidates", changed)


@mutant("pr7629.judge.encrypted")
def knows_encryption_by_its_algorithm(patches: Patches) -> None:
    """An entry that has keys and names no algorithm counts as not encrypted."""
    unreadable = message_filter_rules._unreadable

    def changed(metadata: MessageMetadata) -> str:
        return unreadable(metadata) if metadata.encryption_algo or not metadata.encryption_keys else ""

    patches.replace(message_filter_rules, "_unreadable", changed)


@mutant("pr7629.judge.chunked")
def judges_chunks(patches: Patches) -> None:
    """A chunk is judged as if it were the whole message."""
    unreadable = message_filter_rules._unreadable
    patches.replace(message_filter_rules, "_unreadable", lambda metadata: unreadable(metadata) if metadata.encryption_keys else "")


@mutant("pr7629.judge.damaged")
def acknowledges_what_is_damaged(patches: Patches) -> None:
    """An entry that can't be taken apart is rejected."""
    judge = message_filter.judge

    def changed(*args: object, **options: int) -> EntryJudgement:
        judgement = judge(*args, **options)  # type: ignore[arg-type]
        damaged = judgement.reason.startswith("the body can't be read")
        return replace(judgement, outcome=EntryOutcome.REJECT) if damaged else judgement

    patches.replace(message_filter, "judge", changed)


@mutant("pr7629.judge.marker")
def judges_markers(patches: Patches) -> None:
    """A marker is judged and counted like a message."""
    judge = message_filter.judge

    def changed(one: MessageFilter, octets: bytes, open_messages: frozenset[int] | None = None, **options: int) -> EntryJudgement:
        payload = parse_payload(octets)
        if not payload.metadata.HasField("marker_type"):
            return judge(one, octets, open_messages, **options)
        return message_filter_rules._judge_each(one, [Candidate(payload.body, payload.metadata)], None)

    patches.replace(message_filter, "judge", changed)
