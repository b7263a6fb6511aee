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
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.targets.process import tail
from tests.interop.java_client import VERSIONS, java_command

SECONDS = 30.0
"""The deadline of everything that has to happen; generous, because two cores may be shared."""

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


class ClientProcess:
    """A child process that drives one stock client by JSON lines; its group is killed at the end.

    Args:
        language: "python", "java", or "java_v5": the Maven client for scalable topics.
        log: file that gets the client's own log.
    """

    def __init__(self, language: str, log: Path) -> None:
        self.language = language
        self.log = log
        command = java_command(language) if language in VERSIONS else [sys.executable, str(Path(__file__).with_name("python_client.py"))]
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True
            )
        self._ids = itertools.count(1)
        self._answers: defaultdict[int, queue.SimpleQueue[dict[str, Any]]] = defaultdict(queue.SimpleQueue)
        self._arrivals: defaultdict[str, queue.SimpleQueue[Message]] = defaultdict(queue.SimpleQueue)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def running(self) -> bool:
        """Tell whether the process can be used."""
        return self._process.poll() is None

    def call(self, do: str, **arguments: object) -> Any:
        """Let the client do something and wait for its answer.

        Raises:
            ClientFailed: It refused; or gave no answer in time, then it is killed.
        """
        number = next(self._ids)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"id": number, "do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            answer = self._answers[number].get(timeout=SECONDS)
        except (OSError, queue.Empty) as error:
            self.kill()
            raise ClientFailed(f"{do} {arguments}: no answer ({error!r}); the client's log ends with\n{tail(self.log)}") from None
        if "error" in answer:
            raise ClientFailed(f"{do} {arguments}: {answer['error']}")
        return answer.get("answer")

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
            if "to" in told:
                self._arrivals[told["to"]].put(Message(**told["message"]))
            else:
                self._answers[told["id"]].put(told)


class Client:
    """One Pulsar client inside such a process.

    Args:
        process: where it lives.
        url: the service URL that it connects to.
    """

    _names = itertools.count(1)

    def __init__(self, process: ClientProcess, url: str) -> None:
        self.process = process
        self.language = process.language
        self._ended = False
        self.name = f"client-{next(self._names)}"
        process.call("connect", name=self.name, url=url)

    def _make(self, kind: str, **arguments: object) -> str:
        name = f"{kind}-{next(self._names)}"
        self.process.call(kind, client=self.name, name=name, **arguments)
        return name

    def producer(self, topic: str, **options: object) -> Producer:
        """Create a producer; options: batch (messages in one), compression ("LZ4"), partitions_interval (seconds, Java only)."""
        return Producer(self.process, self._make("producer", topic=topic, **options))

    def consumer(self, topic: str = "", *, subscription: str = "s", **options: object) -> Consumer:
        """Subscribe.

        Options: pattern, type, position, nack_delay_ms; of Java subscription_properties, discovery_period and partitions_interval
        (seconds); of Java V5 namespace and filters, instead of a topic.
        """
        of = {} if {"pattern", "namespace"} & options.keys() else {"topic": topic}
        return Consumer(self.process, self._make("consumer", subscription=subscription, **of, **options))

    def reader(self, topic: str, position: str) -> Reader:
        """Create a reader that starts at "Earliest" or "Latest"."""
        return Reader(self.process, self._make("reader", topic=topic, position=position))

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

        Options: keyed, so that each text is its own key (Java V5 only).
        """
        each = [dict(one) for one in properties] or [{} for _ in texts]
        ids: list[str] = self._process.call("send", name=self._name, texts=texts, properties=each, **options)
        return ids

    def close(self) -> None:
        """Close it."""
        self._process.call("close", name=self._name)


class Reader:
    """A reader of a stock client."""

    def __init__(self, process: ClientProcess, name: str) -> None:
        self._process = process
        self._name = name

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
        self._process.call("close", name=self._name)


class Consumer(Reader):
    """A consumer of a stock client."""

    def ack(self, messages: Iterable[Message]) -> None:
        """Acknowledge messages one by one."""
        self._process.call("ack", name=self._name, messages=[message.id for message in messages])

    def nack(self, messages: Iterable[Message]) -> None:
        """Ask for messages again, one by one."""
        self._process.call("nack", name=self._name, messages=[message.id for message in messages])

    def seek(self, place: Message | str) -> None:
        """Go to a message received before, or to "Earliest"."""
        self._process.call("seek", name=self._name, message=place if isinstance(place, str) else place.id)


def texts(messages: Sequence[Message]) -> list[str]:
    """Give the bodies of messages, in their order."""
    return [message.text for message in messages]
