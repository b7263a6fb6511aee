"""Checks that a driver keeps to its protocol, before it is trusted with cases: docs/drivers.md says what it checks."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from conformance.clients.driver import END_SECONDS, Answer, Driver, DriverError, Said
from conformance.clients.known import ClientTarget
from conformance.clients.verbs import EVENTS, VERBS, problem
from conformance.engine.capabilities import CLIENT_CAPABILITIES
from conformance.names import did_you_mean
from conformance.running.doctor import Finding
from conformance.targets.admin import AdminClient
from conformance.targets.model import Endpoint, Progress
from refimpl.wire import Frame

NEEDED = ("begin", "end", "producer", "send", "consumer", "acknowledge", "close")
_TOPIC = "persistent://public/default/lint"
_PARTITIONED = "persistent://public/default/lint-partitions"
_FILTER = {
    "class_name": "org.apache.pulsar.broker.service.filtering.RegexFilter",
    "properties": {"regex_filter_pattern_key": "o.*"},
}
_LISTENER = {"name": "l", "topic": _TOPIC, "listener": {"fails": [1], "takes_ms": 1}}
_UNIFORM = {"name": "u", "topic": _TOPIC, "batch": {"messages": 10}, "uniform": {"a": ["1"]}}
_OFFERED: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = (
    ("reader", "a reader", "reader", {"name": "r", "topic": _TOPIC, "position": "Earliest"}),
    ("take", "a consumer that takes nothing", "consumer", {"name": "w", "topic": _TOPIC, "subscription": "w", "takes": 0}),
    ("take", "the same one goes on", "take", {"consumer": "w"}),
    ("unsubscribe", "an unsubscription", "unsubscribe", {"consumer": "c"}),
    ("pattern-consumers", "a consumer of a pattern", "consumer", {"name": "t", "pattern": f"{_TOPIC}.*", "subscription": "t"}),
    ("message-filters", "a consumer with a filter", "consumer", {"name": "f", "topic": _TOPIC, "subscription": "f", "filter": _FILTER}),
    ("partition-notifications", "a producer with a listener", "producer", _LISTENER),
    ("partition-polling", "a consumer of a partitioned topic", "consumer", {"name": "b", "topic": _PARTITIONED, "subscription": "b"}),
    ("partition-polling", "a producer of a partitioned topic", "producer", {"name": "a", "topic": _PARTITIONED}),
    ("partition-polling", "a message to a partitioned topic", "send", {"producer": "a", "texts": ["three"]}),
    ("namespace-consumers", "a consumer of a namespace", "consumer", {"name": "n", "namespace": "public/default", "subscription": "n"}),
    ("uniform-batches", "a producer of uniform batches", "producer", _UNIFORM),
)
"""What is asked of those who have a verb or a capability, in this order."""
_SECONDS = 10.0
_EVENTS = 1000
"""Events that are kept: who prints more floods, and says nothing that is asked for here."""
_HELD_UP = 1.0
"""Seconds that the backdrop takes for one answer, to see whether the driver does something else meanwhile."""


class _Listener:
    """A listener that knows when the client has closed a connection; what the broker sees is not judged here."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def opened(self, link: int) -> None: ...

    def frame(self, link: int, frame: Frame) -> None: ...

    def passed(self, link: int, data: bytes, rule: int | None) -> None: ...

    def garbage(self, link: int, data: bytes, reason: str) -> None: ...

    def closed(self, link: int, how: Literal["fin", "rst"]) -> None:  # noqa: ARG002
        self.ended.set()


async def lint(client: ClientTarget, progress: Progress) -> list[Finding]:
    """Check a driver.

    Args:
        client: The client; its driver is built if it has to be.
        progress: Gets a line when that takes long.

    Raises:
        TargetError: The driver can't be built.
    """
    client = await client.ready(progress)
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="pulsar-conformance-") as folder:
        try:
            async with Driver(client.name, client.command, Path(folder) / "driver.log") as driver:
                await _examine(driver, findings)
        except DriverError as error:
            findings.append(Finding(False, str(error)))
    return findings


async def _examine(driver: Driver, findings: list[Finding]) -> None:
    hello = driver.hello
    findings.append(Finding(True, f"hello: {hello.client} {hello.version} ({hello.language or 'its language is not named'})"))
    unknown = [verb for verb in hello.verbs if verb not in VERBS]
    findings += [Finding(False, f"the verb {verb!r} is unknown{did_you_mean(verb, list(VERBS))}") for verb in unknown]
    findings += [
        Finding(False, f"the capability {name!r} is unknown{did_you_mean(name, list(CLIENT_CAPABILITIES))}")
        for name in hello.capabilities
        if name not in CLIENT_CAPABILITIES
    ]
    missing = [verb for verb in NEEDED if verb not in hello.verbs]
    findings.append(Finding(not missing, f"the verbs {', '.join(NEEDED)}" + (f"; missing: {', '.join(missing)}" if missing else "")))
    answer = await driver.request("no_such_verb", {}, _SECONDS)
    good = answer.unsupported is not None
    findings.append(Finding(good, f"an unknown verb is unsupported{'' if good else _but(answer)}"))
    if not missing:
        for time in ("first", "second"):
            await _conversation(driver, findings, time)


async def _conversation(driver: Driver, findings: list[Finding], time: str) -> None:
    """Let the client do something with a backdrop of its own; the second time shows that nothing is left of the first."""
    listener, events = _Listener(), asyncio.Queue[Said](_EVENTS)

    async def check(what: str, verb: str, arguments: Mapping[str, Any], good: Callable[[Answer], bool] = lambda told: told.ok) -> None:
        answer = await driver.request(verb, arguments, _SECONDS)
        findings.append(Finding(good(answer), f"{what} ({time} case){'' if good(answer) else _but(answer)}"))

    told: list[Said] = []

    def heard(said: Said) -> None:
        if not events.full():
            events.put_nowait(said)
            told.append(said)

    driver.listen(heard)
    async with driver.backdrop(listener, {}) as backdrop:
        here = Endpoint(name="the backdrop", service_url=backdrop.service_url, admin_url=backdrop.admin_url, in_process=backdrop.memory)
        async with AdminClient(here) as admin:
            await admin.call("create_partitioned_topic", {"topic": _PARTITIONED, "partitions": 2})
        await check("begin", "begin", {"service_url": backdrop.service_url})
        if "refresh" in driver.hello.verbs:
            await check("a client with a token", "start", {"token": "one"})
            await check("another token", "refresh", {"token": "two"})
        await check("a consumer", "consumer", {"name": "c", "topic": _TOPIC, "subscription": "s"})
        await check("a producer", "producer", {"name": "p", "topic": _TOPIC})
        unknown = {"name": "q", "topic": _TOPIC, "no_such_option": 1}
        await check("an unknown option is unsupported", "producer", unknown, lambda told: told.unsupported is not None)
        refused = {"name": "q", "topic": "persistent://public/no-such-namespace/lint"}
        await check("what the broker refuses is an error", "producer", refused, lambda told: told.error is not None)
        sent = {"producer": "p", "texts": ["one", "two"], "properties": [{"a": "1"}, {}]}
        await check("two messages, with an id for each", "send", sent, lambda told: len(_ids(told)) == len(sent["texts"]))
        number = await _messages(events, findings, time)
        if number is not None:
            await check("an acknowledgement", "acknowledge", {"consumer": "c", "message": number})
            if "seek" in driver.hello.verbs:
                await check("a seek to the first message", "seek", {"consumer": "c", "to": number})
        for needs, what, verb, arguments in _OFFERED:
            if needs in (*driver.hello.verbs, *driver.hello.capabilities):
                await check(what, verb, arguments)
        await _side_by_side(driver, backdrop.rules.arm, findings, time)
        await check("a producer is closed", "close", {"name": "p"})
        answer = await driver.request("end", {}, END_SECONDS)
        findings.append(Finding(answer.ok, f"end ({time} case){'' if answer.ok else _but(answer)}"))
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                while backdrop.links:
                    listener.ended.clear()
                    await listener.ended.wait()
        findings.append(Finding(not backdrop.links, f"end closes all connections ({time} case)"))
    wrong = next((why for said in told if (why := problem(EVENTS, said.event, said.detail))), None)
    findings.append(Finding(wrong is None, f"events have what the page says ({time} case)" + (f", but {wrong}" if wrong else "")))
    driver.listen(None)


async def _messages(events: asyncio.Queue[Said], findings: list[Finding], time: str) -> str | None:
    """Await the events of two messages; return the number of the first one."""
    told: list[Mapping[str, Any]] = []
    try:
        async with asyncio.timeout(_SECONDS):
            while len(told) < 2:
                event = await events.get()
                if event.event == "message":
                    told.append(event.detail)
    except TimeoutError:
        findings.append(Finding(False, f"an event for each of two messages ({time} case), but {len(told)} came in {_SECONDS:g} s"))
        return None
    wrong = problem(EVENTS, "message", told[0])
    right = wrong is None and [one["text"] for one in told] == ["one", "two"] and told[0]["properties"] == {"a": "1"}
    but = "" if right else f", but the first is {dict(told[0])}" + (f": {wrong}" if wrong else "")
    findings.append(Finding(right, f"events of messages ({time} case){but}"))
    return None if wrong else str(told[0]["message"])


async def _side_by_side(driver: Driver, arm: Callable[..., Any], findings: list[Finding], time: str) -> None:
    """Hold up one request at the broker, and see whether the driver does another one meanwhile."""
    rule = {"side": "broker", "frame": {"partitionMetadataResponse": {}}, "do": {"delay": _HELD_UP}, "times": 1}
    arm(rule, {})
    _, slow = driver.ask("producer", {"name": "slow", "topic": f"{_TOPIC}-2"})
    _, other = driver.ask("start", {"no_such_option": 1})
    done, _ = await asyncio.wait({slow, other}, timeout=_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    findings.append(Finding(other in done and slow not in done, f"one request does not hold up another ({time} case)"))
    await asyncio.wait({slow, other}, timeout=_SECONDS)


def _ids(answer: Answer) -> list[Any]:
    ids = answer.result.get("ids") if isinstance(answer.result, dict) else None
    return ids if isinstance(ids, list) else []


def _but(answer: Answer) -> str:
    told = {key: value for key, value in answer.model_dump(exclude={"id"}).items() if value}
    return f", but the answer was {told or 'empty'}"
