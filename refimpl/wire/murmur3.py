"""MurmurHash3 with 32 bits (x86, seed 0), which Pulsar uses wherever a key, a name or a consumer gets a place."""

from __future__ import annotations

_MASK = 0xFFFF_FFFF


def murmur3(data: bytes) -> int:
    """Hash bytes.

    Returns:
        An unsigned number of 32 bits; Pulsar takes the lower 31 of them as a rule.
    """
    value = 0
    for place in range(0, len(data), 4):
        block = data[place : place + 4]
        scrambled = int.from_bytes(block, "little") * 0xCC9E2D51 & _MASK
        value ^= _rotated(scrambled, 15) * 0x1B873593 & _MASK
        if len(block) == 4:
            value = (_rotated(value, 13) * 5 + 0xE6546B64) & _MASK
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK
