"""The properties that ask for the built-in entry filter (PIP-191): stored with their subscription, checked late, given by administrators."""

import json

import pytest

from refimpl.broker import AdminRefused
from refimpl.broker.broker import PROPOSALS
from refimpl.broker.rest import handle
from refimpl.proposals.administration import AdminRequest
from tests.fakes.broker_peer import TOPIC, Peer
from tests.fakes.entry_filter_world import LOUD, REJECT_EU, World, send_example, take
from tests.samples.uniform_batches import key_values


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
    assert after.stats()["msgBacklog"] == 3, "entries"
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
