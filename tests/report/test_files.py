"""What machines read: JUnit, badge, summary and matrix."""

import csv
import io
import json
import re
from xml.etree import ElementTree

import pytest

from conformance.report.badge import badge, to_json
from conformance.report.junit import render_junit
from conformance.report.matrix import build_matrix, matrix_json, render_matrix_csv, render_matrix_html, render_matrix_text
from tests.samples.report import KNOWN, bad_records, good_records, report, watch


def junit(made):
    return ElementTree.fromstring(render_junit(made))


def cases(root):
    return {f"{case.get('classname')}/{case.get('name')}": case for case in root.iter("testcase")}


def test_junit_has_a_suite_for_each_group_and_a_case_for_each_result():
    root = junit(report(bad_records()))
    assert [one.get("name") for one in root] == ["core", "pip145"]
    found = cases(root)
    assert set(found) == {"core/ping", "pip145/create", "pip145/order[n=1]", "pip145/order[n=2]", "pip145/settings", "pip145/trials"}
    failure = found["pip145/create"].find("failure")
    assert "which nothing expects here" in failure.get("message")
    assert "the last frames:" in failure.text
    assert found["pip145/settings"].find("skipped").get("message") == "UNTESTABLE: needs settings of its own"
    assert found["pip145/order[n=1]"].find("failure") is None
    assert found["core/ping"].get("time") == "0.060"
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("6", "1", "0", "1")


def test_junit_counts_warnings_when_they_count():
    assert cases(junit(report(bad_records(), strict=True)))["pip145/order[n=1]"].find("failure") is not None


def test_junit_skips_known_failures_with_their_reason():
    found = cases(junit(report(bad_records(), known=[KNOWN])))
    assert found["pip145/create"].find("skipped").get("message") == "XFAIL: Fixed in <2.0>"


def test_junit_is_never_green_for_an_incomplete_run_or_a_stale_baseline():
    root = junit(report(footer=False))
    assert root.get("errors") == "1"
    assert cases(root)["run/the run reached its end"].find("error") is not None
    assert junit(report(known=[KNOWN])).get("failures") == "1"


@pytest.mark.parametrize("message", ["\x00\x01\x08\x0b\x1f\x7f\x80\x9f", "\ufffe\uffff", "]]>&<'\"", "a\nb\r\tc", "\u2028\u202e"])
def test_junit_is_xml_whatever_a_peer_says(message):
    root = junit(report(watch(good=False, message=message)))
    assert cases(root)["pip145/create"].find("failure") is not None


def test_badge_of_a_conformant_target_is_green():
    assert badge(report()) == {
        "schemaVersion": 1,
        "label": "Pulsar conformance",
        "message": "core, PIP-145: conformant; 2 clauses untested",
        "color": "brightgreen",
    }


@pytest.mark.parametrize(
    ("made", "color"),
    [
        (report(bad_records()), "red"),
        (report(footer=False), "lightgrey"),
        (report(complete=False, stopped="the target is lost"), "lightgrey"),
        (report([]), "lightgrey"),
        (report(known=[KNOWN]), "orange"),
        (report(bad_records(), known=[KNOWN]), "green"),
    ],
)
def test_badge_colors(made, color):
    assert badge(made)["color"] == color


@pytest.mark.parametrize("records", [good_records(), bad_records(), []])
@pytest.mark.parametrize("how", [{"footer": False}, {"complete": False}])
def test_an_incomplete_run_is_never_green(records, how):
    made = report(records, **how)
    assert "green" not in badge(made)["color"]
    assert made.exit_code != 0
    assert to_json(made)["conclusion"] == "incomplete"


def test_the_summary_is_json_and_says_all():
    found = json.loads(json.dumps(to_json(report(bad_records(), known=[KNOWN]))))
    assert found["counts"]["clauses"] == {"EXCLUDED": 1, "PASS": 1, "SPEC-GAP": 1, "UNTESTABLE": 3, "WARN": 1, "XFAIL": 1}
    by_id = {one["id"]: one for one in found["clauses"]}
    assert by_id["pip145.watch.success"]["reason"] == "Fixed in <2.0>"
    assert by_id["pip145.watch.order"]["cases"] == {"pip145/order[n=1]": "WARN", "pip145/order[n=2]": "PASS"}
    assert by_id["pip145.watch.nobody"]["reason"] == "no case tests it yet"
    assert found["excluded"] == [{"id": "pip145.watch.for-ever", "reason": "Needs more than an hour of <wall clock>."}]
    assert found["exit_code"] == 0
    assert next(one for one in found["cases"] if one["name"] == "pip145/trials")["failed_trials"] == 1


def columns():
    return [report(), report(bad_records()), report(bad_records(), known=[KNOWN], target="other@2")]


def test_the_matrix_counts_what_nothing_explains_first():
    text = render_matrix_text(columns())
    lines = text.splitlines()
    assert lines[0] == "unexplained: 3 of 21 verdicts (those that fail, warn or could not be run, and that no baseline explains)"
    assert lines[1:4] == ["  1  some-broker@1.0: 0 unexplained", "  2  some-broker@1.0 #2: 2 unexplained", "  3  other@2: 1 unexplained"]
    why = text.partition("\nwhy ")[2]
    assert ("UNTESTABLE" in why, "NOT-APPLICABLE" in why) == (True, False), "nine in ten reasons were of what is not applicable"
    row = next(line for line in lines if line.startswith("pip145.watch.success "))
    assert row.split() == ["pip145.watch.success", "MUST", "pass", "fail", "xfail"]
    assert "pip145.watch.success on some-broker@1.0 #2: FAIL  UNEXPLAINED\n    pip145/create (FAIL): ERROR{" in text
    assert "pip145.watch.success on other@2: XFAIL\n    pip145/create (XFAIL): Fixed in <2.0>" in text


def test_the_matrix_has_a_legend_of_the_words_in_it():
    text = render_matrix_text(columns())
    legend, table = text.split("\nclause")
    words = {line.split()[0] for line in legend.splitlines() if re.match(r"  \S+ +[A-Z-]+: ", line)}
    used = {word for line in table.split("\nwhy ")[0].splitlines()[1:] for word in line.split()[2:]}
    assert words == used
    assert "  none   UNTESTABLE: Something that the case needs is missing here, so nothing is known." in legend


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_matrix_fits_a_terminal(width):
    lines = render_matrix_text(columns(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert next(line for line in lines if line.startswith("pip145.watch.suc")).split()[1:] == ["MUST", "pass", "fail", "xfail"]


def test_the_matrix_as_comma_separated_values():
    head, *rows = csv.reader(io.StringIO(render_matrix_csv([*columns(), report(bad_records(), target="=1+1")])))
    assert head[:6] == ["clause", "level", "text", "some-broker@1.0", "some-broker@1.0 #2", "other@2"]
    assert head[6] == "'=1+1"
    row = next(row for row in rows if row[0] == "pip145.watch.success")
    assert row[1:7] == ["MUST", "A watch request is answered with the list and its hash.", "PASS", "FAIL", "XFAIL", "FAIL"]
    assert row[9] == "pip145/create: Fixed in <2.0>"
    assert len(rows) == len(build_matrix(columns()).rows)


def test_a_harness_error_is_not_hidden_by_a_pass():
    records = [*good_records()[:-1]]
    finished = records.index(next(one for one in records if one.record == "finished" and one.key == "pip145/order[n=1]#0"))
    records[finished] = records[finished].model_copy(update={"problem": "no admin"})
    records = [one for one in records if not (one.record == "frame" and one.key == "pip145/order[n=1]#0")]
    made = build_matrix([report(records)])
    cell = next(row for row in made.rows if row.clause == "pip145.watch.order").cells[0]
    assert cell.verdict == "ERROR"
    assert cell.unexplained
    assert cell.reasons[0].text == "the suite could not run the case: no admin"


def test_the_matrix_as_json_and_as_a_page():
    made = matrix_json(columns())
    assert made["unexplained"] == 3
    assert [one["name"] for one in made["columns"]] == ["some-broker@1.0", "some-broker@1.0 #2", "other@2"]
    cell = next(row for row in made["rows"] if row["clause"] == "pip145.watch.success")["cells"][2]
    assert cell == {
        "verdict": "XFAIL",
        "unexplained": False,
        "cases": [{"case": "pip145/create", "verdict": "XFAIL", "reason": "Fixed in <2.0>"}],
    }
    page = render_matrix_html(columns())
    assert "3 cells without an explanation" in page
    assert "Fixed in &lt;2.0&gt;" in page
    assert render_matrix_html(columns()) == page


def test_a_matrix_without_reports_is_empty():
    assert render_matrix_text([]).startswith("unexplained: 0 of 0 verdicts")


def test_the_same_report_gives_the_same_bytes():
    assert render_junit(report(bad_records())) == render_junit(report(bad_records()))
    assert json.dumps(to_json(report())) == json.dumps(to_json(report()))
