"""Frames and conversations of real brokers, from the recordings, without what belongs to the machine that recorded them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal

from conformance.engine import log
from conformance.engine.verdict import Talk
from conformance.judging.results import RunLog
from conformance.report.rows import Row, talk_rows
from conformance.running import recorder
from refimpl.wire import Frame, WireError, command, decode_frame, encode_frame, sub_message, type_name

_ADDRESS = re.compile(r"//localhost:\d+")
_FENCE = re.compile(r"request_id: 461168601842738790\d")
_FENCE_TOPIC = b"default/fence"
_PING = encode_frame(command("ping"))


@dataclass(frozen=True)
class Recorded:
    """What was recorded with one release of Apache Pulsar.

    Attributes:
        release: Such as `4.2.4`.
        register: `core`, or the proposal.
    """

    release: str = "4.2.4"
    register: str = "core"

    @staticmethod
    def releases() -> list[str]:
        """Return the releases that were recorded, oldest first."""
        return [name.partition("@")[2] for name in recorder.targets() if name.startswith("apache-pulsar@")]

    def frames(self, case: str = "*", sender: Literal["client", "broker"] | None = None, *, without: str = "") -> Iterator[Frame]:
        """Yield the frames that can be decoded, conversation by conversation.

        Args:
            case: A glob for the names of cases.
            sender: Only what this side sent.
            without: A glob for the names of cases to leave out.
        """
        for talk in self._talks(case):
            for row in self._rows(talk) if not fnmatchcase(talk.begin.case, without) else ():
                frame = _frame(row)
                if frame is not None and sender in (None, {"out": "client", "in": "broker"}.get(row.way)):
                    yield frame

    def frame(self, kind: str, case: str = "*", number: int = 0) -> bytes:
        """Return a frame.

        Args:
            kind: The type of its command, such as `CONNECTED`.
            case: A glob for the names of cases.
            number: Which one of those that fit; 0 for the first.

        Raises:
            LookupError: There are not so many.
        """
        fitting = (frame.octets for frame in self.frames(case) if type_name(frame.command) == kind)
        for index, octets in enumerate(fitting):
            if index == number:
                return octets
        raise LookupError(f"{self.release} has no {kind} number {number} in the recorded cases {case}")

    def message(self, kind: str, case: str = "*", number: int = 0) -> Any:
        """Return what a frame says: the sub-message of its command; see `frame`."""
        return sub_message(decode_frame(self.frame(kind, case, number)).command)

    def conversation(self, case: str, *, cell: str = "", connections: str = "*") -> list[Row]:
        """Return a conversation as rows, without times, addresses, and the exchange by which the suite makes sure of the end.

        Args:
            case: The case.
            cell: A word of its cell; without it the first.
            connections: A glob for the names of connections.
        """
        talk = next((one for one in self._talks(case) if cell in str(one.begin.cell)), None)
        if talk is None:
            raise LookupError(f"{self.release} has no recording of {case} {cell}".rstrip())
        return [
            replace(row, rest=_ADDRESS.sub("//broker", row.rest), t=None)
            for row in self._rows(talk)
            if fnmatchcase(row.at, connections) and not _FENCE.search(row.rest)
        ]

    def reactions(self, case: str) -> Iterator[tuple[str, bytes, str]]:
        """Yield what the first connection of each conversation was sent at last, and whether the broker ended it.

        Args:
            case: A glob for the names of cases.

        Yields:
            The cell, the octets (of long ones the first), and `ends the connection` or `stays`.
        """
        for talk in self._talks(case):
            first = next((event.at for event in talk.events if isinstance(event, log.Begin) and event.what == "open"), None)
            ended = any(isinstance(event, log.Closed) and event.at == first for event in talk.events)
            cell = ", ".join(map(str, talk.begin.cell.values()))
            yield cell, _last_octets(talk, first), "ends the connection" if ended else "stays"

    def exchanges(self) -> Iterator[tuple[str, str]]:
        """Yield type of request and type of answer wherever the request_id leaves no doubt that they belong together."""
        for talk in self._talks("*"):
            waiting: dict[tuple[str, int], list[str]] = {}
            for row in self._rows(talk):
                number = _request_id(row)
                if number is None:
                    continue
                kinds = waiting.setdefault((row.at, number), [])
                if row.way == "out":
                    kinds.append(row.head)
                elif len(kinds) == 1:
                    yield kinds.pop(), row.head

    def _rows(self, talk: Talk) -> list[Row]:
        return _rows(self.release, self.register, talk.begin.key)

    def _talks(self, case: str) -> list[Talk]:
        return [talk for talk in _load(self.release, self.register).talks.values() if fnmatchcase(talk.begin.case, case)]


def _last_octets(talk: Talk, at: str | None) -> bytes:
    """Return what was sent last before the exchange by which the suite makes sure of the end."""
    sent = [event for event in talk.events if isinstance(event, log.Begin) and event.what == "send" and event.at == at]
    octets = [bytes.fromhex((event.octets or "").partition("..")[0]) for event in sent]
    if octets and _FENCE_TOPIC in octets[-1]:
        octets = octets[: -2 if octets[-2:-1] == [_PING] else -1]
    return octets[-1] if octets else b""


def _frame(row: Row) -> Frame | None:
    return _decoded(row.octets) if row.octets is not None and row.way in ("out", "in") else None


def _request_id(row: Row) -> int | None:
    frame = _frame(row)
    if frame is None:
        return None
    message = sub_message(frame.command)
    known = "request_id" in message.DESCRIPTOR.fields_by_name and message.HasField("request_id")
    return int(message.request_id) if known else None  # type: ignore[attr-defined]


@cache
def _decoded(octets: bytes) -> Frame | None:
    try:
        return decode_frame(octets)
    except WireError:
        return None


@cache
def _rows(release: str, register: str, key: str) -> list[Row]:
    return talk_rows(_load(release, register).talks[key])


@cache
def _load(release: str, register: str) -> RunLog:
    return recorder.load(recorder.HOME / f"apache-pulsar@{release}" / f"{register}.jsonl.gz")
