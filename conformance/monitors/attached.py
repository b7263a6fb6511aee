"""Producers and consumers of a connection, and the ids that name them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from conformance.monitors.link import Link
from conformance.monitors.model import Judged, Monitor, Seen, hears

_OF_CONSUMERS: Final = ("flow", "ack", "redeliverUnacknowledgedMessages", "unsubscribe", "seek", "getLastMessageId", "consumerStats")


@dataclass
class _Attached:
    """Producers, or consumers, by id.

    Attributes:
        of: Topic, and subscription, of each that neither side has closed.
        asked: The ids that wait for an answer, by request_id.
        ready: The ids that the broker has accepted, unless the client has closed them since.
        closed: The ids that the client has closed.
        all: All ids.
    """

    of: dict[int, tuple[str, ...]] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)
    ready: set[int] = field(default_factory=set)
    closed: set[int] = field(default_factory=set)
    all: set[int] = field(default_factory=set)

    def ask(self, number: int, request: int, of: tuple[str, ...]) -> None:
        self.of[number] = of
        self.asked[request] = number
        self.closed.discard(number)
        self.all.add(number)

    def accept(self, request: int) -> None:
        number = self.asked.pop(request, None)
        if number is not None:
            self.ready.add(number)

    def refuse(self, request: int) -> None:
        if request in self.asked:  # which may still be accepted: the refused one may be a request of another kind with this id
            self.of.pop(self.asked[request], None)

    def lose(self, number: int) -> None:
        self.of.pop(number, None)

    def close(self, number: int) -> None:
        self.lose(number)
        self.ready.discard(number)
        self.closed.add(number)


class OwnIds(Monitor):
    """A client names only producers and consumers that it has opened on the connection, and gives no two of them one id."""

    name = "own-ids"
    side = "client"
    clauses = ("core.client.own-producers", "core.client.own-consumers", "core.client.ids-unique")

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._producers = _Attached()
        self._consumers = _Attached()

    @hears("-> producer")
    def producer(self, seen: Seen) -> Iterator[Judged]:
        """Judge the id of a new producer."""
        asked = seen.command
        yield from self._open(self._producers, "producer_id", asked.producer_id, asked.request_id, (asked.topic,))

    @hears("-> subscribe")
    def subscribe(self, seen: Seen) -> Iterator[Judged]:
        """Judge the id of a new consumer."""
        asked = seen.command
        self.link.conversation.consumers.add(asked.consumer_id)
        yield from self._open(self._consumers, "consumer_id", asked.consumer_id, asked.request_id, (asked.topic, asked.subscription))

    def _open(self, attached: _Attached, name: str, number: int, request: int, of: tuple[str, ...]) -> Iterator[Judged]:
        open_for = attached.of.get(number, of)
        yield "core.client.ids-unique", None if open_for == of else f"{name} {number} for {of[0]}, while it is that of {open_for[0]}"
        attached.ask(number, request, of)

    @hears("<- producer_success")
    def produced(self, seen: Seen) -> Iterator[Judged]:
        """Note that a producer may send."""
        if seen.command.producer_ready:
            self._producers.accept(seen.command.request_id)
        return iter(())

    @hears("<- success")
    def subscribed(self, seen: Seen) -> Iterator[Judged]:
        """Note that a consumer is there."""
        self._consumers.accept(seen.command.request_id)
        return iter(())

    @hears("<- error")
    def refused(self, seen: Seen) -> Iterator[Judged]:
        """Note that a producer or consumer was refused."""
        self._producers.refuse(seen.command.request_id)
        self._consumers.refuse(seen.command.request_id)
        return iter(())

    @hears("<- close_producer", "<- close_consumer")
    def lost(self, seen: Seen) -> Iterator[Judged]:
        """Note that the broker has closed one. What the client has sent to it already is no breach."""
        if seen.name == "close_producer":
            self._producers.lose(seen.command.producer_id)
        else:
            self._consumers.lose(seen.command.consumer_id)
        return iter(())

    @hears("-> close_producer", "-> close_consumer")
    def closes(self, seen: Seen) -> Iterator[Judged]:
        """Note that the client closes one; one that is not open may be closed, too."""
        if seen.name == "close_producer":
            self._producers.close(seen.command.producer_id)
        else:
            self._consumers.close(seen.command.consumer_id)
        return iter(())

    @hears("-> send")
    def send(self, seen: Seen) -> Iterator[Judged]:
        """Judge whose message it is."""
        number = seen.command.producer_id
        if number in self._producers.closed:
            yield "core.client.own-producers", f"SEND for producer_id {number}, which this client has closed"
        elif number in self._producers.ready:
            yield "core.client.own-producers", None
        elif self.link.whole:
            known = "has no PRODUCER_SUCCESS yet" if number in self._producers.all else "no PRODUCER of this connection has"
            yield "core.client.own-producers", f"SEND for producer_id {number}, which {known}"

    @hears(*(f"-> {name}" for name in _OF_CONSUMERS))
    def of_consumer(self, seen: Seen) -> Iterator[Judged]:
        """Judge which consumer a command names."""
        number = seen.command.consumer_id
        if number in self._consumers.all:
            yield "core.client.own-consumers", None
        elif self.link.whole and self.link.conversation.whole and number not in self.link.conversation.consumers:
            yield "core.client.own-consumers", f"{seen.name} for consumer_id {number}, which no SUBSCRIBE has"
