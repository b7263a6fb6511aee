"""A TCP proxy between a stock client and a broker that decodes and records every frame, and can change, drop and cut.

Answers that say where a topic is served always lead back to the proxy, so that a client never leaves it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from conformance.captures import FrameRow, Origin, Written, write_capture
from refimpl.wire import (
    DEFAULT_MAX_FRAME_SIZE,
    TYPE_BY_FIELD,
    Frame,
    FrameDecoder,
    WireError,
    command_name,
    encode_frame,
    line_notation,
    sub_message,
)
from refimpl.wire.pulsar_api_pb2 import BaseCommand

Direction = Literal["->", "<-"]
"""`->` is client to broker."""

Change = Callable[[BaseCommand], BaseCommand | None]
"""What becomes of a command; None: it is dropped."""

_CHUNK = 1 << 16
_REPORTED = 400


@dataclass(frozen=True)
class Recorded:
    """A frame as it passed, or the end of a connection.

    Attributes:
        at: seconds since the proxy was opened.
        connection: number of the connection, from 1.
        direction: who spoke.
        frame: what was passed on; None: that side ended the connection.
        dropped: it was not passed on.
    """

    at: float
    connection: int
    direction: Direction
    frame: Frame | None
    dropped: bool = False

    def __str__(self) -> str:
        """Write it as one line."""
        what = line_notation(self.frame) if self.frame else "(ends the connection)"
        return f"{self.at:8.3f} #{self.connection} {self.direction} {'DROPPED ' if self.dropped else ''}{what}"


class FrameProxy:
    """A running proxy.

    Attributes:
        service_url: what clients are given.
        change: by field name of the command (`watchTopicUpdate`), what becomes of it.
        defects: what could not be decoded, with the connection and who sent it.
    """

    def __init__(self, broker_url: str) -> None:
        broker = urlsplit(broker_url)
        self._broker = (broker.hostname, broker.port)
        self.service_url = ""
        self.change: dict[str, Change] = {"lookupTopicResponse": self._lead_back, "scalableTopicUpdate": self._lead_segments_back}
        self.defects: list[str] = []
        self._records: list[Recorded] = []
        self._news = threading.Condition()
        self._opened = time.monotonic()
        self._connections = 0
        self._links: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._refusing = False

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
        return [record.frame for record, _ in self._matching(name, since, {}) if record.frame]

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
            return any(each.frame is None and each.direction == direction for each in self._records[since:])

        with self._news:
            assert self._news.wait_for(ended, seconds), f"no connection was ended by {direction} within {seconds:g} s"

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Break all connections, and new ones at once, for the length of a block."""
        asyncio.run_coroutine_threadsafe(self.break_all(), self._loop).result(30)
        try:
            yield
        finally:
            self._refusing = False

    def lines(self) -> str:
        """Write the last frames of the record."""
        left_out = len(self._records) - _REPORTED
        head = [f"({left_out} frames before)"] if left_out > 0 else []
        return "\n".join([*head, *map(str, self._records[-_REPORTED:])])

    def capture(self, folder: Path, release: str | None = None) -> Written:
        """Write all that passed as a raw capture.

        Args:
            folder: Where to; a new one.
            release: Of the broker, if it is one of Apache Pulsar.
        """
        return write_capture(folder, (_row(record, release) for record in self._records if record.frame is not None and not record.dropped))

    def _matching(self, name: str, since: int, fields: dict[str, object]) -> Iterator[tuple[Recorded, Any]]:
        assert name in TYPE_BY_FIELD, name
        for record in self._records[since:]:
            if record.frame is None or record.dropped or command_name(record.frame.command) != name:
                continue
            message: Any = sub_message(record.frame.command)
            if all(_carries(message, field, value) for field, value in fields.items()):
                yield record, message

    # what runs on the loop

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        if self._refusing:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        self._connections += 1
        try:
            await self._link(self._connections, reader, writer)
        except asyncio.CancelledError:
            pass  # cut
        finally:
            self._links.discard(task)

    async def break_all(self) -> None:
        """End all connections, and refuse new ones."""
        self._refusing = True
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _link(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection(*self._broker)
        except OSError:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(number, "->", reader, broker_writer))
                pumps.create_task(self._pump(number, "<-", broker_reader, writer))
        finally:
            writer.transport.abort()
            broker_writer.transport.abort()

    async def _pump(self, number: int, direction: Direction, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder(8 * DEFAULT_MAX_FRAME_SIZE)
        try:
            while data := await source.read(_CHUNK):
                for frame in decoder.receive(data):
                    passed = self._changed(frame)
                    self._record(number, direction, passed or frame, dropped=passed is None)
                    if passed is not None:
                        sink.write(passed.data)
                await sink.drain()
        except ConnectionError:
            pass
        except WireError as error:
            self.defects.append(f"#{number} {direction} {error}")
        self._record(number, direction, None)
        with suppress(OSError):
            sink.write_eof()

    def _changed(self, frame: Frame) -> Frame | None:
        change = self.change.get(command_name(frame.command))
        if change is None:
            return frame
        command = change(frame.command)
        return None if command is None else Frame(encode_frame(command, frame.payload_bytes), command, frame.payload_bytes)

    def _lead_back(self, command: BaseCommand) -> BaseCommand:
        answer = command.lookupTopicResponse
        if answer.brokerServiceUrl:
            answer.brokerServiceUrl = self.service_url
            answer.ClearField("brokerServiceUrlTls")
            answer.proxy_through_service_url = False
        return command

    def _lead_segments_back(self, command: BaseCommand) -> BaseCommand:
        for place in command.scalableTopicUpdate.dag.segment_brokers:
            place.broker_url = self.service_url
            place.ClearField("broker_url_tls")
        return command

    def _record(self, number: int, direction: Direction, frame: Frame | None, dropped: bool = False) -> None:
        with self._news:
            self._records.append(Recorded(time.monotonic() - self._opened, number, direction, frame, dropped))
            self._news.notify_all()


def _carries(message: Any, field: str, value: object) -> bool:
    if value is None:
        return not message.HasField(field)
    held = getattr(message, field)
    return list(held) == value if isinstance(value, list) else held == value


def _row(record: Recorded, release: str | None) -> FrameRow:
    assert record.frame is not None
    target = f"apache-pulsar@{release}" if release else "reference"
    direction: Literal["client", "broker"] = "client" if record.direction == "->" else "broker"
    origin = Origin("proxy", str(record.connection), direction, None, target, release)
    return FrameRow(origin, 0, len(record.frame.data), record.frame.data, record.at, command_name(record.frame.command))


@asynccontextmanager
async def frame_proxy(broker_url: str) -> AsyncIterator[FrameProxy]:
    """Run a proxy in front of a broker for the length of a block."""
    proxy = FrameProxy(broker_url)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.service_url = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.break_all()
        await server.wait_closed()
