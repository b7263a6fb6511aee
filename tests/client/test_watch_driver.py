"""The one driver of a client's watches, with a machine that no proposal has, against a scripted broker."""

import asyncio
from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from refimpl.client import ClientCore, ClientOptions, ConsumerOptions
from refimpl.client.watch_driver import WatchDriver
from refimpl.net.client import Client
from refimpl.wire import command_name
from refimpl.wire.pulsar_api_pb2 import BaseCommand, CommandPartitionedTopicMetadata, CommandPartitionUpdateResult, FeatureFlags
from tests.fakes.scripted_broker import FLAGS, TOPIC, ScriptedBroker

PERIOD = 10.0


class Counting:
    """Asks for the number of partitions on each connection and once in a period, and says a word when it is closed."""

    def __init__(self, *, pauses: bool = False) -> None:
        self.is_closed = False
        self.heard: list[str] = []
        self.losses = 0
        self._pauses = pauses  # before it wants a connection again, a period long
        self._is_connected = False
        self._to_send: list[Message] = []
        self._deadline: float | None = None

    @property
    def address(self) -> tuple[str, int]:
        return "watcher_id", 3

    @property
    def wants_connection(self) -> bool:
        return not self.is_closed and not self._is_connected and self._deadline is None

    def connected(self, flags: FeatureFlags | None, now: float) -> None:
        assert flags is not None
        self._is_connected = True
        if flags.supports_topic_watchers:
            self._ask(now)

    def disconnected(self, now: float) -> None:
        self.losses += 1
        self._is_connected = False
        self._to_send = []
        self._deadline = now + PERIOD if self._pauses else None

    def received(self, command: BaseCommand, now: float) -> None:
        self.heard.append(command_name(command))

    def commands_to_send(self, new_request_id: Callable[[], int], now: float) -> list[Message]:
        messages, self._to_send = self._to_send, []
        for message in messages:
            if isinstance(message, CommandPartitionedTopicMetadata):
                message.request_id = new_request_id()
        return messages

    def next_deadline(self) -> float | None:
        return self._deadline

    def tick(self, now: float) -> None:
        self._deadline = None
        if self._is_connected:
            self._ask(now)

    def close(self) -> None:
        self.is_closed, self._deadline = True, None
        if self._is_connected:
            self._to_send = [CommandPartitionUpdateResult(version=1, success=True, watcher_id=3)]

    def _ask(self, now: float) -> None:
        self._to_send = [CommandPartitionedTopicMetadata(topic=TOPIC)]
        self._deadline = now + PERIOD


def driven(machine: Counting, **connected: object) -> tuple[ScriptedBroker, WatchDriver[Counting], list[float]]:
    """Return a broker that the machine is connected to, its driver, and the times at which there were news."""
    broker, news = ScriptedBroker(), []
    driver = broker.begin(lambda: broker.core.watch(machine, lambda: news.append(broker.now)))
    broker.accept(**connected)
    return broker, driver, news


def test_any_machine_is_connected_heard_and_ticked() -> None:
    machine = Counting()
    broker, _, news = driven(machine)
    broker.answer_partitions(2)
    assert machine.heard == ["partitionMetadataResponse"]
    broker.send("partitionUpdate", version=1, watcher_id=3)
    broker.send("partitionUpdate", version=1, watcher_id=4)
    assert machine.heard == ["partitionMetadataResponse", "partitionUpdate"]
    assert broker.sent() == []
    told = len(news)
    broker.wait(PERIOD)
    assert broker.sent() == ["partitionMetadata"]
    assert news[told:] == [PERIOD]


def test_a_refusal_is_an_answer_and_is_noted() -> None:
    machine = Counting()
    broker, _, _ = driven(machine)
    request = broker.expect("partitionMetadata")
    broker.send("partitionMetadataResponse", request_id=request.request_id, response="Failed", error="TopicNotFound", message="no")
    assert machine.heard == ["partitionMetadataResponse"]
    assert "a watch: CommandPartitionedTopicMetadata is refused: TopicNotFound: no" in broker.log


def test_a_close_is_told_to_the_broker_and_ends_all() -> None:
    machine = Counting()
    broker, driver, _ = driven(machine)
    broker.answer_partitions(2)
    broker.begin(driver.close)
    broker.begin(driver.close)
    assert broker.sent() == ["partitionUpdateResult"]
    broker.send("partitionUpdate", version=2, watcher_id=3)
    assert machine.heard == ["partitionMetadataResponse"]
    broker.cut()
    broker.wait(60.0)
    assert (broker.dialled(), machine.losses) == ([], 0)


def test_a_close_while_it_dials() -> None:
    machine = Counting()
    broker = ScriptedBroker()
    driver = broker.begin(lambda: broker.core.watch(machine))
    broker.begin(driver.close)
    broker.accept()
    assert broker.sent() == []


def test_a_client_that_is_closed_closes_its_watches() -> None:
    machine = Counting()
    broker, _, _ = driven(machine)
    broker.answer_partitions(2)
    assert broker.begin(broker.core.close).done
    assert machine.is_closed
    assert broker.sent() == ["partitionUpdateResult"]


def pauses_of(broker: ScriptedBroker, count: int) -> list[float]:
    """Let the broker end connections before the first answer; return how long the client stays away each time."""
    found = []
    for _ in range(count):
        broker.cut()
        start = broker.now
        while (deadline := broker.core.next_deadline()) is not None:
            broker.now = deadline
            broker.core.tick(broker.now)
            if broker.core.pool.connections:
                break
        found.append(broker.now - start)
        broker.accept()
    return found


LONGEST = [0.1, 0.2, 0.4, 0.8, 1.6]


def test_pauses_grow_until_the_broker_answers() -> None:
    broker, _, _ = driven(Counting())
    assert all(0.9 * most <= pause <= most for pause, most in zip(pauses_of(broker, 5), LONGEST, strict=True))
    broker.answer_partitions(2)
    assert 0.09 <= pauses_of(broker, 1)[0] <= 0.1


def test_the_pauses_of_a_pattern_consumer_grow_until_the_broker_answers_its_requests() -> None:
    """That it says where the pattern belongs to is not enough: it may end each connection when it is asked for a list."""
    broker = ScriptedBroker()
    broker.begin(lambda: broker.core.subscribe_pattern("persistent://public/default/.*", ConsumerOptions("s")))
    broker.accept()
    found = []
    for _ in range(4):
        broker.answer_lookup()
        assert broker.sent() == ["getTopicsOfNamespace"]
        found += pauses_of(broker, 1)
    assert all(0.9 * most <= pause <= most for pause, most in zip(found, LONGEST[:4], strict=True))


def test_a_broker_that_is_asked_nothing_can_not_refuse() -> None:
    broker, _, _ = driven(Counting(), feature_flags={})
    for _ in range(3):
        broker.cut()
        broker.wait(0.1)
        broker.accept(feature_flags={})


def test_a_machine_with_pauses_of_its_own_is_not_made_to_wait_longer() -> None:
    machine = Counting(pauses=True)
    broker, _, _ = driven(machine)
    for _ in range(3):
        broker.cut()
        broker.wait(PERIOD - 0.001)
        assert broker.dialled() == []
        broker.wait(0.001)
        broker.accept(feature_flags=FLAGS)
        assert broker.sent() == ["partitionMetadata"]


@pytest.mark.parametrize("pauses", [False, True])
def test_a_connection_that_can_not_be_made_is_a_loss(pauses: bool) -> None:
    machine = Counting(pauses=pauses)
    broker = ScriptedBroker(ClientOptions(connection_timeout=1.0))
    driver = broker.begin(lambda: broker.core.watch(machine))
    broker.wait(1.0)
    assert (machine.losses, "did not take the connection" in str(driver.reason)) == (1, True)
    broker.dialled()
    broker.wait(PERIOD)
    broker.dialled()
    losses = machine.losses
    broker.begin(broker.core.pool.close)
    broker.wait(600.0)
    assert broker.dialled() == []
    assert machine.losses == losses + 1


def test_an_application_for_asyncio_has_its_own_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Counting] = []
    monkeypatch.setattr(ClientCore, "watch", lambda core, machine, on_news: begun.append(machine) or WatchDriver(core, machine, on_news))

    async def use() -> None:
        told = asyncio.Event()
        async with Client("pulsar://broker:6650") as client:
            watch = client.watch(Counting(), told.set)
            watch.flush()
            await asyncio.wait_for(told.wait(), 10)
            watch.close()
            assert watch.machine.is_closed

    asyncio.run(use())
    assert len(begun) == 1
