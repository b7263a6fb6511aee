"""What a client has on each of its connections. The end of a connection closes it, as if the client had said so for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from conformance.engine import log
from conformance.engine.matching import see
from refimpl.wire import command, encode_frame

_BEGINNINGS: Final = {"producer": "producer_id", "subscribe": "consumer_id"}
"""Commands that attach something, with the field of its id."""
_ENDS: Final = {"close_producer": "producer_id", "close_consumer": "consumer_id"}
"""Commands that close it."""
_END_OF: Final = dict(zip(_BEGINNINGS, _ENDS, strict=True))


class Implied(log.Frame):
    """A close that the end of a connection stands for. A step may take it; otherwise it says nothing that the end does not say."""


class Attachments:
    """The producers and consumers of a client, by connection."""

    def __init__(self) -> None:
        self._on: dict[int | None, dict[tuple[str, int], None]] = defaultdict(dict)

    def copy(self) -> Attachments:
        """Return an independent copy."""
        other = Attachments()
        for link, there in self._on.items():
            other._on[link] = dict(there)
        return other

    def frame(self, event: log.Frame) -> None:
        """Note what a frame of the client attaches or closes."""
        seen = see(event)
        if seen.frame is None or seen.name not in _BEGINNINGS | _ENDS:
            return
        sub = getattr(seen.frame.command, seen.name)
        if seen.name in _BEGINNINGS:
            self._on[event.link][_END_OF[seen.name], getattr(sub, _BEGINNINGS[seen.name])] = None
        else:
            self._on[event.link].pop((seen.name, getattr(sub, _ENDS[seen.name])), None)

    def closed(self, event: log.Closed) -> Iterator[Implied]:
        """Yield a close for each producer and consumer that was on a connection which the client has ended."""
        for name, number in self._on.pop(event.link, ()):
            data = encode_frame(command(name, request_id=0, **{_ENDS[name]: number})).hex()
            yield Implied(key=event.key, n=event.n, t=event.t, at=event.at, data=data, link=event.link)
