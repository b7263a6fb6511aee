"""Entry filters in the broker: verdicts of all kinds, filters that fail, and filters of other distributions (PIP-191)."""

from importlib.metadata import EntryPoint

import pytest

from refimpl.broker import Broker, Configuration
from refimpl.net.embedded import EmbeddedBroker
from refimpl.proposals.uniform_batches import (
    BUILT_IN,
    EntryVerdict,
    UniformBatchesExtension,
    with_entry_points,
)
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe
from tests.fakes.broker_peer import Peer
from tests.fakes.entry_filter_world import LOUD, Moody, World, deliveries, key_values, send, send_named, take
from tests.samples.uniform_batches import plain_entry

# Filters of one's own


def test_filters_are_asked_behind_the_built_in_one_until_one_does_not_accept() -> None:
    world = World()
    consumer = world.subscribed({**LOUD, "entry-filter.region": "us"}, 10)
    producer = world.producing()
    send_named(producer, "a", region="eu")
    send_named(producer, "b", region="us")
    send_named(producer, "c", region="us", verdict="reject")
    assert consumer.entries() == [1]
    assert world.asked == ["b", "c"]


@pytest.mark.parametrize("topic", ["persistent://public/default/t-partition-3", "non-persistent://public/default/t"])
def test_a_filter_sees_what_the_text_lists(topic) -> None:
    class Looks:
        def judge(self, context):
            seen.append(context)

    seen = []
    broker = Broker(Configuration(), plugins={"pip191": {"looks": lambda properties: Looks() if "looks" in properties else None}})
    broker.admin.create_partitioned_topic("persistent://public/default/t", 4)
    consumer = Peer(broker)
    ask = {"subscription": "s", "subType": "Shared", "consumer_id": 5, "consumer_name": "c", "request_id": 1}
    consumer.send("subscribe", topic=topic, subscription_properties=key_values({"looks": ""}), **ask)
    consumer.flow(10, consumer_id=5)
    producer = Peer(broker)
    producer.producer(topic)
    for text in (b"1", b"2"):
        send(producer, plain_entry({"region": "eu"}, text))
    assert [context.entry.data for context in seen] == [plain_entry({"region": "eu"}, text) for text in (b"1", b"2")]
    context = seen[1]
    stored = topic.startswith("persistent")
    assert (context.message_id.entryId, context.message_id.partition) == ((1, 3) if stored else (0, -1))
    assert {one.key: one.value for one in context.metadata.properties} == {"region": "eu"}
    assert (context.subscription.name, context.subscription.properties) == ("s", {"looks": ""})
    assert context.subscription.type == CommandSubscribe.Shared
    assert (context.subscription.topic.name.full, context.consumer.consumer_id, context.consumer.name) == (topic, 5, "c")
    assert context.consumer.subscription is context.subscription


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "Key_Shared"])
def test_an_entry_that_is_put_off_comes_later_and_alone(kind) -> None:
    world = World()
    consumer = world.subscribed(LOUD, 10, subType=kind)
    producer = world.producing()
    send_named(producer, "r", verdict="later", times="3")
    send_named(producer, "a", "b", "c")
    assert deliveries(consumer) == [(1, 0), (2, 0), (3, 0)], "it holds up nothing"
    for _ in range(2):
        world.wait(1.0)
        assert deliveries(consumer) == []
    world.wait(0.999)
    assert world.asked.count("r") == 3
    world.wait(0.001)
    assert deliveries(consumer) == [(0, 3)]
    assert world.counts() == (7, 4, 0, 3, 0)
    assert world.stats()["consumers"][0]["availablePermits"] == 6, "each message cost one permit"
    world.wait(20.0)
    assert deliveries(consumer) == []
    consumer.acknowledge(0, 1, 2, 3)
    assert world.stats()["msgBacklog"] == 0


def test_the_delay_is_a_setting() -> None:
    world = World(dispatcherEntryFilterRescheduledMessageDelay="250")
    consumer = world.subscribed(LOUD, 10)
    send_named(world.producing(), "r", verdict="later", times="2")
    world.wait(0.5)
    assert deliveries(consumer) == [(0, 2)]
    assert world.broker.admin.runtime_configuration()["dispatcherEntryFilterRescheduledMessageDelay"] == "250"
    with pytest.raises(ValueError, match="dispatcherEntryFilterRescheduledMessageDelay is a whole number from 1"):
        Configuration.from_settings({"dispatcherEntryFilterRescheduledMessageDelay": "0"})


def test_an_entry_that_is_due_waits_for_permits_and_for_a_consumer() -> None:
    world = World()
    consumer = world.subscribed(LOUD, 1)
    producer = world.producing()
    send_named(producer, "r", verdict="later", times="1")
    send_named(producer, "a")
    assert deliveries(consumer) == [(1, 0)]
    world.wait(5.0)
    assert world.asked == ["r", "a"]
    assert take(consumer, 1) == [0]
    send_named(producer, "x", verdict="later", times="1")
    consumer.send("flow", consumer_id=1, messagePermits=1)
    consumer.acknowledge(0, 1)
    consumer.session.eof(world.broker.now)
    world.wait(5.0)
    second = world.subscribed({})
    assert second.flow(1) == ["x"]


def test_each_entry_is_put_off_by_itself() -> None:
    world = World()
    consumer = world.subscribed(LOUD, 10)
    producer = world.producing()
    send_named(producer, "r", verdict="later", times="2")
    world.wait(0.4)
    send_named(producer, "s", verdict="later", times="1")
    world.wait(1.0)
    assert deliveries(consumer) == [(1, 1)]
    world.wait(0.6)
    assert deliveries(consumer) == [(0, 2)]


def test_what_is_acknowledged_while_it_is_put_off_is_gone() -> None:
    world = World()
    consumer = world.subscribed(LOUD, 10)
    producer = world.producing()
    send_named(producer, "r", "s", verdict="later")
    send_named(producer, "a")
    world.wait(1.0)
    assert deliveries(consumer) == [(2, 0)]
    consumer.acknowledge(2, kind="Cumulative")
    assert world.stats()["msgBacklog"] == 0
    world.wait(5.0)
    assert deliveries(consumer) == []
    assert world.asked.count("r") == 2, "it is not judged any more"
    assert world.broker.next_deadline() is None or world.broker.next_deadline() > world.broker.now


def test_seek_forgets_what_was_put_off() -> None:
    world = World()
    consumer = world.subscribed(LOUD, 10)
    producer = world.producing()
    send_named(producer, "r", verdict="later", times="1")
    consumer.send("seek", consumer_id=1, request_id=5, message_id={"ledgerId": 2**63 - 1, "entryId": 2**63 - 1})
    second = world.subscribed({}, 10)
    world.wait(2.0)
    assert second.entries() == []
    send_named(producer, "later", verdict="none")
    assert second.entries() == [1]


def test_on_a_non_persistent_topic_what_is_put_off_is_dropped() -> None:
    world = World()
    topic = "non-persistent://public/default/t"
    consumer = world.subscribed(LOUD, 10, topic=topic)
    send_named(world.producing(topic), "r", verdict="later", times="1")
    world.wait(5.0)
    assert consumer.entries() == []
    assert world.counts(topic=topic) == (1, 0, 0, 1, 0)


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Key_Shared"])
def test_a_filter_that_fails_delivers_is_counted_and_logged_once(kind) -> None:
    world = World()
    consumer = world.subscribed(LOUD, 10, subType=kind)
    producer = world.producing()
    send_named(producer, "a", times="not a number")
    send_named(producer, "b", verdict="nonsense")
    send_named(producer, "c")
    assert consumer.entries() == [0, 1, 2]
    assert world.counts() == (3, 3, 0, 0, 2)
    assert len([line for line in world.lines if "entry filter Moody failed" in line]) == 1


def test_a_factory_that_fails_refuses_the_subscription_and_nothing_else() -> None:
    def broken(properties):
        raise RuntimeError("no such mood")

    broker = Broker(plugins={"pip191": {**BUILT_IN, "Broken": broken}})
    peer = Peer(broker)
    refused = peer.subscribe()
    assert (refused.error, refused.message) == (22, "Entry filter Broken: no such mood")
    assert not peer.session.closing


def test_a_filter_is_made_once_for_each_subscription() -> None:
    world = World()
    consumer = world.subscribed(LOUD, 10, subType="Shared")
    assert len(world.moody) == 1, "what was made to check the properties is what judges"
    send_named(world.producing(), "a")
    assert (consumer.entries(), world.asked) == ([0], ["a"])
    world.subscribed(LOUD, subType="Shared")
    assert len(world.moody) == 1, "the subscription has its filter"
    world.subscribed(LOUD, subscription="second")
    assert len(world.moody) == 2


# Filters of other distributions


class OnlyNamed:
    """Stands for a filter in somebody else's package."""

    @classmethod
    def of(cls, properties):
        return cls() if properties.get("only-named") == "yes" else None

    def judge(self, context):
        return EntryVerdict.ACCEPT if context.metadata.properties else EntryVerdict.REJECT


GROUP = "pulsar_conformance.entry_filters"


def test_entry_points_add_filters_and_those_that_fail_harm_nobody() -> None:
    lines: list[str] = []
    points = [EntryPoint(name, f"tests.broker.test_entry_filters:{value}", GROUP) for name, value in [
        ("only-named", "OnlyNamed.of"), ("missing", "Nothing"), ("text", "GROUP"), ("PropertyEntryFilter", "OnlyNamed.of"),
    ]]  # fmt: skip
    found = with_entry_points(points, lines.append)
    assert list(found) == ["PropertyEntryFilter", "only-named"]
    assert found["PropertyEntryFilter"] is BUILT_IN["PropertyEntryFilter"]
    assert [line.split(" ")[2] for line in lines] == ["PropertyEntryFilter", "missing", "text"]


def test_a_served_broker_has_the_filters_of_installed_distributions(tmp_path, monkeypatch) -> None:
    package = tmp_path / "others-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{GROUP}]\nonly-named = tests.broker.test_entry_filters:OnlyNamed.of\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with EmbeddedBroker(entry_filters={"Moody": Moody.factory([])}) as served:
        assert list(served.call(lambda broker: broker.extension(UniformBatchesExtension).entry_filters)) == [
            "PropertyEntryFilter",
            "only-named",
            "Moody",
        ]
