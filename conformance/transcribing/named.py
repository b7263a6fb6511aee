"""Names, ids and hashes of a capture -> variables of a transcript."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf.message import Message

from conformance.engine.values import variables_of
from conformance.transcribing.administration import partitioned
from conformance.transcribing.causes import Action, MessageId
from conformance.transcribing.recorded import Said, TranscribeProblem
from refimpl.indexes.topics_hash import topics_hash

_TOPICS = frozenset({"topic", "topics", "new_topics", "deleted_topics"})
_OWN = {"request_id": "r", "consumer_id": "c", "producer_id": "p", "watcher_id": "w"}
"""Ids that a client chooses, with the beginnings of their variables."""
_SPECIAL = 2**63 - 2
"""Ledgers and entries above are no places."""
_LARGE = 2**31


class Names:
    """The variables of a transcript.

    Attributes:
        variables: Those that the file declares.
        sets: By hash, the topics that a broker has told of, as they are written.
    """

    def __init__(self, actions: Sequence[Action]) -> None:
        said = [one for action in actions for one in ([action.said] if action.said else []) + action.heard]
        self.variables: dict[str, Any] = {}
        self._texts: dict[str, str] = {}
        self._topics: dict[str, str] = {}
        self._find_names(said, actions)
        self.sets: dict[str, list[str]] = {topics_hash(()): []}
        self._ids: dict[tuple[int, str, int], str] = {}
        self._counts: dict[str, int] = {}
        self._positions: dict[MessageId, tuple[int, int, int]] = {}
        self._told: dict[str, list[str]] = {}
        self._watched: dict[tuple[int, int], set[str]] = {}
        self._consumers = _ranks(one.message.consumer_name for one in said if one.by_client and one.name == "subscribe")
        self._versions: dict[bytes, str] = {}
        self._chosen: dict[MessageId, tuple[str, Any]] = {}

    def _find_names(self, said: Sequence[Said], actions: Sequence[Action]) -> None:
        """Find namespaces and topics."""
        served = {one.message.topic for one in said if one.by_client and one.name in ("producer", "subscribe")}
        for action in actions:
            for call in action.calls:
                for value in call.values():
                    served.add(value["topic"] if isinstance(value, dict) else value)
        for one in said:
            for name, text in _texts(one.message):
                if name in _TOPICS and "://" in text:
                    parts = text.partition("://")[2].split("/")
                    self._namespace("/".join(parts[:2]) if len(parts) > 2 else text)
                elif name == "namespace":
                    self._namespace(text)
                elif name == "topic":
                    raise TranscribeProblem(f"connection {one.connection}: {one.name} has the topic {text!r}, without its namespace")
        for topic in served:
            base = partitioned(topic)
            self._topics.setdefault(topic if base is None else base[0], "")
        for number, topic in enumerate(sorted(self._topics), 1):
            variable = self._topics[topic] = "t" if len(self._topics) == 1 else f"t{number}"
            self.variables[variable] = self._plain(topic)

    def _namespace(self, name: str) -> None:
        if name not in self._texts:
            number = len(self._texts) + 1
            variable = "n" if number == 1 else f"n{number}"
            self.variables[variable] = {"$fresh": "namespace"}
            self._texts[name] = f"${{{variable}}}"

    def text(self, text: str) -> str:
        """Write a text with the names in it that stand for something.

        Raises:
            TranscribeProblem: The language would read it otherwise.
        """
        if variables_of(text):
            raise TranscribeProblem(f"the text {text!r} reads as a variable in a transcript")
        if text in self._topics:
            return f"${self._topics[text]}"
        base = partitioned(text)
        if base is not None and base[0] in self._topics:
            return f"${{{self._topics[base[0]]}}}-partition-{base[1]}"
        written = self._plain(text)
        return f"${written[2:-1]}" if written in self._texts.values() else written

    def _plain(self, text: str) -> str:
        for name in sorted(self._texts, key=len, reverse=True):
            behind = r"(?=/|$)" if "/" in name else r"(?!\d)"
            text = re.sub(re.escape(name) + behind, self._texts[name], text)
        return text

    def made(self, name: str) -> str:
        """Return the variable of a name that the broker made."""
        if name not in self._texts:
            self._texts[name] = f"${{{self._new('name')}}}"
        return self._texts[name][2:-1]

    def is_made(self, name: str) -> bool:
        """Tell whether the broker made a name."""
        return name in self._texts

    def consumer_name(self, name: str) -> str:
        """Return another name for a consumer, in the same order as the others."""
        return self._consumers.get(name, name)

    def own(self, one: Said, field: str, value: int) -> Any:
        """Write an id that the client chose, where it sends it."""
        key = one.connection, field, value
        if field != "request_id" and key in self._ids:
            return f"${self._ids[key]}"
        variable = self._ids[key] = self._new(_OWN[field])
        return {"$bind": variable, "example": value if value < _LARGE else int(variable[1:])}

    def echoed(self, one: Said, field: str, value: int) -> Any:
        """Write such an id where the broker sends it."""
        variable = self._ids.get((one.connection, field, value))
        return value if variable is None else f"${variable}"

    def is_own(self, field: str) -> bool:
        """Tell whether a field is an id that the client chooses."""
        return field in _OWN

    def one_of(self, key: MessageId, subscription: Any, written: Sequence[str]) -> dict[str, Any]:
        """Write the id of a consumer that the broker chooses for a message of a subscription."""
        variable = self._new("k")
        self._chosen[key] = variable, subscription
        return {"$in": list(written), "$bind": variable}

    def acknowledged(self, key: MessageId) -> str | None:
        """Take that a message is acknowledged; return the consumer that the broker has chosen for it, if it has."""
        return self._chosen.pop(key, (None, None))[0]

    def unacknowledged(self, subscription: Any) -> bool:
        """Tell whether a consumer of a subscription that the broker has chosen has something left to acknowledge."""
        return any(one == subscription for _, one in self._chosen.values())

    def told_position(self, value: Any, moment: int, connection: int) -> dict[str, Any]:
        """Write the id of a message where the broker tells it: bound the first time, the same later."""
        known = self._positions.get((value.ledgerId, value.entryId))
        if known is not None and (known[1], known[2]) != (moment, connection):
            return {"ledgerId": f"$l{known[0]}", "entryId": f"$e{known[0]}"}
        number = int(self._new("l")[1:])
        self._positions[value.ledgerId, value.entryId] = number, moment, connection
        return {"ledgerId": {"$bind": f"l{number}"}, "entryId": {"$bind": f"e{number}"}}

    def last_position(self, value: Any) -> dict[str, Any]:
        """Write the id of the last message."""
        known = self._positions.get((value.ledgerId, value.entryId))
        if known is None:
            return {"entryId": value.entryId} if value.entryId > _SPECIAL else {"entryId": {"$any": True}}
        return {"ledgerId": f"$l{known[0]}", "entryId": f"$e{known[0]}", "batch_index": value.batch_index}

    def sent_position(self, value: Any) -> dict[str, Any]:
        """Write the id of a message where the client sends it.

        Raises:
            TranscribeProblem: Nobody has told it.
        """
        fields = {
            name: list(one) if name == "ack_set" else one
            for name in ("partition", "batch_index", "batch_size", "ack_set")
            if (one := getattr(value, name)) and (name == "ack_set" or value.HasField(name))
        }
        if value.HasField("first_chunk_message_id"):
            fields["first_chunk_message_id"] = self.sent_position(value.first_chunk_message_id)
        place = value.ledgerId, value.entryId
        if max(place) > _SPECIAL and place not in self._positions:
            return {"ledgerId": place[0], "entryId": place[1], **fields}
        for distance in (0, 1, -1):
            known = self._positions.get((place[0], place[1] + distance))
            if known is not None:
                entry = f"$e{known[0]}" if distance == 0 else {"$add": [f"$e{known[0]}", -distance]}
                return {"ledgerId": f"$l{known[0]}", "entryId": entry, **fields}
        raise TranscribeProblem(f"message {place[0]}:{place[1]} is named, but the broker did not tell of it in the capture")

    def told_version(self, version: bytes) -> Any:
        """Write the version of a schema where the broker tells it: bound the first time, the same later."""
        if version in self._versions:
            return f"${self._versions[version]}"
        self._versions[version] = self._new("v")
        return {"$bind": self._versions[version]}

    def version(self, version: bytes) -> Any:
        """Write the version of a schema elsewhere."""
        return f"${self._versions[version]}" if version in self._versions else {"hex": version.hex()}

    def tell(self, one: Said) -> None:
        """Take the topics that a broker tells of, so that their hashes are known."""
        message = one.message
        if one.name == "getTopicsOfNamespaceResponse":
            self._know(message.topics)
        elif one.name == "watchTopicListSuccess":
            key = one.connection, message.watcher_id
            self._watched[key] = set(message.topic or self._told.get(message.topics_hash, ()))
            self._know(message.topic)
        elif one.name == "watchTopicUpdate":
            watched = self._watched.setdefault((one.connection, message.watcher_id), set())
            watched |= set(message.new_topics)
            watched -= set(message.deleted_topics)
            self._know(watched)

    def _know(self, topics: Iterable[str]) -> None:
        listed = sorted(topics)
        self._told[topics_hash(listed)] = listed
        self.sets[topics_hash(listed)] = [self.text(topic) for topic in listed]

    def _new(self, prefix: str) -> str:
        self._counts[prefix] = self._counts.get(prefix, 0) + 1
        return f"{prefix}{self._counts[prefix]}"


def _ranks(names: Iterable[str]) -> dict[str, str]:
    return {name: f"consumer-{number:02}" for number, name in enumerate(sorted({name for name in names if name}), 1)}


def _texts(message: Message) -> Iterator[tuple[str, str]]:
    for descriptor, value in message.ListFields():
        for one in [value] if isinstance(value, str | Message) else value if descriptor.label == descriptor.LABEL_REPEATED else ():
            if isinstance(one, Message):
                yield from _texts(one)
            elif isinstance(one, str):
                yield descriptor.name, one
