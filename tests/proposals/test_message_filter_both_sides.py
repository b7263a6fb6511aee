"""Both sides of PR 7629 joined by two queues: whoever filters, the application gets what it wants, each message, and nothing else."""

from collections import deque
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from refimpl.proposals.message_filter import ConsumerFilter, EntryOutcome, MessageFilterBroker, MessageFilterPolicy, MessageFilterState
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import ConsumerBusy, EncryptionKeys, FeatureFlags, NotAllowedError
from tests.samples.message_filter import Subscription, batch, entry, subscribe

PAYLOADS = st.sampled_from([b"30", b"59", b"no", b"130", b""])
COMPRESSIONS = st.sampled_from([0, 1, 2, 3, 4])
POLICIES = [
    (MessageFilterPolicy.regex_filter_policy("[3-5][0-9]"), {b"30", b"59"}),
    (MessageFilterPolicy.bytes_prefix_filter_policy(b"3"), {b"30"}),
    (MessageFilterPolicy.regex_filter_policy("nothing"), set()),
    (MessageFilterPolicy.bytes_prefix_filter_policy(b""), {b"30", b"59", b"no", b"130", b""}),
]


class BothSides(RuleBasedStateMachine):
    """One topic, one shared subscription, clients that come and go; some brokers are from before the proposal."""

    @initialize(policy=st.sampled_from(POLICIES), supported=st.booleans(), steps_in=st.booleans())
    def start(self, policy, supported, steps_in):
        self.policy, self.wanted = policy
        self.supported = supported
        self.without_support = "filter" if steps_in else "refuse"
        self.subscription = Subscription(MessageFilterBroker())
        self.entries = []
        self.got = {}
        self.clients = {}
        self.names = count()
        self.to_client, self.to_broker = deque(), deque()
        self.taken = {}

    @precondition(lambda self: len(self.clients) < 3)
    @rule()
    def a_client_subscribes(self):
        client = ConsumerFilter(self.policy, without_support=self.without_support)
        flags = FeatureFlags()
        if self.supported:
            self.subscription.broker.advertise(flags)
        client.connected(flags)
        request = subscribe()
        try:
            client.prepare(request)
        except Refused:
            assert not self.supported
            assert self.without_support == "refuse"
            return
        assert request.HasField("filter_meta") is self.supported
        name = next(self.names)
        self.subscription.subscribe(name, request)
        self.clients[name] = client
        self.taken[name] = 0
        self.carry()

    @precondition(lambda self: self.clients and self.supported)
    @rule(bad=st.booleans())
    def another_filter_is_refused(self, bad):
        client = ConsumerFilter(MessageFilterPolicy.regex_filter_policy("[" if bad else "another"))
        client.connected(FeatureFlags(supports_message_filter=True))
        request = subscribe()
        client.prepare(request)
        with pytest.raises(Refused) as caught:
            self.subscription.subscribe("other", request)
        assert caught.value.code == (NotAllowedError if bad else ConsumerBusy)
        assert "other" not in self.subscription.sent

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def a_client_leaves(self, data):
        name = data.draw(st.sampled_from(sorted(self.clients)))
        self.clients.pop(name).disconnected()
        self.to_client = deque(one for one in self.to_client if one[0] != name)
        self.to_broker = deque(one for one in self.to_broker if one[0] != name)
        del self.taken[name]
        self.subscription.leave(name)
        self.carry()

    @rule(payload=PAYLOADS, compression=COMPRESSIONS)
    def publish_one(self, payload, compression):
        self.publish([payload], entry(payload, compression))

    @rule(payloads=st.lists(PAYLOADS, min_size=1, max_size=70), compression=COMPRESSIONS)
    def publish_batch(self, payloads, compression):
        self.publish(payloads, batch(*payloads, compression=compression))

    @rule(payloads=st.lists(PAYLOADS, min_size=1, max_size=3))
    def publish_encrypted(self, payloads):
        self.publish([None] * len(payloads), batch(*payloads, encryption_keys=[EncryptionKeys(key="k", value=b"v")]))

    def publish(self, payloads, data):
        self.entries.append(payloads)
        self.subscription.publish(data)
        self.carry()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), permits=st.integers(1, 20))
    def flow(self, data, permits):
        self.subscription.flow(data.draw(st.sampled_from(sorted(self.clients))), permits)
        self.carry()

    def carry(self):
        """Put what the broker has sent since the last time into the queue."""
        for name, sent in self.subscription.sent.items():
            for index, open_messages in sent[self.taken[name] :]:
                self.to_client.append((name, index, open_messages))
            self.taken[name] = len(sent)

    @precondition(lambda self: self.to_client)
    @rule()
    def client_receives(self):
        name, index, open_messages = self.to_client.popleft()
        client = self.clients[name]
        judgement = client.judge(self.subscription.entries[index], open_messages)
        assert (judgement is None) is (client.state is MessageFilterState.BROKER)
        if judgement is not None:
            if judgement.outcome is EntryOutcome.REJECT:
                self.to_broker.append((name, index))
                return
            open_messages = judgement.open_messages
        indexes = range(len(self.entries[index])) if open_messages is None else open_messages
        for place in indexes:
            payload = self.entries[index][place]
            assert payload is None or payload in self.wanted
            self.got.setdefault(index, set()).add(place)
        self.to_broker.append((name, index))

    @precondition(lambda self: self.to_broker)
    @rule()
    def broker_takes_an_ack(self):
        self.subscription.acknowledge(self.to_broker.popleft()[1])

    def teardown(self):
        if not hasattr(self, "subscription") or (not self.supported and self.without_support == "refuse"):
            return
        if not self.clients:
            self.a_client_subscribes()
        for name in list(self.clients):
            self.subscription.flow(name, 10_000)
        self.carry()
        while self.to_client or self.to_broker:
            while self.to_client:
                self.client_receives()
            while self.to_broker:
                self.broker_takes_an_ack()
        assert self.subscription.backlog == []
        for index, payloads in enumerate(self.entries):
            expected = {place for place, payload in enumerate(payloads) if payload is None or payload in self.wanted}
            assert self.got.get(index, set()) == expected
        counters = self.subscription.filter.counters
        assert counters.processed == counters.accepted + counters.rejected + counters.undecidable
        assert counters.processed == 0 or self.supported


BothSides.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestBothSides = BothSides.TestCase
