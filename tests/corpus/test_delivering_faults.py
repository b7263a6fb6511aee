"""Each law of filters over entries breaks when it should: faults in the reference's rule, and in the columns."""

import dataclasses
import json
from functools import reduce
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from conformance.corpus.batching.contents import with_contents
from conformance.corpus.batching.sent import SENT, sent_batches
from conformance.corpus.batching.settings import Setting
from conformance.corpus.delivering.columns import with_columns
from conformance.corpus.delivering.dialect import may_be_json
from conformance.corpus.delivering.laws import LAWS, judge, with_numbers
from conformance.corpus.delivering.reference import RESULT, judged_batches
from conformance.corpus.delivering.stored import EVERY, KINDS, STORED, stored_batches, with_records
from conformance.corpus.delivering.subscriptions import subscriptions
from conformance.corpus.laws import sums
from refimpl.proposals.extension import EntryVerdict
from refimpl.proposals.message_filter.rules import EntryJudgement, EntryOutcome
from refimpl.wire.pulsar_api_pb2 import MessageMetadata
from tests.samples.batching import with_all_contents
from tests.samples.faults import broken, fault, planted, with_wrong_fields, wrong_fields

pytestmark = pytest.mark.usefixtures("without_compiling")
SETTING = Setting("entries", {"region": ("eu", "us")}, max_messages=70, delay=40, chunk=500)
ASKED = subscriptions("eu", "us")
RULES = "refimpl.proposals.message_filter.rules"
AVRO = "refimpl.proposals.message_filter.avro"
CONSUMER = "refimpl.broker.consumer"


def judgement(change):
    """Judge the messages of an entry in another way."""

    def wrong(right):
        return lambda message_filter, candidates, opened: change(right(message_filter, candidates, opened))

    return wrong


def as_a_whole(one):
    return dataclasses.replace(one, outcome=EntryOutcome.ACCEPT, open_messages=None) if one.outcome is EntryOutcome.PARTIAL else one


def nothing_fits(one):
    return EntryJudgement(EntryOutcome.REJECT, frozenset(), 0, one.accepted + one.rejected)


def acknowledged_too(right):
    return lambda message_filter, candidates, opened: right(message_filter, candidates, None)


def one_less(one):
    left = one.open_messages
    return dataclasses.replace(one, open_messages=frozenset(sorted(left)[1:])) if left and len(left) > 1 else one


def rejected_if_undecidable(right):
    return lambda count, opened, reason: dataclasses.replace(right(count, opened, reason), outcome=EntryOutcome.REJECT)


def without_case(right):
    return lambda self, payload: {name.lower(): value for name, value in right(self, payload).items()}


def first_counts(right):
    return SimpleNamespace(loads=lambda text, **more: right.loads(text, object_pairs_hook=lambda pairs: dict(pairs[::-1]), **more))


def counted_as_rejected(right):
    return lambda count, opened, reason: dataclasses.replace(right(count, opened, reason), undecidable=0, rejected=count)


def payload(change, *, also=False):
    """Match another payload than that of the message, or this one, too."""

    def wrong(right):
        def matches(self, message):
            return (also and right(self, message)) or right(self, dataclasses.replace(message, payload=change(message.payload)))

        return matches

    return wrong


def encrypted_too(right):
    return lambda metadata: "" if metadata.encryption_keys else right(metadata)


def upside_down(right):
    def verdict(self, metadata):
        changed = MessageMetadata(properties=list(metadata.properties)[::-1])
        return right(self, changed)

    return verdict


def one_permit(right):
    def send(self, index, entry, redeliveries, opened):
        right(self, index, entry, redeliveries, opened)
        self.permits = -1

    return send


def first_of_several(right):
    return lambda self, wanted, *more: right(self, {name: frozenset(sorted(values)[:1]) for name, values in wanted.items()}, *more)


def any_of_several(right):
    def verdict(self, metadata):
        of_each = [right(type(self)({name: values}, self._missing), metadata) for name, values in self._wanted.items()]
        return EntryVerdict.ACCEPT if EntryVerdict.ACCEPT in of_each else EntryVerdict.REJECT

    return verdict


def strict_with_batches_only(right):
    def verdict(self, metadata):
        return right(self if metadata.HasField("num_messages_in_batch") else type(self)(self._wanted), metadata)

    return verdict


def as_text(right):
    return lambda self, message: message.payload.decode(errors="replace").startswith(self.prefix.decode(errors="replace"))


class _InAnyEncoding(bytes):
    """A payload that is given to the parser as it is."""

    def decode(self, *_):
        return bytes(self)


def in_any_encoding(right):
    return lambda self, payload: right(self, _InAnyEncoding(payload))


def whatever_follows(right):
    return SimpleNamespace(loads=lambda text, **more: json.JSONDecoder(**more).raw_decode(text.lstrip())[0])


FAULTS = (
    fault("nothing is wrong", f"{RULES}:judge", lambda right: right),
    fault("the rule rejects everything", f"{RULES}:_judge_each", judgement(nothing_fits), "goes-out", "permits", "counts", "complete"),
    fault("regular expressions fit nothing", f"{RULES}:RegexFilter.matches", lambda right: lambda self, message: False, "goes-out", "permits", "counts", "complete"),
    fault("regular expressions search", f"{RULES}:RegexFilter.matches", payload(lambda text: text[1:], also=True), "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("texts are ISO 8859-1", f"{RULES}:RegexFilter.matches", payload(lambda text: text.decode("latin-1").encode()), "goes-out", "permits", "counts", "ack-set", "complete"),
    fault("what is no UTF-8 is left out", f"{RULES}:RegexFilter.matches", payload(lambda text: text.decode(errors="ignore").encode()), "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("texts are in small letters", f"{RULES}:RegexFilter.matches", payload(bytes.lower), "goes-out", "permits", "counts", "ack-set", "complete"),
    fault("texts have no ends of spaces", f"{RULES}:RegexFilter.matches", payload(bytes.strip), "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("texts are cut", f"{RULES}:RegexFilter.matches", payload(lambda text: text[:32]), "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("prefixes stand on any line", f"{RULES}:BytesPrefixFilter.matches", payload(lambda text: text.partition(b"\n")[2], also=True), "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("prefixes fit everything", f"{RULES}:BytesPrefixFilter.matches", lambda right: lambda self, message: True, "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("records fit everything", f"{RULES}:BasicAvroFilter.matches", lambda right: lambda self, message: True, "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("an entry that fits in part goes out as a whole", f"{RULES}:_judge_each", judgement(as_a_whole), "ack-set", "permits", "exact"),
    fault("the first message that fits is left out", f"{RULES}:_judge_each", judgement(one_less), "ack-set", "permits", "complete"),
    fault("what is acknowledged is judged again", f"{RULES}:_judge_each", acknowledged_too, "goes-out", "permits", "counts", "exact"),
    fault("what can't be decided is rejected", f"{RULES}:_undecidable", rejected_if_undecidable, "goes-out", "permits", "undecidable"),
    fault("what can't be decided counts as rejected", f"{RULES}:_undecidable", counted_as_rejected, "counts", "undecidable"),
    fault("numbers in JSON are texts", f"{AVRO}:_no_text", lambda right: lambda text: text, "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("names in JSON have no case", f"{AVRO}:_JsonReader.fields", without_case, "goes-out", "permits", "counts", "ack-set", "complete", "exact"),
    fault("of a repeated name in JSON the first value counts", f"{AVRO}:json", first_counts, "goes-out", "permits", "counts", "ack-set", "complete"),
    fault("JSON is read in any encoding", f"{AVRO}:_JsonReader.fields", in_any_encoding, "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("what follows JSON is not looked at", f"{AVRO}:json", whatever_follows, "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("NaN is JSON", f"{AVRO}:_no_json", lambda right: lambda text: None, "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("prefixes are compared as texts", f"{RULES}:BytesPrefixFilter.matches", as_text, "goes-out", "permits", "counts", "ack-set", "exact"),
    fault("nothing is compressed", f"{RULES}:decompress", lambda right: lambda body, *_, **__: body, "counts", "goes-out", "permits", "ack-set", "exact", "complete", "undecidable"),
    fault("what is encrypted is judged", f"{RULES}:_unreadable", encrypted_too, "goes-out", "permits", "counts", "ack-set", "undecidable"),
    fault("only the first word of ack_set is written", f"{CONSUMER}:ack_set", lambda right: lambda opened: right(opened)[:1], "ack-set", "complete"),
    fault("the last bit of a word is lost", f"{CONSUMER}:ack_set", lambda right: lambda opened: right([index for index in opened if index % 64 != 63]), "ack-set", "complete"),
    fault("an entry uses one permit", f"{CONSUMER}:Consumer.send", one_permit, "permits"),
    fault("words of ack_set are shifted", f"{CONSUMER}:ack_set", lambda right: lambda opened: right([index + 1 for index in opened]), "ack-set", "complete", "exact", "undecidable"),
    fault("rejected messages are not counted", f"{RULES}:FilterCounters.add", lambda right: lambda self, one: right(self, dataclasses.replace(one, rejected=0)), "counts"),
    fault("of a repeated name the first value counts", "refimpl.proposals.uniform_batches.broker:PropertyEntryFilter.verdict", upside_down, "goes-out", "permits", "counts", "complete"),
    fault("of several wanted values the first counts", "refimpl.proposals.uniform_batches.broker:PropertyEntryFilter.__init__", first_of_several, "goes-out", "permits", "counts", "complete"),
    fault("one of several properties is enough", "refimpl.proposals.uniform_batches.broker:PropertyEntryFilter.verdict", any_of_several, "goes-out", "permits", "counts"),
    fault("what a single message lacks is accepted", "refimpl.proposals.uniform_batches.broker:PropertyEntryFilter.verdict", strict_with_batches_only, "goes-out", "permits", "counts"),
    fault("the entry filter rejects everything", "refimpl.proposals.uniform_batches.broker:PropertyEntryFilter.verdict", lambda right: lambda *_: EntryVerdict.REJECT, "goes-out", "permits", "counts", "complete"),
    fault("the entry filter accepts everything", "refimpl.proposals.uniform_batches.broker:PropertyEntryFilter.verdict", lambda right: lambda *_: EntryVerdict.ACCEPT, "goes-out", "permits", "counts"),
)  # fmt: skip
"""Faults of the reference."""

COLUMNS = (
    wrong_fields("columns send everything", {"goes_out": "true"}, "goes-out"),
    wrong_fields("columns do not know what is acknowledged", {"goes_out": "nullif(columns.goes_out, false)"}, "goes-out"),
    wrong_fields("columns do not know that there are no permits", {"permits": "nullif(columns.permits, 0)"}, "permits"),
    wrong_fields("columns have another first word", {"ack_set": "transform(columns.ack_set, word -> word ^ 1)"}, "ack-set"),
    wrong_fields("columns count entries", {"permits": "IF(columns.goes_out, 1, 0)"}, "permits"),
    wrong_fields(
        "columns count what is rejected as accepted", {"accepted": "columns.accepted + columns.rejected", "rejected": "0"}, "counts"
    ),
    wrong_fields("columns know no undecidable messages", {"undecidable": "0"}, "counts"),
)
"""Faults of one side only, in `columns`."""


def all_fit(value):
    return lambda right: lambda *_: sql.transform("payloads", lambda _: sql.lit(value))


def unread(right):
    """Read no payloads; this goes to the workers of Spark with what refers to it."""

    def read(*given):
        for batch in right(*given):
            place = batch.schema.get_field_index("payloads")
            kind = batch.schema.field(place)
            yield batch.set_column(place, kind, pa.nulls(len(batch), kind.type))

    return read


def of_two_bytes(right):
    """Take numbers of more than two bytes for too long; this goes to the workers, too."""

    def read(*given):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("conformance.corpus.delivering.avro._LONGEST", 2)
            yield from right(*given)

    return read


OF_COLUMNS = "conformance.corpus.delivering.columns"
IN_COLUMNS = (
    fault("nothing fits in columns", f"{OF_COLUMNS}:_fits", all_fit(False), "goes-out", "permits", "counts", "exact"),
    fault("all fits in columns", f"{OF_COLUMNS}:_fits", all_fit(True), "goes-out", "permits", "counts", "ack-set", "complete"),
    fault("columns let all headers pass", f"{OF_COLUMNS}:_by_header", lambda right: lambda *_: sql.lit(True), "goes-out", "permits", "counts", "complete"),
    fault("columns take numbers of three bytes for too long", f"{OF_COLUMNS}:read_batches", of_two_bytes, "outside"),
    fault("columns take all JSON for something that readers read differently", f"{OF_COLUMNS}:json_outside", lambda _: may_be_json, "outside"),
    fault("columns can read nothing", f"{OF_COLUMNS}:read_batches", unread, "goes-out", "permits", "counts", "ack-set"),
)  # fmt: skip
"""Faults of the columns themselves."""
ALL_FAULTS = (*FAULTS, *COLUMNS, *IN_COLUMNS)


@pytest.fixture(scope="module")
def entries(spark):
    """Entries of all kinds, several of each."""
    messages = with_records(with_contents(spark.createDataFrame(with_all_contents("t", 400)))).toArrow()
    several = []
    for number, (most, delay) in enumerate([(200, 10_000), (5, 40), (3, 40), (1, 40)]):
        form = "java_single" if most == 1 else "batch"
        shorter = dataclasses.replace(SETTING, max_messages=most, delay=delay, batch_of_one=form)
        one = pa.Table.from_batches(sent_batches(iter(messages.to_batches()), shorter), SENT)
        several.append(one.set_column(1, "producer_name", pa.array([f"{number}p"] * len(one))))
    return pa.Table.from_batches(stored_batches(pa.concat_tables(several).to_batches()), STORED)


def in_driver(entries, topic):
    """Judge without Spark, so that what is planted here is in force."""
    judged = pa.Table.from_batches(judged_batches(entries.to_batches(), ASKED))
    return judged.set_column(0, "topic", pa.array([topic] * len(judged)))


def laws_broken(rows):
    return {row["topic"]: broken(row.asDict()) for row in with_numbers(rows).groupBy("topic").agg(*sums(LAWS)).collect()}


def test_each_fault_breaks_just_the_laws_that_speak_of_it(spark, entries):
    judged = []
    for one in FAULTS:
        with planted(one):
            judged.append(in_driver(entries, one.name))
    found = laws_broken(with_columns(spark.createDataFrame(pa.concat_tables(judged).combine_chunks()), ASKED))
    assert {one.name: found[one.name] for one in FAULTS if found[one.name] != one.laws} == {}


def test_wrong_columns_break_just_the_laws_that_speak_of_them(spark, entries):
    right = with_columns(spark.createDataFrame(in_driver(entries, "t").combine_chunks()), ASKED).localCheckpoint()
    assert laws_broken(with_wrong_fields(right, "columns", COLUMNS)) == {one.name: one.laws for one in COLUMNS}


def test_faults_of_columns_break_just_the_laws_that_speak_of_them(spark, entries):
    judged, every = spark.createDataFrame(in_driver(entries, "t").combine_chunks()).localCheckpoint(), []
    for one in IN_COLUMNS:
        with planted(one):
            every.append(with_columns(judged, ASKED).withColumn("topic", sql.lit(one.name)))
    assert laws_broken(reduce(DataFrame.unionByName, every)) == {one.name: one.laws for one in IN_COLUMNS}


def test_slices_tell_together_what_all_entries_tell(spark, entries):
    rows = spark.createDataFrame(entries.combine_chunks()).localCheckpoint()
    first, others = (rows.where(sql.expr(condition)) for condition in ("producer_name = '0p'", "producer_name != '0p'"))
    asked = ASKED[:2]
    assert judge(first, asked) + judge(others, asked) == judge(rows, asked)


def test_entries_of_all_kinds_occur(entries):
    assert set(entries["kind"].to_pylist()) == {"plain", "chunk", *KINDS}
    assert len(KINDS) < EVERY
    assert any(opened for opened in entries["open"].to_pylist())
    assert RESULT.field("ack_set").type == pa.list_(pa.int64())
