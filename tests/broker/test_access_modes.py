"""Access modes of producers in the broker: who gets a topic, who waits, who is thrown out."""

import random

import pytest
from google.protobuf.message import Message

from refimpl.broker import Broker
from refimpl.wire.pulsar_api_pb2 import (
    CommandCloseProducer,
    CommandError,
    CommandProducerSuccess,
    ProducerBusy,
    ProducerFenced,
    ServiceNotReady,
)
from tests.fakes.broker_peer import TOPIC, Peer, make_broker

X, F, W, S = "Exclusive", "ExclusiveWithFencing", "WaitForExclusive", "Shared"


def come(broker: Broker, mode: str, **fields: object) -> tuple[Peer, Message]:
    peer = Peer(broker)
    return peer, peer.producer(producer_access_mode=mode, **fields)


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_those_that_wait_get_their_turns_and_epochs(domain) -> None:
    broker = make_broker()
    topic = f"{domain}://public/default/t"
    peers = [Peer(broker) for _ in range(4)]
    answers = [one.producer(topic, producer_access_mode=mode) for one, mode in zip(peers, (X, W, W, W), strict=True)]
    assert [answer.producer_ready for answer in answers] == [True, False, False, False]
    assert not answers[1].HasField("topic_epoch")
    peers[2].ask("close_producer", producer_id=1, request_id=2)
    peers[0].session.eof(0.0)
    (second,) = peers[1].answers()
    assert (second.request_id, second.producer_ready, second.topic_epoch) == (1, True, 1)
    assert second.producer_name == answers[1].producer_name
    peers[1].ask("close_producer", producer_id=1, request_id=2)
    (third,) = peers[3].answers()
    assert third.topic_epoch == 2
    assert peers[2].answers() == []


def test_a_shared_producer_does_not_overtake_one_that_waits() -> None:
    broker = make_broker()
    first, _ = come(broker, S)
    waiting, answer = come(broker, W)
    assert not answer.producer_ready
    assert come(broker, S)[1].error == ProducerBusy
    assert come(broker, X)[1].error == ProducerFenced
    waiting.session.eof(0.0)
    assert come(broker, S)[1].producer_ready
    assert come(broker, W)[1].producer_ready is False
    assert first.session in broker.sessions


def test_who_fences_gets_the_topic_from_all() -> None:
    broker = make_broker()
    there = [come(broker, S)[0] for _ in range(2)]
    waiting, _ = come(broker, W)
    new, answer = come(broker, F)
    assert (answer.producer_ready, answer.topic_epoch) == (True, 0)
    (fenced,) = waiting.answers()
    assert (type(fenced), fenced.error, fenced.request_id) == (CommandError, ProducerFenced, 1)
    new.publish("new")
    for one in there:
        one.publish("old")
        assert one.session.closing
    assert broker.loaded(TOPIC).entries.end == 1


def test_who_is_fenced_on_the_same_connection_ends_it_by_sending_and_comes_back_only_without_its_epoch() -> None:
    broker = make_broker()
    peer = Peer(broker)
    epoch = peer.producer(producer_access_mode=X).topic_epoch
    newer = peer.producer(producer_id=2, producer_access_mode=F).topic_epoch
    peer.publish("old")
    assert peer.session.closing
    assert peer.answers() == []
    assert broker.loaded(TOPIC).entries.end == 0
    assert come(broker, X, topic_epoch=epoch)[1].error == ProducerFenced
    assert come(broker, X)[1].topic_epoch == newer + 1, "without an epoch, it is a new producer of a topic that nobody has"


def test_a_producer_comes_back_with_its_epoch() -> None:
    broker = make_broker()
    peer, answer = come(broker, X)
    broker.admin.unload_topic(TOPIC)
    assert isinstance(peer.answers()[0], CommandCloseProducer)
    assert peer.producer(producer_access_mode=X, topic_epoch=answer.topic_epoch).topic_epoch == 0
    assert come(broker, F, topic_epoch=5)[1].topic_epoch == 5
    for mode in (X, F, W):
        peer.session.eof(0.0)
        broker.admin.unload_topic(TOPIC)
        assert come(broker, mode, topic_epoch=4)[1].error == ProducerFenced


def test_a_producer_that_waits_with_an_old_epoch_is_refused_at_its_turn() -> None:
    broker = make_broker()
    first, _ = come(broker, X, topic_epoch=7)
    stale, _ = come(broker, W, topic_epoch=3)
    following, _ = come(broker, W)
    first.session.eof(0.0)
    assert [answer.error for answer in stale.answers()] == [ProducerFenced]
    assert [answer.topic_epoch for answer in following.answers()] == [8]


def test_a_producer_that_waits_can_neither_send_nor_ask_again() -> None:
    broker = make_broker()
    come(broker, X)
    waiting, _ = come(broker, W)
    assert waiting.producer(producer_access_mode=W).error == ServiceNotReady
    waiting.publish("too soon")
    assert waiting.session.closing
    assert not broker.loaded(TOPIC).entries


def test_an_unload_ends_the_wait() -> None:
    broker = make_broker()
    come(broker, X)
    waiting, _ = come(broker, W)
    broker.admin.unload_topic(TOPIC)
    assert [(answer.request_id, answer.error) for answer in waiting.answers()] == [(1, ServiceNotReady)]
    assert waiting.producer(producer_access_mode=W).producer_ready


@pytest.mark.parametrize("seed", range(10))
def test_a_topic_is_never_written_by_two_when_one_has_it_alone(seed) -> None:
    choice = random.Random(seed)
    broker = make_broker()
    peers: list[Peer] = []
    for _ in range(150):
        if peers and choice.random() < 0.4:
            peers.pop(choice.randrange(len(peers))).session.eof(0.0)
        else:
            peer, answer = come(broker, choice.choice([S, X, F, W]))
            if isinstance(answer, CommandProducerSuccess):
                peers.append(peer)
        topic = broker.loaded(TOPIC)
        modes = [one.access_mode for one in topic.producers.values()]
        assert len(modes) == 1 or not any(modes)
        assert topic.producers or not topic.access.waiting
        assert all(one.session in broker.sessions for one in (*topic.producers.values(), *topic.access.waiting))
