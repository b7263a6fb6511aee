"""The rules of the proposals cite clauses that exist, and the tests that stand in for a case exist."""

import re
from pathlib import Path

import refimpl
from conformance.suite import Suite

TESTS = Path(__file__).parent.parent
CITED = re.compile(r"\b(?:pip|pr)[0-9]+\.[a-z0-9.-]+[a-z0-9]")


def test_the_rules_cite_clauses_that_exist(suite: Suite) -> None:
    known, cited = set(suite.clauses), set()
    for path in Path(refimpl.__path__[0]).rglob("*.py"):
        found = set(CITED.findall(path.read_text(encoding="utf-8")))
        assert found <= known, path.name
        cited |= found
    assert {name.partition(".")[0] for name in cited} == {name.partition(".")[0] for name in known} - {"core"}


def test_the_tests_that_cover_excluded_clauses_exist(suite: Suite) -> None:
    paths = list(TESTS.rglob("test_*.py"))
    defined = {found for path in paths for found in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}
    named = {found for clause in suite.clauses.values() for found in re.findall(r"\btest_\w+", clause.excluded or "")}
    assert len(named) > 10
    assert named - defined - {path.stem for path in paths} == set()
