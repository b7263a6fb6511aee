"""The kinds of steps of cases for clients: what the driver is asked to do, what it tells, and what the backdrop does out of the ordinary.

A case for clients has a *backdrop*: the reference broker answers whatever the case does not speak of. `client:` finds a frame among
all that the client sends, `broker:` sends one to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from conformance.engine import log
from conformance.engine.actions import Action
from conformance.engine.matchers import FITS, Difference, Match, match
from conformance.engine.matching import Clock, Seen, binds, in_time, match_frame
from conformance.engine.node import DEFAULT_WITHIN, USER, Expectation, Node, Plan, Scope, Taking
from conformance.engine.parts import FrameSpec, Seconds, Strict, Window
from conformance.engine.step import Compiler, Place, ProgramProblem, StepKind, step_kind
from conformance.engine.steps import given
from conformance.engine.values import Value, resolve

DRIVER = "driver"
"""Stands for a connection: the results of the driver."""
BACKDROP = "backdrop"
"""Stands for a connection: what the client gets from the backdrop."""
RESULT = "result"
"""What the driver tells about something that it was asked to do."""
CLIENT = "c"
"""The connection that stands for all those of the client under test."""


class Drive(Action):
    """The driver is asked to do something; `spec` holds do, with and name."""

    what = "drive"

    def show(self, plan: Plan) -> None:
        """Write it."""
        plan.asks({self.spec["do"]: self.spec["with"]}, self.scope, at=DRIVER)


class Rule(Action):
    """From now on the backdrop treats certain frames in another way; `spec` holds side, frame, do and times."""

    what = "rule"

    def show(self, plan: Plan) -> None:
        """Write it."""
        times = "each" if self.spec["times"] == "all" else "the next" if self.spec["times"] == 1 else f"the next {self.spec['times']} times"
        frame = plan.frame_text(self.spec["frame"], self.scope)
        plan.note(f"{times} {frame} of the {self.spec['side']}: {plan.text(self.spec['do'], self.scope)}")


@dataclass(frozen=True)
class Tells(Expectation):
    """Something that the driver tells; or, if `what` is `opened`, a connection that the client opens."""

    what: str = field(default="", compare=False, kw_only=True)
    detail: Mapping[str, Any] = field(default_factory=dict, compare=False, kw_only=True)
    window: Window | None = field(default=None, compare=False, kw_only=True)
    label: str | None = field(default=None, compare=False, kw_only=True)

    def awaited(self) -> Mapping[str, Any]:
        """Return what is to be told, named for a reader."""
        return {"a new connection" if self.at == CLIENT else f"{self.at}: {self.what}": self.detail}

    def news(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield what is to be told."""
        yield self.at, self.what, self.detail

    def binds(self) -> set[str]:
        """Return what it binds."""
        return set(binds(self.detail, self.scope.variables))

    def certain(self) -> Iterator[Expectation]:
        """Yield itself."""
        yield self

    def compare(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Match:
        """Compare an event with it."""
        if seen.event.at != self.at or seen.name != self.what:
            return Match((Difference("", self.what, seen.name),))
        told = seen.event.detail if isinstance(seen.event, log.Told) else {}
        found = match(self.scope.resolve(self.detail, bindings), told) if self.detail else FITS
        return found + in_time(self.window, self.within, bindings, clock)

    def takes(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[Taking]:
        """Yield the event if it fits; a label binds the moment."""
        found = self.compare(seen, bindings, clock)
        if found:
            yield (), found + Match((), ((f"@{self.label}", clock.now),) if self.label else ()), self

    @property
    def timed(self) -> bool:
        """Tell whether it has a window."""
        return self.window is not None

    @property
    def has_own_limit(self) -> bool:
        """Tell whether it has a window, or a time limit that is not the usual one."""
        return self.timed or super().has_own_limit

    def deadline(self, bindings: Mapping[str, Value], last_action: float, slow: float) -> float:
        """Return the end of its window, or of the usual time limit."""
        if self.window is None:
            return super().deadline(bindings, last_action, slow)
        return float(bindings.get(f"@{self.window.since}", last_action)) + self.window.max

    def show(self, plan: Plan) -> None:
        """Write it."""
        plan.awaits(self)


class _ClientStep(StepKind):
    clause: str | None = Field(default=None, description="the clause that fails with this step")
    within: Seconds | None = Field(default=None, description="seconds after the end of the last action; scales with --slow")

    def clauses(self) -> Iterable[tuple[Place, str]]:
        """Return the clause."""
        return given("clause", self.clause)

    def patience(self) -> float:
        """Return the seconds that it waits."""
        return DEFAULT_WITHIN if self.within is None else self.within

    def check(self, compiler: Compiler, path: str) -> None:
        """Refuse the step in a case for brokers.

        Raises:
            ProgramProblem: It is one.
        """
        if compiler.role != "client":
            raise ProgramProblem(f"{path}: only cases for clients have this step (tests: [client])")


@step_kind("drive")
class DriveStep(_ClientStep):
    """The driver does something, and tells how it went."""

    drive: Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]
    result: dict[str, Any] = Field(default={"ok": True}, description="what its result must fit")
    aside: str | None = Field(default=None, description="a name: its result is not awaited here, but by `seen: {result: {of: name}}`")

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the action, and the wait for its result."""
        self.check(compiler, path)
        ((verb, arguments),) = self.drive.items()
        name = path if self.aside is None else resolve(self.aside, scope.variables)
        asked = Drive(path, scope, None, {"do": verb, "with": arguments, "name": name})
        if self.aside is not None:
            return [asked]
        told = Tells(f"{path}.result", DRIVER, scope, self.patience(), what=RESULT, detail={"of": name, **self.result}, clause=self.clause)
        return [asked, told]


@step_kind("seen")
class SeenStep(_ClientStep):
    """The user of the client sees something: an event of the driver, or a result that was put aside."""

    seen: Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]
    window: Window | None = None
    label: str | None = Field(default=None, description="names the moment of this step for a window")

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return an expectation."""
        self.check(compiler, path)
        ((what, detail),) = self.seen.items()
        at = DRIVER if what == RESULT else USER
        told = Tells(path, at, scope, self.patience(), what=what, detail=detail, window=self.window, label=self.label, clause=self.clause)
        return [told]


@dataclass(frozen=True)
class Passes(Expectation):
    """A frame that the client has got from the backdrop."""

    frame: Mapping[str, Any] = field(default_factory=dict, compare=False, kw_only=True)

    def awaited(self) -> Mapping[str, Any]:
        """Return the frame."""
        return self.frame

    def binds(self) -> set[str]:
        """Return what it binds."""
        return set(binds(self.frame, self.scope.variables))

    def certain(self) -> Iterator[Expectation]:
        """Yield itself."""
        yield self

    def compare(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Match:
        """Compare an event with it."""
        if not isinstance(seen.event, log.Passed):
            return Match((Difference("", "a frame of the backdrop", seen.name),))
        return match_frame(self.frame, seen, {**self.scope.variables, **bindings}) + in_time(None, self.within, bindings, clock)

    def takes(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[Taking]:
        """Yield the frame if it fits."""
        found = self.compare(seen, bindings, clock)
        if found:
            yield (), found, self

    def show(self, plan: Plan) -> None:
        """Write it."""
        plan.note("the backdrop has sent", plan.frame_text(self.frame, self.scope))


@step_kind("passed")
class PassedStep(_ClientStep):
    """The backdrop has answered: what the case does next comes behind that."""

    passed: FrameSpec

    def frames(self) -> Iterable[tuple[Place, FrameSpec]]:
        """Return the frame."""
        return ((("passed",), self.passed),)

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return an expectation."""
        self.check(compiler, path)
        return [Passes(path, BACKDROP, scope, self.patience(), frame=self.passed)]


@step_kind("opened")
class OpenedStep(_ClientStep):
    """The client opens a connection."""

    opened: dict[str, Any] = Field(max_length=0)
    window: Window | None = None
    label: str | None = Field(default=None, description="names the moment of this step for a window")

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return an expectation."""
        self.check(compiler, path)
        at = CLIENT
        told = Tells(path, at, scope, self.patience(), what="opened", window=self.window, label=self.label, clause=self.clause)
        return [told]


class OnSpec(Strict):
    """Frames that a rule is about: those of the client or those of the backdrop that fit."""

    client: FrameSpec | None = None
    broker: FrameSpec | None = None

    @model_validator(mode="after")
    def _one_side(self) -> OnSpec:
        if (self.client is None) == (self.broker is None):
            raise ValueError("a rule is about frames of one side: client: or broker:")
        return self


class DoSpec(Strict):
    """What happens to such a frame instead of being passed on as it is."""

    change: dict[str, Any] | str | None = Field(
        default=None, description="it is passed on with these fields; {$absent: true} takes one out"
    )
    instead: list[FrameSpec] | None = Field(default=None, description="the client gets these frames, and the other side nothing")
    twice: Literal[True] | None = Field(default=None, description="it is passed on twice")
    drop: Literal[True] | None = Field(default=None, description="it is not passed on")
    delay: Seconds | None = Field(default=None, description="it, and what follows it, is passed on after so many seconds")
    late: Seconds | None = Field(default=None, description="it is passed on after so many seconds, while what follows it goes on")
    cut: Literal["fin", "rst"] | None = Field(default=None, description="the connection ends instead")

    @model_validator(mode="after")
    def _one_thing(self) -> DoSpec:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"a rule does one of {', '.join(type(self).model_fields)}")
        return self


@step_kind("on")
class OnStep(StepKind):
    """A rule for the backdrop, from now on: what it does with frames of a kind."""

    on: OnSpec
    do: DoSpec
    times: Annotated[int, Field(ge=1)] | Literal["all"] = 1

    def frames(self) -> Iterable[tuple[Place, FrameSpec]]:
        """Return the frames."""
        given = ((("on", side), frame) for side, frame in (("client", self.on.client), ("broker", self.on.broker)) if frame is not None)
        return (*given, *((("do", "instead", index), frame) for index, frame in enumerate(self.do.instead or ())))

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the action."""
        if compiler.role != "client":
            raise ProgramProblem(f"{path}: only cases for clients have this step (tests: [client])")
        side, frame = ("client", self.on.client) if self.on.client is not None else ("broker", self.on.broker)
        spec = {"side": side, "frame": frame, "do": self.do.model_dump(exclude_unset=True), "times": self.times}
        return [Rule(path, scope, None, spec)]
