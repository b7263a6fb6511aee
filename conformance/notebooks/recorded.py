"""Frames and conversations of real brokers, from the recordings, without details of the machine that recorded them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal

from conformance.engine import log
from conformance.engine.verdict import TrialLog
from conformance.judging.results import RunLog
from conformance.report.rows import Row, trial_rows
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
        for trial_log in self._trial_logs(case):
            for row in self._rows(trial_log) if not fnmatchcase(trial_log.begin.case, without) else ():
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
        fitting = (frame.data for frame in self.frames(case) if type_name(frame.command) == kind)
        for index, data in enumerate(fitting):
            if index == number:
                return data
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
        trial_log = next((one for one in self._trial_logs(case) if cell in str(one.begin.cell)), None)
        if trial_log is None:
            raise LookupError(f"{self.release} has no recording of {case} {cell}".rstrip())
        return [
            replace(row, rest=_ADDRESS.sub("//broker", row.rest), t=None)
            for row in self._rows(trial_log)
            if fnmatchcase(row.at, connections) and not _FENCE.search(row.rest)
        ]

    def reactions(self, case: str) -> Iterator[tuple[str, bytes, str]]:
        """Yield what the first connection of each conversation was sent at last, and whether the broker ended it.

        Args:
            case: A glob for the names of cases.

        Yields:
            The cell, the bytes (of long ones the first), and `ends the connection` or `stays`.
        """
        for trial_log in self._trial_logs(case):
            first = next((event.at for event in trial_log.events if isinstance(event, log.Begin) and event.what == "open"), None)
            ended = any(isinstance(event, log.Closed) and event.at == first for event in trial_log.events)
            cell = ", ".join(map(str, trial_log.begin.cell.values()))
            yield cell, _last_bytes(trial_log, first), "ends the connection" if ended else "stays"

    def exchanges(self) -> Iterator[tuple[str, str]]:
        """Yield type of request and type of answer wherever the request_id leaves no doubt that they belong together."""
        for trial_log in self._trial_logs("*"):
            waiting: dict[tuple[str, int], list[str]] = {}
            for row in self._rows(trial_log):
                number = _request_id(row)
                if number is None:
                    continue
                kinds = waiting.setdefault((row.at, number), [])
                if row.way == "out":
                    kinds.append(row.head)
                elif len(kinds) == 1:
                    yield kinds.pop(), row.head

    def _rows(self, trial_log: TrialLog) -> list[Row]:
        return _rows(self.release, self.register, trial_log.begin.key)

    def _trial_logs(self, case: str) -> list[TrialLog]:
        return [one for one in _load(self.release, self.register).trial_logs.values() if fnmatchcase(one.begin.case, case)]


def _last_bytes(trial_log: TrialLog, at: str | None) -> bytes:
    """Return what was sent last before the exchange by which the suite makes sure of the end."""
    sent = [event for event in trial_log.events if isinstance(event, log.Begin) and event.what == "send" and event.at == at]
    data = [bytes.fromhex((event.data or "").partition("..")[0]) for event in sent]
    if data and _FENCE_TOPIC in data[-1]:
        data = data[: -2 if data[-2:-1] == [_PING] else -1]
    return data[-1] if data else b""


def _frame(row: Row) -> Frame | None:
    return _decoded(row.data) if row.data is not None and row.way in ("out", "in") else None


def _request_id(row: Row) -> int | None:
    frame = _frame(row)
    if frame is None:
        return None
    message = sub_message(frame.command)
    known = "request_id" in message.DESCRIPTOR.fields_by_name and message.HasField("request_id")
    return int(message.request_id) if known else None  # type: ignore[attr-defined]


@cache
def _decoded(data: bytes) -> Frame | None:
    try:
        return decode_frame(data)
    except WireError:
        return None


@cache
def _rows(release: str, register: str, key: str) -> list[Row]:
    return trial_rows(_load(release, register).trial_logs[key])


@cache
def _load(release: str, register: str) -> RunLog:
    return recorder.load(recorder.HOME / f"apache-pulsar@{release}" / f"{register}.jsonl.gz")
