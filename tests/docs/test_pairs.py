"""The table of clients by brokers: each cell is there, and all that is not as it should be has its reason."""

from __future__ import annotations

from conformance.clients.known import KNOWN
from conformance.clients.pairs import BROKERS, FAILED, HELD, NOT_OFFERED, TALKS, explanations, load
from conformance.site.pairs import PATH, pairs_page
from conformance.site.sources import REPOSITORY

PAIRS = load()
CLAUSES_OF_CONVERSATIONS = 14
"""So many clauses are judged in any pair, at least."""


def test_each_client_has_been_run_with_each_broker():
    assert {client: set(of) for client, of in PAIRS.items()} == {client: set(BROKERS) for client in KNOWN}


def test_each_pair_that_was_run_has_all_talks_and_was_judged():
    for client, of in PAIRS.items():
        for broker, pair in of.items():
            if pair.not_run is None:
                assert set(pair.talks) == set(TALKS), (client, broker)
                assert len(pair.judged) >= CLAUSES_OF_CONVERSATIONS, (client, broker)
                assert list(pair.talks.values()).count(HELD) >= 3, (client, broker)


def test_all_that_failed_or_was_broken_has_its_reason_and_no_reason_is_left_over():
    bad = set()
    for client, of in PAIRS.items():
        for pair in of.values():
            bad |= {(client, one["clause"]) for one in pair.breaches}
            bad |= {(client, name) for name, came in pair.talks.items() if came.startswith(FAILED)}
    assert bad == {(one.client, one.what) for one in explanations()}
    assert all((REPOSITORY / one.link).is_file() for one in explanations() if one.link)


def test_the_reference_client_keeps_all_and_no_broker_is_accused():
    assert all(came == HELD or came.startswith(NOT_OFFERED) for pair in PAIRS["reference"].values() for came in pair.talks.values())
    assert [one for of in PAIRS.values() for pair in of.values() for one in pair.breaches if one["by"] == "broker"] == []


def test_the_page_has_no_cell_without_an_explanation():
    page = pairs_page()
    assert page.path == PATH
    assert "not run yet" not in page.text
    assert "not explained" not in page.text


def test_the_page_says_in_words_what_a_client_lacks():
    page = pairs_page().text
    assert "it does not offer seek" in page
    assert "seek: seek" not in page
