"""The driver of Apache Pulsar's Python client (`pip install pulsar-client`).

It reads requests as JSON lines, does one after the other, and prints an answer for each; whatever its user would see comes as an event.
docs/drivers.md describes the lines, the verbs and their arguments. The client calls back in threads of its own.
"""

import itertools
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import version
from queue import SimpleQueue
from typing import Any

import pulsar

Arguments = dict[str, Any]
HELLO = {
    "protocol": 1,
    "client": "pulsar-client",
    "version": version("pulsar-client"),
    "language": "Python",
    "capabilities": ["pattern-consumers", "partition-polling", "chunks", "without-flags"],
}
_output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
_writing = threading.Lock()


class Unsupported(Exception):
    """The client does not offer what is asked."""


def say(line: dict[str, Any]) -> None:
    with _writing:
        _output.write(json.dumps(line) + "\n")
        _output.flush()


class Driver:
    """One client, with its producers and consumers by name."""

    def __init__(self) -> None:
        self.url = ""
        self.token = ""
        self.client: pulsar.Client | None = None
        self.things: dict[str, Any] = {}
        self.messages: dict[tuple[str, str], pulsar.Message] = {}
        self.ids = itertools.count(1)
        self.going_on: dict[str, threading.Event] = {}

    def begin(self, service_url: str) -> None:
        self.url = service_url

    def start(self, **options: Any) -> None:
        refuse(options, "operation_timeout_ms", "listener_name", "token")
        chosen: Arguments = {"operation_timeout_seconds": max(1, options.get("operation_timeout_ms", 30_000) // 1000)}
        if "token" in options:
            self.token = options["token"]
            chosen["authentication"] = pulsar.AuthenticationToken(lambda: self.token)
        if "listener_name" in options:
            chosen["listener_name"] = options["listener_name"]
        self.client = pulsar.Client(self.url, logger=logging.getLogger("pulsar"), **chosen)

    def refresh(self, token: str) -> None:
        self.token = token

    def connected(self) -> pulsar.Client:
        if self.client is None:
            self.start()
        assert self.client is not None
        return self.client

    def producer(self, name: str, topic: str, **options: Any) -> None:
        refuse(options, "batch", "compression", "access", "as", "chunks", "send_timeout_ms")
        chosen: Arguments = {"batching_enabled": False, "chunking_enabled": options.get("chunks", False)}
        batch = options.get("batch")
        if batch is not None:
            chosen = {
                "batching_enabled": True,
                "batching_max_messages": batch.get("messages", 1000),
                "batching_max_allowed_size_in_bytes": batch.get("bytes", 128 * 1024),
                "batching_max_publish_delay_ms": batch.get("delay_ms", 60_000),
                "batching_type": pulsar.BatchingType.KeyBased if batch.get("key_based") else pulsar.BatchingType.Default,
            }
        self.things[name] = self.connected().create_producer(
            topic,
            producer_name=options.get("as"),
            compression_type=named(pulsar.CompressionType, options.get("compression", "NONE")),
            access_mode=named(pulsar.ProducerAccessMode, options.get("access", "Shared")),
            send_timeout_millis=options.get("send_timeout_ms", 30_000),
            **chosen,
        )

    def send(self, producer: str, texts: list[str], **options: Any) -> dict[str, Any]:
        refuse(options, "properties", "keys", "event_times", "sequence_ids", "deliver_after_ms")
        results: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        each = options.get("properties") or [{} for _ in texts]
        keys, times, numbers = (options.get(name) or [None for _ in texts] for name in ("keys", "event_times", "sequence_ids"))
        later = timedelta(milliseconds=options["deliver_after_ms"]) if "deliver_after_ms" in options else None
        for text, properties, key, event_time, number in zip(texts, each, keys, times, numbers, strict=True):
            self.things[producer].send_async(
                text.encode(),
                lambda result, message_id: results.put((result, message_id)),
                properties=properties,
                partition_key=key,
                event_timestamp=event_time,
                sequence_id=number,
                deliver_after=later,
            )
        self.things[producer].flush()
        answers = [results.get() for _ in texts]
        failed = [str(result) for result, _ in answers if result != pulsar.Result.Ok]
        if failed:
            raise RuntimeError(f"not sent: {', '.join(failed)}")
        return {"ids": [str(number) for _, number in answers]}

    def consumer(self, name: str, subscription: str = "s", **options: Any) -> None:
        refuse(options, "topic", "pattern", "type", "position", "queue", "as", "nack_delay_ms", "discovery_ms", "takes")
        self.things[name] = self.connected().subscribe(
            re.compile(options["pattern"]) if "pattern" in options else options["topic"],
            subscription,
            consumer_type=named(pulsar.ConsumerType, options.get("type", "Exclusive")),
            initial_position=named(pulsar.InitialPosition, options.get("position", "Latest")),
            receiver_queue_size=options.get("queue", 1000),
            consumer_name=options.get("as"),
            negative_ack_redelivery_delay_ms=options.get("nack_delay_ms", 60_000),
            pattern_auto_discovery_period=max(1, options.get("discovery_ms", 60_000) // 1000),
            message_listener=None if "takes" in options else self.listener(name),
        )
        if "takes" in options:
            self.take_some(name, self.things[name].receive, options["takes"])

    def reader(self, name: str, topic: str, position: str = "Latest", takes: int | None = None) -> None:
        start = pulsar.MessageId.earliest if position == "Earliest" else pulsar.MessageId.latest
        listener = self.listener(name) if takes is None else None
        self.things[name] = self.connected().create_reader(topic, start, reader_listener=listener)
        if takes is not None:
            self.take_some(name, self.things[name].read_next, takes)

    def take_some(self, name: str, receive: Callable[[], pulsar.Message], count: int) -> None:
        """Take so many messages, and no more until `take`."""
        going_on = self.going_on[name] = threading.Event()
        arrived = self.listener(name)

        def work() -> None:
            for number in itertools.count():
                if number == count:
                    going_on.wait()
                try:
                    arrived(None, receive())
                except pulsar.PulsarException as closed:
                    logging.info("%s receives no more: %s", name, closed)
                    return

        threading.Thread(target=work, daemon=True).start()

    def take(self, consumer: str) -> None:
        self.going_on[consumer].set()

    def acknowledge(self, consumer: str, message: str, cumulative: bool = False) -> None:
        found = self.messages[consumer, message]
        (self.things[consumer].acknowledge_cumulative if cumulative else self.things[consumer].acknowledge)(found)

    def negative_acknowledge(self, consumer: str, message: str) -> None:
        self.things[consumer].negative_acknowledge(self.messages[consumer, message])

    def seek(self, consumer: str, to: str) -> None:
        ends = {"Earliest": pulsar.MessageId.earliest, "Latest": pulsar.MessageId.latest}
        self.things[consumer].seek(ends[to] if to in ends else self.messages[consumer, to].message_id())

    def unsubscribe(self, consumer: str) -> None:
        self.things.pop(consumer).unsubscribe()

    def close(self, name: str) -> None:
        self.things.pop(name).close()

    def end(self) -> None:
        client, self.client = self.client, None
        self.things.clear()
        self.messages.clear()
        if client is not None:
            client.close()

    def listener(self, name: str) -> Callable[[Any, pulsar.Message], None]:
        def arrived(_: Any, message: pulsar.Message) -> None:
            number = str(next(self.ids))
            self.messages[name, number] = message
            detail = {
                "consumer": name,
                "message": number,
                "topic": message.topic_name(),
                "text": message.data().decode(errors="replace"),
                "properties": dict(message.properties()),
                "redelivered": message.redelivery_count(),
            }
            say({"event": "message", "detail": detail})

        return arrived


def named(kind: Any, name: str) -> Any:
    """Return what the client calls by a name of the protocol: its ZLib is the protocol's ZLIB, its KeyShared the protocol's Key_Shared."""
    for known, value in kind.__members__.items():
        if known.lower() == name.replace("_", "").lower():
            return value
    raise Unsupported(f"{kind.__name__} {name}")


def refuse(options: Arguments, *known: str) -> None:
    """Refuse options that the client does not have."""
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise Unsupported(f"option {', '.join(unknown)}")


def perform(verbs: dict[str, Callable[..., Any]], request: Arguments) -> None:
    number, verb = request.pop("id"), request.pop("do")
    try:
        if verb == "hello":
            say({"id": number, "ok": True, "result": {**HELLO, "verbs": sorted(verbs)}})
        elif verb not in verbs:
            say({"id": number, "unsupported": verb})
        else:
            say({"id": number, "ok": True, "result": verbs[verb](**request)})
    except Unsupported as reason:
        say({"id": number, "unsupported": str(reason)})
    except Exception as error:
        say({"id": number, "error": f"{type(error).__name__}: {error}"})


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    driver = Driver()
    names = ("begin", "end", "start", "refresh", "producer", "send", "consumer", "reader", "take", "acknowledge")
    verbs = {name: getattr(driver, name) for name in (*names, "negative_acknowledge", "seek", "unsubscribe", "close")}
    for line in sys.stdin:
        threading.Thread(target=perform, args=(verbs, json.loads(line)), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main()
