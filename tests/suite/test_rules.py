"""The rules of the proposals cite clauses that exist, and the tests that stand in for a case exist."""

import re
from pathlib import Path

import refimpl.proposals
from conformance.suite import load_suite

CLAUSES = load_suite().clauses
TESTS = Path(__file__).parent.parent
RULES = sorted(Path(refimpl.proposals.__file__).parent.rglob("*.py"))


def test_the_rules_cite_clauses_that_exist() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in RULES)
    cited = set(re.findall(r"\b(?:pip|pr)[0-9]+\.[a-z0-9-]+\.[a-z0-9-]*[a-z0-9]", text))
    assert {name.partition(".")[0] for name in cited} == {name.partition(".")[0] for name in CLAUSES} - {"core"}
    assert cited - set(CLAUSES) == set()


def test_the_tests_that_cover_excluded_clauses_exist() -> None:
    paths = list(TESTS.rglob("test_*.py"))
    defined = {found for path in paths for found in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}
    named = {found for clause in CLAUSES.values() for found in re.findall(r"\btest_\w+", clause.excluded or "")}
    assert len(named) > 50
    assert named - defined - {path.stem for path in paths} == set()
