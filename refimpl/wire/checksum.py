"""CRC32C (Castagnoli), the only checksum of the protocol: of payloads, and of topic lists."""

from __future__ import annotations

from crc32c import crc32c as _crc32c


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """Compute the CRC32C of bytes.

    Returns:
        A number from 0 to 2^32-1; 0xe3069283 for the text "123456789".
    """
    return int(_crc32c(data))
