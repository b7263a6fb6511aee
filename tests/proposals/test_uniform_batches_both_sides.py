"""Both sides of PIP-191 joined by a topic: each message is judged as if it had come alone, whatever batch it was in."""

import heapq
from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from refimpl.proposals.uniform_batches import (
    BUILT_IN,
    PROFILES,
    EntryVerdict,
    SubscriptionEntryFilters,
    UniformBatcher,
    UniformBatchesProfile,
    allowed_values,
    extracted_set,
    filters_of,
)
from refimpl.wire import decode_batch, is_batch, parse_payload
from tests.samples.uniform_batches import asked, encode

NAMES = st.sampled_from(["region", "version", "tag"])
VALUES = st.sampled_from(["1", "2", "5"])
PROPERTIES = st.dictionaries(NAMES, VALUES, max_size=3)
SETTINGS = st.dictionaries(NAMES, st.lists(VALUES, max_size=2), max_size=2)
WANTED = st.dictionaries(NAMES, st.sampled_from(["1", "2", "1,2", "5"]), max_size=2)
READINGS = [*PROFILES.values(), UniformBatchesProfile(batch_of_one="java_single")]


class Moody:
    """A filter that puts off, or fails at, the entries whose first sequence id says so; each of them a few times."""

    def __init__(self, times):
        self.left = {}
        self.times = times

    def judge(self, context):
        metadata = context.metadata
        left = self.left.setdefault(metadata.sequence_id, self.times)
        if metadata.sequence_id % 5 == 3 and left:
            self.left[metadata.sequence_id] -= 1
            return EntryVerdict.RESCHEDULE
        if metadata.sequence_id % 5 == 4:
            raise RuntimeError("moody")
        return None


class Dispatcher:
    """What a broker does with the verdicts, for one consumer."""

    def __init__(self, judge):
        self.judge = judge
        self.entries = []
        self.unread = 0
        self.replay = []
        self.permits = 0
        self.acknowledged = set()
        self.redeliveries = {}
        self.to_consumer = deque()

    def dispatch(self, now):
        while self.permits > 0 and (self.replay or self.unread < len(self.entries)):
            if self.replay:
                index = heapq.heappop(self.replay)
            else:
                index, self.unread = self.unread, self.unread + 1
            data, messages = self.entries[index]
            verdict = asked(self.judge, index, data, messages, now)
            if verdict is EntryVerdict.ACCEPT:
                self.permits -= messages
                self.to_consumer.append((index, data))
            elif verdict is EntryVerdict.REJECT:
                self.acknowledged.add(index)

    def tick(self, now):
        for index in self.judge.due(now):
            self.redeliveries[index] = self.redeliveries.get(index, 0) + 1
            heapq.heappush(self.replay, index)
        self.dispatch(now)


class BothSides(RuleBasedStateMachine):
    """One producer, one topic, one subscription with filters."""

    @initialize(
        setting=SETTINGS,
        wanted=WANTED,
        missing=st.sampled_from([None, "accept", "reject"]),
        moods=st.sampled_from([None, None, 0, 2]),
        reading=st.sampled_from(READINGS),
        most=st.integers(1, 4),
        data=st.integers(2, 12),
    )
    def start(self, setting, wanted, missing, moods, reading, most, data):
        self.now = 0.0
        self.allowed = allowed_values(setting)
        self.batcher = UniformBatcher(self.allowed, max_messages=most, max_bytes=data, delay=0.5, profile=reading)
        self.wanted = wanted
        self.strict = missing == "reject"
        properties = {f"entry-filter.{name}": values for name, values in wanted.items()} | (
            {"entry-filter-missing": missing} if missing else {}
        )
        moody = Moody(moods)
        factories = BUILT_IN if moods is None else {**BUILT_IN, "Moody": lambda properties: moody}
        self.moods = moods
        self.judge = SubscriptionEntryFilters(filters_of(properties, factories))
        self.broker = Dispatcher(self.judge)
        self.sent = []
        self.alone = set()
        self.is_reordered = False
        self.visible = {}
        self.delivered = []

    def take(self, batches):
        for batch in batches:
            for number, _, properties in batch.items:
                self.visible[number] = dict(properties if not batch.is_batch else batch.header or ())
            self.broker.entries.append((encode(batch), len(batch.items)))
        self.broker.dispatch(self.now)

    @rule(properties=PROPERTIES, size=st.integers(1, 6), alone=st.sampled_from([False, False, False, True]))
    def send(self, properties, size, alone):
        number = len(self.sent)
        self.sent.append(properties)
        if alone:
            self.alone.add(number)
        self.take(self.batcher.add((number, f"m{number}", properties), properties, size, self.now, has_delivery_time=alone))

    @rule()
    def flush(self):
        self.take(self.batcher.flush())

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0]))
    def time_passes(self, seconds):
        self.now += seconds
        self.take(self.batcher.tick(self.now))
        self.broker.tick(self.now)

    @rule(permits=st.integers(1, 5))
    def flow(self, permits):
        self.broker.permits += permits
        self.broker.dispatch(self.now)

    @precondition(lambda self: self.broker.to_consumer)
    @rule(again=st.booleans())
    def consume(self, again):
        index, data = self.broker.to_consumer.popleft()
        if again:  # the consumer refuses it, and it is judged once more
            self.is_reordered = True
            heapq.heappush(self.broker.replay, index)
            self.broker.dispatch(self.now)
            return
        self.broker.acknowledged.add(index)
        payload = parse_payload(data)
        header = {one.key: one.value for one in payload.metadata.properties}
        if not is_batch(payload.metadata):
            self.delivered.append((payload.metadata.sequence_id, header))
            return
        for single in decode_batch(payload.body, payload.metadata.num_messages_in_batch):
            properties = {one.key: one.value for one in single.metadata.properties}
            assert header == dict(extracted_set(properties, self.allowed))
            self.delivered.append((single.metadata.sequence_id, properties))

    @invariant()
    def counts_agree(self):
        if hasattr(self, "judge"):
            counts = self.judge.counts
            assert counts.processed == counts.accepted + counts.rejected + counts.rescheduled
            assert counts.failed <= counts.accepted
            assert self.batcher.counts.messages + len(self.batcher) == len(self.sent)
            assert self.batcher.counts.entries == len(self.broker.entries)

    def passes(self, number):
        header = self.visible[number]
        return all(header[name] in values.split(",") if name in header else not self.strict for name, values in self.wanted.items())

    def teardown(self):
        if not hasattr(self, "judge"):
            return
        self.flush()
        self.flow(1000)
        for _ in range(4):
            while self.broker.to_consumer:
                self.consume(again=False)
            self.now += 1.0
            self.broker.tick(self.now)
        assert self.judge.next_deadline() is None
        assert self.broker.acknowledged == set(range(len(self.broker.entries)))
        got = [number for number, _ in self.delivered]
        assert len(got) == len(set(got))
        assert all(self.sent[number] == properties for number, properties in self.delivered)
        assert set(got) == {number for number in range(len(self.sent)) if self.passes(number)}
        for number in range(len(self.sent)):
            if number in self.alone or not self.allowed:
                continue
            if self.visible[number] != self.sent[number]:
                assert self.visible[number] == dict(extracted_set(self.sent[number], self.allowed))
        if not self.is_reordered and not self.broker.redeliveries:
            assert got == sorted(got)
        assert all(count <= (self.moods or 0) for count in self.broker.redeliveries.values())


BothSides.TestCase.settings = settings(max_examples=120, stateful_step_count=40)
TestBothSides = BothSides.TestCase
