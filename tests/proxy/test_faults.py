"""Harm on request, and answers that lead back to the proxy."""

import asyncio

import pytest

from conformance.proxy.addresses import LEADING, lead_back
from refimpl.wire import command, decode_frame, encode_frame, sub_message
from refimpl.wire.pulsar_api_pb2 import ServerError
from tests.proxy.stand import PING, PONG, RECEIPT, TOPIC, Broker, Kept, Stand, at_stand, look_up, send

PRODUCER = encode_frame(command("producer", topic=TOPIC, producer_id=1, request_id=5))
BROKER = "pulsar://127.0.0.1:6650"


def remarks(kept: Kept) -> list[tuple[str, str, bool]]:
    return [(one.direction, one.remark, one.dropped) for one in kept.passed]


def test_what_is_dropped_is_told_and_lost():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(send(1), PING, send(2), PING)
        assert await broker.bytes(2 * len(PING)) == PING * 2
        assert remarks(stand.kept) == [("client", "dropped", True), ("client", "", False)] * 2
        assert stand.kept.bytes[1, "client"] == send(1) + PING + send(2) + PING  # as the client sent it

    at_stand(test, faults=["drop SEND"])


def test_a_fault_is_used_up():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(PING, PING, PING)
        assert await broker.bytes(len(PING)) == PING
        assert stand.proxy.faults.armed == []

    at_stand(test, faults=["drop PING once", "drop ping once"])


def test_what_comes_twice_is_told_as_often_as_the_client_lives_through_it():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(send(1))
        assert await broker.bytes(2 * len(send(1))) == send(1) * 2
        broker.write(RECEIPT, PONG)
        assert await client.bytes(len(RECEIPT * 2 + PONG)) == RECEIPT * 2 + PONG
        assert [(*one[:2], name) for one, name in zip(remarks(stand.kept), stand.kept.names(), strict=True)] == [
            ("client", "twice", "send"),
            ("broker", "twice", "send_receipt"),
            ("broker", "twice", "send_receipt"),
            ("broker", "", "pong"),
        ]

    at_stand(test, faults=["twice SEND", "twice SEND_RECEIPT"])


def test_what_is_held_back_holds_what_follows_and_nothing_else():
    async def test(stand: Stand) -> None:
        loop = asyncio.get_running_loop()
        client, broker = await stand.pair()
        other, other_broker = await stand.pair()
        began = loop.time()
        broker.write(RECEIPT, PONG)
        client.write(PING)
        other_broker.write(PONG)
        assert (await broker.bytes(len(PING)), await other.bytes(len(PONG))) == (PING, PONG)
        assert stand.kept.names("broker") == ["pong"]  # of the other connection; those that wait are told when they go
        assert await client.bytes(len(RECEIPT + PONG)) == RECEIPT + PONG
        assert loop.time() - began >= 0.3
        assert stand.kept.names("broker") == ["pong", "send_receipt", "pong"]
        assert stand.kept.passed[-2].remark == "held back 0.3 s"
        assert stand.kept.passed[-2].time >= 0.3

    at_stand(test, faults=["delay 300ms SEND_RECEIPT once"])


def test_while_much_is_held_back_the_sender_waits():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        data = send(1, 1 << 20)
        broker.write(RECEIPT, *[data] * 8)
        assert await client.bytes(len(RECEIPT)) == RECEIPT
        assert await client.bytes(8 * len(data)) == data * 8
        assert most[0] < 4 << 20

    most = [0]

    class Watching(Kept):
        def data(self, connection, direction, data, time):
            (relay,) = proxies[0]._relays
            most[0] = max(most[0], relay.lanes["broker"].held)

    proxies = []

    async def with_proxy(stand: Stand) -> None:
        proxies.append(stand.proxy)
        await test(stand)

    at_stand(with_proxy, faults=["delay 200ms SEND_RECEIPT"], kept=Watching)


def test_an_end_behind_what_is_held_back_waits_for_it():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        broker.write(RECEIPT)
        broker.close()
        assert await client.rest() == RECEIPT

    at_stand(test, faults=["delay 100ms SEND_RECEIPT"])


def test_requests_are_refused_in_their_own_form():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(PRODUCER, send(9), PING)
        assert await broker.bytes(len(PING)) == PING
        refused = (await client.next()).error
        assert (refused.request_id, refused.error) == (5, ServerError.ProducerBusy)
        failed = (await client.next()).send_error
        assert (failed.producer_id, failed.sequence_id, failed.error) == (1, 9, ServerError.ServiceNotReady)
        assert remarks(stand.kept) == [
            ("client", "refused", True),
            ("broker", "by the proxy", False),
            ("client", "refused", True),
            ("broker", "by the proxy", False),
            ("client", "", False),
        ]

    at_stand(test, faults=["refuse PRODUCER ProducerBusy", "refuse SEND ServiceNotReady"])


def test_an_answer_of_the_proxy_never_comes_inside_a_frame():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        large = send(1, 200_000)
        broker.write(large[:100_000])
        assert await client.bytes(100_000) == large[:100_000]
        client.write(PRODUCER, PING)
        assert await broker.bytes(len(PING)) == PING
        broker.write(large[100_000:], PONG)
        assert await client.bytes(100_000 + len(large) - 200_000) == large[100_000:]
        assert (await client.next()).error.request_id == 5
        assert (await client.next()).HasField("pong")

    at_stand(test, faults=["refuse PRODUCER ProducerBusy"], kept=lambda: Kept(("ping",)))


@pytest.mark.parametrize("side", ["client", "broker"])
def test_a_connection_is_cut_behind_so_many(side):
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        sender, taker = (client, broker) if side == "client" else (broker, client)
        data = send(1) if side == "client" else RECEIPT
        sender.write(data, PING, data, PING, data)
        assert await taker.rest() == data + PING + data
        assert await sender.rest() == b""
        await stand.over()
        assert stand.kept.notes == [(1, "cut")]
        again, broker = await stand.pair()  # counting begins anew
        again.write(send(1), PING)
        assert await broker.bytes(len(send(1) + PING)) == send(1) + PING

    at_stand(test, faults=[f"cut after 2 {'SEND' if side == 'client' else 'SEND_RECEIPT'}"])


# addresses


def led(frame: bytes, *, tls: bool = False):
    """Return the sub-message of a command whose addresses were changed, and what was asked for."""
    asked = []

    def lead(url: str, proxied: bool) -> str:
        asked.append((url, proxied))
        return f"pulsar://proxy:{len(asked)}"

    changed = decode_frame(frame).command
    assert lead_back(changed, lead, tls=tls) is bool(asked)
    return sub_message(changed), asked


def test_every_command_with_an_address_of_a_broker_leads_back():
    urls = {"brokerServiceUrl": "pulsar://a:1", "brokerServiceUrlTls": "pulsar+ssl://a:2"}
    assigned = {"assignedBrokerServiceUrl": "pulsar://a:1", "assignedBrokerServiceUrlTls": "pulsar+ssl://a:2"}
    places = [
        {"segment_id": number, "broker_url": f"pulsar://s{number}:1", "broker_url_tls": f"pulsar+ssl://s{number}:2"} for number in (0, 1)
    ]
    dag = {"epoch": 1, "segment_brokers": places, "controller_broker_url": "pulsar://a:1"}
    tcs = [{"tc_id": 0, "broker_service_url": "pulsar://a:1", "broker_service_url_tls": "pulsar+ssl://a:2"}, {"tc_id": 1}]
    commands = {
        "lookupTopicResponse": ({**urls, "response": "Redirect", "request_id": 1}, ["pulsar://a:1"]),
        "topicMigrated": ({**urls, "resource_id": 1, "resource_type": "Producer"}, ["pulsar://a:1"]),
        "close_producer": ({**assigned, "producer_id": 1, "request_id": 2}, ["pulsar://a:1"]),
        "close_consumer": ({**assigned, "consumer_id": 1, "request_id": 2}, ["pulsar://a:1"]),
        "scalableTopicUpdate": ({"session_id": 1, "dag": dag}, ["pulsar://a:1", "pulsar://s0:1", "pulsar://s1:1"]),
        "watchTcAssignmentsUpdate": ({"watch_id": 1, "snapshot": {"parallelism": 2, "assignments": tcs}}, ["pulsar://a:1"]),
    }
    assert set(commands) == LEADING
    for name, (fields, wanted) in commands.items():
        message, asked = led(encode_frame(command(name, **fields)))
        assert [url for url, _ in asked] == wanted, name
        text = str(message)
        assert "ssl" not in text, name  # the proxy does not speak TLS
        assert all(url not in text for url in wanted), name
        assert text.count("pulsar://proxy:") == len(wanted), name


def test_an_answer_without_an_address_stays():
    failed = encode_frame(command("lookupTopicResponse", request_id=1, response="Failed", error="ServiceNotReady", message="m"))
    message, asked = led(failed)
    assert (asked, message.HasField("brokerServiceUrl")) == ([], False)


def test_with_tls_to_the_broker_the_address_with_tls_counts():
    message, asked = led(look_up("pulsar://a:1", brokerServiceUrlTls="pulsar+ssl://a:2"), tls=True)
    assert (asked, message.brokerServiceUrl, message.HasField("brokerServiceUrlTls")) == (
        [("pulsar+ssl://a:2", False)],
        "pulsar://proxy:1",
        False,
    )


def test_with_tls_to_clients_the_proxy_gives_addresses_with_tls():
    place = {"segment_id": 0, "broker_url": "pulsar://s:1", "broker_url_tls": "pulsar+ssl://s:2"}
    update = encode_frame(command("scalableTopicUpdate", session_id=1, dag={"epoch": 1, "segment_brokers": [place]}))
    for frame in (look_up("pulsar://a:1", brokerServiceUrlTls="pulsar+ssl://a:2"), update):
        changed = decode_frame(frame).command
        assert lead_back(changed, lambda url, _: "pulsar+ssl://proxy:1", tls=False, to_tls=True)
        text = str(sub_message(changed))
        assert "pulsar+ssl://proxy:1" in text
        assert '"pulsar://' not in text
        assert changed.IsInitialized()


async def answered(stand: Stand, *answers: bytes):
    """Return what becomes of answers to a look-up."""
    client, broker = await stand.pair()
    broker.write(*answers)
    return [sub_message(await client.next()) for _ in answers]


def test_the_broker_itself_is_reached_at_the_same_address():
    async def test(stand: Stand) -> None:
        port = stand.broker.url.rpartition(":")[2]
        answers = [
            look_up(stand.broker.url),
            look_up(f"pulsar://localhost:{port}", proxy_through_service_url=True),
            look_up(stand.proxy.service_url),
        ]
        found = await answered(stand, *answers)
        assert [(one.brokerServiceUrl, one.proxy_through_service_url) for one in found] == [(stand.proxy.service_url, False)] * 3
        assert [one.remark for one in stand.kept.passed] == ["leads back", "leads back", ""]
        assert stand.kept.notes == []

    at_stand(test)


def test_another_broker_is_reached_through_a_port_of_its_own():
    async def test(stand: Stand) -> None:
        async with Broker().serving() as second:
            found = await answered(stand, look_up(second.url), look_up(second.url), look_up(stand.broker.url))
            there, again, here = (one.brokerServiceUrl for one in found)
            assert there == again != here == stand.proxy.service_url
            assert stand.kept.notes == [(None, f"{there} leads to {second.url}")]
            client = await stand.client(there)
            client.write(PING)
            broker = await second.next()
            assert await broker.bytes(len(PING)) == PING
            broker.write(look_up(second.url), look_up(stand.broker.url), look_up(there))
            assert [sub_message(await client.next()).brokerServiceUrl for _ in range(3)] == [there, here, there]

    at_stand(test)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("pulsar://example.org:6650", "clients are led away; allow it: --allow-host example.org"),
        ("pulsar://10.0.0.1", "clients are led away; allow it: --allow-host 10.0.0.1"),
        ("http://127.0.0.1:80", "is not a service URL"),
        ("pulsar://[::1", "Invalid IPv6 URL"),
        ("pulsar://127.0.0.1:99999", "Port out of range"),
    ],
)
def test_the_proxy_goes_to_no_host_that_was_not_named(url, words):
    async def test(stand: Stand) -> None:
        found = await answered(stand, look_up(url), look_up(url))
        assert [one.brokerServiceUrl for one in found] == [url] * 2
        ((number, text),) = stand.kept.notes  # told once
        assert (number, text.startswith(f"{url}: ")) == (None, True)
        assert words in text
        assert len(stand.proxy._listeners) == 1

    at_stand(test)


def test_a_host_that_is_allowed_has_a_port():
    async def test(stand: Stand) -> None:
        (found,) = await answered(stand, look_up("pulsar://example.org:6650"))
        assert found.brokerServiceUrl.startswith("pulsar://127.0.0.1:")
        assert stand.kept.notes == [(None, f"{found.brokerServiceUrl} leads to pulsar://example.org:6650")]

    at_stand(test, allow_hosts=("example.org",))


def test_brokers_behind_another_proxy_stay_behind_it():
    async def test(stand: Stand) -> None:
        (found,) = await answered(stand, look_up("pulsar://127.0.0.1:6650", proxy_through_service_url=True))
        assert (found.brokerServiceUrl, found.proxy_through_service_url) == ("pulsar://127.0.0.1:6650", True)
        assert (stand.kept.notes, len(stand.proxy._listeners)) == ([], 1)

    at_stand(test)


def test_ports_for_brokers_are_limited(monkeypatch):
    monkeypatch.setattr("conformance.proxy.proxy.MOST_BROKERS", 3)

    async def test(stand: Stand) -> None:
        found = await answered(stand, *(look_up(f"pulsar://127.0.0.1:{port}") for port in range(1, 7)))
        assert [one.brokerServiceUrl == f"pulsar://127.0.0.1:{port}" for port, one in enumerate(found, 1)] == [False] * 3 + [True] * 3
        assert stand.kept.notes[-1] == (None, "pulsar://127.0.0.1:6: clients are led away; the proxy leads to 3 brokers at most")

    at_stand(test)
