"""The event log of a run: the runner writes it, and everything else reads it.

One JSON object per line, in one total order. `n` counts the events of one conversation (one trial of one cell of one case),
`t` is in seconds since the run began. Bytes are hexadecimal.

    header        the suite, the target, the arguments
      conversation  a trial begins: its case, cell, fresh names and seed
        begin, end    an action of the harness (send, open, close, ..), logged before its first byte and after its last
        frame         a frame of the role under test, logged when its last byte was decoded
        answer        an ambient frame was answered by the harness itself
        passed        what the backdrop, or a rule of the case, sent to a client under test
        opened        a client under test opened a connection
        told          the driver of a client under test said something
        garbage       bytes of the role under test that are not a frame
        closed        the role under test closed a connection
        deadline      the harness stopped waiting
        lag           the harness itself was late, by this many seconds
      finished      the conversation is over; `problem` when the harness could not run it
      skipped       a case that was not run, and why
      result        the verdict of a case (or of one cell of it), derived from the above
    footer        the run is complete
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from refimpl.proposals.profiles import profile_name

FORMAT = 1
_DATA = AliasChoices("octets", "data")
"""Logs say `octets`, since the first recording; both are read."""
_LINK: Any = Field(default=None, description="number of the connection, of those that a client under test has opened")


class LogError(ValueError):
    """A log that can't be read: the message names the file, the line and what is wrong there."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Header(_Record):
    """The first record: what ran against what."""

    record: Literal["header"] = "header"
    format: int = FORMAT
    suite: str
    transcripts: str = Field(description="digest of all transcripts and clauses")
    target: str
    release: str | None = None
    service_url: str = ""
    server_version: str = ""
    capabilities: dict[str, bool] = {}
    namespace_policies: dict[str, Any] = Field(default={}, description="given to the namespaces of the run, since the settings are unusual")
    profile: Annotated[str, BeforeValidator(profile_name)] = "default"
    role: Literal["broker", "client"] = Field(default="broker", description="what the target is")
    arguments: list[str] = []
    seed: int = 0
    slow: float = 1.0
    started: str = Field(description="date and time, ISO 8601, UTC")


class TrialStarted(_Record):
    """The start of one trial of one cell of one case."""

    record: Literal["conversation"] = "conversation"
    key: str = Field(description="case id, cell, trial and attempt: unique in the log")
    case: str
    cell: dict[str, Any] = {}
    trial: int = 0
    attempt: int = 0
    actions: str = Field(
        validation_alias=AliasChoices("acts", "actions"),
        serialization_alias="acts",
        description="digest of everything in the case that decides what is sent",
    )
    broker: str | None = Field(default=None, description="the broker at which it was held, of a cluster or behind a proxy")
    fresh: dict[str, str] = Field(default={}, description="the fresh names that stood in for variables")
    seed: int = 0
    virtual: bool = Field(default=False, description="it was held in virtual time, so that its `t` is on a clock of its own")
    t: float = 0.0


class _Event(_Record):
    key: str
    n: int
    t: float


class _ActionEvent(_Event):
    step: str = Field(
        pattern=r"^\d+\.\d+\.\d+$", description="number of the group of actions, lane (in a race), place in the lane; such as 2.0.1"
    )

    def place(self) -> tuple[int, int, int]:
        """Return the number of the group, the lane and the place in it."""
        group, lane, place = map(int, self.step.split("."))
        return group, lane, place


class Begin(_ActionEvent):
    """An action of the harness begins."""

    record: Literal["begin"] = "begin"
    what: Literal["send", "open", "close", "reading", "admin", "read", "advance", "move", "drive", "rule"]
    at: str | None = None
    data: str | None = Field(
        default=None,
        validation_alias=_DATA,
        serialization_alias="octets",
        description="a long send is cut: its first and last bytes, with '..' between them",
    )
    size: int | None = Field(default=None, description="bytes of the send")
    detail: dict[str, Any] = {}


class End(_ActionEvent):
    """An action of the harness has ended; `status` and `body` are those of an admin answer."""

    record: Literal["end"] = "end"
    status: int | None = None
    body: Any = None
    problem: str | None = None


class Frame(_Event):
    """A whole frame of the role under test."""

    record: Literal["frame"] = "frame"
    at: str
    data: str = Field(validation_alias=_DATA, serialization_alias="octets")
    link: int | None = _LINK


class Answer(_Event):
    """The harness answered an ambient frame, such as PING, by itself."""

    record: Literal["answer"] = "answer"
    at: str
    data: str = Field(validation_alias=_DATA, serialization_alias="octets")


class Garbage(_Event):
    """Bytes of the role under test that are not a frame, and why."""

    record: Literal["garbage"] = "garbage"
    at: str
    data: str = Field(validation_alias=_DATA, serialization_alias="octets")
    reason: str


class Closed(_Event):
    """The role under test closed a connection."""

    record: Literal["closed"] = "closed"
    at: str
    how: Literal["fin", "rst"]
    link: int | None = _LINK


class Opened(_Event):
    """A client under test opened a connection."""

    record: Literal["opened"] = "opened"
    at: str
    link: int | None = _LINK


class Told(_Event):
    """The driver of a client under test said something: the result of what it was asked to do, or what the client's user sees."""

    record: Literal["told"] = "told"
    at: str
    what: str = Field(description="`result`, or the kind of event, such as message")
    detail: dict[str, Any] = {}


class Passed(_Event):
    """A frame that the backdrop sent to a client under test, or a rule of the case in its place; context that is not judged."""

    record: Literal["passed"] = "passed"
    at: str
    link: int | None = _LINK
    data: str = Field(validation_alias=_DATA, serialization_alias="octets")
    rule: int | None = Field(default=None, description="number of the rule that made or changed it")


class Deadline(_Event):
    """The harness stopped waiting."""

    record: Literal["deadline"] = "deadline"


class Lag(_Event):
    """The harness was late by `seconds`. Rules about time can't be judged across this event."""

    record: Literal["lag"] = "lag"
    seconds: float


class Finished(_Record):
    """The conversation is over. `problem`: why it did not come to its end; `clause`: the clause that the target broke by that."""

    record: Literal["finished"] = "finished"
    key: str
    t: float
    problem: str | None = None
    clause: str | None = None


class Skipped(_Record):
    """A case, or one cell of it, that was not run, and why."""

    record: Literal["skipped"] = "skipped"
    case: str
    cell: dict[str, Any] = {}
    verdict: Literal["NOT-APPLICABLE", "UNTESTABLE"]
    reason: str


class Result(_Record):
    """The verdict of a case, or of one cell of it; derived from the log, and derived again by `judge`."""

    record: Literal["result"] = "result"
    case: str
    cell: dict[str, Any] = {}
    verdict: str
    summary: str = ""
    clauses: dict[str, str] = {}
    keys: list[str] = []
    trials: int = 1
    failed_trials: int = 0
    branches: list[str] = []
    observed: dict[str, Any] = {}
    diagnosis: str = ""
    baseline: str | None = None


class Footer(_Record):
    """The last record. If it is there, the run is complete."""

    record: Literal["footer"] = "footer"
    complete: bool
    stopped: str | None = Field(default=None, description="why the run ended early")
    in_flight: list[str] = Field(default=[], description="conversations that do not count: the target went away, or the run ended early")
    seconds: float = 0.0
    counts: dict[str, int] = Field(default={}, description="cases by verdict")


Event: TypeAlias = Begin | End | Frame | Answer | Garbage | Closed | Opened | Told | Passed | Deadline | Lag
Record: TypeAlias = Annotated[
    Header
    | TrialStarted
    | Begin
    | End
    | Frame
    | Answer
    | Garbage
    | Closed
    | Opened
    | Told
    | Passed
    | Deadline
    | Lag
    | Finished
    | Skipped
    | Result
    | Footer,
    Field(discriminator="record"),
]
_ADAPTER: TypeAdapter[Any] = TypeAdapter(Record)


def dump(record: BaseModel) -> str:
    """Write one record as one line, without fields that have their default."""
    fields = record.model_dump_json(exclude_defaults=True, by_alias=True)
    return f'{{"record":"{record.record}",{fields[1:]}'  # type: ignore[attr-defined]  # each has fields without a default


def load(lines: Iterable[str | bytes], name: str) -> Iterator[Any]:
    """Read records.

    Args:
        lines: The lines of a log.
        name: Name of the log in errors, usually its file name.

    Raises:
        LogError: A line is not a record; names the line.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _ADAPTER.validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            problem = ": ".join(part for part in (".".join(map(str, first["loc"])), first["msg"]) if part)
            raise LogError(f"{name}:{number}: not a record of an event log ({problem})") from None


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of one record."""
    return _ADAPTER.json_schema()
