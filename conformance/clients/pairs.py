"""Clients and brokers in pairs: each published client talks to each release through the proxy, while monitors judge both sides.

python -m conformance.clients.pairs [--client NAME ..] [--broker NAME ..]

driver <-lines-> client <-TCP-> proxy with monitors <-TCP-> broker

What came of it goes to `conformance/pairs.json`, which the site shows as a table; a run replaces the pairs that it has run. Real releases
are started one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from conformance.clients.driver import END_SECONDS, Driver, DriverError, LeftOut, Said
from conformance.clients.known import KNOWN, PREFIX, parse_client
from conformance.monitors import Breach, Monitors
from conformance.proxy import Direction, Passed, Proxy, Watcher, proxying
from conformance.targets import AdminClient, ApachePulsar, Endpoint, TargetError
from conformance.targets.jars import RELEASES
from conformance.targets.reference import ReferenceTarget

RESULTS: Final = Path(__file__).parents[1] / "pairs.json"
REFERENCE: Final = "reference"
BROKERS: Final = (REFERENCE, *RELEASES)
"""The brokers, the reference first."""
HELD, NOT_OFFERED, FAILED = "held", "not offered", "failed"
"""What comes of a talk, the last two with a reason behind a colon."""
_DEADLINE: Final = 100.0
"""Seconds that a client has for each thing: some look for new topics of a pattern once a minute only."""
_TEN: Final = [f"message {number}" for number in range(10)]
_ARROWS: Final[Mapping[Direction, Any]] = {"client": "->", "broker": "<-"}
_SCALABLE_ONLY: Final = "this client refuses brokers without scalable topics"


@dataclass
class Pair:
    """What came of a client and a broker.

    Attributes:
        client: The client and its version, as its driver says.
        date: When it was run, "2026-11-25".
        talks: By talk: held, or why it was not held to its end.
        judged: By clause: how often it was judged.
        breaches: Each clause that was broken, by whom, in which talk, and how: the first time.
        not_run: Why the pair was not run at all; None: it was.
    """

    client: str
    date: str
    talks: dict[str, str] = field(default_factory=dict)
    judged: dict[str, int] = field(default_factory=dict)
    breaches: list[dict[str, str]] = field(default_factory=list)
    not_run: str | None = None


@dataclass(frozen=True)
class Explanation:
    """Why something in `pairs.json` is not as it should be.

    Attributes:
        client: The client.
        what: A talk that failed, or a clause that was broken.
        reason: Why, in a sentence or two.
        link: The page about it, in the repository; None: there is none.
    """

    client: str
    what: str
    reason: str
    link: str | None = None


def explanations() -> Sequence[Explanation]:
    """Return all of them."""
    text = Path(__file__).with_name("pairs_explained.yaml").read_text(encoding="utf-8")
    return [Explanation(**one) for one in yaml.safe_load(text)]


class TalkFailed(Exception):
    """A client or a broker did not do what a talk needs."""


class Judging(Watcher):
    """Lets monitors follow a talk."""

    commands = None
    whole = True

    def __init__(self) -> None:
        self.monitors = Monitors(whole=True)
        self.found: list[Breach] = []
        self.unread: list[str] = []

    def opened(self, connection: int, time: float, client: str, broker: str) -> None:  # noqa: ARG002
        """Take note of a connection."""
        self.monitors.opened(str(connection))

    def frame(self, passed: Passed) -> None:
        """Judge a frame."""
        self.found += self.monitors.frame(str(passed.connection), _ARROWS[passed.direction], passed.frame, passed.time)

    def unseen(self, connection: int) -> None:
        """Take note of bytes that nobody could read: what is judged behind them says less than it seems to."""
        self.unread.append(str(connection))
        self.monitors.gap(str(connection))

    def closed(self, connection: int, time: float) -> None:
        """Judge what the end of a connection leaves open."""
        self.found += self.monitors.closed(str(connection), time)


class Talker:
    """A client in a talk: what it is asked, and what its user sees.

    Args:
        driver: Its driver.
        proxy: What it talks through.
        admin: The broker's admin interface.
        namespace: A namespace of this talk alone.
    """

    def __init__(self, driver: Driver, proxy: Proxy, admin: AdminClient, namespace: str) -> None:
        self.driver = driver
        self.proxy = proxy
        self.topic = f"persistent://{namespace}/t"
        self.namespace = namespace
        self._admin = admin
        self._seen: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        driver.listen(self._said)

    def _said(self, said: Said) -> None:
        if said.event == "message":
            self._seen.put_nowait(said.detail)

    async def do(self, verb: str, **arguments: Any) -> Any:
        """Let the client do something.

        Raises:
            LeftOut: The client does not offer it.
            TalkFailed: It refused, or failed.
        """
        answer = await self.driver.request(verb, arguments, _DEADLINE)
        if answer.unsupported is not None:
            raise LeftOut("NOT-APPLICABLE", f"{verb}: {answer.unsupported}")
        if not answer.ok:
            raise TalkFailed(f"{verb}: {answer.error}")
        return answer.result

    async def admin(self, operation: str, arguments: object) -> None:
        """Perform an operation of the admin interface.

        Raises:
            TalkFailed: The broker refused it.
        """
        result = await self._admin.call(operation, arguments)
        if not result.ok:
            raise TalkFailed(f"{operation}: {result.status} {result.reason}")

    async def get(self, texts: Sequence[str], consumer: str | None = "c", *, acknowledge: bool = True) -> list[Mapping[str, Any]]:
        """Wait until the user has seen messages with these texts, each at least once, in any order, and acknowledge all that came.

        Args:
            texts: Their texts.
            consumer: Whose messages count; None: anybody's.
            acknowledge: Whether they are acknowledged.

        Raises:
            TalkFailed: Not all came in time.
        """
        missing, got = set(texts), []
        while missing:
            try:
                async with asyncio.timeout(_DEADLINE):
                    message = await self._seen.get()
            except TimeoutError:
                raise TalkFailed(f"{len(missing)} of {len(texts)} messages have not come within {_DEADLINE:g} s") from None
            if consumer in (None, message["consumer"]):
                missing.discard(message["text"])
                got.append(message)
                if acknowledge:
                    await self.do("acknowledge", consumer=message["consumer"], message=message["message"])
        return got


async def _one_by_one(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Shared")
    await talker.do("producer", name="p", topic=talker.topic)
    await talker.do("send", producer="p", texts=_TEN, properties=[{"number": str(number)} for number in range(10)])
    await talker.get(_TEN)
    await talker.do("close", name="p")
    await talker.do("close", name="c")


async def _in_batches(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Shared")
    await talker.do("producer", name="p", topic=talker.topic, batch={"messages": 5})
    await talker.do("send", producer="p", texts=_TEN)
    await talker.get(_TEN)


async def _compressed(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Shared")
    await talker.do("producer", name="p", topic=talker.topic, batch={"messages": 5}, compression="LZ4")
    await talker.do("send", producer="p", texts=_TEN)
    await talker.get(_TEN)


async def _given_back(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Shared", nack_delay_ms=1000)
    await talker.do("producer", name="p", topic=talker.topic)
    await talker.do("send", producer="p", texts=_TEN)
    for message in await talker.get(_TEN, acknowledge=False):
        await talker.do("negative_acknowledge", consumer="c", message=message["message"])
    await talker.get(_TEN)


async def _cumulatively(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Exclusive")
    await talker.do("producer", name="p", topic=talker.topic)
    await talker.do("send", producer="p", texts=_TEN)
    last = (await talker.get(_TEN, acknowledge=False))[-1]
    await talker.do("acknowledge", consumer="c", message=last["message"], cumulative=True)


async def _by_key(talker: Talker) -> None:
    for name in ("c", "d"):
        await talker.do("consumer", name=name, topic=talker.topic, subscription="s", type="Key_Shared")
    await talker.do("producer", name="p", topic=talker.topic)
    await talker.do("send", producer="p", texts=_TEN, keys=[f"key {number % 5}" for number in range(10)])
    await talker.get(_TEN, None)


async def _with_few_permits(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Shared", queue=2)
    await talker.do("producer", name="p", topic=talker.topic, batch={"messages": 3})
    await talker.do("send", producer="p", texts=_TEN)
    await talker.get(_TEN)


async def _by_reader(talker: Talker) -> None:
    await talker.do("producer", name="p", topic=talker.topic)
    await talker.do("send", producer="p", texts=_TEN)
    await talker.do("reader", name="c", topic=talker.topic, position="Earliest")
    await talker.get(_TEN, acknowledge=False)


async def _again_from_the_start(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Exclusive")
    await talker.do("producer", name="p", topic=talker.topic)
    await talker.do("send", producer="p", texts=_TEN)
    await talker.get(_TEN)
    await talker.do("seek", consumer="c", to="Earliest")
    await talker.get(_TEN)


async def _from_partitions(talker: Talker) -> None:
    await talker.admin("create_partitioned_topic", {"topic": talker.topic, "partitions": 3})
    await _one_by_one(talker)


async def _by_pattern(talker: Talker) -> None:
    topics = [f"persistent://{talker.namespace}/orders-{number}" for number in range(2)]
    await talker.admin("create_topic", topics[0])
    await talker.do(
        "consumer", name="c", pattern=f"persistent://{talker.namespace}/orders-.*", subscription="s", position="Earliest", discovery_ms=1000
    )
    for number, topic in enumerate(topics):  # the second one is created by its producer
        await talker.do("producer", name=f"p{number}", topic=topic)
        await talker.do("send", producer=f"p{number}", texts=[topic])
    await talker.get(topics)


async def _after_a_cut(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Shared")
    await talker.do("producer", name="p", topic=talker.topic)
    await talker.do("send", producer="p", texts=_TEN[:5])
    await talker.get(_TEN[:5])
    await talker.proxy.break_all()
    await talker.do("send", producer="p", texts=_TEN[5:])
    await talker.get(_TEN[5:])


async def _after_an_unload(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Shared")
    await talker.do("producer", name="p", topic=talker.topic)
    await talker.do("send", producer="p", texts=_TEN[:5])
    await talker.get(_TEN[:5])
    await talker.admin("unload_topic", talker.topic)
    await talker.do("send", producer="p", texts=_TEN[5:])
    await talker.get(_TEN[5:])


async def _unsubscribes(talker: Talker) -> None:
    await talker.do("consumer", name="c", topic=talker.topic, subscription="s", type="Shared")
    await talker.do("unsubscribe", consumer="c")


async def _of_a_namespace(talker: Talker) -> None:
    topics = [f"topic://{talker.namespace}/orders-{number}" for number in range(2)]
    for topic in topics:
        await talker.admin("create_scalable_topic", topic)
    await talker.do("consumer", name="c", namespace=talker.namespace, subscription="s", position="Earliest")
    for number, topic in enumerate(topics):
        await talker.do("producer", name=f"p{number}", topic=topic)
        await talker.do("send", producer=f"p{number}", texts=[topic])
    await talker.get(topics)


TALKS: Final[Mapping[str, tuple[str, Callable[[Talker], Awaitable[None]]]]] = {
    "one by one": ("ten messages, each acknowledged; producer and consumer are closed", _one_by_one),
    "in batches": ("the same in batches", _in_batches),
    "compressed": ("the same in batches with LZ4", _compressed),
    "few permits": ("batches for a consumer with a queue of two messages", _with_few_permits),
    "given back": ("ten messages are negatively acknowledged, and come again", _given_back),
    "cumulatively": ("the last message is acknowledged, with all before it", _cumulatively),
    "by key": ("two consumers of a Key_Shared subscription", _by_key),
    "reader": ("a reader reads a topic from its start", _by_reader),
    "seek": ("a consumer goes back to the start", _again_from_the_start),
    "partitions": ("a topic with three partitions", _from_partitions),
    "pattern": ("two topics of a pattern, one of which is created later", _by_pattern),
    "cut": ("all connections are lost, and it goes on", _after_a_cut),
    "unload": ("the topic is unloaded, and it goes on", _after_an_unload),
    "unsubscribe": ("a consumer unsubscribes", _unsubscribes),
    "namespace": ("the scalable topics of a namespace", _of_a_namespace),
}
"""By name: what happens in a talk, and the talk."""
WITHOUT: Final[Mapping[str, Mapping[str, str]]] = {
    "java_v5": {name: _SCALABLE_ONLY for name in RELEASES if name != "5.0.0-M1"},
}
"""Pairs that are not run, by client and broker, and why."""
SCALABLE: Final = (REFERENCE, "5.0.0-M1")
"""The brokers that have scalable topics."""


async def talked(client: str, broker: str, endpoint: Endpoint, names: Sequence[str] = tuple(TALKS)) -> Pair:
    """Let a client talk to a broker that runs.

    Args:
        client: A name of `KNOWN`.
        broker: A name of `BROKERS`.
        endpoint: The broker.
        names: The talks.

    Raises:
        TargetError: The driver of the client can't be built, or not be used.
    """
    target = await parse_client(f"{PREFIX}{client}").ready(lambda text: print(text, file=sys.stderr, flush=True))
    pair = Pair("", datetime.now(UTC).date().isoformat())
    judged: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="pulsar-conformance-") as folder:
        driver: Driver | None = None
        try:
            for number, name in enumerate(names):
                if name == "namespace" and broker not in SCALABLE:
                    pair.talks[name] = f"{NOT_OFFERED}: the broker has no scalable topics"
                    continue
                if driver is None or driver.lost is not None:
                    driver = await Driver(target.name, target.command, Path(folder) / "driver.log").__aenter__()
                    pair.client = f"{driver.hello.client} {driver.hello.version}"
                judging = Judging()
                pair.talks[name] = await _talk(driver, endpoint, judging, f"public/pair-{client.replace('_', '-')}-{number}", name)
                judged.update(judging.monitors.judged)
                pair.breaches += [
                    {"clause": one.clause, "by": one.side, "talk": name, "text": one.text}
                    for one in judging.found
                    if (one.clause, one.side) not in {(known["clause"], known["by"]) for known in pair.breaches}
                ]
        finally:
            if driver is not None:
                await driver.kill()
    pair.judged = dict(sorted(judged.items()))
    return pair


async def _talk(driver: Driver, endpoint: Endpoint, judging: Judging, namespace: str, name: str) -> str:
    async with AdminClient(endpoint) as admin, proxying(endpoint, [judging]) as proxy:
        talker = Talker(driver, proxy, admin, namespace)
        try:
            await talker.admin("create_namespace", namespace)
            await talker.do("begin", service_url=proxy.service_url)
            await TALKS[name][1](talker)
            came = HELD
        except LeftOut as reason:
            came = f"{NOT_OFFERED}: {reason}"
        except (TalkFailed, DriverError) as error:
            came = f"{FAILED}: {str(error).splitlines()[0]}"
        try:
            await driver.request("end", {}, END_SECONDS)
        except DriverError:
            await driver.kill()
        driver.listen(None)
    judging.found += judging.monitors.ended()
    return f"{FAILED}: bytes of connection {judging.unread[0]} are no frames" if judging.unread else came


def load(path: Path = RESULTS) -> dict[str, dict[str, Pair]]:
    """Return what is written: pairs by client, then by broker."""
    if not path.exists():
        return {}
    return {
        client: {broker: Pair(**pair) for broker, pair in brokers.items()}
        for client, brokers in json.loads(path.read_text(encoding="utf-8")).items()
    }


def _save(pairs: Mapping[str, Mapping[str, Pair]]) -> None:
    plain = {client: {broker: asdict(pair) for broker, pair in brokers.items()} for client, brokers in pairs.items()}
    RESULTS.write_text(json.dumps(plain, indent=1, sort_keys=True) + "\n", encoding="utf-8")


async def run(clients: Sequence[str], brokers: Sequence[str]) -> None:
    """Run pairs, and write each one as soon as it is over."""
    pairs = load()
    for broker, client in itertools.product(brokers, clients):
        if reason := WITHOUT.get(client, {}).get(broker):
            pairs.setdefault(client, {})[broker] = Pair(client, datetime.now(UTC).date().isoformat(), not_run=reason)
    for broker in brokers:
        target = ReferenceTarget() if broker == REFERENCE else ApachePulsar(broker)
        async with target.run() as endpoint:
            for client in clients:
                if broker in WITHOUT.get(client, {}):
                    continue
                pair = pairs.setdefault(client, {})[broker] = await talked(client, broker, endpoint)
                bad = [f"{one['by']} broke {one['clause']} in {one['talk']}: {one['text']}" for one in pair.breaches]
                bad += [f"{name}: {came}" for name, came in pair.talks.items() if came.startswith(FAILED)]
                print("\n  ".join([f"{client} with {broker}: {len(pair.judged)} clauses judged", *bad]), flush=True)
                _save(pairs)
    _save(pairs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the pairs that are asked for."""
    parser = argparse.ArgumentParser(description="Let clients talk to brokers through the proxy, with monitors on.")
    parser.add_argument("--client", action="append", choices=list(KNOWN), help="all if not given; may be repeated")
    parser.add_argument("--broker", action="append", choices=BROKERS, help="all if not given; may be repeated")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(run(options.client or list(KNOWN), options.broker or BROKERS))
    except TargetError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
