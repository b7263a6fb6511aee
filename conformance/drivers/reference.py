#!/usr/bin/env python3
"""The driver of this project's own client, and an example: copy it, and put your client in the place of this one.

It reads requests as JSON lines, does one after the other, and prints an answer for each; whatever its user would see comes as an event.
docs/drivers.md describes the lines, the verbs and their arguments.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from refimpl.client import EARLIEST, LATEST, Message
from refimpl.client.options import CLIENT_VERSION, ClientOptions
from refimpl.net.client import Client, Dial
from refimpl.proposals.message_filter import MessageFilterPolicy
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, CompressionType, ProducerAccessMode

Arguments = dict[str, Any]
HELLO = {
    "protocol": 1,
    "client": "refimpl",
    "version": CLIENT_VERSION.split()[-1],
    "language": "Python",
    "capabilities": [
        "pattern-consumers",
        "pattern-hash",
        "pattern-watch",
        "pattern-reconcile",
        "partition-polling",
        "chunks",
        "partition-notifications",
        "namespace-consumers",
        "message-filters",
        "own-filtering",
        "without-flags",
        "uniform-batches",
    ],
}


class Unsupported(Exception):
    """The client does not offer what is asked."""


class Driver:
    """One client, with its producers and consumers by name.

    Args:
        say: Takes the lines for the suite.
        dial: Opens connections instead of TCP.
        seed: Seed of the client; None: a random one.
        wall_clock_offset: Offset from the event loop's time to seconds since 1970; None: from the system clock.
    """

    def __init__(
        self, say: Callable[[Arguments], None], *, dial: Dial | None = None, seed: int | None = None, wall_clock_offset: float | None = None
    ) -> None:
        self.say = say
        self.surroundings: Arguments = {"dial": dial, "seed": seed, "wall_clock_offset": wall_clock_offset}
        self.tasks: set[asyncio.Task[None]] = set()
        self.forget()

    def forget(self) -> None:
        self.url = ""
        self.token: str | None = None
        self.client: Client | None = None
        self.things: dict[str, Any] = {}
        self.messages: dict[tuple[str, str], Message] = {}
        self.going_on: dict[str, asyncio.Event] = {}
        self.ids = itertools.count(1)

    async def begin(self, service_url: str) -> None:
        self.url = service_url

    async def connected(self) -> Client:
        if self.client is None:
            await self.start()
        assert self.client is not None
        return self.client

    async def start(
        self, operation_timeout_ms: int = 30_000, keep_alive_ms: int = 30_000, listener_name: str | None = None, token: str | None = None
    ) -> None:
        options = ClientOptions(
            operation_timeout=operation_timeout_ms / 1000,
            keep_alive_interval=keep_alive_ms / 1000,
            listener_name=listener_name,
            token=None if token is None else lambda: self.token or "",
        )
        self.token = token
        self.client = await Client(self.url, options=options, **self.surroundings).__aenter__()

    async def refresh(self, token: str) -> None:
        self.token = token

    async def producer(self, name: str, topic: str, **options: Any) -> None:
        chosen = {"batching": False, **growth(options, partial(self.partitions_told, name)), **batching(options)}
        for key, value in options.items():
            if key == "compression":
                chosen["compression"] = CompressionType.Value(value)
            elif key == "access":
                chosen["access_mode"] = ProducerAccessMode.Value(value)
            elif key == "as":
                chosen["name"] = value
            elif key == "chunks":
                chosen["chunking"] = value
            elif key == "uniform":
                chosen["restrict_same_values_in_batch_properties"] = value
            elif key == "send_timeout_ms":
                chosen["send_timeout"] = value / 1000
            else:
                raise Unsupported(f"option {key}")
        self.things[name] = await (await self.connected()).create_producer(topic, **chosen)

    async def send(self, producer: str, texts: list[str], **options: Any) -> dict[str, Any]:
        unknown = options.keys() - {"properties", "keys", "event_times", "sequence_ids", "deliver_after_ms", "flush"}
        if unknown:
            raise Unsupported(f"option {', '.join(unknown)}")
        each = options.get("properties") or [{} for _ in texts]
        keys, times, numbers = (options.get(name) or [None for _ in texts] for name in ("keys", "event_times", "sequence_ids"))
        at = int(1000 * time.time()) + options["deliver_after_ms"] if "deliver_after_ms" in options else None
        sending = [
            self.things[producer].send_async(
                text.encode(), properties=properties, key=key, event_time=time_of_event, deliver_at=at, sequence_id=number
            )
            for text, properties, key, time_of_event, number in zip(texts, each, keys, times, numbers, strict=True)
        ]
        if not options.get("flush", True):
            for one in sending:
                one.add_done_callback(lambda sent: sent.cancelled() or sent.exception())  # nobody waits for it
            return {}
        await self.things[producer].flush()
        return {"ids": [str(one) for one in await asyncio.gather(*sending)]}

    async def consumer(self, name: str, subscription: str = "s", **options: Any) -> None:
        client = await self.connected()
        chosen = growth(options, partial(self.partitions_told, name))
        takes = options.pop("takes", None)
        places = {key: options.pop(key) for key in ("topic", "pattern", "namespace", "property_filters", "discovery_ms") if key in options}
        for key, value in options.items():
            if key == "type":
                chosen["type"] = CommandSubscribe.SubType.Value(value)
            elif key == "position":
                chosen["initial_position"] = CommandSubscribe.InitialPosition.Value(value)
            elif key == "queue":
                chosen["queue_size"] = value
            elif key == "as":
                chosen["name"] = value
            elif key == "nack_delay_ms":
                chosen["negative_ack_delay"] = value / 1000
            elif key == "own_filtering":
                chosen["without_message_filters"] = "filter" if value else "refuse"
            elif key == "filter":
                chosen["message_filter_policy"] = MessageFilterPolicy(**value)
            else:
                raise Unsupported(f"option {key}")
        if "pattern" in places:
            period = places.get("discovery_ms", 60_000) / 1000
            made: Any = await client.subscribe_pattern(
                places["pattern"], subscription, discovery_period=period, on_topics=self.topics_told(name), **chosen
            )
        elif "namespace" in places:
            made = await client.subscribe_namespace(
                places["namespace"],
                subscription,
                property_filters=places.get("property_filters"),
                on_topics=self.topics_told(name),
                **chosen,
            )
        else:
            made = await client.subscribe(places["topic"], subscription, **chosen)
        self.things[name] = made
        self.keep(self.receive(name, made, takes))

    async def reader(self, name: str, topic: str, position: str = "Latest", takes: int | None = None) -> None:
        made = await (await self.connected()).create_reader(topic, {"Earliest": EARLIEST, "Latest": LATEST}[position])
        self.things[name] = made
        self.keep(self.receive(name, made, takes))

    async def take(self, consumer: str) -> None:
        self.going_on[consumer].set()

    async def acknowledge(self, consumer: str, message: str, cumulative: bool = False) -> None:
        found = self.messages[consumer, message]
        await (self.things[consumer].acknowledge_cumulative if cumulative else self.things[consumer].acknowledge)(found)

    async def negative_acknowledge(self, consumer: str, message: str) -> None:
        await self.things[consumer].negative_acknowledge(self.messages[consumer, message])

    async def seek(self, consumer: str, to: str) -> None:
        await self.things[consumer].seek({"Earliest": EARLIEST, "Latest": LATEST}.get(to) or self.messages[consumer, to])

    async def unsubscribe(self, consumer: str) -> None:
        await self.things.pop(consumer).unsubscribe()

    async def close(self, name: str) -> None:
        await self.things.pop(name).close()

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        if self.client is not None:
            await self.client.close()
        self.forget()

    def keep(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def receive(self, name: str, consumer: Any, takes: int | None) -> None:
        """Take messages: all of them, or so many, and no more until `take`."""
        self.going_on[name] = asyncio.Event()
        for taken in itertools.count():
            if taken == takes:
                await self.going_on[name].wait()
            try:
                message = await anext(consumer)
            except StopAsyncIteration:
                return
            number = str(next(self.ids))
            self.messages[name, number] = message
            detail = {
                "consumer": name,
                "message": number,
                "topic": message.topic,
                "text": message.payload.decode(errors="replace"),
                "properties": dict(message.properties),
                "redelivered": message.redelivery_count,
            }
            self.say({"event": "message", "detail": detail})

    def topics_told(self, name: str) -> Callable[[Any], None]:
        def told(changes: Any) -> None:
            self.say({"event": "topics", "detail": {"consumer": name, "added": sorted(changes.added), "removed": sorted(changes.removed)}})

        return told

    def partitions_told(self, name: str, fails: Sequence[int] = (), takes_ms: int = 0) -> Callable[[Any, Any], Awaitable[None]]:
        """Return a listener that takes its time, and fails on some calls, counted from 1."""
        calls = itertools.count(1)

        async def told(topics: Any, counts: Any) -> None:
            call = next(calls)
            self.say({"event": "partitions", "detail": {"of": name, "topics": list(topics), "counts": list(counts)}})
            await asyncio.sleep(takes_ms / 1000)
            if call in fails:
                raise RuntimeError("the listener was asked to fail")

        return told


def growth(options: Arguments, listener: Callable[..., Any]) -> Arguments:
    """Take the options about new partitions."""
    chosen: Arguments = {"partitions_update_listener": listener(**options.pop("listener", {}))}
    if "partitions_interval_ms" in options:
        chosen["auto_update_partitions_interval"] = options.pop("partitions_interval_ms") / 1000
    if "partition_notifications" in options:
        chosen["enable_notification_for_partition_update"] = options.pop("partition_notifications")
    return chosen


def batching(options: Arguments) -> Arguments:
    """Take the options about batches."""
    batch = options.pop("batch", None)
    if batch is None:
        return {}
    chosen: Arguments = {
        "batching": True,
        "batch_delay": batch.get("delay_ms", 60_000) / 1000,
        "batch_messages": batch.get("messages", 1000),
    }
    if "bytes" in batch:
        chosen["batch_bytes"] = batch["bytes"]
    if batch.get("key_based"):
        chosen["batcher"] = "key_based"
    return chosen


VERBS = (
    *("begin", "end", "start", "refresh", "producer", "send", "consumer", "reader", "take"),
    *("acknowledge", "negative_acknowledge", "seek", "unsubscribe", "close"),
)


async def perform(driver: Driver, request: Arguments) -> None:
    number, verb = request.pop("id"), request.pop("do")
    try:
        if verb == "hello":
            driver.say({"id": number, "ok": True, "result": {**HELLO, "verbs": sorted(VERBS)}})
        elif verb not in VERBS:
            driver.say({"id": number, "unsupported": verb})
        else:
            driver.say({"id": number, "ok": True, "result": await getattr(driver, verb)(**request)})
    except Unsupported as reason:
        driver.say({"id": number, "unsupported": str(reason)})
    except Exception as error:
        driver.say({"id": number, "error": f"{type(error).__name__}: {error}"})


def print_line(line: Arguments) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def main() -> None:
    driver = Driver(print_line)
    loop = asyncio.get_running_loop()
    working: set[asyncio.Task[None]] = set()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = asyncio.create_task(perform(driver, json.loads(line)))
        working.add(task)
        task.add_done_callback(working.discard)


if __name__ == "__main__":
    asyncio.run(main())
