"""Flows of stock clients that became cases: `python -m tests.interop.captured_flows FOLDER [TARGET] [FLOW ..]`.

FOLDER gets a raw capture for each flow, made by the proxy, and the transcript of it; the cases in conformance/transcripts/transcribed were
made like this. TARGET is `apache-pulsar@VERSION`, or `reference`. Each flow has a namespace of
its own.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.targets import AdminClient, ApachePulsar
from conformance.targets.reference import ReferenceTarget
from conformance.transcribing import read_conversation, transcribe
from tests.fakes.frame_proxy import FrameProxy, frame_proxy
from tests.interop.stock_clients import Client, ClientProcess, received_by

TEXTS = ("one", "two", "three", "four")
SCHEMA = '{"type":"record","name":"Named","fields":[{"name":"name","type":"string"}]}'
SMALL = "10240"
"""Bytes of the largest message of the broker for the flow with chunks, so that a case stays small."""


@dataclass(frozen=True)
class World:
    """What a flow has: a client, a topic that is not there yet, the proxy, and `admin(operation, arguments)`."""

    client: Client
    topic: str
    proxy: FrameProxy
    admin: Callable[..., Any]


Flow = Callable[[World], None]


def produced_singly(world: World) -> None:
    """A producer sends messages with keys and properties, one by one."""
    producer = world.client.producer(world.topic)
    for text in TEXTS:
        producer.send(text, properties=[{"region": "eu", "text": text}], keys=[text[0]])
    producer.close()


def produced_in_batches(world: World) -> None:
    """A producer sends two batches, and a consumer acknowledges their messages."""
    consumer = world.client.consumer(world.topic)
    producer = world.client.producer(world.topic, batch=len(TEXTS))
    for _ in range(2):
        producer.send(*TEXTS, properties=[{"number": str(number)} for number in range(len(TEXTS))])
    consumer.ack(consumer.receive_all(2 * len(TEXTS)))
    consumer.close()


def compressed(kind: str) -> Flow:
    """Return the flow of a producer that compresses a batch and a single message."""

    def flow(world: World) -> None:
        consumer = world.client.consumer(world.topic)
        world.client.producer(world.topic, batch=len(TEXTS), compression=kind).send(*TEXTS)
        world.client.producer(world.topic, compression=kind).send("again " * 30)
        consumer.ack(consumer.receive_all(len(TEXTS) + 1))
        consumer.close()

    return flow


def partitioned(world: World) -> None:
    """A producer and a consumer of a topic with three partitions."""
    world.admin("create_partitioned_topic", {"topic": world.topic, "partitions": 3})
    consumer = world.client.consumer(world.topic, type="Shared")
    producer = world.client.producer(world.topic)
    for text in TEXTS:
        producer.send(text)
    consumer.ack(consumer.receive_all(len(TEXTS)))
    consumer.close()


def one_after_the_other(kind: str) -> Flow:
    """Return the flow of a consumer of some type that finds messages, acknowledges the first two, leaves the others and comes again."""

    def flow(world: World) -> None:
        first = world.client.consumer(world.topic, type=kind, position="Earliest")
        world.client.producer(world.topic).send(*TEXTS)
        first.ack(first.receive_all(len(TEXTS))[:2])
        first.close()
        second = world.client.consumer(world.topic, type=kind)
        second.ack(second.receive_all(len(TEXTS) - 2))
        second.close()

    return flow


def shared_by_two(kind: str) -> Flow:
    """Return the flow of two consumers that share a subscription."""

    def flow(world: World) -> None:
        consumers = [world.client.consumer(world.topic, type=kind) for _ in range(2)]
        world.client.producer(world.topic).send(*TEXTS, keys=list(TEXTS))
        for consumer, messages in zip(consumers, received_by(consumers, len(TEXTS)), strict=True):
            consumer.ack(messages)
        _acknowledged(world, len(TEXTS))

    return flow


def failover(world: World) -> None:
    """Two consumers of a failover subscription of a partition: the first one has all, the other takes over what is left."""
    world.admin("create_partitioned_topic", {"topic": world.topic, "partitions": 1})
    one = f"{world.topic}-partition-0"
    first, second = (world.client.consumer(one, type="Failover", **{"as": name}) for name in ("a", "b"))
    world.client.producer(one).send(*TEXTS)
    first.ack(first.receive_all(len(TEXTS))[:2])
    first.close()
    second.ack(second.receive_all(2))
    second.close()


def read_from_the_beginning(world: World) -> None:
    """A reader reads all messages, and asks whether there is more."""
    world.client.producer(world.topic).send(*TEXTS)
    reader = world.client.reader(world.topic, "Earliest")
    reader.receive_all(len(TEXTS))
    reader.has_more()
    reader.close()


def read_from_a_message(world: World) -> None:
    """A reader begins behind a message that a consumer got."""
    consumer = world.client.consumer(world.topic)
    world.client.producer(world.topic).send(*TEXTS)
    second = consumer.receive_all(2)[1]
    reader = world.client.reader_from(second, consumer, inclusive=False)
    reader.receive_all(len(TEXTS) - 2)
    reader.close()
    consumer.close()


def sought(world: World) -> None:
    """A consumer goes back to the beginning, and to a message."""
    consumer = world.client.consumer(world.topic)
    world.client.producer(world.topic).send(*TEXTS)
    messages = consumer.receive_all(len(TEXTS))
    consumer.ack(messages)
    consumer.seek("Earliest")
    consumer.ack(consumer.receive_all(len(TEXTS)))
    consumer.seek(messages[1])
    consumer.receive()
    consumer.close()


def acknowledged_cumulatively(world: World) -> None:
    """A consumer acknowledges three of four messages at once, and gets the last one when it comes again."""
    consumer = world.client.consumer(world.topic)
    world.client.producer(world.topic).send(*TEXTS)
    consumer.ack_cumulative(consumer.receive_all(len(TEXTS))[2])
    consumer.close()
    again = world.client.consumer(world.topic)
    again.ack([again.receive()])
    again.close()


def refused_once(kind: str) -> Flow:
    """Return the flow of a consumer that acknowledges negatively, and takes the message when it comes again."""

    def flow(world: World) -> None:
        consumer = world.client.consumer(world.topic, type=kind, nack_delay_ms=200)
        world.client.producer(world.topic).send(*TEXTS[:2])
        first, second = consumer.receive_all(2)
        consumer.ack([first])
        consumer.nack([second])
        consumer.ack([consumer.receive()])
        consumer.close()

    return flow


def by_pattern(world: World) -> None:
    """A consumer of a pattern finds a topic, and then another one that is created while it watches."""
    world.admin("create_topic", f"{world.topic}-1")
    consumer = world.client.consumer(pattern=f"{world.topic}-.*")
    if world.client.language == "java":
        world.proxy.wait("watchTopicListSuccess")
        mark = world.proxy.mark
        world.admin("create_topic", f"{world.topic}-2")
        world.proxy.wait("flow", mark)
    world.client.producer(f"{world.topic}-1").send("one")
    consumer.ack([consumer.receive()])
    consumer.close()


def with_schema(kind: str) -> Flow:
    """Return the flow of a producer and a consumer of records."""

    def flow(world: World) -> None:
        consumer = world.client.consumer(world.topic, schema=kind, definition=SCHEMA)
        world.client.producer(world.topic, schema=kind, definition=SCHEMA).send("a", "b")
        consumer.ack(consumer.receive_all(2))
        consumer.close()

    return flow


def dead_letter(world: World) -> None:
    """A message that comes once too often goes to a topic of its own."""
    policy = {"after": 1, "topic": f"{world.topic}-dead", "subscription": "d"}
    consumer = world.client.consumer(world.topic, type="Shared", nack_delay_ms=200, dead_letters=policy)
    dead = world.client.consumer(f"{world.topic}-dead", subscription="d")
    world.client.producer(world.topic).send("one")
    consumer.nack([consumer.receive()])
    consumer.nack([consumer.receive()])
    dead.ack([dead.receive()])
    dead.close()


def in_chunks(world: World) -> None:
    """A producer sends a message in chunks."""
    consumer = world.client.consumer(world.topic)
    world.client.producer(world.topic, chunking=True).send("x" * 2 * int(SMALL))
    consumer.ack([consumer.receive()])
    consumer.close()


def delayed(world: World) -> None:
    """A message that is to come later, and one that overtakes it."""
    consumer = world.client.consumer(world.topic, type="Shared")
    producer = world.client.producer(world.topic)
    producer.send("later", after_ms=3000)
    producer.send("now")
    consumer.ack(consumer.receive_all(2))
    consumer.close()


def unsubscribed(world: World) -> None:
    """A consumer deletes its subscription, so that the next one of that name finds nothing of before."""
    consumer = world.client.consumer(world.topic)
    producer = world.client.producer(world.topic)
    producer.send("one")
    consumer.receive()
    consumer.unsubscribe()
    again = world.client.consumer(world.topic)
    producer.send("two")
    again.ack([again.receive()])
    again.close()


def terminated(world: World) -> None:
    """A topic ends while a consumer has read all of it."""
    consumer = world.client.consumer(world.topic)
    producer = world.client.producer(world.topic)
    producer.send("one")
    consumer.ack([consumer.receive()])
    producer.close()
    mark = world.proxy.mark
    world.admin("terminate_topic", world.topic)
    world.proxy.wait("reachedEndOfTopic", mark)
    consumer.close()


def unloaded(world: World) -> None:
    """A topic is unloaded: producer and consumer come again, get what was not acknowledged, and go on."""
    consumer = world.client.consumer(world.topic)
    producer = world.client.producer(world.topic)
    producer.send("one")
    consumer.receive()
    mark = world.proxy.mark
    world.admin("unload_topic", world.topic)
    world.proxy.wait("flow", mark)
    world.proxy.wait("producer_success", mark)
    producer.send("two")
    consumer.ack(consumer.receive_all(2))
    consumer.close()


def parts_acknowledged(world: World) -> None:
    """A consumer acknowledges single messages of a batch."""
    consumer = world.client.consumer(world.topic, type="Shared", batch_index_ack=True)
    world.client.producer(world.topic, batch=len(TEXTS)).send(*TEXTS)
    messages = consumer.receive_all(len(TEXTS))
    consumer.ack(messages[:2])
    consumer.close()


def grown(world: World) -> None:
    """A topic gets partitions after it was made."""
    world.admin("create_partitioned_topic", {"topic": world.topic, "partitions": 1})
    world.client.partitions(world.topic)
    world.admin("update_partitioned_topic", {"topic": world.topic, "partitions": 2})
    consumer = world.client.consumer(world.topic, type="Shared")
    world.client.producer(f"{world.topic}-partition-1").send("one")
    consumer.ack([consumer.receive()])
    consumer.close()


def turns(world: World) -> None:
    """A producer waits until the one that has the topic for itself leaves."""
    first = world.client.producer(world.topic, access="Exclusive")
    first.send("one")
    turn = world.client.waiting_producer(world.topic)
    world.proxy.wait("producer_success", count=2)
    first.close()
    second = turn()
    second.send("two")
    second.close()


def _acknowledged(world: World, count: int) -> None:
    """Wait until so many acknowledgements have passed: who closes sooner gives messages back."""
    acks = 0
    while sum(len(one.message_id) for one in world.proxy.seen("ack")) < count:
        acks += 1
        world.proxy.wait("ack", count=acks)


@dataclass(frozen=True)
class Named:
    """A flow of a client: `python` or `java`, what it does, and the title of the case."""

    language: str
    flow: Flow
    title: str


def _named(language: str, flow: Flow, title: str = "") -> Named:
    client = {"python": "PyPI", "java": "Java"}[language]
    return Named(language, flow, f"{title or (flow.__doc__ or '').strip().rstrip('.')} ({client} client)")


_COMPRESSED = "A batch and a single message, compressed with {}, come to a consumer"
FLOWS: Mapping[str, Named] = {
    "python-single": _named("python", produced_singly),
    "python-batches": _named("python", produced_in_batches),
    "java-batches": _named("java", produced_in_batches),
    **{
        f"python-compressed-{kind.lower()}": _named("python", compressed(kind), _COMPRESSED.format(kind))
        for kind in ("LZ4", "ZLib", "ZSTD", "SNAPPY")
    },
    "python-partitioned": _named("python", partitioned),
    "java-exclusive": _named(
        "java",
        one_after_the_other("Exclusive"),
        "An exclusive consumer acknowledges two of four messages, and the next one gets the others",
    ),
    "python-shared": _named(
        "python", one_after_the_other("Shared"), "A shared consumer acknowledges two of four messages, and the next one gets the others"
    ),
    "python-shared-by-two": _named("python", shared_by_two("Shared"), "Two shared consumers get four messages between them"),
    "java-key-shared": _named(
        "java", shared_by_two("Key_Shared"), "Two consumers of a key-shared subscription get four messages between them"
    ),
    "java-failover": _named("java", failover),
    "python-reader": _named("python", read_from_the_beginning),
    "python-reader-from": _named("python", read_from_a_message),
    "python-seek": _named("python", sought),
    "java-seek": _named("java", sought),
    "python-cumulative": _named("python", acknowledged_cumulatively),
    "python-negative": _named("python", refused_once("Shared"), "A shared consumer acknowledges a message negatively, and gets it again"),
    "java-pattern": _named("java", by_pattern),
    "python-pattern": _named(
        "python", by_pattern, "A consumer of a pattern lists the topics of the namespace, and subscribes to those that match"
    ),
    "python-schema": _named("python", with_schema("JSON"), "A producer and a consumer of records in JSON bring their schema"),
    "java-schema": _named("java", with_schema("AVRO"), "A producer and a consumer of records in Avro bring their schema"),
    "python-dead-letter": _named("python", dead_letter),
    "python-chunks": _named("python", in_chunks),
    "python-delayed": _named("python", delayed),
    "python-unsubscribe": _named("python", unsubscribed),
    "python-terminated": _named("python", terminated),
    "python-unloaded": _named("python", unloaded),
    "java-parts": _named("java", parts_acknowledged),
    "python-grown": _named("python", grown),
    "python-turns": _named("python", turns),
}
"""Flows by name."""


async def capture(folder: Path, target: str = "reference", chosen: tuple[str, ...] = tuple(FLOWS)) -> None:
    """Write a capture of each flow, and its transcript."""
    for small in (False, True):
        names = [name for name in chosen if ("chunks" in name) == small]
        config = {"maxMessageSize": SMALL} if small else {}
        if names:
            async with _target(target).run(config) as endpoint, AdminClient(endpoint) as admin:
                for name in names:
                    async with frame_proxy(endpoint.service_url) as proxy:
                        try:
                            await _flow(name, proxy, admin)
                        except Exception as error:
                            print(name, str(error)[:300], flush=True)
                            continue
                        proxy.capture(folder / name, target.partition("@")[2] or None)
                    transcribed(folder, name)
                    print(name, flush=True)


def transcribed(folder: Path, name: str) -> None:
    """Write the transcript of a capture beside it."""
    text = transcribe(read_conversation(folder / name), f"transcribed/{name}", FLOWS[name].title)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def _target(target: str) -> ApachePulsar | ReferenceTarget:
    release = target.partition("@")[2]
    return ApachePulsar(release) if release else ReferenceTarget()


async def _flow(name: str, proxy: FrameProxy, admin: AdminClient) -> None:
    loop = asyncio.get_running_loop()
    flow = FLOWS[name]

    async def call(operation: str, arguments: object) -> Any:
        result = await admin.call(operation, arguments)
        assert result.ok, result
        return result.body

    def play() -> None:
        with tempfile.TemporaryDirectory() as place:
            process = ClientProcess(flow.language, Path(place) / "log")
            try:
                client = Client(process, proxy.service_url)
                topic = f"persistent://public/{name}/t"
                flow.flow(World(client, topic, proxy, lambda *given: asyncio.run_coroutine_threadsafe(call(*given), loop).result(30)))
                client.end()
                proxy.wait_for_end("->")
            finally:
                process.kill()

    await call("create_namespace", f"public/{name}")
    await asyncio.to_thread(play)
    assert proxy.defects == []


if __name__ == "__main__":
    where, *rest = sys.argv[1:]
    asyncio.run(capture(Path(where), *rest[:1], *([tuple(rest[1:])] if rest[1:] else [])))
