"""The terminal: causes first, then numbers, failures with their nearest miss, one sentence last."""

import io
import itertools
import re

import pytest
from rich.console import Console

from conformance.engine.diagnosis import Diagnosis
from conformance.engine.verdict import Outcome, Verdict
from conformance.report.badge import to_json
from conformance.report.conclusion import conclude
from conformance.report.terminal import Progress, render_text
from conformance.report.wording import sentence_cut
from tests.samples.report import HOSTILE, KNOWN, bad_records, good_records, report, suite, watch


def text_of(made, **how):
    out = io.StringIO()
    render_text(made, Console(file=out, width=100), **how)
    return out.getvalue()


def test_clauses_are_counted_first_then_cases():
    lines = text_of(report()).splitlines()
    assert lines[0] == "clauses  8: 5 passed, 0 failed, 0 warned, 0 not applicable, 2 untestable, 1 excluded"
    assert lines[1] == "cases    6, the cells of 5 transcripts: 5 passed, 0 failed, 0 warned, 0 not applicable, 1 untestable"
    assert lines[2] == "held     7 conversations"
    assert lines[3].startswith("target   some-broker@1.0 (Broker <b>1</b>)")
    assert lines[-1] == "some-broker@1.0: core, PIP-145: conformant; 2 clauses untested"


def test_a_failure_is_four_lines():
    lines = text_of(report(bad_records())).splitlines()
    begin = lines.index("FAIL  pip145/create: pip145.watch.success (MUST): A watch request is answered with the list and its hash.")
    expected, got, again = lines[begin + 1 : begin + 4]
    assert expected.startswith("      expected  watchTopicListSuccess{")
    assert got.startswith("      got       ")
    assert again == "      again     pulsar-conformance run some-broker@1.0 --select pip145/create"


def test_causes_come_before_failures_and_clauses_last():
    text = text_of(report(bad_records()))
    assert (
        text.index("Why\n")
        < text.index("FAIL  pip145/create")
        < text.index("Clauses that do not hold\n  FAIL  pip145.watch.success (1 case)")
    )


def test_a_failure_in_full_shows_its_nearest_miss_and_its_clause():
    text = text_of(report(bad_records()), verbose=True)
    assert "FAIL  pip145/create: About pip145/create" in text
    assert "pip145.watch.success (MUST): A watch request is answered with the list and its hash." in text
    assert "came, which nothing expects here; the case waits for watchTopicListSuccess" in text
    assert "the last frames:" in text
    assert "WARN  pip145/order[n=1]: About pip145/order" in text
    assert "pip145/trials: 1 of 3 trials failed" in text
    assert text.splitlines()[-1] == "some-broker@1.0: core, PIP-145: not conformant, 1 clause failed; 3 clauses untested"


def test_known_failures_are_one_line_and_do_not_count():
    text = text_of(report(bad_records(), known=[KNOWN]))
    assert "\n  pip145/create: Fixed in <2.0>\n" in text
    assert "FAIL  pip145/create" not in text
    assert (
        text.splitlines()[-1] == "some-broker@1.0: core, PIP-145: conformant, apart from 1 known failure and 1 warning; 3 clauses untested"
    )


HINT = "with --baseline apache-pulsar@4.2.4 the known failures of that release are not counted"


def test_a_broker_that_names_its_release_is_told_of_the_baseline_of_that():
    release = {"version": "Pulsar Server4.2.4"}
    assert HINT in text_of(report(bad_records(), **release))
    assert HINT not in text_of(report(bad_records(), known=[KNOWN], **release))
    assert HINT not in text_of(report(**release))
    assert "--baseline" not in text_of(report(bad_records(), version="Pulsar Server9.9.9"))
    assert "--baseline" not in text_of(report(bad_records(), version="Pulsar Server../../x"))


def test_stale_entries_are_named():
    text = text_of(report(known=[KNOWN]))
    assert "Stale baseline entries\n  pip145/create: the failure of pip145.watch.success did not happen" in text
    assert text.splitlines()[-1].startswith("some-broker@1.0: core, PIP-145: stale baseline")


def test_what_was_not_tested_is_grouped_by_reason():
    text = text_of(report(bad_records()))
    assert "UNTESTABLE, 1 clause and 1 case: needs settings of its own" in text
    assert "UNTESTABLE, 1 clause: no case tests it yet" in text
    assert "UNTESTABLE, 1 clause: the case ended before it came to this clause" in text


def test_the_census_and_the_reports_are_told(tmp_path):
    assert "watcher = 7" not in text_of(report())
    text = text_of(report(), folder=tmp_path, verbose=True)
    assert "watcher = 7  (1 conversation: pip145/create)" in text
    assert str(tmp_path / "report.html") in text.replace("\n", "")


@pytest.mark.parametrize(
    ("how", "why"), [({"footer": False}, "the log ends before"), ({"complete": False, "stopped": "interrupted"}, "interrupted")]
)
def test_an_incomplete_run_says_so_first_and_last(how, why):
    lines = text_of(report(**how)).splitlines()
    assert lines[0].startswith(f"INCOMPLETE RUN: {why}")
    assert lines[1].startswith("clauses")
    assert lines[-1].startswith(f"some-broker@1.0: incomplete: {why}")


def test_text_of_a_peer_can_not_steer_the_terminal():
    text = text_of(report(watch(good=False, message="[bold]x[/bold]\x9b31m\x1b]0;title\x07\u202e")))
    assert "[bold]x[/bold]" in text
    assert not any(sign in text for sign in "\x1b\x9b\x07\u202e")


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (report(), "conformant"),
        (report(bad_records()), "not conformant"),
        (report(footer=False), "incomplete"),
        (report([]), "nothing tested"),
        (report(good_records()[-1:]), "nothing tested"),
        (report(known=[KNOWN]), "stale"),
    ],
)
def test_the_kind_of_conclusion(made, kind):
    assert conclude(made).kind == kind


def test_warnings_fail_when_they_count():
    made = report(bad_records(), known=[KNOWN], strict=True)
    assert conclude(made).sentence == "core, PIP-145: not conformant, 1 clause failed (warnings count); 3 clauses untested"


def outcome(key, verdict, summary=""):
    return Outcome(key, verdict, {}, Diagnosis("late", summary) if summary else None)


WORSE = ", 1 case did not pass"


def test_progress_writes_fewer_and_fewer_lines():
    out = io.StringIO()
    case = suite().transcripts["core/ping"]
    seconds = itertools.count()
    with Progress(Console(file=out, width=100), clock=lambda: float(next(seconds))) as progress:
        progress.note("starting apache-pulsar@4.2.4")
        progress.total(40)
        for number in range(40):
            bad = number in (7, 8)
            progress.ended(case, outcome(f"core/ping#{number}", Verdict.FAIL if bad else Verdict.PASS, "nothing\x1b came" if bad else ""))
        progress.ended(case, outcome("core/ping#1~1", Verdict.PASS))
    lines = out.getvalue().splitlines()
    assert lines[0] == "starting apache-pulsar@4.2.4"
    assert lines[1:] == [f"{done} of 40 conversations{bad}" for done, bad in ((5, ""), (15, WORSE), (35, WORSE))]


def test_progress_on_a_terminal_is_a_bar():
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with Progress(console) as progress:
        progress.note("starting [odd] target")
        progress.total(2)
        progress.ended(suite().transcripts["core/ping"], outcome("core/ping#0", Verdict.FAIL, "no"))
    assert "1/2" in out.getvalue()
    assert "1 not passed" in out.getvalue()


def test_colours_are_left_out_where_they_are_not_wanted(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    render_text(report(bad_records()), Console(file=out, force_terminal=True, width=100))
    assert "\x1b[3" not in out.getvalue()
    assert HOSTILE not in out.getvalue()


def test_numbers_of_the_terminal_add_up_and_are_those_of_the_json():
    made = report(bad_records())
    clauses, cases, held = (
        next(line for line in text_of(made).splitlines() if line.startswith(word)) for word in ("clauses", "cases", "held")
    )
    counts = to_json(made)["counts"]
    for line, numbers in ((clauses, counts["clauses"]), (cases, counts["cases"])):
        total, _, parts = line.partition(": ")
        assert int(re.search(r"\d+", total)[0]) == sum(int(part.split()[0]) for part in parts.split(", ")) == sum(numbers.values())
    assert held == f"held     {counts['conversations']} conversations"
    assert (counts["transcripts"], counts["repetitions"]) == (5, 0)


def test_a_long_sentence_is_cut_between_words_as_far_as_it_has_some():
    names = ", ".join(f"setting{number}" for number in range(30))
    text = sentence_cut(f"it can't be given the settings {names} (say so)", 80)
    assert text == "it can't be given the settings … setting27, setting28, setting29 (say so)"
    assert len(sentence_cut("x" * 200, 80)) == 80
    assert sentence_cut("short", 80) == "short"
