"""Which consumer of a shared subscription gets the chunks of a message: the one that got the first chunk (core.deliver.chunks-together).

While it can receive nothing, they wait for it. When it has left, they go with the first chunk again, which comes again to another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from refimpl.store import Chunk

ConsumerT = TypeVar("ConsumerT")

REMEMBERED = 10_000
"""Messages of one subscription whose last chunk has not come; beyond, the oldest is forgotten."""


class ChunkOwners(Generic[ConsumerT]):
    """The consumers that have got the first chunks of messages, and the chunks that wait for them, by index."""

    def __init__(self) -> None:
        self._owners: dict[str, ConsumerT] = {}
        self._waiting: dict[ConsumerT, list[int]] = {}

    def owner(self, chunk: Chunk | None, consumer: ConsumerT) -> ConsumerT:
        """Return the consumer that gets a chunk, or another entry: the given one, unless another one has got the chunks before."""
        return consumer if chunk is None or not chunk.number else self._owners.get(chunk.uuid, consumer)

    def sent(self, chunk: Chunk | None, owner: ConsumerT) -> None:
        """Remember who has got a chunk."""
        if chunk is None:
            return
        self._owners.pop(chunk.uuid, None)
        if not chunk.last:
            self._owners[chunk.uuid] = owner
            if len(self._owners) > REMEMBERED:
                del self._owners[next(iter(self._owners))]

    def wait(self, index: int, owner: ConsumerT) -> None:
        """Keep an entry until its consumer can receive something."""
        self._waiting.setdefault(owner, []).append(index)

    def served(self, takes: Callable[[ConsumerT], bool]) -> list[int]:
        """Return the entries that wait no longer, because their consumers can receive something now."""
        return [index for one in [one for one in self._waiting if takes(one)] for index in self._waiting.pop(one)]

    def left(self, consumer: ConsumerT) -> list[int]:
        """Forget a consumer, and return the entries that waited for it."""
        self._owners = {uuid: owner for uuid, owner in self._owners.items() if owner is not consumer}
        return self._waiting.pop(consumer, [])
