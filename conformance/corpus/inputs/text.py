r"""Text of users, UTF-8, compressed or not: names, one on each line; topics and messages, one JSON object on each line.

    names.txt        persistent://public/default/orders, or short as Pulsar reads it: orders, tenant/namespace/orders
    topics.jsonl     {"topic": "orders", "properties": {"region": "eu"}}
    messages.jsonl   {"topic": "orders", "payload": "hello", "key": "k", "properties": {"region": "eu"}}

Empty lines are passed over. Of JSON the topic is enough. A payload is text, or `payload_base64`. Without `sequence_id` the messages of a
producer are in the order of their lines.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from conformance.corpus.columns import arrow_schema
from conformance.corpus.errors import CorpusError
from conformance.corpus.inputs.names import topic_name
from conformance.corpus.inputs.parquet import unknown
from conformance.corpus.inputs.rows import Rows, shown
from refimpl.proposals.refused import Refused

NAMES, JSON = (".txt", ".txt.gz"), (".jsonl", ".jsonl.gz")
KIND = "read"
"""The kind of a topic of which nothing else is said."""
PRODUCER = "producer"
_ROWS = 4096
_BASE64 = "payload_base64"
_DIGITS = 1000


class _Object(dict[str, Any]):
    """A JSON object that remembers a key that is there more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = next((key for key, count in counts.items() if count > 1), None)


_KINDS: Mapping[str, tuple[type, str]] = {
    "string": (str, "a text"),
    "binary": (str, "a text"),
    "boolean": (bool, "true or false"),
    "int": (int, "a whole number"),
    "bigint": (int, "a whole number"),
    "map<string,string>": (_Object, "an object of texts"),
}
_BITS = {"int": 31, "bigint": 63}


@dataclass(frozen=True)
class _NoNumber:
    """Something that stands in place of a number, and can't be one; the column that has it is named where it is known."""

    problem: str


_SHORT = {
    _NoNumber: "no number",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    _Object: "an object",
    list: "a list",
    type(None): "null",
}


def text_batches(path: Path, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Read a text, and look at each row.

    Args:
        path: The file.
        columns: Those of topics or of messages.

    Raises:
        CorpusError: A line is not right; names the line, and the column. Or there is none.
    """
    places: list[int] = []
    total = sum(1 for _ in _lines(path))
    if not total:
        raise CorpusError(f"{path}: has no line with {'a message' if 'payload' in columns else 'a topic'}")
    rows = Rows(total, lambda row: f"{path}, line {places[row]:,}")
    schema = arrow_schema(columns)
    waiting: list[dict[str, Any]] = []
    for line, row in _names(path) if path.name.endswith(NAMES) else _objects(path, columns):
        places.append(line)
        waiting.append({name: row.get(name) for name in columns})
        if len(waiting) == _ROWS:
            yield _batch(waiting, schema, rows)
            waiting = []
    if waiting:
        yield _batch(waiting, schema, rows)
    rows.end()


def _batch(waiting: list[dict[str, Any]], schema: pa.Schema, rows: Rows) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pylist(waiting, schema=schema)
    rows.check(batch)
    return batch


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Read the lines that are not empty, with their numbers."""
    number = 0
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise CorpusError(f"{path}: is no ordinary file")
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as file:
            for data in file:
                number += 1
                text = data.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
                if text.strip():
                    yield number, text
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}, line {number:,}: is not UTF-8 at byte {error.start + 1}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorpusError(f"{path}, line {number + 1:,}: can't be decompressed further: {error}") from None
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}") from None


def _names(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read names; one that comes again is passed over."""
    seen: set[str] = set()
    for line, text in _lines(path):
        name = _full_name(text, f"{path}, line {line:,}")
        if name not in seen:
            yield line, {"id": len(seen), "topic": name, "kind": KIND, "properties": {}}
            seen.add(name)


def _full_name(text: str, where: str) -> str:
    try:
        return topic_name(text).full
    except Refused as error:
        raise CorpusError(f"{where}, column topic: {shown(text)} is no name of a topic: {error}") from None


@dataclass
class _Objects:
    """Rows made of JSON objects."""

    path: Path
    columns: Mapping[str, str]
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)

    def row(self, number: int, line: int, text: str) -> dict[str, Any]:
        where = f"{self.path}, line {line:,}"
        given = _object(text, where)
        known = {**self.columns, _BASE64: "string"} if "payload" in self.columns else self.columns
        if wrong := unknown(list(given), known):
            hint = "; this is an event log: give it as capture:PATH" if "record" in given else ""
            raise CorpusError(f"{where}: {'; '.join(wrong)}{hint}")
        row = {name: _value(value, known[name], f"{where}, column {name}") for name, value in given.items() if value is not None}
        if "topic" not in row:
            raise CorpusError(f"{where}, column topic: is {'null' if 'topic' in given else 'missing'}")
        row["topic"] = _full_name(row["topic"], where)
        row.setdefault("id", number)
        row.setdefault("properties", {})
        if "payload" not in self.columns:
            return {"kind": KIND, **row}
        payload = self._payload(row, where)
        producer = row["topic"], row.setdefault("producer_name", PRODUCER)
        row.setdefault("sequence_id", self.sent[producer])
        self.sent[producer] += 1
        return {"publish_time": 0, "payload_size": len(payload), **row, "payload": payload}

    def _payload(self, row: dict[str, Any], where: str) -> bytes:
        encoded = row.pop(_BASE64, None)
        if encoded is None:
            return str(row.get("payload", "")).encode()
        if "payload" in row:
            raise CorpusError(f"{where}, column {_BASE64}: there is a payload, too")
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorpusError(f"{where}, column {_BASE64}: is not base64: {error}") from None


def _objects(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    made = _Objects(path, columns)
    for number, (line, text) in enumerate(_lines(path)):
        yield line, made.row(number, line, text)


def _object(text: str, where: str) -> _Object:
    try:
        found = json.loads(text, object_pairs_hook=_Object, parse_constant=_no_number, parse_int=_whole_number)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{where}: is not JSON: {error.msg} at character {error.colno}") from None
    except RecursionError:
        raise CorpusError(f"{where}: is not JSON: it is nested too deep") from None
    except ValueError as error:
        raise CorpusError(f"{where}: is not JSON: {error}") from None
    if not isinstance(found, _Object):
        raise CorpusError(f"{where}: is {_SHORT[type(found)]}, not an object with columns")
    if found.repeated is not None:
        raise CorpusError(f"{where}, column {found.repeated}: is there more than once")
    return found


def _whole_number(text: str) -> int | _NoNumber:
    return int(text) if len(text) <= _DIGITS else _NoNumber(f"is a number of {len(text):,} digits")


def _no_number(text: str) -> _NoNumber:
    return _NoNumber(f"{text} is no number")


def _value(value: Any, kind: str, where: str) -> Any:
    if isinstance(value, _NoNumber):
        raise CorpusError(f"{where}: {value.problem}")
    wanted, said = _KINDS[kind]
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise CorpusError(f"{where}: is {_SHORT[type(value)]}, not {said}")
    if isinstance(value, int) and kind in _BITS and not -(1 << _BITS[kind]) <= value < 1 << _BITS[kind]:
        raise CorpusError(f"{where}: {shown(value)} is too large")
    if isinstance(value, _Object):
        if value.repeated is not None:
            raise CorpusError(f"{where}: the key {shown(value.repeated)} is there more than once")
        for key, one in value.items():
            if not isinstance(one, str):
                raise CorpusError(f"{where}: the value of {shown(key)} is {_SHORT[type(one)]}, not a text")
            _no_surrogates(key, where)
            _no_surrogates(one, where)
    elif isinstance(value, str):
        _no_surrogates(value, where)
    return value


def _no_surrogates(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CorpusError(f"{where}: {shown(text)} has half a character (a surrogate alone)") from None
