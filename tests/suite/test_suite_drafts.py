"""Registers in preparation are well formed, and rules cite clauses that exist, of these registers and of those that are published."""

import re
from pathlib import Path

import pytest

import conformance
import refimpl.proposals
from conformance.engine.model import Register
from conformance.engine.source import parse, read_source
from conformance.suite import load_suite

DRAFTS = sorted((Path(conformance.__file__).parent / "clauses" / "drafts").glob("*.yaml"))
RULES = sorted(Path(refimpl.proposals.__file__).parent.glob("*.py"))


def clause_ids(path: Path) -> set[str]:
    return {clause.id for clause in parse(Register, read_source(path, path.name)).clauses}


@pytest.mark.parametrize("path", DRAFTS, ids=lambda path: path.stem)
def test_a_draft_is_a_register(path: Path) -> None:
    register = parse(Register, read_source(path, path.name))
    ids = [clause.id for clause in register.clauses]
    assert len(set(ids)) == len(ids) > 20
    assert all(one.startswith(f"{path.stem}.") for one in ids)
    assert {name for clause in register.clauses for name in clause.depends_on} <= set(ids) | set(load_suite().clauses)


@pytest.mark.parametrize("path", DRAFTS, ids=lambda path: path.stem)
def test_the_rules_cite_clauses_that_exist(path: Path) -> None:
    cited = {found for module in RULES for found in re.findall(rf"\b{path.stem}\.[a-z0-9.-]+[a-z0-9]", module.read_text(encoding="utf-8"))}
    assert cited
    assert cited <= clause_ids(path)


def test_the_rules_cite_published_clauses_that_exist() -> None:
    published = set(load_suite().clauses)
    prefixes = "|".join(sorted({clause.partition(".")[0] for clause in published} - {"core"}))
    pattern = re.compile(rf"\b(?:{prefixes})\.[a-z0-9-]+\.[a-z0-9-]*[a-z0-9]")
    cited = {found for module in RULES for found in pattern.findall(module.read_text(encoding="utf-8"))}
    assert cited
    assert cited <= published
