"""The proxy of the suite as tests use it: it keeps every frame, and tests wait for frames, change, drop and cut, from their own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.captures import FrameRow, Origin, Written, write_capture
from conformance.proxy import Direction, Passed, Proxy, Watcher, proxying
from conformance.proxy.relay import Change
from conformance.report.listing import frame_text, line
from conformance.targets import Endpoint
from refimpl.wire import TYPE_BY_FIELD, Frame, command_name, sub_message

_REPORTED = 400


@dataclass(frozen=True)
class Ended:
    """The end of a connection by one side.

    Attributes:
        connection: number of the connection, from 1.
        direction: who ended it.
        time: seconds since the proxy was opened.
    """

    connection: int
    direction: Direction
    time: float


class FrameProxy(Watcher):
    """What a running proxy has passed on.

    Attributes:
        service_url: what clients are given.
        change: by field name of the command (`watchTopicUpdate`), what becomes of it.
        defects: what was out of the ordinary, such as what could not be decoded, with the connection and who sent it.
    """

    commands = None
    whole = True

    def __init__(self) -> None:
        self.service_url = ""
        self.change: dict[str, Change] = {}
        self.defects: list[str] = []
        self._records: list[Passed | Ended] = []
        self._news = threading.Condition()
        self._loop = asyncio.get_running_loop()

    # what the proxy tells

    def frame(self, passed: Passed) -> None:
        self._keep(passed)

    def ended(self, connection: int, direction: Direction, time: float) -> None:
        self._keep(Ended(connection, direction, time))

    def note(self, connection: int | None, time: float, text: str) -> None:
        if connection is not None:
            self.defects.append(f"#{connection} {text}")

    def _keep(self, record: Passed | Ended) -> None:
        with self._news:
            self._records.append(record)
            self._news.notify_all()

    # what the tests use, from their own thread

    @property
    def mark(self) -> int:
        """Give the place in the record where the next frame will stand."""
        return len(self._records)

    def seen(self, name: str, since: int = 0, **fields: object) -> list[Any]:
        """List the sub-messages of a command that have passed.

        Args:
            name: field name of the command, `watchTopicList`.
            since: a `mark`.
            fields: values that they have to carry; None: the field has to be absent.
        """
        return [message for _, message in self._matching(name, since, fields)]

    def frames(self, name: str, since: int = 0) -> list[Frame]:
        """List the frames of a command that have passed."""
        return [passed.frame for passed, _ in self._matching(name, since, {})]

    def wait(self, name: str, since: int = 0, *, count: int = 1, seconds: float = 30.0, **fields: object) -> Any:
        """Wait until a command has passed so many times, and return the last of these; see `seen`."""
        with self._news:
            arrived = self._news.wait_for(lambda: len(self.seen(name, since, **fields)) >= count, seconds)
            wanted = self.seen(name, since, **fields)
        assert arrived, f"{len(wanted)} of {count} {name} with {fields} within {seconds:g} s"
        return wanted[count - 1]

    def wait_for_answer(self, name: str, request: Any, seconds: float = 30.0) -> Any:
        """Wait for the answer to a request, by its request_id."""
        return self.wait(name, seconds=seconds, request_id=request.request_id)

    def wait_for_end(self, direction: Direction, since: int = 0, seconds: float = 30.0) -> None:
        """Wait until one side has ended a connection."""

        def ended() -> bool:
            return any(isinstance(each, Ended) and each.direction == direction for each in self._records[since:])

        with self._news:
            assert self._news.wait_for(ended, seconds), f"no connection was ended by the {direction} within {seconds:g} s"

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Break all connections, and new ones at once, for the length of a block."""
        self._proxy.refusing = True
        asyncio.run_coroutine_threadsafe(self._proxy.break_all(), self._loop).result(30)
        try:
            yield
        finally:
            self._proxy.refusing = False

    def lines(self) -> str:
        """Write the last frames of the record."""
        left_out = len(self._records) - _REPORTED
        head = [f"({left_out} frames before)"] if left_out > 0 else []
        return "\n".join([*head, *map(_line, self._records[-_REPORTED:]), *self.defects])

    def capture(self, folder: Path, release: str | None = None) -> Written:
        """Write all that passed as a raw capture.

        Args:
            folder: Where to; a new one.
            release: Of the broker, if it is one of Apache Pulsar.
        """
        return write_capture(folder, (_row(each, release) for each in self._records if isinstance(each, Passed) and not each.dropped))

    def serve(self, proxy: Proxy) -> None:
        """Take the proxy that tells."""
        self._proxy = proxy
        self.service_url = proxy.service_url

    def _matching(self, name: str, since: int, fields: dict[str, object]) -> Iterator[tuple[Passed, Any]]:
        assert name in TYPE_BY_FIELD, name
        for each in self._records[since:]:
            if isinstance(each, Ended) or each.dropped or command_name(each.frame.command) != name:
                continue
            message: Any = sub_message(each.frame.command)
            if all(_carries(message, field, value) for field, value in fields.items()):
                yield each, message


def _line(record: Passed | Ended) -> str:
    text = "ends the connection" if isinstance(record, Ended) else frame_text(record.frame, record.payload, record.remark)
    return line(record.time, record.connection, record.direction, text)


def _carries(message: Any, field: str, value: object) -> bool:
    if value is None:
        return not message.HasField(field)
    held = getattr(message, field)
    return list(held) == value if isinstance(value, list) else held == value


def _row(passed: Passed, release: str | None) -> FrameRow:
    target = f"apache-pulsar@{release}" if release else "reference"
    origin = Origin("proxy", str(passed.connection), passed.direction, None, target, release)
    return FrameRow(origin, 0, len(passed.frame.data), passed.frame.data, passed.time, command_name(passed.frame.command))


@asynccontextmanager
async def frame_proxy(broker_url: str) -> AsyncIterator[FrameProxy]:
    """Run a proxy in front of a broker for the length of a block."""
    kept = FrameProxy()
    async with proxying(Endpoint(name="broker", service_url=broker_url), [kept], changes=kept.change) as proxy:
        kept.serve(proxy)
        yield kept
