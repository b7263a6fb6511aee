"""What a stranger sees first: the parts of home page and README are made from recordings, and the README has the newest."""

import json
import re
import subprocess

import pytest

from conformance.engine import log
from conformance.site import publishing
from conformance.site.book import facts
from conformance.site.counts import README, with_parts
from conformance.site.home import failing_report, failures, filled, glances, home_facts, readme_parts
from conformance.site.markup import clause_place
from conformance.site.publishing import UNKNOWN, build_day, days_of_change, repository_address, repository_name, version_line
from conformance.site.results import CLIENT_PATH, HOLDS, PATH
from conformance.site.search import thinned
from conformance.site.sources import REPOSITORY, load_sources

DOCS = REPOSITORY / "docs"


def test_the_readme_is_made_from_the_recordings(sources):
    text = README.read_text(encoding="utf-8")
    parts = readme_parts(sources)
    assert [name for name in parts if f"<!-- made: {name} -->" not in text] == []
    assert with_parts(text, parts) == text, "make counts"
    old = with_parts(text, dict.fromkeys(parts, "old\n"))
    assert old.count("\nold\n") == len(parts)
    assert with_parts(old, parts) == text


def test_site_and_readme_say_the_same_numbers(sources):
    facts, parts = home_facts(sources), readme_parts(sources)
    for one in glances(sources.released):
        assert one.holding + one.failing == one.judged
        assert f"{one.holding} of {one.judged} clauses hold" in facts["glance"]
        assert f"| {one.name} | {one.judged} | {one.holding} | {one.failing} |" in parts["releases"]
    report = failing_report(sources)
    assert report is not None
    judged = report.clause_counts.total() - report.clause_counts["EXCLUDED"]
    shares = [int(number) for number in re.findall(r"\d+", parts["clauses"].partition("The cases")[0])]
    assert (shares[0], sum(shares)) == (judged, len(sources.suite.clauses))
    for failure in failures(report):
        assert failure.clause in facts["report"]
        assert f"FAIL  {failure.clause} ({failure.level})" in parts["report"]


def test_readme_and_results_say_what_holds_means(generated):
    assert all(HOLDS in text for text in (README.read_text(encoding="utf-8"), generated[PATH].text, generated[CLIENT_PATH].text))


def test_the_report_is_of_a_release_whose_failures_are_all_unknown(sources):
    report = failing_report(sources)
    assert report is not None
    assert report.case_counts["FAIL"] > 0
    assert report.case_counts["XFAIL"] == 0


def test_pages_say_what_a_run_does_by_the_recording(sources):
    run = next(one for one in sources.released if one.name == "4.2.4").report.run
    frames = sum(isinstance(event, log.Frame) for trial in run.trial_logs.values() for event in trial.events)
    found = {name: int(value.replace(",", "")) for name, value in facts(sources).items() if "," in value and " " not in value}
    assert abs(found["frames_received"] - frames) <= 50
    assert 0 < int(facts(sources)["namespaces"]) < found["connections"] < found["topics_created"] < found["frames_sent"]
    for path in (DOCS / "what-a-run-does.md", DOCS / "answers.md"):
        text = path.read_text(encoding="utf-8")
        assert "{{" in text
        assert "{{" not in filled(text, facts(sources)), path.name


def test_without_recordings_nothing_is_claimed(tmp_path):
    empty = load_sources(recordings=tmp_path)
    assert failing_report(empty) is None
    assert readme_parts(empty)["report"] == ""
    assert home_facts(empty)["finding"] == "\n"


def test_values_take_the_place_of_their_names():
    assert filled("a {{ b }} {{ c }} ${{ d }}", {"b": "1", "c": "2"}) == "a 1 2 ${{ d }}"


def test_the_address_of_the_repository_is_one_setting(tmp_path, monkeypatch):
    monkeypatch.delenv(publishing.SETTING, raising=False)
    project = tmp_path / "pyproject.toml"
    project.write_text("[project]\n")
    assert (repository_address(tmp_path), repository_name(None)) == (None, UNKNOWN)
    project.write_text('[project.urls]\nRepository = "https://example.org/o/r/"\n')
    assert repository_name(repository_address(tmp_path)) == "o/r"
    monkeypatch.setenv(publishing.SETTING, "https://example.org/fork/r")
    assert repository_name(repository_address(tmp_path)) == "fork/r"


def test_a_build_can_be_dated(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert build_day() == "1970-01-02"
    assert "built on 1970-01-02" in version_line()


def test_pages_have_the_day_of_their_last_change(tmp_path):
    def git(*words, day="2001-02-03"):
        told = {"GIT_AUTHOR_DATE": f"{day}T12:00:00+00:00", "GIT_COMMITTER_DATE": f"{day}T12:00:00+00:00"}
        names = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(
            ["git", *names, *words], cwd=tmp_path, env={"PATH": "/usr/bin:/bin:/usr/local/bin", **told}, check=True, capture_output=True
        )

    assert days_of_change(tmp_path) == {}
    git("init")
    (tmp_path / "docs").mkdir()
    for day, name in (("2001-02-03", "a.md"), ("2002-03-04", "b.md")):
        (tmp_path / "docs" / name).write_text(day)
        git("add", ".")
        git("commit", "-m", "A page", day=day)
    assert days_of_change(tmp_path) == {"docs/a.md": "2001-02-03", "docs/b.md": "2002-03-04"}


@pytest.mark.parametrize(
    ("place", "text", "kept"),
    [
        ("baselines.html#a", "<p>all</p><pre>code</pre>", "<p>all</p><pre>code</pre>"),
        ("notebooks/00_tour.html#a", "<pre>code</pre><p>first</p><p>second</p>", "<p>first</p>"),
        ("notebooks/00_tour.html#b", "<pre>code</pre>", ""),
        ("findings/a.html#a", "<p><b>Clause</b> <code>a.b</code>: it\ncloses. Not so here.</p>", "<p>Clause a.b: it\ncloses.</p>"),
        ("reference/cases/core-ack.html#x", "<p>transcript</p>", ""),
        ("decisions/0001.html", "<p>why</p>", ""),
        (
            "reference/divergences.html#x",
            "<ul><li>Here: so</li> <li>Clauses: <code>a</code></li> <li>Finding: b</li></ul>",
            "<ul><li>Here: so</li></ul>",
        ),
        ("reference/python/wire.html#x", "<p>docs</p>", None),
        ("changelog.html#1", "<p>news</p>", None),
    ],
)
def test_the_search_keeps_what_readers_look_for(sources, place, text, kept):
    index = json.dumps({"config": {}, "docs": [{"location": place, "title": "t", "text": text}]})
    assert [one["text"] for one in json.loads(thinned(index, sources))["docs"]] == ([] if kept is None else [kept])


def test_a_clause_is_found_by_its_statement(sources):
    clause = sources.suite.clauses["pip145.race.same-id"]
    place = clause_place(sources, clause.id).replace(".md#", ".html#")
    index = json.dumps({"docs": [{"location": place, "title": clause.id, "text": "<p>long</p>"}]})
    assert json.loads(thinned(index, sources))["docs"][0]["text"] == clause.text
