"""What must hold in each row of a corpus: nothing null that is needed, nothing negative, no key or number twice, no gap.

Columns are looked at as a whole. The first row that is wrong is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from conformance.corpus.errors import CorpusError

MAY_BE_NULL = frozenset({"key", "payload", "event_time", "ordering_key"})
NOT_EMPTY = frozenset({"topic", "producer_name"})
NOT_NEGATIVE = frozenset({"sequence_id", "publish_time", "event_time", "payload_size"})
LARGEST = 1 << 30
"""No message has more bytes."""
UNIQUE = frozenset({"id", "topic"})
"""Of topics that have numbers; of messages the number alone. Names alone are a set, whatever is written twice."""
_SHOWN = 60
_ENTRIES = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_Problem = tuple[int, str, str]


class Rows:
    """Looks at rows, batch by batch.

    Args:
        total: Number of all rows.
        place: Gives the name of a row by its number, from 0: its file, and which row it is there.
    """

    def __init__(self, total: int, place: Callable[[int], str]) -> None:
        self._total = total
        self._place = place
        self._count = 0
        self._sequences: dict[str, npt.NDArray[np.bool_]] = {}
        self._last: dict[str, tuple[int, int]] = {}  # the largest number of each producer, and its row
        self._hashes: dict[str, list[npt.NDArray[np.int64]]] = {}

    def check(self, batch: pa.RecordBatch) -> None:
        """Look at the next rows.

        Raises:
            CorpusError: One is wrong; the first is named, with the column.
        """
        problem = _earliest(_problems(batch)) or _earliest(self._sequence_problems(batch))
        if problem is not None:
            self._refuse(self._count + problem[0], problem[1], problem[2])
        for name in UNIQUE & set(batch.schema.names):
            if name == "id" or ("id" in batch.schema.names and "producer_name" not in batch.schema.names):
                self._hashes.setdefault(name, []).append(_hashes(batch.column(name)))
        self._count += batch.num_rows

    def end(self) -> None:
        """Look at what only all rows together show.

        Raises:
            CorpusError: A number or topic is there twice, or a sequence id is missing.
        """
        for name, pieces in sorted(self._hashes.items()):
            hashes = np.concatenate(pieces)
            if np.any(np.diff(np.sort(hashes)) == 0):
                order = np.argsort(hashes, kind="stable")
                again = order[1:][np.diff(hashes[order]) == 0]
                row = int(again.min())
                first = int(np.flatnonzero(hashes == hashes[row])[0])
                self._refuse(row, name, f"is that of {self._place(first)}, too")
        for producer, seen in self._sequences.items():
            numbers = np.flatnonzero(seen)
            if len(numbers) <= numbers[-1]:
                missing = int(np.flatnonzero(~seen)[0])
                topic, name = _parts(producer)
                lacking = f"is {numbers[-1]}, but {shown(name)} on {shown(topic)} has no message {missing}"
                rule = "sequence ids are numbers from 0 without gaps, for each producer and topic"
                self._refuse(self._last[producer][1], "sequence_id", f"{lacking}; {rule}")

    def _refuse(self, row: int, column: str, what: str) -> None:
        raise CorpusError(f"{self._place(row)}, column {column}: {what}")

    def _sequence_problems(self, batch: pa.RecordBatch) -> Iterator[_Problem]:
        if not {"topic", "producer_name", "sequence_id"} <= set(batch.schema.names):
            return
        topics, names = (batch.column(name).cast(pa.string()) for name in ("topic", "producer_name"))
        lengths = pc.utf8_length(topics).cast(pa.string())  # so that each text is of one topic and one name, whatever is in them
        producers = pc.binary_join_element_wise(lengths, topics, names, "\0").dictionary_encode()
        codes = producers.indices.to_numpy()
        numbers = batch.column("sequence_id").to_numpy()
        beyond = np.flatnonzero(numbers >= self._total)
        if len(beyond):
            row = int(beyond[0])
            yield row, "sequence_id", f"is {numbers[row]}, but there are only {self._total:,} rows, and numbers from 0 have no gaps"
            return
        order = np.argsort(codes, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            if len(rows):
                yield from self._repeated(producers.dictionary[int(codes[rows[0]])].as_py(), rows, numbers[rows])

    def _repeated(self, producer: str, rows: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> Iterator[_Problem]:
        seen = self._sequences.get(producer, np.zeros(0, np.bool_))
        needed = int(numbers.max()) + 1
        if needed > len(seen):
            seen = np.concatenate([seen, np.zeros(max(needed, min(2 * len(seen), self._total)) - len(seen), np.bool_)])
        again = seen[numbers]
        order = np.argsort(numbers, kind="stable")
        again[order[1:]] |= np.diff(numbers[order]) == 0
        if again.any():
            place = int(np.flatnonzero(again)[0])
            topic, name = _parts(producer)
            yield int(rows[place]), "sequence_id", f"{numbers[place]} of {shown(name)} on {shown(topic)} is that of an earlier row, too"
        last = int(np.argmax(numbers))
        self._last[producer] = max(self._last.get(producer, (-1, 0)), (int(numbers[last]), self._count + int(rows[last])))
        seen[numbers] = True
        self._sequences[producer] = seen[: len(seen)]


def _parts(producer: str) -> tuple[str, str]:
    length, _, both = producer.partition("\0")
    return both[: int(length)], both[int(length) + 1 :]


def shown(text: object) -> str:
    """Return a value for a message: quoted, on one line, not too long."""
    quoted = repr(text)
    return quoted if len(quoted) <= _SHOWN else f"{quoted[:_SHOWN]}.."


def _hashes(column: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy(), np.int64)
    return np.fromiter(map(hash, column.to_pylist()), np.int64, len(column))


def _problems(batch: pa.RecordBatch) -> Iterator[_Problem]:
    """Find rows that are wrong by themselves; of each kind the first."""
    sizes: dict[str, pa.Array] = {}
    for name, given in zip(batch.schema.names, batch.columns, strict=True):
        column = _plain(given)
        if (row := _not_text(column)) is not None:
            yield row, name, "is not UTF-8"
            continue
        if name not in MAY_BE_NULL and column.null_count:
            yield pc.index(column.is_null(), True).as_py(), name, "is null"
        if name in NOT_EMPTY and (row := _first(pc.equal(pc.binary_length(column), 0))) is not None:
            yield row, name, "is empty"
        if name in NOT_NEGATIVE and (row := _first(pc.less(column, 0))) is not None:
            yield row, name, f"is negative: {column[row].as_py()}"
        if name == "payload_size" and (row := _first(pc.greater(column, LARGEST))) is not None:
            yield row, name, f"is {column[row].as_py()}: too many bytes for a message"
        if pa.types.is_map(column.type):
            yield from _map_problems(name, column)
        sizes[name] = column
    if {"payload", "payload_size"} <= set(sizes):
        lengths = pc.binary_length(sizes["payload"])
        if (row := _first(pc.not_equal(lengths.cast(pa.int64()), sizes["payload_size"].cast(pa.int64())))) is not None:
            yield row, "payload_size", f"is {sizes['payload_size'][row].as_py()}, but payload has {lengths[row].as_py()} bytes"


def _plain(column: pa.Array) -> pa.Array:
    """Return a column in the form for which pyarrow has all functions."""
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if column.type == pa.string_view():
        return column.cast(pa.string())
    return column.cast(pa.binary()) if column.type == pa.binary_view() else column


def _map_problems(name: str, column: pa.MapArray) -> Iterator[_Problem]:
    lists = column.cast(_ENTRIES)
    parents, entries = pc.list_parent_indices(lists), pc.list_flatten(lists)
    keys, values = (pc.struct_field(entries, number) for number in (0, 1))
    if keys.null_count:
        yield parents[pc.index(keys.is_null(), True).as_py()].as_py(), name, "a key is null"
        return
    if values.null_count:
        place = pc.index(values.is_null(), True).as_py()
        yield parents[place].as_py(), name, f"the value of {shown(keys[place].as_py())} is null"
    numbers = keys.dictionary_encode()
    both = parents.to_numpy().astype(np.int64) * max(1, len(numbers.dictionary)) + numbers.indices.to_numpy()
    ordered = np.sort(both)
    again = ordered[1:][np.diff(ordered) == 0]
    if len(again):
        row, key = divmod(int(again[0]), len(numbers.dictionary))
        times = int(np.count_nonzero(both == again[0]))
        yield row, name, f"the key {shown(numbers.dictionary[key].as_py())} is there {times} times"


def _earliest(problems: Iterable[_Problem]) -> _Problem | None:
    return min(problems, key=lambda problem: problem[0], default=None)


def _first(mask: pa.Array) -> int | None:
    row: int = pc.index(pc.fill_null(mask, False), True).as_py()
    return row if row >= 0 else None


def _not_text(column: pa.Array) -> int | None:
    """Return the first row whose text is not UTF-8; Parquet does not check that."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        for row in range(len(column)):
            try:
                column[row].as_py()
            except UnicodeDecodeError:
                return row
    return None
