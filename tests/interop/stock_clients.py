"""Stock clients as the tests see them: the same few methods, whichever language is behind them in its own process."""

from __future__ import annotations

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from conformance.targets.process import tail
from tests.interop.built_clients import TOOLS, built_command
from tests.interop.java_client import VERSIONS, java_command

SECONDS = 30.0
"""The deadline of everything that has to happen; generous, because two cores may be shared."""

NOT_OFFERED = "not offered: "
"""How the reason begins for which a test of something that a client does not offer is skipped."""
_NO_LISTENER = "it has no listener for that"
_NO_OPTION = "it has no such option"
_NOT_HERE = "the program that drives it here can't do that yet"
_NO_AUTO_SCHEMA = {
    "consumer.schema=AUTO_CONSUME": "its consumers have no schema that is found by itself",
    "producer.schema=AUTO_PRODUCE_BYTES": "its producers have no schema that is found by itself",
}
_QUEUE = "its queue consumers have one type"
LACKS: Mapping[str, Mapping[str, str]] = {
    "python": {
        "consumer.events": _NO_LISTENER,
        "consumer.ends": _NO_LISTENER,
        "consumer.priority": _NO_OPTION,
        "connect.transactions": "it has no transactions",
        **_NO_AUTO_SCHEMA,
    },
    "java": {},
    "java_v5": {
        "refused producer": "its producers did not tell of a refusal before their first message",
        **{f"consumer.type={kind}": _QUEUE for kind in ("Exclusive", "Failover", "Key_Shared")},
        **{f"consumer.{option}": _NO_OPTION for option in ("events", "ends", "pattern", "batch_index_ack", "alone", "in_order")},
        **{
            f"{call}": "its queue consumers and producers have no such call"
            for call in ("seek", "ack_cumulative", "unsubscribe", "reader", "partitions")
        },
        **{f"consumer.{option}": _NOT_HERE for option in ("dead_letters", "keys")},
        **{f"producer.{option}": _NOT_HERE for option in ("batch", "chunking", "keys")},
    },
    "go": {
        "consumer.events": "it loses what comes right behind the answer to SUBSCRIBE",
        "consumer.ends": _NO_LISTENER,
        "consumer.priority": _NO_OPTION,
        "producer.access=ExclusiveWithFencing": _NO_OPTION,
        **_NO_AUTO_SCHEMA,
    },
    "rust": {
        "refused": "its call did not end in time where the broker refused it",
        **{f"consumer.{option}": _NO_OPTION for option in ("events", "ends", "batch_index_ack", "keys", "ranges", "nack_delay_ms")},
        **{f"producer.{option}": _NO_OPTION for option in ("chunking", "keys")},
        "producer.access=WaitForExclusive": _NOT_HERE,
        "seek": "open: after CLOSE_CONSUMER it subscribes twice, and may wait for itself",
        **dict.fromkeys(("reader", "partitions", "consumer.pattern", "consumer.dead_letters"), _NOT_HERE),
        "send.sequence_ids": _NO_OPTION,
    },
    "flex": {
        "unsubscribe": "its call of that name sends CLOSE_CONSUMER",
        **{
            f"consumer.{option}": _NO_OPTION
            for option in ("events", "ends", "batch_index_ack", "dead_letters", "keys", "pattern", "priority", "ranges")
        },
        **{f"producer.{option}": _NO_OPTION for option in ("as", "chunking", "compression", "keys")},
        **{f"producer.access={mode}": _NO_OPTION for mode in ("WaitForExclusive", "ExclusiveWithFencing")},
        **{f"send.{option}": _NO_OPTION for option in ("after_ms", "keys", "sequence_ids")},
        **dict.fromkeys(("reader", "seek", "partitions", "close consumer", "end"), "it has no such call"),
    },
}
"""What each client does not offer: a call, an option of a call, or a value of it; and why."""
WITHOUT_IDS = {"flex", "java_v5"}
"""Clients that do not tell the ids of what they send."""

Admin = Callable[..., Any]
"""Performs an operation of the admin interface, which has to succeed, and returns the body of the answer."""


class ClientFailed(AssertionError):
    """A stock client refused, hung or died."""


@dataclass(frozen=True)
class Message:
    """What reached a consumer.

    Attributes:
        id: "ledger:entry:partition:batch index", as the client writes it.
        topic: full name of the topic or partition.
        text: the body.
        redelivered: how often it was delivered before.
    """

    id: str
    topic: str
    text: str
    redelivered: int


def _command(language: str) -> Sequence[str]:
    if language in VERSIONS:
        return java_command(language)
    return built_command(language) if language in TOOLS else [sys.executable, str(Path(__file__).with_name("python_client.py"))]


class ClientProcess:
    """A child process that drives one stock client by JSON lines; its group is killed at the end.

    Args:
        language: "python", "java", "go", "rust", "flex": of npm, or "java_v5": the Maven client for scalable topics.
        log: file that gets the client's own log.
    """

    def __init__(self, language: str, log: Path) -> None:
        self.language = language
        self.log = log
        command = _command(language)
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True
            )
        self._ids = itertools.count(1)
        self._answers: defaultdict[int, queue.SimpleQueue[dict[str, Any]]] = defaultdict(queue.SimpleQueue)
        self._arrivals: defaultdict[str, queue.SimpleQueue[Message]] = defaultdict(queue.SimpleQueue)
        self._events: defaultdict[str, queue.SimpleQueue[str]] = defaultdict(queue.SimpleQueue)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def running(self) -> bool:
        """Tell whether the process can be used."""
        return self._process.poll() is None

    def call(self, do: str, **arguments: object) -> Any:
        """Let the client do something and wait for its answer; a test of what the client does not offer is skipped.

        Raises:
            ClientFailed: It refused; or gave no answer in time, then it is killed.
        """
        return self.begin(do, **arguments)()

    def begin(self, do: str, **arguments: object) -> Callable[[], Any]:
        """Let the client do something, and return what waits for its answer, as `call` does."""
        self.check_offer(do, **arguments)
        number = next(self._ids)
        told = str(arguments)[:500]
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            self._fail(f"{do} {told}: {error!r}")

        def answer() -> Any:
            try:
                found = self._answers[number].get(timeout=SECONDS)
            except queue.Empty:
                self._fail(f"{do} {told}: no answer")
            if "UnsupportedOperationException" in found.get("error", ""):
                pytest.skip(NOT_OFFERED + found["error"].partition("Exception: ")[2].partition(": ")[0])
            if "error" in found:
                raise ClientFailed(f"{do} {told}: {found['error']}")
            return found.get("answer")

        return answer

    def check_offer(self, do: str, *more: str, **arguments: object) -> None:
        """Skip the test if the client does not offer a call."""
        asked = [do, *more, *(f"{do}.{option}" for option in arguments), *(f"{do}.{option}={value}" for option, value in arguments.items())]
        for what in asked:
            if what in LACKS[self.language]:
                pytest.skip(f"{NOT_OFFERED}{what.replace('.', ' ')}: {LACKS[self.language][what]}")

    def _fail(self, what: str) -> NoReturn:
        self.kill()
        raise ClientFailed(f"{what}; the client's log ends with\n{tail(self.log)}") from None

    def event(self, to: str, seconds: float) -> str:
        """Take the next event that a consumer was told of: active, inactive or end.

        Raises:
            ClientFailed: None came in time.
        """
        try:
            return self._events[to].get(timeout=seconds)
        except queue.Empty:
            raise ClientFailed(f"no event for {to} within {seconds:g} s; the client's log ends with\n{tail(self.log)}") from None

    def message(self, to: str, seconds: float) -> Message:
        """Take the next message that arrived at a consumer.

        Raises:
            ClientFailed: None came in time.
        """
        try:
            return self._arrivals[to].get(timeout=seconds)
        except queue.Empty:
            raise ClientFailed(f"no message for {to} within {seconds:g} s; the client's log ends with\n{tail(self.log)}") from None

    def kill(self) -> None:
        """End the process and everything that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):  # a request that it never read
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "event" in told:
                self._events[told["to"]].put(told["event"])
            elif "to" in told:
                self._arrivals[told["to"]].put(Message(**told["message"]))
            else:
                self._answers[told["id"]].put(told)


class Client:
    """One Pulsar client inside such a process.

    Args:
        process: where it lives.
        url: the service URL that it connects to.
        options: token_file (path of what holds its token, read whenever it is asked for), transactions (whether it wants them).
    """

    _names = itertools.count(1)

    def __init__(self, process: ClientProcess, url: str, **options: object) -> None:
        self.process = process
        self.language = process.language
        self._ended = False
        self.name = f"client-{next(self._names)}"
        process.call("connect", name=self.name, url=url, **options)

    def _make(self, kind: str, **arguments: object) -> str:
        name = f"{kind}-{next(self._names)}"
        self.process.call(kind, client=self.name, name=name, **arguments)
        return name

    def producer(self, topic: str, **options: object) -> Producer:
        """Create a producer; options: batch (messages in one), compression ("LZ4"), access (mode), chunking, keys (paths of PEM files,
        public and private), partitions_interval (seconds, Java only), schema ("AVRO", "JSON", "AUTO_PRODUCE_BYTES") and definition of records
        with a name, which is what each text becomes.
        """
        return Producer(self.process, self._make("producer", topic=topic, **options))

    def consumer(self, topic: str = "", *, subscription: str = "s", **options: object) -> Consumer:
        """Subscribe.

        Options: pattern, type, position, nack_delay_ms, ranges of hashes, keys, dead_letters (after, topic, subscription), schema ("AVRO",
        "JSON", "AUTO_CONSUME") and definition of records with a name, which is the text; of Java and Go retry_topic; of Java
        subscription_properties, discovery_period and partitions_interval (seconds); of Java V5 namespace and filters,
        instead of a topic.
        """
        of = {} if {"pattern", "namespace"} & options.keys() else {"topic": topic}
        return Consumer(self.process, self._make("consumer", subscription=subscription, **of, **options))

    def reader(self, topic: str, position: str) -> Reader:
        """Create a reader that starts at "Earliest" or "Latest"."""
        return Reader(self.process, self._make("reader", topic=topic, position=position))

    def reader_from(self, message: Message, consumer: Consumer, *, inclusive: bool) -> Reader:
        """Create a reader that starts at a message that a consumer has received, or after it."""
        place = {"from": f"{consumer.name}/{message.id}", "inclusive": inclusive}
        return Reader(self.process, self._make("reader", topic=message.topic, **place))

    def waiting_producer(self, topic: str) -> Callable[[], Producer]:
        """Ask for a producer that waits until it is alone, and return what waits for it."""
        name = f"producer-{next(self._names)}"
        waits = self.process.begin("producer", client=self.name, name=name, topic=topic, access="WaitForExclusive", aside=True)

        def producer() -> Producer:
            waits()
            return Producer(self.process, name)

        return producer

    def partitions(self, topic: str) -> list[str]:
        """Ask for the full names of a topic's partitions."""
        names: list[str] = self.process.call("partitions", name="", client=self.name, topic=topic)
        return names

    def end(self) -> None:
        """Close the client and all that it has open, without waiting for that."""
        if not self._ended:
            self._ended = True
            self.process.call("end", name=self.name)


class Producer:
    """A producer of a stock client."""

    def __init__(self, process: ClientProcess, name: str) -> None:
        self._process = process
        self._name = name

    def send(self, *texts: str, properties: Sequence[Mapping[str, str]] = (), **options: object) -> list[str]:
        """Send messages, with the properties of each or none, flush, and return their ids.

        Options: keys, one for each text; keyed, so that each text is its own key (Java V5 only).
        """
        each = [dict(one) for one in properties] or [{} for _ in texts]
        ids: list[str] = self._process.call("send", name=self._name, texts=texts, properties=each, **options)
        return ids

    def close(self) -> None:
        """Close it."""
        self._process.call("close", name=self._name)


class Reader:
    """A reader of a stock client."""

    _closes = "close reader"

    def __init__(self, process: ClientProcess, name: str) -> None:
        self._process = process
        self._name = name

    @property
    def name(self) -> str:
        """Tell the name by which its process knows it."""
        return self._name

    def receive(self, seconds: float = SECONDS) -> Message:
        """Take the next message."""
        return self._process.message(self._name, seconds)

    def receive_all(self, count: int) -> list[Message]:
        """Take so many messages."""
        return [self.receive() for _ in range(count)]

    def has_more(self) -> bool:
        """Ask whether the topic ends here (readers only)."""
        return bool(self._process.call("has_more", name=self._name))

    def close(self) -> None:
        """Close it."""
        self._process.check_offer(self._closes)
        self._process.call("close", name=self._name)


class Consumer(Reader):
    """A consumer of a stock client."""

    _closes = "close consumer"

    def event(self, seconds: float = SECONDS) -> str:
        """Take the next event: active, inactive or end."""
        return self._process.event(self._name, seconds)

    def ack_cumulative(self, message: Message) -> None:
        """Acknowledge a message and all before it."""
        self._process.call("ack_cumulative", name=self._name, message=message.id)

    def seek_time(self, milliseconds: int) -> None:
        """Go to the first message that was published at a time or later, in milliseconds since 1970."""
        self._process.call("seek", name=self._name, time=milliseconds)

    def unsubscribe(self) -> None:
        """Delete the subscription."""
        self._process.call("unsubscribe", name=self._name)

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages one by one."""
        self._process.call("ack", name=self._name, messages=[message.id for message in messages])

    def nack(self, messages: Iterable[Message]) -> None:
        """Ask for messages again, one by one."""
        self._process.call("nack", name=self._name, messages=[message.id for message in messages])

    def later(self, message: Message, delay_ms: int) -> None:
        """Ask for a message again by its retry letter topic (Java only)."""
        self._process.call("later", name=self._name, messages=[message.id], delay_ms=delay_ms)

    def seek(self, place: Message | str) -> None:
        """Go to a message received before, or to "Earliest"."""
        self._process.call("seek", name=self._name, message=place if isinstance(place, str) else place.id)


def texts(messages: Sequence[Message]) -> list[str]:
    """Give the bodies of messages, in their order."""
    return [message.text for message in messages]


def received_by(consumers: Sequence[Consumer], count: int) -> list[list[Message]]:
    """Take so many messages from several consumers, and give what each has got."""
    got: list[list[Message]] = [[] for _ in consumers]
    deadline = time.monotonic() + SECONDS
    while sum(map(len, got)) < count:
        for one, mine in zip(consumers, got, strict=True):
            with suppress(ClientFailed):
                mine.append(one.receive(0.05))
        assert time.monotonic() < deadline, (
            f"{count} messages were sent, these came: {[[message.text[:100] for message in one] for one in got]}"
        )
    return got
