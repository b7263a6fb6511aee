"""Child processes that never outlive their starter, free ports, and waiting until something outside is ready."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from conformance.targets.model import TargetError

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_POLL_SECONDS = 0.1
_KILLED_SECONDS = 5.0
"""For a supervisor to end whose child is killed."""
_LOG_TAIL_LINES = 15
_LOG_TAIL_BYTES = 64 * 1024
_PASSES = 20
_BETWEEN_PASSES = 0.01
"""Seconds between two looks at all processes."""
_PORTS = range(20000, 32768)


class Supervised:
    """A running child: its log, and how it ended."""

    def __init__(self, pid: int, log: Path, ended: "asyncio.Task[int | None]") -> None:
        self.pid = pid
        self.log = log
        self.ended = ended

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs, and when its supervisor was killed."""
        return self.ended.result() if self.ended.done() and not self.ended.cancelled() else None

    async def wait(self, seconds: float) -> int | None:
        """Wait for the end.

        Args:
            seconds: How long at most.

        Returns:
            The exit code; None when it still runs.
        """
        await asyncio.wait({self.ended}, timeout=seconds)
        return self.exit_code

    def last_lines(self, count: int = _LOG_TAIL_LINES) -> str:
        """Return the last lines of the log.

        Args:
            count: How many lines at most.

        Returns:
            The lines, each indented by two spaces; a remark when there are none.
        """
        return tail(self.log, count)


def tail(log: Path, count: int = _LOG_TAIL_LINES) -> str:
    """Read the last lines of a file.

    Args:
        log: The file; it may be missing.
        count: How many lines at most.

    Returns:
        The lines, each indented by two spaces; a remark when there are none.
    """
    data = b""
    with contextlib.suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        data = file.read()
    lines = data.decode(errors="replace").rstrip().splitlines()[-count:]
    return "\n".join(f"  {line}" for line in lines) or "  (the log is empty)"


def kill_marked(mark: str) -> None:
    """Kill all processes with a mark in their environment, wherever they have gone since they got it. Without /proc it finds none.

    Args:
        mark: NAME=VALUE.
    """
    for _ in range(_PASSES):
        again = False
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                variables = environment.read_bytes()
                if mark.encode() in variables.split(b"\0"):
                    os.kill(int(environment.parent.name), signal.SIGKILL)
                    again = True  # it may have started another one meanwhile
                elif not variables and environment.with_name("exe").readlink():
                    again = True  # it has only just been started: its environment comes last
        if not again:
            return
        time.sleep(_BETWEEN_PASSES)


@contextlib.asynccontextmanager
async def supervised(
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    grace_seconds: float,
    remove: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Supervised]:
    """Run a command under the supervisor; its process group is stopped when the block is left, in any way.

    Args:
        command: The program and its arguments.
        log: File that gets its standard output and error.
        cwd: Its working folder.
        grace_seconds: Seconds between SIGTERM and SIGKILL.
        remove: Folder that is removed at the end, also when this process is killed.
        environment: Its whole environment; None: the same as ours.

    Returns:
        The running child.

    Raises:
        TargetError: The command could not be started.
    """
    options = ["--log", str(log), "--grace", str(grace_seconds), *(["--remove", str(remove)] if remove else [])]
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-I", "-S", str(_SUPERVISOR), *options, "--", *command],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    pid = 0
    ended: asyncio.Task[int | None] | None = None
    try:
        pid = await _pid(process.stdout, command[0])
        ended = asyncio.create_task(_exit_code(process.stdout))
        child = Supervised(pid, log, ended)
        try:
            yield child
        except BaseException as error:
            if child.exit_code is not None:
                error.add_note(f"{command[0]} had ended with exit code {child.exit_code}; its last lines:\n{child.last_lines()}")
            raise
    finally:
        process.stdin.close()
        await _await_end(process, pid, grace_seconds, ended)
        if ended is not None:
            await asyncio.wait({ended})


async def _line(output: asyncio.StreamReader) -> tuple[str, str]:
    word, _, rest = (await output.readline()).decode(errors="replace").strip().partition(" ")
    return word, rest


async def _pid(output: asyncio.StreamReader, program: str) -> int:
    word, rest = await _line(output)
    if word != "started":
        raise TargetError(f"{program} can't be run: {rest or 'its supervisor ended'}")
    return int(rest)


async def _exit_code(output: asyncio.StreamReader) -> int | None:
    word, rest = await _line(output)
    return int(rest) if word == "exited" else None


async def _await_end(process: asyncio.subprocess.Process, pid: int, grace_seconds: float, ended: "asyncio.Task[int | None] | None") -> None:
    try:
        async with asyncio.timeout(grace_seconds + 10):
            await process.wait()
    except asyncio.CancelledError:  # there is no time for its grace; the supervisor removes the rest
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        await _read_to_end(process, ended)
        raise
    except TimeoutError:  # the supervisor itself hangs
        process.kill()
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        await process.wait()


async def _read_to_end(process: asyncio.subprocess.Process, ended: "asyncio.Task[int | None] | None") -> None:
    """Wait until a process is gone and its pipe is closed, however often this is cancelled: a pipe that outlives the loop complains."""
    assert process.stdout is not None
    until = asyncio.get_running_loop().time() + _KILLED_SECONDS
    while asyncio.get_running_loop().time() < until:
        with contextlib.suppress(asyncio.CancelledError, TimeoutError):
            async with asyncio.timeout_at(until):
                await process.wait()
                if ended is not None:
                    await asyncio.wait({ended})  # it reads the pipe, too
                await process.stdout.read()
                return


async def poll_until(
    probe: Callable[[], Awaitable[bool]], *, seconds: float, what: str, child: Supervised | None = None, interval: float = _POLL_SECONDS
) -> None:
    """Poll until something outside this process is ready.

    Args:
        probe: Answers whether it is ready.
        seconds: The deadline.
        what: What is waited for, for the messages: "{what} is not ready after 60 s".
        child: The process that has to become ready; its end ends the wait at once.
        interval: Seconds between two polls.

    Raises:
        TargetError: The deadline passed, or the child ended; with the last lines of its log.
    """
    ended: set[asyncio.Future[int | None]] = {child.ended if child else asyncio.get_running_loop().create_future()}
    try:
        async with asyncio.timeout(seconds):
            while not await probe():
                done, _ = await asyncio.wait(ended, timeout=interval)
                if done and child:
                    raise TargetError(f"{what} ended while starting, exit code {child.exit_code}; its last lines:\n{child.last_lines()}")
    except TimeoutError:
        lines = f"; its last lines:\n{child.last_lines()}" if child else ""
        raise TargetError(f"{what} is not ready after {seconds:g} s{lines}") from None


def free_ports(count: int) -> list[int]:
    """Find TCP ports on 127.0.0.1 that are currently free.

    They lie below the range from which systems take the ports of outgoing connections: a broker that takes seconds to start
    would find such a port taken now and then, even by a connection of its own.

    Args:
        count: How many; all differ.

    Returns:
        The ports. Another process may take one before it is used: the caller should be ready to try others.

    Raises:
        TargetError: There are none.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise TargetError(f"no {count} free TCP ports from {_PORTS.start} to {_PORTS.stop - 1}")
