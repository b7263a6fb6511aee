"""Both sides of PIP-247 joined by two queues: whatever happens, the client ends up with the broker's counts."""

from collections import deque
from itertools import count
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from refimpl.proposals.partition_watch import (
    DEFAULT,
    PROFILES,
    Delivery,
    PartitionWatch,
    PartitionWatchBroker,
    PartitionWatchProfile,
    PartitionWatchState,
)
from refimpl.proposals.refused import Refused
from refimpl.wire import wrap
from refimpl.wire.pulsar_api_pb2 import (
    CommandError,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandPartitionUpdate,
    CommandPartitionUpdateResult,
    CommandWatchPartitionUpdate,
    FeatureFlags,
    MetadataError,
    NotAllowedError,
)
from tests.samples.partition_watch import A, B, C, full_name, told

PROFILE = st.builds(
    PartitionWatchProfile,
    failed_result=st.sampled_from(["backoff", "at_once"]),
    reconciles=st.booleans(),
    resend_version=st.sampled_from(["counts", "each"]),
)
TOPIC = st.sampled_from([A, B])


class BothSides(RuleBasedStateMachine):
    """One client, one cluster of brokers, connections that come and go."""

    @initialize(
        topics=st.sampled_from([[A], [A, B], [B, A], [C, B, A], []]),
        profile=st.sampled_from(list(PROFILES.values())) | PROFILE,
        client_profile=st.sampled_from(list(PROFILES.values())),
    )
    def start(self, topics, profile, client_profile):
        self.counts = {A: 2}
        self.highest = dict(self.counts)
        self.profile = profile
        self.watch = PartitionWatch(topics, 7, profile=client_profile, poll_interval=20.0, reconcile_period=100.0, operation_timeout=5.0)
        self.now = 0.0
        self.ids = count()
        self.connections = count()
        self.connection = None
        self.call = None
        self.to_broker, self.to_client = deque(), deque()
        self.new_broker(enabled=True)
        self.connect("same")

    def new_broker(self, enabled):
        self.enabled = enabled
        self.side = PartitionWatchBroker(lambda topic: self.counts.get(topic, 0), full_name, profile=self.profile, enabled=enabled)

    # What happens at the broker

    @rule(topic=TOPIC, partitions=st.integers(0, 9))
    def change(self, topic, partitions):
        self.counts[topic] = partitions
        self.highest[topic] = max(self.highest.get(topic, 0), partitions)
        self.push(self.side.changed(topic, self.now))

    def push(self, updates):
        for connection, update in updates:
            assert connection == self.connection
            counts = told(update)
            assert counts == [(topic, self.counts.get(topic, 0)) for topic in self.watch.topics]
            last = self.pushed[-1] if self.pushed else (0, self.first)
            if self.profile.resend_version == "counts":
                assert update.version == last[0] + (counts != last[1])
            else:
                assert update.version == last[0] + 1
            self.pushed.append((update.version, counts))
            self.in_flight = True
            self.to_client.append(update)

    @precondition(lambda self: self.connection is not None)
    @rule(number=st.integers(1, 3), fails=st.sampled_from([0, 0, 0, 0, MetadataError, NotAllowedError]))
    def broker_takes(self, number, fails):
        self.client_sends()
        for _ in range(min(number, len(self.to_broker))):
            self.broker_takes_one(fails)

    def broker_takes_one(self, fails):
        command = self.to_broker.popleft()
        if isinstance(command, CommandPartitionUpdateResult):
            unexpected = self.side.unexpected_results
            if command.success and command.version == self.pushed[-1][0]:
                assert all(partitions <= self.watch.counts[topic] for topic, partitions in self.pushed[-1][1])
                self.in_flight &= self.waits_for_retry()  # pip247.result.nothing-in-flight
            update = self.side.result(self.connection, command, self.now)
            assert command.version <= self.pushed[-1][0] or self.side.unexpected_results > unexpected
            if update is not None:
                assert not command.success
                self.push([(self.connection, update)])
        elif isinstance(command, CommandPartitionedTopicMetadata):
            self.to_client.append(self.metadata(command, fails))
        else:
            try:
                if fails and isinstance(command, CommandWatchPartitionUpdate):
                    raise Refused(fails, "not now")
                self.to_client.append(self.answer(command))
            except Refused as refused:
                self.to_client.append(CommandError(request_id=command.request_id, error=refused.code, message=refused.message))

    def metadata(self, request, fails):
        failed = CommandPartitionedTopicMetadataResponse(
            request_id=request.request_id, response=CommandPartitionedTopicMetadataResponse.Failed, error=MetadataError, message="no"
        )
        found = CommandPartitionedTopicMetadataResponse(
            request_id=request.request_id,
            response=CommandPartitionedTopicMetadataResponse.Success,
            partitions=self.counts.get(request.topic, 0),
        )
        return failed if fails else found

    def answer(self, request):
        if not isinstance(request, CommandWatchPartitionUpdate):
            return self.side.close(self.connection, request)
        success = self.side.watch(self.connection, request)
        self.first, self.in_flight = told(success), False
        if self.pushed:
            self.pushed.append((self.pushed[-1][0], self.first))
        return success

    # Connections

    @precondition(lambda self: self.connection is None)
    @rule(kind=st.sampled_from(["same", "other", "switched off", "old"]))
    def connect(self, kind):
        if kind != "same":
            self.new_broker(enabled=kind == "other")
        self.connection = next(self.connections)
        self.pushed, self.first, self.in_flight = [], [], False
        flags = FeatureFlags()
        self.side.advertise(flags)
        self.flagged = flags.supports_partition_update_watchers
        self.watch.connected(None if kind == "old" else flags, self.now)

    @precondition(lambda self: self.connection is not None)
    @rule(stale=st.booleans())
    def disconnect(self, stale):
        late = list(self.to_client) if stale else []
        self.side.disconnected(self.connection)
        assert (self.side.watcher_count(self.connection), self.side.next_deadline()) == (0, None)
        self.watch.disconnected(self.now)
        self.to_broker.clear()
        self.to_client.clear()
        self.connection = None
        for command in late:
            self.watch.received(wrap(command), self.now)

    # What happens at the client

    def client_sends(self):
        messages = self.watch.commands_to_send(lambda: next(self.ids), self.now)
        assert not messages or self.connection is not None
        for message in messages:
            if isinstance(message, CommandPartitionedTopicMetadata):
                assert self.watch.state in (
                    PartitionWatchState.POLLING,
                    PartitionWatchState.WAITING,
                    PartitionWatchState.REGISTERING,
                )  # pip247.client.no-poll-beside-watch
            else:
                assert self.flagged  # pip247.client.needs-flag
        self.to_broker += messages

    @precondition(lambda self: self.to_client)
    @rule(number=st.integers(1, 3), twice=st.booleans())
    def client_takes(self, number, twice):
        for _ in range(min(number, len(self.to_client))):
            command = self.to_client.popleft()
            for _ in range(1 + twice):
                self.watch.received(wrap(command), self.now)
        self.listener_starts()

    @precondition(lambda self: any(isinstance(command, CommandPartitionUpdate) for command in self.to_client))
    @rule()
    def an_update_is_lost(self):
        place = next(place for place, command in enumerate(self.to_client) if isinstance(command, CommandPartitionUpdate))
        del self.to_client[place]

    def listener_starts(self):
        call = self.watch.next_call()
        assert call is None or self.call is None  # pip247.client.one-call
        if call is not None:
            self.call = call
            known = self.watch.counts
            for topic, partitions in zip(self.call.topics, self.call.counts, strict=True):
                assert known[topic] <= partitions <= self.highest.get(topic, 0)

    @precondition(lambda self: self.call is not None)
    @rule(success=st.sampled_from([True, True, False]))
    def listener_finishes(self, success):
        self.watch.called(success, self.now)
        self.call = None
        self.listener_starts()

    @rule(seconds=st.sampled_from([0.05, 0.1, 1.0, 6.0, 11.0, 50.0]))
    def time_passes(self, seconds):
        self.now += seconds
        self.push(self.side.tick(self.now))
        self.watch.tick(self.now)

    def waits_for_retry(self):
        (watcher,) = self.side._watchers[self.connection].values()
        return watcher.delivery is Delivery.WAITING

    @invariant()
    def what_is_in_flight_and_nothing_else_has_a_deadline(self):
        if getattr(self, "connection", None) is not None:
            deadline = self.side.next_deadline()
            assert (deadline is not None) == (self.in_flight and self.side.watcher_count(self.connection) == 1)
            assert deadline is None or self.now < deadline <= self.now + 10.0

    # Rest

    @precondition(lambda self: self.connection is not None)
    @rule()
    def everything_arrives(self):
        self.settle()

    def settle(self):
        """Let everything that is under way arrive, at the present time."""
        busy = True
        while busy:
            self.broker_takes(number=9, fails=0)
            busy = bool(self.to_client) or self.call is not None
            if self.to_client:
                self.client_takes(number=9, twice=False)
            if self.call is not None:
                self.listener_finishes(success=True)
            self.client_sends()
            busy |= bool(self.to_broker)

    def teardown(self):
        if not hasattr(self, "watch"):
            return
        if self.connection is None:
            self.connect("same")
        end = self.now + 75.0  # an unanswered request, the longest pause, the time-out of an update, the interval of polls
        while self.now < end:
            self.settle()
            deadlines = [when for when in (self.side.next_deadline(), self.watch.next_deadline()) if when is not None]
            self.now = max(self.now, min([*deadlines, end]))
            self.push(self.side.tick(self.now))
            self.watch.tick(self.now)
        self.settle()
        for topic in self.watch.topics:
            assert self.counts.get(topic, 0) <= self.watch.counts[topic] <= self.highest.get(topic, 0)
        assert self.watch.state in (PartitionWatchState.WATCHING, PartitionWatchState.POLLING)
        if self.watch.state is PartitionWatchState.WATCHING:
            assert self.side.next_deadline() is None  # every update has its result
        self.watch.close()
        self.settle()
        assert self.side.watcher_count(self.connection) == 0
        assert (self.watch.next_deadline(), self.side.next_deadline()) == (None, None)


BothSides.TestCase.settings = settings(max_examples=200, stateful_step_count=50)
TestBothSides = BothSides.TestCase


@pytest.mark.parametrize("seed", range(40))
def test_long_walk(seed):
    """The rules as above, the likely ones more often, so that a connection lives long enough for updates to meet."""
    random = Random(seed)
    walk = BothSides()
    profile = PartitionWatchProfile(
        random.choice(["backoff", "at_once"]), random.random() < 0.5, random.choice(["counts", "counts", "each"])
    )
    walk.start(random.choice([[A], [A, B], [C, B, A]]), profile, random.choice(list(PROFILES.values())))
    walk.settle()
    for _ in range(400):
        step = random.choices(["change", "broker", "client", "listener", "time", "loss", "cut"], [6, 12, 12, 12, 4, 1, 0.5])[0]
        if walk.connection is None:
            walk.connect(random.choice(["same", "other", "other", "switched off", "old"]))
        elif step == "change":
            walk.change(random.choice([A, B]), random.randrange(10))
        elif step == "broker":
            walk.broker_takes(random.randint(1, 3), random.choice([0] * 8 + [MetadataError, NotAllowedError]))
        elif step == "client" and walk.to_client:
            walk.client_takes(random.randint(1, 3), random.random() < 0.2)
        elif step == "listener" and walk.call is not None:
            walk.listener_finishes(random.random() < 0.6)
        elif step == "time":
            walk.time_passes(random.choice([0.05, 0.1, 0.1, 1.0, 6.0, 11.0, 50.0]))
        elif step == "loss" and any(isinstance(command, CommandPartitionUpdate) for command in walk.to_client):
            walk.an_update_is_lost()
        elif step == "cut":
            walk.disconnect(random.random() < 0.5)
        walk.what_is_in_flight_and_nothing_else_has_a_deadline()
    walk.teardown()


def test_a_slow_listener_comes_to_rest_only_if_versions_count_counts():
    """The listener needs 12 seconds, the broker waits for 10."""
    assert [_sendings(profile) for profile in (DEFAULT, PartitionWatchProfile("backoff", reconciles=True, resend_version="each"))] == [
        2,
        30,
    ]


def _sendings(profile):
    counts = {A: 1}
    side = PartitionWatchBroker(lambda topic: counts[topic], full_name, profile=profile)
    watch = PartitionWatch([A], 7)
    watch.connected(FeatureFlags(supports_partition_update_watchers=True), 0.0)
    (request,) = watch.commands_to_send(lambda: 1, 0.0)
    watch.received(wrap(side.watch("a", request)), 0.0)
    watch.next_call()
    watch.called(True, 0.0)
    counts[A] = 2
    updates = side.changed(A, 0.0)
    sent, ends = 0, None
    for tenth in range(3000):
        now = tenth / 10
        for _, update in [*updates, *side.tick(now)]:
            watch.received(wrap(update), now)
            sent += 1
        updates = []
        if ends is not None and now >= ends:
            watch.called(True, now)
            ends = None
        if ends is None and watch.next_call() is not None:
            ends = now + 12
        for result in watch.commands_to_send(lambda: 2, now):
            assert side.result("a", result, now) is None
    return sent
