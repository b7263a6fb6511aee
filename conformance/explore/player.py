"""Plays a scenario on one broker: carries out its actions one by one, and after each waits until the broker has said what it will."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from conformance.engine.frames import build_frame
from conformance.engine.values import resolve
from conformance.explore.actions import KINDS
from conformance.explore.said import UNHEARD, Delivery, Told
from conformance.explore.world import NAMESPACES, Action, Scenario, World
from conformance.running.connection import FLOOD, IN_ONE_CONVERSATION, Allowance, Connection
from conformance.running.owners import owners
from conformance.targets.admin import AdminClient
from conformance.targets.model import Endpoint, TargetError
from refimpl.wire import Frame, command_name

_PATIENCE = 30.0
NOTICE = 0.02
"""Seconds that a broker has to notice the end of a connection, which nothing answers."""
CLIENT_VERSION = "pulsar-conformance"
LOOKUP_REQUEST = 901
"""The request id in the fragment `lib/core-lookup`."""


@dataclass
class Step:
    """What one action did.

    Attributes:
        action: The action; None: the preparation.
        steps: What was sent and asked, as the steps of a transcript.
        frames: How many frames had been heard when it was over.
    """

    action: Action | None
    steps: list[dict[str, Any]] = field(default_factory=list)
    frames: int = 0


Settle = Callable[["Player"], Awaitable[None]]


class Player:
    """Plays one scenario on one broker.

    Args:
        endpoint: Where the broker is.
        admin: Its admin interface; None: there is none.
        world: The names of the scenario.
        concrete: The names of this time: of the tenants `a` and `b`.
        settle: Waits until the broker has said what it will.
        allowance: How much the broker may say; None: as much as in a conversation of a run.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        admin: AdminClient | None,
        world: World,
        concrete: Mapping[str, str],
        settle: Settle,
        allowance: Allowance | None = None,
    ) -> None:
        self.world = world
        self.told = Told(concrete)
        self.steps: list[Step] = []
        self._endpoint = endpoint
        self._admin = admin
        self._concrete = concrete
        self._settle = settle
        self._connections: dict[str, Connection] = {}
        self._allowance = allowance or Allowance(IN_ONE_CONVERSATION)
        self._requests = 0
        self.bodies = 0
        self.delayed = False
        self._fenced: set[str] = set()
        self._unanswered: set[str] = set()
        self._sequences: dict[tuple[str, int], int] = {}
        self._answers: set[asyncio.Future[None]] = set()
        self.changed = asyncio.Event()
        self.told.changed = self.changed.set

    # What actions do

    def request(self) -> int:
        """Return the next request id."""
        self._requests += 1
        return self._requests

    def body(self) -> int:
        """Return a number for the next body, so that no two are equal."""
        self.bodies += 1
        return self.bodies

    def time_of_day(self) -> float:
        """Return the seconds since 1970 by this machine's clock, or by that of a broker inside this process."""
        link = self._endpoint.in_process
        return time.time() if link is None else asyncio.get_running_loop().time() + link.broker.wall_clock_offset

    def namespace(self, number: int) -> str:
        """Return the name of a namespace, with variables."""
        return self.world.namespace(number)

    def producer(self, number: int) -> tuple[str, int, int] | None:
        """Return an open producer, with its connection and the sequence id for its next message; None: no producer is open."""
        known = sorted(self.told.open_producers)
        if not known:
            return None
        key = known[number % len(known)]
        return (*key, self.sequence(key))

    def consumer(self, number: int) -> tuple[str, int] | None:
        """Return an open consumer, with its connection; None: no consumer is open."""
        known = sorted(self.told.open_consumers)
        return known[number % len(known)] if known else None

    def delivery(self, number: int) -> Delivery | None:
        """Return one of the messages that were delivered; None: there is none whose consumer is open."""
        consumers = set(self.told.open_consumers)
        known = sorted((one for one in self.told.deliveries.values() if (one.at, one.consumer) in consumers), key=lambda one: one.order)
        return known[number % len(known)] if known else None

    def deliveries(self, at: str, consumer: int) -> list[Delivery]:
        """Return the messages that a consumer has got."""
        known = self.told.deliveries.values()
        return sorted((one for one in known if (one.at, one.consumer) == (at, consumer)), key=lambda one: one.order)

    def subscribes(self, at: str, fields: Mapping[str, Any]) -> None:
        """Remember what a consumer asks for, to know what its messages are about."""
        if (at, fields["consumer_id"]) not in self.told.open_consumers:
            self.told.consumers[at, fields["consumer_id"]] = {**fields, "topic": self.concrete(fields["topic"])}

    def leaves(self, at: str, consumer: int) -> None:
        """Remember that a consumer is closed."""
        self.told.open_consumers = [one for one in self.told.open_consumers if one != (at, consumer)]

    async def send(self, at: str, spec: Mapping[str, Any], payload: Mapping[str, Any] | None = None) -> None:
        """Send a frame; the connection is opened if it is not."""
        await self._opened(at)
        concrete = _resolved(spec, self._concrete)
        self.told.asks(at, concrete)
        self._note({"at": at, "client": spec} | ({} if payload is None else {"payload": payload}))
        if "close_producer" in spec:
            self.told.open_producers.pop((at, spec["close_producer"]["producer_id"]), None)
        await self._write(at, build_frame(concrete, payload))

    async def _write(self, at: str, data: bytes) -> None:
        """Write bytes; if the broker has closed the connection, or does not read, that shows in what it says."""
        if at in self._connections:
            self._unanswered.add(at)
            with contextlib.suppress(TimeoutError):
                await self._connections[at].send(data, _PATIENCE)

    async def publish(self, topic: str) -> None:
        """Send a message to a topic, by a producer that is open, or by a new one on a connection of its own."""
        key = next((key for key, one in self.told.open_producers.items() if one == topic), None)
        if key is None:
            key = ("z", 1)
            await self.look_up(key[0], topic)
            await self.send(key[0], {"producer": {"topic": topic, "producer_id": key[1], "request_id": self.request()}})
            await self.settle()
        sequence = self.sequence(key)
        metadata = {"producer_name": "z", "sequence_id": sequence, "publish_time": 1}
        await self.send(key[0], {"send": {"producer_id": key[1], "sequence_id": sequence}}, {"metadata": metadata, "body": "z"})

    async def look_up(self, at: str, topic: str) -> None:
        """Look a topic up, as a client does before it uses it."""
        await self._opened(at)
        self._note({"use": "lib/core-lookup", "at": at, "with": {"topic": topic}})
        fields = {"topic": _resolved(topic, self._concrete), "request_id": LOOKUP_REQUEST}
        await self._write(at, build_frame({"lookupTopic": fields}))
        await self.settle()

    async def admin(self, operation: str, **arguments: Any) -> None:
        """Call the admin interface."""
        assert self._admin is not None
        more = {"bundles": 1} if operation == "create_namespace" else {}  # so one broker of a cluster owns all topics in it
        result = await self._admin.call(operation, {**_resolved(arguments, self._concrete), **more})
        self.told.answered(operation, result.status)
        if "subscription" in arguments and result.ok:
            created = arguments["position"] if operation == "create_subscription" else None
            self.told.moves(self.concrete(arguments["topic"]), arguments["subscription"], created)
        if operation == "unload_topic":
            self.told.unloads(self.concrete(arguments["topic"]), self.bodies)
        self._note({"admin": {operation: arguments}} | ({} if result.ok else {"status": result.status}))

    async def disconnect(self, at: str, how: Literal["fin", "rst"]) -> None:
        """Close a connection."""
        connection = self._connections.pop(at, None)
        if connection is not None:
            connection.close(how)
            self.told.gone(at)
            self._sequences = {key: value for key, value in self._sequences.items() if key[0] != at}
            self._note({"close": {"at": at, "how": how}})
            await asyncio.sleep(NOTICE)

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._note({"advance": seconds})
        await asyncio.sleep(seconds)

    async def settle(self) -> None:
        """Wait until the broker has said what it will."""
        await self._settle(self)
        if self._allowance.room < 0:
            raise TargetError(f"the target floods: {FLOOD}")

    # The scenario

    async def play(self, scenario: Scenario, between: Callable[[Player], Awaitable[bool]]) -> None:
        """Carry out all actions.

        Args:
            scenario: What to play, in this player's world.
            between: Called after each step has settled; returns whether to go on.
        """
        self.steps.append(Step(None))
        await self.prepare()
        for action in (None, *scenario.actions):
            if action is not None:
                self.steps.append(Step(action))
                await KINDS[action.kind].act(self, **dict(action.arguments))
            await self.settle()
            self.steps[-1].frames = len(self.told.frames)
            if not await between(self):
                return

    def concrete(self, text: str) -> str:
        """Return a text with the names of this time in place of variables."""
        return str(_resolved(text, self._concrete))

    def sequence(self, producer: tuple[str, int]) -> int:
        """Return the sequence id for the next message of a producer. There is room for a batch between two."""
        sequence = self._sequences.get(producer, 2**33 if producer[1] == 2 else 0)
        self._sequences[producer] = sequence + 10
        return sequence

    async def prepare(self) -> None:
        """Make the world. In a cluster, one broker owns it, and is the one that is spoken to."""
        for tenant in ("$a", "$b")[: len(self._tenants())]:
            await self.admin("create_tenant", tenant=tenant)
        namespaces = [self.namespace(number) for number in range(self.world.namespaces)]
        for namespace in namespaces:
            await self.admin("create_namespace", namespace=namespace)
        cluster = await owners(self._endpoint, self._admin)
        if cluster is not None:
            self._endpoint = await cluster.of([self.concrete(namespace) for namespace in namespaces])

    def _tenants(self) -> set[str]:
        return {self.namespace(number).partition("/")[0] for number in range(self.world.namespaces)}

    async def end(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def drain(self) -> None:
        """Read all that has arrived."""
        for connection in list(self._connections.values()):
            connection.drain()

    async def fence(self, *, all_of_them: bool = False) -> None:
        """Send a PING on each connection to which something was sent that got no answer, and wait for the answers.

        What was sent has then been read, and what was said before has arrived.

        Args:
            all_of_them: On the other connections, too.
        """
        self._fenced = set(self._connections) if all_of_them else self._unanswered & set(self._connections)
        self._unanswered.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                for at in sorted(self._fenced):
                    if at in self._connections:
                        await self._connections[at].send(build_frame({"ping": {}}), _PATIENCE)
                while self._fenced & set(self._connections):
                    self.changed.clear()
                    self.drain()
                    if self._fenced & set(self._connections):
                        await self.changed.wait()

    def _note(self, step: dict[str, Any]) -> None:
        self.steps[-1].steps.append(step)

    async def _opened(self, at: str) -> None:
        if at in self._connections:
            return
        connected = asyncio.Event()

        def heard(frame: Frame) -> None:
            connected.set()
            if self._connections.get(at) is connection:
                if command_name(frame.command) not in UNHEARD:
                    self._unanswered.discard(at)
                self.told.heard(at, frame)
                if command_name(frame.command) == "pong":
                    self._fenced.discard(at)
                    self.changed.set()
                if command_name(frame.command) == "ping":
                    self._answers.add(asyncio.ensure_future(connection.send(build_frame({"pong": {}}), _PATIENCE)))

        def ended(_: object) -> None:
            connected.set()
            if self._connections.get(at) is connection:
                del self._connections[at]
                self.told.closed(at)

        connection = Connection(heard, lambda data, reason: self.told.garbage(at, data, reason), ended, self._allowance)
        self._connections[at] = connection
        try:
            await connection.open(self._endpoint, _PATIENCE)
        except (OSError, TimeoutError) as error:
            raise TargetError(f"the target takes no connection at {self._endpoint.service_url}: {error or 'time-out'}") from None
        fields: dict[str, Any] = {"client_version": CLIENT_VERSION, "protocol_version": 21}
        if self._endpoint.token is not None:
            fields |= {"auth_method_name": "token", "auth_data": self._endpoint.token.get_secret_value()}
        await connection.send(build_frame({"connect": fields}), _PATIENCE)
        try:
            async with asyncio.timeout(_PATIENCE):
                await connected.wait()
        except TimeoutError:
            raise TargetError(f"the target does not answer CONNECT within {_PATIENCE:g} s") from None
        self._note({"use": "lib/handshake", "at": at})


async def clean(admin: AdminClient, concrete: Mapping[str, str]) -> None:
    """Remove the world."""
    for name in NAMESPACES:
        await admin.remove_namespace(resolve(name, concrete))
    for tenant in concrete.values():
        await admin.call("delete_tenant", {"tenant": tenant, "force": False})


def _resolved(value: Any, concrete: Mapping[str, str]) -> Any:
    """Replace the variables by the names of this time; `$` is also a sign of patterns, so nothing else is a variable."""
    text = json.dumps(value, ensure_ascii=False)
    if "$" not in text:
        return value
    for variable, name in concrete.items():
        text = text.replace(f"${{{variable}}}", name).replace(f'"${variable}"', f'"{name}"')
    return json.loads(text)
