"""The built-in entry filter in the broker: what becomes of the entries, and of the properties that ask for it (PIP-191)."""

import json

import pytest

from refimpl.broker import AdminRefused
from refimpl.broker.broker import PROPOSALS
from refimpl.broker.rest import handle
from refimpl.proposals.administration import AdminRequest
from refimpl.wire import parse_payload
from tests.fakes.broker_peer import TOPIC, Peer
from tests.fakes.entry_filter_world import LOUD, REJECT_EU, World, deliveries, send, send_example, send_named, take
from tests.samples.uniform_batches import golden_entry, key_values, plain_entry

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
    data = golden_entry(entry)
    consumers = [
        world.subscribed({"entry-filter.region": "us"}, 10, subscription="default"),
        world.subscribed({"entry-filter.region": "us", "entry-filter-missing": "reject"}, 10, subscription="strict"),
    ]
    send(world.producing(), data, messages)
    for consumer, arrives in zip(consumers, (default, strict), strict=True):
        frames = [frame.payload_bytes for frame in consumer.frames() if frame.command.HasField("message")]
        assert frames == ([data] if arrives else [])


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
