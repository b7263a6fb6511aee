"""Two runs side by side: each case counted once, and an exit code that says whether something new fails."""

import gzip
import json

import pytest
from typer.testing import CliRunner

from conformance.cli import app
from conformance.engine import log
from conformance.report.badge import to_json
from conformance.report.compare import KINDS, compare, render_html, render_text, side_of
from tests.samples.report import KNOWN, bad_records, good_records, report


def results(made=None, **changed):
    return {**to_json(made or report()), **changed}


def with_verdicts(**verdicts):
    """Return results of cases of one clause each, named by the verdict they have."""
    cases = [
        {"name": f"core/{name}", "verdict": verdict, "clauses": {f"core.{name}": verdict}, "summary": ""}
        for name, verdict in verdicts.items()
    ]
    clauses = [{"id": f"core.{name}", "level": "MUST", "verdict": verdict} for name, verdict in verdicts.items()]
    return results(cases=cases, clauses=clauses)


def compared(first, second):
    return compare(side_of("A", first), side_of("B", second))


@pytest.mark.parametrize(
    ("before", "after", "kind", "code"),
    [
        ("PASS", "FAIL", "new", 1),
        ("UNTESTABLE", "FAIL", "new", 1),
        ("XFAIL", "FAIL", "new", 1),
        ("WARN", "FAIL", "new", 1),
        ("PASS", "WARN", "new", 0),
        ("FAIL", "PASS", "fixed", 0),
        ("WARN", "SPEC-GAP", "fixed", 0),
        ("FAIL", "WARN", "changed", 0),
        ("FAIL", "UNTESTABLE", "changed", 0),
        ("FAIL", "XFAIL", "changed", 0),
        ("PASS", "NOT-APPLICABLE", "changed", 0),
        ("PASS", "ERROR", "changed", 3),
        ("PASS", "UNTESTABLE", "changed", 3),
        ("FAIL", "ERROR", "changed", 3),
        ("ERROR", "ERROR", "same", 0),
        ("FAIL", "FAIL", "same", 0),
        ("PASS", "PASS", "same", 0),
    ],
)
def test_what_came_of_a_case(before, after, kind, code):
    made = compared(with_verdicts(x=before), with_verdicts(x=after))
    assert [(one.kind, one.before, one.after) for one in made.cases] == [(kind, before, after)]
    assert made.clauses == {"core.x": kind}
    assert made.exit_code() == code
    assert (made.exit_code(strict=True) == 1) == (kind == "new")


def test_cases_of_one_run_only():
    made = compared(with_verdicts(a="FAIL", b="PASS"), with_verdicts(b="PASS", c="FAIL", d="PASS"))
    assert {one.case: one.kind for one in made.cases} == {"core/a": "gone", "core/b": "same", "core/c": "new", "core/d": "added"}
    assert made.exit_code() == 1


def test_a_case_that_fails_in_another_way_is_changed():
    second = with_verdicts(x="FAIL")
    second["cases"][0]["clauses"] = {"core.y": "FAIL"}
    assert [one.kind for one in compared(with_verdicts(x="FAIL"), second).cases] == ["changed"]


def test_numbers_add_up():
    made = compared(with_verdicts(a="FAIL", b="PASS", e="PASS"), with_verdicts(b="FAIL", c="FAIL", d="PASS", e="PASS"))
    assert sum(made.counts.values()) == len(made.cases)
    assert sum(bool(one.before) for one in made.cases) == len(made.sides[0].cases) == 3
    assert sum(made.counts.values()) - made.counts["gone"] == len(made.sides[1].cases) == 4
    assert "cases    2 new, 0 fixed, 0 changed, 1 gone, 1 added, 1 same; 3 in A, 4 in B" in render_text(made)


def test_text_says_case_clause_and_reason():
    text = render_text(compared(results(), results(report(bad_records()))))
    assert (
        "new: fails or warns in B, and did not in A\n  PASS -> FAIL  pip145/create\n      pip145.watch.success (MUST)\n      ERROR{" in text
    )
    assert text.endswith("1 case fails in B and did not in A")
    back = render_text(compared(results(report(bad_records())), results()))
    assert (
        "fixed: failed or warned in A, and holds in B\n  FAIL -> PASS  pip145/create\n      pip145.watch.success (MUST)\n      was: "
        in back
    )
    assert back.endswith("nothing fails in B that did not in A")


def test_other_suites_targets_and_ends_are_told():
    second = results(report(footer=False), suite="9.9", transcripts="abc", target="other@2", profile="as-written")
    text = render_text(compared(results(), second))
    assert "the runs are of different suites, " in text
    assert "and 9.9 (abc): cases are compared by name" in text
    assert "the runs are of different targets: some-broker@1.0 and other@2" in text
    assert "the runs are of different profiles: default and as-written" in text
    assert text.endswith("nothing fails in B that did not in A, as far as is known: B did not reach its end")
    assert "different" not in render_text(compared(results(), results()))


def test_the_page_has_all_and_text_of_a_peer_stays_text():
    second = results(report(bad_records()), target="<img src=x>")
    page = render_html(compared(results(report(known=[KNOWN])), second))
    assert "<img" not in page
    assert "<script>alert" not in page
    assert 'id="case-pip145-create"' in page
    assert "1 case fails in B and did not in A" in page
    assert all(f"<th>{kind}</th>" in page for kind in KINDS)


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(app, [str(one) for one in arguments])


def folder_of(tmp_path, name, records, *, as_log=False):
    made, folder = report(records), tmp_path / name
    folder.mkdir()
    if as_log:
        lines = [made.run.header, *made.results, log.Footer(complete=True)]
        (folder / "events.jsonl").write_text("".join(log.dump(one) + "\n" for one in lines))
    else:
        (folder / "results.json").write_text(json.dumps(to_json(made)))
    return folder


@pytest.mark.parametrize("as_log", [False, True])
def test_the_command_has_the_exit_codes_of_the_others(run, tmp_path, as_log):
    good, bad = folder_of(tmp_path, "good", good_records(), as_log=as_log), folder_of(tmp_path, "bad", bad_records())
    result = run("compare", good, bad, "--report", tmp_path / "page")
    assert (result.exit_code, "pip145/create" in result.output) == (1, True), result.output
    assert (tmp_path / "page" / "compare.html").read_text().startswith("<!doctype html>")
    assert run("compare", bad, good).exit_code == 0
    assert run("compare", bad, bad / "results.json").exit_code == 0
    made = json.loads(run("compare", good, bad, "--json").output)
    assert (made["exit_code"], made["counts"]["cases"]["new"]) == (1, 2)


def test_a_recording_is_a_run_too(run, tmp_path):
    good = folder_of(tmp_path, "good", good_records(), as_log=True)
    (tmp_path / "r.jsonl.gz").write_bytes(gzip.compress((good / "events.jsonl").read_bytes()))
    assert run("compare", good, tmp_path / "r.jsonl.gz").exit_code == 0


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("results.json", "{", "it is no JSON"),
        ("results.json", "[]", "these are no results of a run"),
        ("results.json", "{}", "the key 'clauses' is missing: these are no results of a run"),
        ("other.txt", "", "is no report of a run: it has neither results.json nor events.jsonl"),
        ("events.jsonl", '{"record":"header"}\n', "events.jsonl:1: not a record of an event log"),
        ("events.jsonl", "hello\n", "is no log of a run: give a report folder, its results.json, or its events.jsonl"),
    ],
)
def test_what_is_no_run_is_told(run, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    result = run("compare", tmp_path, tmp_path)
    assert (result.exit_code, words in result.output.replace("\n", "")) == (2, True), result.output


def test_a_folder_that_is_not_there_is_told(run, tmp_path):
    result = run("compare", tmp_path / "x", tmp_path)
    assert (result.exit_code, "can't be read: No such file or directory" in result.output) == (2, True), result.output


def test_recorded_releases_are_compared_by_their_names(run):
    result = run("compare", "apache-pulsar@4.0.0", "apache-pulsar@4.2.4")
    lines = result.output.splitlines()
    assert result.exit_code == 1, result.output
    assert lines[0].startswith("A  apache-pulsar@4.0.0: ")
    assert "  PASS -> FAIL  pip145/race/same-id" in lines
    assert "  FAIL -> PASS  core/producer/partitioned-base" in lines
    assert run("compare", "client:python", "client:python").exit_code == 0
    assert "apache-pulsar@4.1.0 can't be read" in run("compare", "apache-pulsar@4.1.0", "apache-pulsar@4.2.4").output
