"""Captures of stock clients, made by the proxy: `python -m tests.interop.captures FOLDER [TARGET] [CLIENT ..]`.

FOLDER gets a raw capture for each client: `python` and `java`, where not named otherwise. TARGET is `reference`, or a release such as
`apache-pulsar@4.2.4`. Each client produces single messages, batches with and without compression, with keys and properties, and consumes
them. The captures in tests/samples/captures were made like this.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pulsar

from conformance.captures import Written
from conformance.targets import AdminClient, ApachePulsar
from conformance.targets.reference import ReferenceTarget
from tests.fakes.frame_proxy import frame_proxy
from tests.interop.stock_clients import Client, ClientProcess

NAMESPACE = "public/captured"
REGIONS = ("eu", "us", "", "\u5730\u533a")
LONG = [f"message {number}, worth compressing" + " again" * 80 for number in range(10)]


def by_python(url: str) -> None:
    """Let the PyPI client produce and consume."""
    client = pulsar.Client(url)
    topics = [f"persistent://{NAMESPACE}/{name}" for name in ("single", "batched", "by key", "\u8ba2\u5355")]
    consumers = [client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared) for topic in topics]
    sent = 0
    single = client.create_producer(topics[0], producer_name="single")
    for number, text in enumerate(["", "plain", "\u00e9", "x" * 3000]):
        properties = {"region": REGIONS[number], "number": str(number)}
        single.send(text.encode(), properties, partition_key=f"k{number % 2}", ordering_key="o", event_timestamp=1_700_000_000_000 + number)
        sent += 1
    kinds = pulsar.CompressionType
    for topic, compression, batching in [
        *((topics[1], kind, pulsar.BatchingType.Default) for kind in (kinds.NONE, kinds.LZ4, kinds.ZLib, kinds.ZSTD, kinds.SNAPPY)),
        (topics[2], kinds.NONE, pulsar.BatchingType.KeyBased),
        (topics[3], kinds.ZSTD, pulsar.BatchingType.Default),
    ]:
        producer = client.create_producer(
            topic, compression_type=compression, batching_enabled=True, batching_max_publish_delay_ms=60_000, batching_type=batching
        )
        for number, text in enumerate(LONG):
            properties = {} if number == 3 else {"region": REGIONS[number % 4]}
            producer.send_async(text.encode(), lambda *_: None, properties, partition_key=f"k{number % 3}")
            sent += 1
        producer.flush()
        producer.close()
    for consumer, count in zip(consumers, (4, 50, 10, 10), strict=True):
        for _ in range(count):
            consumer.acknowledge(consumer.receive(30_000))
    client.close()


def by_java(url: str) -> None:
    """Let the Maven client produce and consume."""
    with tempfile.TemporaryDirectory() as folder:
        process = ClientProcess("java", Path(folder) / "log")
        try:
            client = Client(process, url)
            topic = f"persistent://{NAMESPACE}/java"
            consumer = client.consumer(topic, type="Shared")
            properties = [{"region": REGIONS[number % 4]} for number in range(10)]
            client.producer(topic).send(*LONG[:3], properties=properties[:3])
            for compression in ("NONE", "LZ4", "ZSTD"):
                client.producer(topic, batch=10, compression=compression).send(*LONG, properties=properties)
            consumer.ack(consumer.receive_all(33))
            consumer.close()
        finally:
            process.kill()


CLIENTS: Mapping[str, Callable[[str], None]] = {"python": by_python, "java": by_java}


async def capture(folder: Path, target: str = "reference", clients: tuple[str, ...] = tuple(CLIENTS)) -> Mapping[str, Written]:
    """Make captures; return what was written for each client."""
    release = target.partition("@")[2] or None
    written = {}
    async with (ApachePulsar(release) if release else ReferenceTarget()).run() as endpoint:
        async with AdminClient(endpoint) as admin:
            result = await admin.call("create_namespace", NAMESPACE)
            assert result.ok, result
        for name in clients:
            async with frame_proxy(endpoint.service_url) as proxy:
                await asyncio.to_thread(CLIENTS[name], proxy.service_url)
                assert proxy.defects == []
                written[name] = proxy.capture(folder / name, release)
    return written


if __name__ == "__main__":
    where, *rest = sys.argv[1:]
    print(asyncio.run(capture(Path(where), *rest[:1], *([tuple(rest[1:])] if rest[1:] else []))))
