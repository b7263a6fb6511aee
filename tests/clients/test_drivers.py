"""A driver that hangs, lies, floods, ends or prints something else: a refusal that says why, or a verdict, and never PASS."""

import asyncio
import sys
from pathlib import Path

import pytest

from conformance.clients.driver import DriverError
from conformance.clients.known import ClientTarget, parse_client
from conformance.clients.lint import lint
from conformance.clients.runner import run_clients
from conformance.engine.log import Result
from conformance.engine.verdict import Verdict
from conformance.judging.results import judge_log
from conformance.running.runner import Options, Silent
from conformance.suite import Suite

BAD_DRIVER = Path(__file__).parents[1] / "fakes" / "bad_driver.py"
CASE = "core/client/permits"


def judge(suite: Suite, *way: str) -> Result:
    """Run one case with a driver that is bad in a way, and return its result."""
    target = ClientTarget("client:bad", [sys.executable, str(BAD_DRIVER), *way])
    run, stopped = asyncio.run(run_clients(suite, target, Options(select=[CASE], seed=1, slow=0.3), lambda _: None, Silent()))
    assert stopped is None
    [result] = judge_log(suite, run).results
    return result


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("crashes", "it has ended; its log ends with\n  no memory left"),
        ("garbage", "it printed a line that is not JSON: b'Connected to the broker!"),
        ("endless", "it printed a line of more than 1,048,576 bytes"),
        ("another id", "it answers request 1003, which nobody asked"),
    ],
)
def test_a_driver_that_breaks_its_protocol_is_an_error_of_the_harness(suite: Suite, way: str, words: str) -> None:
    result = judge(suite, way)
    assert result.verdict == Verdict.ERROR
    assert words in str(result.observed) + result.diagnosis + result.summary


def test_a_driver_that_floods_passes_nothing_and_costs_no_memory(suite: Suite) -> None:
    # the deadline of the case may come before the bound on what it may say, or the harness may be late
    assert judge(suite, "floods").verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.FAIL)


@pytest.mark.parametrize("way", ["lies", "hangs", "refuses"])
def test_a_driver_that_does_nothing_passes_nothing(suite: Suite, way: str) -> None:
    assert judge(suite, way).verdict == Verdict.FAIL


def test_what_the_client_does_not_offer_does_not_apply(suite: Suite) -> None:
    result = judge(suite, "unsupported")
    assert (result.verdict, result.summary) == (Verdict.NOT_APPLICABLE, "the client does not offer consumer: consumers")


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("newer", "speaks protocol 2; this suite speaks 1"),
        ("unknown capability", "unknown capabilities: patern-hash; known: pattern-consumers"),
        ("garbage", "it printed a line that is not JSON"),
        ("crashes", "no memory left"),
    ],
)
def test_a_driver_that_does_not_say_who_it_is_is_refused(suite: Suite, way: str, words: str) -> None:
    with pytest.raises(DriverError, match=words):
        judge(suite, way, "hello")


@pytest.mark.parametrize("name", ["reference", "python"])
def test_the_drivers_of_the_suite_keep_to_their_protocol(name: str) -> None:
    findings = asyncio.run(lint(parse_client(f"client:{name}"), print))
    assert [one.text for one in findings if not one.good] == []
    assert len(findings) > 20


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("lies", ["the verbs begin, end, producer, send, consumer, acknowledge, close; missing: send, acknowledge, close"]),
        ("unknown capability", ["the capability 'patern-hash' is unknown; did you mean 'pattern-hash'?"]),
        ("crashes", ["it has ended; its log ends with\n  no memory left"]),
    ],
)
def test_what_is_wrong_with_a_driver_is_named(way: str, words: list[str]) -> None:
    target = ClientTarget("client:bad", [sys.executable, str(BAD_DRIVER), way, "consumer" if way == "lies" else "hello"])
    found = "\n".join(one.text for one in asyncio.run(lint(target, print)) if not one.good)
    assert [one for one in words if one not in found] == []
