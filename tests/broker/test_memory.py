"""What everybody has acknowledged is freed, by whole ledgers; positions stay what they are."""

from __future__ import annotations

import pytest

from refimpl.broker.admin import Admin
from refimpl.store import Entries, Entry, memory
from tests.fakes.admin_calls import ask
from tests.fakes.broker_peer import TOPIC, Peer, make_broker

LEDGER = 10


@pytest.fixture(autouse=True)
def small_ledgers(monkeypatch):
    monkeypatch.setattr(memory, "LEDGER_ENTRIES", LEDGER)


@pytest.fixture
def broker():
    return make_broker()


def entries(broker) -> Entries:
    return broker.loaded(TOPIC).entries


def publish(peer: Peer, count: int, begin: int = 0) -> None:
    peer.publish(*(str(number) for number in range(begin, begin + count)))
    peer.frames()


def test_full_ledgers_are_freed_once_everybody_has_acknowledged_them(broker):
    peer = Peer(broker)
    peer.producer()
    peer.subscribe(name="one", consumer_id=1)
    peer.subscribe(name="two", consumer_id=2)
    publish(peer, 35)
    peer.acknowledge(34, kind="Cumulative", consumer_id=1)
    assert entries(broker).first == 0
    peer.acknowledge(*range(1, 20), consumer_id=2)
    assert entries(broker).first == 0
    peer.acknowledge(0, consumer_id=2)
    assert entries(broker).first == 20
    peer.send("seek", consumer_id=1, request_id=3, message_id={"ledgerId": 1, "entryId": 3})
    peer.frames()
    peer.subscribe(name="one", consumer_id=3)
    assert peer.flow(100, consumer_id=3) == [str(number) for number in range(20, 35)], "a freed position is the first one that is left"
    assert peer.flow(100, consumer_id=2) == [str(number) for number in range(20, 35)]


def late(peer: Peer, name: str) -> list[str]:
    """Return what a new subscription from the earliest message gets."""
    peer.subscribe(name=name, consumer_id=9)
    found = peer.flow(100, consumer_id=9)
    peer.ask("unsubscribe", consumer_id=9, request_id=9)
    return found


UNLOADED = [
    ([], {}, "01234"),
    ([0, 1, 2], {}, "01234"),
    ([0, 1, 2, 3, 4], {}, ""),
    ([0, 1, 2, 3, 4], {"brokerDeduplicationEnabled": "true"}, "01234"),
]


@pytest.mark.parametrize(("acknowledged", "settings", "left"), UNLOADED)
def test_an_unloaded_topic_begins_a_ledger(acknowledged, settings, left):
    """What all subscriptions have acknowledged is freed then, whatever anybody seeks; only deduplication keeps it."""
    broker = make_broker(**settings)
    peer = Peer(broker)
    peer.producer()
    peer.subscribe()
    publish(peer, 5)
    peer.acknowledge(*acknowledged)
    ask(broker, "PUT", "/admin/v2/persistent/public/default/t/unload")
    peer.frames()
    assert ask(broker, "GET", "/admin/v2/persistent/public/default/t/lastMessageId")[1]["entryId"] == 4
    peer.subscribe()
    assert peer.flow(100) == [str(number) for number in range(5) if number not in acknowledged]
    peer.send("seek", consumer_id=1, request_id=3, message_id={"ledgerId": 1, "entryId": 0})
    peer.frames()
    assert (peer.subscribe().request_id, peer.flow(100)) == (2, [*left])
    answer = peer.ask("getLastMessageId", consumer_id=1, request_id=4)
    assert answer.last_message_id.entryId == (4 if left else 2**64 - 1), "a reader does not wait for what is gone"
    peer.producer()
    publish(peer, 1, 5)
    assert late(peer, "late") == [*left, "5"]


def test_what_is_left_of_a_closed_ledger_goes_with_the_first_acknowledgement_behind_it(broker):
    peer = Peer(broker)
    peer.producer()
    peer.subscribe()
    publish(peer, 5)
    peer.acknowledge(0, 1, 2)
    ask(broker, "PUT", "/admin/v2/persistent/public/default/t/unload")
    peer.frames()
    peer.producer()
    peer.subscribe()
    peer.acknowledge(3, 4)
    assert entries(broker).first == 0
    publish(peer, 1, 5)
    peer.acknowledge(5)
    assert entries(broker).first == 5


def test_a_topic_without_subscriptions_keeps_what_it_has_until_it_is_trimmed(broker):
    peer = Peer(broker)
    peer.producer()
    publish(peer, 5)
    ask(broker, "PUT", "/admin/v2/persistent/public/default/t/unload")
    peer.frames()
    peer.producer()
    publish(peer, 1, 5)
    assert entries(broker).first == 0
    ask(broker, "POST", "/admin/v2/persistent/public/default/t/trim")
    assert late(peer, "late") == ["5"]


def test_retention_keeps_what_an_unloaded_topic_had():
    broker = make_broker(keepAliveIntervalSeconds="1000000")
    peer = Peer(broker)
    peer.producer()
    peer.subscribe()
    publish(peer, 5)
    peer.acknowledge(4, kind="Cumulative")
    ask(broker, "POST", "/admin/v2/namespaces/public/default/retention", {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1})
    ask(broker, "PUT", "/admin/v2/persistent/public/default/t/unload")
    peer.frames()
    assert late(peer, "late") == ["0", "1", "2", "3", "4"]
    broker.tick(180.0)
    assert late(peer, "later") == []


def test_the_subscription_of_a_producer_begins_with_the_first_entry_that_is_left(broker):
    peer = Peer(broker)
    peer.producer()
    publish(peer, 25)
    peer.send("producer", topic=TOPIC, producer_id=9, request_id=9, initial_subscription_name="letters")
    peer.frames()
    assert broker.loaded(TOPIC).subscriptions["letters"].backlog == 5
    peer.subscribe(name="letters")
    assert peer.flow(100) == ["20", "21", "22", "23", "24"]


def test_without_a_subscription_the_last_ledger_stays(broker):
    peer = Peer(broker)
    peer.producer()
    publish(peer, 95)
    assert entries(broker).first == 90
    peer.subscribe()
    assert peer.flow(100) == ["90", "91", "92", "93", "94"]
    last = peer.ask("getLastMessageId", consumer_id=1, request_id=3).last_message_id
    assert (last.ledgerId, last.entryId) == (1, 94), "ids stay as they are"
    publish(peer, 1, 95)
    peer.acknowledge(93, ledger=1)
    stats = Admin(broker).internal_stats(TOPIC)
    assert (stats["numberOfEntries"], stats["entriesAddedCounter"]) == (6, 96)


@pytest.mark.parametrize("end", ["unsubscribe", "delete", "skip", "seek", "reader"])
def test_whatever_moves_the_last_position_frees(broker, end):
    peer = Peer(broker)
    peer.producer()
    peer.subscribe(durable=end != "reader")
    publish(peer, 35)
    if end == "unsubscribe":
        peer.ask("unsubscribe", consumer_id=1, request_id=3)
    elif end == "delete":
        Admin(broker).delete_subscription(TOPIC, "s", force=True)
    elif end == "skip":
        Admin(broker).skip_messages(TOPIC, "s", None)
    elif end == "reader":
        peer.ask("close_consumer", consumer_id=1, request_id=3)
    else:
        peer.send("seek", consumer_id=1, request_id=3, message_id={"ledgerId": 2**63 - 1, "entryId": 2**63 - 1})
    assert entries(broker).first == 30


def test_old_ids_do_no_harm(broker):
    peer = Peer(broker)
    peer.producer()
    peer.subscribe(kind="Shared")
    publish(peer, 35)
    peer.flow(35)
    peer.acknowledge(*range(30))
    assert entries(broker).first == 30
    peer.acknowledge(0, 5, 29)
    old = [{"ledgerId": 1, "entryId": 3, "ack_set": [1]}]
    peer.send("ack", consumer_id=1, ack_type="Individual", message_id=old)
    peer.send("redeliverUnacknowledgedMessages", consumer_id=1, message_ids=[{"ledgerId": 1, "entryId": 4}])
    peer.send("redeliverUnacknowledgedMessages", consumer_id=1)
    assert peer.flow(10) == ["30", "31", "32", "33", "34"]
    Admin(broker).create_subscription(TOPIC, "later", (1, 3))
    peer.subscribe(name="later", consumer_id=2, kind="Shared")
    assert peer.flow(100, consumer_id=2) == ["30", "31", "32", "33", "34"]
    peer.subscribe(name="reader", consumer_id=3, durable=False, start_message_id={"ledgerId": 1, "entryId": 3})
    assert len(peer.flow(100, consumer_id=3)) == 5


def test_a_full_ledger_by_bytes(monkeypatch):
    monkeypatch.setattr(memory, "LEDGER_BYTES", 100)
    found = Entries()
    begins = [found.append(Entry(bytes(60), 1, False, number)) for number in range(5)]
    assert begins == [False, False, True, False, True]
    found.free(3)
    assert (found.first, len(found), [one.publish_time for one in found]) == (2, 5, [2, 3, 4])
    assert (found[2].publish_time, found[-1].publish_time, [one.publish_time for one in found[3:]]) == (2, 4, [3, 4])
    with pytest.raises(IndexError, match="freed"):
        found[1]


def test_what_is_left_is_estimated_by_ledgers(monkeypatch):
    monkeypatch.setattr(memory, "LEDGER_BYTES", 100)
    found = Entries()
    for size in (30, 90, 150, 10, 20, 60):  # ledgers of 120, 150 and 90 bytes
        found.append(Entry(bytes(size), 1, False, 0))
    assert [found.estimated_bytes_from(index) for index in range(7)] == [360, 300, 240, 90, 60, 30, 0]
    found.free(3)
    assert [found.estimated_bytes_from(index) for index in range(3, 7)] == [90, 60, 30, 0]
