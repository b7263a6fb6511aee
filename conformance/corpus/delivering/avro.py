"""Text fields of Avro records, a column at a time: all payloads advance together, field by field.

Only flat records are read: longs, texts and unions of null and one of them. A payload that ends too early, or has another branch, is no
record. fastavro, on which the reference leans, reads more: branch -1 is the last one for it, and a number may have more than ten bytes.
`disputed` tells which payloads have such a branch or number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_LONGEST = 10
"""Bytes of a number at most."""


class _Cursors:
    """Where each payload is being read."""

    def __init__(self, payloads: pa.Array) -> None:
        buffers, first = payloads.buffers(), payloads.offset
        offsets = np.frombuffer(buffers[1], np.int32)[first : first + len(payloads) + 1].astype(np.int64)
        data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None and buffers[2].size else np.zeros(0, np.uint8)
        self.data = np.append(data, np.uint8(0))
        self.at, self.ends = offsets[:-1].copy(), offsets[1:]
        self.sound: Flags = np.ones(len(payloads), bool)
        self.too_long: Flags = np.zeros(len(payloads), bool)

    def number(self, where: Flags) -> Numbers:
        """Read a number of some payloads; 0 of the others."""
        value = np.zeros(len(self.at), np.uint64)
        going = where & self.sound
        for place in range(_LONGEST):
            if not going.any():
                break
            self.sound &= ~(going & (self.at >= self.ends))
            going = going & self.sound
            byte = np.where(going, self.data[np.minimum(self.at, len(self.data) - 1)], 0).astype(np.uint64)
            value |= (byte & np.uint64(0x7F)) << np.uint64(7 * place)
            self.at += going
            going = going & (byte > 0x7F)
        self.sound &= ~going
        self.too_long |= going
        zigzag: Numbers = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
        return zigzag

    def text(self, where: Flags) -> tuple[Numbers, Numbers]:
        """Skip a text of some payloads; return where it is, and its length."""
        length = self.number(where)
        where = where & self.sound
        self.sound &= ~(where & ((length < 0) | (length > self.ends - self.at)))
        where = where & self.sound
        start, length = self.at.copy(), np.where(where, length, 0)
        self.at += length
        return start, length


def texts(payloads: pa.Array, record: Mapping[str, Any], wanted: Sequence[str]) -> tuple[dict[str, pa.Array], Flags]:
    """Return text fields of records.

    Args:
        payloads: Binary, none null.
        record: The schema.
        wanted: Names of fields.

    Returns:
        The texts by name; null where a payload is no record, the field is not there, or its text is not UTF-8. And which payloads are
        disputed.
    """
    cursors = _Cursors(payloads)
    every = np.ones(len(payloads), bool)
    disputed = ~every
    found: dict[str, tuple[Numbers, Numbers, Flags]] = {}
    for one in record["fields"]:
        branches = one["type"] if isinstance(one["type"], list) else [one["type"]]
        chosen = cursors.number(every) if isinstance(one["type"], list) else np.zeros(len(payloads), np.int64)
        disputed |= cursors.sound & (chosen < 0) & (chosen >= -len(branches))
        cursors.sound &= (chosen >= 0) & (chosen < len(branches))
        for number, kind in enumerate(branches):
            where = cursors.sound & (chosen == number)
            if kind == "string":
                found[one["name"]] = (*cursors.text(where), where)
            elif kind != "null":
                cursors.number(where)
    of_names = {name: _texts(cursors, *found[name]) if name in found else pa.nulls(len(payloads), pa.string()) for name in wanted}
    return of_names, disputed | cursors.too_long


def _texts(cursors: _Cursors, starts: Numbers, lengths: Numbers, where: Flags) -> pa.Array:
    def decoded(start: int, length: int) -> str | None:
        try:
            return data[start : start + length].decode()
        except UnicodeDecodeError:
            return None

    data = cursors.data.tobytes()
    rows = zip((where & cursors.sound).tolist(), starts.tolist(), lengths.tolist(), strict=True)
    return pa.array([decoded(start, length) if there else None for there, start, length in rows], pa.string())
