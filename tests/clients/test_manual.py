"""client:manual: a person lets their client do what the cases ask; here the person is a script with the reference client."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.clients.known import MANUAL
from conformance.clients.manual import ManualDriver, in_words
from conformance.clients.runner import run_clients
from conformance.drivers import reference
from conformance.engine.log import Result
from conformance.engine.verdict import Verdict
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_COULD_NOT_RUN, EXIT_USAGE
from conformance.judging.results import judge_log
from conformance.running.runner import Options, Silent
from conformance.suite import Suite

DEADLINE = 60.0
ADDRESS = re.compile(r"connect your client to (\S+)")
PRODUCER = re.compile(r"create a producer for the topic (?P<topic>\S+), without batches \(this is '(?P<name>\w+)' from now on\)")
SEND = re.compile(r"send (the message|\d+ messages,) (?P<texts>'\w+'(, '\w+')*) with the producer '(?P<producer>\w+)', and flush")
PATTERN = re.compile(
    r"subscribe to the pattern (?P<pattern>\S+) with subscription (?P<subscription>\w+) \(Exclusive\) \(this is '(?P<name>\w+)'"
)


class PersonWithClient:
    """Does with the reference client what is asked in plain words, and answers with one word where nothing else tells."""

    def __init__(self, word: str | None = None) -> None:
        self.said: list[str] = []
        self._word = word
        self._driver = reference.Driver(lambda _: None)
        self._tasks: list[asyncio.Task[Any]] = []

    def say(self, text: str) -> None:
        self.said.append(text)
        for line in text.splitlines():
            self._tasks.append(asyncio.get_running_loop().create_task(self._do(line)))

    async def _do(self, line: str) -> None:
        if found := ADDRESS.search(line):
            await self._driver.begin(found[1])
        elif found := PRODUCER.search(line):
            await self._driver.producer(**found.groupdict())
        elif found := SEND.search(line):
            await self._driver.send(found["producer"], re.findall(r"\w+", found["texts"]))
        elif found := PATTERN.search(line):
            await self._driver.consumer(**found.groupdict(), discovery_ms=1000)
        elif "end your client" in line:
            await self._driver.end()

    async def line(self) -> str:
        while self._word is None or "say how it went" not in self.said[-1]:
            await asyncio.sleep(0.02)
        await asyncio.wait([one for one in self._tasks if one is not asyncio.current_task()])
        return self._word

    async def gone(self) -> None:
        await self._driver.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class PersonWhoSays:
    """Has no client, and says the same to everything; None: says nothing."""

    def __init__(self, word: str | None) -> None:
        self._word = word

    def say(self, text: str) -> None: ...

    async def line(self) -> str:
        if self._word is None:
            await asyncio.Event().wait()
        assert self._word is not None
        return self._word

    async def gone(self) -> None: ...


def judged(
    suite: Suite, person: PersonWithClient | PersonWhoSays, case: str, capabilities: Sequence[str] = (), patience: float = DEADLINE
) -> Result:
    """Run a case with a person, and return its result."""

    async def run() -> Result:
        try:
            made, stopped = await run_clients(
                suite,
                replace(MANUAL, built=None),
                Options(select=[case], seed=1),
                lambda _: None,
                Silent(),
                lambda name, _, __: ManualDriver(name, person, capabilities, patience, {}),
            )
            assert stopped is None
            [result] = judge_log(suite, made).results
            return result
        finally:
            await person.gone()

    return asyncio.run(run())


def test_the_wire_shows_what_the_person_has_done(suite: Suite) -> None:
    person = PersonWithClient()
    assert judged(suite, person, "core/client/ping").verdict == Verdict.PASS
    assert "    the wire shows it" in person.said


def test_a_client_that_subscribes_to_a_pattern_needs_no_word(suite: Suite) -> None:
    can = ["pattern-consumers", "pattern-hash"]
    assert judged(suite, PersonWithClient(), "pip145/client/polled-set", can).verdict == Verdict.PASS


@pytest.mark.parametrize(("word", "verdict"), [("", Verdict.PASS), ("f no route to the broker", Verdict.FAIL)])
def test_where_a_clause_is_about_what_the_user_gets_the_person_is_asked(suite: Suite, word: str, verdict: Verdict) -> None:
    assert judged(suite, PersonWithClient(word), "core/client/producer-closed").verdict == verdict


@pytest.mark.parametrize(
    ("word", "verdict", "reason"),
    [
        ("s", Verdict.UNTESTABLE, "the person left it out"),
        ("n", Verdict.NOT_APPLICABLE, "the client does not offer this: create a producer for the topic"),
        (None, Verdict.UNTESTABLE, "within 0.2 s nobody let the client do this: create a producer for the topic"),
    ],
)
def test_what_nobody_does_says_nothing_of_the_client(suite: Suite, word: str | None, verdict: Verdict, reason: str) -> None:
    result = judged(suite, PersonWhoSays(word), "core/client/ping", patience=0.2)
    assert (result.verdict, result.summary[: len(reason)]) == (verdict, reason)


def test_a_person_is_not_believed_without_a_frame(suite: Suite) -> None:
    assert judged(suite, PersonWhoSays(""), "core/client/producer-closed").verdict in (Verdict.ERROR, Verdict.FAIL)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("core/client/permits", "it needs a driver: it judges what the user of the client sees (message)"),
        ("pip247/client/result-after-listener", "it needs a driver: it judges what the user of the client sees (partitions)"),
    ],
)
def test_what_only_the_user_of_the_client_sees_is_not_made_up(suite: Suite, case: str, reason: str) -> None:
    result = judged(suite, PersonWhoSays(""), case, ["partition-notifications", "partition-polling"])
    assert (result.verdict, result.summary) == (Verdict.UNTESTABLE, reason)


@pytest.mark.parametrize(
    ("verb", "arguments", "words"),
    [
        (
            "consumer",
            {"name": "c", "pattern": "persistent://public/default/orders-.*", "subscription": "s"},
            "subscribe to the pattern persistent://public/default/orders-.* with subscription s (Exclusive) (this is 'c' from now on)",
        ),
        (
            "consumer",
            {"name": "c", "topic": "t", "subscription": "s", "type": "Shared", "position": "Earliest", "queue": 4},
            "subscribe to the topic t with subscription s (Shared, from Earliest) (this is 'c' from now on); with queue 4",
        ),
        (
            "send",
            {"producer": "p", "texts": ["a", "b"], "flush": False},
            "send 2 messages, 'a', 'b' with the producer 'p', without a flush",
        ),
        (
            "producer",
            {"name": "p", "topic": "t", "batch": {"messages": 2}},
            "create a producer for the topic t, with batches of at most 2 messages, 60000 ms (this is 'p' from now on)",
        ),
        ("close", {"name": "p"}, "close 'p'"),
        ("start", {"operation_timeout_ms": 2000}, "create the client; with operation_timeout_ms 2000"),
    ],
)
def test_steps_are_told_in_plain_words(verb: str, arguments: dict[str, Any], words: str) -> None:
    assert in_words(verb, arguments) == words


class AtTerminal:
    """The command in a process of its own, with a terminal."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._terminal, inner = pty.openpty()
        words = [sys.executable, "-m", "conformance.cli", "run", "client:manual", "--report", str(folder), "--slow", "3", *arguments]
        self.process = subprocess.Popen(words, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
        os.close(inner)
        self.text = ""
        self._looked = 0

    async def until(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Wait for text that was not looked at yet."""
        while (found := pattern.search(self.text, self._looked)) is None:
            self.text += (await asyncio.to_thread(os.read, self._terminal, 4096)).decode()
        self._looked = found.end()
        return found

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._terminal, text.encode())

    async def end(self) -> int:
        """Wait for the end; return the exit code."""
        while True:
            try:
                self.text += (await asyncio.to_thread(os.read, self._terminal, 4096)).decode()
            except OSError:
                break
        os.close(self._terminal)
        return await asyncio.to_thread(self.process.wait, DEADLINE)


def test_a_person_at_a_terminal_judges_their_client(tmp_path: Path) -> None:
    async def play() -> tuple[int, str]:
        at = AtTerminal(tmp_path, "--select", "core/client/producer-closed")
        client = reference.Driver(lambda _: None)
        async with asyncio.timeout(DEADLINE):
            await client.begin((await at.until(ADDRESS))[1])
            await client.producer(**(await at.until(PRODUCER)).groupdict())
            for number in range(3):
                sent = await at.until(SEND)
                await client.send(sent["producer"], re.findall(r"\w+", sent["texts"]))
                if number:  # the wire does not show whether what is sent then is stored
                    await at.until(re.compile("say how it went"))
                    if number == 1:
                        at.type("what?\n")
                        await at.until(re.compile("n: my client has no such thing"))
                    at.type("\n")
            await at.until(re.compile("end your client"))
            await client.end()
            return await at.end(), at.text

    code, text = asyncio.run(play())
    assert code == EXIT_CONFORMANT, text
    assert json.loads((tmp_path / "results.json").read_text())["counts"]["cases"]["PASS"] == 1


def test_ctrl_c_ends_it_with_a_report(tmp_path: Path) -> None:
    async def play() -> tuple[int, str]:
        at = AtTerminal(tmp_path, "--select", "core/client/ping")
        async with asyncio.timeout(DEADLINE):
            await at.until(ADDRESS)
            at.process.send_signal(signal.SIGINT)
            return await at.end(), at.text

    code, text = asyncio.run(play())
    assert code == EXIT_COULD_NOT_RUN, text
    assert (tmp_path / "report.html").exists()
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "client:manual needs a terminal"),
        (("--jobs", "2"), "a person does one thing at a time"),
        (("--record",), "--record needs a driver"),
        (("--claim", "message-filter"), "--claim of a client is one of pattern-consumers"),
    ],
)
def test_what_no_person_can_do_is_refused(arguments: tuple[str, ...], words: str) -> None:
    command = [sys.executable, "-m", "conformance.cli", "run", "client:manual", *arguments]
    made = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    assert (made.returncode, words in made.stderr) == (EXIT_USAGE, True)
