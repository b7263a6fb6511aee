"""The hash of a list of topics, and a set of topics that updates its hash cheaply."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from crc32c import crc32c as crc32c_from

EMPTY_HASH = "00000000"
"""The hash of an empty list (pip145.hash.empty)."""

_BLOCK = 256
"""Names per block of a new set; a block with twice as many is split."""


def topics_hash(topics: Iterable[str]) -> str:
    """Return the hash of a list of topics, for the field `topics_hash`.

    Args:
        topics: Full topic names as on the wire, with domain and with `-partition-N`; in any order.

    Returns:
        Eight lower-case hexadecimal digits: the CRC32C of the names, sorted by UTF-16 code units and joined by commas,
        its four bytes in little-endian order. The empty list has the hash `00000000`.

    Source: observed on Apache Pulsar 2.11.0 to 5.0.0-M1; the text of PIP-145 does not specify the function.
    """
    return _hexadecimal(crc32c_from(",".join(_ordered(topics)).encode()))  # pip145.hash.value


def utf16_order(name: str) -> bytes:
    """Return the sort key that orders names by UTF-16 code units, as Java compares strings."""
    return name.encode("utf-16-be", "surrogatepass")


class TopicSet:
    """Topics in the order of the hash, in blocks with cached text, so that a change costs one block and a checksum.

    Args:
        topics: The first members; full names, any order.
    """

    __slots__ = ("_blocks", "_sums", "_texts", "_valid")

    def __init__(self, topics: Iterable[str] = ()) -> None:
        ordered = _ordered(topics)
        ordered = [name for name, after in zip(ordered, (*ordered[1:], None), strict=False) if name != after]
        self._blocks = [ordered[start : start + _BLOCK] for start in range(0, len(ordered), _BLOCK)]
        self._texts: list[bytes | None] = [None] * len(self._blocks)
        self._sums = [0] * len(self._blocks)
        self._valid = 0  # number of leading blocks with a valid checksum

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def __iter__(self) -> Iterator[str]:
        for block in self._blocks:
            yield from block

    def __contains__(self, topic: object) -> bool:
        if not isinstance(topic, str) or not self._blocks:
            return False
        _, block, position = self._place(topic)
        return position < len(block) and block[position] == topic

    def add(self, topic: str) -> bool:
        """Add a topic.

        Returns:
            False if it was in the set already.
        """
        if not self._blocks:
            self._insert_block(0, [topic])
            return True
        index, block, position = self._place(topic)
        if position < len(block) and block[position] == topic:
            return False
        block.insert(position, topic)
        self._changed(index)
        if len(block) >= 2 * _BLOCK:
            self._insert_block(index + 1, block[_BLOCK:])
            del block[_BLOCK:]
        return True

    def remove(self, topic: str) -> bool:
        """Remove a topic.

        Returns:
            False if it was not in the set.
        """
        if topic not in self:
            return False
        index, block, position = self._place(topic)
        del block[position]
        self._changed(index)
        if not block:
            del self._blocks[index], self._texts[index], self._sums[index]
        return True

    @property
    def hash(self) -> str:
        """Hash of all members, as `topics_hash` gives it."""
        if not self._blocks:
            return EMPTY_HASH
        last = len(self._blocks) - 1
        for index in range(self._valid, last):
            self._sums[index] = crc32c_from(self._text(index), self._sums[index - 1] if index else 0)
        self._valid = last
        whole = memoryview(self._text(last))[:-1]  # no comma after the last name
        return _hexadecimal(crc32c_from(whole, self._sums[last - 1] if last else 0))

    def _place(self, topic: str) -> tuple[int, list[str], int]:
        key = _order(topic)
        index = max(bisect_right(self._blocks, key, key=_first) - 1, 0)
        block = self._blocks[index]
        return index, block, bisect_left(block, key, key=_order)

    def _text(self, index: int) -> bytes:
        text = self._texts[index]
        if text is None:
            text = self._texts[index] = (",".join(self._blocks[index]) + ",").encode()
        return text

    def _changed(self, index: int) -> None:
        self._texts[index] = None
        self._valid = min(self._valid, index)

    def _insert_block(self, index: int, block: list[str]) -> None:
        self._blocks.insert(index, block)
        self._texts.insert(index, None)
        self._sums.insert(index, 0)
        self._valid = min(self._valid, index)


def _hexadecimal(checksum: int) -> str:
    return checksum.to_bytes(4, "little").hex()


def _ordered(topics: Iterable[str]) -> list[str]:
    """Return names in the order of the hash: pip145.hash.utf16-order."""
    ordered = sorted(topics)
    if not all(map(str.isascii, ordered)):
        ordered.sort(key=_order)
    return ordered


def _order(name: str) -> str:
    """Return a text whose order by code points is the name's order by UTF-16 code units; for nearly all names, the name itself."""
    if name.isascii() or max(name) <= "\uffff":
        return name
    data = name.encode("utf-16-le", "surrogatepass")
    return "".join(map(chr, struct.unpack(f"<{len(data) // 2}H", data)))


def _first(block: list[str]) -> str:
    return _order(block[0])
