"""The files of the suite as they are written: transcripts, fragments, clause registers and baselines.

Format version 1. The JSON Schemas that the site publishes are made from these classes.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, field_validator

from conformance.engine import client_steps  # noqa: F401  the kinds that a file may hold, with those of `steps`
from conformance.engine.capabilities import MEANINGS
from conformance.engine.parts import FrameSpec, Seconds, Soon, Strict
from conformance.engine.step import HoldsSteps, Role, Step, listed, walk_steps
from conformance.names import did_you_mean
from refimpl.proposals import PROPOSALS
from refimpl.proposals.profiles import profile_name

FORMAT = 1
_ADDRESSES = {proposal.register: proposal.address for proposal in PROPOSALS}

Level: TypeAlias = Literal["MUST", "SHOULD", "MAY"]
ProfileName: TypeAlias = Annotated[
    Literal["default", "as-written"], BeforeValidator(profile_name, json_schema_input_type=Literal["default", "as-written", "letter"])
]


class Ambient(Strict):
    """A frame that may come at any time; counted, and answered if `answer` is given."""

    frame: FrameSpec
    answer: FrameSpec | None = None
    only: list[str] | None = Field(default=None, description="releases of Apache Pulsar for which it is ambient")
    cite: str = Field(default="", description="why it is no fault")


class Trials(Strict):
    """The case runs several times on fresh names."""

    count: Annotated[int, Field(ge=1)] = 20
    fail_over: Annotated[int, Field(ge=0)] = Field(default=0, description="failed trials that are still tolerated")


class Quiet(Strict):
    """The case ends after a quiet time, in seconds."""

    quiet: Seconds


class Settings(Strict):
    """Settings of a broker that several cases share, and the variables that belong to them."""

    format: Literal[1]
    id: Annotated[str, Field(pattern=r"^settings(/[a-z0-9-]+)+$")]
    title: str
    config: Annotated[dict[str, str], Field(min_length=1)]
    vars: dict[str, Any] = {}


class Transcript(HoldsSteps):
    """One case: what the suite sends, and what it expects."""

    format: Literal[1]
    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(/[a-z0-9-]+)+$")]
    title: str
    tests: Annotated[list[Literal["client", "broker"]], Field(min_length=1)]
    clauses: Annotated[list[str], Field(min_length=1)]
    requires: list[str] = Field(default=[], description="capabilities; `!name` for one that must be absent")
    profiles: list[ProfileName] = ["default", "as-written"]
    settings: str | None = Field(default=None, description="id of shared settings; target_config and vars add to them")
    target_config: dict[str, str] = {}
    assumes: dict[str, str] = Field(default={}, description="settings that it takes for granted: with others it says nothing")
    control: str | None = Field(default=None, description="a case that differs in one thing and must pass in the same run")
    recorded: Literal["pending"] | None = Field(
        default=None, description="`pending`: releases that could run it are not recorded yet; taken out once they are"
    )
    origin: str | None = Field(default=None, description="where the case comes from, when it was not written by hand")
    vars: dict[str, Any] = {}
    matrix: dict[str, list[Any] | dict[str, Any]] = Field(
        default={}, description="variable: its values, or names of cells with the values they stand for"
    )
    trials: Trials | None = None
    ambient: list[Ambient] | None = Field(default=None, description="replaces the usual: PING, answered by PONG, and PONG")
    steps: Annotated[list[Step], Field(min_length=1)]
    end: Literal["fence", "alive", "none"] | Quiet = "fence"

    @property
    def role(self) -> Role:
        """Return the role under test: a case for both is run against brokers."""
        return "broker" if "broker" in self.tests else "client"

    def with_settings(self, settings: Settings) -> Transcript:
        """Return the case with shared settings filled in. Its own settings take precedence."""
        merged = {"target_config": {**settings.config, **self.target_config}, "vars": {**settings.vars, **self.vars}}
        return self.model_copy(update=merged)

    def seconds(self) -> float:
        """Return the seconds that the case waits for; fragments are not counted."""
        end = self.end.quiet if isinstance(self.end, Quiet) else 0.0
        return end + sum(step.seconds() for _, step in walk_steps(listed(self.steps)))

    @field_validator("requires")
    @classmethod
    def _known_capabilities(cls, names: list[str]) -> list[str]:
        for name in (name.removeprefix("!") for name in names):
            if name not in MEANINGS:
                raise ValueError(f"unknown capability {name}{did_you_mean(name, MEANINGS) or '; known: ' + ', '.join(MEANINGS)}")
        return names


class Fragment(HoldsSteps):
    """Steps that several transcripts share."""

    format: Literal[1]
    id: Annotated[str, Field(pattern=r"^lib(/[a-z0-9-]+)+$")]
    title: str
    params: dict[str, Any] = Field(default={}, description="parameters and what they are without `with`")
    steps: Annotated[list[Step], Field(min_length=1)]


class Clause(Strict):
    """One statement that can be tested, in our own words."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(\.[a-z0-9-]+)+$")]
    level: Level
    basis: Literal["keyword", "indicative", "observed", "settled"] = Field(description="how the level was derived")
    side: Literal["broker", "client"]
    text: str
    section: str = Field(default="", description="the section of the text that speaks of it; `observed` or `settled` if none does")
    says: str = Field(default="", description="what the text says there, in a sentence of our own; the clause is what follows from it")
    profiles: list[ProfileName] = ["default", "as-written"]
    depends_on: list[str] = []
    aliases: list[str] = []
    effect: str = Field(default="", description="what a peer suffers when it does not hold")
    soon: list[Soon] = Field(default=[], description="SHOULD only: frames that come within a time, wherever a case expects them")
    observed_by: str | None = Field(default=None, description="the monitor that covers a clause which no transcript asserts")
    excluded: str | None = Field(default=None, description="why it is not tested")


class Source(Strict):
    """The source of the clauses of a register."""

    title: str
    seed: str | None = None
    address: Annotated[str, Field(pattern=r"^https://")] | None = Field(
        default=None, description="where the text is published; a proposal declares it"
    )


class Register(Strict):
    """All clauses of one proposal, or of the core of the protocol."""

    format: Literal[1]
    proposal: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    source: Source
    clauses: Annotated[list[Clause], Field(min_length=1)]

    @property
    def address(self) -> str | None:
        """Return where the text is published."""
        return _ADDRESSES.get(self.proposal.replace("-", ""), self.source.address)


class BaselineEntry(Strict):
    """One known failure."""

    case: str = Field(description="case id, a glob, with its cell in brackets if it has cells")
    clause: str
    verdict: Literal["FAIL", "WARN", "ERROR"] = "FAIL"
    diagnosis: str = Field(default="", description="text that the first line of the diagnosis contains")
    reason: str
    link: str = ""
    until: date | None = None
    expect_rate: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="a defect of chance: how often; its absence is no surprise"
    )


class Baseline(Strict):
    """The known failures of one target."""

    format: Literal[1]
    target: str
    entries: list[BaselineEntry] = []
