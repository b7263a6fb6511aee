"""What core promises, with every stock client: the flows behind the table of clients.

No flow demands an order that a broker is free to choose. What a client does not offer is told by `LACKS`.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable

import pytest

from conformance.targets import Endpoint
from tests.fakes.frame_proxy import FrameProxy
from tests.interop.conftest import EVERY_CLIENT
from tests.interop.stock_clients import SECONDS, Admin, Client, ClientFailed, Consumer, Message, received_by, texts

pytestmark = [pytest.mark.interop, pytest.mark.flows, *EVERY_CLIENT]

TEN = [f"message {number}" for number in range(10)]
LARGEST = 5 * 1024 * 1024 - 2048
"""Bytes of a message that fits into the largest frame with what clients add to it."""


def until(holds: Callable[[], bool]) -> None:
    """Ask until something holds."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline


def backlog(admin: Admin, topic: str, subscription: str = "s") -> int:
    count: int = admin("topic_stats", topic)["subscriptions"][subscription]["msgBacklog"]
    return count


def received_until(consumer: Consumer, last: str) -> list[str]:
    """Return what a consumer gets before a certain message."""
    found: list[str] = []
    while (text := consumer.receive().text) != last:
        found.append(text)
    return found


def sorted_texts(messages: list[Message]) -> list[str]:
    return sorted(texts(messages))


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_messages_arrive_once_in_order(client: Client, namespace: str, domain: str) -> None:
    topic = f"{domain}://{namespace}/topic"
    consumer = client.consumer(topic)
    client.producer(topic).send(*TEN)
    messages = consumer.receive_all(10)
    assert texts(messages) == TEN
    assert {message.topic for message in messages} == {topic}
    consumer.ack(messages)


def test_batches_arrive_in_order(client: Client, proxy: FrameProxy, topic: str) -> None:
    consumer = client.consumer(topic)
    client.producer(topic, batch=10).send(*TEN)
    assert texts(consumer.receive_all(10)) == TEN
    assert proxy.frames("send")[0].payload().metadata.num_messages_in_batch > 1


def test_acknowledged_messages_do_not_come_again(client: Client, admin: Admin, topic: str) -> None:
    consumer = client.consumer(topic)
    client.producer(topic).send(*TEN)
    consumer.ack(consumer.receive_all(10)[:4])
    until(lambda: backlog(admin, topic) == 6)
    consumer.close()
    assert sorted_texts(client.consumer(topic).receive_all(6)) == TEN[4:]


def test_a_cumulative_acknowledgement_covers_all_before(client: Client, admin: Admin, topic: str) -> None:
    consumer = client.consumer(topic, type="Exclusive")
    client.producer(topic).send(*TEN)
    consumer.ack_cumulative(consumer.receive_all(10)[3])
    until(lambda: backlog(admin, topic) == 6)
    consumer.close()
    assert texts(client.consumer(topic, type="Exclusive").receive_all(6)) == TEN[4:]


def test_a_part_of_a_batch_is_acknowledged(client: Client, proxy: FrameProxy, topic: str) -> None:
    consumer = client.consumer(topic, type="Shared", batch_index_ack=True)
    client.producer(topic, batch=10).send(*TEN)
    consumer.ack(consumer.receive_all(10)[::2])
    consumer.close()
    assert proxy.seen("ack")
    assert sorted_texts(client.consumer(topic, type="Shared", batch_index_ack=True).receive_all(5)) == TEN[1::2]


def test_a_negative_acknowledgement_brings_a_message_again(client: Client, admin: Admin, topic: str) -> None:
    consumer = client.consumer(topic, type="Shared", nack_delay_ms=100)
    client.producer(topic).send(*TEN[:3])
    first, second, third = consumer.receive_all(3)
    consumer.nack([second])
    again = consumer.receive()
    assert (again.text, again.redelivered) == (second.text, 1)
    consumer.ack([first, again, third])
    until(lambda: backlog(admin, topic) == 0)


def test_an_exclusive_subscription_has_one_consumer(client: Client, topic: str) -> None:
    client.process.check_offer("refused")
    consumer = client.consumer(topic, type="Exclusive")
    with pytest.raises(ClientFailed):
        client.consumer(topic, type="Exclusive")
    client.producer(topic).send("one")
    assert consumer.receive().text == "one"


def test_a_shared_subscription_serves_all_its_consumers(client: Client, topic: str) -> None:
    consumers = [client.consumer(topic, type="Shared") for _ in range(2)]
    producer = client.producer(topic)
    for text in TEN:
        producer.send(text)
    first, second = received_by(consumers, 10)
    assert sorted_texts([*first, *second]) == TEN
    assert first
    assert second


def test_a_failover_subscription_serves_one_consumer_and_then_the_next(client: Client, topic: str) -> None:
    consumers = [client.consumer(topic, type="Failover", **{"as": name}) for name in ("a", "b")]
    client.producer(topic).send(*TEN)
    got = received_by(consumers, 10)
    active = 0 if got[0] else 1
    assert texts(got[active]) == TEN
    assert not got[1 - active]
    consumers[active].ack(got[active][:3])
    consumers[active].close()
    assert texts(consumers[1 - active].receive_all(7)) == TEN[3:]


def test_failover_goes_by_priority(client: Client, topic: str) -> None:
    second = client.consumer(topic, type="Failover", priority=1, **{"as": "a"})
    first = client.consumer(topic, type="Failover", priority=0, **{"as": "b"})
    producer = client.producer(topic)
    producer.send(*TEN)
    assert texts(first.receive_all(10)) == TEN
    first.close()
    assert texts(second.receive_all(10)) == TEN


def test_consumers_are_told_which_one_is_active(client: Client, topic: str) -> None:
    first = client.consumer(topic, type="Failover", events=True, **{"as": "a"})
    assert first.event() == "active"
    second = client.consumer(topic, type="Failover", events=True, **{"as": "b"})
    active, other = first, second
    if second.event() == "active":  # which of them is it, a broker decides by their names
        assert first.event() == "inactive"
        active, other = second, first
    active.close()
    assert other.event() == "active"


def test_a_key_has_one_consumer_and_keeps_its_order_when_that_leaves(client: Client, topic: str) -> None:
    consumers = [client.consumer(topic, type="Key_Shared") for _ in range(2)]
    keys = [f"key-{number % 20}" for number in range(60)]
    client.producer(topic).send(*[f"{key} {number}" for number, key in enumerate(keys)], keys=keys)
    first, second = received_by(consumers, 60)
    assert first
    assert second
    assert not {message.text.split()[0] for message in first} & {message.text.split()[0] for message in second}
    consumers[0].close()
    for messages in (first, second, consumers[1].receive_all(len(first))):
        for key in {message.text.split()[0] for message in messages}:
            numbers = [int(message.text.split()[1]) for message in messages if message.text.split()[0] == key]
            assert numbers == sorted(numbers)
            assert len(numbers) == 3


def test_a_delayed_message_comes_later(client: Client, topic: str) -> None:
    consumer = client.consumer(topic, type="Shared")
    producer = client.producer(topic)
    began = time.monotonic()
    producer.send("later", after_ms=3000)
    producer.send("soon")
    assert consumer.receive().text == "soon"
    assert consumer.receive().text == "later"
    assert time.monotonic() - began > 1.9  # a broker may be early by its tick of a second


def test_seek_by_id_and_by_time(client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    producer = client.producer(topic)
    producer.send(*TEN[:5])
    consumer.receive_all(5)
    between = int(time.time() * 1000) + 2
    until(lambda: time.time() * 1000 > between)
    producer.send(*TEN[5:])
    messages = consumer.receive_all(5)
    consumer.seek_time(between)
    assert texts(consumer.receive_all(5)) == TEN[5:]
    consumer.seek(messages[0])
    consumer.close()
    again = client.consumer(topic)
    assert again.receive().text in TEN[5:7], "clients differ in whether the message itself is sought"


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_reader_starts_at_a_message(client: Client, topic: str, inclusive: bool) -> None:
    client.process.check_offer("reader")
    consumer = client.consumer(topic)
    client.producer(topic).send(*TEN)
    start = consumer.receive_all(10)[4]
    reader = client.reader_from(start, consumer, inclusive=inclusive)
    expected = TEN[4:] if inclusive else TEN[5:]
    assert texts(reader.receive_all(len(expected))) == expected
    assert not reader.has_more()


def test_an_unloaded_topic_keeps_what_was_acknowledged(client: Client, admin: Admin, broker: Endpoint, topic: str) -> None:
    consumer, producer = client.consumer(topic), client.producer(topic)
    producer.send(*TEN)
    consumer.ack(consumer.receive_all(10)[:4])
    until(lambda: backlog(admin, topic) == 6)
    admin("unload_topic", topic)
    producer.send("after")
    again = received_until(consumer, "after")
    assert set(TEN[4:]) <= set(again)
    if broker.release is None:  # releases lose acknowledgements right before an unload: findings/acknowledged-before-unload.md
        assert sorted(again) == TEN[4:]


def test_a_message_sent_again_is_stored_once(client: Client, broker: Endpoint, namespace: str) -> None:
    topic = f"persistent://{namespace}/topic"
    path = f"{broker.admin_url}/admin/v2/namespaces/{namespace}/deduplication"
    request = urllib.request.Request(path, b"true", {"Content-Type": "application/json"}, method="POST")
    urllib.request.urlopen(request, timeout=SECONDS).close()
    consumer = client.consumer(topic)
    producer = client.producer(topic, **{"as": "p"})
    producer.send("a", "b", sequence_ids=[5, 6])
    producer.send("b again", "c", sequence_ids=[6, 7])
    assert texts(consumer.receive_all(3)) == ["a", "b", "c"]


def test_the_largest_message(client: Client, topic: str) -> None:
    consumer = client.consumer(topic)
    text = "x" * LARGEST
    client.producer(topic).send(text)
    assert consumer.receive().text == text


def test_a_terminated_topic_takes_no_more(client: Client, admin: Admin, topic: str) -> None:
    client.process.check_offer("refused", "refused producer")
    consumer = client.consumer(topic)
    client.producer(topic).send(*TEN)
    admin("terminate_topic", topic)
    assert texts(consumer.receive_all(10)) == TEN
    with pytest.raises(ClientFailed):
        client.producer(topic)


def test_consumers_are_told_of_the_end_of_a_topic(client: Client, admin: Admin, topic: str) -> None:
    consumer = client.consumer(topic, ends=True)
    client.producer(topic).send("last")
    admin("terminate_topic", topic)
    consumer.ack([consumer.receive()])
    assert consumer.event() == "end"


def test_a_name_belongs_to_one_producer(client: Client, topic: str) -> None:
    client.process.check_offer("refused", "refused producer")
    first = client.producer(topic, **{"as": "p"})
    with pytest.raises(ClientFailed):
        client.producer(topic, **{"as": "p"})
    first.close()
    client.producer(topic, **{"as": "p"}).send("one")


def test_an_exclusive_producer_is_alone(client: Client, topic: str) -> None:
    client.process.check_offer("refused", "refused producer")
    first = client.producer(topic, access="Exclusive")
    for mode in ("Exclusive", "Shared"):
        with pytest.raises(ClientFailed):
            client.producer(topic, access=mode)
    first.send("one")


def test_a_producer_waits_until_it_is_alone(client: Client, proxy: FrameProxy, topic: str) -> None:
    client.process.check_offer("producer", access="WaitForExclusive")
    consumer, first = client.consumer(topic), client.producer(topic, access="Exclusive")
    waits = client.waiting_producer(topic)
    proxy.wait("producer", count=2)
    first.send("first")
    first.close()
    waits().send("second")
    assert texts(consumer.receive_all(2)) == ["first", "second"]


def test_a_producer_that_fences_takes_the_place(client: Client, proxy: FrameProxy, topic: str) -> None:
    """Two clients, since a message of a fenced producer ends its connection, and all that is on it.

    Who is back first then has the topic, unless it brings the topic_epoch of before, as Rust's producers do not.
    """
    client.process.check_offer("producer", access="ExclusiveWithFencing")
    consumer, first = client.consumer(topic), client.producer(topic, access="Exclusive")
    first.send("first")
    elsewhere = Client(client.process, proxy.service_url)
    second = elsewhere.producer(topic, access="ExclusiveWithFencing")
    second.send("second")
    assert texts(consumer.receive_all(2)) == ["first", "second"]
    with pytest.raises(ClientFailed):
        first.send("third")  # a broker may end the connection: then messages come again
    second.send("fourth")
    assert "third" not in received_until(consumer, "fourth")
    elsewhere.end()


def test_a_subscription_is_deleted(client: Client, admin: Admin, topic: str) -> None:
    client.consumer(topic).unsubscribe()
    until(lambda: admin("topic_stats", topic)["subscriptions"] == {})
