"""Faults between an embedded broker and its clients, over sockets."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

import pytest

from refimpl.net.embedded import EmbeddedBroker
from refimpl.net.fault_switches import FaultSwitches
from refimpl.net.faults import _FORMS, field_of, read_switch
from refimpl.wire import command, encode_frame, encode_payload, sub_message
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, ServerError
from tests.fakes.link_peers import CONNECT, PING, TOPIC, SocketPeer, connected, metadata


@pytest.fixture
def broker():
    with EmbeddedBroker() as started:
        yield started


def produced(peer: SocketPeer, request_id: int = 1) -> None:
    peer.send(encode_frame(command("producer", topic=TOPIC, producer_id=1, request_id=request_id, producer_name="p")))


def message(sequence_id: int) -> bytes:
    payload = encode_payload(MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1), b"x")
    return encode_frame(command("send", producer_id=1, sequence_id=sequence_id), payload)


def test_requests_are_refused_so_often(broker):
    broker.faults.refuse("PRODUCER", "ProducerBusy", message="on purpose", times=2)
    with connected(broker.service_url) as peer:
        for number in (1, 2):
            produced(peer, number)
            refused = peer.next()
            assert (refused.error.request_id, refused.error.error, refused.error.message) == (
                number,
                ServerError.Value("ProducerBusy"),
                "on purpose",
            )
        produced(peer, 3)
        assert peer.receive() == "producer_success"
    assert broker.faults.armed == []


@pytest.mark.parametrize(
    ("name", "request_", "answer", "field"),
    [
        ("LOOKUP", command("lookupTopic", topic=TOPIC, request_id=7), "lookupTopicResponse", "error"),
        ("partitioned_metadata", command("partitionMetadata", topic=TOPIC, request_id=7), "partitionMetadataResponse", "error"),
        ("GET_SCHEMA", command("getSchema", topic=TOPIC, request_id=7), "getSchemaResponse", "error_code"),
        (
            "watchTopicList",
            command("watchTopicList", request_id=7, watcher_id=1, namespace="public/default", topics_pattern=".*"),
            "error",
            "error",
        ),
        (
            "ACK",
            command("ack", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 0}], request_id=7),
            "ackResponse",
            "error",
        ),
    ],
)
def test_each_request_is_refused_in_its_own_form(broker, name, request_, answer, field):
    broker.faults.refuse(name, "TooManyRequests")
    with connected(broker.service_url) as peer:
        peer.send(encode_frame(request_))
        refused = sub_message(peer.next())
        assert (getattr(refused, field), refused.request_id) == (ServerError.Value("TooManyRequests"), 7)
        peer.send(PING)
        assert peer.receive() == "pong"


def test_connect_and_send_are_refused(broker):
    broker.faults.refuse("CONNECT", "AuthenticationError")
    broker.faults.refuse("SEND", "PersistenceError")
    peer = SocketPeer(broker.service_url)
    with peer.socket:
        peer.send(CONNECT)
        assert peer.next().error.request_id == 2**64 - 1
        peer.send(CONNECT)
        assert peer.receive() == "connected"
        produced(peer)
        assert peer.receive() == "producer_success"
        peer.send(message(0) + message(1))
        refused = peer.next().send_error
        assert (refused.producer_id, refused.sequence_id, refused.error) == (1, 0, ServerError.Value("PersistenceError"))
        assert peer.next().send_receipt.sequence_id == 1


def test_commands_of_both_sides_are_lost_or_come_twice(broker):
    broker.faults.drop("SEND")
    broker.faults.drop("SEND_RECEIPT")
    broker.faults.twice("SEND_RECEIPT")
    with connected(broker.service_url) as peer:
        produced(peer)
        assert peer.receive() == "producer_success"
        peer.send(b"".join(map(message, range(4))))
        # 0 is lost on its way there, 1 has no receipt, 2 has two
        assert [peer.next().send_receipt.sequence_id for _ in range(3)] == [2, 2, 3]
        (stored,) = broker.call(lambda one: [len(topic.entries) for topic in one.store.namespaces["public/default"].topics.values()])
        assert stored == 3


def test_what_is_delayed_keeps_its_order_and_delays_nobody_else(broker):
    broker.faults.delay("PARTITIONED_METADATA", 0.5)
    with connected(broker.service_url) as late, connected(broker.service_url) as other:
        late.send(metadata(1) + PING)
        late.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            late.receive()
        late.socket.settimeout(20)
        other.send(PING)
        assert other.receive() == "pong"
        assert [late.receive(), late.receive()] == ["partitionMetadataResponse", "pong"]
    broker.faults.delay("PONG", 0.3)
    with connected(broker.service_url) as peer:
        peer.send(PING + metadata(2))
        assert [peer.receive(), peer.receive()] == ["pong", "partitionMetadataResponse"]


def test_connections_are_dropped_and_new_ones_are_served(broker):
    with connected(broker.service_url) as one, connected(broker.service_url) as other:
        broker.faults.disconnect()
        for peer in (one, other):
            with suppress(ConnectionResetError):
                assert peer.receive() is None
    with connected(broker.service_url):
        pass


def test_a_broker_that_does_not_read_answers_later(broker):
    with connected(broker.service_url) as peer:
        broker.faults.stop_reading()
        peer.send(PING)
        peer.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            peer.receive()
        peer.socket.settimeout(20)
        broker.faults.clear()
        assert peer.receive() == "pong"


@pytest.mark.parametrize("malformed", [b"\x00\x00\x00\x01\x00\x00\x00\x00", b"\x16\x03\x01\x02\x00"], ids=["a frame", "TLS"])
def test_malformed_bytes_are_for_the_broker_to_judge(broker, malformed):
    with connected(broker.service_url) as peer:
        peer.send(PING + malformed + PING)
        assert [peer.receive(), peer.receive()] == ["pong", None]


@pytest.mark.parametrize("side", ["SEND", "SEND_RECEIPT"])
def test_a_connection_is_cut_behind_so_many_commands(broker, side):
    broker.faults.switch(f"cut after 2 {side} once")
    with connected(broker.service_url) as peer:
        produced(peer)
        assert peer.receive() == "producer_success"
        peer.send(message(0))
        assert peer.next().send_receipt.sequence_id == 0
        peer.send(message(1))
        with suppress(ConnectionError):
            while (found := peer.next()) is not None:
                assert found.send_receipt.sequence_id == 1
    assert broker.faults.armed == []
    (stored,) = broker.call(lambda one: [len(topic.entries) for topic in one.store.namespaces["public/default"].topics.values()])
    assert stored == 2


def test_faults_are_written_in_words():
    assert str(read_switch("drop SEND_RECEIPT")) == "drop SEND_RECEIPT"
    assert str(read_switch("twice message 3 times")) == "twice MESSAGE 3 times"
    assert str(read_switch("cut after 2 LOOKUP once")) == "cut after 2 LOOKUP once"
    for text in ("delay 200ms WATCH_TOPIC_UPDATE", "delay 1500ms PING 2 times", "refuse PRODUCER ProducerBusy once"):
        assert str(read_switch(text)) == text
    assert (read_switch("delay 200ms watchTopicUpdate").seconds, read_switch("delay 1.5s ping").seconds) == (0.2, 1.5)
    assert read_switch("refuse PRODUCER ProducerBusy").refused.code == ServerError.Value("ProducerBusy")
    assert {field_of(name) for name in ("WATCH_TOPIC_LIST", "watch_topic_list", "watchTopicList")} == {"watchTopicList"}


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda faults: faults.drop("SENT"), "no command is called 'SENT'; did you mean 'SEND'?"),
        (lambda faults: faults.refuse("PRODUCER", "ProducerBussy"), "no error is called 'ProducerBussy'; did you mean 'ProducerBusy'?"),
        (lambda faults: faults.refuse("FLOW"), "FLOW has no answer that could refuse it; drop it instead"),
        (lambda faults: faults.twice("PING", times=0), "times is at least 1, not 0"),
        (lambda faults: faults.cut("PING", after=0), "a cut comes after at least 1 command, not 0"),
        (lambda faults: faults.switch("drop it SEND"), f"'drop it SEND' is no fault; there are: {_FORMS}"),
        (lambda faults: faults.switch("delay 2 SEND"), "'delay 2 SEND': '2' is no time; write 200ms or 1.5s"),
        (lambda faults: faults.switch("cut after x SEND"), "'cut after x SEND': 'x' is no number"),
        (lambda faults: faults.switch("drop SEND 0 times"), "times is at least 1, not 0"),
        (lambda faults: faults.delay("PING", -1), "a delay is at least 0 s and at most 3600 s, not -1"),
    ],
)
def test_what_can_not_be_switched_on_says_why(use, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        use(FaultSwitches())


def test_a_stopped_broker_starts_again_with_what_it_held():
    with EmbeddedBroker() as broker:
        with connected(broker.service_url) as peer:
            produced(peer)
            assert peer.receive() == "producer_success"
            peer.send(message(0))
            assert peer.receive() == "send_receipt"
            url = broker.service_url
            broker.stop()
            assert peer.receive() is None
        assert (broker.running, broker.service_url) == (False, url)
        with pytest.raises(ConnectionRefusedError):
            SocketPeer(url)
        with pytest.raises(RuntimeError, match="the broker is stopped"):
            broker.stop()
        broker.start()
        with pytest.raises(RuntimeError, match="the broker runs already"):
            broker.start()
        with connected(url) as peer:
            peer.send(
                encode_frame(
                    command(
                        "subscribe",
                        topic=TOPIC,
                        subscription="s",
                        subType="Exclusive",
                        consumer_id=1,
                        request_id=1,
                        initialPosition="Earliest",
                    )
                )
            )
            assert peer.receive() == "success"
            peer.send(encode_frame(command("flow", consumer_id=1, messagePermits=1)))
            assert peer.receive() == "message"
        broker.stop()
    with broker:
        assert broker.call(lambda one: one.store.namespaces["public/default"].topics) == {}


def test_a_broker_on_ports_of_ones_own():
    with EmbeddedBroker() as broker:
        ports = [int(url.rpartition(":")[2]) for url in (broker.service_url, broker.admin_url)]
        with pytest.raises(OSError, match=f"127.0.0.1:{ports[0]}"), EmbeddedBroker(port=ports[0]):
            pass
    with EmbeddedBroker(port=ports[0], admin_port=ports[1]) as broker:
        assert [broker.service_url, broker.admin_url] == [f"pulsar://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"]


def test_stop_and_start_on_ones_own_loop():
    async def main() -> None:
        async with EmbeddedBroker() as broker:
            with pytest.raises(RuntimeError, match="await astop or astart"):
                broker.stop()
            await broker.astop()
            assert not broker.running
            await broker.astart()
            assert broker.running

    asyncio.run(main())
