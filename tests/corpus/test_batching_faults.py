"""Each law of batches breaks when it should: faults of order, content, boundary, count, set and hash, in the reference, the opener and SQL."""

import dataclasses

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

from conformance.corpus.batching.contents import with_contents
from conformance.corpus.batching.entries import compared, digested, entries, planned
from conformance.corpus.batching.laws import OF_ENTRIES, OF_MESSAGES
from conformance.corpus.batching.opened import OPENED, opened_batches
from conformance.corpus.batching.sent import READ, sent_batches
from conformance.corpus.batching.settings import Setting, Want
from conformance.corpus.laws import sums
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.uniform_batches import Batch, Reason
from refimpl.wire.pulsar_api_pb2 import KeyValue, MessageMetadata
from tests.samples.batching import with_all_contents
from tests.samples.faults import alike_if_joined, broken, fault, never_full, planted, with_wrong_fields, wrong_fields

pytestmark = pytest.mark.usefixtures("without_compiling")
SETTING = Setting("faults", {"region": ("eu", "us"), "tag": ("a", "eu", "")}, max_messages=4, max_bytes=900, delay=10, chunk=300)
WANTS = (Want("region", "eu"), Want("region", "us", "reject"))
OF_SINGLES = "conformance.corpus.batching.sent:encode_entry"
OPENER = "conformance.corpus.batching.opened:read_messages"


def changed_batch(change):
    """Encode other messages than those of the batch."""

    def wrong(right):
        return lambda batch, *rest: right(Batch(tuple(change(batch.items)), batch.header, batch.reason), *rest)

    return wrong


def changed_message(**changes):
    def change(items):
        return [
            dataclasses.replace(
                one, message=dataclasses.replace(one.message, **{name: make(one.message) for name, make in changes.items()})
            )
            for one in items
        ]

    return changed_batch(change)


def changed_header(change):
    """Write a header in which something is changed."""

    def wrong(right):
        def encode(metadata, body, **options):
            changed = MessageMetadata()
            changed.CopyFrom(metadata)  # the chunks of a message share theirs
            change(changed)
            return right(changed, body, **options)

        return encode

    return wrong


def of_name(metadata):
    metadata.producer_name = "q"


def of_time(metadata):
    metadata.publish_time += 1


def of_first(metadata):
    metadata.sequence_id += 1


def of_last(metadata):
    if metadata.HasField("highest_sequence_id"):
        metadata.highest_sequence_id += 1


def of_key(metadata):
    if metadata.HasField("partition_key") and metadata.HasField("num_messages_in_batch"):
        metadata.partition_key = metadata.partition_key[::-1]


def of_size(metadata):
    metadata.uncompressed_size += 1


def of_value(metadata):
    for pair in metadata.properties:
        if pair.key == "region" and metadata.HasField("num_messages_in_batch"):
            pair.value = {"eu": "us", "us": "eu"}[pair.value]


def of_uuid(metadata):
    metadata.uuid = "one"


def of_chunks(change):
    """Change the headers of chunks."""

    def changed(metadata):
        if metadata.num_chunks_from_msg > 1:
            change(metadata)

    return changed_header(changed)


def of_first_chunk(change):
    return of_chunks(lambda metadata: change(metadata) if metadata.chunk_id == 0 else None)


def of_ordering_key(metadata):
    metadata.ordering_key = b"o"


def of_total(metadata):
    metadata.total_chunk_msg_size += 1


def of_count(metadata):
    metadata.num_chunks_from_msg += 1


def of_chunk_id(metadata):
    metadata.chunk_id += 1


def of_chunk_ids_turned(metadata):
    metadata.chunk_id = metadata.num_chunks_from_msg - 1 - metadata.chunk_id


def of_own_key(metadata):
    metadata.partition_key = "another"


def in_order_of_message(right):
    return lambda properties, allowed: tuple((name, value) for name, value in dict(properties).items() if value in allowed.get(name, ()))


def upside_down(items):
    return items[::-1]


def in_single(change):
    def wrong(right):
        def single(queued):
            one = right(queued)
            change(one.metadata)
            return one

        return single

    return wrong


def reversed_values(metadata):
    for pair in metadata.properties:
        pair.value = pair.value[::-1]


def one_more_property(metadata):
    metadata.properties.append(KeyValue(key="x", value="y"))


def swapped_properties(metadata):
    pairs = [(pair.key, pair.value) for pair in metadata.properties][::-1]
    del metadata.properties[:]
    metadata.properties.extend(KeyValue(key=key, value=value) for key, value in pairs)


def last_byte(one):
    return one.payload if len(one.payload) < 80 else one.payload[:-1] + bytes([one.payload[-1] ^ 1])


def keys_apart(items):
    """Turn neighbours that have different keys."""
    items = list(items)
    for place in range(len(items) - 1):
        one, other = items[place : place + 2]
        if one.message.key != other.message.key:
            items[place : place + 2] = other, one
            break
    return items


def never_sent(right):
    """Give the last message of all an id that none has."""
    return lambda metadata, body: [(renumbered(own) if own.sequence_id == 119 else own, payload) for own, payload in right(metadata, body)]


def renumbered(own):
    changed = type(own)()
    changed.CopyFrom(own)
    changed.sequence_id = 7_000
    return changed


def with_the_id_before(items):
    return items if len(items) < 2 else (*items[:-1], dataclasses.replace(items[-1], sequence_id=items[-2].sequence_id))


def late_in_values(metadata):
    for pair in metadata.properties:
        pair.value = pair.value[:150] + pair.value[150:].swapcase()


def without_empty(right):
    return lambda properties, allowed: tuple(pair for pair in right(properties, allowed) if pair[1])


def one_too_many(right):
    """Let a message join that is one byte too large."""
    return lambda self, extracted, size, kind: right(self, extracted, size - 1, kind)


def of_a_later_byte(right):
    """Say that bodies begin one byte later."""

    def found(self, entries, metadata, sizes, messages, rows):
        changed = MessageMetadata()
        changed.CopyFrom(metadata)
        changed.uncompressed_size -= 1
        right(self, entries, changed, (sizes[0] + 1, sizes[1] - 1), messages, rows)

    return found


ENCODE = "refimpl.client.entry:encode_payload"
OPENED_BY = "conformance.corpus.batching.opened:_Opener"
SINGLE = "refimpl.client.entry:_single"
CHUNKS = "conformance.corpus.batching.sent:encode_payload"
BATCHER = "refimpl.proposals.uniform_batches.client:UniformBatcher"
FAULTS = (
    fault("nothing is wrong", OF_SINGLES, lambda right: right),
    fault("messages of each batch upside down", OF_SINGLES, changed_batch(upside_down), "order", "formulations"),
    fault("the last message of each batch is lost", OF_SINGLES, changed_batch(lambda items: items[: max(1, len(items) - 1)]), "none-lost"),
    fault("the last message of each batch is there twice", OF_SINGLES, changed_batch(lambda items: (*items, items[-1])), "none-twice"),
    fault("a message has the id of the one before", OF_SINGLES, changed_batch(with_the_id_before), "none-lost", "none-twice"),
    fault("payloads upside down", OF_SINGLES, changed_message(payload=lambda one: one.payload[::-1]), "payload"),
    fault("neighbours with different keys are turned", OF_SINGLES, changed_batch(keys_apart), "order", "formulations"),
    fault("a message has an id that was never sent", OPENER, never_sent, "none-lost", "none-twice"),
    fault("the last byte of longer payloads is another one", OF_SINGLES, changed_message(payload=last_byte), "payload"),
    fault("payloads are cut", OF_SINGLES, changed_message(payload=lambda one: one.payload[:-1]), "payload", "bytes"),
    fault("keys upside down", OF_SINGLES, changed_message(key=lambda one: one.key and one.key[::-1]), "key", "envelope"),
    fault("no keys", OF_SINGLES, changed_message(key=lambda _: None), "key", "envelope", "bytes"),
    fault("empty keys instead of none", OF_SINGLES, changed_message(key=lambda one: one.key or ""), "key", "envelope", "bytes"),
    fault("no event times", OF_SINGLES, changed_message(event_time=lambda _: None), "event-time", "bytes"),
    fault("event times are rounded", OF_SINGLES, changed_message(event_time=lambda one: one.event_time and one.event_time ^ 1), "event-time"),
    fault("values of properties upside down", SINGLE, in_single(reversed_values), "properties"),
    fault("properties in another order", SINGLE, in_single(swapped_properties), "properties"),
    fault("the ends of long values are others", SINGLE, in_single(late_in_values), "properties"),
    fault("a property more", SINGLE, in_single(one_more_property), "properties", "bytes"),
    fault("the checksum is wrong", ENCODE, lambda right: lambda *given: right(*given, checksum="invalid"), "sums", "none-lost"),
    fault("no checksum", ENCODE, lambda right: lambda *given: right(*given, checksum="absent"), "sums", "none-lost"),
    fault("the header says another size", ENCODE, changed_header(of_size), "sums", "none-lost"),
    fault("compressed bodies are cut", "refimpl.client.entry:compress", lambda right: lambda *given: right(*given)[:-1], "sums", "none-lost"),
    fault("chunks are cut", "conformance.corpus.batching.sent:compress", lambda right: lambda *given: right(*given)[:-1], "sums", "none-lost", "payload"),
    fault("headers without properties", "refimpl.client.entry:write_header", lambda right: lambda metadata, batch: right(metadata, dataclasses.replace(batch, header=())), "header", "bytes", "verdicts"),
    fault("headers with another value", ENCODE, changed_header(of_value), "header", "verdicts"),
    fault("another name of the producer", ENCODE, changed_header(of_name), "envelope"),
    fault("another time", ENCODE, changed_header(of_time), "envelope"),
    fault("another last id", ENCODE, changed_header(of_last), "envelope"),
    fault("another key in the header", ENCODE, changed_header(of_key), "envelope"),
    fault("batches are larger than allowed", f"{BATCHER}.add", lambda right: lambda self, *given, **more: right(_wider(self), *given, **more), "formulations"),
    fault("a message that fills a batch just so does not join it", f"{BATCHER}._against", never_full, "formulations"),
    fault("a message that is one byte too large joins a batch", f"{BATCHER}._against", one_too_many, "formulations"),
    fault("sets are compared as one text", f"{BATCHER}._against", alike_if_joined, "formulations", "header"),
    fault("an empty value is none", "refimpl.proposals.uniform_batches.client:extracted_set", without_empty, "formulations", "header"),
    fault("bodies begin a byte later", f"{OPENED_BY}._found", of_a_later_byte, "bytes"),
    fault("the delay is not looked at", f"{BATCHER}.tick", lambda right: lambda self, now: [], "formulations", "reasons"),
    fault("another reason", f"{BATCHER}.flush", lambda right: lambda self, reason=Reason.FLUSH: right(self, Reason.OTHER_KIND), "reasons"),
    fault("sets are not compared", "refimpl.proposals.uniform_batches.client:extracted_set", lambda right: lambda properties, allowed: right([("region", "eu")], allowed), "formulations", "header"),
    fault("sets are in the order of the message", "refimpl.proposals.uniform_batches.client:extracted_set", in_order_of_message, "formulations", "header"),
    fault("values are taken without their case", "refimpl.proposals.uniform_batches.client:extracted_set", lambda right: lambda properties, allowed: right({name: value.lower() for name, value in dict(properties).items()}, allowed), "formulations", "header"),
    fault("only the first name of the setting counts", "refimpl.proposals.uniform_batches.client:extracted_set", lambda right: lambda properties, allowed: right(properties, dict(list(allowed.items())[:1])), "formulations", "header", "bytes"),
    fault("all chunks have one uuid", CHUNKS, changed_header(of_uuid), "sums", "none-lost"),
    fault("messages have an ordering key", SINGLE, in_single(of_ordering_key), "nothing-else", "bytes"),
    fault("headers have an ordering key", ENCODE, changed_header(of_ordering_key), "nothing-else", "bytes"),
    fault("messages say that they are compacted away", SINGLE, in_single(lambda one: setattr(one, "compacted_out", True)), "nothing-else", "bytes"),
    fault("chunks have an ordering key", CHUNKS, of_chunks(of_ordering_key), "nothing-else"),
    fault("chunks have another total size", CHUNKS, of_chunks(of_total), "sums", "none-lost"),
    fault("the first chunk has another total size", CHUNKS, of_first_chunk(of_total), "sums", "none-lost"),
    fault("the first chunk has another number of chunks", CHUNKS, of_first_chunk(of_count), "sums", "none-lost"),
    fault("the first chunk has another key", CHUNKS, of_first_chunk(of_own_key), "sums", "none-lost"),
    fault("chunks are numbered from 1", CHUNKS, of_chunks(of_chunk_id), "sums", "none-lost"),
    fault("chunks are numbered backwards", CHUNKS, of_chunks(of_chunk_ids_turned), "sums", "none-lost"),
    fault("the entry filter rejects all", "conformance.corpus.batching.sent:PropertyEntryFilter.verdict", lambda right: lambda self, metadata: EntryVerdict.REJECT, "verdicts"),
    fault("the entry filter accepts all", "conformance.corpus.batching.sent:PropertyEntryFilter.verdict", lambda right: lambda self, metadata: EntryVerdict.ACCEPT, "verdicts"),
    fault("the opener takes batches upside down", OPENER, lambda right: lambda *given: right(*given)[::-1], "order", "formulations"),
    fault("the opener loses a message", OPENER, lambda right: lambda *given: right(*given)[: max(1, len(right(*given)) - 1)], "none-lost"),
)  # fmt: skip
"""Faults of the reference and of the opener."""


def _wider(batcher):
    batcher._max_messages = 5
    return batcher


PLANS = (
    wrong_fields("windows put all messages one batch later", {"batch": "plan.batch + 1"}, "formulations"),
    wrong_fields("windows put two batches together", {"batch": "plan.batch div 2"}, "formulations", "limits", "decided", "never-lost"),
    wrong_fields(
        "windows deal the messages of a batch out to two",
        {"batch": "2 * plan.batch + plan.position % 2", "position": "plan.position div 2"},
        "formulations",
        "limits",
    ),
    wrong_fields("windows turn places", {"position": "1000 - plan.position"}, "formulations"),
    wrong_fields("windows forget the set", {"set": "xxhash64('')"}, "header"),
    wrong_fields("SQL has another payload", {"content": "plan.content + 1"}, "payload"),
    wrong_fields("SQL has another key", {"key": "coalesce(plan.key, 'x')"}, "key", "envelope", "bytes"),
    wrong_fields("SQL has other properties", {"properties": "plan.properties + 1"}, "properties", "header"),
    wrong_fields("SQL has other event times", {"event_time": "plan.event_time + 1"}, "event-time"),
    wrong_fields("SQL counts a byte more", {"own_bytes": "plan.own_bytes + 1", "properties_bytes": "plan.properties_bytes + 1"}, "bytes"),
    wrong_fields("SQL takes messages for too large", {"size": "plan.size + 1000L"}, "limits", "reasons"),
)
"""Faults of one side only, in `plan`."""


def another(**changes):
    """Let windows have another setting than producers."""
    return lambda right: lambda messages, setting: right(messages, dataclasses.replace(setting, **changes))


def accepting(value):
    return lambda right: lambda *given: right(*given).withField("accepted", sql.lit(value))


def bytes_first(right):
    """Say of a batch that is full in both ways that it has the most bytes."""
    full = ~sql.col("one")["alone"] & (sql.col("size") >= SETTING.max_bytes)
    return lambda setting: sql.when(full, "OCTETS").otherwise(right(setting))


OF_ENTRIES_IN_SQL = "conformance.corpus.batching.entries"
IN_SQL = (
    fault("windows have batches that are larger", f"{OF_ENTRIES_IN_SQL}:with_batches", another(max_messages=5), "formulations", "limits"),
    fault("windows wait longer", f"{OF_ENTRIES_IN_SQL}:with_batches", another(delay=10_000), "formulations", "limits"),
    fault("SQL looks at bytes before it looks at messages", f"{OF_ENTRIES_IN_SQL}:_reason", bytes_first, "reasons"),
    fault("SQL has no reason for batches whose delay is over", f"{OF_ENTRIES_IN_SQL}:_reason", lambda right: lambda setting: sql.nullif(right(setting), sql.lit("DELAY")), "reasons"),
    fault("SQL gives a number six bytes at most", "conformance.corpus.batching.sizes:varint_bytes", lambda right: lambda number: sql.least(sql.lit(6), right(number)), "bytes"),
    fault("SQL rejects all", f"{OF_ENTRIES_IN_SQL}:_consumer", accepting(False), "verdicts", "never-lost", "decided"),
    fault("SQL accepts all", f"{OF_ENTRIES_IN_SQL}:_consumer", accepting(True), "verdicts", "decided"),
)  # fmt: skip
"""Faults of the expressions themselves."""
ALL_FAULTS = (*FAULTS, *PLANS, *IN_SQL)


@pytest.fixture(scope="module")
def plans(spark):
    messages = with_contents(spark.createDataFrame(with_all_contents("t")))
    kept = planned(messages, SETTING, WANTS).localCheckpoint()
    yield kept
    kept.unpersist()


def in_driver(topic):
    """Send and open without Spark, so that what is planted here is in force."""
    pieces = with_all_contents(topic).select(list(READ)).to_batches()
    return pa.Table.from_batches(list(opened_batches(sent_batches(iter(pieces), SETTING, WANTS))), OPENED)


def laws_broken(plans, contents):
    rows = entries(compared(plans, digested(contents)), SETTING, WANTS, sums(OF_MESSAGES))
    totals = [sql.sum(sql.col(f"`{kind} {law.name}`")).alias(f"{kind} {law.name}") for law in OF_MESSAGES for kind in ("checked", "broken")]
    found = {row["topic"]: row.asDict() for row in rows.groupBy("topic").agg(*totals, *sums(OF_ENTRIES)).collect()}
    return {topic: broken(row) for topic, row in found.items()}


def of_topics(plans, topics):
    return plans.drop("topic").crossJoin(plans.sparkSession.createDataFrame([(one,) for one in topics], "topic STRING"))


def test_each_fault_breaks_just_the_laws_that_speak_of_it(spark, plans):
    contents = []
    for one in FAULTS:
        with planted(one):
            contents.append(in_driver(one.name))
    found = laws_broken(of_topics(plans, [one.name for one in FAULTS]), spark.createDataFrame(pa.concat_tables(contents).combine_chunks()))
    assert {one.name: found[one.name] for one in FAULTS if found[one.name] != one.laws} == {}


def test_wrong_plans_break_just_the_laws_that_speak_of_them(spark, plans):
    contents = pa.concat_tables([in_driver(one.name) for one in PLANS]).combine_chunks()
    found = laws_broken(with_wrong_fields(plans, "plan", PLANS), spark.createDataFrame(contents))
    assert found == {one.name: one.laws for one in PLANS}


@pytest.mark.parametrize("one", IN_SQL, ids=lambda one: one.name)
def test_faults_of_sql_break_just_the_laws_that_speak_of_them(spark, one):
    with planted(one):
        plans = planned(with_contents(spark.createDataFrame(with_all_contents("t"))), SETTING, WANTS)
        assert laws_broken(plans, spark.createDataFrame(in_driver("t"))) == {"t": one.laws}
