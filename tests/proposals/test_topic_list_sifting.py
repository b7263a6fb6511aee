"""Lists and first watches over many topics are sifted in pieces. The answer is that of one moment, the last one."""

from __future__ import annotations

import pytest

from refimpl.broker import Broker
from refimpl.broker.names import parse_topic
from refimpl.proposals.topic_list import topics_hash
from refimpl.proposals.topic_list.sifting import FEW
from tests.fakes.broker_peer import Peer

NAMESPACE = "public/default"
SYSTEM = f"persistent://{NAMESPACE}/__change_events"
MANY = FEW + 500


def name(local: object) -> str:
    return f"persistent://{NAMESPACE}/t-{local}"


def ask(peer: Peer, kind: str, pattern: str | None) -> None:
    fields = {} if pattern is None else {"topics_pattern": f"persistent://{NAMESPACE}/{pattern}"}
    if kind == "watchTopicList":
        fields["watcher_id"] = 1
    peer.send(kind, request_id=1, namespace=NAMESPACE, **fields)


def listed(peer: Peer, kind: str) -> tuple[list[str], str]:
    (answer,) = peer.answers()
    return list(answer.topic if kind == "watchTopicList" else answer.topics), answer.topics_hash


@pytest.fixture
def broker() -> Broker:
    """A broker with many topics."""
    broker = Broker()
    for number in range(MANY):
        broker.admin.create_topic(name(number))
    return broker


def in_pieces(broker: Broker) -> None:
    """Let the next turn be over after one piece."""
    flags = iter([False])
    broker.turn_is_over = lambda: next(flags, True)


def give_turns(broker: Broker, peer: Peer) -> int:
    count = 0
    while peer.session in broker.waiting:
        del broker.waiting[peer.session]
        in_pieces(broker)
        peer.session.proceed(0.0)
        count += 1
        if count == 2 and broker.exists(parse_topic(name(0))):  # topics come and go meanwhile
            for one in (0, 5, MANY - 1):
                broker.admin.delete_topic(name(one))
            for one in (5, "new", "9-new"):
                broker.admin.create_topic(name(one))
            broker.create_topic(parse_topic(SYSTEM))
    return count


WATCHES = [("watchTopicList", pattern) for pattern in (".*", "t-.*", "t-[0-8].*", "t-new", "x")]
LISTS = [("getTopicsOfNamespace", pattern) for pattern in (None, *(pattern for _, pattern in WATCHES))]


@pytest.mark.parametrize(("kind", "pattern"), [*WATCHES, *LISTS])
def test_the_answer_is_that_of_the_last_moment(broker, kind, pattern):
    peer, twin, other = (Peer(broker) for _ in range(3))
    for one in (peer, twin):
        in_pieces(broker)
        ask(one, kind, pattern)
    in_pieces(broker)
    other.send("ping")
    assert not peer.frames()
    assert len(other.frames()) == 1, "others are served between the pieces"
    assert give_turns(broker, peer) >= MANY // 200
    give_turns(broker, twin)
    answers = [listed(one, kind) for one in (peer, twin)]
    broker.turn_is_over = lambda: False
    late = Peer(broker)
    ask(late, kind, pattern)
    expected = listed(late, kind)
    assert answers == [expected, expected]
    assert expected[1] == topics_hash(expected[0])
    assert {name(0), SYSTEM}.isdisjoint(expected[0])
    if pattern in (None, ".*", "t-.*"):
        assert {name("new"), name("9-new"), name(5)} <= set(expected[0])
        assert len(expected[0]) == MANY
    broker.admin.create_topic(name("7-later"))
    told = [len(one.frames()) for one in (peer, twin)]
    assert told == [kind == "watchTopicList" and pattern in (".*", "t-.*", "t-[0-8].*")] * 2


def test_what_was_sifted_is_gone_with_its_connection(broker):
    peer = Peer(broker)
    in_pieces(broker)
    ask(peer, *WATCHES[0])
    (extension,) = (one for register, one in broker.extensions.items() if register == "pip145")
    assert len(extension.lists._siftings) == 1
    peer.session.eof(0.0)
    assert len(extension.lists._siftings) == 0


def test_nothing_is_sifted_before_connect(broker):
    peer = Peer(broker, connect=False)
    ask(peer, *LISTS[0])
    give_turns(broker, peer)
    assert peer.session.closing
