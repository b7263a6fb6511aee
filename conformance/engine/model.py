"""The files of the suite as they are written: transcripts, fragments, clause registers and baselines.

Format version 1. The JSON Schemas that the site publishes are made from these classes.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from conformance.engine.capabilities import CAPABILITIES
from refimpl.proposals import PROPOSALS
from refimpl.proposals.profiles import profile_name

FORMAT = 1
_ADDRESSES = {proposal.register: proposal.address for proposal in PROPOSALS}

RELEASES = ("2.10.5", "2.11.0", "3.0.7", "4.0.0", "4.2.4", "5.0.0-M1")
"""The Apache Pulsar releases that the suite knows."""

Level: TypeAlias = Literal["MUST", "SHOULD", "MAY"]
ProfileName: TypeAlias = Annotated[
    Literal["default", "as-written"], BeforeValidator(profile_name, json_schema_input_type=Literal["default", "as-written", "letter"])
]
FrameSpec: TypeAlias = Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]
"""One frame: the name of its field in BaseCommand, and the fields of the command."""
Seconds: TypeAlias = Annotated[float, Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Window(_Strict):
    """A rule that speaks of time: seconds since a label; never scaled."""

    since: str
    min: float = 0.0
    max: float


class _Step(_Strict):
    at: str | None = Field(default=None, description="the connection; without it the one of the fragment, or `c`")


class _Expectation(_Step):
    clause: str | None = Field(default=None, description="the clause that fails with this step")
    within: Seconds | None = Field(default=None, description="seconds after the end of the last action; scales with --slow")
    window: Window | None = None
    label: str | None = Field(default=None, description="names the moment of this step for a window")


class FrameStep(_Expectation):
    """One frame: sent if the harness plays its emitter, expected if the role under test does."""

    client: FrameSpec | None = None
    broker: FrameSpec | None = None
    payload: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_emitter(self) -> FrameStep:
        if (self.client is None) == (self.broker is None):
            raise ValueError("a frame step names its emitter once: either client: or broker:")
        return self


class OneWriteStep(_Step):
    """Several frames in one write call."""

    one_write: Annotated[list[FrameSpec], Field(min_length=2)]
    label: str | None = None


class BytesSpec(_Strict):
    """Raw or damaged bytes; one of `of`, `command`, `hex`, `text` says what they are made from."""

    of: FrameSpec | None = Field(default=None, description="a frame, encoded as usual")
    payload: dict[str, Any] | None = None
    command: str | None = Field(default=None, description="bytes of a BaseCommand in hexadecimal; sizes are put in front")
    hex: str | None = None
    text: str | None = None
    append: str | None = Field(default=None, description="bytes after the command, inside the frame")
    total_size: int | None = Field(default=None, description="written in place of the right one")
    command_size: int | None = Field(default=None, description="written in place of the right one")
    pad_to_size: int | None = Field(default=None, description="zero bytes after the command until the whole frame has this size")
    truncate: int | None = Field(default=None, description="keep the first bytes only")
    flip: int | None = Field(default=None, description="invert the byte at this offset")
    split: bool = Field(default=False, description="write one byte at a time")

    @model_validator(mode="after")
    def _one_source(self) -> BytesSpec:
        given = [name for name in ("of", "command", "hex", "text") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"bytes are made from one of: of, command, hex, text (given: {', '.join(given) or 'none'})")
        return self


class BytesStep(_Step):
    """Bytes that need not be a frame."""

    bytes: BytesSpec
    label: str | None = None


class OpenStep(_Strict):
    """The harness opens a connection."""

    open: str
    label: str | None = None


class CloseSpec(_Strict):
    """How the harness ends a connection."""

    at: str | None = None
    how: Literal["fin", "rst", "half"] = "fin"


class CloseStep(_Strict):
    """The harness ends a connection."""

    close: CloseSpec
    label: str | None = None


class ClosedSpec(_Strict):
    """Which connection the role under test ends."""

    at: str | None = None


class ClosedStep(_Expectation):
    """The role under test ends a connection."""

    closed: ClosedSpec = ClosedSpec()


class AdminStep(_Strict):
    """Calls of the admin API, in order; with `each` once for every value, `parallel` at a time."""

    admin: dict[str, Any] | list[dict[str, Any]]
    each: Annotated[dict[str, Any], Field(min_length=1, max_length=1)] | None = None
    parallel: Annotated[int, Field(ge=1)] = 1
    status: int | None = Field(default=None, description="the answer to expect; without it any 2xx")
    label: str | None = None


class ReadStep(_Strict):
    """A reading admin call, repeated until its answer fits."""

    read: Annotated[dict[str, Any], Field(min_length=1, max_length=1)]
    expect: Any
    clause: str | None = None
    within: Seconds | None = None


class AdvanceStep(_Strict):
    """Time passes: seconds, or {$random: [low, high]}."""

    advance: float | dict[str, Any]


class ForStep(_Strict):
    """The steps once for every value, unrolled before the run."""

    for_: Annotated[dict[str, Any], Field(alias="for", min_length=1, max_length=1)]
    do: Annotated[list[Step], Field(min_length=1)]


class Branch(_Strict):
    """One alternative; its level says what it is worth."""

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


class OneOfStep(_Strict):
    """Alternatives: the first frame that fits one of them chooses it."""

    one_of: Annotated[list[Branch], Field(min_length=2)]


class AnyOrderStep(_Strict):
    """Sequences of expectations that may be interleaved freely."""

    any_order: Annotated[list[list[Step]], Field(min_length=2)] | None = None
    each: Annotated[dict[str, Any], Field(min_length=1, max_length=1)] | None = None
    do: list[Step] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> AnyOrderStep:
        if (self.any_order is None) == (self.each is None) or (self.each is None) != (self.do is None):
            raise ValueError("any_order takes a list of step lists; any_order: null with each: and do: makes one for every value")
        return self


class OptionalStep(_Strict):
    """Steps that happen whole or not at all."""

    optional: Annotated[list[Step], Field(min_length=1)]


class Fold(_Strict):
    """Two fields of a frame that tell how a set has changed."""

    remove: str = Field(description="path of the field whose values leave the set, first")
    add: str = Field(description="path of the field whose values come into it, then")


class CollectSpec(_Strict):
    """Takes frames while they fit and remembers what they carry."""

    frame: FrameSpec
    into: dict[str, str] = Field(default={}, description="variable: field path whose values are gathered into a list")
    fold: dict[str, Fold] = Field(default={}, description="variable, a list without repetition: how each frame changes it")
    each: dict[str, Any] | None = Field(default=None, description="pattern for the command, with the variables as they are after it")
    until: Annotated[dict[str, Any], Field(min_length=1)] = Field(description="variable: pattern; complete when all fit")

    @model_validator(mode="after")
    def _remembers(self) -> CollectSpec:
        unknown = set(self.until) - {*self.into, *self.fold}
        if unknown or set(self.into) & set(self.fold):
            raise ValueError(f"each variable of until is gathered by into or by fold (not: {', '.join(sorted(unknown)) or 'by both'})")
        return self


class CollectStep(_Expectation):
    """Frames in any number, folded into variables."""

    collect: CollectSpec


class SilenceSpec(_Strict):
    """Frames that must not come."""

    frames: Annotated[list[FrameSpec], Field(min_length=1)]


class SilenceStep(_Step):
    """While the `until` steps run, a frame that fits and that they can't take fails the clause."""

    silence: SilenceSpec
    clause: str | None = None
    until: Annotated[list[Step], Field(min_length=1)]


class RaceStep(_Strict):
    """Actions that start together; what follows is matched from the start of the race."""

    race: Annotated[dict[str, list[Step]], Field(min_length=2)]


class ObserveStep(_Strict):
    """Named facts for the census; never fails."""

    observe: dict[str, Any]


class UseStep(_Step):
    """The steps of a fragment; `with` sets its parameters."""

    use: str
    with_: dict[str, Any] = Field(default={}, alias="with")


_KINDS: dict[str, str] = {
    "client": "frame",
    "broker": "frame",
    "one_write": "one_write",
    "bytes": "bytes",
    "open": "open",
    "close": "close",
    "closed": "closed",
    "admin": "admin",
    "read": "read",
    "advance": "advance",
    "for": "for",
    "one_of": "one_of",
    "any_order": "any_order",
    "optional": "optional",
    "collect": "collect",
    "silence": "silence",
    "race": "race",
    "observe": "observe",
    "use": "use",
}
STEP_KEYS = tuple(_KINDS)


def _kind(step: Any) -> str | None:
    if not isinstance(step, dict):
        return None
    return next((_KINDS[key] for key in step if key in _KINDS), None)


Step: TypeAlias = Annotated[
    Annotated[FrameStep, Tag("frame")]
    | Annotated[OneWriteStep, Tag("one_write")]
    | Annotated[BytesStep, Tag("bytes")]
    | Annotated[OpenStep, Tag("open")]
    | Annotated[CloseStep, Tag("close")]
    | Annotated[ClosedStep, Tag("closed")]
    | Annotated[AdminStep, Tag("admin")]
    | Annotated[ReadStep, Tag("read")]
    | Annotated[AdvanceStep, Tag("advance")]
    | Annotated[ForStep, Tag("for")]
    | Annotated[OneOfStep, Tag("one_of")]
    | Annotated[AnyOrderStep, Tag("any_order")]
    | Annotated[OptionalStep, Tag("optional")]
    | Annotated[CollectStep, Tag("collect")]
    | Annotated[SilenceStep, Tag("silence")]
    | Annotated[RaceStep, Tag("race")]
    | Annotated[ObserveStep, Tag("observe")]
    | Annotated[UseStep, Tag("use")],
    Discriminator(_kind, custom_error_type="step_kind", custom_error_message="not a step: it needs one of " + ", ".join(STEP_KEYS)),
]


class Ambient(_Strict):
    """A frame that may come at any time; counted, and answered if `answer` is given."""

    frame: FrameSpec
    answer: FrameSpec | None = None
    only: list[str] | None = Field(default=None, description="releases of Apache Pulsar for which it is ambient")
    cite: str = Field(default="", description="why it is no fault")


class Trials(_Strict):
    """The case runs several times on fresh names."""

    count: Annotated[int, Field(ge=1)] = 20
    fail_over: Annotated[int, Field(ge=0)] = Field(default=0, description="failed trials that are still tolerated")


class Quiet(_Strict):
    """The case ends after a quiet time, in seconds."""

    quiet: Seconds


class Settings(_Strict):
    """Settings of a broker that several cases share, and the variables that belong to them."""

    format: Literal[1]
    id: Annotated[str, Field(pattern=r"^settings(/[a-z0-9-]+)+$")]
    title: str
    config: Annotated[dict[str, str], Field(min_length=1)]
    vars: dict[str, Any] = {}


class Transcript(_Strict):
    """One case: what is sent and what must come back."""

    format: Literal[1]
    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(/[a-z0-9-]+)+$")]
    title: str
    tests: Annotated[list[Literal["client", "broker"]], Field(min_length=1)]
    clauses: Annotated[list[str], Field(min_length=1)]
    requires: list[str] = Field(default=[], description="capabilities; `!name` for one that must be absent")
    profiles: list[ProfileName] = ["default", "as-written"]
    settings: str | None = Field(default=None, description="id of shared settings; target_config and vars add to them")
    target_config: dict[str, str] = {}
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

    def with_settings(self, settings: Settings) -> Transcript:
        """Return the case with shared settings put in; what it says itself wins."""
        merged = {"target_config": {**settings.config, **self.target_config}, "vars": {**settings.vars, **self.vars}}
        return self.model_copy(update=merged)

    @field_validator("requires")
    @classmethod
    def _known_capabilities(cls, names: list[str]) -> list[str]:
        unknown = {name.removeprefix("!") for name in names} - set(CAPABILITIES)
        if unknown:
            raise ValueError(f"unknown capability {', '.join(sorted(unknown))}; known: {', '.join(CAPABILITIES)}")
        return names


class Fragment(_Strict):
    """Steps that several transcripts share."""

    format: Literal[1]
    id: Annotated[str, Field(pattern=r"^lib(/[a-z0-9-]+)+$")]
    title: str
    params: dict[str, Any] = Field(default={}, description="parameters and what they are without `with`")
    steps: Annotated[list[Step], Field(min_length=1)]


class Clause(_Strict):
    """One checkable statement, in our own words."""

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
    observed_by: str | None = Field(default=None, description="the monitor that covers a clause which no transcript asserts")
    excluded: str | None = Field(default=None, description="why it is not tested")


class Source(_Strict):
    """Where the clauses of a register come from."""

    title: str
    seed: str | None = None
    address: Annotated[str, Field(pattern=r"^https://")] | None = Field(
        default=None, description="where the text is published; a proposal declares it"
    )


class Register(_Strict):
    """All clauses of one proposal, or of the core of the protocol."""

    format: Literal[1]
    proposal: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    source: Source
    clauses: Annotated[list[Clause], Field(min_length=1)]

    @property
    def address(self) -> str | None:
        """Return where the text is published."""
        return _ADDRESSES.get(self.proposal.replace("-", ""), self.source.address)


class BaselineEntry(_Strict):
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


class Baseline(_Strict):
    """The known failures of one target."""

    format: Literal[1]
    target: str
    entries: list[BaselineEntry] = []


for _model in (ForStep, Branch, OneOfStep, AnyOrderStep, OptionalStep, SilenceStep, RaceStep, Transcript, Fragment):
    _model.model_rebuild()
