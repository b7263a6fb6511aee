"""A conversation -> the YAML of a transcript."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from conformance.judging.likeness import load_differences
from conformance.names import is_selected
from conformance.transcribing.causes import Action, actions_of, several
from conformance.transcribing.cited import clause_of
from conformance.transcribing.named import Names
from conformance.transcribing.payloads import delay_of, expected_payload, fields_of, sent_payload
from conformance.transcribing.recorded import Conversation, Said, TranscribeProblem
from conformance.writing import HASHES, Patterns, dumped, hash_of, written_steps
from refimpl.wire import type_name
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe

_FREE = (
    *(
        "CONNECTED.feature_flags",
        "CONNECTED.max_message_size",
        "LOOKUP_RESPONSE.*",
        "!LOOKUP_RESPONSE.request_id",
        "!LOOKUP_RESPONSE.response",
    ),
    *("!LOOKUP_RESPONSE.error", "PRODUCER_SUCCESS.last_sequence_id", "PRODUCER_SUCCESS.topic_epoch", "*.consumer_epoch", "SUCCESS.schema"),
    *("CONSUMER_STATS_RESPONSE.*", "!CONSUMER_STATS_RESPONSE.request_id", "*.consumer_mark_delete_position", "CLOSE_*.request_id"),
    *("CLOSE_*.assigned*", "GET_SCHEMA_RESPONSE.schema.name", "GET_SCHEMA_RESPONSE.schema.properties"),
)
"""What a broker may say otherwise, besides what recordings and the reference may differ in. `!` takes something out."""
_NOT_SENT = frozenset(
    {
        *("client_version", "auth_method", "auth_method_name", "auth_data", "proxy_to_broker_url", "proxy_version"),
    }
)
"""Fields of CONNECT that say who the client is, and where."""
_KEPT_ALIVE: list[dict[str, Any]] = [{"frame": {"ping": {}}, "answer": {"pong": {}}}, {"frame": {"pong": {}}}]
_EARLY, _LATE = 1.5, 10.0
"""Seconds by which a delayed message may come too early, as brokers count in steps, and too late."""


def transcribe(conversation: Conversation, name: str, title: str | None = None) -> str:
    """Write a conversation as a transcript.

    Args:
        conversation: What was said.
        name: The id of the case.
        title: Its title; None: what the client sends.

    Raises:
        TranscribeProblem: It can't be written.
    """
    written = _Written(conversation)
    steps = [step for number, action in enumerate(written.actions) for step in written.steps(number, action)]
    head: dict[str, Any] = {"format": 1, "id": name, "title": title or written.title(), "tests": ["broker"]}
    head |= {"clauses": list(written.clauses), "requires": written.requires(), "origin": written.origin(), "vars": written.names.variables}
    if written.has(lambda one: one.name == "watchTopicListClose"):
        head["profiles"] = ["default"]  # the text has another answer
    ambient = [frame for frame, fits in _AMBIENT if written.has(fits)]
    if ambient:
        head["ambient"] = [*_KEPT_ALIVE, *ambient]
    return "\n".join([dumped(head), "steps:", *written_steps(steps)]) + "\n"


class _Written:
    def __init__(self, conversation: Conversation) -> None:
        self._said = conversation.said
        self.actions = actions_of(conversation)
        self.names = Names(self.actions)
        self.clauses: dict[str, None] = {}
        self._moment = 0
        self._connection = 0
        self._kinds: dict[tuple[int, int], Any] = {}
        self._labels = 0
        self._sent_late: dict[tuple[str, int, int], tuple[str, float]] = {}
        self._patterns = Patterns(self.names.text, self.names.sets, _is_free, self._position)

    def has(self, fits: Callable[[Said], bool]) -> bool:
        return any(fits(one) for one in self._said)

    def title(self) -> str:
        sent = dict.fromkeys(one.name for one in self._said if one.by_client and one.name != "connect")
        return f"What {self._said[0].message.client_version} sends: {', '.join(sent)}"

    def origin(self) -> str:
        client = next(one.message.client_version for one in self._said if one.name == "connect")
        server = next((one.message.server_version for one in self._said if one.name == "connected"), "a broker")
        return f"transcribed from a capture of {client} with {server}, {len(self._said)} frames"

    def requires(self) -> list[str]:
        wanted = {"admin"}
        found: dict[str, Callable[[Said], bool]] = {
            "auto-creation": lambda one: one.name in ("producer", "subscribe"),
            "topic-list-filter": lambda one: one.name == "getTopicsOfNamespace",
            "topic-list-watch": lambda one: one.name == "watchTopicList",
            "key-shared": lambda one: one.name == "subscribe" and one.message.subType == CommandSubscribe.Key_Shared,
            "waiting-producers": lambda one: one.name == "producer" and one.message.producer_access_mode == 2,
            "delayed-delivery": _is_delayed,
        }
        sent = [one for one in self._said if one.by_client]
        return sorted(wanted.union(name for name, fits in found.items() if any(map(fits, sent))))

    def steps(self, number: int, action: Action) -> Iterator[dict[str, Any]]:
        self._moment = number
        if action.said is None:
            yield {"admin": [self._call(call) for call in action.calls]}
            yield from self._heard(action, next(iter(action.calls[0])))
            return
        said = action.said
        at = _at(said.connection)
        if said.name == "connect":
            yield {"open": at.get("at", "c")}
        fields = self._fields(said)
        if said.name == "ack":
            yield from ({**at, "client": {"ack": one}} for one in self._acknowledgements(said, fields))
            yield from self._heard(action, said)
            return
        step: dict[str, Any] = {**at, "client": {said.name: fields}}
        if said.name == "send":
            step["payload"] = self._versioned(sent_payload(said.frame, self._text), said)
            step |= self._late(said)
        yield step
        yield from self._heard(action, said)

    def _heard(self, action: Action, cause: Said | str) -> Iterator[dict[str, Any]]:
        """Write what came of an action: what its streams get in order, between them in any order."""
        lanes: defaultdict[int, dict[Any, list[dict[str, Any]]]] = defaultdict(dict)
        for place, one in enumerate(action.heard):
            self._connection = one.connection
            self.names.tell(one)
            lanes[one.connection].setdefault(self._lane(one, place), []).append(self._expectation(cause, one))
        for streams in lanes.values():
            if len(streams) == 1:
                yield from next(iter(streams.values()))
            else:
                yield {"any_order": list(streams.values())}

    def _lane(self, one: Said, place: int) -> Any:
        if one.name == "message" and several(self._kind(one)):
            return "message", place
        for field in ("watcher_id", "consumer_id", "producer_id"):
            if field in one.message.DESCRIPTOR.fields_by_name:
                return field, getattr(one.message, field)
        return "request", place

    def _expectation(self, cause: Said | str, one: Said) -> dict[str, Any]:
        fields = self._patterns.of(one.message, type_name(one.frame.command))
        for field in fields:
            if self.names.is_own(field):
                fields[field] = self.names.echoed(one, field, getattr(one.message, field))
        step: dict[str, Any] = {**_at(one.connection), "broker": {one.name: fields}}
        if one.name == "connected":
            fields |= {"server_version": {"$any": True}, "protocol_version": {"$lt": one.message.protocol_version + 1}}
        elif one.name == "producer_success":
            self._producer(cause, one, fields)
        elif one.name == "message":
            fields |= self._consumer(one)
            step["payload"] = self._versioned(expected_payload(one.frame, self._text), one)
            step |= self._window(one)
        if "schema_version" in fields:
            fields["schema_version"] = self.names.told_version(one.message.schema_version)
            if not one.message.schema_version:
                fields.pop("schema_version")
        clause = clause_of(cause, one)
        if clause is not None:
            self.clauses[clause] = None
            step["clause"] = clause
        return step

    def _producer(self, cause: Said | str, one: Said, fields: dict[str, Any]) -> None:
        name = one.message.producer_name
        given = isinstance(cause, Said) and cause.name == "producer" and cause.message.producer_name == name
        if given or self.names.is_made(name):
            fields["producer_name"] = self.names.text(name)
        else:
            fields["producer_name"] = {"$bind": self.names.made(name)}

    def _consumer(self, one: Said) -> dict[str, Any]:
        """Leave open which consumer gets a message, where the broker chooses."""
        mine = one.connection, one.message.consumer_id
        kind = self._kinds[mine]
        others = [key for key, other in self._kinds.items() if other == kind and key[0] == one.connection]
        if not several(kind[0]) or len(others) < 2:
            return {}
        place = one.message.message_id.ledgerId, one.message.message_id.entryId
        return {"consumer_id": self.names.one_of(place, kind, [self.names.echoed(one, "consumer_id", key[1]) for key in others])}

    def _fields(self, said: Said) -> dict[str, Any]:
        fields = fields_of(said.message, self._text)
        for name in fields:
            if self.names.is_own(name):
                fields[name] = self.names.own(said, name, getattr(said.message, name))
            elif name in HASHES:
                fields[name] = hash_of(fields[name], self.names.sets) or fields[name]
        if said.name == "connect":
            fields = {"client_version": "pulsar-conformance", **{name: one for name, one in fields.items() if name not in _NOT_SENT}}
        elif said.name == "subscribe":
            self._kinds[said.connection, said.message.consumer_id] = said.message.subType, said.message.topic, said.message.subscription
            if "consumer_name" in fields:
                fields["consumer_name"] = self.names.consumer_name(said.message.consumer_name)
        elif said.name in ("close_consumer", "unsubscribe"):
            self._leave(said)
        for name in ("message_id", "message_ids", "start_message_id"):
            if name in fields and said.name != "send":
                ids = getattr(said.message, name)
                one = name == "start_message_id" or said.name == "seek"
                fields[name] = self.names.sent_position(ids) if one else [self.names.sent_position(each) for each in ids]
        if "schema_version" in fields:
            fields["schema_version"] = self.names.version(said.message.schema_version)
        return fields

    def _versioned(self, payload: dict[str, Any], one: Said) -> dict[str, Any]:
        if "schema_version" in payload["metadata"]:
            payload["metadata"]["schema_version"] = self.names.version(one.frame.payload().metadata.schema_version)
        return payload

    def _acknowledgements(self, said: Said, fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Let each consumer acknowledge what the broker chooses for it."""
        chosen = [self.names.acknowledged((one.ledgerId, one.entryId)) for one in said.message.message_id]
        if not any(chosen):
            yield fields
            return
        for variable, one in zip(chosen, fields["message_id"], strict=True):
            yield {**fields, "consumer_id": f"${variable}" if variable else fields["consumer_id"], "message_id": [one]}

    def _leave(self, said: Said) -> None:
        left = self._kinds.pop((said.connection, said.message.consumer_id), None)
        if left is not None and self.names.unacknowledged(left):
            raise TranscribeProblem(
                f"connection {said.connection}: consumer {said.message.consumer_id} leaves before all messages are acknowledged, and which "
                "consumer has them is the broker's choice: let them acknowledge all before one leaves"
            )

    def _late(self, said: Said) -> dict[str, Any]:
        payload = said.frame.payload()
        if payload is None or not _is_delayed(said):
            return {}
        self._labels += 1
        label = f"sent{self._labels}"
        self._sent_late[payload.metadata.producer_name, payload.metadata.sequence_id, payload.metadata.publish_time] = (
            label,
            delay_of(payload.metadata),
        )
        return {"label": label}

    def _window(self, one: Said) -> dict[str, Any]:
        payload = one.frame.payload()
        key = payload.metadata.producer_name, payload.metadata.sequence_id, payload.metadata.publish_time
        if key not in self._sent_late or not several(self._kind(one)) or one.message.redelivery_count:
            return {}
        label, delay = self._sent_late[key]
        return {"window": {"since": label, "min": max(0.0, delay - _EARLY), "max": delay + _LATE}}

    def _kind(self, one: Said) -> int:
        kind: int = self._kinds[one.connection, one.message.consumer_id][0]
        return kind

    def _text(self, text: str) -> Any:
        return self.names.text(text)

    def _position(self, path: str, value: Any) -> Any:
        if path.endswith(".last_message_id"):
            return self.names.last_position(value)
        if path not in ("MESSAGE.message_id", "SEND_RECEIPT.message_id"):
            return None
        written = self.names.told_position(value, self._moment, self._connection)
        return {**written, "partition": value.partition} if value.partition >= 0 else written

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        ((name, given),) = call.items()
        if isinstance(given, str):
            return {name: self.names.text(given)}
        return {name: {key: self.names.text(one) if isinstance(one, str) else one for key, one in given.items()}}


@cache
def _is_free(path: str) -> bool:
    listed = [one.field for one in load_differences().fields if not one.field.startswith(("CONNECTED.feature", "PRODUCER_SUCCESS"))]
    return is_selected((path,), [*listed, "*.error_message"]) or is_selected((path,), _FREE)


def _is_delayed(one: Said) -> bool:
    payload = one.frame.payload() if one.name in ("send", "message") else None
    return payload is not None and payload.metadata.HasField("deliver_at_time")


def _may_be_active(one: Said) -> bool:
    return one.name == "active_consumer_change" or (one.name == "subscribe" and one.message.subType == CommandSubscribe.Failover)


_AMBIENT: Sequence[tuple[dict[str, Any], Callable[[Said], bool]]] = (
    ({"frame": {"active_consumer_change": {}}, "cite": "core.subscribe.active-consumer-change"}, _may_be_active),
    ({"frame": {"reachedEndOfTopic": {}}, "cite": "core.terminate.end-told"}, lambda one: one.name == "reachedEndOfTopic"),
)
"""What may come at any time, or more than once, and the frames that tell when."""


def _at(connection: int) -> dict[str, str]:
    return {} if connection == 1 else {"at": f"c{connection}"}
