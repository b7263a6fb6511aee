"""Texts, duties and who does them; what to implement in which order; tables of what proposals declare."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conformance.engine.verdict import clause_verdicts
from conformance.notebooks import all_cases, duties, registered, table, to_implement
from conformance.notebooks.build import HOME
from conformance.notebooks.duties import _told, clause_link
from conformance.notebooks.filtering import answer
from conformance.notebooks.judging import suite
from conformance.notebooks.machines import profiles, state_diagram, state_table
from conformance.notebooks.steps import STEPS
from conformance.notebooks.topic_lists import an_hour, list_size, most_topics
from conformance.running import recorder
from conformance.site.registers import load_entries
from refimpl.proposals import PROPOSALS
from refimpl.proposals.message_filter import MessageFilterPolicy
from refimpl.proposals.topic_list import TRANSITIONS, TopicListEvent
from refimpl.wire import DEFAULT_MAX_FRAME_SIZE

RELEASES = ["2.10.5", "2.11.0", "3.0.7", "4.0.0"]


def test_a_row_says_what_follows_from_the_text_and_who_does_it() -> None:
    shown = duties("pip145.hash.equal", "pip145.close.answer-letter")
    equal, letter = shown.text.splitlines()[2:]
    clause = suite().clauses["pip145.hash.equal"]
    assert equal.startswith(clause.says)
    assert clause.text in equal
    assert equal.endswith("2.11.0 to 5.0.0-M1")
    assert letter.endswith("not seen in a release")
    assert '<a href="../conformance/clauses/pip145_list.yaml"><code>pip145.hash.equal</code></a>' in shown.html
    assert '<a href="../conformance/clauses/pip145_watch.yaml"><code>pip145.close.answer-letter</code></a>' in shown.html


def test_every_release_is_named_alike() -> None:
    assert duties("pip145.compat.old-client").text.endswith("all 6 releases")


def test_a_clause_that_does_not_exist_is_refused() -> None:
    with pytest.raises(LookupError, match="there is no clause"):
        duties("pip145.no.such-clause")


@pytest.mark.parametrize(
    ("verdicts", "told"),
    [
        ("P P P P", "all 4 releases"),
        ("- P PP P-", "2.11.0 to 4.0.0"),
        ("- P P -", "2.11.0, 3.0.7"),
        ("P P - P", "2.10.5, 2.11.0, 4.0.0"),
        ("- - - -", "not seen in a release"),
        ("- F P P", "3.0.7, 4.0.0; not 2.11.0"),
        ("- W W FF", "not 2.11.0 to 4.0.0"),
        ("P PF F P", "2.10.5, 4.0.0; 2.11.0 not always; not 3.0.7"),
    ],
)
def test_releases_are_named_shortly(verdicts: str, told: str) -> None:
    meaning = {"P": "PASS", "F": "FAIL", "W": "WARN", "-": "NOT-APPLICABLE"}
    assert _told(RELEASES, [[meaning[one] for one in found] for found in verdicts.split()], "release") == told


def test_the_verdicts_of_recordings_are_read_without_their_conversations() -> None:
    whole = recorder.load_target("apache-pulsar@4.2.4")
    assert whole is not None
    found = recorder.load_results("apache-pulsar@4.2.4")
    assert clause_verdicts(found) == clause_verdicts(whole.results)
    assert recorder.load_results("no-such-target") == []


def test_steps_have_their_clauses_and_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, ("pip145", "broker"), (("closes", "close.*"), ("hashes", "hash.equal hash.empty")))
    shown = to_implement("pip145", "broker")
    first, second = shown.text.splitlines()[2:]
    assert first.startswith("1.  closes ")
    assert "pip145.close.answer, pip145.close.answer-letter, pip145.close.unknown" in first
    assert second.endswith("pulsar-conformance run TARGET --select 'pip145.hash.equal' --select 'pip145.hash.empty'")
    assert "run client:NAME --select" in to_implement("pip145", "client").text


def test_a_step_for_the_wrong_side_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, ("pip145", "client"), (("closes", "close.*"),))
    with pytest.raises(LookupError, match=r"no clause for the client fits pip145\.close"):
        to_implement("pip145", "client")


def test_every_proposal_has_steps_for_both_sides() -> None:
    assert set(STEPS) == {(one.register, side) for one in PROPOSALS for side in ("broker", "client")}


@pytest.mark.parametrize("register", [one.register for one in PROPOSALS])
def test_all_cases_of_a_proposal_are_linked_in_their_groups(register: str) -> None:
    shown = all_cases(register)
    wanted = [name for name in suite().transcripts if name.startswith(f"{register}/")]
    assert wanted
    assert sorted(re.findall(r'href="\.\./conformance/transcripts/(.+?)\.yaml"', shown.html)) == sorted(wanted)
    assert [line.split()[0] for line in shown.text.splitlines()[2:]] == sorted({name.rpartition("/")[0] for name in wanted})


def test_cases_of_an_unknown_proposal_are_refused() -> None:
    with pytest.raises(LookupError, match="there are no cases for pip1"):
        all_cases("pip1")


def test_a_register_shows_the_entries_of_one_proposal() -> None:
    register = load_entries("divergences")
    shown = registered(register, "PIP-145", title="what differs", releases="releases")
    lines = shown.text.splitlines()
    assert lines[0].split("  ")[0] == "what differs"
    assert [line.partition("  ")[0] for line in lines[2:]] == [one.title for one in register if one.about == "PIP-145"]
    assert any("4.0.0, 4.2.4" in line for line in lines)


def notebooks() -> list[tuple[str, Path]]:
    return [
        (one.register, path) for one in PROPOSALS for path in HOME.glob("p*.ipynb") if path.name.replace("_", "").startswith(one.register)
    ]


@pytest.mark.parametrize(("register", "path"), notebooks(), ids=[register for register, _ in notebooks()])
def test_the_steps_of_a_notebook_have_every_clause_that_is_tested(register: str, path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    steps = [json.dumps(cell["outputs"]) for cell in cells if cell["id"] in ("implement-broker", "implement-client")]
    wanted = [one.id for one in suite().clauses.values() if one.id.startswith(f"{register}.") and not one.excluded]
    assert [name for name in wanted if not any(f"<code>{name}</code>" in step for step in steps)] == []


def test_a_transition_table_is_drawn_and_written() -> None:
    drawn = state_diagram(TRANSITIONS, without=(TopicListEvent.CLOSE,), title="a watch")
    assert "CLOSE " not in drawn.text
    written = state_table(TRANSITIONS).text
    assert len(written.splitlines()) == 2 + len(TRANSITIONS)
    assert TopicListEvent.DOUBTED.value in written


def test_profiles_are_shown_with_both_values() -> None:
    assert "close_answer            success   watch_topic_list_success" in profiles("pip145").text


def test_an_hour_of_lists_costs_what_its_frames_cost() -> None:
    few, many = an_hour(1_000, 10, created=0), an_hour(1_000, 10, created=5)
    assert few["whole list"] == many["whole list"] > few["with a pattern"] > few["with pattern and hash"]
    assert an_hour(1_000, 10, created=0, polls=120)["whole list"] == 2 * few["whole list"]
    assert list_size(most_topics() - 20) <= DEFAULT_MAX_FRAME_SIZE < list_size(most_topics() + 20)


def test_a_cell_that_is_shown_already_stands_as_it_is() -> None:
    shown = table(["clause", "n"], [(clause_link("pip145.hash.equal"), 1)])
    assert '<td><a href="../conformance/clauses/pip145_list.yaml"><code>pip145.hash.equal</code></a></td>' in shown.html
    assert shown.text.splitlines()[2] == "pip145.hash.equal  1"


def test_an_arrow_says_its_condition_if_asked() -> None:
    assert "LISTED if watches" in state_diagram(TRANSITIONS, conditions=True, title="a watch").text
    assert " if " not in state_diagram(TRANSITIONS, title="a watch").text


def test_a_filter_is_served_or_refused_with_the_reason() -> None:
    policy = MessageFilterPolicy.regex_filter_policy("x")
    assert answer(policy.class_name, policy.properties) == "served"
    assert answer("RegexFilter", policy.properties) == "there is no such filter"
