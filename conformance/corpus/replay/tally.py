"""The result for one watcher: the frames that it exchanged, and when it learned of each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from google.protobuf.message import Message

from refimpl.wire import encode_frame, wrap


@dataclass
class Tally:
    """What one watcher exchanged, and when it learned of changes. Counts start after its first answer.

    Attributes:
        latency: Milliseconds that a frame takes.
        opening_bytes: Of the frames that it began with, in both directions.
        frames_to_broker: How many it sent.
        bytes_to_broker: In these.
        frames_to_client: How many it got.
        bytes_to_client: In these.
        changes: Of what it watches.
        untold: Those of them that were never announced to it, since they were undone before.
        staleness: Number of changes that it learned of, by delay in milliseconds.
        laws: Whether each law holds that speaks of it, by name.
    """

    latency: int = 0
    opening_bytes: int = 0
    frames_to_broker: int = 0
    bytes_to_broker: int = 0
    frames_to_client: int = 0
    bytes_to_client: int = 0
    changes: int = 0
    untold: int = 0
    staleness: Counter[int] = field(default_factory=Counter)
    laws: dict[str, bool] = field(default_factory=dict)
    _waiting: dict[str, list[int]] = field(default_factory=dict)

    def opened(self, message: Message) -> None:
        """Count a frame of the beginning."""
        self.opening_bytes += len(encode_frame(wrap(message)))

    def to_broker(self, message: Message) -> None:
        """Count a frame that the watcher sends."""
        self.frames_to_broker += 1
        self.bytes_to_broker += len(encode_frame(wrap(message)))

    def to_client(self, message: Message) -> None:
        """Count a frame that the watcher gets."""
        self.frames_to_client += 1
        self.bytes_to_client += len(encode_frame(wrap(message)))

    def changed(self, topic: str, at: int) -> None:
        """Record a change of what is watched."""
        self.changes += 1
        self._waiting.setdefault(topic, []).append(at)

    def knows(self, topics: Collection[str], at: int) -> None:
        """Record what the watcher has learned at a time; other changed topics are no longer announced to it."""
        for topic, times in self._waiting.items():
            if topic in topics:
                self.staleness.update(at - time for time in times)
            else:
                self.untold += len(times)
        self._waiting.clear()

    @property
    def waits(self) -> bool:
        """Whether there are changes that have not been announced."""
        return bool(self._waiting)
