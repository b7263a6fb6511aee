"""Puts messages together that their producer sent in chunks: entries with one `uuid`, in the order of their `chunk_id`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from refimpl.client.messages import Message, MessageId

_AT_ONCE = 10
"""Messages that may be incomplete at once; another one takes the place of the oldest."""
_EXPIRES = 60.0
"""Seconds until a message without its last chunk is given up."""
LARGEST = 1 << 27
"""Bytes of all incomplete messages together, whatever their producers announce."""
_HEADER = 1024
"""Bytes that a chunk counts for besides its own."""


@dataclass
class _Incomplete:
    since: float
    chunks: list[Message] = field(default_factory=list)
    size: int = 0

    def append(self, chunk: Message) -> None:
        self.chunks.append(chunk)
        self.size += len(chunk.payload) + _HEADER

    @property
    def id(self) -> MessageId:
        """Return the id of the last chunk, which names those before."""
        return replace(self.chunks[-1].id, chunks=tuple(chunk.id.position for chunk in self.chunks[:-1]))


class Chunks:
    """The chunks of one consumer whose messages are incomplete.

    Args:
        give_up: Takes the id of a message that is not waited for any more: that of its last chunk which came.
    """

    def __init__(self, give_up: Callable[[MessageId], None]) -> None:
        self._give_up = give_up
        self._incomplete: dict[str, _Incomplete] = {}

    def add(self, chunk: Message, now: float) -> Message | None:
        """Take a chunk.

        Args:
            chunk: The entry, with a body that is not decompressed.
            now: Seconds.

        Returns:
            The message, with its last chunk: its id is that of this chunk, and names those before. None: it is incomplete, or the chunk
            is none that comes next.
        """
        metadata = chunk.metadata
        if metadata.chunk_id == 0:  # the producer or the broker has begun anew
            self._incomplete.pop(metadata.uuid, None)
            self._make_room(now)
            self._incomplete[metadata.uuid] = _Incomplete(now)
        known = self._incomplete.get(metadata.uuid)
        if known is None or metadata.chunk_id != len(known.chunks):
            return None
        known.append(chunk)
        if len(known.chunks) < metadata.num_chunks_from_msg:
            while sum(one.size for one in self._incomplete.values()) > LARGEST:
                self._give_up_on(next(iter(self._incomplete)))
            return None
        del self._incomplete[metadata.uuid]
        return replace(chunk, id=known.id, payload=b"".join(one.payload for one in known.chunks))

    def clear(self) -> None:
        """Forget all chunks: the broker delivers them again."""
        self._incomplete.clear()

    def _make_room(self, now: float) -> None:
        for uuid, one in list(self._incomplete.items()):
            if one.since + _EXPIRES <= now or len(self._incomplete) >= _AT_ONCE:
                self._give_up_on(uuid)

    def _give_up_on(self, uuid: str) -> None:
        self._give_up(self._incomplete.pop(uuid).id)
