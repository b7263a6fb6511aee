"""Both sides of PIP-145 joined by two queues: whatever happens, the client's set ends up as the broker's."""

from collections import deque
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from refimpl.indexes.topic_patterns import compile_pattern
from refimpl.proposals.refused import Refused
from refimpl.proposals.topic_list import PROFILES, TopicListBroker, TopicListState, TopicListWatch, topics_hash
from refimpl.proposals.topic_list.rules import visible_topics, without_domain
from refimpl.wire import wrap
from refimpl.wire.pulsar_api_pb2 import (
    CommandError,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandWatchTopicList,
    CommandWatchTopicUpdate,
    FeatureFlags,
    MetadataError,
)

NS = "public/ns"
LOCAL = st.sampled_from(["t-1", "t-2", "t-3-partition-0", "t-3-partition-1", "u", "__change_events", "t-\uff5e", "t-\U00010000"])
PATTERNS = ["public/ns/t-.*", "persistent://public/ns/t-[^1]", ".*", r"\Qpublic/ns/u\E", "persistent://public/ns/t-.*" + "$" * 40]


class BothSides(RuleBasedStateMachine):
    """One client, one broker, connections that come and go."""

    @initialize(
        pattern=st.sampled_from(PATTERNS),
        sides=st.tuples(st.sampled_from(sorted(PROFILES)), st.sampled_from(sorted(PROFILES))),
        evaluation=st.booleans(),
        generation=st.sampled_from(["old", "watchers", "reconcile", "reconcile"]),
        first=st.sets(LOCAL),
    )
    def start(self, pattern, sides, evaluation, generation, first):
        profile, client_profile = (PROFILES[name] for name in sides)
        if profile is not client_profile:
            client_profile = PROFILES["default"]  # a client as written trusts hashes, which is right with such a broker only
        self.topics = {f"persistent://{NS}/{name}": None for name in first}
        self.side = TopicListBroker(lambda namespace: list(self.topics), profile=profile, evaluation_enabled=evaluation)
        self.watch = TopicListWatch(NS, pattern, 7, profile=client_profile, discovery_period=10.0, operation_timeout=5.0)
        self.pattern = compile_pattern(without_domain(pattern))
        self.generation = generation
        self.now = 0.0
        self.ids = count()
        self.connection = None
        self.connections = count()
        self.to_broker, self.to_client = deque(), deque()
        self.seen = set()
        self.is_lossy = False

    @rule(name=LOCAL)
    def create_or_delete(self, name):
        topic = f"persistent://{NS}/{name}"
        if topic in self.topics:
            del self.topics[topic]
            updates = self.side.deleted(topic)
        else:
            self.topics[topic] = None
            updates = self.side.created(topic)
        for connection, update in updates:
            assert connection == self.connection
            self.to_client.append(update)

    @precondition(lambda self: self.connection is None)
    @rule()
    def connect(self):
        self.connection = next(self.connections)
        flags = FeatureFlags()
        self.side.advertise(flags)
        if self.generation != "reconcile":
            flags.supports_topic_watcher_reconcile = False
        self.watch.connected(None if self.generation == "old" else flags, self.now)

    @precondition(lambda self: self.connection is not None)
    @rule(broker_first=st.booleans())
    def disconnect(self, broker_first):
        stale = list(self.to_client)
        self.side.disconnected(self.connection)
        self.watch.disconnected(self.now)
        if not broker_first:
            for command in stale:
                self.watch.received(wrap(command), self.now)
        assert self.watch.take_changes() is None
        self.to_broker.clear()
        self.to_client.clear()
        self.connection = None

    @rule()
    def client_sends(self):
        messages = self.watch.commands_to_send(lambda: next(self.ids), self.now)
        assert not messages or self.connection is not None
        self.to_broker += messages

    @precondition(lambda self: self.to_broker)
    @rule(fails=st.sampled_from([False, False, False, True]))
    def broker_answers(self, fails):
        request = self.to_broker.popleft()
        try:
            if fails:
                raise Refused(MetadataError, "the store does not answer")
            self.to_client.append(self.answer(request))
        except Refused as refused:
            self.to_client.append(CommandError(request_id=request.request_id, error=refused.code, message=refused.message))

    def answer(self, request):
        if isinstance(request, CommandWatchTopicList):
            return self.side.watch(self.connection, request)
        if not isinstance(request, CommandGetTopicsOfNamespace):
            return self.side.close(self.connection, request)
        if self.generation == "old":
            return CommandGetTopicsOfNamespaceResponse(request_id=request.request_id, topics=visible_topics(self.topics))
        return self.side.get_topics(request, self.topics)

    @precondition(lambda self: self.to_client)
    @rule(twice=st.booleans())
    def client_receives(self, twice):
        command = self.to_client.popleft()
        self.watch.received(wrap(command), self.now)
        if (changes := self.watch.take_changes()) is not None:
            assert not self.seen & set(changes.added)
            assert self.seen >= set(changes.removed)
            self.seen = self.seen - set(changes.removed) | set(changes.added)
        if twice:
            self.watch.received(wrap(command), self.now)
        assert self.watch.take_changes() is None

    @precondition(lambda self: any(isinstance(command, CommandWatchTopicUpdate) for command in self.to_client))
    @rule()
    def an_update_is_lost(self):
        place = next(place for place, command in enumerate(self.to_client) if isinstance(command, CommandWatchTopicUpdate))
        del self.to_client[place]

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 11.0]))
    def time_passes(self, seconds):
        self.now += seconds
        self.watch.tick(self.now)

    @invariant()
    def what_was_told_is_what_is_known(self):
        if hasattr(self, "seen"):
            assert self.seen == self.watch.topics

    def teardown(self):
        if not hasattr(self, "seen"):
            return
        if self.connection is None:
            self.connect()
        end = self.now + 45.0  # an unanswered request, the longest pause, two periods
        while self.now < end:
            self.client_sends()
            is_quiet = not self.to_broker and not self.to_client
            while self.to_broker:
                self.broker_answers(fails=False)
            while self.to_client:
                self.client_receives(twice=False)
            if is_quiet:
                self.now = min(self.watch.next_deadline(), end)
                self.watch.tick(self.now)
        expected = visible_topics(self.topics, self.pattern)
        assert self.watch.topics == set(expected)
        assert self.watch.topics_hash == topics_hash(expected)
        assert self.watch.state in (TopicListState.WATCHING, TopicListState.CHECKING, TopicListState.POLLING, TopicListState.LISTING)
        self.close()

    def close(self):
        self.client_sends()
        while self.to_broker:
            self.broker_answers(fails=False)
        while self.to_client:
            self.client_receives(twice=False)
        self.watch.close()
        self.client_sends()
        while self.to_broker:
            self.broker_answers(fails=False)
        assert self.side.watcher_count(self.connection) == 0
        assert self.watch.next_deadline() is None


BothSides.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestBothSides = BothSides.TestCase
