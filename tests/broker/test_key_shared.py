"""Key_Shared subscriptions of the broker: where keys go, and in which order."""

import random
from collections import defaultdict

import pytest

from refimpl.broker import Broker
from refimpl.broker.key_shared import LOOK_AHEAD, key_of
from refimpl.wire import encode_payload
from refimpl.wire.pulsar_api_pb2 import ConsumerAssignError, MessageMetadata
from tests.fakes.broker_peer import TOPIC, Peer, make_broker

LOWER, UPPER = {"start": 0, "end": 32767}, {"start": 32768, "end": 65535}


class World:
    """A producer of messages with keys, and consumers that check what they get."""

    def __init__(self, broker: Broker | None = None) -> None:
        self.broker = broker or make_broker()
        self.producer = Peer(self.broker)
        self.producer.producer()
        self.sent = 0

    def send(self, key: str | None, text: str = "") -> None:
        metadata = MessageMetadata(producer_name="p", sequence_id=self.sent, publish_time=1)
        if key is not None:
            metadata.partition_key = key
        self.producer.send("send", encode_payload(metadata, (text or key or "").encode()), producer_id=1, sequence_id=self.sent)
        self.sent += 1

    def join(self, name: str, permits: int = 1000, *ranges: dict, **meta: object) -> Peer:
        consumer = Peer(self.broker)
        asked = {"keySharedMode": "STICKY" if ranges else "AUTO_SPLIT", "hashRanges": list(ranges), **meta}
        answer = consumer.subscribe(kind="Key_Shared", consumer_name=name, keySharedMeta=asked)
        assert answer.DESCRIPTOR.name == "CommandSuccess", answer
        consumer.send("flow", consumer_id=1, messagePermits=permits) if permits else None
        return consumer


@pytest.mark.parametrize(
    ("metadata", "key"),
    [
        ({"ordering_key": b"o", "partition_key": "k"}, b"o"),
        ({"partition_key": "ä"}, "ä".encode()),
        ({"partition_key": "/wA=", "partition_key_b64_encoded": True}, b"\xff\x00"),
        ({"partition_key": "no Base64", "partition_key_b64_encoded": True}, b"NONE_KEY"),
        ({"partition_key": ""}, b""),
        ({}, b"p-7"),
    ],
)
def test_a_key_is_the_ordering_key_or_the_partition_key(metadata, key) -> None:
    assert key_of(MessageMetadata(producer_name="p", sequence_id=7, publish_time=1, **metadata)) == key


@pytest.mark.parametrize(
    ("names", "keyed", "owners"),
    [
        (["alpha", "beta", "gamma"], True, "3211123322221132231112331222131221112323"),
        (["same", "same", "same"], True, "1321233331313132222323131121322232213222"),
        (["", ""], True, "1212211112222212122222111112112221221221"),
        (["", ""], False, "11111112212122222221"),
    ],
)
def test_keys_belong_to_the_consumers_that_apache_pulsar_gives_them_to(names, keyed, owners) -> None:
    world = World()  # as observed on 4.2.4
    world.sent = 0 if keyed else 100
    consumers = [world.join(name) for name in names]
    for n in range(len(owners)):
        world.send(f"k{n}" if keyed else None, str(n))
    found = {int(text): str(number) for number, consumer in enumerate(consumers, 1) for text in consumer.texts()}
    assert "".join(found[n] for n in range(len(owners))) == owners


@pytest.mark.parametrize("seed", range(20))
def test_keys_stay_in_order_while_consumers_come_and_go(seed) -> None:
    choice = random.Random(seed)
    world = World()
    world.producer.subscribe()
    world.producer.send("close_consumer", consumer_id=1, request_id=1)
    pending: dict[Peer, dict[int, str]] = {}
    done: list[int] = []
    key_at: list[str] = []

    def take() -> None:
        for one, held in pending.items():
            for frame in one.frames():
                if frame.command.HasField("message"):
                    index = frame.command.message.message_id.entryId
                    key = key_at[index]
                    assert index not in done
                    assert all(key not in other.values() for other in pending.values() if other is not held), "a key is with two consumers"
                    earlier = {i for i, k in enumerate(key_at[:index]) if k == key} - set(done)
                    assert earlier <= set(held), "what came before with this key was not delivered yet"
                    held[index] = key

    for _ in range(300):
        action = choice.choice(["send", "send", "send", "ack", "ack", "flow", "nack", "join", "leave"])
        one = choice.choice(list(pending)) if pending else None
        if action == "send":
            key_at.append(f"k{choice.randrange(12)}")
            world.send(key_at[-1])
        elif action == "join" and len(pending) < 5:
            pending[world.join(f"c{choice.randrange(4)}", choice.randrange(5))] = {}
        elif one is None:
            continue
        elif action == "flow":
            one.send("flow", consumer_id=1, messagePermits=choice.randrange(1, 10))
        elif action == "leave":
            del pending[one]
            one.session.eof(0.0)
        elif pending[one]:
            index = choice.choice(list(pending[one]))
            if action == "ack":
                del pending[one][index]
                done.append(index)
                one.acknowledge(index)
            else:
                later = [i for i, k in pending[one].items() if k == pending[one][index] and i >= index]
                for i in later:
                    del pending[one][i]
                ids = [{"ledgerId": 1, "entryId": i} for i in later]
                one.send("redeliverUnacknowledgedMessages", consumer_id=1, message_ids=ids)
        take()
    last = world.join("last")
    pending[last] = {}
    take()
    for one in [one for one in pending if one is not last]:
        pending.pop(one)
        one.session.eof(0.0)
        take()
    assert sorted(done + list(pending[last])) == list(range(len(key_at)))


def test_a_consumer_that_joins_gets_keys_once_they_are_drained() -> None:
    world = World()
    first = world.join("a")
    keys = [f"k{n}" for n in range(20)]
    for key in keys:
        world.send(key)
    assert first.texts() == keys
    second = world.join("b")
    for key in keys:
        world.send(key, f"{key} again")
    stay = [text.removesuffix(" again") for text in first.texts()]
    move = [key for key in keys if key not in stay]
    assert stay
    assert move
    assert second.texts() == []
    for key in move:
        first.acknowledge(keys.index(key))
        assert second.texts() == [f"{key} again"]


def test_out_of_order_delivery_moves_keys_at_once() -> None:
    world = World()
    first = world.join("a", allowOutOfOrderDelivery=True)
    for n in range(20):
        world.send(f"k{n}")
    assert len(first.texts()) == 20
    second = world.join("b", allowOutOfOrderDelivery=True)
    for n in range(20):
        world.send(f"k{n}")
    assert len(first.texts()) + len(second.texts()) == 20


def test_consumers_of_one_name_have_keys_of_their_own() -> None:
    world = World()
    both = world.join("same"), world.join("same")
    for n in range(50):
        world.send(f"k{n}")
    texts = [one.texts() for one in both]
    assert all(texts)
    assert sum(map(len, texts)) == 50


def test_messages_without_a_key_are_shared() -> None:
    world = World()
    both = world.join("a"), world.join("b")
    for n in range(50):
        world.send(None, str(n))
    texts = [one.texts() for one in both]
    assert all(texts)
    assert sorted(map(int, texts[0] + texts[1])) == list(range(50))


def test_a_slow_consumer_holds_up_only_so_many_others() -> None:
    world = World()
    slow, quick = world.join("slow", 0, LOWER), world.join("quick", 10**6, UPPER)
    for n in range(2 * LOOK_AHEAD - 1):
        world.send("a", str(n))
    world.send("c")
    assert quick.texts() == ["c"]  # 2,000 for each consumer wait, not more
    world.send("a")
    world.send("c")
    assert quick.texts() == []
    assert slow.flow(10) == [str(n) for n in range(10)]
    assert quick.texts() == ["c"]


def test_a_range_of_a_consumer_that_does_not_answer_is_free() -> None:
    world = World()
    dead = world.join("dead", 10, LOWER)
    world.send("a")
    assert dead.texts() == ["a"]
    heir = Peer(world.broker)
    heir.send("subscribe", topic=TOPIC, subscription="s", subType="Key_Shared", consumer_id=1, request_id=2,
              keySharedMeta={"keySharedMode": "STICKY", "hashRanges": [LOWER]})  # fmt: skip
    assert heir.answers() == []
    world.broker.tick(6.0)
    assert [answer.DESCRIPTOR.name for answer in heir.answers()] == ["CommandSuccess"]
    assert heir.flow(10) == ["a"]


def test_ranges_of_one_consumer_do_not_overlap() -> None:
    peer = Peer(make_broker())
    meta = {"keySharedMode": "STICKY", "hashRanges": [{"start": 5, "end": 9}, {"start": 0, "end": 5}]}
    assert peer.subscribe(kind="Key_Shared", keySharedMeta=meta).error == ConsumerAssignError


def test_each_exclusive_consumer_with_ranges_gets_what_it_names() -> None:
    world = World()
    reader = Peer(world.broker)
    for key in "acbf":
        world.send(key)
    for ranges, expected in [([LOWER], ["a", "b"]), ([UPPER], ["c", "f"]), ([], ["a", "c", "b", "f"])]:
        reader.subscribe(keySharedMeta={"keySharedMode": "STICKY", "hashRanges": ranges})
        assert reader.flow(10) == expected
        reader.ask("close_consumer", consumer_id=1, request_id=3)


def test_after_an_unload_keys_go_where_they_went() -> None:
    world = World()
    went: dict[str, set[str]] = defaultdict(set)
    for _ in range(2):
        consumers = {name: world.join(name, 0) for name in "abc"}
        for n in range(20):
            world.send(f"k{n}")
        for name, consumer in consumers.items():
            for text in consumer.flow(1000):
                went[text].add(name)
        world.broker.admin.unload_topic(TOPIC)
        world.producer.frames()
        world.producer.producer()
    assert {len(names) for names in went.values()} == {1}
