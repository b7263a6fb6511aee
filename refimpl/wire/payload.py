"""Headers and body that follow a SEND or MESSAGE command, to the end of the frame.

    [0x0e02][u32 size][BrokerEntryMetadata]   only broker to client, only if the client asked for it
    [0x0e01][u32 crc32c]                      optional: without the magic the next four bytes are the metadata's size
    [u32 size][MessageMetadata][body]         the checksum covers these three

All numbers are big-endian. The body is one message, or a batch if the metadata say so; possibly compressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from google.protobuf.message import EncodeError

from refimpl.wire.checksum import crc32c
from refimpl.wire.errors import WireError
from refimpl.wire.pulsar_api_pb2 import BrokerEntryMetadata, MessageMetadata
from refimpl.wire.strict import parse

CHECKSUM_MAGIC = b"\x0e\x01"
BROKER_ENTRY_MAGIC = b"\x0e\x02"


@dataclass(frozen=True, slots=True)
class Payload:
    """What follows a SEND or MESSAGE command.

    Attributes:
        broker_entry_metadata: What the broker added, if it did.
        checksum: The checksum that was sent, if one was.
        checksum_valid: Whether it is right; None without a checksum.
        metadata: The message's header.
        body: The bytes after it, as sent: still compressed, still a batch.
    """

    broker_entry_metadata: BrokerEntryMetadata | None
    checksum: int | None
    checksum_valid: bool | None
    metadata: MessageMetadata
    body: bytes


def parse_payload(data: bytes, offset: int = 0) -> Payload:
    """Parse headers and body.

    Args:
        data: Everything that follows the command in its frame.
        offset: Bytes before it in the frame; added to the offset of an error.

    Returns:
        The parts. A wrong checksum is not an error here: how to handle it is a rule, and not part of the format.

    Raises:
        WireError: A size does not fit, or metadata can't be parsed. Damaged bytes can cause either; to recognize
            damage, call `checksum_matches` first.
    """
    broker_entry_metadata, place = _broker_entry_metadata(data, offset)
    checksum = checksum_valid = None
    if data.startswith(CHECKSUM_MAGIC, place):
        checksum = _u32(data, place + 2, offset, "the checksum")
        place += 6
        checksum_valid = crc32c(memoryview(data)[place:]) == checksum
    header, place = _sized(data, place, offset, "the message metadata")
    metadata = parse(MessageMetadata, header, offset + place - len(header))
    return Payload(broker_entry_metadata, checksum, checksum_valid, metadata, data[place:])


def checksum_matches(data: bytes) -> bool | None:
    """Check the checksum of headers and body, whether or not they can be parsed.

    Args:
        data: Everything that follows the command in its frame.

    Returns:
        None if there is no checksum.
    """
    place = 0
    if data.startswith(BROKER_ENTRY_MAGIC):
        place = 6 + int.from_bytes(data[2:6], "big")
    if not data.startswith(CHECKSUM_MAGIC, place) or len(data) < place + 6:
        return None
    return crc32c(memoryview(data)[place + 6 :]) == int.from_bytes(data[place + 2 : place + 6], "big")


def without_checksum(data: bytes) -> bytes:
    """Return what follows a command without its checksum, if it has one."""
    return data[6:] if data.startswith(CHECKSUM_MAGIC) else data


def encode_payload(
    metadata: MessageMetadata,
    body: bytes,
    *,
    checksum: Literal["valid", "invalid", "absent"] | int = "valid",
    broker_entry_metadata: BrokerEntryMetadata | None = None,
) -> bytes:
    """Encode headers and body.

    Args:
        metadata: The message's header.
        body: What follows it; compressed and batched already.
        checksum: `valid`, `invalid` (the right one with every bit inverted), `absent`, or a number to write unchanged.
        broker_entry_metadata: What the broker adds in front; None: nothing.

    Returns:
        What follows the command in its frame.

    Raises:
        ValueError: The metadata lack a required field, or `checksum` has another value.
    """
    try:
        header = metadata.SerializeToString()
    except EncodeError as error:
        raise ValueError(f"metadata can't be encoded: {error}") from None
    covered = len(header).to_bytes(4, "big") + header + body
    start = b""
    if broker_entry_metadata is not None:
        added = broker_entry_metadata.SerializeToString()
        start = BROKER_ENTRY_MAGIC + len(added).to_bytes(4, "big") + added
    if checksum != "absent":
        start += CHECKSUM_MAGIC + _checksum(checksum, covered).to_bytes(4, "big")
    return start + covered


def _checksum(wanted: str | int, covered: bytes) -> int:
    if isinstance(wanted, int):
        return wanted
    if wanted not in ("valid", "invalid"):
        raise ValueError(f"checksum is valid, invalid, absent or a number, not {wanted!r}")
    return crc32c(covered) ^ (0 if wanted == "valid" else 0xFFFF_FFFF)


def _broker_entry_metadata(data: bytes, offset: int) -> tuple[BrokerEntryMetadata | None, int]:
    if not data.startswith(BROKER_ENTRY_MAGIC):
        return None, 0
    header, place = _sized(data, 2, offset, "the broker entry metadata")
    return parse(BrokerEntryMetadata, header, offset + place - len(header)), place


def _sized(data: bytes, place: int, offset: int, what: str) -> tuple[bytes, int]:
    size = _u32(data, place, offset, f"the size of {what}")
    if size > len(data) - place - 4:
        raise WireError(offset + place, f"{what} should have {size} bytes, {len(data) - place - 4} are left")
    return data[place + 4 : place + 4 + size], place + 4 + size


def _u32(data: bytes, place: int, offset: int, what: str) -> int:
    if len(data) < place + 4:
        raise WireError(offset + place, f"{what} is cut: {max(len(data) - place, 0)} of 4 bytes")
    return int.from_bytes(data[place : place + 4], "big")
