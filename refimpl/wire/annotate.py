"""An annotated dump of a frame: each byte is in exactly one line, with its meaning.

    0000  0000000d  total size 13
    0004  00000009  command size 9
    0008  0843      type = WATCH_TOPIC_LIST_CLOSE (67)
    0010  9a0404    watchTopicListClose (4 bytes)
    0013  0808        request_id = 8
    0015  100d        watcher_id = 13

Damaged frames work, too: a line that starts with `!` describes the defect.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor

from refimpl.wire.checksum import crc32c
from refimpl.wire.commands import CARRY_PAYLOAD, FIELD_BY_TYPE
from refimpl.wire.notation import value_notation
from refimpl.wire.payload import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC
from refimpl.wire.pulsar_api_pb2 import NONE, BaseCommand, BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata
from refimpl.wire.scan import Piece, scan
from refimpl.wire.schema import descriptor_of, inner_message

_SHOWN = 32
"""Maximum number of bytes shown in a line; a longer line ends in `..`."""


@dataclass(frozen=True, slots=True)
class Line:
    """Some bytes of a frame and their meaning.

    Attributes:
        offset: Of the first byte, from the start of the frame.
        size: Number of bytes; 0 for a remark.
        hex: The bytes, shortened if there are many.
        text: Their meaning, indented by two spaces for each enclosing message. Defects start with `!`.
    """

    offset: int
    size: int
    hex: str
    text: str


def annotate(data: bytes) -> Iterator[Line]:
    """Explain a frame, as far as lines are asked for.

    Args:
        data: A frame, whole, cut, damaged, or followed by more.

    Returns:
        Lines in the order of the bytes, which cover each byte once. Never raises: a defect is a line that says what
        is wrong, and bytes that it makes unreadable are shown raw.
    """
    return _frame(data)


def format_lines(lines: Iterable[Line]) -> str:
    """Write lines as a table: offset, bytes, meaning."""
    rows = list(lines)
    width = min(max((len(row.hex) for row in rows), default=0), 2 * _SHOWN + 2)
    return "\n".join(f"{row.offset:04}  {row.hex:<{width}}  {row.text}".rstrip() for row in rows)


def _line(data: bytes, start: int, end: int, text: str) -> Line:
    shown = data[start : min(end, start + _SHOWN)].hex()
    return Line(start, end - start, shown + (".." if end - start > _SHOWN else ""), text)


def _raw(data: bytes, start: int, end: int, text: str) -> Iterator[Line]:
    if end > start:
        yield _line(data, start, end, text)


def _frame(data: bytes) -> Iterator[Line]:
    if len(data) < 8:
        yield from _raw(data, 0, min(4, len(data)), _total(data) if len(data) >= 4 else "! the total size is cut")
        yield from _raw(data, 4, len(data), "! the command size is cut")
        return
    total = int.from_bytes(data[:4], "big")
    frame_end = max(8, min(total + 4, len(data)))
    size = int.from_bytes(data[4:8], "big")
    yield _line(data, 0, 4, _total(data))
    if 0 < size <= frame_end - 8:
        yield _line(data, 4, 8, f"command size {size}")
        yield from _command(data, 8, 8 + size, frame_end)
    else:
        yield _line(data, 4, 8, f"! command size {size}, but {frame_end - 8} bytes follow in this frame")
        yield from _raw(data, 8, frame_end, "unreadable")
    yield from _raw(data, frame_end, len(data), f"{len(data) - frame_end} bytes after the frame")


def _total(data: bytes) -> str:
    total = int.from_bytes(data[:4], "big")
    if total < 4:
        return f"! total size {total} leaves no room for the command size"
    if total + 4 > len(data):
        return f"! total size {total}, but {len(data) - 4} bytes follow"
    return f"total size {total}"


def _command(data: bytes, start: int, end: int, frame_end: int) -> Iterator[Line]:
    number: object = None
    inner: set[object] = set()
    for piece in scan(descriptor_of(BaseCommand), data, start, end):
        yield _piece(data, piece)
        if piece.depth == 0 and piece.field is not None:
            inner.add(piece.number)
            number = piece.value if piece.number == 1 else number
    if isinstance(number, int) and number in FIELD_BY_TYPE and number not in inner:
        yield Line(end, 0, "", f"! the sub-message {FIELD_BY_TYPE[number]} is missing")
    if number in CARRY_PAYLOAD:
        yield from _payload(data, end, frame_end)
    else:
        yield from _raw(data, end, frame_end, f"{frame_end - end} bytes after the command, ignored")


def _piece(data: bytes, piece: Piece) -> Line:
    indent = "  " * piece.depth
    if piece.defect is not None:
        return _line(data, piece.start, piece.end, f"{indent}! {piece.defect}")
    size = piece.end - piece.value_start
    if piece.field is None:
        kind = data[piece.start] & 7
        what = {3: "start of group", 4: "end of group"}.get(kind, "unknown field")
        value = f" = {piece.value}" if isinstance(piece.value, int) else ""
        return _line(data, piece.start, piece.end, f"{indent}{what} {piece.number}{value}")
    if inner_message(piece.field) is not None:
        return _line(data, piece.start, piece.value_start, f"{indent}{piece.field.name} ({size} bytes)")
    return _line(data, piece.start, piece.end, f"{indent}{piece.field.name} = {_value(piece)}")


def _value(piece: Piece) -> str:
    assert piece.field is not None
    if isinstance(piece.value, list):
        return "[" + ", ".join(value_notation(piece.field, item) for item in piece.value) + "] (packed)"
    if isinstance(piece.value, bytes) and len(piece.value) > _SHOWN:
        return f"{len(piece.value)} bytes"
    text = value_notation(piece.field, piece.value)
    if piece.field.enum_type is not None:
        known = piece.value in piece.field.enum_type.values_by_number
        return f"{text} ({piece.value!r})" if known else f"unknown value {text}"
    return text


def _payload(data: bytes, start: int, end: int) -> Iterator[Line]:
    place = start
    if start == end:
        yield Line(start, 0, "", "! the payload is missing")
        return
    if data.startswith(BROKER_ENTRY_MAGIC, place, end):
        yield _line(data, place, place + 2, "broker entry metadata follow")
        place += 2
        place, _ = yield from _sized(data, place, end, "broker entry metadata", descriptor_of(BrokerEntryMetadata))
    if data.startswith(CHECKSUM_MAGIC, place, end):
        yield _line(data, place, place + 2, "checksum follows")
        place += 2
        if end - place < 4:
            yield from _raw(data, place, end, "! the checksum is cut")
            return
        yield _line(data, place, place + 4, _checksum(data, place, end))
        place += 4
    place, header = yield from _sized(data, place, end, "metadata", descriptor_of(MessageMetadata))
    yield from _body(data, place, end, header)


def _checksum(data: bytes, place: int, end: int) -> str:
    sent = int.from_bytes(data[place : place + 4], "big")
    right = crc32c(memoryview(data)[place + 4 : end])
    return f"crc32c {sent:08x}, valid" if sent == right else f"! crc32c {sent:08x}, but that of these bytes is {right:08x}"


def _sized(data: bytes, place: int, end: int, what: str, descriptor: Descriptor) -> Generator[Line, None, tuple[int, dict[str, object]]]:
    """Explain a size and the message that it counts; return the place after it and the values of its fields."""
    if end - place < 4:
        yield from _raw(data, place, end, f"! the size of the {what} is cut")
        return end, {}
    size = int.from_bytes(data[place : place + 4], "big")
    start, stop = place + 4, place + 4 + size
    if stop > end:
        yield _line(data, place, start, f"! {what} size {size}, but {end - start} bytes are left")
        yield from _raw(data, start, end, "unreadable")
        return end, {}
    yield _line(data, place, start, f"{what} size {size}")
    values: dict[str, object] = {}
    for piece in scan(descriptor, data, start, stop):
        yield _piece(data, piece)
        if piece.depth == 0 and piece.field:
            values[piece.field.name] = piece.value
    return stop, values


def _body(data: bytes, place: int, end: int, header: dict[str, object]) -> Iterator[Line]:
    count = header.get("num_messages_in_batch")
    if isinstance(count, int) and header.get("compression", NONE) == NONE and "encryption_keys" not in header:
        for index in range(count):
            if place == end:
                yield Line(end, 0, "", f"! message {index} of {count} is missing")
                return
            place, single = yield from _sized(data, place, end, f"message {index}: metadata", descriptor_of(SingleMessageMetadata))
            size = single.get("payload_size")
            if not isinstance(size, int) or not 0 <= size <= end - place:
                yield from _raw(data, place, end, f"! message {index}: {size!r} bytes can't be, {end - place} are left")
                return
            yield from _raw(data, place, place + size, f"message {index}: {size} bytes")
            place += size
        yield from _raw(data, place, end, f"! {end - place} bytes after the last message")
    else:
        yield from _raw(data, place, end, f"payload, {end - place} bytes")
