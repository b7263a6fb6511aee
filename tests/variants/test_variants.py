"""No case accuses a legal variant; each says what leaves it free."""

import pytest

from conformance.engine import log
from conformance.mutants.model import Patches
from conformance.site.sources import load_sources
from conformance.site.variants import unknown_sources, variants_page
from conformance.suite import load_suite
from conformance.variants import __main__ as command
from conformance.variants import run, variant
from conformance.variants.model import Variant, together

VARIANTS = run.load_variants()
GROUPS = run.in_groups(VARIANTS, 4)
"""Up to four freedoms at once: whoever uses all of them is right, and one run takes the place of four."""


@pytest.fixture(scope="module", name="suite")
def whole_suite():
    return load_suite()


@pytest.fixture(scope="module", name="trials")
def all_trials() -> dict[str, run.Trial]:
    return {one.variant: one for one in run.try_all(GROUPS)}


@pytest.mark.variants
@pytest.mark.parametrize("group", GROUPS)
def test_no_case_accuses_legal_variants(group, trials):
    trial = trials[group]
    assert [f"{one.verdict} {one.case} {one.cell}: {one.summary}" for one in trial.accusations] == [], (
        f"alone: python -m conformance.variants {group.replace(' + ', ' ')}"
    )
    silent = sum(number for verdict, number in trial.counts.items() if verdict in ("INCONCLUSIVE", "UNTESTABLE"))
    assert trial.counts["PASS"] > 10 * silent


def test_each_variant_is_in_one_group_and_a_group_has_what_its_members_are_free_to_do():
    assert sorted(name for group in GROUPS for name in group.split(" + ")) == sorted(VARIANTS)
    assert max(len(group.split(" + ")) for group in GROUPS) == 4
    assert all(len({VARIANTS[name].cases for name in group.split(" + ")}) == 1 for group in GROUPS)
    assert "sends_every_byte_alone" in GROUPS
    applied = []
    one, other = (
        Variant(name, f"{name}.", (name,), frozenset({name}), cases, late, applied.append)
        for name, cases, late in (("a", ("core/*",), False), ("b", (), True))
    )
    both = together([one, other])
    assert (both.name, both.freedom, both.left_free_by, both.not_kept, both.cases, both.late) == (
        "a + b",
        "a. b.",
        ("a", "b"),
        {"a", "b"},
        (),
        True,
    )
    assert together([one, one]).cases == ("core/*",)
    with both.applied():
        assert len(applied) == 2


def test_each_variant_says_which_clause_or_entry_leaves_it_free():
    sources = load_sources()
    assert {name: unknown for name, one in VARIANTS.items() if (unknown := unknown_sources(sources, one))} == {}
    text = variants_page(sources).text
    assert [name for name in VARIANTS if name not in text] == []


def test_clauses_that_a_variant_does_not_keep_are_no_more_than_a_should(suite):
    assert {suite.levels[clause] for one in VARIANTS.values() for clause in one.not_kept} <= {"SHOULD", "MAY"}


@pytest.mark.parametrize(
    ("verdict", "clauses", "branches", "late", "accused"),
    [
        ("PASS", {"a": "PASS"}, [], False, False),
        ("FAIL", {"a": "FAIL"}, [], True, True),
        ("ERROR", {"a": "ERROR"}, [], True, True),
        ("WARN", {"kept-not": "WARN"}, [], False, False),
        ("WARN", {"kept-not": "WARN", "a": "WARN"}, [], False, True),
        ("INCONCLUSIVE", {"a": "UNTESTABLE"}, [], True, False),
        ("INCONCLUSIVE", {"a": "UNTESTABLE"}, [], False, True),
        ("SPEC-GAP", {"a": "SPEC-GAP"}, ["left open"], False, False),
        ("SPEC-GAP", {"free": "SPEC-GAP"}, [], False, False),
        ("SPEC-GAP", {"a": "SPEC-GAP"}, [], False, True),
    ],
)
def test_what_counts_as_an_accusation(verdict, clauses, branches, late, accused):
    one = Variant("x", "", ("free",), frozenset({"kept-not"}), (), late, lambda _: None)
    result = log.Result(case="a/b", verdict=verdict, clauses=clauses, branches=branches)
    assert run.is_accusation(one, result) is accused


def test_a_variant_needs_a_docstring_a_source_and_a_name_of_its_own():
    def silent(patches: Patches) -> None:
        pass

    with pytest.raises(ValueError, match="what it does"):
        variant("core.lookup.connect")(silent)
    silent.__doc__ = "Something."
    with pytest.raises(ValueError, match="what leaves it free"):
        variant()(silent)
    silent.__name__ = next(iter(VARIANTS))
    with pytest.raises(ValueError, match="the name is taken"):
        variant("core.lookup.connect")(silent)


def test_a_broker_with_a_fault_is_accused_and_an_unknown_name_is_refused(suite, capsys):
    wrong = Variant("wrong", "", ("x",), frozenset(), ("core/lookup/existing",), False, _refuse_look_ups)
    assert [one.case for one in run.try_variant(suite, wrong).accusations] == ["core/lookup/existing"]
    assert command.main(["no-such"]) == 2
    assert "no such variant: no-such" in capsys.readouterr().err


def _refuse_look_ups(patches: Patches) -> None:
    patches.request("lookupTopic", lambda _: lambda session, request, frame: session.end("no"))
