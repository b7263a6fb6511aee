"""Writes a raw capture while it comes. What is written is whole at any time: the index has each file as soon as there is one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from conformance.captures.raw import INDEX, Entry, new_folder
from conformance.captures.rows import Direction
from conformance.captures.times import times_of, written_time

_WAITING = 1 << 20
"""So many bytes wait for being written at most."""


@dataclass
class _File:
    path: Path
    size: int = 0
    data: list[bytes | memoryview] = field(default_factory=list)
    times: list[str] = field(default_factory=list)


class Recording:
    """A raw capture that grows. No file stays open, so that there may be as many connections as come.

    Args:
        folder: Where to; a new one, or an empty one.
        target: What the clients talk to.
        release: Its release, if that is known.

    Attributes:
        files: How many files there are.
        size: How many bytes are in them.

    Raises:
        CaptureError: The folder can't be made, or is not empty.
    """

    def __init__(self, folder: Path, target: str | None = None, release: str | None = None) -> None:
        new_folder(folder)
        self.folder = folder
        self.size = 0
        self._target = target
        self._release = release
        self._started: dict[int, float] = {}
        self._files: dict[tuple[int, Direction], _File] = {}
        self._waiting = 0
        self.files = 0
        (folder / INDEX).touch()

    def opened(self, connection: int, time: float) -> None:
        """Note when a connection was opened, in seconds since 1970."""
        self._started[connection] = time

    def add(self, connection: int, direction: Direction, data: bytes | memoryview, time: float) -> None:
        """Add the next bytes of one direction of a connection.

        Raises:
            OSError: They can't be written.
        """
        file = self._files.get((connection, direction)) or self._new(connection, direction)
        file.size += len(data)
        file.data.append(data)
        file.times.append(written_time(file.size, time))
        self.size += len(data)
        self._waiting += len(data)
        if self._waiting > _WAITING:
            self.flush()

    def ended(self, connection: int) -> None:
        """Write what is there of a connection, and forget it.

        Raises:
            OSError: It can't be written.
        """
        self._started.pop(connection, None)
        for direction in ("client", "broker"):
            file = self._files.pop((connection, direction), None)
            if file is not None:
                _write(file)

    def flush(self) -> None:
        """Write all that waits.

        Raises:
            OSError: It can't be written.
        """
        self._waiting = 0
        for file in self._files.values():
            _write(file)

    def _new(self, connection: int, direction: Direction) -> _File:
        name = f"{connection:05}.{direction}"
        entry = Entry(
            connection=str(connection),
            direction=direction,
            file=name,
            start=self._started.get(connection),
            target=self._target,
            release=self._release,
        )
        file = self._files[connection, direction] = _File(self.folder / name)
        file.path.touch()
        with (self.folder / INDEX).open("a", encoding="utf-8") as index:
            index.write(json.dumps(entry.model_dump(exclude_none=True), ensure_ascii=False) + "\n")
        self.files += 1
        return file


def _write(file: _File) -> None:
    """Write the bytes of a file before their times: what is cut in between is bytes without a time."""
    data, times, file.data, file.times = b"".join(file.data), "".join(file.times), [], []
    if data:
        with file.path.open("ab") as bytes_:
            bytes_.write(data)
        with times_of(file.path).open("a", encoding="ascii") as lines:
            lines.write(times)
