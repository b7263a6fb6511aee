"""Captures -> the frames of a conversation."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.captures import MAX_FRAME_SIZE, CaptureError, FrameRow, capture_path, find_pieces
from refimpl.wire import Frame, command_name, decode_frame, sub_message

_LOGS = (".jsonl", ".jsonl.gz")
_BACKGROUND = frozenset({"ping", "pong"})
_FENCE = 2**62 + 1
"""The request id of the suite's own fences, which are in its event logs."""
_OF_LOG = re.compile(r"(.+) \S+?(?: \(\d+\))?")
_SHOWN = 12


class TranscribeProblem(ValueError):
    """A capture that can't be transcribed: the message says which, where, and why."""


@dataclass(frozen=True)
class Said:
    """A frame of a conversation.

    Attributes:
        connection: Number of the connection in the capture, from 1.
        by_client: Who sent it.
        frame: The frame.
    """

    connection: int
    by_client: bool
    frame: Frame

    @property
    def name(self) -> str:
        """Return the command, in its field of BaseCommand."""
        return command_name(self.frame.command)

    @property
    def message(self) -> Any:
        """Return the fields of the command."""
        return sub_message(self.frame.command)


@dataclass(frozen=True)
class Conversation:
    """What a client and a broker said, in order.

    Attributes:
        said: The frames, without background.
        timed: Whether they are in the order in which they passed; otherwise only those of each direction are.
        connections: Names of the connections, by number.
    """

    said: Sequence[Said]
    timed: bool
    connections: dict[int, str]


def read_conversation(path: Path, chosen: Sequence[int] = (), limit: int = MAX_FRAME_SIZE) -> Conversation:
    """Read the frames of connections.

    Args:
        path: A folder with a raw capture, a capture of packets, or an event log.
        chosen: Numbers of connections, in the order of the capture, from 1; all if there are none.
        limit: Size of the largest frame, in bytes.

    Raises:
        TranscribeProblem: The capture can't be read, lacks something, or has what is never written into a file.
    """
    names: dict[tuple[str, str], int] = {}
    rows: list[tuple[int, FrameRow]] = []
    for place, row in _rows(path, limit):
        if row.origin.connection is None:
            raise TranscribeProblem(f"{path}: {row.corrupt}")
        rows.append((names.setdefault((place, row.origin.connection), len(names) + 1), row))
    wanted = _wanted(path, {number: name for (_, name), number in names.items()}, chosen)
    rows = [(number, row) for number, row in rows if number in wanted]
    timed = all(row.time is not None for _, row in rows)
    if timed and path.is_dir():
        rows.sort(key=lambda one: one[1].time or 0.0)
    if not timed and len(wanted) > 1:
        raise TranscribeProblem(
            f"{path}: the capture does not tell which connection spoke first: choose one with --connection, of {_listed(wanted)}; "
            "or give a capture with times, such as one of packets, an event log, or one that `proxy` made"
        )
    said = list(_said(path, rows))
    _check(path, said, wanted)
    return Conversation([one for one in said if not _is_background(one)], timed, wanted)


def _rows(path: Path, limit: int) -> Iterator[tuple[str, FrameRow]]:
    """Yield the rows, each with the capture that it is of."""
    try:
        pieces, rows = find_pieces(capture_path(str(path)), sys.maxsize, limit)
    except CaptureError as error:
        raise TranscribeProblem(str(error)) from None
    for row in rows:
        yield "", row
    for piece in pieces:
        yield from ((piece.origin.source, row) for row in piece.rows(limit))


def _wanted(path: Path, names: dict[int, str], chosen: Sequence[int]) -> dict[int, str]:
    if not names:
        raise TranscribeProblem(f"{path}: there are no frames in it")
    for number in chosen:
        if number not in names:
            raise TranscribeProblem(f"{path}: there is no connection {number}; there are {_listed(names)}")
    wanted = {number: name for number, name in names.items() if not chosen or number in chosen}
    if path.name.endswith(_LOGS) and len({match[1] if (match := _OF_LOG.fullmatch(name)) else name for name in wanted.values()}) > 1:
        raise TranscribeProblem(
            f"{path}: holds several conversations: choose the connections of one with --connection, of {_listed(names)}"
        )
    return wanted


def _listed(names: dict[int, str]) -> str:
    return ", ".join(f"{number} ({name})" for number, name in list(names.items())[:_SHOWN]) + (", .." if len(names) > _SHOWN else "")


def _said(path: Path, rows: Iterable[tuple[int, FrameRow]]) -> Iterator[Said]:
    for number, row in rows:
        if row.corrupt is not None:
            where = f"connection {number}, what the {row.origin.direction} sent, byte {row.offset:,}"
            raise TranscribeProblem(f"{path}: {where}: {row.corrupt}: a transcript needs every frame")
        yield Said(number, row.origin.direction == "client", decode_frame(row.data))


def _check(path: Path, said: Sequence[Said], wanted: dict[int, str]) -> None:
    for number in wanted:
        where = f"{path}: connection {number}"
        for by_client, first in ((True, "connect"), (False, "connected")):
            own = [one for one in said if one.connection == number and one.by_client == by_client]
            if not own:
                raise TranscribeProblem(f"{where}: nothing that the {'client' if by_client else 'broker'} sent is in the capture")
            if own[0].name != first and own[0].name not in ("error", "authChallenge"):
                raise TranscribeProblem(f"{where}: begins in the middle of the conversation, with {own[0].name} in place of {first}")
    for one in said:
        if one.name in ("authChallenge", "authResponse") or (one.name == "connect" and _has_credentials(one.message)):
            raise TranscribeProblem(
                f"{path}: connection {one.connection}: {one.name} carries credentials, which are never written into a transcript: "
                "capture a client without authentication"
            )


def _has_credentials(connect: Any) -> bool:
    return bool(
        connect.auth_data
        or connect.auth_method_name not in ("", "none")
        or connect.original_auth_data
        or connect.original_principal
        or connect.original_auth_method
    )


def _is_background(one: Said) -> bool:
    fence = one.name in ("partitionMetadata", "partitionMetadataResponse") and one.message.request_id == _FENCE
    return fence or one.name in _BACKGROUND
