"""Bytes to commands and back: frames, payloads, batches, and the generated protobuf code.

Knows the format and no rule of any proposal. All malformed input is a `WireError` with an offset and a reason.
The messages themselves are in `refimpl.wire.pulsar_api_pb2`, generated from `proto/pulsar_api.proto`.
"""

from refimpl.wire.annotate import Line, annotate, format_lines
from refimpl.wire.batch import SingleMessage, decode_batch, encode_batch, is_batch
from refimpl.wire.checksum import crc32c
from refimpl.wire.commands import FIELD_BY_TYPE, TYPE_BY_FIELD, command, command_name, sub_message, type_name, wrap
from refimpl.wire.compression import compress, decompress
from refimpl.wire.errors import WireError
from refimpl.wire.frames import (
    DEFAULT_MAX_FRAME_SIZE,
    DEFAULT_MAX_MESSAGE_SIZE,
    FRAME_PADDING,
    Frame,
    FrameDecoder,
    decode_frame,
    encode_frame,
)
from refimpl.wire.notation import line_notation
from refimpl.wire.payload import Payload, checksum_matches, encode_payload, parse_payload, without_checksum

__all__ = [
    "DEFAULT_MAX_FRAME_SIZE",
    "DEFAULT_MAX_MESSAGE_SIZE",
    "FIELD_BY_TYPE",
    "FRAME_PADDING",
    "TYPE_BY_FIELD",
    "Frame",
    "FrameDecoder",
    "Line",
    "Payload",
    "SingleMessage",
    "WireError",
    "annotate",
    "checksum_matches",
    "command",
    "command_name",
    "compress",
    "crc32c",
    "decode_batch",
    "decode_frame",
    "decompress",
    "encode_batch",
    "encode_frame",
    "encode_payload",
    "format_lines",
    "is_batch",
    "line_notation",
    "parse_payload",
    "sub_message",
    "type_name",
    "without_checksum",
    "wrap",
]
