"""Read encoded protobuf field by field, with the place of each field and of each defect.

The generated code decodes fast, but reports only that the input is malformed. This scanner is slow and reports where. It is used for
error messages and annotated dumps, not for decoding.

    message = field*                      field = tag value
    tag     = varint (number << 3 | kind) kinds: 0 varint, 1 eight bytes, 2 length and bytes, 3 and 4 group, 5 four bytes
    varint  = seven bits to a byte, least significant first, top bit set on all but the last, at most ten bytes
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from refimpl.wire.errors import WireError
from refimpl.wire.schema import inner_message, is_repeated, required_fields

MAX_DEPTH = 100
"""Maximum nesting of messages; the generated code has the same limit."""

_PACKED_SHOWN = 16
_KIND_OF_TYPE = {
    FieldDescriptor.TYPE_DOUBLE: 1,
    FieldDescriptor.TYPE_STRING: 2,
    FieldDescriptor.TYPE_BYTES: 2,
    FieldDescriptor.TYPE_MESSAGE: 2,
}
_BITS = {FieldDescriptor.TYPE_INT32: 32, FieldDescriptor.TYPE_UINT32: 32, FieldDescriptor.TYPE_ENUM: 32}
_SIGNED = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_ENUM)

Value = int | float | str | bytes | list[int] | None


@dataclass(frozen=True, slots=True)
class Piece:
    """One field in the bytes, or one defect.

    Attributes:
        depth: 0 for the fields of the outermost message.
        start: Offset of the tag; for a defect, of the first byte that it makes unreadable.
        value_start: Offset of the value, after tag and length; for a defect, its exact place.
        end: Offset after the value; for a defect, after the bytes that it makes unreadable (equal to `start` if none).
        number: Field number; 0 for a defect.
        field: Its description; None where the schema has no such field, or one of another kind.
        value: The value; None for a message (its fields follow as pieces of their own) and for a defect.
        defect: What is wrong, or None.
    """

    depth: int
    start: int
    value_start: int
    end: int
    number: int = 0
    field: FieldDescriptor | None = None
    value: Value = None
    defect: str | None = None


def read_varint(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Read one varint.

    Returns:
        The value, modulo 2^64, and the offset after it.

    Raises:
        WireError: It is cut at `end`, or longer than ten bytes.
    """
    value = shift = 0
    for place in range(start, min(end, start + 10)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    raise WireError(start, "a varint is cut" if end - start < 10 else "a varint is longer than ten bytes")


def varint_size(number: int) -> int:
    """Return the length of a varint in bytes."""
    return max(1, -(-number.bit_length() // 7))


def scan(descriptor: Descriptor, data: bytes, start: int = 0, end: int | None = None, depth: int = 0) -> Iterator[Piece]:
    """Read the fields of a message in their order on the wire, those of inner messages after the field that holds them.

    Args:
        descriptor: The message's description.
        data: The bytes that contain the message.
        start: Offset of its first byte.
        end: Offset after its last byte; None: the end of `data`.
        depth: Number of messages around it.

    Yields:
        Pieces. After a defect, the rest of that message is skipped, and the enclosing one continues.
    """
    end = len(data) if end is None else end
    seen: set[int] = set()
    unknown_values: dict[int, Piece] = {}
    groups: list[int] = []
    place = start
    while place < end:
        try:
            piece, groups = _field(descriptor, data, place, end, depth, groups)
        except WireError as error:
            yield Piece(depth, place, error.offset, end, defect=error.reason)
            return
        yield piece
        place = piece.end
        if piece.field is None:
            continue
        if piece.field.enum_type is not None and piece.value not in piece.field.enum_type.values_by_number:
            unknown_values[piece.number] = piece
            continue
        seen.add(piece.number)
        inner = inner_message(piece.field)
        if inner is not None:
            yield from _inner(inner, data, piece, depth)
    if groups:
        yield Piece(depth, end, end, end, defect=f"group {groups[-1]} is never closed")
    yield from _missing(descriptor, seen, unknown_values, Piece(depth, end, start, end))


def _inner(descriptor: Descriptor, data: bytes, piece: Piece, depth: int) -> Iterator[Piece]:
    if depth + 1 >= MAX_DEPTH:
        yield Piece(depth + 1, piece.value_start, piece.value_start, piece.end, defect="messages are nested too deeply")
    else:
        yield from scan(descriptor, data, piece.value_start, piece.end, depth + 1)


def _missing(descriptor: Descriptor, seen: set[int], unknown_values: dict[int, Piece], at: Piece) -> Iterator[Piece]:
    for field in required_fields(descriptor):
        if field.number in seen:
            continue
        stray = unknown_values.get(field.number)
        if stray is None:
            yield replace(at, defect=f"{descriptor.name} lacks its required field {field.name}")
        else:
            text = f"{field.name} of {descriptor.name} has the unknown value {stray.value!r}"
            yield replace(at, value_start=stray.value_start, defect=text)


def _field(descriptor: Descriptor, data: bytes, start: int, end: int, depth: int, groups: list[int]) -> tuple[Piece, list[int]]:
    tag, place = read_varint(data, start, end)
    number, kind = tag >> 3, tag & 7
    if not 0 < number < 1 << 29:
        raise WireError(start, f"field number {number} is out of range")
    if kind in (3, 4):
        return Piece(depth, start, place, place, number), _groups(groups, number, kind, start)
    field = None if groups else descriptor.fields_by_number.get(number)
    value: Value
    if kind == 0:
        value, stop = read_varint(data, place, end)
    elif kind == 2:
        length, place = read_varint(data, place, end)
        stop = place + length
        value = b"" if stop > end else data[place:stop]
    elif kind in (1, 5):
        stop = place + (8 if kind == 1 else 4)
        value = data[place:stop]
    else:
        raise WireError(start, f"field {number} has the unknown wire type {kind}")
    if stop > end:
        raise WireError(start, f"{field.name if field else f'field {number}'} needs {stop - place} bytes, {end - place} are left")
    field, value = _typed(field, kind, value, place)
    return Piece(depth, start, place, stop, number, field, value), groups


def _groups(groups: list[int], number: int, kind: int, start: int) -> list[int]:
    if kind == 3:
        return [*groups, number]
    if not groups or groups[-1] != number:
        raise WireError(start, f"the end of group {number} without its start")
    return groups[:-1]


def _typed(field: FieldDescriptor | None, kind: int, value: Value, place: int) -> tuple[FieldDescriptor | None, Value]:
    """Read a raw value as its field's type; a field of another wire type counts as unknown, as protobuf has it."""
    if field is None:
        return None, value
    wanted = _KIND_OF_TYPE.get(field.type, 0)
    if wanted == 0 and kind == 2 and is_repeated(field):
        assert isinstance(value, bytes)
        return field, _packed(field, value)
    if wanted != kind:
        return None, value
    if isinstance(value, int):
        return field, _number(field, value)
    assert isinstance(value, bytes)
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return field, float(struct.unpack("<d", value)[0])
    if field.type == FieldDescriptor.TYPE_STRING:
        try:
            return field, value.decode()
        except UnicodeDecodeError as error:
            raise WireError(place, f"{field.name} is not UTF-8 (byte {error.start} of the text)") from None
    return field, value if inner_message(field) is None else None


def _packed(field: FieldDescriptor, data: bytes) -> list[int]:
    """Read the first packed values; only a defect among those is found."""
    values: list[int] = []
    place = 0
    while place < len(data) and len(values) < _PACKED_SHOWN:
        value, place = read_varint(data, place, len(data))
        values.append(_number(field, value))
    return values


def _number(field: FieldDescriptor, value: int) -> int:
    if field.type == FieldDescriptor.TYPE_BOOL:
        return int(value != 0)
    bits = _BITS.get(field.type, 64)
    value &= (1 << bits) - 1
    return value - (1 << bits) if field.type in _SIGNED and value >> (bits - 1) else value
