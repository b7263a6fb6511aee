"""Children that never outlive their starter, and targets that a command starts."""

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.targets import Endpoint, StartedTarget, TargetError, connect_answer, parse_target
from conformance.targets import supervise as supervise_module
from conformance.targets.connect_probe import connect_frame
from conformance.targets.process import free_ports, poll_until, supervised

SUPERVISOR = str(supervise_module.__file__)
DEADLINE = 60.0

# Holds a pipe open for as long as it or the child of its own lives, and ends only when it is killed.
STUBBORN = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pipe = os.open(sys.argv[1], os.O_WRONLY)
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, __file__, sys.argv[1], "inner"])
os.write(pipe, b"up\\n")
signal.pause()
"""

# Answers each CONNECT with CONNECTED (protocol version 21), as often as it is asked.
FAKE_BROKER = """
import pathlib, socket, sys
print("listening on", sys.argv[1], flush=True)
if len(sys.argv) > 2:
    print("settings", pathlib.Path(sys.argv[2]).read_text(), flush=True)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    with server.accept()[0] as peer:
        peer.recv(4096)
        peer.sendall(bytes.fromhex("0000000d 00000009 0803 1a05 0a0178 1015".replace(" ", "")))
"""


class Pipe:
    """The reading end of a named pipe: its end is the end of every process that holds the other one."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self) -> bytes:
        ready, _, _ = select.select([self.reader], [], [], DEADLINE)
        assert ready, "nothing came through the pipe in time"
        return os.read(self.reader, 100)

    def read_to_end(self) -> None:
        while self.read():
            pass


@contextmanager
def stubborn_child(folder: Path) -> Iterator[tuple[Pipe, list[str]]]:
    script = folder / "stubborn.py"
    script.write_text(STUBBORN)
    pipe = Pipe(folder / "pipe")
    try:
        yield pipe, [sys.executable, str(script), str(folder / "pipe")]
    finally:
        os.close(pipe.reader)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_child_and_its_children_end_when_the_starter_is_killed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with stubborn_child(tmp_path) as (pipe, command):
        line = [sys.executable, "-I", "-S", SUPERVISOR, "--grace", "0.2", "--remove", str(work), "--", *command]
        starter_script = f"import subprocess, sys\nsubprocess.Popen({line!r}, stdin=subprocess.PIPE, start_new_session=True).wait()"
        starter = subprocess.Popen([sys.executable, "-c", starter_script], stdout=subprocess.PIPE)
        assert starter.stdout is not None
        word, pid = starter.stdout.readline().split()
        assert word == b"started"
        up = b""
        while up.count(b"up") < 2:
            up += pipe.read()
        starter.kill()
        starter.communicate(timeout=DEADLINE)  # the supervisor holds this pipe as well: it has ended too
        pipe.read_to_end()
        assert gone(int(pid))
        assert not work.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_supervisor_with_its_child(tmp_path: Path, number: signal.Signals) -> None:
    with stubborn_child(tmp_path) as (pipe, command):
        line = [sys.executable, "-I", "-S", SUPERVISOR, "--grace", "0.2", "--", *command]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
            assert pipe.read().startswith(b"up")
            supervisor.send_signal(number)
            assert supervisor.wait(timeout=DEADLINE) == 0
            pipe.read_to_end()


def test_leaving_the_block_ends_the_child(tmp_path: Path) -> None:
    async def main(pipe: Pipe, command: list[str]) -> None:
        work = tmp_path / "work"
        work.mkdir()
        async with supervised(command, log=tmp_path / "log", cwd=tmp_path, grace_seconds=0.2, remove=work):
            assert (await asyncio.to_thread(pipe.read)).startswith(b"up")
            raise ZeroDivisionError

    with stubborn_child(tmp_path) as (pipe, command):
        with pytest.raises(ZeroDivisionError):
            asyncio.run(main(pipe, command))
        pipe.read_to_end()
        assert not (tmp_path / "work").exists()


def test_a_cancelled_block_ends_the_child(tmp_path: Path) -> None:
    async def main(pipe: Pipe, command: list[str]) -> None:
        async with supervised(command, log=tmp_path / "log", cwd=tmp_path, grace_seconds=0.2):
            await asyncio.to_thread(pipe.read)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.Event().wait()

    with stubborn_child(tmp_path) as (pipe, command):
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main(pipe, command))
        pipe.read_to_end()


@pytest.mark.parametrize("more", [1, 2, 3, 10])
def test_a_block_that_is_cancelled_again_and_again_leaves_nothing_open(tmp_path: Path, more: int) -> None:
    async def work(pipe: Pipe, command: list[str]) -> None:
        async with supervised(command, log=tmp_path / "log", cwd=tmp_path, grace_seconds=30):
            await asyncio.to_thread(pipe.read)
            await asyncio.Event().wait()

    async def main(pipe: Pipe, command: list[str]) -> None:
        task = asyncio.create_task(work(pipe, command))
        await asyncio.to_thread(select.select, [], [], [], 1.0)
        for _ in range(1 + more):
            for one in asyncio.all_tasks() - {asyncio.current_task()}:
                one.cancel()
            await asyncio.sleep(0.01)
        await asyncio.wait({task})

    complaints: list[object] = []
    with stubborn_child(tmp_path) as (pipe, command), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda one: complaints.append(one.exc_value))
        asyncio.run(main(pipe, command))
        pipe.read_to_end()
        gc.collect()
    assert complaints == []


def test_a_child_that_ends_by_itself_is_noticed_at_once(tmp_path: Path) -> None:
    async def main() -> int | None:
        command = [sys.executable, "-c", "print('some output'); raise SystemExit(7)"]
        async with supervised(command, log=tmp_path / "log", cwd=tmp_path, grace_seconds=5) as child:
            code = await child.wait(DEADLINE)
            assert child.last_lines() == "  some output"
            return code

    assert asyncio.run(main()) == 7


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with supervised(["/no/such/program"], log=tmp_path / "log", cwd=tmp_path, grace_seconds=5):
            raise AssertionError

    with pytest.raises(TargetError, match=r"/no/such/program can't be run: .*No such file or directory"):
        asyncio.run(main())


def test_an_error_in_the_block_tells_that_the_child_had_ended(tmp_path: Path) -> None:
    async def main() -> None:
        command = [sys.executable, "-c", "print('last words')"]
        async with supervised(command, log=tmp_path / "log", cwd=tmp_path, grace_seconds=5) as child:
            await child.wait(DEADLINE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(main())
    assert caught.value.__notes__ == [f"{sys.executable} had ended with exit code 0; its last lines:\n  last words"]


def test_polling_has_a_deadline() -> None:
    async def never() -> bool:
        return False

    with pytest.raises(TargetError, match=r"^the thing is not ready after 0.05 s$"):
        asyncio.run(poll_until(never, seconds=0.05, what="the thing", interval=0.01))


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_the_supervisor_imports_nothing_that_is_slow() -> None:
    script = f"""
import sys, runpy
runpy.run_path({SUPERVISOR!r})
print([name for name in sys.modules if name.split(".")[0] in ("conformance", "asyncio")])
"""
    assert subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def fake_broker_file(folder: Path, extra: str = "", script: str = FAKE_BROKER) -> Path:
    (folder / "fake.py").write_text(textwrap.dedent(script))
    path = folder / "target.toml"
    path.write_text(
        f'name = "fake"\n[start]\ncommand = ["{sys.executable}", "fake.py", "{{service_port}}"{extra}]\nready_timeout_seconds = 60\n'
    )
    return path


@pytest.mark.parametrize("raises", [False, True])
def test_a_command_is_started_and_stopped(tmp_path: Path, raises: bool) -> None:
    target = parse_target(str(fake_broker_file(tmp_path)))
    endpoints: list[Endpoint] = []
    lines: list[str] = []

    async def main() -> None:
        async with target.run(progress=lines.append) as endpoint:
            endpoints.append(endpoint)
            assert await connect_answer(endpoint) == "connected"
            assert endpoint.log_file is not None
            assert "listening on" in endpoint.log_file.read_text()
            if raises:
                raise ZeroDivisionError

    if raises:
        with pytest.raises(ZeroDivisionError):
            asyncio.run(main())
    else:
        asyncio.run(main())
    (endpoint,) = endpoints
    assert asyncio.run(connect_answer(endpoint)) == "none"
    assert endpoint.log_file is not None
    assert not endpoint.log_file.parent.exists()
    assert lines == [f"starting fake: {sys.executable} fake.py {endpoint.port}"]


def test_settings_reach_a_command_that_takes_them(tmp_path: Path) -> None:
    target = parse_target(str(fake_broker_file(tmp_path, ', "{config_file}"')))

    async def main() -> str:
        async with target.run({"someKey": "é \\ x", "flag": "false"}) as endpoint:
            assert endpoint.log_file is not None
            return endpoint.log_file.read_text()

    assert "settings someKey=\\u00e9 \\\\ x\nflag=false\n" in asyncio.run(main())


def test_settings_are_refused_where_they_can_not_be_given(tmp_path: Path) -> None:
    async def run(text: str) -> None:
        async with parse_target(text).run({"b": "1", "a": "2"}):
            raise AssertionError

    with pytest.raises(TargetError, match=r"^fake can't be given the settings a, b .its start command has no {config_file}.$"):
        asyncio.run(run(str(fake_broker_file(tmp_path))))
    with pytest.raises(TargetError, match=r"^pulsar://h:1 can't be given the settings a, b .a target file lets the suite start it"):
        asyncio.run(run("pulsar://h:1"))


@pytest.mark.parametrize("listed", [{}, {"a": "2"}, {"a": "3"}])
def test_a_running_broker_has_the_settings_that_it_lists_or_is_said_to_have(
    monkeypatch: pytest.MonkeyPatch, listed: dict[str, str]
) -> None:
    async def listing(_: Endpoint) -> dict[str, str]:
        return listed

    async def run(*said: str) -> str:
        async with parse_target("pulsar://h:1", settings=said).run({"b": "true", "a": "2"}) as endpoint:
            return endpoint.service_url

    monkeypatch.setattr("conformance.targets.attached.listed_settings", listing)
    assert asyncio.run(run("a=2", "b=true")) == "pulsar://h:1"
    wanting = "b" if listed == {"a": "2"} else "a, b"
    with pytest.raises(TargetError, match=rf"^pulsar://h:1 can't be given the settings {wanting} .*--setting"):
        asyncio.run(run("b=false"))


def test_a_command_without_settings_may_be_said_to_have_some(tmp_path: Path) -> None:
    target = parse_target(str(fake_broker_file(tmp_path)), settings=["a=2"])

    async def main() -> bool:
        async with target.run({"a": "2"}):
            return True

    assert asyncio.run(main())


def test_an_attached_target_yields_its_endpoint() -> None:
    async def main() -> str:
        async with parse_target("pulsar://h:1").run() as endpoint:
            return endpoint.service_url

    assert asyncio.run(main()) == "pulsar://h:1"


def test_a_command_that_dies_while_starting_gives_its_last_lines(tmp_path: Path) -> None:
    script = "for i in range(30): print('line', i)\nraise SystemExit(4)"
    target = parse_target(str(fake_broker_file(tmp_path, script=script)))

    async def main() -> None:
        async with target.run():
            raise AssertionError

    with pytest.raises(TargetError) as caught:
        asyncio.run(main())
    lines = "\n".join(f"  line {i}" for i in range(15, 30))
    assert str(caught.value) == f"fake ended while starting, exit code 4; its last lines:\n{lines}"


def test_a_command_that_refuses_connect_is_told_apart(tmp_path: Path) -> None:
    script = FAKE_BROKER.replace("0000000d 00000009 0803 1a05 0a0178 1015", "00000006 00000002 080e")
    (tmp_path / "fake.py").write_text(script)
    target = StartedTarget(
        endpoint=Endpoint(name="fake", service_url="pulsar://127.0.0.1:{service_port}"),
        command=(sys.executable, "fake.py", "{service_port}"),
        folder=tmp_path,
        ready_seconds=6.0,
    )

    async def main() -> None:
        async with target.run():
            raise AssertionError

    with pytest.raises(
        TargetError, match=r"^fake refuses CONNECT; fake is not ready after 6 s; its last lines:\n  listening on \d+ .does it need"
    ):
        asyncio.run(main())


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes.fromhex("00000006000000020812")])
def test_what_is_no_broker_does_not_pass_for_one(answer: bytes) -> None:
    async def main() -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await connect_answer(Endpoint(name="e", service_url=f"pulsar://127.0.0.1:{port}"))

    began = time.monotonic()
    assert asyncio.run(main()) == "none"
    assert time.monotonic() - began < DEADLINE


def test_connect_is_the_frame_that_brokers_read() -> None:
    client_version = b"\x0a\x12pulsar-conformance"
    assert connect_frame(None) == bytes.fromhex("0000001e 0000001a 0802 1216") + client_version + b"\x20\x15"
    long_token = "t" * 200
    assert b"\x1a\xc8\x01" + long_token.encode() + b"\x20\x15\x2a\x05token" in connect_frame(("token", long_token))
