"""The corpora that jobs draw by default have what shows rare faults, also if they are small: entries of the reference, and their verdicts."""

import dataclasses
import inspect
import io
import zlib
from collections import Counter
from itertools import cycle
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from conformance.corpus.batching.contents import with_contents
from conformance.corpus.batching.opened import opened_batches
from conformance.corpus.batching.sent import READ, SENT, sent_batches
from conformance.corpus.batching.settings import Setting, awkward_values, frequent_values, sweep, wanted_values, wants
from conformance.corpus.delivering.reference import judged_batches
from conformance.corpus.delivering.stored import STORED, stored_batches, with_records
from conformance.corpus.delivering.subscriptions import subscriptions
from conformance.corpus.filtering import reference
from conformance.corpus.filtering.drawing import drawn_patterns, with_twins
from conformance.corpus.filtering.patterns import pattern_set
from conformance.corpus.filtering.rules import Matching
from conformance.corpus.jobs.filtering_agrees import BATCHES_OF_ONE, MANY
from conformance.corpus.replay import scalable
from conformance.corpus.replay.changes import FLICKERS, LogOptions, scalable_log, watcher
from conformance.corpus.sources.synthetic_messages import SyntheticMessages
from refimpl.indexes import topic_patterns
from refimpl.names import is_system_topic
from refimpl.wire import WireError, compress, parse_payload
from refimpl.wire.compression import MAX_UNCOMPRESSED_SIZE
from refimpl.wire.pulsar_api_pb2 import ZLIB, MessageMetadata
from tests.samples.corpus import synthetic
from tests.samples.faults import alike_if_joined, came_and_gone, never_full, planted

pytestmark = pytest.mark.usefixtures("without_compiling")
ROWS = 4000
SENDER, ENTRY = "conformance.corpus.batching.sent", "refimpl.client.entry"
KINDS = "refimpl.proposals.message_filter.kinds"


@dataclasses.dataclass(frozen=True)
class Shown:
    """A fault, and the setting that shows it.

    Attributes:
        name: What is wrong.
        place: As of `Fault`.
        wrong: As of `Fault`.
        setting: Name of the setting of producers.
    """

    name: str
    place: str
    wrong: object
    setting: str


def any_name(right):
    """Extract a value that is allowed for some property, whatever its own name."""
    return lambda properties, allowed: right(properties, dict.fromkeys(allowed, frozenset().union(*allowed.values())))


def without_order(right):
    def found(properties, allowed):
        extracted = right(properties, allowed)
        order = list(dict(properties))
        return tuple(sorted(extracted, key=lambda pair: order.index(pair[0])))

    return found


def back(right):
    """Let the clock go back to the time of each message."""

    def add(self, topic, name, number, publish_time, *rest):
        self.clock = publish_time
        right(self, topic, name, number, publish_time, *rest)

    return add


def in_utf8(right):
    def size(self):
        texts = [one for pair in self.message.properties.items() for one in pair]
        return right.fget(self) + sum(len(text.encode()) - len(text) for text in texts)

    return property(size)


def no_key_is_empty(right):
    def by_key(batch):
        found = {}
        for item in batch.items:
            found.setdefault(item.queued.message.key or "", []).append(item)
        return [dataclasses.replace(batch, items=tuple(items)) for items in found.values()]

    return by_key


def counted(right):
    def encode(metadata, *given, **more):
        if metadata.HasField("highest_sequence_id"):
            metadata.highest_sequence_id = metadata.sequence_id + metadata.num_messages_in_batch - 1
        return right(metadata, *given, **more)

    return encode


def of_the_past(right):
    def encode(metadata, *given, **more):
        if metadata.HasField("event_time"):
            metadata.event_time = min(metadata.event_time, metadata.publish_time)
        return right(metadata, *given, **more)

    return encode


def by_name(right):
    """Sort the properties of chunks."""

    def encode(metadata, *given, **more):
        changed = MessageMetadata()
        changed.CopyFrom(metadata)
        del changed.properties[:]
        changed.properties.extend(sorted(metadata.properties, key=lambda pair: pair.key))
        return right(changed, *given, **more)

    return encode


def without_the_time_0(right):
    def encode(metadata, *given, **more):
        if metadata.HasField("event_time") and not metadata.event_time:
            metadata.ClearField("event_time")
        return right(metadata, *given, **more)

    return encode


def with_names(right):
    return lambda message: [pair for pair in right(message) if pair.key]


def json_without_case(right):
    return lambda self, payload: {name.lower(): value for name, value in right(self, payload).items()}


def first_counts(right):
    return SimpleNamespace(loads=lambda text, **more: right.loads(text, object_pairs_hook=lambda pairs: dict(pairs[::-1]), **more))


def without_ends(right):
    return lambda properties: right({key: value.strip() for key, value in properties.items()})


def one_chunk_more(right):
    """Give a body of just several chunks another one, which is empty."""

    def chunks(queued, name, time, compression, size):
        found = right(queued, name, time, compression, size)
        return [*found, found[-1]] if len(found) > 1 and len(compress(queued.message.payload, compression)) % size == 0 else found

    return chunks


BATCHES = (
    Shown("a body of just several chunks has one more", f"{SENDER}:_chunks", one_chunk_more, "without the proposal"),
    Shown("a message that fills a batch just so does not join it", "refimpl.proposals.uniform_batches.client:UniformBatcher._against", never_full, "32 messages or 4 KiB, 100 ms"),
    Shown("sets are compared as one text", "refimpl.proposals.uniform_batches.client:UniformBatcher._against", alike_if_joined, "region and version"),
    Shown("sets are in the order of the message", "refimpl.proposals.uniform_batches.client:extracted_set", without_order, "region and version"),
    Shown("values count for any property", "refimpl.proposals.uniform_batches.client:extracted_set", any_name, "region and version"),
    Shown("the clock goes back", f"{SENDER}:_Producer.add", back, "delay 10 ms"),
    Shown("sizes are those of UTF-8", f"{ENTRY}:Queued.size", in_utf8, "32 messages or 4 KiB, 100 ms"),
    Shown("no key is an empty one", f"{SENDER}:_by_key", no_key_is_empty, "batches by key, 100 ms"),
    Shown("the last number is counted", f"{ENTRY}:encode_payload", counted, "batches by key, 100 ms"),
    Shown("nothing is compressed to nothing", f"{ENTRY}:compress", lambda right: lambda body, number: right(body, number) if body else body, "no batches"),
    Shown("events are of the past", f"{ENTRY}:encode_payload", of_the_past, "no batches"),
    Shown("an event at 0 has no time", f"{ENTRY}:encode_payload", without_the_time_0, "no batches"),
    Shown("properties without a name are left out", f"{ENTRY}:_properties", with_names, "no batches"),
    Shown("properties of chunks are sorted", f"{SENDER}:encode_payload", by_name, "without the proposal"),
    Shown("wanted values have no spaces at their ends", f"{SENDER}:PropertyEntryFilter.of", without_ends, "region: 5 values"),
)  # fmt: skip
"""Faults of what producers of the reference send; the other formulation has none of them."""


@pytest.fixture(scope="module")
def messages():
    return pa.Table.from_batches([SyntheticMessages({"rows": str(ROWS)}).block(0, ROWS)])


@pytest.fixture(scope="module")
def settings(messages, spark):
    frequent = frequent_values(spark.createDataFrame(messages), ["region", "version"], 5)
    return {one.name: one for one in sweep(frequent)}, wants(frequent)


def entries_of(messages, setting, consumers=()):
    """Send the messages of each producer, and open the entries."""
    for name in sorted(set(messages["producer_name"].to_pylist())):
        own = messages.filter(pc.equal(messages["producer_name"], name)).select(list(READ)).to_batches()
        yield from opened_batches(sent_batches(iter(own), setting, consumers), by_key=setting.by_key)


@pytest.mark.parametrize("one", BATCHES, ids=lambda one: one.name)
def test_a_fault_of_producers_changes_what_they_send(messages, settings, one):
    setting, consumers = settings[0][one.setting], settings[1]
    right = [batch.to_pylist() for batch in entries_of(messages, setting, consumers)]
    with planted(one):
        assert [batch.to_pylist() for batch in entries_of(messages, setting, consumers)] != right


def test_empty_payloads_occur_with_each_compression(messages, settings):
    rows = [row for batch in entries_of(messages, settings[0]["no batches"]) for row in batch.to_pylist()]
    assert {row["compression"] for row in rows if row["messages"][0]["payload"] == b""} == set(range(5))


def told_as_text(right):
    """Take numbers, true and false for the texts that they are written as."""
    return lambda text: text


def replaced(right):
    return lambda self, message: right(self, dataclasses.replace(message, payload=message.payload.decode(errors="replace").encode()))


def left_out(right):
    return lambda self, message: right(self, dataclasses.replace(message, payload=message.payload.decode(errors="ignore").encode()))


def shorter_than_all(right):
    return lambda self, message: message.payload != self.prefix and right(self, message)


def of_32_bits(right):
    return lambda opened: right([index for index in opened if index < 32])


def of_64_bits(right):
    return lambda opened: right([index for index in opened if index < 64])


def of_all(right):
    """Count what was acknowledged, too, where nothing can be judged."""

    def judge(message_filter, data, opened=None, **more):
        found = right(message_filter, data, opened, **more)
        return dataclasses.replace(found, undecidable=right(message_filter, data, None).undecidable) if found.undecidable else found

    return judge


def nested_too(right):
    def fields(self, payload):
        found = right(self, payload)
        return {name: text for one in found.values() if isinstance(one, dict) for name, text in one.items()} | found

    return fields


def smaller_than_allowed(right):
    """Decompress nothing that is as large as allowed."""

    def decompress(body, number, size, **more):
        if size >= MAX_UNCOMPRESSED_SIZE:
            raise WireError(0, "it is too large")
        return right(body, number, size, **more)

    return decompress


ENTRIES = (
    Shown("fields of objects in JSON count, too", "refimpl.proposals.message_filter.avro:_JsonReader.fields", nested_too, ""),
    Shown("fields of records that nobody asks for may be cut", "refimpl.proposals.message_filter.avro:_WholeReads", lambda right: io.BytesIO, ""),
    Shown("bodies that are as large as allowed are too large", "refimpl.proposals.message_filter.rules:decompress", smaller_than_allowed, ""),
    Shown("what is no UTF-8 is replaced", f"{KINDS}:RegexFilter.matches", replaced, ""),
    Shown("what is no UTF-8 is left out", f"{KINDS}:RegexFilter.matches", left_out, ""),
    Shown("a payload that is the prefix does not begin with it", f"{KINDS}:BytesPrefixFilter.matches", shorter_than_all, ""),
    Shown("numbers in JSON are texts", "refimpl.proposals.message_filter.avro:_no_text", told_as_text, ""),
    Shown("names in JSON have no case", "refimpl.proposals.message_filter.avro:_JsonReader.fields", json_without_case, ""),
    Shown("of a repeated name in JSON the first value counts", "refimpl.proposals.message_filter.avro:json", first_counts, ""),
    Shown("ack_set has 32 bits", "refimpl.broker.consumer:ack_set", of_32_bits, ""),
    Shown("ack_set has one word", "refimpl.broker.consumer:ack_set", of_64_bits, ""),
    Shown("what was acknowledged can't be judged, either", "refimpl.proposals.message_filter.broker:judge", of_all, ""),
    Shown("wanted values have no spaces at their ends", "conformance.corpus.delivering.reference:filters_of", without_ends, ""),
)  # fmt: skip
"""Faults of verdicts on entries."""


@pytest.fixture(scope="module")
def entries(spark, messages):
    """Entries as the job makes them, and who asks for them."""
    frame = with_contents(spark.createDataFrame(messages))
    values = wanted_values(frequent_values(frame, ["region"], 5)["region"])
    records = with_records(frame).toArrow().sort_by([("producer_name", "ascending"), ("sequence_id", "ascending")])
    made = []
    for name, form in zip(sorted(set(records["producer_name"].to_pylist())), cycle(BATCHES_OF_ONE), strict=False):
        setting = Setting("entries", {"region": tuple(values)}, delay=100, batch_of_one=form)
        own = records.filter(pc.equal(records["producer_name"], name)).select(list(READ)).to_batches()
        made += sent_batches(iter(own), setting)
    stored = pa.Table.from_batches(stored_batches(pa.Table.from_batches(made, SENT).to_batches()), STORED)
    return stored, subscriptions(values[0], values[-1], awkward=awkward_values(values)[0])


def verdicts(entries):
    return [row for batch in judged_batches(entries[0].to_batches(), entries[1]) for row in batch["reference"].to_pylist()]


@pytest.fixture(scope="module")
def right(entries):
    return verdicts(entries)


@pytest.mark.parametrize("one", ENTRIES, ids=lambda one: one.name)
def test_a_fault_of_verdicts_changes_what_goes_out(entries, right, one):
    with planted(one):
        assert verdicts(entries) != right


def test_an_entry_with_zlib_is_cut_in_its_checksum(entries):
    cut = 0
    for row in entries[0].to_pylist():
        if row["kind"] == "cut":
            payload = parse_payload(row["data"])
            if payload.metadata.compression == ZLIB:
                cut += len(zlib.decompressobj().decompress(payload.body)) == payload.metadata.uncompressed_size
    assert cut


def test_many_patterns_have_equals_and_some_of_any_namespace():
    names = [name.partition("://")[2] for name in synthetic(ROWS)["topic"].to_pylist() if name.isprintable()]
    patterns = pattern_set(with_twins(drawn_patterns(names, MANY, 2)))
    assert len(patterns) > 200
    assert max(Counter(one.text for one in patterns.patterns if one.shape == "name").values()) > 1
    assert max(Counter(one.text for one in patterns.patterns if one.shape == "beginning").values()) > 1
    domains = Counter(one.given.partition("://")[0] for one in patterns.patterns)
    assert min(domains["persistent"], domains["non-persistent"]) > 1
    assert {one.namespace is None for one in patterns.patterns} == {True, False}


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("run = run[:-1]", "pass"),
        ('(token.lastgroup == "or" and not depth)', "False"),
    ],
)
def test_patterns_are_looked_up_by_what_they_do_not_need(monkeypatch, place, wrong):
    """A letter that may lack, and one of two alternatives, must not be required of a name."""
    names = synthetic(ROWS)["topic"].to_pylist()
    plain = [name.partition("://")[2] for name in names if name.isprintable()]
    rule = Matching(pattern_set(drawn_patterns(plain, 100, 1)))
    right = reference.evaluator(rule)
    found = [right(name) for name in names]
    source = inspect.getsource(topic_patterns._required)
    assert place in source
    space = {}
    exec(source.replace(place, wrong), vars(topic_patterns), space)
    monkeypatch.setattr(topic_patterns, "_required", space["_required"])
    other = reference.evaluator(rule)
    assert [other(name) for name in names] != found


def test_names_of_topics_are_awkward():
    names = synthetic(16_384)["topic"].to_pylist()
    assert max(map(len, names)) > 255
    assert any("TENANT-0/NS-0/" in name for name in names)
    assert any(name.startswith("non-persistent://") and is_system_topic(name) for name in names)


def test_topics_change_three_times_in_a_window():
    options = LogOptions()
    for namespace in range(options.namespaces):
        log = scalable_log(options, namespace)
        changes = {}
        for one in log.changes:
            changes.setdefault(one.topic, []).append(one)
        own = [some for topic, some in changes.items() if "flickering" in topic]
        assert len(own) == 3 * len(FLICKERS)
        assert all(len(some) == 3 and some[-1].at - some[0].at < scalable.REFERENCE_WINDOW for some in own)


def test_a_removal_that_is_forgotten_changes_what_is_told():
    options, fault = LogOptions(), Shown("", "refimpl.proposals.scalable_topics.rules:FoldedChanges.remove", came_and_gone, "")
    differ = 0
    for number in range(0, 100, 10):  # those that the job compares
        who = watcher(options, number)
        log = scalable_log(options, who.namespace)
        right = scalable.reference_frames(log, who, "last_wins")
        with planted(fault):
            differ += scalable.reference_frames(log, who, "last_wins") != right
    assert differ > 1
