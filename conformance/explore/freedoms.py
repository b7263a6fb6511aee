"""What brokers may say differently: each freedom is tied to a clause or to an open question."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from conformance.engine.source import parse, read_source
from conformance.judging.likeness import load_differences

HOME = Path(__file__).parent / "freedoms.yaml"


Condition = Literal[
    "other-consumers",
    "left-waiting",
    "nobody-keeps",
    "beyond-permits",
    "shared-without-order",
    "failover",
    "failover-takeover",
    "encoded-names",
    "encoded-twin",
    "encoded-look-up",
    "look-up-again",
    "deleted-topics",
    "deletion",
    "deleted-partition",
    "deleted-before",
    "repeated-id",
    "repeated-id-or-encoded-names",
    "acknowledged-before-unload",
    "after-disconnect",
]
"""The conditions, which conditions.py has."""


class FreeField(BaseModel):
    """A field that is not compared: `CONSUMER_STATS_RESPONSE.*`.

    Attributes:
        free: The clause that leaves it free; `question`: no text speaks of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    field: str
    free: str
    reason: str


class FreeDifference(BaseModel):
    """A difference that is none.

    Attributes:
        signature: As the report shows it; `*` stands for anything.
        only: The releases of Apache Pulsar that may differ so; empty: any broker may.
        after: The kinds of actions of which the scenario has one; empty: any.
        when: A condition on each line that differs, from conditions.py; None: none.
        until_publish: Whether it ends with the next message to the topic: one is published, and all that is missing has to come then.
        goes_on: Whether both are in the same state all the same, so that the scenario goes on.
        finding: The page under docs/findings, if it is a defect that is known; None: it is a freedom.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    signature: str
    only: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    when: Condition | None = None
    until_publish: bool = False
    goes_on: bool = False
    finding: str | None = None
    free: str
    reason: str


class KnownProblem(BaseModel):
    """What does not hold after actions at the same time, by a defect that is known.

    Attributes:
        signature: The problem; `*` stands for anything.
        only: The releases of Apache Pulsar that have the defect.
        finding: The page under docs/findings.
        free: The clause that it breaks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    signature: str
    only: tuple[str, ...]
    finding: str
    free: str
    reason: str


class Freedoms(BaseModel):
    """What may differ, and what does not hold by a known defect."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    fields: list[FreeField] = []
    differences: list[FreeDifference] = []
    concurrent: list[KnownProblem] = []


@cache
def load_freedoms(path: Path = HOME) -> Freedoms:
    """Read what may differ.

    Raises:
        SourceProblem: The file is malformed.
    """
    return parse(Freedoms, read_source(path, path.name))


@cache
def ignored_fields() -> tuple[str, ...]:
    """Return the fields that are not compared, those of recordings among them."""
    return (*(one.field for one in load_differences().fields), *(one.field for one in load_freedoms().fields))
