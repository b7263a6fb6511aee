"""What a hostile target, or a broken file, can't do to the suite."""

import asyncio
import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance import files
from conformance.cli import app
from conformance.engine import log
from conformance.engine.source import SourceProblem, read_source
from conformance.engine.verdict import Verdict
from conformance.explore.player import Player, Step
from conformance.interruption import ending_soon
from conformance.judging.baseline import load_baseline
from conformance.judging.results import Judged, RunLog
from conformance.running import exchange, recorder, runner
from conformance.running.connection import Allowance
from conformance.targets import TargetError
from tests.fakes.peers import DripOfPings, EndlessPings, running
from tests.fakes.runs import judged


def test_a_flood_ends_the_probe(add):
    with pytest.raises(TargetError, match="floods: it sends more than 22 MB, or 2816 frames, in one conversation"):
        judged(add(), EndlessPings("connect"))


def test_a_drip_does_not_lengthen_the_time_to_answer(add, monkeypatch):
    monkeypatch.setattr(exchange, "_SECONDS", 0.3)

    async def in_time():
        async with asyncio.timeout(10):
            await asyncio.to_thread(judged, add(), DripOfPings())

    with pytest.raises(TargetError, match=r"does not answer connect within 0\.3 s"):
        asyncio.run(in_time())


def test_a_flood_in_a_conversation_ends_the_conversation(add, ping):
    waiting = ping.replace("pong: {}", "success: {}").replace("ambient: []\n", "")
    results, records, stopped = judged(add(waiting), EndlessPings("ping"))
    assert stopped is None
    assert results[0].verdict == Verdict.ERROR
    assert "the target floods" in results[0].summary
    assert sum(record.record == "frame" for record in records) < 2816 * 3


def test_a_run_keeps_no_more_than_it_has_room_for(add, ping, monkeypatch):
    monkeypatch.setattr(runner, "_IN_A_RUN", 1 << 20)
    _, records, stopped = judged(add(ping.replace("pong: {}", "success: {}").replace("ambient: []\n", "")), EndlessPings("ping"))
    assert stopped is not None
    assert "it floods" in stopped
    assert sum(record.record == "frame" for record in records) < 300


def test_a_flood_ends_an_exploration():
    async def flooded():
        async def settle(player):
            async with asyncio.timeout(30):
                while player._allowance.room >= 0:
                    await asyncio.sleep(0.01)

        async with running(EndlessPings("connect")) as target:
            player = Player(target.endpoint, None, None, {}, settle)
            player.steps.append(Step(None))
            await player._opened("a")
            await player.settle()

    with pytest.raises(TargetError, match="the target floods"):
        asyncio.run(flooded())


def test_an_allowance_is_part_of_another_one():
    whole = Allowance(10)
    one, other = Allowance(8, whole), Allowance(8, whole)
    assert one.take(8)
    assert not one.take(1)
    assert not other.take(2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_exploration_ends_by_each_signal(tmp_path, number):
    explore = [sys.executable, "-u", "-m", "conformance.cli", "explore", "in-process", "--report", str(tmp_path)]
    with subprocess.Popen(explore, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert "exploring" in process.stdout.readline()
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 3, output
    assert "interrupted" in output


def test_what_hinders_the_end_is_cancelled_too():
    async def cleans_for_ever():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            try:
                await asyncio.gather(asyncio.sleep(60), asyncio.sleep(60))
            except asyncio.CancelledError:
                return "kept"

    async def main():
        asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)
        return await ending_soon(cleans_for_ever())

    assert asyncio.run(main()) == "kept"


LEVELS = 20_000
ALIASES = "a: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(f"k{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ALIASES, "more than 100000 values, with those that aliases repeat"),
        ("[" * LEVELS, "not YAML"),
        ("".join(" " * n + "- \n" for n in range(2000)), "nested too deep"),
        ("a: " + "9" * 10_000, "not YAML"),
        ("a" * (files.SETTINGS + 1), "it holds more than 8 MB"),
    ],
    ids=["aliases", "brackets", "levels", "digits", "size"],
)
def test_a_file_that_would_take_all_memory_is_refused(tmp_path, text, words):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(SourceProblem, match=words):
        read_source(path)


def test_problems_of_a_file_have_an_end(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(f"format: 1\ntarget: x\nentries: [{','.join('x' * 9000)}]\n")
    with pytest.raises(SourceProblem) as caught:
        load_baseline("x", path)
    assert len(caught.value.problems) == 51
    assert caught.value.problems[-1].endswith("and 8950 more")


def command(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.parametrize("text", [f"name = {'[' * LEVELS}", f"name = {'9' * 10_000}"])
def test_a_target_file_that_can_not_be_read_is_wrong_usage(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text)
    assert command("run", path).exit_code == 2


@pytest.mark.parametrize("arguments", [("run", "--token-file"), ("broker", "--config-file"), ("report",)])
def test_a_device_is_no_file(arguments):
    result = command(arguments[0], *(["pulsar://127.0.0.1:1"] if arguments[0] == "run" else []), *arguments[1:], "/dev/zero")
    assert result.exit_code == 2
    assert "it is no file" in result.stderr


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_would_take_all_memory_is_refused(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(files, "LOG", 1 << 20)
    path = tmp_path / "events.jsonl"
    path.write_bytes(gzip.compress(b" " * (2 << 20)) if packed else b" " * (2 << 20))
    result = command("report", path)
    assert result.exit_code == 2
    assert "it holds more than 1 MB" in result.stderr


HEADER = log.dump(log.Header(suite="1", transcripts="", target="../../x", started="")) + "\n"


def test_a_log_that_no_run_can_have_written_is_wrong_usage(tmp_path, suite, monkeypatch):
    monkeypatch.setattr("conformance.commands.loading.load_suite", lambda **_: suite)
    events = (log.TrialStarted(key="k", case="no/such", actions=""), log.Frame(key="k", n=0, t=0, at="c", data="zz"))
    path = tmp_path / "events.jsonl"
    path.write_text(HEADER + "".join(log.dump(one) + "\n" for one in events))
    result = command("report", path)
    assert result.exit_code == 2
    assert "can't be judged" in result.stderr


def test_a_log_is_judged_up_to_where_it_is_cut(tmp_path, suite, monkeypatch):
    monkeypatch.setattr("conformance.commands.loading.load_suite", lambda **_: suite)
    path = tmp_path / "events.jsonl"
    path.write_bytes((HEADER + '{"record":"lag","key":"ä').encode()[:-1])
    result = command("report", path)
    assert result.exit_code == 3
    assert "the log is cut in the middle of line 2" in result.stdout
    path.write_text(HEADER + '{"record":\n' + HEADER)
    assert command("report", path).exit_code == 2


def test_the_name_of_a_target_is_no_path(tmp_path, monkeypatch):
    monkeypatch.setattr("conformance.judging.baseline.HOME", tmp_path / "baselines")
    (tmp_path / "baselines").mkdir()
    (tmp_path / "x.yaml").write_text("this is not a baseline")
    for name in ("../x", str(tmp_path / "x"), "a\0b", "x" * 300, ".", ".."):
        assert load_baseline(name).entries == []
    with pytest.raises(ValueError, match="can't name a folder"):
        recorder.save(RunLog(log.Header(suite="1", transcripts="", target="../x", started=""), {}), Judged([]), tmp_path / "recordings")
    assert command("run", "pulsar://127.0.0.1:1", "--record", "--report", tmp_path / "r").exit_code == 2


HOLD = "import sys, pathlib; from conformance.files import alone_in\nwith alone_in(pathlib.Path(sys.argv[1])): print('held', flush=True); input()"


def test_a_folder_is_for_one_run_at_a_time(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(OSError, match="another run writes its report there"), files.alone_in(tmp_path):
            pass
        result = command("run", "pulsar://127.0.0.1:1", "--select", "core/handshake/connected", "--report", tmp_path)
        assert result.exit_code == 3
        assert "another run writes its report there: choose another --report folder" in result.stderr
        other.kill()
    with files.alone_in(tmp_path):  # what a process that was killed had held is free
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("arguments", [("--config", "geheim"), ("--config-file", "settings.conf")])
def test_what_may_be_a_secret_is_not_printed(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.conf").write_text("tokenSecretKey: geheim\n")
    result = command("broker", *arguments)
    assert result.exit_code == 2
    assert "geheim" not in result.stderr
