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
"""Bytes; what CONNECTED announces unless configured otherwise."""

FRAME_PADDING = 10 * 1024
"""Bytes that a frame may have beyond the largest message."""

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
        command: What it says.
        payload_bytes: What follows the command, or None if nothing does. Real peers ignore it after a command that
            carries no payload, so it is no error there.
    """

    data: bytes
    command: BaseCommand
    payload_bytes: bytes | None = None

    def payload(self) -> Payload:
        """Parse what follows the command.

        Raises:
            WireError: It is malformed or absent, or the command carries none. Offsets count from the start of the frame.
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
        command: What it says.
        payload: What follows the command, from `encode_payload`.

    Returns:
        The whole frame. Fields are in ascending order; unknown ones that were received are kept, after the others.

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
        WireError: It is malformed, cut, or followed by something.
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
    """Turn what arrives on a connection into frames; any split of the same bytes gives the same frames.

    A malformed frame ends the connection: nothing after it can be told apart. Frames before it are never lost: `receive`
    returns them, `error` is set at once, and every later call raises it. If there are none to return it is raised at once.

    Attributes:
        max_frame_size: Bytes of a whole frame. May be set at any time; a client sets it from
            `CONNECTED.max_message_size` plus `FRAME_PADDING`. Source: total size + 4 <= maxMessageSize + 10240,
            observed on Apache Pulsar 2.11.0 to 5.0.0-M1.
        error: What is wrong with the frame at the front, or None.
    """

    def __init__(self, max_frame_size: int = DEFAULT_MAX_FRAME_SIZE) -> None:
        self.max_frame_size = max_frame_size
        self.error: WireError | None = None
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes received that belong to no returned frame yet."""
        return len(self._buffer)

    @property
    def unread(self) -> bytes:
        """Return those bytes: the start of an unfinished frame, or a malformed frame and all after it."""
        return bytes(self._buffer)

    def receive(self, data: bytes) -> list[Frame]:
        """Take bytes and return the frames that are complete now.

        Args:
            data: What arrived next.

        Returns:
            Frames in their order; empty while the first is unfinished.

        Raises:
            WireError: The next frame is malformed and none came before it in this call, or an earlier call met the
                defect. The offset counts from the start of that frame.
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
