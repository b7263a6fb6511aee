"""Requests and their answers, which a request_id joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from conformance.monitors.link import Link
from conformance.monitors.model import Judged, Monitor, Seen, hears

ANSWERS: Final[Mapping[str, str]] = {
    "lookupTopic": "lookupTopicResponse",
    "partitionMetadata": "partitionMetadataResponse",
    "getTopicsOfNamespace": "getTopicsOfNamespaceResponse",
    "producer": "producer_success",
    "close_producer": "success",
    "subscribe": "success",
    "unsubscribe": "success",
    "seek": "success",
    "close_consumer": "success",
    "ack": "ackResponse",
    "getLastMessageId": "getLastMessageIdResponse",
    "consumerStats": "consumerStatsResponse",
    "getSchema": "getSchemaResponse",
    "getOrCreateSchema": "getOrCreateSchemaResponse",
    "newTxn": "newTxnResponse",
    "addPartitionToTxn": "addPartitionToTxnResponse",
    "addSubscriptionToTxn": "addSubscriptionToTxnResponse",
    "endTxn": "endTxnResponse",
    "endTxnOnPartition": "endTxnOnPartitionResponse",
    "endTxnOnSubscription": "endTxnOnSubscriptionResponse",
    "tcClientConnectRequest": "tcClientConnectResponse",
    "watchTopicList": "watchTopicListSuccess",
    "watchTopicListClose": "success",
    "watchPartitionUpdate": "watchPartitionUpdateSuccess",
    "watchPartitionUpdateClose": "success",
    "scalableTopicSubscribe": "scalableTopicSubscribeResponse",
    "scalableTopicUnsubscribe": "success",
}
"""The answer to each request that has a request_id. Any of them may be refused by ERROR instead."""
_OF_THE_CONNECTION: Final = (1 << 64) - 1
_REQUESTS: Final = tuple(f"-> {name}" for name in ANSWERS)
_SUCCESSES: Final = tuple(f"<- {name}" for name in dict.fromkeys(ANSWERS.values()))


class _Open:
    """The requests that have no answer yet: how many, by the answer that they wait for and their id."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()

    def ask(self, kind: str, request: Any) -> None:
        if request.HasField("request_id"):
            self._counts[kind, request.request_id] += 1

    def has(self, kind: str, request: Any) -> bool:
        return (kind, request.request_id) in self._counts

    def answer(self, seen: Seen) -> list[tuple[str, int]]:
        """Return what an answer may belong to: an ERROR does not say which of several requests with its id it refuses."""
        kinds = dict.fromkeys(ANSWERS.values()) if seen.name == "error" else (seen.name,)
        return [key for kind in kinds if (key := (kind, seen.command.request_id)) in self._counts]

    def settle(self, key: tuple[str, int], answer: Seen) -> None:
        """Note an answer; after that to a producer which still has to wait, another one follows."""
        if answer.name != "producer_success" or answer.command.producer_ready:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]


class RequestIds(Monitor):
    """While a request is open, its client uses the request_id for no other one with an answer of the same kind."""

    name = "request-ids"
    side = "client"
    clauses = ("core.client.request-ids-unique",)

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._open = _Open()

    @hears(*_REQUESTS)
    def request(self, seen: Seen) -> Iterator[Judged]:
        """Judge the id of a request."""
        kind = ANSWERS[seen.name]
        if seen.command.HasField("request_id"):
            problem = f"{seen.name} with request_id {seen.command.request_id}, while another request with this id waits for {kind}"
            yield "core.client.request-ids-unique", problem if self._open.has(kind, seen.command) else None
        self._open.ask(kind, seen.command)

    @hears(*_SUCCESSES, "<- error")
    def answer(self, seen: Seen) -> Iterator[Judged]:
        """Note that a request has its answer."""
        for key in self._open.answer(seen):
            self._open.settle(key, seen)
        return iter(())


class AnsweredOnce(Monitor):
    """Each answer of a broker belongs to a request that has none yet."""

    name = "answered-once"
    side = "broker"
    clauses = ("core.request.id-echoed",)

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._open = _Open()

    @hears(*_REQUESTS)
    def request(self, seen: Seen) -> Iterator[Judged]:
        """Note a request."""
        self._open.ask(ANSWERS[seen.name], seen.command)
        return iter(())

    @hears(*_SUCCESSES, "<- error")
    def answer(self, seen: Seen) -> Iterator[Judged]:
        """Judge an answer."""
        asked = self._open.answer(seen)
        if len(asked) == 1:
            self._open.settle(asked[0], seen)
        if seen.name == "error" and seen.command.request_id == _OF_THE_CONNECTION:
            return
        if seen.name == "ackResponse" and not seen.command.HasField("request_id"):
            return
        if asked or self.link.whole:
            number = seen.command.request_id
            yield "core.request.id-echoed", None if asked else f"{seen.name} with request_id {number}, for which no request waits"
