"""Payloads of synthetic messages, a block at a time.

    share   what                                        size
    0.25    a decimal number "0" to "100"               1 to 3 bytes
    0.35    words, with a space between them            log-normal
    0.25    {"number":N,"text":"words"}                 log-normal, at least 22 bytes
    0.13    bytes that are not UTF-8                    log-normal, at least 2 bytes
    0.02    nothing                                     0

Of words, JSON and bytes one in a thousand is large, 20,000 to 60,000 bytes, and one in twenty is tiny, 1 to 3 (where that is
possible). Everything that is longer than a few bytes is cut out of a pool that is drawn once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conformance.corpus.sources.blocks import generator

STREAM = 0x706C
POOL = 1 << 17
"""Bytes of words, and as many of arbitrary ones."""
LARGEST = 60_000
"""Bytes that are cut out of the pool at most."""

_SHARES = (0.25, 0.35, 0.25, 0.13, 0.02)
_NUMBER, _WORDS, _JSON, _BYTES, _EMPTY = range(len(_SHARES))
_LETTERS = np.frombuffer(b"eeeeaaaooiiinnnttrrsslldcumpgbvhfyqzxjkw", np.uint8)
_JSON_END = b'"}'
_NO_TEXT = b"\xff\xfe"
Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Payloads:
    """Draws payloads.

    Args:
        seed: What the pool is drawn from.
        median: Of the sizes of words, JSON and bytes.
        spread: Standard deviation of the logarithms of these sizes.
    """

    def __init__(self, seed: int, median: float, spread: float) -> None:
        self._median = median
        self._spread = spread
        words, self._words = _words(generator(seed, STREAM, 0))
        arbitrary = generator(seed, STREAM, 1).integers(0, 256, POOL, np.uint8)
        numbers = [str(number).encode() for number in range(101)]
        objects = [b'{"number":' + number + b',"text":"' for number in numbers]
        pieces = [*numbers, *objects, _JSON_END, _NO_TEXT]
        self._starts = np.cumsum([0, *map(len, pieces)])[:-1] + 2 * POOL
        self._lengths = np.array([len(piece) for piece in pieces])
        self._pool = np.concatenate([words, arbitrary, np.frombuffer(b"".join(pieces), np.uint8)])

    def draw(
        self, random: np.random.Generator, rows: int, exact: Numbers | None = None, *, filled: bool = True
    ) -> tuple[pa.Array, pa.Array]:
        """Draw payloads.

        Args:
            random: Of the block.
            rows: How many.
            exact: Bytes of those that have just so many, which makes words of numbers and of nothing; 0 of the others. None: none have.
            filled: False: only their sizes matter.

        Returns:
            The payloads, null without bytes; their sizes in bytes.
        """
        kind = np.searchsorted(np.cumsum(_SHARES), random.random(rows), side="right").clip(0, _EMPTY)
        number = random.integers(0, 101, rows)
        wanted = self._sizes(random, rows)
        where = random.random(rows)
        if exact is not None:
            kind = np.where((exact > 0) & ((kind == _NUMBER) | (kind == _EMPTY)), _WORDS, kind)
            wanted = np.where(exact > 0, exact, wanted)
            where = np.where(exact > 0, where / 2, where)  # the pool has that many bytes behind there
        begin, begin_length = self._part(np.select([kind == _NUMBER, kind == _JSON, kind == _BYTES], [number, 101 + number, 203], -1))
        end, end_length = self._part(np.where(kind == _JSON, 202, -1))
        has_body = (kind == _WORDS) | (kind == _JSON) | (kind == _BYTES)
        body_length = np.where(has_body, np.maximum(wanted - begin_length - end_length, 0), 0)
        place = (where * (POOL - LARGEST)).astype(np.int64)
        words = self._words[(where * np.searchsorted(self._words, POOL - LARGEST)).astype(np.int64)]
        body = np.where(kind == _BYTES, POOL + place, words)
        sizes = begin_length + body_length + end_length
        if not filled:
            return pa.nulls(rows, pa.binary()), pa.array(sizes.astype(np.int32))
        starts = np.stack([begin, body, end], axis=1).ravel()
        lengths = np.stack([begin_length, body_length, end_length], axis=1).ravel()
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(cut(self._pool, starts, lengths).tobytes())]
        return pa.Array.from_buffers(pa.binary(), rows, buffers), pa.array(sizes.astype(np.int32))

    def _sizes(self, random: np.random.Generator, rows: int) -> Numbers:
        usual = np.exp(random.normal(np.log(self._median), self._spread, rows))
        which = random.random(rows)
        sizes = np.select([which < 0.001, which < 0.051], [random.integers(20_000, LARGEST, rows), random.integers(1, 4, rows)], usual)
        return sizes.astype(np.int64).clip(1, LARGEST)

    def _part(self, piece: Any) -> tuple[Numbers, Numbers]:
        """Return where pieces begin in the pool, and how long they are; -1 is no piece."""
        return self._starts[piece], np.where(piece < 0, 0, self._lengths[piece])


def cut(pool: Bytes, starts: Numbers, lengths: Numbers) -> Bytes:
    """Cut pieces out of a pool and join them.

    Args:
        pool: Bytes.
        starts: Where each piece begins.
        lengths: Bytes of each.
    """
    shifts = starts - (np.cumsum(lengths) - lengths)
    pieces: Bytes = pool[np.repeat(shifts, lengths) + np.arange(lengths.sum())]
    return pieces


def _words(random: np.random.Generator) -> tuple[Bytes, Numbers]:
    """Draw words of 1 to 9 letters; return the text and where words begin."""
    lengths = random.integers(1, 10, POOL)
    ends = np.cumsum(lengths + 1)
    text = random.choice(_LETTERS, POOL)
    ends = ends[ends <= POOL]
    text[ends - 1] = ord(" ")
    return text, np.concatenate([[0], ends[:-1]])
