"""The reference as a target: its child process is always stopped, its settings and profile arrive, and in process it needs no time."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.engine.frames import build_frame
from conformance.running.connection import Connection
from conformance.running.probe import probe
from conformance.targets import AdminClient, Endpoint, SettingsRefused, Target, connect_answer, parse_target
from conformance.targets.properties import properties_text, read_properties
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.wire import command_name

DEADLINE = 60.0
BROKER = [sys.executable, "-m", "conformance.cli", "broker"]


def run(target: Target, work) -> object:
    with asyncio.Runner(loop_factory=VirtualTimeLoop if target.virtual_time else None) as runner:
        return runner.run(work(target))


@asynccontextmanager
async def running(target: Target, **config: str) -> AsyncIterator[tuple[Endpoint, AdminClient]]:
    async with target.run(config) as endpoint, AdminClient(endpoint) as admin:
        yield endpoint, admin


@contextmanager
def broker_process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict]]:
    with subprocess.Popen([*BROKER, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


KINDS = ["reference", "reference@as-written", "in-process", "in-process@as-written"]


@pytest.mark.parametrize("text", KINDS)
def test_settings_profile_and_capabilities(text):
    target = parse_target(text)
    assert (target.name, target.release, target.startable) == (text, None, True)
    assert target.profile == ("as-written" if text.endswith("as-written") else "default")

    async def work(target):
        async with running(target, subscriptionPatternMaxLength="40") as (endpoint, admin):
            settings = (await admin.call("runtime_configuration")).body
            assert settings["subscriptionPatternMaxLength"] == "40"
            assert (await admin.call("create_namespace", "public/x")).status == 204
            assert (await admin.call("create_topic", "persistent://public/x/a b%2Fé")).status == 204
            assert (await admin.call("list_topics", "public/x")).body == ["persistent://public/x/a b%2Fé"]
            assert (await admin.call("broker_health")).body == "ok"
            assert (await admin.remove_namespace("public/x")).status == 204
            assert (await admin.remove_namespace("public/x")).status == 404
            return (await probe(endpoint)).capabilities

    found = run(target, work)
    assert not found["regex-look-around"]
    assert found["admin"]
    assert found["topic-list-watch"]


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_delayed_delivery_is_what_the_settings_say(enabled):
    async def work(target):
        async with running(target, delayedDeliveryEnabled=enabled) as (endpoint, _):
            return (await probe(replace(endpoint, capabilities={}))).capabilities["delayed-delivery"]

    assert run(parse_target("reference"), work) == (enabled == "true")


@pytest.mark.parametrize("text", ["reference", "in-process"])
def test_settings_that_it_does_not_know_are_refused_before_it_starts(text):
    async def work(target):
        with pytest.raises(SettingsRefused, match=f"{text}: unknown setting 'keepAliveIntervalSecond'; did you mean"):
            async with target.run({"keepAliveIntervalSecond": "1"}):
                raise AssertionError

    run(parse_target(text), work)


def test_the_child_is_gone_after_its_block_and_after_an_error_in_it():
    async def work(target):
        endpoints = []

        async def fail() -> None:
            async with target.run() as endpoint:
                endpoints.append(endpoint)
                assert await connect_answer(endpoint) == "connected"
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert await connect_answer(endpoints[0]) == "none"
        assert not endpoints[0].log_file.parent.exists()

    run(parse_target("reference"), work)


def test_the_child_is_gone_when_its_starter_is_killed():
    script = (
        "import asyncio, json\nfrom conformance.targets import parse_target\n"
        "async def main():\n    async with parse_target('reference').run() as endpoint:\n"
        "        line = next(x for x in endpoint.log_file.read_text().splitlines() if x.startswith('{'))\n"
        "        print(json.dumps({**json.loads(line), 'log': str(endpoint.log_file)}), flush=True)\n"
        "        await asyncio.Event().wait()\nasyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as starter:
        ready = json.loads(starter.stdout.readline())
        assert alive(ready["pid"])
        starter.kill()
        starter.communicate(timeout=DEADLINE)  # the supervisor and the broker hold no pipe of it, so wait for their ends below

    async def gone() -> None:
        async with asyncio.timeout(DEADLINE):
            while alive(ready["pid"]) or Path(ready["log"]).parent.exists():
                await asyncio.sleep(0.05)

    asyncio.run(gone())


def test_connections_in_process_end_like_others():
    async def work(target):
        names, closed = [], []
        async with target.run() as endpoint:
            connection = Connection(lambda frame: names.append(command_name(frame.command)), lambda *_: None, closed.append)
            await connection.open(endpoint, 1.0)
            await connection.send(build_frame({"connect": {"client_version": "x", "protocol_version": 21}}), 1.0)
            connection.drain()
            assert names == ["connected"]
            await asyncio.sleep(61)
            assert names == ["connected", "ping"]
            assert closed == ["fin"]
            await connection.send(b"unheard", 1.0)
            connection.close()
            again = Connection(lambda _: None, lambda *_: None, closed.append)
            await again.open(endpoint, 1.0)
        assert closed == ["fin", "rst"]

    run(parse_target("in-process"), work)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_broker_command_serves_until_it_is_told_to_stop(number, tmp_path):
    settings = tmp_path / "broker.conf"
    settings.write_text("# a comment\nclusterName = here\n\n! another\nmaxMessageSize=\\\n  1000\n")
    with broker_process("--config-file", str(settings), "--config", "maxMessageSize=2000", "--profile", "as-written") as (process, ready):
        assert (ready["profile"], ready["pid"]) == ("as-written", process.pid)
        endpoint = Endpoint(name="x", service_url=ready["service_url"], admin_url=ready["admin_url"])

        async def look() -> object:
            async with AdminClient(endpoint) as admin:
                return (await admin.call("runtime_configuration")).body

        found = asyncio.run(look())
        assert (found["clusterName"], found["maxMessageSize"]) == ("here", "2000")
        process.send_signal(number)
        rest, errors = process.communicate(timeout=DEADLINE)
        assert (process.returncode, rest, errors) == (0, "", "")


def test_broker_command_logs_only_when_asked():
    with broker_process("--verbose") as (process, ready):
        asyncio.run(connect_answer(Endpoint(name="x", service_url=ready["service_url"])))
        assert "has ended" in process.stderr.readline()
        process.terminate()
        rest, _ = process.communicate(timeout=DEADLINE)
        assert (process.returncode, rest) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["0.0.0.0"], "127.0.0.1"),
        (["127.0.0.3"], "127.0.0.3"),
        (["0.0.0.0", "--config", "advertisedAddress=Broker.example"], "Broker.example"),
    ],
)
def test_a_broker_that_others_reach_tells_them_an_address_that_they_reach(arguments, told):
    with broker_process("--host", *arguments) as (_, ready):
        url, port = (ready[key].rpartition(":") for key in ("admin_url", "service_url"))
        assert (url[0], port[0]) == (f"http://{told}", f"pulsar://{told}")
        asked = http.client.HTTPConnection("127.0.0.3", int(url[2]), timeout=DEADLINE)
        asked.request("GET", "/lookup/v2/topic/persistent/public/default/t", headers={"Host": f"{told}:{url[2]}"})
        answer = asked.getresponse()
        assert (answer.status, json.loads(answer.read())["brokerUrl"]) == (200, ready["service_url"])
        asked.close()
        assert asyncio.run(connect_answer(Endpoint(name="x", service_url=f"pulsar://127.0.0.3:{port[2]}"))) == "connected"


def test_port_in_use_is_one_line():
    with broker_process() as (_, ready):
        port = ready["service_url"].rpartition(":")[2]
        for option in ("--port", "--admin-port"):
            done = subprocess.run([*BROKER, option, port], capture_output=True, text=True, timeout=DEADLINE, check=False)
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr == f"127.0.0.1:{port}: Address already in use: choose another port, or 0 for a free one\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--config", "x=1"], "unknown setting 'x'"),
        (["--config", "x"], "--config KEY=VALUE: what is given has no '='"),
        (["--config", "keepAliveIntervalSeconds=often"], "keepAliveIntervalSeconds is a whole number from 1, not 'often'"),
        (["--config-file", "no-such-file"], "no-such-file can't be read: No such file or directory"),
        (["--profile", "x"], "--profile is default or as-written, not 'x'"),
        (["--set", "close_answr=as-written"], "--set: a profile has no field 'close_answr'; did you mean 'close_answer'?"),
        (
            ["--set", "pattern_length_limited=x"],
            "--set pattern_length_limited: true, false, or one of the profiles default and as-written, not 'x'",
        ),
        (
            ["--set", "close_answer=x"],
            "--set close_answer: success, watch_topic_list_success, or one of the profiles default and as-written, not 'x'",
        ),
        (["--config", "advertisedAddress=broker:6650"], "advertisedAddress is a host without a port, or nothing, not 'broker:6650'"),
        (["--host", "localhost"], "--host is an IPv4 address of this machine, or 0.0.0.0 for all of them, not 'localhost'"),
        (["--host", "192.0.2.1"], "192.0.2.1:0: Cannot assign requested address"),
        (["--config", "authenticationEnabled=true"], "authenticationEnabled needs tokenSecretKey in the form data:;base64,..."),
    ],
)
def test_wrong_usage_of_the_broker_command_is_one_line(arguments, line):
    done = subprocess.run([*BROKER, *arguments], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{line}\n")


def test_properties_are_read_as_they_are_written():
    values = {"a": "", "b.c": " leading", "d": "back\\slash\\", "e": "é😀\t", "f": "a=b:c#d"}
    assert read_properties("x", properties_text("x", values)) == values
    with pytest.raises(Exception, match=r"x:3: this is not a setting \(a line is KEY=VALUE\)"):
        read_properties("x", "a=1\n\nno setting\n")
