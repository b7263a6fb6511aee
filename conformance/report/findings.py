"""Which findings name a clause. The pages are docs/findings; their index, `conformance/findings.json`, is made by `make counts`."""

from __future__ import annotations

from functools import cache
from typing import Final

from pydantic import BaseModel, ConfigDict, TypeAdapter

from conformance.names import HOME

INDEX: Final = HOME / "findings.json"


class Finding(BaseModel):
    """A defect of a released broker or client.

    Attributes:
        page: Its page under docs/findings.
        title: What it is, in a sentence.
        clauses: What its page names as broken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    page: str
    title: str
    clauses: tuple[str, ...]


_INDEX: Final = TypeAdapter(tuple[Finding, ...])


@cache
def findings() -> tuple[Finding, ...]:
    """Return all findings, by their pages."""
    return _INDEX.validate_json(INDEX.read_text(encoding="utf-8"))


def findings_of(clause: str) -> list[Finding]:
    """Return the findings whose pages name a clause."""
    return [one for one in findings() if clause in one.clauses]
