"""Both sides of PR 25648 joined by two queues: whatever happens, the client's set ends up as the broker's."""

from collections import deque
from itertools import count
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from refimpl.proposals.scalable_topics import PROFILES, ScalableTopicsState, ScalableTopicsWatch, topics_hash
from refimpl.wire import wrap
from refimpl.wire.pulsar_api_pb2 import CommandWatchScalableTopics, CommandWatchScalableTopicsUpdate, FeatureFlags, ServiceNotReady
from tests.samples.scalable_topics import NS, Store, full

NAMES = st.sampled_from(["t-1", "t-2", "t-3", "t-\uff5e", "t-\U00010000"])
OWNERS = st.sampled_from(["alice", "alice", "bob"])


class BothSides(RuleBasedStateMachine):
    """One client, one broker, connections that come and go, and time that passes."""

    @initialize(
        profiles=st.tuples(st.sampled_from(sorted(PROFILES)), st.sampled_from(sorted(PROFILES))),
        filters=st.sampled_from([{}, {"owner": "alice"}]),
        first=st.dictionaries(NAMES, OWNERS),
        seed=st.integers(0, 2**32),
    )
    def start(self, profiles, filters, first, seed):
        broker, client = (PROFILES[name] for name in profiles)
        self.store = Store(profile=broker)
        for name, owner in first.items():
            self.store.create(name, owner=owner)
        self.new_watch = lambda: ScalableTopicsWatch(NS, 7, Random(seed), property_filters=filters, profile=client, operation_timeout=5.0)
        self.filters = filters
        self.connections = count()
        self.connection = None
        self.to_broker, self.to_client = deque(), deque()
        self.begin()

    def begin(self):
        self.watch = self.new_watch()
        self.watch.start()
        self.seen = None

    @property
    def now(self):
        return self.store.now

    @rule(name=NAMES, owner=OWNERS)
    def create_or_change(self, name, owner):
        self.store.modify(name, owner=owner)

    @rule(name=NAMES)
    def delete(self, name):
        if full(name)[0] in self.store.topics:
            self.store.delete(name)

    @precondition(lambda self: self.watch.state is ScalableTopicsState.FAILED)
    @rule()
    def begin_again(self):
        self.drop_connection()
        self.begin()

    @precondition(lambda self: self.watch.wants_connection)
    @rule(outcome=st.sampled_from(["served", "served", "served", "unreachable", "unsupported"]))
    def connect(self, outcome):
        self.drop_connection()
        if outcome == "unreachable":
            self.watch.disconnected(self.now)
            return
        flags = FeatureFlags()
        if outcome == "served":
            self.store.side.advertise(flags)
            self.connection = next(self.connections)
        self.watch.connected(flags, self.now)

    @precondition(lambda self: self.connection is not None)
    @rule()
    def disconnect(self):
        stale = list(self.to_client)
        self.drop_connection()
        self.watch.disconnected(self.now)
        self.listen()
        for command in stale:
            self.watch.received(wrap(command), self.now)
        assert self.watch.take_changes() is None

    def drop_connection(self):
        if self.connection is not None:
            self.store.side.disconnected(self.connection)
            assert self.store.side.watch_count(self.connection) == 0
        self.connection = None
        self.to_broker.clear()
        self.to_client.clear()

    @rule()
    def client_sends(self):
        messages = self.watch.commands_to_send(lambda: 0, 0.0)
        assert not messages or self.connection is not None
        self.to_broker += messages

    @precondition(lambda self: self.to_broker)
    @rule(fails=st.sampled_from([False, False, False, True]))
    def broker_answers(self, fails):
        request = self.to_broker.popleft()
        if not isinstance(request, CommandWatchScalableTopics):
            self.store.side.close(self.connection, request)
        elif fails:
            self.to_client.append(CommandWatchScalableTopicsUpdate(watch_id=7, error=ServiceNotReady, message="Broker not ready"))
        elif (update := self.store.side.watch(self.connection, request)) is not None:
            self.to_client.append(update)

    @precondition(lambda self: self.to_client)
    @rule(twice=st.booleans(), listens=st.booleans())
    def client_receives(self, twice, listens):
        update = self.to_client.popleft()
        for _ in range(2 if twice and not update.HasField("error") else 1):
            self.watch.received(wrap(update), self.now)
        if self.seen is None and self.watch.is_started:
            self.seen = set(self.watch.topics)
        if listens:
            self.listen()

    def listen(self):
        changes = self.watch.take_changes()
        if changes is not None:
            assert self.seen >= set(changes.removed)
            self.seen -= set(changes.removed)
            assert not self.seen & set(changes.added)
            self.seen |= set(changes.added)
        assert self.seen is None or self.seen == self.watch.topics

    @rule(seconds=st.sampled_from([0.01, 0.05, 0.1, 1.0, 6.0, 31.0]))
    def time_passes(self, seconds):
        for connection, update in self.store.wait(seconds):
            assert connection == self.connection
            self.to_client.append(update)
        self.watch.tick(self.now)

    @invariant()
    def the_hash_is_that_of_the_set(self):
        if hasattr(self, "watch") and self.watch.is_started:
            assert self.watch.topics_hash == topics_hash(self.watch.topics)

    @invariant()
    def the_broker_has_one_watch_at_most(self):
        if hasattr(self, "store"):
            assert self.store.side.watch_count(self.connection) <= 1

    def teardown(self):
        if not hasattr(self, "watch"):
            return
        end = self.now + 100.0  # the longest pause and more
        while self.now < end:
            self.settle()
            deadlines = [at for at in (self.watch.next_deadline(), self.store.side.next_deadline()) if at is not None]
            self.time_passes(max(min([*deadlines, end]) - self.now, 0.0))
        self.settle()
        self.listen()
        expected = {topic for topic, properties in self.store.topics.items() if self.filters.items() <= properties.items()}
        assert (self.watch.state, self.watch.topics) == (ScalableTopicsState.WATCHING, expected)
        assert self.store.side.watch_count(self.connection) == 1
        self.watch.close()
        self.settle()
        assert self.store.side.watch_count(self.connection) == 0
        assert (self.watch.next_deadline(), self.store.side.next_deadline()) == (None, None)

    def settle(self):
        """Let everything happen that needs no time."""
        if self.watch.state is ScalableTopicsState.FAILED:
            self.begin_again()
        if self.watch.wants_connection:
            self.connect("served")
        self.client_sends()
        while self.to_broker:
            self.broker_answers(fails=False)
        while self.to_client:
            self.client_receives(twice=False, listens=False)


BothSides.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestBothSides = BothSides.TestCase
