"""The kinds of steps: how each is written, what it contains, and what it compiles to.

A new kind is a class here with its keys, and a row in docs/transcripts.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, field_validator, model_validator

from conformance.engine.actions import Action, Actions, Admin, Advance, Close, Move, Open, Read, Reading, Send, grouped
from conformance.engine.node import DEFAULT_WITHIN, Expectation, Node, Scope
from conformance.engine.nodes import Alternative, Choice, Collect, Expect, Interleave, Observe, Silence
from conformance.engine.parts import RELEASES, BytesSpec, CollectSpec, FrameSpec, Seconds, Strict, Window
from conformance.engine.step import Compiler, Place, ProgramProblem, Step, StepKind, connection, counts, listed, step_kind
from conformance.engine.values import resolve, resolve_known

T = TypeVar("T")


def given(place: str, value: T | None) -> Iterator[tuple[Place, T]]:
    """Yield what a step has in a place, if it has anything there."""
    if value is not None:
        yield (place,), value


class _Step(StepKind):
    at: str | None = Field(default=None, description="the connection; without it the one of the fragment, or `c`")


class _Expectation(_Step):
    clause: str | None = Field(default=None, description="the clause that fails with this step")
    within: Seconds | None = Field(default=None, description="seconds after the end of the last action; scales with --slow")

    def clauses(self) -> Iterable[tuple[Place, str]]:
        return given("clause", self.clause)

    def patience(self) -> float:
        return DEFAULT_WITHIN if self.within is None else self.within


class _Moment(_Expectation):
    window: Window | None = None
    label: str | None = Field(default=None, description="names the moment of this step for a window")

    def seconds(self) -> float:
        if self.window is not None:
            return self.window.max
        return self.patience() if self.patience() > DEFAULT_WITHIN else 0.0


@step_kind("client", "broker")
class FrameStep(_Moment):
    """One frame: sent if the suite plays its sender, expected if the role under test does."""

    client: FrameSpec | None = None
    broker: FrameSpec | None = None
    payload: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_emitter(self) -> FrameStep:
        if (self.client is None) == (self.broker is None):
            raise ValueError("a frame step names its emitter once: either client: or broker:")
        return self

    def frames(self) -> Iterable[tuple[Place, FrameSpec]]:
        """Return the frame."""
        return (*given("client", self.client), *given("broker", self.broker))

    @cached_property
    def counts(self) -> bool:
        """Tell whether it has a `$next`: few have, and fragments are compiled often."""
        return counts([self.client, self.broker, self.payload])

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return a send or an expectation."""
        at = connection(self.at, scope)
        written = [self.client, self.broker, self.payload]
        client, broker, payload = compiler.numbered(written) if self.counts else written
        sent, awaited = (client, broker) if compiler.role == "broker" else (broker, client)
        if sent is not None:
            return [Send(path, scope, at, {"frame": sent, "payload": payload}, self.label)]
        if "connected" in (awaited or {}):
            compiler.connected.add(at)
        return [Expect(path, at, scope, self.patience(), awaited, payload, self.window, self.label, clause=self.clause)]


@step_kind("one_write")
class OneWriteStep(_Step):
    """Several frames in one write call."""

    one_write: Annotated[list[FrameSpec], Field(min_length=2)]
    label: str | None = None

    def frames(self) -> Iterable[tuple[Place, FrameSpec]]:
        """Return the frames."""
        return ((("one_write", index), frame) for index, frame in enumerate(self.one_write))

    def compile(self, _: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return a send."""
        return [Send(path, scope, connection(self.at, scope), {"frames": self.one_write}, self.label)]


@step_kind("bytes")
class BytesStep(_Step):
    """Bytes that need not be a frame."""

    bytes: BytesSpec
    label: str | None = None

    def frames(self) -> Iterable[tuple[Place, FrameSpec]]:
        """Return the frame that they are made from."""
        return ((("bytes", *place), frame) for place, frame in given("of", self.bytes.of))

    def compile(self, _: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return a send."""
        return [Send(path, scope, connection(self.at, scope), {"bytes": self.bytes}, self.label)]


class OpenSpec(Strict):
    """To which broker of a cluster the suite opens a connection."""

    at: str | None = None
    broker: Literal["other"]


@step_kind("open")
class OpenStep(StepKind):
    """The suite opens a connection: to the broker of the case, or to another one of its cluster."""

    open: str | OpenSpec
    label: str | None = None

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the action; the end of the case fences the connection."""
        if compiler.role == "client":
            raise ProgramProblem(f"{path}: the client under test opens the connections")
        here = isinstance(self.open, str)
        at = resolve(self.open, scope.variables) if isinstance(self.open, str) else connection(self.open.at, scope)
        compiler.open.append(at)
        return [Open(path, scope, at, None if here else "other", self.label)]


@step_kind("move")
class MoveStep(StepKind):
    """A namespace moves to the other broker of a cluster."""

    move: str

    def compile(self, _: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the action."""
        return [Move(path, scope, None, self.move)]


class CloseSpec(Strict):
    """How the suite closes a connection."""

    at: str | None = None
    how: Literal["fin", "rst", "half"] = "fin"


@step_kind("close")
class CloseStep(StepKind):
    """The suite closes a connection."""

    close: CloseSpec
    label: str | None = None

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the action."""
        at = connection(self.close.at, scope)
        compiler.gone.add(at)
        return [Close(path, scope, at, self.close.how, self.label)]


class ReadingSpec(Strict):
    """From which connection the suite reads, or does not."""

    at: str | None = None
    on: bool


@step_kind("reading")
class ReadingStep(StepKind):
    """The suite stops to read from a connection, or reads again."""

    reading: ReadingSpec
    label: str | None = None

    def compile(self, _: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the action."""
        return [Reading(path, scope, connection(self.reading.at, scope), self.reading.on, self.label)]


class ClosedSpec(Strict):
    """Which connection the role under test closes."""

    at: str | None = None


@step_kind("closed")
class ClosedStep(_Moment):
    """The role under test closes a connection."""

    closed: ClosedSpec = ClosedSpec()

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return an expectation without a frame."""
        at = connection(self.closed.at or self.at, scope)
        compiler.gone.add(at)
        return [Expect(path, at, scope, self.patience(), None, None, self.window, self.label, clause=self.clause)]


def _elsewhere(broker: str | None) -> dict[str, str]:
    return {} if broker is None else {"broker": broker}


@step_kind("admin")
class AdminStep(StepKind):
    """Calls of the admin API, in order; with `each` once for every value, `parallel` at a time."""

    admin: dict[str, Any] | list[dict[str, Any]]
    each: Annotated[dict[str, Any], Field(min_length=1, max_length=1)] | None = None
    parallel: Annotated[int, Field(ge=1)] = 1
    status: int | Literal["any"] | None = Field(default=None, description="the answer to expect; without it any 2xx")
    broker: Literal["other"] | None = Field(default=None, description="at another broker of the cluster than the one that the user named")
    label: str | None = None

    def calls(self) -> Iterable[tuple[Place, Mapping[str, Any]]]:
        """Return the calls as they are written."""
        return ((("admin",), call) for call in (self.admin if isinstance(self.admin, list) else [self.admin]))

    def compile(self, _: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return one action, whose calls are repeated for every value of `each`."""
        calls = [call for _, call in self.calls()]
        if self.each is not None:
            ((name, values),) = self.each.items()
            calls = [resolve(call, {**scope.variables, name: value}) for value in resolve(values, scope.variables) for call in calls]
        spec = {"calls": calls, "status": self.status, "parallel": self.parallel, **_elsewhere(self.broker)}
        return [Admin(path, scope, None, spec, self.label)] if calls else []


@step_kind("read")
class ReadStep(StepKind):
    """An admin call that only reads, repeated until its answer fits."""

    read: Annotated[dict[str, Any], Field(min_length=1, max_length=1)]
    expect: Any
    clause: str | None = None
    within: Seconds | None = None
    broker: Literal["other"] | None = Field(default=None, description="at another broker of the cluster than the one that the user named")

    def calls(self) -> Iterable[tuple[Place, Mapping[str, Any]]]:
        """Return the call."""
        return given("read", self.read)

    def clauses(self) -> Iterable[tuple[Place, str]]:
        """Return the clause that its answer tests."""
        return given("clause", self.clause)

    def compile(self, _: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the action."""
        spec = {"call": self.read, "expect": self.expect, "within": self.within or DEFAULT_WITHIN, **_elsewhere(self.broker)}
        return [Read(path, scope, None, spec, clause=self.clause)]


@step_kind("advance")
class AdvanceStep(StepKind):
    """Time passes: seconds, or {$random: [low, high]}."""

    advance: float | dict[str, Any]

    def seconds(self) -> float:
        """Return the seconds, or the most that may be drawn."""
        return float(self.advance["$random"][1] if isinstance(self.advance, dict) else self.advance)

    def compile(self, _: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the action."""
        return [Advance(path, scope, None, self.advance)]


@step_kind("for")
class ForStep(StepKind):
    """The steps once for every value, unrolled before the run."""

    for_: Annotated[dict[str, Any], Field(alias="for", min_length=1, max_length=1)]
    do: Annotated[list[Step], Field(min_length=1)]

    def children(self) -> Iterable[tuple[Place, StepKind]]:
        """Return the steps that are repeated."""
        return listed(self.do, "do")

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the steps for each value."""
        ((name, values),) = self.for_.items()
        nodes: list[Node] = []
        for index, value in enumerate(resolve(values, scope.variables)):
            nodes += compiler.steps(self.do, scope.with_variables({name: value}), f"{path}#{index}.do")
        return nodes


class Branch(Strict):
    """One alternative; its level says how it is rated."""

    name: str
    level: Literal["conforms", "warn", "gap", "fails"] = "conforms"
    only: list[str] | None = Field(default=None, description="releases of Apache Pulsar that may take it")
    seen_in: list[str] = Field(default=[], description="releases that were seen to take it; informs only")
    clause: str | None = None
    steps: list[Step]

    @field_validator("only", "seen_in")
    @classmethod
    def _known_releases(cls, releases: list[str] | None) -> list[str] | None:
        unknown = set(releases or ()) - set(RELEASES)
        if unknown:
            raise ValueError(f"unknown release {', '.join(sorted(unknown))}; known: {', '.join(RELEASES)}")
        return releases


@step_kind("one_of")
class OneOfStep(StepKind):
    """Alternatives: the first frame that fits one of them chooses it."""

    one_of: Annotated[list[Branch], Field(min_length=2)]

    def children(self) -> Iterable[tuple[Place, StepKind]]:
        """Return the steps of all branches."""
        return (child for index, branch in enumerate(self.one_of) for child in listed(branch.steps, "one_of", index, "steps"))

    def clauses(self) -> Iterable[tuple[Place, str]]:
        """Return the clauses of the branches."""
        return ((("one_of", index, "clause"), branch.clause) for index, branch in enumerate(self.one_of) if branch.clause is not None)

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return a choice among the branches that the release may take."""
        release = scope.variables.get("@release")
        usable = [one for one in self.one_of if one.only is None or release is None or release in one.only]
        alternatives = [
            Alternative(one.name, one.level, one.clause, grouped(compiler.steps(one.steps, scope, f"{path}.{one.name}"))) for one in usable
        ]
        return [Choice(path, tuple(alternatives))]


@step_kind("any_order")
class AnyOrderStep(StepKind):
    """Sequences of expectations that may be interleaved freely."""

    any_order: Annotated[list[list[Step]], Field(min_length=2)] | None = None
    each: Annotated[dict[str, Any], Field(min_length=1, max_length=1)] | None = None
    do: list[Step] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> AnyOrderStep:
        if (self.any_order is None) == (self.each is None) or (self.each is None) != (self.do is None):
            raise ValueError("any_order takes a list of step lists; any_order: null with each: and do: makes one for every value")
        return self

    def children(self) -> Iterable[tuple[Place, StepKind]]:
        """Return the steps of all sequences."""
        lists = (listed(one, "any_order", index) for index, one in enumerate(self.any_order or ()))
        return (*(child for one in lists for child in one), *listed(self.do, "do"))

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the sequences side by side."""
        if self.any_order is not None:
            lists = [compiler.steps(one, scope, f"{path}.any_order[{i}]") for i, one in enumerate(self.any_order)]
        else:
            ((name, values),) = (self.each or {}).items()
            lists = [
                compiler.steps(self.do or [], scope.with_variables({name: value}), f"{path}#{i}.do")
                for i, value in enumerate(resolve(values, scope.variables))
            ]
        for node in (node for one in lists for node in one):
            if not isinstance(node, Expectation):
                raise ProgramProblem(f"{node.path}: any_order holds expectations only")
        return [Interleave(path, tuple(tuple(one) for one in lists if one))]


@step_kind("optional")
class OptionalStep(StepKind):
    """Steps that happen completely or not at all."""

    optional: Annotated[list[Step], Field(min_length=1)]

    def children(self) -> Iterable[tuple[Place, StepKind]]:
        """Return the steps."""
        return listed(self.optional, "optional")

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return a choice between the steps and nothing."""
        nodes = grouped(compiler.steps(self.optional, scope, f"{path}.optional"))
        return [Choice(path, (Alternative("present", "conforms", None, nodes), Alternative("left out", "conforms", None, ())))]


@step_kind("collect")
class CollectStep(_Expectation):
    """Frames in any number, folded into variables."""

    collect: CollectSpec

    def frames(self) -> Iterable[tuple[Place, FrameSpec]]:
        """Return the frame."""
        yield ("collect", "frame"), self.collect.frame

    def compile(self, _: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return an expectation that stays until it is complete."""
        return [Collect(path, connection(self.at, scope), scope, self.patience(), spec=self.collect, clause=self.clause)]


class SilenceSpec(Strict):
    """What must not come."""

    frames: list[FrameSpec] = Field(default=[])
    seen: list[Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]] = Field(
        default=[], description="of clients: events of the driver"
    )

    @model_validator(mode="after")
    def _not_empty(self) -> SilenceSpec:
        if not self.frames and not self.seen:
            raise ValueError("a silence names frames, or events of the driver, that must not come")
        return self


@step_kind("silence")
class SilenceStep(_Step):
    """While the `until` steps run, a frame that fits, and that these steps can't take, fails the clause."""

    silence: SilenceSpec
    clause: str | None = None
    until: Annotated[list[Step], Field(min_length=1)]

    def children(self) -> Iterable[tuple[Place, StepKind]]:
        """Return the steps during which there must be silence."""
        return listed(self.until, "until")

    def frames(self) -> Iterable[tuple[Place, FrameSpec]]:
        """Return the frames that must not come."""
        return ((("silence", "frames", index), frame) for index, frame in enumerate(self.silence.frames))

    def clauses(self) -> Iterable[tuple[Place, str]]:
        """Return the clause that a frame breaks."""
        return given("clause", self.clause)

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return a silence around its steps."""
        until = grouped(compiler.steps(self.until, scope, f"{path}.until"))
        at = connection(self.at, scope)
        return [Silence(path, at, scope, tuple(self.silence.frames), until, tuple(self.silence.seen), clause=self.clause)]


@step_kind("race")
class RaceStep(StepKind):
    """Actions that start together; what follows is matched from the start of the race."""

    race: Annotated[dict[str, list[Step]], Field(min_length=2)]

    def children(self) -> Iterable[tuple[Place, StepKind]]:
        """Return the steps of all lanes."""
        return (child for name, steps in self.race.items() for child in listed(steps, "race", name))

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return one group with a lane for each list."""
        lanes = []
        for name, steps in self.race.items():
            nodes = compiler.steps(steps, scope, f"{path}.{name}")
            actions = tuple(node for node in nodes if isinstance(node, Action) and not node.judges)
            if len(actions) < len(nodes):
                raise ProgramProblem(f"{path}.{name}: a race holds actions only; what must come back is written after it")
            lanes.append(actions)
        return [Actions(path, tuple(lanes))]


@step_kind("observe")
class ObserveStep(StepKind):
    """Named facts for the census; never fails."""

    observe: dict[str, Any]

    def compile(self, _: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return an observation."""
        return [Observe(path, scope, self.observe)]


@step_kind("use")
class UseStep(_Step):
    """The steps of a fragment; `with` sets its parameters, which may speak of what frames bind."""

    use: str
    with_: dict[str, Any] = Field(default={}, alias="with")

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the steps of the fragment, with its parameters and on its connection."""
        fragment = compiler.fragments.get(self.use)
        if fragment is None:
            raise ProgramProblem(f"{path}: there is no fragment {self.use!r}; known: {', '.join(sorted(compiler.fragments))}")
        unknown = set(self.with_) - set(fragment.params)
        if unknown:
            raise ProgramProblem(f"{path}: {self.use} has no parameter {', '.join(sorted(unknown))}; it has {', '.join(fragment.params)}")
        given = {name: resolve_known(value, scope.variables) for name, value in {**fragment.params, **self.with_}.items()}
        compiler.awaits(given, path)
        at = connection(self.at, scope)
        inner = Scope({**scope.variables, **given, "at": at}, at)
        return compiler.steps(fragment.steps, inner, f"{path}.{fragment.id}")
