"""The register of PIP-247: the rules cite clauses that exist, and the tests that it names for what no case covers exist."""

import re
from pathlib import Path

import refimpl.proposals
from conformance.suite import load_suite

CLAUSES = [clause for name, clause in load_suite().clauses.items() if name.startswith("pip247.")]
TESTS = Path(__file__).parent.parent


def test_the_rules_cite_clauses_that_exist() -> None:
    known = {clause.id for clause in CLAUSES}
    rules = Path(refimpl.proposals.__file__).parent.glob("partition_watch*.py")
    cited = {found for module in rules for found in re.findall(r"\bpip247\.[a-z0-9.-]+[a-z0-9]", module.read_text(encoding="utf-8"))}
    assert cited
    assert cited <= known


def test_the_tests_that_cover_excluded_clauses_exist() -> None:
    defined = {found for path in TESTS.rglob("test_*.py") for found in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}
    named = {found for clause in CLAUSES for found in re.findall(r"test_\w+", clause.excluded or "")}
    assert len(named) > 20
    assert named <= defined


def test_every_client_clause_names_its_test() -> None:
    assert [clause.id for clause in CLAUSES if clause.side == "client" and "test_" not in (clause.excluded or "")] == [
        "pip247.client.older-listener"
    ]
