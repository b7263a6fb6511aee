"""Sifting many topics in pieces, so that a list or a first watch over them does not keep other connections waiting.

The answer is that of one moment, the last one: topics that came or went meanwhile are corrected there.
"""

from __future__ import annotations

from refimpl.indexes.topic_patterns import TopicsPattern
from refimpl.proposals.topic_list.rules import visible_topics

FEW = 1000
"""Topics that need no pieces."""
_PIECE = 200


class Sifting:
    """The topics of a namespace that a list with a pattern shows.

    Args:
        topics: The full names of all its persistent topics.
        pattern: The pattern; None: a list without one.
    """

    def __init__(self, topics: list[str], pattern: TopicsPattern | None) -> None:
        self._topics = topics
        self._pattern = pattern
        self._done = 0
        self._shown: list[str] = []

    def advance(self) -> bool:
        """Sift some more topics, and return whether that was the last piece."""
        end = self._done + _PIECE
        self._shown += visible_topics(self._topics[self._done : end], self._pattern)
        self._done = end
        return end >= len(self._topics)

    def shown(self, topics: list[str]) -> list[str]:
        """Return those that are shown of the topics that there are now, in their order."""
        sifted = self._topics if self._done >= len(self._topics) else self._topics[: self._done]
        if topics == sifted:
            return self._shown
        known = dict.fromkeys(sifted)
        shown = {*self._shown, *visible_topics((topic for topic in topics if topic not in known), self._pattern)}
        return [topic for topic in topics if topic in shown]
