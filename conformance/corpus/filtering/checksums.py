"""The CRC32C of a whole from those of its parts, so that parts of a list can be hashed separately.

A checksum is the remainder of a polynomial over GF(2), whose coefficients are the bits of the bytes. Bytes behind a part multiply its
polynomial by x to the power of their bits; so the checksum of a whole is that of the first part, multiplied, plus that of the second.
The bits of a checksum stand in reverse: bit 31 is the coefficient of x ** 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from crc32c import crc32c

_MODULUS = 0x82F63B78
"""Castagnoli's polynomial without x ** 32, in reverse."""
_ONE = 1 << 31
_BITS = 64
"""Lengths below 2 ** 61 bytes can be combined."""


def product(one: int, other: int) -> int:
    """Multiply two remainders."""
    result = 0
    while one:
        if one & _ONE:
            result ^= other
        one = one << 1 & 0xFFFFFFFF
        other = other >> 1 ^ (_MODULUS if other & 1 else 0)
    return result


def _squares() -> tuple[int, ...]:
    """Return x to the powers 1, 2, 4, 8 and so on."""
    powers = [_ONE >> 1]
    for _ in range(_BITS - 1):
        powers.append(product(powers[-1], powers[-1]))
    return tuple(powers)


_POWERS = _squares()


def shift(length: int) -> int:
    """Return the factor of a checksum when bytes follow: x ** (8 * bytes)."""
    result, bits = _ONE, 8 * length
    for power in _POWERS:
        if bits & 1:
            result = product(result, power)
        bits >>= 1
    return result


def combined(first: int, second: int, length: int) -> int:
    """Return the CRC32C of a whole.

    Args:
        first: CRC32C of the first part.
        second: CRC32C of the second part.
        length: Bytes of the second part.
    """
    return product(first, shift(length)) ^ second


@dataclass(frozen=True)
class Part:
    """A part of a list of names: consecutive names, joined by commas.

    Attributes:
        checksum: CRC32C of the text.
        length: Its bytes.
    """

    checksum: int
    length: int


_COMMA = Part(crc32c(b","), 1)


def joined(parts: Iterable[Part]) -> Part | None:
    """Join parts with commas; None if there are none."""
    whole: Part | None = None
    for part in parts:
        whole = part if whole is None else _behind(_behind(whole, _COMMA), part)
    return whole


def _behind(first: Part, second: Part) -> Part:
    return Part(combined(first.checksum, second.checksum, second.length), first.length + second.length)


def hexadecimal(checksum: int) -> str:
    """Return a checksum as `topics_hash` has it: its bytes in little-endian order."""
    return checksum.to_bytes(4, "little").hex()
