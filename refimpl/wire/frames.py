"""Frames: what a connection consists of, in both directions.

    [u32 total size][u32 command size][BaseCommand][payload, to the end of the frame]

Sizes are big-endian. The total size counts everything after itself: 4 + command size + payload.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from google.protobuf.message import EncodeError

from refimpl.wire.commands import CARRY_PAYLOAD, FIELD_BY_TYPE, sub_message, type_name
from refimpl.wire.errors import WireError
from refimpl.wire.payload import Payload, parse_payload
from refimpl.wire.pulsar_api_pb2 import BaseCommand
from refimpl.wire.schema import descriptor_of
from refimpl.wire.strict import defect, is_text, parse_complete

DEFAULT_MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""Maximum size of a message in bytes that CONNECTED announces by default."""

FRAME_PADDING = 10 * 1024
"""Bytes that a frame may have in addition to the largest message."""

DEFAULT_MAX_FRAME_SIZE = DEFAULT_MAX_MESSAGE_SIZE + FRAME_PADDING

_U32 = struct.Struct(">I")
_HEADER_SIZE = 8
_FIRST_TEXT = 4
"""No text starts before the fifth byte of a command: tag and length of the sub-message, tag and length of the text."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame.

    Attributes:
        data: The whole frame as it was received, total size included.
        command: The command.
        payload_bytes: The bytes after the command; None: there are none. Real peers ignore bytes after a command that
            carries no payload, so they are no error.
    """

    data: bytes
    command: BaseCommand
    payload_bytes: bytes | None = None

    def payload(self) -> Payload:
        """Parse what follows the command.

        Raises:
            WireError: The payload is malformed or absent, or the command carries none. Offsets count from the start of the frame.
        """
        offset = len(self.data) - len(self.payload_bytes or b"")
        if self.command.type not in CARRY_PAYLOAD:
            raise WireError(offset, f"{type_name(self.command)} carries no payload")
        if self.payload_bytes is None:
            raise WireError(offset, f"{type_name(self.command)} without a payload")
        return parse_payload(self.payload_bytes, offset)


def encode_frame(command: BaseCommand, payload: bytes | None = None) -> bytes:
    """Encode a frame.

    Args:
        command: The command.
        payload: What follows the command, from `encode_payload`.

    Returns:
        The whole frame. Fields are in ascending order, followed by unknown fields that the command was received with.

    Raises:
        ValueError: The command lacks its type, its sub-message or a required field.
    """
    sub_message(command)
    try:
        encoded = command.SerializeToString()
    except EncodeError as error:
        raise ValueError(f"{type_name(command)} can't be encoded: {error}") from None
    rest = payload or b""
    return (4 + len(encoded) + len(rest)).to_bytes(4, "big") + len(encoded).to_bytes(4, "big") + encoded + rest


def decode_frame(data: bytes) -> Frame:
    """Decode exactly one frame.

    Raises:
        WireError: The frame is malformed or cut, or bytes follow it.
    """
    if len(data) < 4:
        raise WireError(0, f"the total size is cut: {len(data)} of 4 bytes")
    size = _frame_size(data, 0, None)
    if len(data) < size:
        raise WireError(len(data), f"the frame is cut: {len(data)} of {size} bytes")
    if len(data) > size:
        raise WireError(size, f"{len(data) - size} bytes after the frame")
    return _decode(bytes(data))


class FrameDecoder:
    """Splits the bytes of a connection into frames, in whatever pieces they arrive.

    After a malformed frame, no further one can be recognized. The frames before it are not lost: `receive` returns them and
    sets `error`, which every later call raises. If there are no frames to return, `receive` raises it at once.

    Attributes:
        max_frame_size: Maximum size of a frame, in bytes. It may be set at any time; a client sets it from
            `CONNECTED.max_message_size` plus `FRAME_PADDING`. Source: total size + 4 <= maxMessageSize + 10240,
            observed on Apache Pulsar 2.11.0 to 5.0.0-M1.
        error: What is wrong with the next frame; None: nothing so far.
    """

    def __init__(self, max_frame_size: int = DEFAULT_MAX_FRAME_SIZE) -> None:
        self.max_frame_size = max_frame_size
        self.error: WireError | None = None
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Return the number of received bytes that belong to no returned frame yet."""
        return len(self._buffer)

    @property
    def unread(self) -> bytes:
        """Return those bytes: the start of an unfinished frame, or a malformed frame and all after it."""
        return bytes(self._buffer)

    def receive(self, data: bytes) -> list[Frame]:
        """Add received bytes, and return the frames that are complete now.

        Args:
            data: The bytes that arrived next.

        Returns:
            The frames, in order; empty while the next one is unfinished.

        Raises:
            WireError: The next frame is malformed and none came before it in this call, or an earlier call met the
                defect. The offset counts from the start of the malformed frame.
        """
        self._raise_error()
        buffer = self._buffer
        buffer += data
        frames: list[Frame] = []
        place = 0
        try:
            with memoryview(buffer) as view:
                while len(view) - place >= 4:
                    end = place + _frame_size(view, place, self.max_frame_size)
                    if end > len(view):
                        break
                    frames.append(_decode(bytes(view[place:end])))
                    place = end
        except WireError as error:
            self.error = error
        del buffer[:place]
        if not frames:
            self._raise_error()
        return frames

    def eof(self) -> None:
        """Handle the end of the stream.

        Raises:
            WireError: A frame is unfinished, or an earlier call met a defect.
        """
        self._raise_error()
        if self._buffer:
            self.error = WireError(len(self._buffer), f"the connection ends {len(self._buffer)} bytes into a frame")
            raise self.error

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error


def _frame_size(data: bytes | memoryview, place: int, limit: int | None) -> int:
    """Return the length of the frame that starts here, as soon as its first four bytes are known."""
    total: int = _U32.unpack_from(data, place)[0]
    if limit is not None and total + 4 > limit:
        raise WireError(0, f"a frame of {total + 4} bytes, {limit} are allowed")
    if total < 4:
        raise WireError(0, f"total size {total} leaves no room for the command size")
    return total + 4


def _decode(data: bytes) -> Frame:
    """Decode a frame whose length is right."""
    size: int = _U32.unpack_from(data, 4)[0]
    end = _HEADER_SIZE + size
    if size == 0:
        raise WireError(4, "command size 0")
    if end > len(data):
        raise WireError(4, f"command size {size} does not fit: {len(data) - _HEADER_SIZE} bytes follow in this frame")
    encoded = data[_HEADER_SIZE:end]
    command = parse_complete(BaseCommand, encoded, _HEADER_SIZE)
    name = FIELD_BY_TYPE[command.type]
    if not command.HasField(name):
        raise WireError(_HEADER_SIZE, f"{type_name(command)} without its sub-message {name}")
    if not encoded[_FIRST_TEXT:].isascii() and not is_text(getattr(command, name)):
        raise defect(descriptor_of(BaseCommand), encoded, _HEADER_SIZE)
    return Frame(data, command, data[end:] or None)
