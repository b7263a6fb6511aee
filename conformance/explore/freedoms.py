"""What brokers may say differently: each freedom is tied to a clause or to an open question."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from conformance.engine.source import parse, read_source
from conformance.judging.likeness import load_differences

HOME = Path(__file__).parent / "freedoms.yaml"


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
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    signature: str
    only: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    free: str
    reason: str

    def allows(self, signature: str, kinds: Collection[str], release: str | None) -> bool:
        """Tell whether a difference is this one.

        Args:
            signature: Its signature.
            kinds: The kinds of actions up to it.
            release: The release of Apache Pulsar that it was met with; None: another broker.
        """
        if (self.only and release not in self.only) or (self.after and not any(kind in kinds for kind in self.after)):
            return False
        return fnmatch.fnmatchcase(signature, self.signature)


class Freedoms(BaseModel):
    """What may differ."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    fields: list[FreeField] = []
    differences: list[FreeDifference] = []


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
