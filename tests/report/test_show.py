"""One case as lines, bytes and a diagram; one clause; a first baseline; rows."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
import yaml

from conformance.engine import log
from conformance.engine.model import Baseline
from conformance.engine.program import compile_case
from conformance.engine.verdict import TrialLog
from conformance.judging.results import read_log
from conformance.report.plan import program_rows
from conformance.report.rows import Row, report_rows, split_frames, trial_rows, window
from conformance.report.sequence import render_sequence_svg, render_sequence_text
from conformance.report.show import baseline_text, explain_clause, show_case, stable_part
from conformance.suite import load_suite
from tests.samples.report import KNOWN, TEXT, TODAY, TrialLogWriter, bad_records, case, frame, report, run, suite


def rows_of(trial_log):
    return trial_rows(
        read_log([log.Header(suite="", transcripts="", target="", started=""), *trial_log.records], "x").trial_logs[trial_log.key]
    )


def test_a_case_as_its_transcript_says():
    text = show_case(suite(), "pip145/create")
    assert "as the transcript says" in text
    assert '> c     WATCH_TOPIC_LIST{request_id: 1, watcher_id: 7, namespace: "public/ns"' in text
    assert "< c     CONNECTED{server_version: {$any: true}}" in text
    assert "< c     WATCH_TOPIC_LIST_SUCCESS{request_id: 1, watcher_id: 7, topic: []" in text
    assert "[pip145.watch.success]" in text
    assert "> admin create_topic persistent://public/ns/t-1" in text


def test_a_case_as_bytes():
    text = show_case(suite(), "pip145/create", "hex")
    assert "0008  0840" in text
    assert "type = WATCH_TOPIC_LIST (64)" in text
    assert "(an example: only the fields that are named)" in text
    assert "type = CONNECTED" not in text


def test_a_case_of_which_no_bytes_are_known_says_so():
    told = "no recording has this case, so there are no bytes here"
    assert told in show_case(load_suite(), "pip191/client/example", "hex")
    assert told not in show_case(load_suite(), "pip191/client/example")
    assert told not in show_case(suite(), "pip145/create", "hex")


def test_a_case_as_it_was():
    text = show_case(suite(), "pip145/create", "line", run(bad_records()))
    assert "as it was on some-broker@1.0, 2026-11-21T10:00:00+00:00: FAIL" in text
    assert "    0.080 < c ERROR{request_id: 1" in text
    assert text.count("<== fails here") == 1
    assert "the last frames:" in text


def test_of_trials_the_failing_one_is_shown():
    assert 'message: "second"' in show_case(suite(), "pip145/trials", "line", run(bad_records()))


def test_a_cell_is_chosen_by_its_name():
    text = show_case(suite(), "pip145/order[n=1]", "sequence", run(bad_records()))
    assert text.startswith("pip145/order[n=1]\n")
    assert "the suite stops waiting" in text
    assert "PASS" in show_case(suite(), "pip145/order[n=2]", "line", run(bad_records()))
    with pytest.raises(KeyError, match="there is no cell"):
        show_case(suite(), "pip145/order[n=3]")


def test_a_diagram_of_characters():
    assert render_sequence_text(report_rows(report(), "core/ping#0"), width=60).splitlines() == [
        "     time   suite                                   broker",
        "    0.010     |- opens a connection ------------------>|",
        "    0.030     |- PING{} ------------------------------>|",
        "    0.050     |<- PONG{} ------------------------------|",
    ]


def test_a_diagram_with_admin_calls_has_three_lanes():
    lines = render_sequence_text(report_rows(report(), "pip145/create#0")).splitlines()
    assert lines[0].split() == ["time", "admin", "suite", "broker"]
    assert "|<- create_topic persis" in lines[6]
    assert "|- 204 ---" in lines[8]
    assert all(len(line) <= 120 for line in lines)


def test_a_diagram_as_a_picture_is_xml_and_marks_the_failure():
    svg = render_sequence_svg(report_rows(report(bad_records()), "pip145/create#0"), title="a <b>")
    root = ElementTree.fromstring(svg)
    name = "{http://www.w3.org/2000/svg}"
    texts = [one.text for one in root.iter(f"{name}text")]
    assert texts[:2] == ["suite", "broker"]
    assert "fails here" in texts
    assert "WATCH_TOPIC_LIST" in texts
    assert root.find(f"{name}title").text == "a <b>"
    assert svg == render_sequence_svg(report_rows(report(bad_records()), "pip145/create#0"), title="a <b>")


def drawn(rows):
    root = ElementTree.fromstring(render_sequence_svg(rows, standalone=False))
    return root, list(root.iter("text"))


def test_a_picture_fits_a_telephone_and_cuts_nothing_off():
    words = " ".join(["persistent://public/default/orders", "x" * 200])
    rows = [Row("out", "GET_TOPICS_OF_NAMESPACE_RESPONSE", words, t=0.5), Row("in", "PONG", "{}", t=1234.5), Row("note", words, "")]
    for more, width in ([], 400), ([Row("ask", "create_partitioned_topic", words), Row("reply", "204", "", failing=True)], 600):
        root, texts = drawn([*rows, *more])
        assert int(root.get("width")) <= width
        assert "max-width:100%" in root.get("style")
        for text in texts:
            letters = {"h": 6.7, "l": 7.3, "s": 6.1, "t": 6.1}[text.get("class")] * len(text.text)
            left = int(text.get("x")) - (0 if text.get("class") == "t" else letters / 2)
            assert left >= 0, text.text
            assert left + letters <= int(root.get("width")), text.text


def test_lines_of_a_picture_do_not_meet():
    rows = report_rows(report(bad_records()), "pip145/create#0")
    _, texts = drawn([*rows, replace(rows[1], rest="many words " * 9, failing=True), *rows])
    lanes = {}
    for text in texts:
        if text.get("class") != "t":
            lanes.setdefault(text.get("x"), []).append(int(text.get("y")))
    assert all(below - above >= 12 for ys in lanes.values() for above, below in zip(sorted(ys), sorted(ys)[1:], strict=False))


def test_rows_know_their_steps_and_clauses():
    rows = report_rows(report(), "pip145/create#0")
    assert [(row.way, row.head, row.path, row.clause) for row in rows] == [
        ("out", "opens a connection", "steps[0].lib/handshake[0]", None),
        ("out", "CONNECT", "steps[0].lib/handshake[1]", None),
        ("in", "CONNECTED", "steps[0].lib/handshake[2]", None),
        ("out", "WATCH_TOPIC_LIST", "steps[1]", None),
        ("in", "WATCH_TOPIC_LIST_SUCCESS", "steps[2]", "pip145.watch.success"),
        ("ask", "create_topic", "steps[3]", None),
        ("in", "WATCH_TOPIC_UPDATE", "steps[4]", "pip145.watch.update"),
        ("reply", "204", "steps[3]", None),
    ]


def test_every_kind_of_event_has_a_row():
    two = frame("ping") + frame("pong")
    trial_log = TrialLogWriter("x").open().action("0.0.1", "send", two, at="c")
    trial_log.add(log.Begin, step="0.0.2", what="send", at="c", data=f"{frame('ping')}..0000", size=5000)
    trial_log.add(log.End, step="0.0.2", problem="the peer does not read")
    trial_log.add(log.Answer, at="c", data=frame("pong")).add(log.Garbage, at="c", data="ff", reason="no size")
    trial_log.add(log.Closed, at="c", how="rst").add(log.Lag, seconds=1.5).add(log.Deadline)
    trial_log.action("1.0.0", "close", at="c", detail={"how": "half"}).action("1.0.1", "advance", detail={"seconds": 2.5})
    trial_log.action("1.0.2", "admin", detail={"calls": [{"create_topic": "a"}, {"create_topic": "b"}]}, status=404, body={"reason": "no"})
    trial_log.action("1.0.3", "read", detail={"topics": {"namespace": "n"}}, status=200, body=["a"])
    trial_log.end("it broke")
    texts = [(row.arrow, row.text) for row in rows_of(trial_log)]
    assert texts[1:] == [
        (">", "PING{}"),
        (">", "PONG{}"),
        (">", "PING{} + 4987 bytes"),
        (" ", "the peer does not read"),
        (">", "PONG{}"),
        ("<", "1 bytes that are no frame: no size"),
        ("<", "closes the connection with a reset"),
        (" ", "the suite itself was 1.5 s late"),
        (" ", "the suite stops waiting"),
        (">", "closes the connection, its own half"),
        (" ", "lets 2.5 s pass"),
        (">", "2 admin calls: create_topic a, …"),
        ("<", '404{reason: "no"}'),
        (">", 'topics{namespace: "n"}'),
        ("<", '200 ["a"]'),
        (" ", "the suite stopped: it broke"),
    ]


def test_a_log_that_breaks_off_says_so():
    trial_log = TrialLogWriter("x").open()
    assert rows_of(trial_log)[-1].text == "the log ends here"


@pytest.mark.parametrize("data", ["", "00", "0000000900000005081292010000", "ffffffff00", frame("ping") + "00"])
def test_bytes_are_split_without_loss(data):
    assert b"".join(split_frames(bytes.fromhex(data))).hex() == data


def test_the_middle_of_a_long_conversation_is_left_out_but_not_the_failure():
    trial_log = TrialLogWriter("x").open()
    for _ in range(300):
        trial_log.hear("pong")
    trial_log.end()
    rows = rows_of(trial_log)
    failing = [*rows[:150], rows[150].__class__("in", "here", failing=True), *rows[150:]]
    shown = window(failing)
    assert len(shown) < 100
    assert [row.text for row in shown if row.failing] == ["here"]
    assert sum(int(row.text.split()[1]) for row in shown if "left out" in row.text) + len(shown) - 2 == len(failing)


def test_every_kind_of_step_has_a_row():
    steps = [
        {"open": "c"},
        {"one_write": [{"ping": {}}, {"pong": {}}]},
        {"bytes": {"hex": "ff00"}},
        {"client": {"lookupTopic": {"topic": "$unknown", "request_id": 1}}},
        {"race": {"one": [{"client": {"ping": {}}}], "two": [{"close": {"how": "rst"}}]}},
        {"any_order": [[{"broker": {"pong": {}}}], [{"broker": {"success": {"request_id": {"$gt": 1}}}}]]},
        {"one_of": [{"name": "a", "steps": [{"broker": {"pong": {}}}]}, {"name": "b", "level": "warn", "steps": []}]},
        {"silence": {"frames": [{"error": {}}]}, "until": [{"broker": {"pong": {}}}]},
        {"collect": {"frame": {"watchTopicUpdate": {}}, "into": {"all": "new_topics"}, "until": {"all": {"$len": 3}}}},
        {"read": {"topics": "n"}, "expect": ["a"]},
        {"advance": 1.5},
        {"observe": {"fact": 1}},
        {"closed": {}},
    ]
    program = compile_case(case("x/y", ["core.ping.answered"], steps), suite().fragments, {}, {})
    assert [f"{'  ' * row.depth}{row.arrow} {row.text}" for row in program_rows(program)] == [
        "> opens a connection",
        "> PING{}",
        "> PONG{}",
        "> 2 bytes that are no frame ff00",
        '> LOOKUP{topic: "$unknown", request_id: 1}',
        "  at the same time, 1 of 2:",
        "  > PING{}",
        "  at the same time, 2 of 2:",
        "  > closes the connection with a reset",
        "  in any order:",
        "  < PONG{}",
        "  < SUCCESS{request_id: {$gt: 1}}",
        "  either, a:",
        "  < PONG{}",
        "  or, b (warn):",
        "  silence: no ERROR{} until:",
        "  < PONG{}",
        "< WATCH_TOPIC_UPDATE{}",
        "> topics n",
        "  lets 1.5 s pass",
        "  noted for the census: fact",
        "< closes the connection",
    ]


def test_a_clause_is_explained_with_its_cases_and_verdicts():
    text = explain_clause(suite(), "pip145.watch.success", [report(), report(bad_records(), target="other@2")])
    assert text.splitlines()[:6] == [
        "pip145.watch.success",
        "  the text: A watcher is answered with what is there, hash <included>.",
        "  -> the clause: A watch request is answered with the list and its hash.",
        "  MUST for the broker; the level comes from what the text states as a fact",
        f"  PIP-145: topic list watchers, section “Notifications”, {TEXT}",
        "  why it matters: A client cannot tell whether its list is complete.",
    ]
    assert "  pip145/create  About pip145/create" in text
    assert "  some-broker@1.0: PASS\n  other@2: FAIL\n    pip145/create: FAIL, ERROR{" in text
    assert "excluded: Needs more than an hour" in explain_clause(suite(), "pip145.watch.for-ever")
    assert "core.ping.answered\n  PING is answered by PONG.\n" in explain_clause(suite(), "core.ping.answered")
    assert "no case tests it yet" in explain_clause(suite(), "pip145.watch.nobody")
    with pytest.raises(KeyError):
        explain_clause(suite(), "pip145.nothing")


def test_a_first_baseline_explains_every_failure():
    text = baseline_text(report(bad_records()), "To be looked at.", TODAY)
    made = Baseline.model_validate(yaml.safe_load(text))
    assert [(one.case, one.clause, one.verdict) for one in made.entries] == [
        ("pip145/create", "pip145.watch.success", "FAIL"),
        ("pip145/order[n=1]", "pip145.watch.order", "WARN"),
    ]
    judged = report(bad_records(), known=[one.model_dump() for one in made.entries])
    assert {str(one.verdict) for one in judged.results} == {"PASS", "XFAIL", "SPEC-GAP", "UNTESTABLE"}
    assert not judged.stale
    assert KNOWN["diagnosis"] in made.entries[0].diagnosis


@pytest.mark.parametrize(
    ("summary", "stable"),
    [
        ("nothing came: the case waits for pong{}", "nothing came: the case waits for pong"),
        ('X{a: {b: "public/pc-1"}} is not what is expected: x.hash: expected a1, got b2', "is not what is expected: x.hash: expected"),
        ("", ""),
        ("42", ""),
    ],
)
def test_a_baseline_names_what_does_not_change_from_run_to_run(summary, stable):
    assert stable_part(summary) == stable
    assert stable in summary


def test_a_conversation_of_a_cluster_names_its_broker():
    begin = log.TrialStarted(key="k#0", case="c", actions="", broker="pulsar://b:1")
    (first, *_) = trial_rows(TrialLog(begin))
    assert first.text == "held at pulsar://b:1, which owns the namespaces of the case"


def timed(*times):
    return [Row("out", "PING", "{}", t=time) for time in times]


def test_a_time_stands_only_where_it_differs_from_the_row_before():
    assert render_sequence_text(timed(0.0, 0.0004, None, 1.5, 1.5, 0.0), width=40).splitlines() == [
        "     time   suite               broker",
        "    0.000     |- PING{} ---------->|",
        "              |- PING{} ---------->|",
        "              |- PING{} ---------->|",
        "    1.500     |- PING{} ---------->|",
        "              |- PING{} ---------->|",
        "    0.000     |- PING{} ---------->|",
    ]
    assert [one.text for one in drawn(timed(0.0, 0.0004, None, 1.5, 1.5))[1] if one.get("class") == "t"] == ["0.000 s", "1.500 s"]


@pytest.mark.parametrize("times", [(0.0, 0.0, 0.0004), (2.5, None, 2.5), (None, None)])
def test_a_diagram_of_one_instant_has_no_lane_for_times(times):
    text = render_sequence_text(timed(*times), width=40).splitlines()
    assert text[:2] == ["   suite                        broker", "     |- PING{} ------------------->|"]
    root, texts = drawn(timed(*times))
    assert not [one for one in texts if one.get("class") == "t"]
    assert int(root.get("width")) < int(drawn(timed(0.0, 1.0))[0].get("width"))


def test_a_diagram_of_one_instant_with_admin_calls_begins_at_the_edge():
    lines = render_sequence_text([Row("ask", "unload", "x", t=0.0), Row("reply", "204", "", t=0.0)], width=80).splitlines()
    assert lines[0].split() == ["admin", "suite", "broker"]
    assert lines[1].startswith("     |<- unload x ---")
