"""What the harness does: one class for each kind of action, and the groups that actions form."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, ClassVar

from conformance.engine import frames, log
from conformance.engine.matchers import FITS, Match, match
from conformance.engine.matching import binds, sent_bindings
from conformance.engine.node import Node, Plan, Scope, walk
from conformance.engine.values import Value
from refimpl.wire.pulsar_api_pb2 import BaseCommand

NAME_ANY_TOPIC = frozenset({"partitionMetadata"})
"""Commands about a topic that any broker of a cluster carries out, whoever owns it."""


@dataclass(frozen=True)
class Action(Node):
    """One thing that the harness does; `what` is its name in the log."""

    what: ClassVar[str]
    judges: ClassVar[bool] = False
    """Whether it is an expectation at once, and so stands alone."""

    scope: Scope = field(compare=False)
    at: str | None = field(default=None, compare=False)
    spec: Any = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)

    @property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        """Return the admin calls that it makes, by name."""
        return ()

    @property
    def rounds(self) -> float:
        """Return how many answers it waits for, one after the other."""
        return 0.0

    def binds(self) -> set[str]:
        """Return what is bound by what is sent, or read."""
        return set(binds(self.spec, self.scope.variables))

    @property
    def for_one_broker(self) -> bool:
        """Tell whether it is for one broker of a cluster: the owner of a topic, or one that the case chooses."""
        return False

    def bound(self, bindings: Mapping[str, Value]) -> dict[str, Value]:  # noqa: ARG002
        """Return the variables that the action binds when it begins."""
        return {}

    def outcome(self, event: log.End, bindings: Mapping[str, Value]) -> Match | str:  # noqa: ARG002
        """Judge how the action ended: a text if the harness could not do it, differences if its answer does not fit."""
        return FITS if event.problem is None else event.problem


class Send(Action):
    """Frames or bytes in one write; `spec` holds frame and payload, or frames, or bytes."""

    what = "send"

    def bound(self, bindings: Mapping[str, Value]) -> dict[str, Value]:
        """Return every `$bind` of what is sent, with its example."""
        return sent_bindings(self.spec, {**self.scope.variables, **bindings})

    def data(self, exact: Callable[[Value], Value]) -> bytes:
        """Return the bytes.

        Args:
            exact: Function that replaces the variables of a value.

        Raises:
            FrameProblem: A frame can't be written as the transcript says.
        """
        if "bytes" in self.spec:
            raw = self.spec["bytes"]
            texts = {key: exact(getattr(raw, key)) for key in ("of", "payload", "command", "hex", "text", "append")}
            return frames.build_bytes(raw, texts)
        if "frames" in self.spec:
            return b"".join(frames.build_frame(exact(frame)) for frame in self.spec["frames"])
        return frames.build_frame(exact(self.spec["frame"]), exact(self.spec["payload"]))

    @property
    def for_one_broker(self) -> bool:
        """Tell whether a command names a topic, other than the question for its partitions; bytes may be anything."""
        if "bytes" in self.spec:
            return True
        commands = {name for frame in self.spec.get("frames", [self.spec.get("frame")]) for name in frame} - NAME_ANY_TOPIC
        fields = BaseCommand.DESCRIPTOR.fields_by_name
        return any("topic" in fields[name].message_type.fields_by_name for name in commands if name in fields)

    @property
    def one_by_one(self) -> bool:
        """Tell whether each byte is a write of its own."""
        return "bytes" in self.spec and bool(self.spec["bytes"].split)

    def show(self, plan: Plan) -> None:
        """Write what is sent."""
        plan.sends(self)


class Open(Action):
    """The harness opens a connection: to the broker of the case, or if `spec` is "other", to another one of its cluster."""

    what = "open"

    @property
    def for_one_broker(self) -> bool:
        """Tell whether the case says where."""
        return self.spec is not None

    def show(self, plan: Plan) -> None:
        """Write it."""
        plan.does("opens a connection" + (" to another broker" if self.spec == "other" else ""), self.at)


class Close(Action):
    """The harness closes a connection; `spec` says how."""

    what = "close"

    def show(self, plan: Plan) -> None:
        """Write it, with how."""
        how = {"rst": " with a reset", "half": ", its own half"}.get(str(self.spec), "")
        plan.does(f"closes the connection{how}", self.at)


class Reading(Action):
    """The harness stops to read from a connection, or reads again; `spec` says whether it reads."""

    what = "reading"

    def show(self, plan: Plan) -> None:
        """Write it."""
        plan.does("reads again" if self.spec else "reads nothing from now on", self.at)


class Admin(Action):
    """Calls of the admin interface; `spec` holds calls, status and parallel, and broker if it is another one."""

    what = "admin"

    @property
    def for_one_broker(self) -> bool:
        """Tell whether the case says where."""
        return "broker" in self.spec

    @property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        """Return the calls."""
        return self.spec["calls"]  # type: ignore[no-any-return]

    @property
    def rounds(self) -> float:
        """Return how many calls follow each other."""
        return len(self.spec["calls"]) / int(self.spec["parallel"])

    def show(self, plan: Plan) -> None:
        """Write the calls."""
        plan.asks({"calls": self.spec["calls"]}, self.scope, _where(self.spec))


class Read(Action):
    """A call that only reads, repeated until its answer fits; `spec` holds call, expect and within, and broker if it is another one."""

    what = "read"
    judges = True

    @property
    def for_one_broker(self) -> bool:
        """Tell whether the case says where."""
        return "broker" in self.spec

    @property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        """Return the call."""
        return (self.spec["call"],)

    def outcome(self, event: log.End, bindings: Mapping[str, Value]) -> Match | str:
        """Compare the answer with what is expected."""
        if event.problem is not None:
            return event.problem
        expected = self.scope.resolve(self.spec["expect"], bindings)
        body = event.body
        if event.status is not None and event.status < HTTPStatus.BAD_REQUEST:
            body = _written_out(_with_address(body) if "look_up" in self.spec["call"] else body, expected)
        return match({"status": event.status, "body": expected}, {"status": event.status, "body": body})

    def show(self, plan: Plan) -> None:
        """Write the call, and what its answer must fit."""
        remarks = (_where(self.spec), f"read until it fits {plan.text(self.spec['expect'], self.scope)}")
        plan.asks(self.spec["call"], self.scope, ", ".join(filter(None, remarks)))


def _where(spec: Mapping[str, Any]) -> str:
    """Say where a call is made, if it is not the broker that the user named."""
    return "at another broker" if "broker" in spec else ""


def _with_address(body: Value) -> Value:
    """Let the address with TLS be that of the broker that a look-up names, if it has no other one."""
    if isinstance(body, dict) and not body.get("brokerUrl") and "brokerUrlTls" in body:
        return {**body, "brokerUrl": body["brokerUrlTls"]}
    return body


def _written_out(body: Value, expected: Value) -> Value:
    """Write out fields that may be 0, false or empty, and that an answer leaves out: some interfaces never write these."""
    if isinstance(expected, dict) and "$in" in expected:
        return functools.reduce(_written_out, expected["$in"], body)
    if isinstance(body, dict) and isinstance(expected, dict):
        missing = {name: _empty(value) for name, value in expected.items() if name not in body}
        empty = {name: value for name, value in missing.items() if value is not None}
        return {name: _written_out(value, expected.get(name)) for name, value in body.items()} | empty
    if isinstance(body, list) and isinstance(expected, list):
        return [_written_out(*pair) for pair in itertools.zip_longest(body, expected[: len(body)])]
    return body


def _empty(expected: Value) -> Value:
    """Return the 0, false or empty value that a pattern allows; None if it allows none."""
    if isinstance(expected, dict):
        if "$in" in expected:
            return next((value for one in expected["$in"] if (value := _empty(one)) is not None), None)
        return {} if expected and all(one == {"$absent": True} for one in expected.values()) else None
    return expected if expected in (0, False, "", []) else None


class Move(Action):
    """The harness lets the other broker of a cluster own a namespace, `spec`."""

    what = "move"
    for_one_broker = True

    def show(self, plan: Plan) -> None:
        """Write it."""
        plan.note(f"moves {plan.text(self.spec, self.scope)} to the other broker")


class Advance(Action):
    """Time passes: `spec` seconds."""

    what = "advance"

    @property
    def timed(self) -> bool:
        """Let time pass."""
        return True

    def show(self, plan: Plan) -> None:
        """Write how many seconds."""
        seconds = plan.known(self.spec, self.scope)
        plan.note(f"lets {seconds:g} s pass" if isinstance(seconds, int | float) else f"lets {plan.text(self.spec, self.scope)} s pass")


@dataclass(frozen=True)
class Actions(Node):
    """Actions without an expectation between them. In a race: several lists that start together."""

    lanes: tuple[tuple[Action, ...], ...] = field(compare=False)
    number: int = field(default=0, compare=False)

    def children(self) -> Iterable[Action]:
        """Return the actions, lane by lane."""
        return (action for lane in self.lanes for action in lane)

    @property
    def rounds(self) -> float:
        """Return how many answers it waits for: those of its actions, and what the role under test says to it."""
        return 1 + sum(action.rounds for action in self.children())

    def numbered(self, numbers: Iterator[int]) -> Actions:
        """Return the group with the next number."""
        return replace(self, number=next(numbers))

    def first_actions(self) -> Actions:
        """Return itself."""
        return self

    def begun(self) -> tuple[Node, ...]:
        """Return the group after its start."""
        return (Running(self.path, self, sum(map(len, self.lanes))),)

    def show(self, plan: Plan) -> None:
        """Write the actions. In a race, those of each lane follow a remark."""
        race = len(self.lanes) > 1
        for index, lane in enumerate(self.lanes):
            if race:
                plan.note(f"at the same time, {index + 1} of {len(self.lanes)}:")
            plan.inside(lane, deeper=race)


@dataclass(frozen=True)
class Running(Node):
    """A group of actions that has begun; `left` is the number of its actions that have not ended."""

    waits: ClassVar[bool] = False

    group: Actions = field(compare=False)
    left: int

    def running(self) -> Iterator[Running]:
        """Yield itself."""
        yield self

    def ended(self, number: int) -> tuple[Node, ...]:
        """Return the group with one action less, or nothing after the last one."""
        if self.group.number != number:
            return (self,)
        return (replace(self, left=self.left - 1),) if self.left > 1 else ()


def grouped(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Join consecutive actions into groups. An action that judges its answer is a group of its own."""
    result: list[Node] = []
    for node in nodes:
        last = result[-1] if result else None
        if not isinstance(node, Action):
            result.append(node)
        elif not node.judges and isinstance(last, Actions) and len(last.lanes) == 1 and not last.lanes[0][0].judges:
            result[-1] = replace(last, lanes=((*last.lanes[0], node),))
        else:
            result.append(Actions(node.path, ((node,),)))
    return tuple(result)


def groups(nodes: Iterable[Node]) -> Iterator[Actions]:
    """Yield all groups of actions, including those inside other nodes, in the order of the file."""
    return (node for node in walk(nodes) if isinstance(node, Actions))


def actions_first(nodes: Iterable[Node]) -> list[Node]:
    """Put all sends of the end fences into one group, so that they wait for their answers together."""
    listed = list(nodes)
    if any(isinstance(node, Open) for node in listed):
        return listed
    return sorted(listed, key=lambda node: not isinstance(node, Action))
