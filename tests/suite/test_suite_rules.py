"""The rules of the proposals cite clauses that exist, and the tests that stand in for a case exist."""

import re
from pathlib import Path

import refimpl.proposals
from conformance.suite import load_suite

SUITE = load_suite()
ROOT = Path(__file__).parent.parent.parent
RULES = sorted(Path(refimpl.proposals.__file__).parent.glob("*.py"))


def test_the_rules_cite_published_clauses_that_exist() -> None:
    published = {name.partition(".")[0] for name in SUITE.clauses}
    cited = {
        found
        for module in RULES
        for found in re.findall(r"\b(?:pip|pr)\d+\.[a-z-]+\.[a-z0-9-]*[a-z0-9]", module.read_text(encoding="utf-8"))
    }
    assert {name for name in cited if name.partition(".")[0] in published} - set(SUITE.clauses) == set()


def test_an_excluded_clause_names_tests_that_exist() -> None:
    named = [found for clause in SUITE.clauses.values() for found in re.findall(r"(test_\w+), (tests/\S+\.py)", clause.excluded or "")]
    assert named
    assert [
        (test, path) for test, path in named if not re.search(rf"^(?:async )?def {test}\(", (ROOT / path).read_text(), re.MULTILINE)
    ] == []
