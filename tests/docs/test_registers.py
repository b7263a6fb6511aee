"""The registers of divergences and open questions: what they name exists, and no finding is left out."""

from dataclasses import dataclass, fields
from typing import Literal

import pytest

from conformance.engine.source import SourceProblem
from conformance.report.findings import INDEX, findings, findings_of
from conformance.site.findings import index_of, read_findings
from conformance.site.registers import Difference, differences, load_entries
from conformance.site.sources import REPOSITORY
from refimpl.proposals import PROPOSALS

FINDINGS = {path.stem for path in (REPOSITORY / "docs" / "findings").glob("*.md")} - {"README"}
ENTRIES = {name: load_entries(name) for name in ("divergences", "questions")}


@dataclass(frozen=True)
class Profile:
    """Two ways.

    Attributes:
        close_answer: What a close is answered with,
            in one word.
    """

    close_answer: Literal["success", "list", "nothing"] = "success"
    limited: bool = True
    """Whether `a_pattern` may be too long."""


@pytest.mark.parametrize("name", ENTRIES)
def test_what_an_entry_names_exists(name, sources):
    for entry in ENTRIES[name]:
        assert [clause for clause in entry.clauses if clause not in sources.suite.clauses] == [], entry.id
        assert set(entry.findings) <= FINDINGS, entry.id
        assert entry.about in {"core", *(proposal.name for proposal in PROPOSALS)}, entry.id


@pytest.mark.parametrize("name", ENTRIES)
def test_ids_are_unique(name):
    ids = [entry.id for entry in ENTRIES[name]]
    assert len(ids) == len(set(ids))


def test_every_finding_stands_in_the_register():
    assert {finding for entry in ENTRIES["divergences"] for finding in entry.findings} == FINDINGS


def test_the_index_of_findings_is_that_of_their_pages(sources):
    assert INDEX.read_text(encoding="utf-8") == index_of(read_findings(sources.suite.clauses)), "make counts"
    assert {one.page for one in findings()} == FINDINGS
    assert [one.page for one in findings() if not one.clauses] == ["statistics-after-unsubscribe"]
    assert [one.page for one in findings_of("core.access.wait")] == ["exclusive-producers", "wait-behind-shared"]


def test_a_clause_leads_to_its_findings(generated):
    section = generated["reference/clauses/core.md"].text.partition("### core.deliver.chunks {")[2].partition("### ")[0]
    assert "- Findings: [A shared subscription never delivers" in section
    assert "](../../findings/lone-chunk.md)" in section


def test_every_finding_is_listed(generated):
    listed = (REPOSITORY / "docs" / "findings" / "README.md").read_text()
    assert [finding for finding in FINDINGS if f"]({finding}.md)" not in listed] == []
    page = generated["reference/divergences.md"].text
    assert [finding for finding in FINDINGS if f"](../findings/{finding}.md)" not in page] == []


def test_fields_of_a_profile_are_read_with_their_documentation():
    first, second = differences({"default": Profile(), "as-written": Profile("list", False)})
    assert first == Difference("close_answer", "What a close is answered with, in one word.", "success", "list", ("nothing",))
    assert second == Difference("limited", "Whether `a_pattern` may be too long.", True, False, ())


@pytest.mark.parametrize("proposal", PROPOSALS, ids=lambda proposal: proposal.register)
def test_every_field_of_the_profiles_is_documented_and_published(proposal, generated):
    page = generated["reference/divergences.md"].text
    found = differences(proposal.profiles)
    assert [one.name for one in found] == [field.name for field in fields(proposal.profiles["default"])]
    for one in found:
        assert one.words, one.name
        assert one.default != one.as_written or one.others, one.name
        assert f"### {one.name} {{" in page


def test_the_page_lists_where_as_written_is_not_the_text(generated):
    page = generated["reference/divergences.md"].text
    listed = page.partition("{ #exceptions }")[2].partition("## ")[0]
    for entry in ENTRIES["divergences"]:
        assert (f"](#{entry.id})" in listed) is bool(entry.as_written), entry.id
        assert f"{{ #{entry.id} }}" in page
    assert "java.util.regex" in listed
    assert [entry.id for entry in ENTRIES["questions"] if entry.as_written] == []


def test_a_register_with_a_mistake_is_refused_with_its_line(tmp_path):
    (tmp_path / "questions.yaml").write_text("format: 1\nentries:\n  - {id: a, title: b, about: core, text: c, observed: d, here: e}\n")
    with pytest.raises(SourceProblem, match=r"questions.yaml:3: entries\[0\].clauses"):
        load_entries("questions", tmp_path)
