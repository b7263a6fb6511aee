"""One CONNECT, to check whether an endpoint speaks the protocol: built by hand, so that starting a target needs no codec.

Layout of a frame: total size (4 bytes), command size (4 bytes), command. The command is a protocol buffer: field 1 is its
type, and the field with the number of that type holds the command itself.
"""

import asyncio
import struct
from typing import Literal

from conformance.targets.model import Endpoint

Answer = Literal["connected", "refused", "none"]

_CONNECT, _CONNECTED, _ERROR, _AUTH_CHALLENGE = 2, 3, 14, 36
_PROTOCOL_VERSION = 21
_LARGEST_ANSWER = 5 * 1024 * 1024


def connect_frame(credentials: tuple[str, str] | None) -> bytes:
    """Write a CONNECT.

    Args:
        credentials: The authentication method and its data; None: nothing.

    Returns:
        The frame.
    """
    connect = _text(1, "pulsar-conformance")
    if credentials is not None:
        connect += _text(3, credentials[1])
    connect += bytes([4 << 3, _PROTOCOL_VERSION])
    if credentials is not None:
        connect += _text(5, credentials[0])
    command = bytes([1 << 3, _CONNECT]) + _bytes(_CONNECT, connect)
    return struct.pack(">II", len(command) + 4, len(command)) + command


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


async def connect_answer(endpoint: Endpoint, *, seconds: float = 2.0) -> Answer:
    """Connect, send CONNECT and look at the type of the answer.

    Args:
        endpoint: Where to.
        seconds: How long it may take.

    Returns:
        "connected", also for a request to authenticate; "refused" for an error; "none" when no valid answer arrived.

    Raises:
        TargetError: The trust file of the endpoint can't be used.
    """
    context = endpoint.ssl_context() if endpoint.tls else None
    hostname = (endpoint.tls_hostname or endpoint.host) if context else None
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context, server_hostname=hostname)
            try:
                writer.write(connect_frame(endpoint.credentials))
                return await _answer(reader)
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return "none"


async def _answer(reader: asyncio.StreamReader) -> Answer:
    total, size = struct.unpack(">II", await reader.readexactly(8))
    if not 2 <= size <= total - 4 <= _LARGEST_ANSWER:
        return "none"
    command = await reader.readexactly(size)
    if command[0] != 1 << 3:
        return "none"
    if command[1] in (_CONNECTED, _AUTH_CHALLENGE):
        return "connected"
    return "refused" if command[1] == _ERROR else "none"
