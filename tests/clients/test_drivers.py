"""A driver that hangs, lies, floods, ends or prints something else: a refusal that says why, or a verdict, and never PASS."""

import asyncio
import gzip
import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import pulsar
import pytest

from conformance.clients.driver import Driver, DriverError
from conformance.clients.known import ClientTarget, parse_client
from conformance.clients.lint import lint
from conformance.clients.runner import run_clients
from conformance.clients.verbs import EVENTS, VERBS, problem
from conformance.drivers import python
from conformance.engine.log import Begin, Result, Told, load
from conformance.engine.source import read_source
from conformance.engine.verdict import Verdict
from conformance.judging.results import judge_log
from conformance.names import HOME
from conformance.running.runner import Options, Silent
from conformance.suite import Suite
from conformance.targets.model import TargetError

BAD_DRIVER = Path(__file__).parents[1] / "fakes" / "bad_driver.py"
CASE = "core/client/permits"
BREAKS_ITS_PROTOCOL = {
    "crashes": "it has ended with exit code 3; its log ends with\n  no memory left",
    "garbage": "it printed a line that is not JSON: b'Connected to the broker!",
    "endless": "it printed a line of more than 1,048,576 bytes",
    "another id": "it answers request 1003, which nobody asked",
    "not UTF-8": "it printed a line that is not JSON",
    "half a character": "it printed a line that is not JSON",
    "deep": "it printed a line that is not JSON",
    "deep detail": "it printed a line that is not JSON",
    "not a number": "it printed a line that is not JSON",
    "too many digits": "it printed a line that is not JSON",
    "half a line": "it printed a line that is not JSON",
    "a list": "it printed a line that is not of the protocol",
    "closes its output": "it has closed its standard output",
}
"""Ways to end a conversation, and what is said of it."""
SAYS_NO_HELLO = {
    "newer": "speaks protocol 2; this suite speaks 1",
    "newer, other words": "speaks protocol 2; this suite speaks 1",
    "refuses": "does not say hello: NullPointerException",
    "unknown capability": "unknown capabilities: patern-hash; known: pattern-consumers",
    "garbage": "it printed a line that is not JSON",
    "crashes": "no memory left",
    "answers twice": "says hello in another way",
    "hangs": "has not answered hello in",
}
DOES_NOTHING = ("lies", "hangs", "refuses")
SILENT_CASES = ["core/client/producer-closed", "core/client/highest-sequence", "pip145/client/closes", "pip191/client/refused*"]
"""What these look for is that something does not come, or that the client refuses."""
NEVER_CONNECTED = [("lies", "producer"), ("refuses", "producer"), ("refuses", "send"), ("lies of ids", "send")]
AT_ONCE = 6
"""Runs at a time: most of them wait for a deadline."""


async def judged(suite: Suite, cases: Sequence[str], *way: str, slow: float = 0.3) -> list[Result]:
    """Run cases with a driver that is bad in a way, and return their results."""
    target = ClientTarget("client:bad", [sys.executable, str(BAD_DRIVER), *way])
    run, stopped = await run_clients(suite, target, Options(select=cases, seed=1, slow=slow), lambda _: None, Silent())
    assert stopped is None
    return list(judge_log(suite, run).results)


@pytest.fixture(scope="module", name="said")
def what_is_said_of_all(suite: Suite) -> dict[tuple[str, ...], list[Result] | BaseException]:
    """Return what is said of each bad driver; they run side by side, so that their deadlines pass together."""
    runs: dict[tuple[str, ...], tuple[Sequence[str], float]] = {
        **{(way, "hello"): ([CASE], 0.3) for way in SAYS_NO_HELLO},
        **{(way, "consumer"): ([CASE], 0.6) for way in DOES_NOTHING},
        **dict.fromkeys(NEVER_CONNECTED, (SILENT_CASES, 0.05)),
        **{(way,): ([CASE], 3.0) for way in (*BREAKS_ITS_PROTOCOL, "unsupported")},  # no deadline is waited for
    }

    async def run_all() -> list[list[Result] | BaseException]:
        free = asyncio.Semaphore(AT_ONCE)

        async def one(way: tuple[str, ...], cases: Sequence[str], slow: float) -> list[Result]:
            async with free:
                return await judged(suite, cases, *way, slow=slow)

        return await asyncio.gather(*(one(way, *what) for way, what in runs.items()), return_exceptions=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conformance.clients.driver.START_SECONDS", 10.0)
        return dict(zip(runs, asyncio.run(run_all()), strict=True))


@pytest.mark.parametrize("way", BREAKS_ITS_PROTOCOL)
def test_a_driver_that_breaks_its_protocol_is_an_error_of_the_harness(said: dict[tuple[str, ...], list[Result]], way: str) -> None:
    [result] = said[way,]
    assert result.verdict == Verdict.ERROR
    assert BREAKS_ITS_PROTOCOL[way] in str(result.observed) + result.diagnosis + result.summary


@pytest.mark.parametrize("way", ["floods", "floods with little"])
def test_a_driver_that_floods_passes_nothing_and_costs_no_memory(suite: Suite, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.running.conversation.IN_ONE_CONVERSATION", 2 << 20)  # what it may say, whatever the bound is
    [result] = asyncio.run(judged(suite, [CASE], way, slow=3))  # so that the deadline of the case does not come before
    assert (result.verdict, "the client or its driver floods" in result.summary) == (Verdict.ERROR, True)


def test_drivers_start_one_after_the_other_and_run_side_by_side(suite: Suite) -> None:
    class Counted(Driver):
        starting = 0
        running = 0
        most: tuple[int, int] = (0, 0)

        async def __aenter__(self) -> Self:
            Counted.starting += 1
            Counted.running += 1
            Counted.most = (max(Counted.most[0], Counted.starting), max(Counted.most[1], Counted.running))
            try:
                return await super().__aenter__()
            finally:
                Counted.starting -= 1

        async def __aexit__(self, *error: Any) -> None:
            Counted.running -= 1
            await super().__aexit__(*error)

    options = Options(select=["core/client/auth-challenge"], seed=1)  # two cells, which wait for some seconds
    run, stopped = asyncio.run(run_clients(suite, parse_client("client:reference"), options, lambda _: None, Silent(), Counted))
    assert (stopped, [one.verdict for one in judge_log(suite, run).results]) == (None, [Verdict.PASS] * 2)
    assert Counted.most == (1, 2)


def test_what_a_driver_writes_to_its_log_fills_no_disk(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    cut: list[int] = []

    async def flood() -> None:
        async with (
            asyncio.timeout(60),
            Driver("client:bad", [sys.executable, str(BAD_DRIVER), "floods its log", "consumer"], log) as driver,
        ):
            driver.ask("consumer", {})
            before = 0
            while not cut:
                size = log.stat().st_size
                if size < before:
                    cut.append(before)
                before = size
                await asyncio.sleep(0)

    asyncio.run(flood())
    assert cut[0] > 16 << 20


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes that have left their group are found in /proc")
def test_nothing_of_a_driver_is_left(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"

    async def run() -> int:
        async with asyncio.timeout(60), Driver("client:bad", [sys.executable, str(BAD_DRIVER), "leaves children"], log):
            return os.pidfd_open(int(log.read_text()))

    child = asyncio.run(run())
    ended, _, _ = select.select([child], [], [], 30)
    os.close(child)
    assert ended == [child]


@pytest.mark.parametrize("way", DOES_NOTHING)
def test_a_driver_that_does_nothing_passes_nothing(said: dict[tuple[str, ...], list[Result]], way: str) -> None:
    [result] = said[way, "consumer"]
    if result.verdict != Verdict.FAIL:  # on a machine that was late, what does not come is no failure
        assert (result.verdict, result.summary) == (Verdict.ERROR, "the client has sent nothing, whatever it was asked")


def test_what_the_client_does_not_offer_does_not_apply(said: dict[tuple[str, ...], list[Result]]) -> None:
    [result] = said["unsupported",]
    assert (result.verdict, result.summary) == (Verdict.NOT_APPLICABLE, "the client does not offer consumer: consumers")


@pytest.mark.parametrize("way", SAYS_NO_HELLO)
def test_a_driver_that_does_not_say_who_it_is_is_refused(said: dict[tuple[str, ...], BaseException], way: str) -> None:
    refused = said[way, "hello"]
    assert isinstance(refused, DriverError)
    assert SAYS_NO_HELLO[way] in str(refused)


@pytest.mark.parametrize("name", ["reference", "python"])
def test_the_drivers_of_the_suite_keep_to_their_protocol(name: str) -> None:
    findings = asyncio.run(lint(parse_client(f"client:{name}"), print))
    assert [one.text for one in findings if not one.good] == []
    assert len(findings) > 20


def test_cases_ask_what_the_page_and_the_schema_have() -> None:
    page = (HOME.parent / "docs" / "drivers.md").read_text("utf-8")
    wrong = []
    for path in (HOME / "transcripts").rglob("*.yaml"):
        for verb, arguments in asked_in(read_source(path).data):
            known = {field.alias or name for name, field in VERBS[verb].model_fields.items()}
            wrong += [f"{path.name}: {verb} has no {key}" for key in arguments if key not in known or f"`{key}`" not in page]
    assert wrong == []
    assert [name for name in (*VERBS, *EVENTS) if f"`{name}`" not in page] == []


def test_what_clients_were_asked_and_told_is_of_the_schema() -> None:
    found: list[str | None] = []
    for path in (HOME / "client_recordings").rglob("*.jsonl.gz"):
        with gzip.open(path) as lines:
            for record in load(lines, path.name):
                if isinstance(record, Begin) and record.what == "drive":
                    found += [problem(VERBS, verb, arguments) for verb, arguments in record.detail.items()]
                elif isinstance(record, Told) and record.what != "result":
                    found.append(problem(EVENTS, record.what, record.detail))
    assert len(found) > 1000
    assert [one for one in found if one is not None] == []


def asked_in(node: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what the steps of a case ask of a driver."""
    for key, value in node.items() if isinstance(node, Mapping) else ():
        if key == "drive":
            yield from value.items()
    for value in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        yield from asked_in(value)


@pytest.mark.parametrize(
    ("verb", "arguments", "why"),
    [
        ("consumer", {"name": "c", "subscription": "s", "filter": {"class_name": "a", "meta": {}}}, "consumer.filter.meta: Extra inputs"),
        ("producer", {"name": "p", "topic": "t", "access": "Any"}, "producer.access: Input should be 'Shared'"),
        ("close", {}, "close.name: Field required"),
        ("stop", {}, "stop is unknown"),
    ],
)
def test_a_wrong_argument_is_named(verb: str, arguments: dict[str, Any], why: str) -> None:
    assert (problem(VERBS, verb, arguments) or "").startswith(why)


@pytest.mark.parametrize(
    ("kind", "name", "own"),
    [
        *(("CompressionType", name, name) for name in ("NONE", "LZ4", "ZSTD", "SNAPPY")),
        ("CompressionType", "ZLIB", "ZLib"),
        ("ConsumerType", "Key_Shared", "KeyShared"),
        ("ProducerAccessMode", "ExclusiveWithFencing", "ExclusiveWithFencing"),
        ("CompressionType", "BROTLI", None),
    ],
)
def test_the_python_driver_knows_the_names_of_the_protocol(kind: str, name: str, own: str | None) -> None:
    known = getattr(pulsar, kind)
    with nullcontext() if own else pytest.raises(python.Unsupported, match=f"{kind} {name}"):
        assert python.named(known, name) == known.__members__[own]


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("lies", ["the verbs begin, end, producer, send, consumer, acknowledge, close; missing: send, acknowledge, close"]),
        ("unknown capability", ["the capability 'patern-hash' is unknown; did you mean 'pattern-hash'?"]),
        ("crashes", ["it has ended with exit code 3; its log ends with\n  no memory left"]),
    ],
)
def test_what_is_wrong_with_a_driver_is_named(way: str, words: list[str]) -> None:
    target = ClientTarget("client:bad", [sys.executable, str(BAD_DRIVER), way, "consumer" if way == "lies" else "hello"])
    found = "\n".join(one.text for one in asyncio.run(lint(target, print)) if not one.good)
    assert [one for one in words if one not in found] == []


def test_a_driver_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "my-driver"
    for prepare, words in ((None, "does not exist"), (program.touch, "is not executable")):
        if prepare is not None:
            prepare()
        with pytest.raises(TargetError, match=words):
            parse_client("client:./my-driver")
    program.chmod(0o755)
    assert parse_client("client:./my-driver") == ClientTarget("client:my-driver", [str(program)])
    with pytest.raises(TargetError, match="is a folder"):
        parse_client("client:../")


def test_a_driver_that_the_system_can_not_start_is_told_what_to_look_at(tmp_path: Path) -> None:
    program = tmp_path / "my-driver"
    program.write_text("import sys\n")
    program.chmod(0o755)
    [found] = asyncio.run(lint(parse_client(f"client:{program}"), print))
    assert (found.good, found.text.endswith("my-driver: is there a #! line, and is it executable?")) == (False, True)
    assert (HOME / "drivers" / "reference.py").read_text().startswith("#!/usr/bin/env python3\n")


@pytest.mark.parametrize("way", NEVER_CONNECTED)
def test_who_is_never_connected_keeps_no_rule(said: dict[tuple[str, ...], list[Result]], way: tuple[str, ...]) -> None:
    verdicts = {one.case: one.verdict for one in said[way]}
    assert len(verdicts) == 5
    assert not {Verdict.PASS, Verdict.WARN} & set(verdicts.values()), verdicts
