"""Every client's side of a watch keeps the promises of `WatchMachine`, whatever a broker says, and whenever."""

from collections.abc import Callable
from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refimpl.client.requests import answers
from refimpl.proposals import PROPOSALS, partition_watch, scalable_topics, topic_list
from refimpl.proposals.watch_machine import WatchMachine
from refimpl.wire import command, command_name, sub_message, wrap
from refimpl.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags

NS = "public/ns"
TOPICS = [f"persistent://{NS}/{name}" for name in ("a", "b", "c")]
ID, FOREIGN = 7, 8


def scalable_watch(profile: str) -> WatchMachine:
    watch = scalable_topics.ScalableTopicsWatch(NS, ID, Random(1), profile=scalable_topics.PROFILES[profile], operation_timeout=5.0)
    watch.start()
    return watch


MACHINES: dict[str, Callable[[str], WatchMachine]] = {
    "pip145": lambda profile: topic_list.TopicListWatch(
        NS, f"{NS}/.*", ID, profile=topic_list.PROFILES[profile], discovery_period=10.0, operation_timeout=5.0
    ),
    "pip247": lambda profile: partition_watch.PartitionWatch(
        TOPICS, ID, profile=partition_watch.PROFILES[profile], poll_interval=10.0, reconcile_period=30.0, operation_timeout=5.0
    ),
    "pr25648": scalable_watch,
}


each_machine = pytest.mark.parametrize("register", MACHINES)


ALL = FeatureFlags(**{flag: True for proposal in PROPOSALS for flag in proposal.flags})
FLAGS = st.sampled_from([None, FeatureFlags(), FeatureFlags(supports_topic_watchers=True), ALL, ALL, ALL])
SETS = st.lists(st.sampled_from(TOPICS), unique=True)
HASHES = SETS.map(topic_list.topics_hash)
ERRORS = st.sampled_from(["NotAllowedError", "ServiceNotReady", "UnknownError"])
COUNTS = st.lists(st.fixed_dictionaries({"topic": st.sampled_from(TOPICS), "partition": st.integers(0, 5)}), max_size=2)


def _of(name: str, **fields: object) -> st.SearchStrategy:
    drawn = [value if isinstance(value, st.SearchStrategy) else st.just(value) for value in fields.values()]
    return st.tuples(*drawn).map(lambda values: (name, dict(zip(fields, values, strict=True))))


ERROR = _of("error", error=ERRORS, message="no")
SAID = {
    "pip145": st.one_of(
        _of("getTopicsOfNamespaceResponse", topics=SETS, topics_hash=HASHES, filtered=st.booleans()),
        _of("watchTopicListSuccess", watcher_id=ID, topic=SETS, topics_hash=HASHES),
        _of("watchTopicUpdate", watcher_id=ID, new_topics=SETS, deleted_topics=SETS, topics_hash=HASHES),
        ERROR,
    ),
    "pip247": st.one_of(
        _of("watchPartitionUpdateSuccess", watcher_id=ID, topic_with_partition=COUNTS),
        _of("partitionUpdate", version=st.integers(0, 4), watcher_id=ID, topic_with_partition=COUNTS),
        _of("partitionMetadataResponse", partitions=st.integers(0, 5), response=st.sampled_from(["Success", "Failed"])),
        ERROR,
    ),
    "pr25648": st.one_of(
        _of("watchScalableTopicsUpdate", watch_id=ID, snapshot=SETS.map(lambda topics: {"topics": topics})),
        _of("watchScalableTopicsUpdate", watch_id=ID, diff=SETS.map(lambda topics: {"added": topics})),
        _of("watchScalableTopicsUpdate", watch_id=ID, error=ERRORS, message="no"),
        _of("pong"),
    ),
}
"""What a broker may say: names of commands, and their fields but for `request_id`."""
KINDS = st.sampled_from(["receive", "receive", "receive", "receive", "wait", "lose"])
AGES = st.sampled_from([0, 0, 0, 1, 2])


def steps_of(register: str) -> st.SearchStrategy:
    """Return what may happen: kind, flags of a new connection, command, how old the request is, and whether all is sent at once."""
    return st.lists(st.tuples(KINDS, FLAGS, SAID[register], AGES, st.sampled_from([True, True, True, False])), min_size=1, max_size=25)


def said(what: tuple[str, dict], request_id: int, number: int = ID) -> BaseCommand:
    """Build a command of the broker, with a number of a request if it has that field, and another number of a watch."""
    name, fields = what
    made = command(name, **{key: number if value == ID and key.endswith("_id") else value for key, value in fields.items()})
    if "request_id" in sub_message(made).DESCRIPTOR.fields_by_name:
        sub_message(made).request_id = request_id
    return made


class Run:
    """One machine, and the connection that it has or has not."""

    def __init__(self, machine: WatchMachine) -> None:
        self.machine = machine
        self.now = 0.0
        self.has_connection = False
        self.used = 0
        self._ids = count(1)

    def connect(self, flags: FeatureFlags | None) -> None:
        if self.machine.wants_connection:
            self.machine.connected(flags, self.now)
            self.has_connection = True

    def lose(self) -> None:
        self.machine.disconnected(self.now)
        self.has_connection = False

    def receive(self, one: BaseCommand) -> None:
        if self.has_connection:
            self.machine.received(one, self.now)

    def wait(self) -> None:
        deadline = self.machine.next_deadline()
        if deadline is not None:
            self.now = max(self.now, deadline)
            self.machine.tick(self.now)

    def known(self) -> list[object]:
        """Return what the machine and its application know."""
        if isinstance(self.machine, partition_watch.PartitionWatch):
            self.machine.tell(lambda _: True, self.now)
        names = ("state", "registration", "failure", "topics", "counts")
        return [getattr(self.machine, name, None) for name in names]

    def send(self) -> list[str]:
        """Let the machine send, as whoever drives it does after each event; check what it sends."""
        messages = self.machine.commands_to_send(self._next_id, self.now)
        assert self.has_connection or not messages
        for message in messages:
            assert wrap(message).SerializeToString()
            if hasattr(message, "request_id"):
                assert type(message) in answers()
        assert self.machine.commands_to_send(self._next_id, self.now) == []
        return [command_name(wrap(message)) for message in messages]

    def _next_id(self) -> int:
        self.used = next(self._ids)
        return self.used


def drive(run: Run, steps: list) -> Run:
    """Let things happen."""
    for kind, flags, what, age, sends in steps:
        if run.machine.wants_connection:
            run.connect(flags)
        elif kind == "receive":
            run.receive(said(what, max(1, run.used - age)))
        elif kind == "wait":
            run.wait()
        else:
            run.lose()
        if sends:
            run.send()
        assert not (run.machine.is_closed and run.machine.wants_connection)
        assert run.machine.next_deadline() is None or not run.machine.is_closed
    return run


PROFILES = st.sampled_from(["default", "as-written"])


@each_machine
@given(data=st.data(), profile=PROFILES)
@settings(max_examples=100)
def test_whatever_happens_deadlines_that_pass_do_not_come_at_once_again(register, data, profile):
    run = drive(Run(MACHINES[register](profile)), data.draw(steps_of(register)))
    start = run.now
    for _ in range(100):
        run.connect(ALL)
        run.send()
        run.wait()
    assert run.now - start >= 60.0 or run.machine.next_deadline() is None


@each_machine
@given(data=st.data(), profile=PROFILES)
@settings(max_examples=100)
def test_a_machine_that_is_closed_comes_to_its_end_and_stays_there(register, data, profile):
    run = drive(Run(MACHINES[register](profile)), data.draw(steps_of(register)))
    run.machine.close()
    run.send()
    if not run.machine.is_closed:  # it waits for an answer, at most as long as a request may take
        assert run.has_connection
        run.wait()
        run.send()
    assert run.machine.is_closed
    drive(run, data.draw(steps_of(register)))
    run.machine.close()
    assert run.send() == []
    assert run.machine.is_closed


@each_machine
@given(data=st.data(), profile=PROFILES)
@settings(max_examples=100)
def test_what_names_another_watch_or_request_changes_nothing(register, data, profile):
    run = drive(Run(MACHINES[register](profile)), data.draw(steps_of(register)))
    run.known()
    run.send()
    before = (run.known(), run.machine.next_deadline())
    run.receive(said(data.draw(SAID[register]), 10_000, FOREIGN))
    assert (run.known(), run.machine.next_deadline(), run.send()) == (*before, [])


@each_machine
@given(data=st.data(), profile=PROFILES)
@settings(max_examples=200)
def test_what_comes_from_a_lost_connection_changes_nothing(register, data, profile):
    run = drive(Run(MACHINES[register](profile)), data.draw(steps_of(register)))
    run.lose()
    assert run.send() == []
    before = run.known()
    run.machine.received(said(data.draw(SAID[register]), max(1, run.used - data.draw(AGES))), run.now)
    assert (run.known(), run.send()) == (before, [])
