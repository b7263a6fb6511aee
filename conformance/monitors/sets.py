"""Sets of topics that brokers announce, and the hash by which both sides name them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from refimpl.indexes.topics_hash import TopicSet

_KEPT: Final = 64
"""So many sets are remembered: a client names the one that it had when it lost its connection."""


class KnownSets:
    """The last sets that were announced on any connection, by their hash.

    Attributes:
        all_kept: None was forgotten, and none was announced that is not known.
    """

    def __init__(self) -> None:
        self.all_kept = True
        self._sets: OrderedDict[str, frozenset[str]] = OrderedDict()

    def add(self, topics: Iterable[str], digest: str) -> None:
        """Remember a set."""
        self._sets[digest] = frozenset(topics)
        self._sets.move_to_end(digest)
        if len(self._sets) > _KEPT:
            self._sets.popitem(last=False)
            self.all_kept = False

    def get(self, digest: str) -> TopicSet | None:
        """Return a copy of the set with a hash; None if it is not known."""
        found = self._sets.get(digest)
        return None if found is None else TopicSet(found)
