"""Producers and consumers that grow with their topic (PIP-247), against a scripted broker: what they send, and when."""

from collections.abc import Callable
from typing import Any

import pytest

from refimpl.client import (
    ClientOptions,
    ConsumerOptions,
    MultiTopicsConsumer,
    OutgoingMessage,
    PartitionedProducer,
    Pending,
    ProducerOptions,
)
from refimpl.proposals.profiles import AS_WRITTEN
from refimpl.wire import command_name, sub_message
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe
from tests.fakes.scripted_broker import TOPIC, ScriptedBroker

FLAGS = {"supports_partition_update_watchers": True}
PIP_247 = {"watchPartitionUpdate", "partitionUpdateResult", "watchPartitionUpdateClose"}
Heard = list[tuple[tuple[str, ...], tuple[int, ...]]]


def part(number: int) -> str:
    return f"{TOPIC}-partition-{number}"


class Broker(ScriptedBroker):
    """A scripted broker that attaches whoever asks, and leaves the rest to the test."""

    def __init__(self, options: ClientOptions | None = None, **choices: Any) -> None:
        super().__init__(options, **choices)
        self.refused: dict[str, str] = {}
        self.attached: list[str] = []

    def serve(self) -> list[Any]:
        """Answer LOOKUP, PRODUCER, SUBSCRIBE and what closes them; return the other commands."""
        others = []
        while True:
            self._read()
            if not self.frames:
                return others
            command = self.frames.pop(0).command
            name, request = command_name(command), sub_message(command)
            if name == "lookupTopic":
                answer = {"response": "Connect", "authoritative": True, "brokerServiceUrl": "pulsar://broker:6650"}
                self.send("lookupTopicResponse", request_id=request.request_id, **answer)
            elif name in ("producer", "subscribe") and request.topic in self.refused:
                self.send("error", request_id=request.request_id, error=self.refused[request.topic], message="because")
            elif name == "producer":
                self.attached.append(request.topic)
                self.send("producer_success", request_id=request.request_id, producer_name="p", last_sequence_id=-1)
            elif name == "subscribe":
                self.attached.append(request.topic)
                self.last_subscribe = request
                self.send("success", request_id=request.request_id)
            elif name in ("close_producer", "close_consumer", "unsubscribe"):
                self.send("success", request_id=request.request_id)
            elif name == "ping":
                self.send("pong")
            elif name != "flow":
                others.append(request)

    def wait_serving(self, seconds: float) -> list[Any]:
        """Let time pass in small steps, serving; return the other commands."""
        end, others = self.now + seconds, self.serve()
        while self.now < end:
            self.wait(min(0.05, end - self.now))
            others += self.serve()
        return others

    def watched(self, request: Any, count: int) -> list[Any]:
        """Answer a watch; return what the client sends then."""
        pairs = [{"topic": topic, "partition": count} for topic in request.topics]
        self.send("watchPartitionUpdateSuccess", request_id=request.request_id, watcher_id=request.watcher_id, topic_with_partition=pairs)
        return self.serve()

    def update(self, version: int, count: int, watcher_id: int = 0) -> list[Any]:
        """Send an update; return what the client sends then."""
        pairs = [{"topic": TOPIC, "partition": count}]
        self.send("partitionUpdate", version=version, watcher_id=watcher_id, topic_with_partition=pairs)
        return self.serve()

    def reconnect(self, flags: dict[str, bool]) -> list[Any]:
        """Lose the connection, and take the next one."""
        self.cut()
        self.wait(0.15)
        self.accept(feature_flags=flags)
        return self.wait_serving(0.05)


def producing(count: int = 2, flags: dict[str, bool] = FLAGS, core: dict[str, Any] | None = None, **choices: Any) -> Any:
    """Return a broker, a producer on a topic with partitions, and what it sent beside attaching."""
    broker = Broker(**(core or {}))
    creating = broker.begin(lambda: broker.core.create_producer(TOPIC, ProducerOptions(batching=False, **choices)))
    broker.accept(feature_flags=flags)
    broker.answer_partitions(count)
    others = broker.serve()
    group: PartitionedProducer = creating.value()
    return broker, group, others


def consuming(count: int = 2, flags: dict[str, bool] = FLAGS, **choices: Any) -> Any:
    broker = Broker()
    subscribing = broker.begin(lambda: broker.core.subscribe(TOPIC, ConsumerOptions("s", **choices)))
    broker.accept(feature_flags=flags)
    broker.answer_partitions(count)
    others = broker.serve()
    group: MultiTopicsConsumer = subscribing.value()
    return broker, group, others


def watching(make: Callable[..., Any] = producing, count: int = 2, **choices: Any) -> Any:
    broker, group, (request,) = make(count, **choices)
    assert broker.watched(request, count) == []
    return broker, group


def kinds(messages: list[Any]) -> list[str]:
    return [type(message).__name__.removeprefix("Command") for message in messages]


def results(messages: list[Any]) -> list[tuple[int, bool]]:
    assert set(kinds(messages)) <= {"PartitionUpdateResult"}
    return [(message.version, message.success) for message in messages]


# With a watcher


@pytest.mark.parametrize("make", [producing, consuming])
def test_it_watches_from_the_start_and_does_not_poll(make: Callable[..., Any]) -> None:
    broker, group, (request,) = make()
    assert (list(request.topics), request.watcher_id, len(group.members)) == ([TOPIC], 0, 2)
    broker.watched(request, 2)
    assert broker.wait_serving(599.0) == []  # pip247.client.no-poll-beside-watch
    (again,) = broker.wait_serving(1.1)
    assert (again.watcher_id, kinds([again])) == (0, ["WatchPartitionUpdate"])  # pip247.client.reconciles


def test_the_letter_has_no_task_beside_the_watcher() -> None:
    broker, _, (request,) = producing(core={"profiles": AS_WRITTEN})
    broker.watched(request, 2)
    assert broker.wait_serving(1300.0) == []


def test_a_producer_grows_and_routes_to_new_partitions() -> None:
    broker, group = watching()
    assert results(broker.update(1, 4)) == [(1, True)]
    assert [member.topic for member in group.members] == [part(number) for number in range(4)]
    for _ in range(4):
        broker.begin(group.send, OutgoingMessage(b"x", {}, None, None, None))
    broker._read()
    assert {frame.command.send.producer_id for frame in broker.frames} == {0, 1, 2, 3}


def test_a_consumer_grows_and_reads_new_partitions_from_their_beginning() -> None:
    broker, group = watching(consuming)
    assert broker.last_subscribe.initialPosition == CommandSubscribe.Latest
    assert results(broker.update(1, 3)) == [(1, True)]
    assert set(group.members) == {part(0), part(1), part(2)}
    assert (broker.last_subscribe.topic, broker.last_subscribe.initialPosition) == (part(2), CommandSubscribe.Earliest)
    broker.message(0, b"hi", consumer_id=2)
    with broker.core.entered(broker.now):
        received = group.take()
    assert received is not None
    assert (received.topic, received.id.partition) == (part(2), 2)


def test_a_success_is_applied_too_and_has_no_result() -> None:
    broker, group, (request,) = producing()
    assert broker.watched(request, 3) == []
    assert len(group.members) == 3


def test_the_result_comes_when_the_partitions_are_attached_to() -> None:
    broker, group = watching()
    pairs = [{"topic": TOPIC, "partition": 3}]
    broker.send("partitionUpdate", version=1, watcher_id=0, topic_with_partition=pairs)
    lookup = broker.expect("lookupTopic")
    broker.send("partitionUpdate", version=1, watcher_id=0, topic_with_partition=pairs)  # pip247.client.one-result
    assert broker.sent() == []
    answer = {"response": "Connect", "authoritative": True, "brokerServiceUrl": "pulsar://broker:6650"}
    broker.send("lookupTopicResponse", request_id=lookup.request_id, **answer)
    assert results(broker.serve()) == [(1, True)]
    assert len(group.members) == 3


@pytest.mark.parametrize("make", [producing, consuming])
def test_a_partition_that_can_not_be_attached_to_fails_the_update_and_nothing_else(make: Callable[..., Any]) -> None:
    broker, group = watching(make)
    broker.refused[part(3)] = "TopicNotFound"
    assert results(broker.update(1, 5)) == [(1, False)]
    assert group.error is None
    assert len(group.members) == {producing: 3, consuming: 4}[make]
    del broker.refused[part(3)]
    assert results(broker.update(1, 5)) == [(1, True)]  # resent by the broker
    assert len(group.members) == 5
    assert "TopicNotFound" in " ".join(broker.log)
    broker.begin(group.close)
    assert kinds(broker.serve()) == ["WatchPartitionUpdateClose"]


def test_a_count_beyond_belief_is_not_applied() -> None:
    broker, group = watching()
    assert results(broker.update(1, 2**32 - 1)) == [(1, False)]
    assert (len(group.members), group.error) == (2, None)


def test_smaller_counts_change_nothing() -> None:
    broker, group = watching(count=4)
    assert results(broker.update(1, 0)) == [(1, True)]
    assert results(broker.update(2, 2)) == [(2, True)]
    assert len(group.members) == 4


def test_deleted_and_created_again() -> None:
    broker, group = watching(count=2)
    broker.refused = {part(0): "TopicNotFound", part(1): "TopicNotFound"}
    for number in range(2):
        broker.send("close_producer", producer_id=number, request_id=2**64 - 1)
    assert results(broker.update(1, 0)) == [(1, True)]
    assert broker.wait_serving(60.0) == []
    assert group.error is None
    broker.refused, broker.attached = {part(1): "TopicNotFound"}, []
    assert results(broker.update(2, 1)) == [(2, True)]
    assert broker.attached == [part(0)]  # at once, not at the end of its pause
    broker.refused = {}
    assert results(broker.update(3, 3)) == [(3, True)]
    assert sorted(broker.attached) == [part(0), part(1), part(2)]


# The application's listener


def test_the_listener_is_told_of_each_success_and_each_update() -> None:
    heard: Heard = []
    broker, _, (request,) = producing(partitions_update_listener=lambda topics, counts: heard.append((topics, counts)))
    assert heard == []
    broker.watched(request, 2)
    broker.update(1, 3)
    broker.update(1, 3)
    assert heard == [((TOPIC,), (2,)), ((TOPIC,), (3,))]


def test_a_listener_that_raises_fails_the_update() -> None:
    def listener(topics: tuple[str, ...], counts: tuple[int, ...]) -> None:
        heard.append(counts)
        if counts == (3,) and heard.count((3,)) < 3:
            raise RuntimeError("not yet")

    heard: list[tuple[int, ...]] = []
    broker, group = watching(partitions_update_listener=listener)
    assert [results(broker.update(1, 3)) for _ in range(4)] == [[(1, False)], [(1, False)], [(1, True)], [(1, True)]]
    assert heard == [(2,), (3,), (3,), (3,)]
    assert len(group.members) == 3


def with_a_slow_listener() -> tuple[Broker, list[Pending[None]]]:
    """Return a broker that has told of two partitions, and what the listener has not done yet."""
    pending: list[Pending[None]] = []

    def listener(topics: tuple[str, ...], counts: tuple[int, ...]) -> Pending[None]:
        pending.append(Pending(broker_of[0].core.scheduler))
        return pending[-1]

    broker_of: list[Broker] = []
    broker, _, (request,) = producing(partitions_update_listener=listener)
    broker_of.append(broker)
    broker.watched(request, 2)
    return broker, pending


def test_a_slow_listener_is_waited_for() -> None:
    broker, pending = with_a_slow_listener()
    assert broker.update(1, 3) == []
    assert broker.update(2, 4) == []
    broker.begin(pending[0].succeed, None)
    assert broker.serve() == []
    broker.begin(pending[1].succeed, None)
    assert results(broker.serve()) == [(2, True)]  # pip247.client.newest-only


def test_a_producer_that_its_listener_closes() -> None:
    groups: list[PartitionedProducer] = []
    broker, group, (request,) = producing(partitions_update_listener=lambda topics, counts: groups[0].close() and None)
    groups.append(group)
    assert kinds(broker.watched(request, 2)) == ["WatchPartitionUpdateClose"]
    assert broker.wait_serving(120.0) == []


# Without a watcher


@pytest.mark.parametrize("make", [producing, consuming])
@pytest.mark.parametrize(("flags", "choices"), [({}, {}), (FLAGS, {"enable_notification_for_partition_update": False})])
def test_without_the_flag_or_with_the_setting_off_it_polls(make: Callable[..., Any], flags: Any, choices: Any) -> None:
    broker, group, others = make(2, flags, **choices)
    assert others == []
    assert broker.wait_serving(59.9) == []
    (poll,) = broker.wait_serving(0.2)
    assert (kinds([poll]), poll.topic) == (["PartitionedTopicMetadata"], TOPIC)
    broker.send("partitionMetadataResponse", request_id=poll.request_id, partitions=5, response="Success")
    assert broker.serve() == []
    assert len(group.members) == 5
    (poll,) = broker.wait_serving(60.0)
    broker.send("partitionMetadataResponse", request_id=poll.request_id, error="TopicNotFound", message="no", response="Failed")
    assert broker.wait_serving(59.0) == []
    assert kinds(broker.wait_serving(1.1)) == ["PartitionedTopicMetadata"]


def test_the_interval_is_an_option() -> None:
    broker, _, _ = producing(flags={}, auto_update_partitions_interval=5.0)
    assert kinds(broker.wait_serving(5.1)) == ["PartitionedTopicMetadata"]
    with pytest.raises(ValueError, match="auto_update_partitions_interval"):
        ConsumerOptions("s", auto_update_partitions_interval=0)


@pytest.mark.parametrize(("count", "choices"), [(0, {}), (2, {"auto_update_partitions": False})])
def test_without_partitions_or_auto_update_it_neither_watches_nor_polls(count: int, choices: Any) -> None:
    broker, _, others = producing(count, **choices)
    assert (others, broker.wait_serving(200.0)) == ([], [])


# Connections that come and go


def test_after_a_cut_it_watches_again_and_versions_start_again() -> None:
    broker, group = watching()
    broker.update(7, 3)
    (request,) = broker.reconnect(FLAGS)
    assert (request.watcher_id, list(request.topics)) == (0, [TOPIC])
    broker.watched(request, 4)
    assert len(group.members) == 4
    assert results(broker.update(1, 5)) == [(1, True)]


def test_an_older_broker_after_a_newer_one_gets_no_command_of_the_proposal() -> None:
    broker, group = watching()
    assert broker.reconnect({}) == []
    others = broker.wait_serving(130.0)
    assert set(kinds(others)) == {"PartitionedTopicMetadata"}
    broker.begin(group.close)
    assert broker.serve() == []


def test_closing_closes_the_watcher() -> None:
    broker, group = watching(consuming)
    broker.begin(group.close)
    (closing,) = broker.serve()
    assert (kinds([closing]), closing.watcher_id) == (["WatchPartitionUpdateClose"], 0)
    assert broker.update(1, 5) == []  # crosses the close: pip247.client.unknown-id
    broker.send("success", request_id=closing.request_id)
    assert broker.wait_serving(200.0) == []


def test_closing_while_an_update_is_applied() -> None:
    broker, group = watching()
    broker.send("partitionUpdate", version=1, watcher_id=0, topic_with_partition=[{"topic": TOPIC, "partition": 4}])
    closing = broker.begin(group.close)
    assert kinds(broker.serve()) == ["WatchPartitionUpdateClose"]
    assert closing.done
    assert len(group.members) == 2
    assert broker.wait_serving(120.0) == []


def test_unsubscribing_ends_the_watch_first() -> None:
    broker, group = watching(consuming)
    broker.begin(lambda: broker.core.scheduler.spawn(group.unsubscribe()))
    assert broker.expect("watchPartitionUpdateClose")
    broker.update(1, 5)
    assert group.members == {}


def test_nothing_of_the_proposal_is_sent_without_the_flag_whatever_happens() -> None:
    broker, group, others = consuming(2, {})
    others += broker.update(1, 4)
    broker.send("watchPartitionUpdateSuccess", request_id=99, watcher_id=0, topic_with_partition=[{"topic": TOPIC, "partition": 4}])
    others += broker.serve() + broker.reconnect({}) + broker.wait_serving(100.0)
    broker.begin(group.close)
    others += broker.serve()
    assert not PIP_247 & {name[0].lower() + name[1:] for name in kinds(others)}
    assert len(group.members) == 0
