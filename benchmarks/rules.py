"""Measures the rules and the broker without sockets."""

import itertools
import random
import statistics

from figures import row, seconds

from refimpl.broker import Broker
from refimpl.indexes.topic_patterns import PatternIndex, compile_pattern
from refimpl.indexes.topics_hash import TopicSet, topics_hash
from refimpl.wire import command, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata

NAMES = 100_000
PATTERNS = 10_000


def hash_of_a_changing_set() -> None:
    """One change in a set of topics, against the hash of the list from scratch."""
    names = [f"persistent://public/default/department-{n % 97}/{n:06}".replace("/department", "-department") for n in range(NAMES)]
    topics, choice = TopicSet(names), random.Random(1)
    assert topics.hash == topics_hash(names)
    changes = []
    for name in choice.sample(names, 100):
        changes.append(seconds(lambda name=name: (topics.remove(name), topics.hash)))
        changes.append(seconds(lambda name=name: (topics.add(name), topics.hash)))
    whole = statistics.median(seconds(lambda: topics_hash(names)) for _ in range(7))
    change = statistics.median(changes)
    row(
        "hash",
        f"{change * 1e3:.3g} ms",
        f"after one change in {NAMES:,} names; anew: {whole * 1e3:.3g} ms; {whole / change:.0f} times faster; goal: 20",
    )


def patterns() -> None:
    """One new name against all patterns of a namespace."""
    for kind, goal, make in (
        ("prefixes", "under 20 us", lambda n: f"public/default/tenant-{n:05}-.*"),
        ("any", "under 2 ms", lambda n: f"public/default/(a|b)[0-9]+-{n:05}(x|y)?.*z"),
    ):
        index = PatternIndex()
        for n in range(PATTERNS):
            index.add(compile_pattern(make(n)))
        names = [
            f"public/default/tenant-{n % PATTERNS:05}-z" if kind == "prefixes" else f"public/default/a7-{n % PATTERNS:05}xz"
            for n in range(0, 50_000, 7)
        ]
        first = seconds(lambda index=index, names=names: list(index.matching(names[0])))
        assert all(len(list(index.matching(name))) == 1 for name in names[:50])
        times = [seconds(lambda name=name, index=index: list(index.matching(name))) for name in names[:2000]]
        row(
            "patterns",
            f"{statistics.median(times) * 1e6:.3g} us",
            f"one name against {PATTERNS:,} patterns ({kind}); the first: {first * 1e3:.3g} ms; goal: {goal}",
        )


def messages() -> None:
    """Produce and consume through a broker without sockets, one kilobyte a message."""
    for batch in (1, 100):
        times = [_messages_once(20_000 // batch, batch) for _ in range(3)]
        row(
            "messages",
            f"{20_000 / statistics.median(times):,.0f} messages/s",
            f"produced, received and acknowledged, 1 KB each, {batch} in a batch",
        )


def _messages_once(entries: int, batch: int) -> float:
    broker = Broker()
    session = broker.connect(0.0)
    topic = "persistent://public/default/t"
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    if batch > 1:
        metadata.num_messages_in_batch = batch
    payload = encode_payload(metadata, bytes(1024 * batch))
    opening = [
        command("connect", client_version="bench", protocol_version=21),
        command("producer", topic=topic, producer_id=1, request_id=1),
        command("subscribe", topic=topic, subscription="s", subType="Exclusive", consumer_id=1, request_id=2),
        command("flow", consumer_id=1, messagePermits=10_000_000),
    ]
    session.receive(b"".join(map(encode_frame, opening)), 0.0)
    session.data_to_send(1 << 20)

    def work() -> object:
        for number in itertools.islice(itertools.count(), entries):
            session.receive(encode_frame(command("send", producer_id=1, sequence_id=number, num_messages=batch), payload), 0.0)
            while session.data_to_send(1 << 20):
                pass
            message_id = {"ledgerId": 1, "entryId": number}
            session.receive(encode_frame(command("ack", consumer_id=1, ack_type="Individual", message_id=[message_id])), 0.0)
        return None

    took = seconds(work)
    assert broker.admin.topic_stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0
    return took
