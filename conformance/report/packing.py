"""What a page shows only when it is opened, packed: lines of JSON, deflated, in base64. The script of the page unpacks it."""

from __future__ import annotations

import base64
import json
import zlib


class Packed:
    """Pieces of HTML by the ids of the elements that they are for."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(9)
        self._data = bytearray()

    @property
    def size(self) -> int:
        """Return how many characters of the page it takes."""
        return (len(self._data) + 2) // 3 * 4

    def add(self, place: str, html: str) -> None:
        """Add what the element with the id `place` shows. All in it that came from a peer must be escaped."""
        line = json.dumps([place, html], ensure_ascii=False) + "\n"
        self._data += self._deflate.compress(line.encode(errors="replace")) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def text(self) -> str:
        """Return all of it, for a page; nothing can be added afterwards."""
        self._data += self._deflate.flush()
        return base64.b64encode(self._data).decode()


def unpacked(text: str) -> dict[str, str]:
    """Return the pieces of a page, as its script does.

    Args:
        text: What `Packed.text` returned.
    """
    return dict(json.loads(line) for line in zlib.decompress(base64.b64decode(text)).decode().split("\n") if line)
