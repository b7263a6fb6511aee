"""Positions that administrators name over the admin interface: of new subscriptions, of resets and of expiry."""

from __future__ import annotations

import pytest

from refimpl.broker import Broker
from refimpl.wire.pulsar_api_pb2 import MessageMetadata
from tests.fakes.admin_calls import ask, call, publish
from tests.fakes.broker_peer import Peer

NS = "public/default"
T = f"persistent://{NS}/t"


@pytest.fixture
def broker() -> Broker:
    return Broker()


SUBSCRIPTION = f"/admin/v2/persistent/{NS}/t/subscription/s"
EARLIEST, END = {"ledgerId": -1, "entryId": -1}, {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}
OWN = "the ledger of the topic"


def own(broker: Broker, body: dict[str, object] | None) -> dict[str, object] | None:
    """Put the id of the topic's ledger, to which a number may be added, into a position."""
    if body is None or not isinstance(body.get("ledgerId"), tuple):
        return body
    return {**body, "ledgerId": broker.loaded(T).stored.ledger_id + body["ledgerId"][1]}


def place(entry: int, ledger: int = 0, **more: object) -> dict[str, object]:
    return {"ledgerId": (OWN, ledger), "entryId": entry, **more}


def with_messages(broker: Broker) -> Peer:
    call(broker, "create_topic", {"topic": T})
    peer = Peer(broker)
    peer.producer()
    peer.publish("a", "b", "c")
    peer.frames()
    return peer


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, ""),
        ({}, "abc"),
        (EARLIEST, "abc"),
        (END, ""),
        (place(-1), "abc"),
        (place(0), "abc"),
        (place(1), "bc"),
        (place(1, excluded=True), "bc"),
        (place(3), ""),
        (place(2**63 - 1), ""),
        (place(1, ledger=-1), "abc"),
        (place(0, ledger=1), ""),
    ],
)
def test_a_subscription_begins_with_the_message_that_an_administrator_names(broker, body, expected):
    peer = with_messages(broker)
    assert ask(broker, "PUT", SUBSCRIPTION, own(broker, body))[0] == 204
    peer.subscribe()
    assert peer.flow(10) == [*expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "abc"),
        (EARLIEST, "abc"),
        (END, ""),
        (place(-1), "abc"),
        (place(-1, excluded=True), "abc"),
        (place(1), "bc"),
        (place(1, batchIndex=3), "bc"),
        (place(1, excluded=True), "c"),
        (place(2, excluded=True), ""),
        (place(99), ""),
        (place(1, ledger=-1), "abc"),
        (place(0, ledger=1), ""),
    ],
)
def test_a_reset_to_a_message(broker, body, expected):
    peer = with_messages(broker)
    assert ask(broker, "PUT", SUBSCRIPTION, own(broker, place(1)))[0] == 204
    assert ask(broker, "POST", f"{SUBSCRIPTION}/resetcursor", own(broker, body))[0] == 204
    peer.subscribe()
    assert peer.flow(10) == [*expected]


@pytest.mark.parametrize(
    ("index", "excluded", "expected"),
    [(-1, False, [[], []]), (0, False, [[], []]), (0, True, [[0b110], []]), (1, False, [[0b110], []]), (2, False, [[0b100], []]),
     (2, True, [[]]), (3, False, [[], []]), (9, True, [[]])],
)  # fmt: skip
def test_a_reset_into_a_batch(broker, index, excluded, expected):
    call(broker, "create_topic", T)
    publish(broker, MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=3), MessageMetadata(
        producer_name="p", sequence_id=3, publish_time=1))  # fmt: skip
    assert ask(broker, "PUT", SUBSCRIPTION, EARLIEST)[0] == 204
    body = own(broker, place(0, batchIndex=index, excluded=excluded))
    assert ask(broker, "POST", f"{SUBSCRIPTION}/resetcursor", body)[0] == 204
    peer = Peer(broker)
    peer.subscribe()
    peer.send("flow", consumer_id=1, messagePermits=10)
    assert [list(frame.command.message.ack_set) for frame in peer.frames()] == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [(EARLIEST, "abc"), ({}, "abc"), (place(-1), "abc"), (place(0), "bc"), (place(0, excluded=True), "c"), (place(2), ""),
     (place(1, ledger=-1), "abc"), (place(3), None), (END, None), (place(0, ledger=1), None)],
)  # fmt: skip
def test_messages_expire_up_to_one_that_is_there(broker, body, expected):
    peer = with_messages(broker)
    assert ask(broker, "PUT", SUBSCRIPTION, EARLIEST)[0] == 204
    status, answer = ask(broker, "POST", f"{SUBSCRIPTION}/expireMessages", own(broker, body))
    peer.subscribe()
    if expected is None:
        assert (status, "invalid message position" in answer["reason"]) == (409, True)
    else:
        assert status == 204
    assert peer.flow(10) == [*("abc" if expected is None else expected)]
