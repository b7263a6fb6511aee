"""Whatever a peer sends, it costs its own connection at most: mutated recorded frames, and frames made up."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.engine import log
from conformance.running.recorder import load_target
from refimpl.broker import Broker
from refimpl.proposals.profiles import AS_WRITTEN
from refimpl.proposals.topic_list import WATCHERS_PER_CONNECTION
from refimpl.wire import FIELD_BY_TYPE, encode_frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand, TooManyRequests
from tests.fakes.broker_peer import Peer, make_broker


def recorded_bytes() -> list[bytes]:
    run = load_target("apache-pulsar@4.2.4")
    assert run is not None
    sent = {
        event.data
        for trial_log in run.trial_logs.values()
        for event in trial_log.events
        if isinstance(event, log.Begin) and event.what == "send" and event.data and ".." not in event.data
    }
    return [bytes.fromhex(data) for data in sorted(sent) if len(data) < 4000]


RECORDED = recorded_bytes()


def mutated(data: bytes, choice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(choice.randint(1, 4)):
        place = choice.randrange(len(changed))
        kind = choice.randrange(4)
        if kind == 0:
            changed[place] = choice.randrange(256)
        elif kind == 1:
            changed[place] ^= 1 << choice.randrange(8)
        elif kind == 2:
            del changed[place : place + choice.randint(1, 3)]
        else:
            changed[place:place] = choice.randbytes(choice.randint(1, 3))
        if not changed:
            return b""
    return bytes(changed)


def still_serves(good: Peer) -> bool:
    answers = [good.ask("ping"), good.ask("partitionMetadata", topic="persistent://public/default/t", request_id=1)]
    return not good.session.closing and len(answers) == 2


@pytest.mark.parametrize("seed", range(8))
def test_mutated_recorded_frames(seed: int) -> None:
    choice = random.Random(seed)
    broker = make_broker()
    good = Peer(broker)
    for _ in range(400):
        bad = Peer(broker)
        for _ in range(3):
            data = choice.choice(RECORDED)
            bad.session.receive(mutated(data, choice) if choice.random() < 0.7 else data, broker.now)
        while bad.session.data_to_send():
            pass
        bad.session.eof(broker.now)
        assert bad.session.closing
    assert still_serves(good)
    assert len(list(broker.sessions)) == 1, "nothing of the others is left"


@given(st.lists(st.binary(max_size=64), max_size=6), st.booleans())
def test_bytes_that_are_no_frames(pieces: list[bytes], connect: bool) -> None:
    broker = make_broker()
    good, bad = Peer(broker), Peer(broker, connect=connect)
    for piece in pieces:
        bad.session.receive(piece, 0.0)
    bad.session.eof(0.0)
    assert still_serves(good)


@given(st.sampled_from(sorted(FIELD_BY_TYPE)), st.binary(max_size=40))
def test_commands_with_any_content(number: int, content: bytes) -> None:
    broker = make_broker()
    good, bad = Peer(broker), Peer(broker)
    encoded = BaseCommand(type=number).SerializePartialToString()  # type: ignore[arg-type]
    tag = number << 3 | 2
    header = bytearray()
    while tag > 127:
        header.append(tag & 127 | 128)
        tag >>= 7
    body = encoded + bytes(header) + bytes([tag, len(content)]) + content
    bad.session.receive((4 + len(body)).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body, 0.0)
    while bad.session.data_to_send():
        pass
    assert still_serves(good)


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_frame_cut_at_any_byte(cut: int) -> None:
    broker = make_broker()
    good, bad = Peer(broker), Peer(broker)
    whole = encode_frame(BaseCommand(type=BaseCommand.PING, ping={}))
    bad.session.receive((whole * 3)[:cut], 0.0)
    bad.session.eof(0.0)
    assert bad.session.closing
    assert still_serves(good)


EVIL = [
    "public/default/(a+)+b",
    "public/default/(a|aa)*" * 2 + "c",
    "public/default/" + "(x{1,100}){1,100}",
    "public/default/" + "(((y{1,1000}){1,1000}){1,1000})",
    "(" * 5000 + ")" * 5000,
    "public/default/" + "[a-z]*" * 2000,
]


@pytest.mark.parametrize("pattern", EVIL, ids=range(len(EVIL)))
def test_no_pattern_hangs_the_broker(pattern: str) -> None:
    """Without a limit of length, as the proposal is written: each is served in linear time, or refused."""
    broker = Broker(profiles=AS_WRITTEN)
    broker.admin.create_topic("persistent://public/default/" + "a" * 2000)
    peer, good = Peer(broker), Peer(broker)
    list_ = peer.ask("getTopicsOfNamespace", request_id=1, namespace="public/default", topics_pattern=pattern)
    watch = peer.ask("watchTopicList", request_id=2, watcher_id=1, namespace="public/default", topics_pattern=pattern)
    assert (list_.request_id, watch.request_id) == (1, 2)
    broker.admin.create_topic("persistent://public/default/" + "a" * 1000 + "y")
    assert still_serves(good)


def test_a_connection_has_a_limit_of_watchers() -> None:
    broker = make_broker()
    peer, good = Peer(broker), Peer(broker)
    refused = None
    for number in range(WATCHERS_PER_CONNECTION + 1):
        request = {"request_id": number, "watcher_id": number, "namespace": "public/default"}
        refused = peer.ask("watchTopicList", **request, topics_pattern=f"public/default/t-{number}-.*")
    assert refused.error == TooManyRequests
    assert still_serves(peer)
    broker.admin.create_topic("persistent://public/default/t-7-x")
    assert [one.watcher_id for one in peer.answers()] == [7]
    assert still_serves(good)
