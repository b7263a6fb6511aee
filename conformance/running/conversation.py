"""One trial of a case against a running target: performs the actions that the machine wants and logs all that happens.

It decides nothing: the verdict is made from the log. All connections are drained before the machine is asked what it
wants, and again before each further action, so that the log never shows an action before a frame that arrived earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel

from conformance.engine import frames, log
from conformance.engine.actions import Action, Actions, Send
from conformance.engine.machine import Machine, MachineError
from conformance.engine.matching import see
from conformance.engine.model import Level
from conformance.engine.program import REDIRECT, Program
from conformance.engine.unjudged import STALLED
from conformance.engine.values import NOW, Value, ValueProblem, resolve
from conformance.engine.verdict import RUNS, Outcome, TrialLog, resume
from conformance.running.connection import FLOOD, IN_ONE_CONVERSATION, Allowance, Connection
from conformance.running.look_ups import LookUps
from conformance.running.owners import Owners
from conformance.targets.admin import AdminClient, AdminResult, another
from conformance.targets.model import Endpoint, TargetError
from refimpl.wire import Frame, decode_frame, encode_frame

E = TypeVar("E", bound=log.Event)
_GIVEN: dict[tuple[type[BaseModel], frozenset[str]], set[str]] = {}
"""Which fields an event was given: one set for all that are alike, since a run has a hundred thousand of them."""
_LOGGED_BYTES = 4096
"""Bytes of a send that the log keeps whole, and of what is no frame."""
_CONNECT = b"\x08\x02"
"""How a BaseCommand begins whose type is CONNECT, behind the two sizes of the frame."""
_MEMORY_OF_JSON = 8
"""Bytes of memory for a character of an answer of the admin interface, once it is read."""
_READ_INTERVAL = 0.05
"""Seconds between two reads of the admin interface."""
_LAG_TICK = 0.1
_RESOLUTION = 1e-6
"""Seconds that the log's clock tells apart: nothing waits for less."""
_HEARD = 1.0
"""Seconds that the other brokers of a cluster have to hear of an admin call, before a case goes on that is held at one of them."""
_PATIENCE = 30.0
"""Seconds for one action of the harness: opening, sending, an admin call."""


def loop_time() -> float:
    """Return the time of the event loop in seconds: real or virtual."""
    return asyncio.get_running_loop().time()


class TargetLost(Exception):
    """The target refuses connections, or floods: the run can't continue."""


class NoConnection(TargetLost):
    """The target does not take a connection of a conversation."""


@dataclass
class Surroundings:
    """The state that all conversations of a run share."""

    endpoint: Endpoint
    admin: AdminClient | None
    write: Callable[[BaseModel], None]
    allowance: Allowance
    started: float = field(default_factory=loop_time)
    slow: float = 1.0
    owners: Owners | None = None
    """What finds the broker of each case in a cluster."""
    created: set[str] = field(default_factory=set)
    """The namespaces of this run: those that were created for cases, and those that cases have created by themselves."""

    def now(self) -> float:
        """Return the seconds since the run began."""
        return round(loop_time() - self.started, 6)

    def time_of_day(self) -> float:
        """Return the seconds since 1970 by this machine's clock, or by that of a broker inside this process."""
        link = self.endpoint.in_process
        return time.time() if link is None else loop_time() + link.broker.wall_clock_offset


class TrialRunner:
    """One trial, from the first action to the last frame."""

    def __init__(self, program: Program, begin: log.TrialStarted, around: Surroundings) -> None:
        self._program = program
        self._around = around
        self._machine = Machine(program, around.slow)
        self._connections: dict[str, Connection] = {}
        self._brokers: dict[str, Endpoint] = {}
        self._owner = around.endpoint
        self._changed = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()
        self._number = 0
        self._begun = False
        self._allowance = Allowance(IN_ONE_CONVERSATION, around.allowance)
        self._stuck: ValueError | RuntimeError | TargetError | None = None
        self.look_ups = LookUps(last=begin.attempt == RUNS - 1)
        self.trial_log = TrialLog(begin)
        self.awake = loop_time()
        """When the harness was last seen to run."""

    async def run(self) -> None:
        """Run to the end. If the harness itself failed, the last record says how.

        Raises:
            TargetLost: The target refuses connections; the log is complete up to there.
        """
        self._around.write(self.trial_log.begin)
        self._begun = True
        self._machine.last_action = self._around.now()
        problem: str | None = None
        clause: str | None = None
        lost: TargetLost | None = None
        try:
            await self._converse()
        except TargetError as error:
            problem, clause = str(error), error.clause
        except (MachineError, ValueProblem, frames.FrameProblem) as error:
            problem = str(error)
        except TargetLost as error:
            problem, lost = str(error), error
        finally:
            for connection in self._connections.values():
                connection.close()
            for task in self._answers:
                task.cancel()
            self.trial_log.finished = log.Finished(key=self.trial_log.begin.key, t=self._around.now(), problem=problem, clause=clause)
            self._around.write(self.trial_log.finished)
        if lost is not None:
            raise lost

    @property
    def brokers(self) -> list[Endpoint]:
        """Return the brokers on which the conversation depends: the one that it meets, the owner, and those of other connections."""
        return list({one.broker: one for one in (self._around.endpoint, self._owner, *self._brokers.values())}.values())

    def outcome(self, levels: Mapping[str, Level]) -> Outcome:
        """Return what the log comes to. The machine that chose the actions has taken all of it: `judge` would say the same."""
        return resume(self._program, self._machine, (), self.trial_log, levels)

    @property
    def at_any_broker(self) -> bool:
        """Tell whether any broker of a cluster answers all that the case sends."""
        return self._program.at_any_broker

    def hold_at(self, broker: Endpoint, owner: Endpoint, *, may_move: bool) -> None:
        """Let the conversation, which has not begun, meet one broker of a cluster.

        Args:
            broker: The broker.
            owner: The one that owns the namespaces of the case.
            may_move: Whether the case has no namespaces that decide: it is repeated at another broker if a look-up names that one.
        """
        self.look_ups.may_move = may_move
        self._owner = owner
        self._around = replace(self._around, endpoint=broker)
        self.trial_log.begin = self.trial_log.begin.model_copy(update={"broker": broker.broker})

    def give_up(self, problem: str, clause: str | None = None) -> None:
        """End the conversation before it begins, because its preparation failed; `clause`: what the target broke by that."""
        self.trial_log.finished = log.Finished(key=self.trial_log.begin.key, t=self._around.now(), problem=problem, clause=clause)
        for record in (self.trial_log.begin, self.trial_log.finished):
            self._around.write(record)

    def late(self, seconds: float) -> None:
        """Note that the harness was late, if the conversation has begun."""
        if self._begun:
            self._log(log.Lag, seconds=round(seconds, 3))

    async def _converse(self) -> None:
        machine = self._machine
        while True:
            self._drain()
            if self._around.allowance.room < 0:
                raise TargetLost("it floods: in the whole run it sends more than the harness can keep")
            if machine.failure is not None:
                return
            if self._stuck is not None:
                raise self._stuck
            if machine.done:
                return
            wanted = machine.wanted()
            if wanted is not None:
                await self._perform(*wanted)
            else:
                await self._wait(machine.deadline())

    async def _wait(self, deadline: float | None) -> None:
        self._changed.clear()
        patience = None if deadline is None else max(_RESOLUTION, deadline - self._around.now())
        try:
            async with asyncio.timeout(patience):
                await self._changed.wait()
        except TimeoutError:
            self._drain()
            if not self._changed.is_set():
                self._log(log.Deadline)

    def _drain(self) -> None:
        for connection in self._connections.values():
            connection.drain()

    def _log(self, kind: type[Any], **fields: Any) -> None:
        self._add(self._event(kind, **fields))

    def _event(self, kind: type[E], **fields: Any) -> E:
        named = frozenset(fields)
        event = kind(key=self.trial_log.begin.key, n=self._number, t=self._around.now(), **fields)
        event.__pydantic_fields_set__ = _GIVEN.setdefault((kind, named), event.__pydantic_fields_set__)
        return event

    def _add(self, event: log.Event) -> None:
        self._number += 1
        self.trial_log.events.append(event)
        self._around.write(event)
        try:
            self._machine.feed(event)
        except (MachineError, ValueProblem) as error:  # raised where the conversation continues: this may be a callback of a socket
            self._stuck = self._stuck or error
        self._changed.set()

    async def _perform(self, group: Actions, bindings: Mapping[str, Value]) -> None:
        lanes = [self._lane(group.number, index, lane, bindings) for index, lane in enumerate(group.lanes)]
        if len(lanes) == 1:
            await lanes[0]
        else:
            async with asyncio.TaskGroup() as tasks:
                for lane in lanes:
                    tasks.create_task(lane)

    async def _lane(self, group: int, lane: int, actions: tuple[Action, ...], bindings: Mapping[str, Value]) -> None:
        for place, action in enumerate(actions):
            if place:
                self._drain()
            if self._machine.failure is not None:
                return
            step = f"{group}.{lane}.{place}"
            variables = {**action.scope.variables, **bindings, NOW: self._around.time_of_day()}
            perform = getattr(self, f"_{action.what}")
            await perform(step, action, variables)

    async def _send(self, step: str, action: Send, variables: Mapping[str, Value]) -> None:
        data = action.data(lambda value: resolve(value, variables))
        at = action.at or ""
        sent, logged = self._with_credentials(at, data)
        self.look_ups.remember(at, data)
        self._log(log.Begin, step=step, what="send", at=at, data=_shortened(logged), size=len(data))
        connection = self._connections.get(at)
        if connection is None:
            raise ValueProblem(f"{action.path}: connection {at} was not opened")
        problem = None
        try:
            async with asyncio.timeout(_PATIENCE):
                for piece in (sent[i : i + 1] for i in range(len(sent))) if action.one_by_one else (sent,):
                    await connection.send(piece, _PATIENCE)
        except TimeoutError:
            problem = f"the peer does not read: a send of {len(sent)} bytes took more than {_PATIENCE:g} s"
        self._log(log.End, step=step, problem=problem)

    def _with_credentials(self, at: str, data: bytes) -> tuple[bytes, bytes]:
        """Put our credentials, and the broker behind a proxy, into each CONNECT that has none; return what is sent and what is logged."""
        credentials, proxy_to = self._around.endpoint.credentials, self._brokers.get(at, self._around.endpoint).proxy_to
        if credentials is None and proxy_to is None:
            return data, data
        sent = logged = b""
        while data:
            size = 4 + int.from_bytes(data[:4], "big")
            one, data = data[:size], data[size:]
            whole, shown = _connecting(one, credentials, proxy_to) if one.startswith(_CONNECT, 8) else (one, one)
            sent, logged = sent + whole, logged + shown
        return sent, logged

    async def _open(self, step: str, action: Action, _: Mapping[str, Value]) -> None:
        at = action.at or ""
        broker = self._around.endpoint if action.spec is None else await self._other()
        self._brokers[at] = broker
        self._log(log.Begin, step=step, what="open", at=at, detail={} if action.spec is None else {"broker": broker.broker})
        connection = Connection(
            lambda frame: self._frame(at, frame),
            lambda data, reason: self._garbage(at, data, reason),
            lambda how: self._closed(at, how),
            self._allowance,
        )
        try:
            await connection.open(broker, _PATIENCE)
        except (OSError, TimeoutError) as error:
            text = f"the target takes no connection at {broker.service_url}: {error or 'time-out'}"
            self._log(log.End, step=step, problem=text)
            raise NoConnection(text) from None
        self._connections[at] = connection
        self._log(log.End, step=step)

    def _closed(self, at: str, how: str) -> None:
        """Note that the peer closed a connection; before that, whether the harness slept for so long that it left a PING unanswered."""
        slept = loop_time() - self.awake - _LAG_TICK
        if slept > STALLED:
            self.late(slept)
        self._log(log.Closed, at=at, how=how)

    async def _other(self) -> Endpoint:
        """Return another broker of the cluster than that of the case."""
        if self._around.owners is None:
            raise TargetError("the case needs another broker, and the target is no cluster", hint="its `requires` has to name cluster")
        return await self._around.owners.other(self._around.endpoint)

    async def _move(self, step: str, action: Action, variables: Mapping[str, Value]) -> None:
        namespace, broker = str(resolve(action.spec, variables)), await self._other()
        self._log(log.Begin, step=step, what="move", detail={"namespace": namespace, "broker": broker.broker})
        assert self._around.owners is not None
        await self._around.owners.bring(namespace, broker)
        self._drain()
        self._log(log.End, step=step)

    def _frame(self, at: str, frame: Frame) -> None:
        event = self._event(log.Frame, at=at, data=frame.data.hex())
        answer = None
        try:
            if frame.command.HasField("lookupTopicResponse"):
                self.look_ups.check(at, frame.command.lookupTopicResponse, self._around.endpoint)
            answer = self._ambient_answer(event, frame)
        except TargetError as error:
            self._stuck = error
        self._add(event)
        if answer is not None:
            self._log(log.Answer, at=at, data=answer.hex())
            task = asyncio.get_running_loop().create_task(self._connections[at].send(answer, _PATIENCE))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

    def _garbage(self, at: str, data: bytes, reason: str) -> None:
        if self._allowance.room < 0:
            self._flooded()
        else:
            self._log(log.Garbage, at=at, data=data[:_LOGGED_BYTES].hex(), reason=reason)

    def _flooded(self) -> None:
        self._stuck = self._stuck or TargetError(f"the target floods: {FLOOD}")
        self._changed.set()

    def _ambient_answer(self, event: log.Frame, frame: Frame) -> bytes | None:
        rule = self._machine.ambient_rule(see(event))
        if rule is None or self._machine.would_take(event):
            return None
        if rule is REDIRECT:
            return self.look_ups.redirected(event.at, frame.command.lookupTopicResponse)
        return None if rule.answer is None else frames.build_frame(resolve(rule.answer, self._program.scope.variables))

    async def _close(self, step: str, action: Action, _: Mapping[str, Value]) -> None:
        how: Literal["fin", "rst", "half"] = action.spec
        self._log(log.Begin, step=step, what="close", at=action.at, detail={"how": how})
        if action.at in self._connections:
            self._connections[action.at].close(how)
        self._log(log.End, step=step)

    async def _reading(self, step: str, action: Action, _: Mapping[str, Value]) -> None:
        self._log(log.Begin, step=step, what="reading", at=action.at, detail={"on": action.spec})
        if action.at in self._connections:
            self._connections[action.at].reading(action.spec)
        self._log(log.End, step=step)

    async def _advance(self, step: str, action: Action, variables: Mapping[str, Value]) -> None:
        seconds = float(resolve(action.spec, variables))
        self._log(log.Begin, step=step, what="advance", detail={"seconds": seconds})
        until = round(self._around.now() + seconds, 6)
        while self._machine.failure is None and (left := until - self._around.now()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(_RESOLUTION, left)):
                    await self._changed.wait()
        self._drain()
        self._log(log.End, step=step)

    async def _admin(self, step: str, action: Action, variables: Mapping[str, Value]) -> None:
        calls = [resolve(call, variables) for call in action.spec["calls"]]
        room = asyncio.Semaphore(action.spec["parallel"])
        async with self._client(action) as (client, at):
            self._log(log.Begin, step=step, what="admin", at=at, detail={"calls": calls} if len(calls) > 1 else calls[0])

            async def one(call: Mapping[str, Value]) -> AdminResult:
                ((name, arguments),) = call.items()
                async with room:
                    return await self._called(client, name, arguments)

            results = await asyncio.gather(*(one(call) for call in calls))
        result, problem = _admin_outcome(calls, results, action.spec["status"])
        self._keep(result)
        self._drain()
        self._log(log.End, step=step, status=result.status, body=result.body or None, problem=problem)
        if self._owner is not self._around.endpoint and not self._program.speaks_of_time:
            await asyncio.sleep(_HEARD)

    async def _called(self, client: AdminClient, name: str, arguments: Value) -> AdminResult:
        """Perform an operation. In a cluster, who owns the namespaces of the case also owns those that it creates or unloads.

        Where a broker does not allow to force the deletion of a namespace, its topics are deleted one by one, and then the namespace.
        """
        owners, given = self._around.owners, arguments if isinstance(arguments, dict) else {"namespace": arguments}
        if name not in ("create_namespace", "unload_namespace"):
            result = await client.call(name, arguments)
            if name != "delete_namespace" or result.status != HTTPStatus.METHOD_NOT_ALLOWED or not given.get("force"):
                return result
            removed = await client.remove_namespace(str(given["namespace"]))
            return removed if removed.ok else result
        one_bundle = {"bundles": 1} if name == "create_namespace" and owners is not None else {}
        result = await client.call(name, {**one_bundle, **given})
        if result.ok and name == "create_namespace":
            self._around.created.add(str(given["namespace"]))
        if result.ok and owners is not None:
            await owners.bring(str(given["namespace"]), self._owner)
        return result

    async def _read(self, step: str, action: Action, variables: Mapping[str, Value]) -> None:
        ((name, arguments),) = resolve(action.spec["call"], variables).items()
        async with self._client(action) as (client, at):
            self._log(log.Begin, step=step, what="read", at=at, detail={name: arguments})
            until = round(self._around.now() + action.spec["within"] * self._around.slow, 6)
            while True:
                result = await client.call(name, arguments)
                end = log.End(key="", n=0, t=0, step=step, status=result.status, body=result.body)
                found = action.outcome(end, self._machine.states[0].bindings if self._machine.states else {})
                if found or self._around.now() >= until:
                    break
                await asyncio.sleep(_READ_INTERVAL)
        self._keep(result)
        self._drain()
        self._log(log.End, step=step, status=result.status, body=result.body)

    def _keep(self, result: AdminResult) -> None:
        """Take room for an answer that stays in the log."""
        if not self._allowance.take(_MEMORY_OF_JSON * result.size):
            self._flooded()

    @contextlib.asynccontextmanager
    async def _client(self, action: Action) -> AsyncIterator[tuple[AdminClient, str | None]]:
        """Open the admin interface that an action calls; with its address, if it is not the one that the user named."""
        if self._around.admin is None:
            raise TargetError(f"{action.path}: the target has no admin URL", hint="give one with --admin-url")
        if "broker" not in action.spec:
            yield self._around.admin, None
            return
        there = await another(self._around.admin)
        if there is None:
            raise TargetError(f"{action.path}: no other broker answers admin calls", hint="its `requires` has to name admin-elsewhere")
        async with AdminClient(there) as client:
            yield client, urlsplit(there.admin_url or "").netloc


async def watch_lag(active: Collection[TrialRunner]) -> None:
    """Notice when the harness itself is late, and tell the conversations, so that rules of time are not judged across it."""
    while True:
        before = loop_time()
        for conversation in active:
            conversation.awake = before
        await asyncio.sleep(_LAG_TICK)
        late = loop_time() - before - _LAG_TICK
        if late > 5 * _LAG_TICK:
            for conversation in active:
                conversation.late(late)


def _shortened(data: bytes) -> str:
    if len(data) <= _LOGGED_BYTES:
        return data.hex()
    return f"{data[:256].hex()}..{data[-64:].hex()}"


def _admin_outcome(calls: list[Any], results: list[AdminResult], status: int | str | None) -> tuple[AdminResult, str | None]:
    """Return the first unexpected answer, and a message about it; otherwise the last answer. `any` expects whatever comes."""
    for call, result in zip(calls, results, strict=True):
        if not result.ok if status is None else status not in (result.status, "any"):
            ((name, arguments),) = call.items()
            wanted = "2xx" if status is None else str(status)
            return result, f"admin {name} {arguments}: {result.status} {result.reason or result.body or ''} (expected {wanted})"
    return results[-1], None


def _connecting(data: bytes, credentials: tuple[str, str] | None, proxy_to: str | None) -> tuple[bytes, bytes]:
    """Return a CONNECT with what it lacks, and what is logged of it: the same without the secret. What is no frame stays as it is."""
    try:
        command = decode_frame(data).command
    except ValueError:
        return data, data
    connect = command.connect
    if proxy_to is not None and not connect.HasField("proxy_to_broker_url"):
        connect.proxy_to_broker_url = proxy_to
        data = encode_frame(command)
    if credentials is None or connect.HasField("auth_data"):
        return data, data
    connect.auth_method_name, secret = credentials
    connect.auth_data = secret.encode()
    whole = encode_frame(command)
    connect.auth_data = b"*" * 8 if secret else b""
    return whole, encode_frame(command)
