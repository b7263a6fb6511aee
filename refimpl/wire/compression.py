"""Compressed bodies. `MessageMetadata.compression` names the format, `uncompressed_size` the length of the original.

    LZ4     one raw LZ4 block: no frame, no length in front
    SNAPPY  one raw Snappy block (it starts with its length): not the stream format
    ZLIB    a zlib stream (RFC 1950)
    ZSTD    a Zstandard frame

Only the body is compressed (a batch as a whole), never the metadata.
"""

from __future__ import annotations

import cramjam

from refimpl.wire.errors import WireError
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CompressionType

MAX_UNCOMPRESSED_SIZE = 5 * 1024 * 1024
"""A broker's default `maxMessageSize`, in bytes. It limits the memory that a peer can request by a declared size."""


def compress(body: bytes, compression: int) -> bytes:
    """Compress a body.

    Args:
        body: A batch or a message.
        compression: A `CompressionType`.

    Returns:
        The compressed body; `body` itself for NONE.

    Raises:
        ValueError: The compression is unknown.
    """
    if compression == NONE:
        return body
    if compression == LZ4:
        return bytes(cramjam.lz4.compress_block(body, store_size=False))
    if compression == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(body))
    if compression == ZLIB:
        return bytes(cramjam.zlib.compress(body))
    if compression == ZSTD:
        return bytes(cramjam.zstd.compress(body))
    raise ValueError(f"unknown compression {compression}")


def decompress(body: bytes, compression: int, uncompressed_size: int, *, limit: int = MAX_UNCOMPRESSED_SIZE) -> bytes:
    """Decompress a body.

    Args:
        body: The body as it is in the payload.
        compression: A `CompressionType`. For NONE the size is ignored, because not all clients send it.
        uncompressed_size: Size of the original, in bytes.
        limit: Maximum size of the original, in bytes; no more memory is used, whatever the body contains.

    Returns:
        The original.

    Raises:
        WireError: The size is above the limit, the body is damaged, or the original has another size.
    """
    if compression == NONE:
        return body
    if compression not in (LZ4, SNAPPY, ZLIB, ZSTD):
        raise WireError(0, f"unknown compression {compression}")
    name = CompressionType.Name(compression)
    if not 0 <= uncompressed_size <= limit:
        raise WireError(0, f"{name} body of {uncompressed_size} bytes uncompressed, {limit} are allowed")
    original = bytearray(uncompressed_size)
    try:
        written = _decompress_into(body, compression, original)
    except cramjam.DecompressionError as error:
        raise WireError(0, f"{name} body does not decompress to {uncompressed_size} bytes: {error}") from None
    if written != uncompressed_size:
        raise WireError(0, f"{name} body decompresses to {written} bytes, not {uncompressed_size}")
    return bytes(original)


def _decompress_into(body: bytes, compression: int, original: bytearray) -> int:
    if compression == LZ4:
        return int(cramjam.lz4.decompress_block_into(body, original, output_len=len(original)))
    if compression == SNAPPY:
        return int(cramjam.snappy.decompress_raw_into(body, original))
    if compression == ZLIB:
        return int(cramjam.zlib.decompress_into(body, original))
    return int(cramjam.zstd.decompress_into(body, original))
