"""Entry filters in the broker: PIP-191. What filters say is tested in tests/proposals; here is what becomes of the entries."""

import json
from importlib.metadata import EntryPoint

import pytest
from broker_peer import TOPIC, Peer
from uniform_batches_samples import EXAMPLE, SETTING, encode, golden_entry, key_values, plain_entry

from refimpl.broker import AdminRefused, Broker, Configuration
from refimpl.broker.broker import PROPOSALS
from refimpl.broker.rest import AdminRequest, handle
from refimpl.net.embedded import EmbeddedBroker
from refimpl.proposals.uniform_batches import (
    BUILT_IN,
    UniformBatcher,
    Verdict,
    allowed_values,
    with_entry_points,
)
from refimpl.store import MemoryStore
from refimpl.wire import parse_payload

REJECT_EU = {"entry-filter.region": "us"}
LOUD = {"mood": "loud"}
"""Asks for the filter `Moody`."""


class Moody:
    """Says of each entry what its header property `verdict` says, so many times; afterwards accepts."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @classmethod
    def factory(cls, made: list["Moody"]):
        def of(properties):
            if properties.get("mood") != "loud":
                return None
            made.append(cls())
            return made[-1]

        return of

    def judge(self, metadata):
        header = {one.key: one.value for one in metadata.properties}
        name = header.get("name", "")
        self.calls.append(name)
        if self.calls.count(name) > int(header.get("times", "1000")):
            return None
        return {"reject": Verdict.REJECT, "later": Verdict.RESCHEDULE, "none": None, "nonsense": "yes"}.get(
            header.get("verdict"), Verdict.ACCEPT
        )


class World:
    """A broker with the filter `Moody`, a producer, and what is needed to look at a subscription."""

    def __init__(self, store=None, *, proposals=PROPOSALS, log=None, **settings: str) -> None:
        self.moody: list[Moody] = []
        self.lines: list[str] = []
        self.broker = Broker(
            Configuration.from_settings(settings),
            store=store or MemoryStore(),
            proposals=proposals,
            log=self.lines.append,
            entry_filters={**BUILT_IN, "Moody": Moody.factory(self.moody)},
        )

    def producing(self, topic=TOPIC) -> Peer:
        peer = Peer(self.broker)
        peer.producer(topic)
        return peer

    def subscribed(self, properties=None, permits=0, *, topic=TOPIC, **fields) -> Peer:
        peer = Peer(self.broker)
        peer.send(
            "subscribe",
            topic=topic,
            subscription_properties=key_values(properties or {}),
            **{"subscription": "s", "subType": "Exclusive", "consumer_id": 1, "request_id": 2, "initialPosition": "Earliest", **fields},
        )
        assert peer.answers()[0].DESCRIPTOR.name == "CommandSuccess"
        if permits:
            peer.flow(permits)
        return peer

    def stats(self, name="s", topic=TOPIC) -> dict:
        return self.broker.admin.topic_stats(topic)["subscriptions"][name]

    def counts(self, name="s", topic=TOPIC) -> tuple[int, ...]:
        """Processed, accepted, rejected, rescheduled, failed."""
        kinds = ("Processed", "Accepted", "Rejected", "Rescheduled", "Failed")
        return tuple(self.stats(name, topic)[f"filter{kind}MsgCount"] for kind in kinds)

    @property
    def asked(self) -> list[str]:
        """The entries at which the filter `Moody` of the newest subscription was asked."""
        return self.moody[-1].calls

    def wait(self, seconds: float) -> None:
        end = self.broker.now + seconds
        while (deadline := self.broker.next_deadline()) is not None and deadline <= end:
            self.broker.tick(deadline)
        self.broker.tick(end)


def send(peer: Peer, entry: bytes, messages: int = 1) -> None:
    peer.send("send", entry, producer_id=1, sequence_id=0, num_messages=messages)
    peer.frames()


def send_named(peer: Peer, *names: str, **header: str) -> None:
    for name in names:
        send(peer, plain_entry({"name": name, **header}, name.encode()))


def send_example(peer: Peer) -> None:
    """The eight messages of the text, as a producer with the setting sends them."""
    batcher: UniformBatcher = UniformBatcher(allowed_values(SETTING), delay=1.0)
    batches = [one for number, (text, of) in enumerate(EXAMPLE) for one in batcher.add((number, text, of), of, 1, 0.0)]
    for batch in [*batches, *batcher.flush()]:
        send(peer, encode(batch), len(batch.items))


def deliveries(peer: Peer) -> list[tuple[int, int]]:
    """Entry and redelivery count of each MESSAGE."""
    found = [frame.command.message for frame in peer.frames() if frame.command.HasField("message")]
    return [(one.message_id.entryId, one.redelivery_count) for one in found]


def take(peer: Peer, permits: int) -> list[int]:
    peer.send("flow", consumer_id=1, messagePermits=permits)
    return peer.entries()


# The built-in filter


@pytest.mark.parametrize(
    ("properties", "entries"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"entry-filter-missing": "reject"}, [0, 1, 2, 3, 4]),
        ({"Entry-Filter.region": "eu"}, [0, 1, 2, 3, 4]),
        ({"entry-filter.region": "eu"}, [0, 1]),
        ({"entry-filter.region": "eu,us"}, [0, 1, 2, 3, 4]),
        ({"entry-filter.version": "1"}, [0, 1, 2, 4]),
        ({"entry-filter.version": "1", "entry-filter-missing": "reject"}, [1, 2]),
        ({"entry-filter.version": "1", "entry-filter.region": "us"}, [2, 4]),
    ],
)
@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared"])
def test_the_example_of_the_text(properties, entries, kind) -> None:
    world = World()
    producer, consumer = world.producing(), world.subscribed(properties, subType=kind)
    send_example(producer)
    assert consumer.entries() == [], "an entry is judged once there are permits"
    assert world.counts()[0] == 0
    assert take(consumer, 100) == entries
    rejected = [0, 1, 2, 3, 4]
    for entry in entries:
        rejected.remove(entry)
    sizes = [2, 2, 1, 1, 2]
    consumer.acknowledge(*entries)
    assert world.stats()["msgBacklog"] == 0
    asked = any(name.startswith("entry-filter.") for name in properties)
    accepted = sum(sizes[entry] for entry in entries)
    assert world.counts() == ((8, accepted, 8 - accepted, 0, 0) if asked else (0, 0, 0, 0, 0))


def test_a_subscription_that_is_not_durable_and_a_non_persistent_topic_are_filtered() -> None:
    world = World()
    send_example(world.producing())
    reader = world.subscribed(REJECT_EU, durable=False, start_message_id={"ledgerId": 0, "entryId": 2**64 - 1})
    assert take(reader, 10) == [2, 3, 4]
    topic = "non-persistent://public/default/t"
    live = world.subscribed(REJECT_EU, permits=3, topic=topic)
    producer = world.producing(topic)
    send_example(producer)
    frames = [frame for frame in live.frames() if frame.command.HasField("message")]
    assert [frame.payload().metadata.sequence_id for frame in frames] == [4, 5, 6], "what was rejected cost no permits"
    assert world.counts(topic=topic) == (8, 4, 4, 0, 0)
    send_example(producer)
    assert live.frames() == []
    assert world.counts(topic=topic)[0] == 8, "without permits nothing is judged"


def test_what_is_rejected_is_acknowledged_costs_nothing_and_is_not_unacknowledged() -> None:
    world = World()
    producer, consumer = world.producing(), world.subscribed(REJECT_EU, subType="Shared")
    for region in ("us", "eu", "eu", "us", "eu", "us", "eu"):
        send(producer, plain_entry({"region": region}))
    assert take(consumer, 2) == [0, 3]
    assert world.stats()["unackedMessages"] == 2
    assert world.stats()["msgBacklog"] == 5, "0, 3, and 4 to 6, which nobody has asked for"
    assert take(consumer, 1) == [5]
    assert take(consumer, 1) == []
    assert world.stats()["consumers"][0]["availablePermits"] == 1, "entry 6 was rejected, the permit is still there"
    consumer.acknowledge(0, 3, 5)
    assert world.stats()["msgBacklog"] == 0


def test_batches_cost_and_count_their_messages() -> None:
    world = World()
    producer, consumer = world.producing(), world.subscribed(REJECT_EU)
    send(producer, plain_entry({"region": "eu"}, num_messages_in_batch=5), 5)
    send(producer, plain_entry({"region": "us"}, num_messages_in_batch=3), 3)
    send(producer, plain_entry({"region": "us"}))
    assert take(consumer, 3) == [1]
    assert take(consumer, 1) == [2]
    assert world.counts() == (9, 4, 5, 0, 0)


def test_what_is_delivered_again_is_judged_again() -> None:
    world = World()
    producer, consumer = world.producing(), world.subscribed({**LOUD, **REJECT_EU}, subType="Shared")
    send_named(producer, "a", verdict="none")
    assert take(consumer, 5) == [0]
    consumer.send("redeliverUnacknowledgedMessages", consumer_id=1)
    assert deliveries(consumer) == [(0, 1)]
    assert world.asked == ["a", "a"]
    assert world.counts() == (2, 2, 0, 0, 0)


def test_other_subscriptions_are_not_touched() -> None:
    world = World()
    filtered = world.subscribed(REJECT_EU, 10)
    other = world.subscribed({"entry-filter.region": "eu"}, 10, subscription="other")
    plain = world.subscribed({}, 10, subscription="plain")
    send_example(world.producing())
    assert (filtered.entries(), other.entries(), plain.entries()) == ([2, 3, 4], [0, 1], [0, 1, 2, 3, 4])


# Entries of stock clients


@pytest.mark.parametrize(
    ("entry", "messages", "default", "strict"),
    [
        ("send-python-batch-of-3", 3, True, False),
        ("send-python-batch-of-1", 1, True, False),
        ("send-python-single", 1, False, False),
        ("send-java-batch-of-2", 2, True, False),
        ("message-java-batch-of-1", 1, False, False),
        ("message-python-8-lz4", 8, True, False),
        ("message-java-3-zstd", 3, True, False),
    ],
)
def test_entries_that_stock_clients_wrote_arrive_untouched_or_not_at_all(entry, messages, default, strict) -> None:
    """All of them have region=eu somewhere, and all but the unbatched ones an empty header."""
    world = World()
    octets = golden_entry(entry)
    consumers = [
        world.subscribed({"entry-filter.region": "us"}, 10, subscription="default"),
        world.subscribed({"entry-filter.region": "us", "entry-filter-missing": "reject"}, 10, subscription="strict"),
    ]
    send(world.producing(), octets, messages)
    for consumer, arrives in zip(consumers, (default, strict), strict=True):
        frames = [frame.payload_octets for frame in consumer.frames() if frame.command.HasField("message")]
        assert frames == ([octets] if arrives else [])


def test_a_batch_whose_header_is_its_first_message_goes_with_it() -> None:
    """As Go clients write batches."""
    world = World()
    consumer = world.subscribed(REJECT_EU, 10)
    producer = world.producing()
    stock = parse_payload(golden_entry("message-java-8-plain"))
    for region in ("eu", "us"):
        send(producer, plain_entry({"region": region}, stock.body, num_messages_in_batch=8), 8)
    assert consumer.entries() == [1]
    assert world.counts() == (16, 8, 8, 0, 0)


# The properties of a subscription


@pytest.mark.parametrize("later", [{}, {"entry-filter.region": "us"}, {"entry-filter.": "x"}, {"entry-filter-missing": "maybe"}])
def test_the_properties_of_the_first_subscribe_count(later) -> None:
    world = World()
    first = world.subscribed({"entry-filter.region": "eu"}, subType="Shared")
    second = world.subscribed(later, 10, subType="Shared")
    send_example(world.producing())
    assert second.entries() == [0, 1]
    first.session.eof(world.broker.now)
    second.session.eof(world.broker.now)
    assert world.subscribed(later, 10, subType="Exclusive").entries() == []
    assert world.stats()["subscriptionProperties"] == {"entry-filter.region": "eu"}


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"entry-filter.": "x"}, "entry-filter."),
        ({"entry-filter-missing": ""}, "entry-filter-missing"),
        ({"entry-filter-missing": "Reject"}, "Reject"),
    ],
)
def test_properties_that_cannot_be_used_create_nothing(properties, named) -> None:
    world = World()
    peer = Peer(world.broker)
    refused = peer.subscribe(subscription_properties=key_values(properties))
    assert (refused.DESCRIPTOR.name, refused.error) == ("CommandError", 22)
    assert named in refused.message
    assert world.broker.persistent_topics("public/default") == []
    assert peer.subscribe(subscription_properties=key_values(REJECT_EU)).DESCRIPTOR.name == "CommandSuccess"


def test_a_subscription_that_another_one_freed_is_checked_again() -> None:
    """A SUBSCRIBE that waited for the owner of its subscription creates it if it has been removed."""
    world = World()
    owner, peer = world.subscribed({}), Peer(world.broker)
    peer.send(
        "subscribe",
        topic=TOPIC,
        subscription="s",
        subType="Exclusive",
        consumer_id=1,
        request_id=2,
        subscription_properties=key_values({"entry-filter.": ""}),
    )
    world.broker.admin.delete_subscription(TOPIC, "s", force=True)
    owner.send("pong")
    answers = [one for one in peer.answers() if one.DESCRIPTOR.name == "CommandError"]
    assert [one.error for one in answers] == [22]
    assert world.broker.admin.subscriptions(TOPIC) == []


def test_ten_thousand_properties_are_served() -> None:
    world = World()
    consumer = world.subscribed({f"entry-filter.name-{number}": "x" for number in range(10_000)}, 10)
    producer = world.producing()
    send(producer, plain_entry({"name-77": "x"}))
    send(producer, plain_entry({"name-77": "y"}))
    assert consumer.entries() == [0]


def test_filters_are_there_after_a_restart_and_an_unload() -> None:
    world = World()
    world.subscribed(REJECT_EU).session.eof(world.broker.now)
    send_example(world.producing())
    after = World(world.broker.store)
    consumer = after.subscribed({}, 1)
    assert consumer.session.closing is False
    assert after.counts() == (5, 1, 4, 0, 0)
    after.broker.admin.unload_topic(TOPIC)
    assert after.subscribed({}, 10).texts() == []
    assert after.stats()["msgBacklog"] == 4
    assert after.counts() == (4, 4, 0, 0, 0), "counters begin anew"


def test_a_stored_subscription_whose_properties_cannot_be_used_loses_nothing() -> None:
    world = World(proposals=PROPOSALS - {"pip191"})
    world.subscribed({"entry-filter-missing": "Reject"}).session.eof(world.broker.now)
    send_example(world.producing())
    after = World(world.broker.store)
    assert take(after.subscribed({}), 10) == [0, 1, 2, 3, 4]
    assert after.counts() == (8, 8, 0, 0, 8)
    assert len([line for line in after.lines if "Reject" in line]) == 1


def test_a_broker_from_before_the_proposal_delivers_everything() -> None:
    world = World(proposals=PROPOSALS - {"pip191"})
    for properties in (REJECT_EU, {"entry-filter.": "x"}):
        name = f"s{len(properties['entry-filter.region']) if properties is REJECT_EU else 0}"
        consumer = world.subscribed({**properties, **LOUD}, 100, subscription=name)
        assert world.stats(name)["subscriptionProperties"] == {**properties, **LOUD}
        consumer.session.eof(world.broker.now)
    consumer = world.subscribed({}, 100, subscription="s2")
    send_example(world.producing())
    assert consumer.entries() == [0, 1, 2, 3, 4]
    assert world.moody == []


def test_the_admin_interface_creates_filtered_subscriptions() -> None:
    world = World()
    producer = world.producing()
    with pytest.raises(AdminRefused, match="entry-filter-missing") as refused:
        world.broker.admin.create_subscription(TOPIC, "s", (-1, -1), {"entry-filter-missing": "x"})
    assert refused.value.status == 412
    assert world.broker.admin.subscriptions(TOPIC) == []
    path = "/admin/v2/persistent/public/default/t/subscription/s"
    for properties, status in (({"entry-filter.": ""}, 412), ({"entry-filter.region": 1}, 400), (["x"], 400), (REJECT_EU, 204)):
        body = json.dumps({"ledgerId": -1, "entryId": -1, "properties": properties}).encode()
        assert handle(world.broker, AdminRequest("PUT", path, body=body), 0.0).status == status
    send_example(producer)
    assert take(world.subscribed({}), 100) == [2, 3, 4]


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


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared"])
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


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
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

    broker = Broker(entry_filters={**BUILT_IN, "Broken": broken})
    peer = Peer(broker)
    refused = peer.subscribe()
    assert (refused.error, refused.message) == (22, "Entry filter Broken: no such mood")
    assert not peer.session.closing


# Filters of other distributions


class OnlyNamed:
    """Stands for a filter in somebody else's package."""

    @classmethod
    def of(cls, properties):
        return cls() if properties.get("only-named") == "yes" else None

    def judge(self, metadata):
        return Verdict.ACCEPT if metadata.properties else Verdict.REJECT


GROUP = "pulsar_conformance.entry_filters"


def test_entry_points_add_filters_and_those_that_fail_harm_nobody() -> None:
    lines: list[str] = []
    points = [EntryPoint(name, f"test_broker_entry_filters:{value}", GROUP) for name, value in [
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
    (package / "entry_points.txt").write_text(f"[{GROUP}]\nonly-named = test_broker_entry_filters:OnlyNamed.of\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with EmbeddedBroker(entry_filters={"Moody": Moody.factory([])}) as served:
        assert list(served.call(lambda broker: broker.entry_filters)) == ["PropertyEntryFilter", "only-named", "Moody"]
