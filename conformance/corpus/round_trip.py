"""Encoding what was decoded gives the same bytes: the rules of the job `round_trip`, for one frame, one run of frames and one file.

An encoder writes each value in one way. A peer may write it in another that means the same, such as fields in another order; then the
bytes differ and the values must not. `other_form` finds such a place in the bytes themselves, with the scanner and not with the decoder,
so that a difference without such a place is a broken law.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from conformance.captures import MAX_FRAME_SIZE, FrameRow, Origin, Stream, borders, part_rows, write_capture
from conformance.captures.raw import WINDOW
from conformance.corpus.batching.opened import Unreadable, decompressed, header_of, read_messages
from refimpl.wire import (
    Frame,
    FrameDecoder,
    Payload,
    WireError,
    command,
    compress,
    decode_batch,
    decode_frame,
    decompress,
    encode_batch,
    encode_frame,
    encode_payload,
    is_batch,
)
from refimpl.wire.commands import CARRY_PAYLOAD
from refimpl.wire.compression import MAX_UNCOMPRESSED_SIZE
from refimpl.wire.payload import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC
from refimpl.wire.pulsar_api_pb2 import BaseCommand, BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata
from refimpl.wire.scan import Piece, scan
from refimpl.wire.schema import descriptor_of, inner_message, is_repeated
from refimpl.wire.strict import is_text

SAME, BROKEN = "same bytes", "broken"
COMMAND, VALUE, PAYLOAD, BATCH, COMPRESSION, PIECES = "command", "value", "payload", "batch", "compression", "pieces"
_MODULUS = 1 << 64
_SMALL_FILE = 1 << 16
_PARTS = 64


@dataclass
class _Seen:
    last: int = 0
    unknown: bool = False


def other_form(descriptor: Descriptor, data: bytes) -> str | None:
    """Find the first place where a message is written in a way that an encoder does not choose.

    Args:
        descriptor: What the bytes are.
        data: A message that can be decoded.

    Returns:
        What is different there; None if there is no such place.
    """
    seen = {0: _Seen()}
    for piece in scan(descriptor, data):
        here = seen[piece.depth]
        if piece.field is None or _is_unknown_value(piece):
            here.unknown = True
            continue
        found = _order(here, piece, piece.field) or _number(piece, piece.field, data)
        if found is not None:
            return found
        here.last = piece.number
        if inner_message(piece.field) is not None:
            seen[piece.depth + 1] = _Seen()
    return None


def _is_unknown_value(piece: Piece) -> bool:
    assert piece.field is not None
    return (
        piece.field.enum_type is not None
        and not isinstance(piece.value, list)
        and piece.value not in piece.field.enum_type.values_by_number
    )


def _order(here: _Seen, piece: Piece, field: FieldDescriptor) -> str | None:
    if here.unknown:
        return "something that the schema does not have stands before something that it has"
    if piece.number < here.last:
        return "fields are not in the order of their numbers"
    if piece.number == here.last and not is_repeated(field):
        return "a field stands twice"
    return None


def _number(piece: Piece, field: FieldDescriptor, data: bytes) -> str | None:
    packed = bool(cast(Any, field).GetOptions().packed)
    if is_repeated(field) and isinstance(piece.value, list) != packed:
        return "a repeated field is packed where the schema does not say so, or the other way round"
    tag = data[piece.start] & 7
    head = _varint(piece.number << 3 | tag)
    if tag == 2:
        head += _varint(piece.end - piece.value_start)
    shortest = data[piece.start : piece.value_start] == head
    if tag == 0 and isinstance(piece.value, int):
        shortest = shortest and data[piece.value_start : piece.end] == _varint(piece.value % _MODULUS)
    return None if shortest else "a number is written with more bytes than it needs, or with bits that do not count"


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


@dataclass(frozen=True)
class Finding:
    """The result of a law for one frame: `SAME`, the other form in which it is written, or `BROKEN`."""

    law: str
    what: str


def findings(data: bytes) -> Iterator[Finding]:
    """Apply the laws to one frame.

    Args:
        data: A whole frame that the decoder takes.

    Yields:
        One finding for each law that applies. A payload that can't be parsed is a finding too: `refused` and the reason, unless the path
        that opens entries of batches can read it, which shares no code with the decoder; then the law is broken.
    """
    frame = decode_frame(data)
    again = encode_frame(frame.command, frame.payload_bytes)
    size = int.from_bytes(data[4:8], "big")
    yield Finding(COMMAND, _same(data, again, [(descriptor_of(BaseCommand), data[8 : 8 + size])]))
    yield Finding(VALUE, SAME if _says(again, frame) else BROKEN)
    if frame.command.type in CARRY_PAYLOAD:
        yield from _payload_findings(frame)


def _says(data: bytes, frame: Frame) -> bool:
    try:
        again = decode_frame(data)
    except WireError:
        return False
    return (again.command, again.payload_bytes) == (frame.command, frame.payload_bytes)


def _same(data: bytes, again: bytes, messages: Sequence[tuple[Descriptor, bytes]]) -> str:
    if data == again:
        return SAME
    forms = (other_form(descriptor, encoded) for descriptor, encoded in messages)
    return next((form for form in forms if form is not None), BROKEN)


def _payload_findings(frame: Frame) -> Iterator[Finding]:
    data = frame.payload_bytes or b""
    try:
        payload = frame.payload()
    except WireError as error:
        yield _refused(PAYLOAD, error.reason, lambda: _read_headers(data))
        return
    checksum = "absent" if payload.checksum is None else payload.checksum
    again = encode_payload(
        payload.metadata, payload.body, checksum=cast(Any, checksum), broker_entry_metadata=payload.broker_entry_metadata
    )
    yield Finding(PAYLOAD, _same(data, again, list(_headers(data))))
    yield from _body_findings(payload)


def _headers(data: bytes) -> Iterator[tuple[Descriptor, bytes]]:
    place = 0
    if data.startswith(BROKER_ENTRY_MAGIC):
        place = 6 + int.from_bytes(data[2:6], "big")
        yield descriptor_of(BrokerEntryMetadata), data[6:place]
    if data.startswith(CHECKSUM_MAGIC, place):
        place += 6
    size = int.from_bytes(data[place : place + 4], "big")
    yield descriptor_of(MessageMetadata), data[place + 4 : place + 4 + size]


def _body_findings(payload: Payload) -> Iterator[Finding]:
    metadata = payload.metadata
    if metadata.encryption_keys:
        return
    try:
        body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
    except WireError as error:
        yield _refused(COMPRESSION, error.reason.partition(":")[0], lambda: _read_body(payload))
        return
    if metadata.compression:
        again = decompress(compress(body, metadata.compression), metadata.compression, len(body))
        yield Finding(COMPRESSION, SAME if again == body else BROKEN)
    if not is_batch(metadata):
        return
    try:
        messages = decode_batch(body, metadata.num_messages_in_batch)
    except WireError as error:
        yield _refused(BATCH, error.reason, lambda: _read_batch(metadata, body))
        return
    singles = _single_headers(body, [len(message.body) for message in messages])
    headers = [(descriptor_of(SingleMessageMetadata), header) for header in singles]
    yield Finding(BATCH, _same(body, encode_batch(messages), headers))


def _refused(law: str, reason: str, read: Callable[[], Iterable[Message]]) -> Finding:
    """Return the finding for what the decoder refuses; `read` reads it by another path."""
    try:
        is_readable = all(is_text(message) for message in read())
    except (Unreadable, DecodeError):
        is_readable = False
    return Finding(law, BROKEN if is_readable else f"refused: {reason}")


def _read_headers(data: bytes) -> Iterator[Message]:
    place = 0
    if data.startswith(BROKER_ENTRY_MAGIC):
        place = 6 + int.from_bytes(data[2:6], "big")
        yield BrokerEntryMetadata.FromString(data[6:place])
    place += 6 if data.startswith(CHECKSUM_MAGIC, place) else 0
    if len(data) < place + 4:
        raise Unreadable("the header is cut")
    size = int.from_bytes(data[place : place + 4], "big")
    yield header_of(data[place + 4 : place + 4 + size], size)


def _read_body(payload: Payload) -> Iterable[Message]:
    if not 0 <= payload.metadata.uncompressed_size <= MAX_UNCOMPRESSED_SIZE:
        raise Unreadable("the body would be too large")
    decompressed(payload.metadata, payload.body)
    return ()


def _read_batch(metadata: MessageMetadata, body: bytes) -> Iterable[Message]:
    if metadata.num_messages_in_batch < 0:
        raise Unreadable("there is no such number of messages")
    return [own for own, _ in read_messages(metadata, body)]


def _single_headers(body: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    place = 0
    for size in sizes:
        end = place + 4 + int.from_bytes(body[place : place + 4], "big")
        yield body[place + 4 : end]
        place = end + size


def unknown_fields(message: Message) -> int:
    """Count the bytes of a message, and of those in it, that the schema does not know."""
    known = type(message)()
    known.CopyFrom(message)
    cast(Any, known).DiscardUnknownFields()
    return message.ByteSize() - known.ByteSize()


def any_pieces(frames: Sequence[bytes], seed: str) -> bool:
    """Tell whether the decoder finds the same frames again when they arrive in pieces.

    Args:
        frames: Some that follow each other.
        seed: What the pieces are drawn from. All sizes occur: single bytes, parts of frames, several frames at once.
    """
    drawn = random.Random(seed)
    data = b"".join(frames)
    decoder = FrameDecoder(MAX_FRAME_SIZE)
    found: list[bytes] = []
    place = 0
    while place < len(data):
        size = drawn.choice((1, drawn.randint(1, 16), drawn.randint(1, 4096), drawn.randint(1, 1 << 18)))
        try:
            found += [frame.data for frame in decoder.receive(data[place : place + size])]
        except WireError:
            return False
        place += size
    return found == list(frames) and decoder.pending == 0


@dataclass
class Splits:
    """The result of dividing files: how many, into how many parts, and which of them then give other rows."""

    files: int = 0
    parts: int = 0
    rows: int = 0
    broken: list[str] = field(default_factory=list)


def split_file(path: Path, origin: Origin, length: int, limit: int = MAX_FRAME_SIZE) -> Splits:
    """Read a file of bytes as a whole, and divided at each of its frames or, if it is large, into 64 parts: at the first frames behind
    their sizes, as the rows of the whole tell.

    Args:
        path: The file.
        origin: What the rows say of it.
        length: Bytes that are read.
        limit: Size of the largest frame, in bytes.
    """
    size = 1 if length <= _SMALL_FILE else length // _PARTS
    parts = borders(path, length, size, limit)
    starts = [0]

    def noted(rows: Iterable[FrameRow]) -> Iterator[FrameRow]:
        for row in rows:
            if row.offset - starts[-1] >= size:
                starts.append(row.offset)
            yield row

    whole, rows = _digest(noted(part_rows(path, origin, 0, length, limit)))
    divided, _ = _digest(row for start, end in parts for row in part_rows(path, origin, start, end, limit))
    same = whole == divided and [start for start, _ in parts] == starts
    return Splits(1, len(parts), rows, [] if same else [origin.file])


def write_unaligned(folder: Path) -> None:
    """Write a raw capture of files in which frames begin a few bytes before, at and behind the ends of what is read at once for borders.

    Such a place occurs in few captures, and by chance.
    """
    ping = encode_frame(command("ping"))
    for before in range(-2, 7):
        stream = Stream(Origin("unaligned", f"{before}", "client"))
        frames = [_send_of(WINDOW - before)] * 3 + [ping] * 8
        write_capture(folder / f"{before}", stream.feed(b"".join(frames)))


def _send_of(size: int) -> bytes:
    """Return a frame of so many bytes."""
    send, metadata = command("send", producer_id=1, sequence_id=0), MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    least = len(encode_frame(send, encode_payload(metadata, b"")))
    return encode_frame(send, encode_payload(metadata, bytes(size - least)))


def _digest(rows: Iterable[FrameRow]) -> tuple[str, int]:
    digest = hashlib.sha256()
    count = 0
    for row in rows:
        count += 1
        digest.update(f"{row.offset} {row.size} {row.command} {row.corrupt} {len(row.data)} ".encode() + row.data)
    return digest.hexdigest(), count
