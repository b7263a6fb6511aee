"""No case for clients accuses a legal variant of the reference client; each says what leaves it free."""

import pytest

from conformance.clients.variants.run import load_client_variants, try_client_by_name, try_client_variant
from conformance.mutants.model import Patches
from conformance.site.sources import load_sources
from conformance.site.variants import unknown_sources, variants_page
from conformance.suite import Suite
from conformance.variants.model import Variant
from conformance.variants.run import Trial, try_all
from refimpl.client.connection import Connection
from refimpl.wire.pulsar_api_pb2 import CommandPong

VARIANTS = load_client_variants()
A_FEW = ("counts_look_ups_apart", "attaches_on_other_connections_than_it_asks_on", "names_its_producers")
"""Two of them were accused once, the third is the hardest to tell from a wrong one."""


@pytest.fixture(scope="module", name="trials")
def all_trials() -> dict[str, Trial]:
    return {one.variant: one for one in try_all(VARIANTS, judge=try_client_by_name)}


def accusations(trial: Trial) -> list[str]:
    return [f"{one.verdict} {one.case} {one.cell}: {one.summary}" for one in trial.accusations]


@pytest.mark.parametrize("name", A_FEW)
def test_no_case_accuses_one_of_a_few_variants(suite: Suite, name: str) -> None:
    trial = try_client_variant(suite, VARIANTS[name])
    assert accusations(trial) == []
    assert trial.counts["PASS"] > 100


@pytest.mark.variants
@pytest.mark.parametrize("name", VARIANTS)
def test_no_case_accuses_a_legal_variant(name: str, trials: dict[str, Trial]) -> None:
    assert accusations(trials[name]) == [], f"python -m conformance.clients.variants {name}"
    assert trials[name].counts["PASS"] > 20


def test_each_variant_says_which_clause_or_entry_leaves_it_free() -> None:
    sources = load_sources()
    assert {name: unknown for name, one in VARIANTS.items() if (unknown := unknown_sources(sources, one))} == {}
    text = variants_page(sources).text
    assert [name for name in VARIANTS if name not in text] == []


def test_clauses_that_a_variant_does_not_keep_are_no_more_than_a_should(suite: Suite) -> None:
    assert {suite.levels[clause] for one in VARIANTS.values() for clause in one.not_kept} <= {"SHOULD", "MAY"}


def test_a_client_with_a_fault_is_accused(suite: Suite) -> None:
    def never_answers(patches: Patches) -> None:
        def make(send):
            return lambda connection, message, payload=None: isinstance(message, CommandPong) or send(connection, message, payload)

        patches.wrap(Connection, "send", make)

    wrong = Variant("wrong", "", ("x",), frozenset(), ("core/client/ping",), False, never_answers)
    assert [one.case for one in try_client_variant(suite, wrong).accusations] == ["core/client/ping"]
