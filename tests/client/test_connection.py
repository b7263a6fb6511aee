"""One connection: handshake, keep-alive, requests, and what a broken broker does to it."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refimpl import proposals
from refimpl.client import BrokerRefused, ClientOptions, Closed, ConnectionLost, ProtocolError, Target, TimedOut
from refimpl.client.names import parse_service_url
from refimpl.names import full_topic_name, partition_index
from refimpl.wire import command, encode_frame
from refimpl.wire.pulsar_api_pb2 import CommandGetLastMessageId, CommandLookupTopic, CommandSeek, CommandWatchTopicList, FeatureFlags
from tests.fakes.scripted_broker import TOPIC, ScriptedBroker


def connected(**fields: object) -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.getting = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.connection()))  # type: ignore[attr-defined]
    broker.accept(**fields)
    return broker


def request(broker: ScriptedBroker, message: object) -> object:
    return broker.begin(lambda: broker.core.scheduler.spawn(broker.connection.request(message)))  # type: ignore[arg-type]


def test_the_handshake_tells_who_is_there_and_what_it_can_do() -> None:
    broker = ScriptedBroker(ClientOptions(token=lambda: "secret"))
    getting = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.connection()))
    assert not getting.done
    connect = broker.accept(max_message_size=1000)
    assert connect.client_version.startswith("pulsar-conformance ")
    assert (connect.protocol_version, connect.auth_method_name, connect.auth_data) == (21, "token", b"secret")
    assert connect.feature_flags.supports_broker_entry_metadata
    assert not connect.HasField("proxy_to_broker_url")
    connection = getting.value()
    assert connection.max_message_size == 1000
    assert connection.flags.supports_topic_watchers
    assert (connection.server_version, connection.protocol_version) == ("scripted", 21)


def test_flags_that_are_not_known_are_ignored() -> None:
    flags = FeatureFlags.FromString(b"\x20\x01" + b"\xb8\x0f\x01")  # supports_topic_watchers, and number 247
    broker = ScriptedBroker()
    getting = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.connection()))
    (broker.connection,) = broker.dialled()
    broker.connection.opened(0.0)
    broker.send("connected", server_version="s", protocol_version=22, feature_flags=flags)
    assert getting.value().flags.supports_topic_watchers
    assert getting.value().protocol_version == 21


def test_ping_is_answered_before_and_after_connected() -> None:
    broker = ScriptedBroker()
    broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.connection()))
    (broker.connection,) = broker.dialled()
    broker.connection.opened(0.0)
    broker.send("ping")
    assert broker.sent() == ["connect", "pong"]
    broker.send("connected", server_version="s")
    broker.send("ping")
    assert broker.sent() == ["pong"]


def test_a_silent_broker_is_given_up_one_interval_after_the_ping() -> None:
    broker = connected()
    broker.wait(29.9)
    assert broker.sent() == []
    broker.wait(0.2)
    assert broker.sent() == ["ping"]
    broker.send("pong")
    broker.wait(30.0)
    assert broker.sent() == ["ping"]
    broker.send("ping")  # any command counts
    broker.wait(30.0)
    assert not broker.connection.closing
    broker.wait(30.0)
    assert isinstance(broker.connection.reason, ConnectionLost)


def test_a_broker_of_protocol_version_0_is_not_pinged() -> None:
    broker = connected(protocol_version=0)
    broker.wait(200.0)
    assert broker.sent() == []
    assert not broker.connection.closing


@pytest.mark.parametrize("opened", [False, True])
def test_dialling_and_handshake_have_a_time_limit(opened: bool) -> None:
    broker = ScriptedBroker()
    getting = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.connection()))
    (broker.connection,) = broker.dialled()
    if opened:
        broker.connection.opened(0.0)
    broker.wait(10.0)
    assert broker.connection.closing
    with pytest.raises(ConnectionLost, match="answer CONNECT within 10 s" if opened else "take the connection within 10 s"):
        getting.value()


def test_a_refused_connect_fails_with_the_brokers_words() -> None:
    broker = ScriptedBroker()
    getting = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.connection()))
    (broker.connection,) = broker.dialled()
    broker.connection.opened(0.0)
    broker.send("error", request_id=2**64 - 1, error="AuthenticationError", message="who are you")
    with pytest.raises(BrokerRefused, match="AuthenticationError: who are you") as caught:
        getting.value()
    assert (caught.value.code, caught.value.retriable) == (3, False)


def test_a_challenge_is_answered_with_a_fresh_token() -> None:
    tokens = itertools.count()
    broker = ScriptedBroker(ClientOptions(token=lambda: f"t{next(tokens)}"))
    broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.connection()))
    assert broker.accept().auth_data == b"t0"
    broker.send("authChallenge", challenge={"auth_method_name": "token", "auth_data": b"PulsarAuthRefresh"}, protocol_version=14)
    response = broker.expect("authResponse").response
    assert (response.auth_method_name, response.auth_data) == ("token", b"t1")


def test_a_token_that_can_not_be_had_ends_the_connection() -> None:
    def fails() -> str:
        raise OSError("no such file")

    broker = ScriptedBroker(ClientOptions(token=fails))
    getting = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.connection()))
    (connection,) = broker.dialled()
    connection.opened(0.0)
    with pytest.raises(ConnectionLost, match="no such file"):
        getting.value()


def test_answers_are_found_by_kind_and_id() -> None:
    broker = connected()
    seek = broker.begin(broker.connection.exchange, CommandSeek(consumer_id=0, request_id=7))
    last = broker.begin(broker.connection.exchange, CommandGetLastMessageId(consumer_id=0, request_id=7))
    broker.send("getLastMessageIdResponse", request_id=7, last_message_id={"ledgerId": 1, "entryId": 2})
    assert (seek.done, last.done) == (False, True)
    broker.send("success", request_id=7)
    assert seek.done
    broker.send("success", request_id=7)  # nobody waits for that one
    assert not broker.connection.closing


def test_a_request_fails_by_error_by_time_and_by_the_end() -> None:
    broker = connected()
    refused, unanswered, lost = (request(broker, CommandLookupTopic(topic=TOPIC)) for _ in range(3))
    broker.refuse("lookupTopic", "TooManyRequests")
    assert isinstance(refused.error, BrokerRefused)  # type: ignore[attr-defined]
    late = broker.expect("lookupTopic").request_id
    broker.wait(29.0)
    lost = request(broker, CommandLookupTopic(topic=TOPIC))
    broker.wait(1.0)
    assert isinstance(unanswered.error, TimedOut)  # type: ignore[attr-defined]
    broker.send("lookupTopicResponse", request_id=late, response="Connect")
    assert not broker.connection.closing
    broker.cut()
    assert isinstance(lost.error, ConnectionLost)  # type: ignore[attr-defined]
    after = request(broker, CommandLookupTopic(topic=TOPIC))
    assert isinstance(after.error, ConnectionLost)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x7f",
        encode_frame(command("connect", client_version="x")),
        encode_frame(command("connected", server_version="again")),
        encode_frame(command("authChallenge")),
    ],
)
def test_what_a_broker_must_not_send_ends_the_connection_with_a_clear_error(data: bytes) -> None:
    broker = connected()
    broker.deliver(data)
    assert isinstance(broker.connection.reason, ProtocolError)
    broker.deliver(b"ignored")
    broker.wait(100.0)
    assert broker.sent() == []


@pytest.mark.parametrize("size", [0, -1])
def test_a_senseless_max_message_size_ends_the_connection(size: int) -> None:
    assert isinstance(connected(max_message_size=size).connection.reason, ProtocolError)


def test_a_flood_of_pings_that_are_not_read_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refimpl.client.connection.PONG_LIMIT", 130)
    broker = connected()
    broker.deliver(encode_frame(command("ping")) * 1000)
    assert broker.sent() == ["pong"] * 10


def test_commands_for_who_has_left_are_ignored() -> None:
    broker = connected()
    broker.send("send_receipt", producer_id=9, sequence_id=1)
    broker.send("close_consumer", consumer_id=9, request_id=2**64 - 1)
    broker.send("watchTopicUpdate", watcher_id=9, topics_hash="00000000")
    broker.send("active_consumer_change", consumer_id=9)
    broker.message(0)
    assert not broker.connection.closing


STREAM = b"".join(
    [
        encode_frame(command("connected", server_version="s", protocol_version=21, max_message_size=4096)),
        encode_frame(command("lookupTopicResponse", request_id=0, response="Connect", brokerServiceUrl="pulsar://other:6650")),
        encode_frame(command("ping")),
        encode_frame(command("ping")),
    ]
)


@settings(max_examples=50)
@given(st.sets(st.integers(1, len(STREAM) - 1)))
def test_any_split_of_the_input_has_the_same_effect(cuts: set[int]) -> None:
    broker = ScriptedBroker()
    locating = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.locate(TOPIC)))
    (broker.connection,) = broker.dialled()
    broker.connection.opened(0.0)
    for start, end in itertools.pairwise([0, *sorted(cuts), len(STREAM)]):
        broker.deliver(STREAM[start:end])
    assert broker.sent() == ["connect", "lookupTopic", "pong", "pong"]
    assert [connection.target.host for connection in broker.dialled()] == ["other"]
    assert not locating.done


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_damaged_input_never_raises(seed: int, damage: int) -> None:
    choice = random.Random(seed)
    data = bytearray(STREAM)
    for _ in range(damage):
        data[choice.randrange(len(data))] = choice.randrange(256)
    broker = ScriptedBroker()
    broker.begin(lambda: broker.core.create_producer("t"))
    (broker.connection,) = broker.dialled()
    broker.connection.opened(0.0)
    broker.deliver(bytes(data))
    broker.cut()
    broker.wait(60.0)


def test_a_lookup_follows_redirects_and_proxies() -> None:
    broker = ScriptedBroker()
    locating = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.locate(TOPIC)))
    broker.accept()
    broker.answer_lookup("pulsar://other:6651", response="Redirect", authoritative=True)
    assert broker.accept().client_version
    assert broker.connection.target == Target("other", 6651, False)
    request = broker.expect("lookupTopic")
    assert request.authoritative
    fields = {"response": "Connect", "brokerServiceUrl": "pulsar://third:6650", "proxy_through_service_url": True}
    broker.send("lookupTopicResponse", request_id=request.request_id, **fields)
    assert broker.accept().proxy_to_broker_url == "third:6650"
    assert broker.connection.target == Target("broker", 6650, False, "third:6650")
    assert locating.value() is broker.connection
    assert len(broker.core.pool.connections) == 3


@pytest.mark.parametrize("url", ["", "http://broker:80", "pulsar://:6650", "pulsar://x:99999", "pulsar+ssl://broker:6651"])
def test_a_lookup_that_leads_nowhere_is_an_error(url: str) -> None:
    broker = ScriptedBroker()
    locating = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.locate(TOPIC)))
    broker.accept()
    broker.answer_lookup(url)
    assert isinstance(locating.error, ProtocolError)


def test_endless_redirects_are_an_error() -> None:
    broker = ScriptedBroker()
    locating = broker.begin(lambda: broker.core.scheduler.spawn(broker.core.pool.locate(TOPIC)))
    broker.accept()
    for _ in range(20):
        broker.answer_lookup(response="Redirect")
    assert isinstance(locating.error, ProtocolError)


def test_a_closed_client_makes_no_connections() -> None:
    broker = connected()
    closing = broker.begin(broker.core.close)
    assert closing.done
    assert broker.connection.closing
    creating = broker.begin(lambda: broker.core.create_producer("t"))
    assert isinstance(creating.error, Closed)
    assert broker.dialled() == []


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("pulsar://localhost", Target("localhost", 6650, False)),
        ("pulsar+ssl://h.example/", Target("h.example", 6651, True)),
        ("pulsar://[::1]:7000", Target("::1", 7000, False)),
    ],
)
def test_service_urls(url: str, target: Target) -> None:
    assert parse_service_url(url) == target


@pytest.mark.parametrize(
    "url", ["", "localhost:6650", "http://h", "pulsar://", "pulsar://a,b", "pulsar://h:0", "pulsar://h:65536", "pulsar://h/x"]
)
def test_no_service_urls(url: str) -> None:
    with pytest.raises(ValueError, match=r"pulsar://|port"):
        parse_service_url(url)


def test_topic_names() -> None:
    assert full_topic_name("t") == TOPIC
    assert full_topic_name("a/b/c") == "persistent://a/b/c"
    assert full_topic_name("non-persistent://a/b/c") == "non-persistent://a/b/c"
    for name in ("", "a/b", "a/b/c/d", "a//c"):
        with pytest.raises(ValueError, match="neither"):
            full_topic_name(name)
    assert [partition_index(f"{TOPIC}{end}") for end in ("-partition-12", "-partition-01", "", f"-partition-1{'0' * 5000}")] == [
        12,
        -1,
        -1,
        -1,
    ]


PUSHED = [
    ("watchTopicUpdate", {"watcher_id": 1, "topics_hash": "00000000"}),
    ("partitionUpdate", {"version": 1, "watcher_id": 1}),
    ("scalableTopicUpdate", {"session_id": 1}),
    ("watchScalableTopicsUpdate", {"watch_id": 1}),
]


@pytest.mark.parametrize(("name", "fields"), PUSHED)
def test_what_a_broker_may_say_unasked_is_what_proposals_declare(name: str, fields: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = connected()
    broker.send(name, **fields)  # to nobody
    assert not broker.connection.closing
    monkeypatch.setattr(proposals, "PROPOSALS", ())
    broker = connected()
    broker.send(name, **fields)
    assert isinstance(broker.connection.reason, ProtocolError)


def test_what_is_answered_is_what_proposals_declare(monkeypatch: pytest.MonkeyPatch) -> None:
    message = CommandWatchTopicList(request_id=1, watcher_id=1, namespace="public/default", topics_pattern=".*")
    assert connected().connection.is_answered(message)
    monkeypatch.setattr(proposals, "PROPOSALS", ())
    assert not connected().connection.is_answered(message)
    assert connected().connection.is_answered(CommandSeek(consumer_id=1, request_id=2))
