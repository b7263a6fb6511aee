"""The driver of a client: a child process that does with the client what it is asked, and tells what its user sees.

JSON lines, requests on its standard input, answers and events on its standard output; docs/drivers.md describes them.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.json_schema import models_json_schema
from pydantic_core import from_json

from conformance.clients.backdrop import Backdrop, Listener
from conformance.clients.verbs import EVENTS, VERBS
from conformance.engine.program import Program
from conformance.targets.model import TargetError
from conformance.targets.process import kill_marked, tail

PROTOCOL: Final = 1
LONGEST_LINE: Final = 1 << 20
"""Bytes of a line."""
START_SECONDS: Final = 60.0
"""Seconds for `hello`: some drivers start a virtual machine."""
END_SECONDS: Final = 10.0
"""Seconds for `begin` and `end`, before --slow."""
_EXIT_SECONDS: Final = 1.0
"""Seconds between the end of what a driver prints and its own end."""
_LONGEST_LOG: Final = 16 << 20
"""Bytes of what drivers write to standard error that are kept, about: a full disk helps nobody."""
_LOG_SECONDS: Final = 0.5
"""Seconds between two looks at how large that has become."""
_MARK: Final = "PULSAR_CONFORMANCE_DRIVER"
"""Name in the environment of a driver, and of all that it starts."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Hello(_Line):
    """What a driver says of itself."""

    protocol: int
    client: Annotated[str, Field(min_length=1, max_length=100)] = Field(description="name of the client, such as pulsar-client")
    version: Annotated[str, Field(max_length=100)] = ""
    language: Annotated[str, Field(max_length=50)] = ""
    capabilities: list[str] = Field(default=[], description="what the client can do, by the names of `requires`")
    verbs: list[str] = Field(description="what the driver can be asked to do")


class Answer(_Line):
    """How a request went."""

    id: int
    ok: bool = False
    result: Any = Field(default=None, description="of hello: Hello; of send: {ids: [text, ..]}")
    error: str | None = Field(default=None, description="why the client refused, or failed")
    unsupported: str | None = Field(default=None, description="what the client does not offer")


class Said(_Line):
    """Something that the user of the client sees, unasked."""

    event: Annotated[str, Field(min_length=1, max_length=50)]
    detail: dict[str, Any] = {}


_LINE: TypeAdapter[Any] = TypeAdapter(Answer | Said)


class DriverError(TargetError):
    """The driver does not keep to the protocol, or is gone."""


class LeftOut(TargetError):
    """A case is not run to its end, which says nothing of the client.

    Args:
        verdict: What the case gets.
        reason: Why.
    """

    def __init__(self, verdict: Literal["NOT-APPLICABLE", "UNTESTABLE"], reason: str) -> None:
        super().__init__(reason)
        self.verdict: Literal["NOT-APPLICABLE", "UNTESTABLE"] = verdict


class Driver:
    """A driver as a child process, in a process group of its own; use it as an asynchronous context manager.

    Args:
        name: What reports call the client.
        command: How it is started.
        log: File for its standard error.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self._command = command
        self._log = log
        self._asked = 0
        self._pending: dict[int, asyncio.Future[Answer]] = {}
        self._on_event: Callable[[Said], None] | None = None
        self._on_lost: Callable[[DriverError], None] | None = None
        self._silent = False
        self._problem: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: asyncio.WriteTransport | None = None
        self._lines: asyncio.ReadTransport | None = None
        self._following: list[asyncio.Task[None]] = []
        self._mark = uuid.uuid4().hex
        self.hello: Hello

    async def __aenter__(self) -> Self:
        """Start it, and hear what it is.

        Raises:
            DriverError: It does not start, or does not say hello.
        """
        await self._start()
        try:
            told = await self.request("hello", {"protocol": PROTOCOL}, START_SECONDS)
            self.hello = self._heard(told)
        except BaseException:
            await self.kill()
            raise
        return self

    async def _start(self) -> None:
        try:
            with self._log.open("ab") as errors:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, _MARK: self._mark},
                    start_new_session=True,
                )
        except OSError as error:
            hint = ": is there a #! line, and is it executable?" if error.errno in (errno.ENOEXEC, errno.EACCES) else ""
            raise DriverError(f"the driver {self.name} can't be started: {error.strerror or error}: {self._command[0]}{hint}") from None
        loop = asyncio.get_running_loop()
        lines = asyncio.StreamReader(LONGEST_LINE)
        self._lines, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), self._process.stdout)
        self._requests, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._process.stdin)
        self._following = [loop.create_task(self._read(lines, self._process)), loop.create_task(self._keep_log_short())]

    def _heard(self, told: Answer) -> Hello:
        """Return what it says of itself, in the protocol of this suite: another one may have other words."""
        if not told.ok:
            raise DriverError(f"the driver {self.name} does not say hello: {told.error or told.unsupported or 'its answer is empty'}")
        spoken = told.result.get("protocol") if isinstance(told.result, dict) else None
        if isinstance(spoken, int) and spoken != PROTOCOL:
            raise DriverError(f"the driver {self.name} speaks protocol {spoken}; this suite speaks {PROTOCOL}")
        try:
            return Hello.model_validate(told.result)
        except ValidationError as error:
            raise DriverError(f"the driver {self.name} says hello in another way: {_first(error)}") from None

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End it."""
        await self.kill()

    def listen(self, on_event: Callable[[Said], None] | None, on_lost: Callable[[DriverError], None] | None = None) -> None:
        """Hand events to one function from now on, and why it can't be used any more to another; None: to nobody."""
        self._on_event = on_event
        self._on_lost = on_lost

    def backdrop(self, listener: Listener, config: Mapping[str, str]) -> Backdrop:
        """Return a backdrop that the client reaches; see `Backdrop` for the arguments."""
        return Backdrop(listener, config)

    def untestable(self, program: Program) -> str | None:  # noqa: ARG002
        """Tell why a case can't be judged with this driver; None: it can."""
        return None

    async def carry_out(self, verb: str, arguments: Mapping[str, Any], name: str) -> asyncio.Future[Answer]:  # noqa: ARG002
        """Have a step of a case begun.

        Args:
            verb: The verb.
            arguments: Its arguments.
            name: What the case calls its result.

        Returns:
            What will have the answer.

        Raises:
            LeftOut: The case ends here, without a word about the client.
        """
        return self.ask(verb, arguments)[1]

    @property
    def lost(self) -> str | None:
        """Return why it can't be used any more; None: it can."""
        if self._problem is None and self._silent:
            return f"the driver {self.name} can't be used: it has closed its standard output"
        return self._problem

    async def request(self, do: str, arguments: Mapping[str, Any], seconds: float) -> Answer:
        """Ask for something, and wait for the answer.

        Args:
            do: The verb.
            arguments: Its arguments.
            seconds: How long the answer may take.

        Returns:
            The answer; of what the client refused it has the error.

        Raises:
            DriverError: There was no answer in time, or the driver is gone.
        """
        number, answer = self.ask(do, arguments)
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            self._pending.pop(number, None)
            raise DriverError(f"the driver {self.name} has not answered {do} in {seconds:g} s{self._last_words()}") from None

    def ask(self, do: str, arguments: Mapping[str, Any]) -> tuple[int, asyncio.Future[Answer]]:
        """Ask for something; return its number, and what will have the answer."""
        if self._problem is not None or not self._runs:
            raise DriverError(self._problem or f"the driver {self.name} does not run")
        self._asked = number = self._asked + 1
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        self._write(json.dumps({"id": number, "do": do, **arguments}))
        return number, answer

    @property
    def _runs(self) -> bool:
        return self._process is not None

    def _write(self, line: str) -> None:
        assert self._requests is not None
        self._requests.write(line.encode() + b"\n")

    async def kill(self) -> None:
        """End the process and everything that it started, whatever holds on to its pipes."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(kill_marked, f"{_MARK}={self._mark}")
        await asyncio.to_thread(process.wait)
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        for pipe in (self._requests, self._lines):
            if pipe is not None and not pipe.is_closing():  # else its other end has closed it
                pipe.close()
        self._fail("it was ended")

    async def _read(self, lines: asyncio.StreamReader, process: subprocess.Popen[bytes]) -> None:
        try:
            while line := await lines.readline():
                self._take(line)
        except ValueError:
            self._fail(f"it printed a line of more than {LONGEST_LINE:,} bytes")
        else:
            self._silent = True
            self._fail(f"{await asyncio.to_thread(_how_ended, process)}{self._last_words()}")

    async def _keep_log_short(self) -> None:
        while True:
            await asyncio.sleep(_LOG_SECONDS)
            if self._log.stat().st_size > _LONGEST_LOG:
                os.truncate(self._log, 0)

    def _take(self, line: bytes) -> None:
        try:
            told = from_json(line, allow_inf_nan=False)
        except ValueError:
            self._fail(f"it printed a line that is not JSON: {line[:200]!r}")
            return
        try:
            self._take_told(told)
        except ValidationError as error:
            self._fail(f"it printed a line that is not of the protocol: {_first(error)}")

    def _take_told(self, told: Any) -> None:
        if isinstance(told, dict) and "event" in told:
            said = Said.model_validate(told)
            if self._on_event is not None:
                self._on_event(said)
            return
        answer = Answer.model_validate(told)
        if not 1 <= answer.id <= self._asked:
            self._fail(f"it answers request {answer.id}, which nobody asked: the last one was {self._asked}")
            return
        waiting = self._pending.pop(answer.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _fail(self, why: str) -> None:
        if self._problem is None:
            self._problem = f"the driver {self.name} can't be used: {why}"
            if self._on_lost is not None:
                self._on_lost(DriverError(self._problem))
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(DriverError(self._problem))
                waiting.exception()
        self._pending.clear()

    def _last_words(self) -> str:
        words = tail(self._log)
        return f"; its log ends with\n{words}" if words else ""


def _how_ended(process: subprocess.Popen[bytes]) -> str:
    """Say what became of a process that prints nothing more."""
    try:
        code = process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        return "it has closed its standard output"
    return f"it has ended with exit code {code}" if code >= 0 else f"it has ended by {signal.Signals(-code).name}"


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return ": ".join(part for part in (".".join(map(str, first["loc"])), first["msg"]) if part)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the lines: the requests of the suite by their verbs, a driver's answers, and its events by their names."""
    models: list[type[BaseModel]] = [*VERBS.values(), *EVENTS.values(), Answer, Hello]
    _, schema = models_json_schema([(one, "validation") for one in models], by_alias=True)
    parts = schema["$defs"]
    for verb, kind in VERBS.items():  # the arguments stand beside id and do
        request = parts[kind.__name__]
        request["properties"] = {"id": {"type": "integer"}, "do": {"const": verb}, **request.get("properties", {})}
        request["required"] = ["id", "do", *request.get("required", [])]
    references = {kind: {"$ref": f"#/$defs/{kind.__name__}"} for kind in models}
    events = [
        {"type": "object", "properties": {"event": {"const": name}, "detail": references[kind]}, "required": ["event", "detail"]}
        for name, kind in EVENTS.items()
    ]
    requests = [references[kind] for kind in VERBS.values()]
    return {**schema, "title": "Lines of a driver", "anyOf": [*requests, references[Answer], *events]}
