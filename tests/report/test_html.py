"""The page: whole, offline, escaped, and the same each time."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from conformance.commands.loading import report_of
from conformance.engine import log
from conformance.judging.applicability import completed
from conformance.report.badge import to_json
from conformance.report.html import render_html
from conformance.report.matrix import render_matrix_html
from conformance.report.packing import unpacked
from conformance.report.timeline import timeline
from conformance.running import recorder
from tests.samples.report import KNOWN, TEXT, TrialLogWriter, bad_records, frame, good_records, report, watch

VOID = {"meta", "input", "link", "br", "hr", "img"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.stack, self.tags, self.ids, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if not self.stack or self.stack[-1] not in ("style", "script"):
            self.text.append(data)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def opened(text):
    """Return a page as it is when all of its cases are open."""
    found = re.search(r'<script type="text/plain" id="packed">([^<]*)</script>\n', text)
    for place, html in unpacked(found[1]).items():
        begin = re.search(rf'<details class="case[^>]*" id="{place}"[^>]*><summary>.*?</summary>', text)
        text = text[: begin.end()] + html + text[begin.end() :]
    return text.replace(found[0], "")


def render(made):
    return opened(render_html(made))


def page(records=None, **how):
    return Page(render(report(records, **how)))


@pytest.mark.parametrize("text", [render(report(bad_records())), render_matrix_html([report(), report(bad_records())])])
def test_the_page_loads_nothing(text):
    found = Page(text)
    for tag, attributes in found.tags:
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#") or (tag == "a" and attributes["href"] == TEXT)
    assert not [tag for tag, _ in found.tags if tag in ("link", "img", "iframe", "object", "embed", "base")]
    assert len([tag for tag, attributes in found.tags if tag == "script" and "type" not in attributes]) == 1
    assert not re.search(r"https?://|url\(|@import", text.replace(TEXT, ""))


def test_every_link_has_its_place_and_places_are_unique():
    found = page(bad_records(), known=[KNOWN])
    assert len(found.ids) == len(set(found.ids))
    links = {attributes["href"] for _, attributes in found.tags if "href" in attributes}
    assert links - {TEXT} <= {f"#{place}" for place in found.ids}


def test_a_clause_stands_beside_what_its_text_says():
    found = page(bad_records())
    assert (
        "The text: A watcher is answered with what is there, hash <included>. (section “Notifications”) "
        "→ A watch request is answered with the list and its hash."
    ) in found.words
    assert ("a", {"href": TEXT, "rel": "noreferrer"}) in found.tags
    assert "→ PING is answered" not in found.words


def test_the_top_says_what_when_and_what_it_came_to():
    words = page(bad_records()).words
    assert (
        "some-broker@1.0 says that it is “Broker <b>1</b>”, tested 2026-11-21 10:00:00 UTC core, PIP-145: not conformant, 1 clause failed"
        in words
    )
    assert "8 clauses: 1 passed 1 failed 1 warned 1 left open by the text 0 not applicable 3 untestable 1 excluded" in words


def test_an_incomplete_run_says_so():
    assert "This run did not reach its end (the log ends before the end of the run)." in page(footer=False).words


def test_a_failing_case_shows_its_conversation_with_the_place_of_the_failure():
    text = render(report(bad_records()))
    marked = re.findall(r'<li class="w-in bad">.*?</li>', text, re.S)
    assert any("ERROR{request_id: 1, error: MetadataError" in one for one in marked)
    assert text.count('class="i x"') == 2
    assert "type = ERROR (14)" in text


def test_a_conversation_shows_clauses_admin_calls_and_frames():
    text = render(report())
    assert "create_topic persistent://public/pc-1/t-1" in text
    assert '<a class="cl" href="#clause-pip145-watch-update">' in text
    assert "0.110" in text
    assert "type = WATCH_TOPIC_UPDATE (66)" in text
    assert 'role="img"' in text


def test_bytes_that_were_shown_are_not_shown_again():
    text = render(report(TrialLogWriter("core/ping").open().send("0.0.1", "ping").send("0.0.2", "ping").hear("pong").end()))
    assert text.count("type = PING (18)") == 1
    assert "13 bytes, shown before" in text


def test_of_trials_the_first_failing_one_is_shown():
    words = page(bad_records()).words
    assert "1 of 3 trials did not pass; the conversation below is pip145/trials#1 ." in words


def test_known_failures_excluded_clauses_and_facts_have_their_parts():
    words = page(bad_records(), known=[KNOWN]).words
    assert "Known failure: Fixed in <2.0>" in words
    assert "Needs more than an hour of <wall clock>." in words
    assert "Tested by nothing <yet>." in words
    assert "watcher 7 1 pip145/create" in page().words


def test_text_of_a_peer_stays_text():
    text = render(report(bad_records(), known=[KNOWN]))
    assert "<script>alert" not in text
    assert "<b onclick" not in text
    assert "Broker <b>" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_header_and_census_of_a_peer_stay_text():
    records = good_records()
    made = report(records, target="<img src=x onerror=alert(1)>")
    assert "<img" not in render(made)
    assert "<img" not in render_matrix_html([made])


def test_filters_are_there_and_rows_carry_what_they_need():
    found = page(bad_records())
    rows = [attributes for _, attributes in found.tags if "data-verdict" in attributes]
    assert {one["data-kind"] for one in rows} == {"clause", "case"}
    assert {one["data-group"] for one in rows} == {"core", "pip145"}
    assert {"verdict", "group", "level", "clause", "text"} <= {a.get("name") for tag, a in found.tags if tag in ("select", "input")}


def test_a_huge_conversation_is_cut():
    trial_log = TrialLogWriter("core/ping").open().send("0.0.1", "ping")
    big = frame("error", request_id=1, error="UnknownError", message="x" * 30_000)
    for _ in range(2000):
        trial_log.add(log.Frame, at="c", data=big)
    text = render(report(trial_log.end()))
    assert len(text) < 200_000
    assert "lines left out" in text
    assert "(30054 characters)" in text


def test_the_page_of_a_whole_run_is_small(suite):
    run = recorder.load_target("apache-pulsar@4.2.4")
    assert run is not None
    text = render_html(report_of(suite, completed(suite, run)))
    page = Page(text)
    assert len(page.ids) > 1800
    assert len(text.encode()) < 2_000_000
    assert len(page.tags) < 20_000
    packed = unpacked(re.search(r'id="packed">([^<]*)<', text)[1])
    assert sum("<ol" in one for one in packed.values()) > 250  # conversations, as many as fit


DOM = """
const fs = require("fs"), zlib = require("zlib"), page = fs.readFileSync(0, "utf8");
const listeners = {}, filled = {}, list = () => [];
const packed = { textContent: page.match(/id="packed">([^<]*)</)[1] };
const element = { classList: { add() {} } };
globalThis.document = {
  documentElement: element, querySelector: () => null, querySelectorAll: list,
  getElementById: (id) => (id === "packed" ? packed : null), createElement: () => ({}),
  addEventListener: (name, f) => { listeners[name] = f; },
};
globalThis.window = { addEventListener() {} };
globalThis.location = { hash: "" };
eval(page.match(/<script>([^]*?)<\\/script>/)[1]);
setTimeout(() => {
  for (const id of process.argv.slice(1)) {
    listeners.toggle({ target: { id, open: true, matches: () => true, querySelector: () => null, appendChild: (one) => { filled[id] = one.innerHTML; } } });
  }
  console.log(JSON.stringify(filled));
}, 1000);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
def test_the_script_unpacks_what_is_opened():
    text = render_html(report(bad_records()))
    expected = unpacked(re.search(r'id="packed">([^<]*)<', text)[1])
    done = subprocess.run(["node", "-e", DOM, *expected], input=text, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == expected


def test_the_same_report_gives_the_same_bytes():
    assert render(report(bad_records())) == render(report(bad_records()))


def test_a_page_without_a_conversation_stands():
    assert "nothing tested" in page([]).words


def test_a_page_stays_small_and_failures_stay_in_it(monkeypatch):
    monkeypatch.setattr("conformance.report.html.PAGE", 0)
    monkeypatch.setattr("conformance.report.html._LEAST", 0)
    found = page(bad_records())
    assert "left out to keep this page small" in found.words
    assert "ERROR{request_id: 1, error: MetadataError" in found.words
    assert [tag for tag, _ in found.tags].count("svg") == 3


def test_of_many_conversations_only_those_that_fail_are_drawn(monkeypatch):
    monkeypatch.setattr("conformance.report.entries.MOST_DIAGRAMS", 3)
    drawn = re.findall(r"<title>Sequence diagram of ([^<]*)</title>", render(report(bad_records())))
    assert sorted(drawn) == ["pip145/create", "pip145/order[n=1]"]


def test_cells_that_passed_are_told_as_one():
    text = render_html(report())
    entry = re.search(r'<details class="case" id="case-pip145-order_5bn_3d1_5d"[^>]*>', text)[0]
    assert 'data-count="2"' in entry
    assert 'id="case-pip145-order_5bn_3d2_5d"' not in text
    assert "pip145/order, 2 cells" in Page(text).words
    words = page().words
    assert "2 cells that came to the same. The conversation below is that of pip145/order[n=1]#0 ;" in words
    assert "pip145/order[n=2]" in words
    bad = render_html(report(bad_records()))
    assert 'id="case-pip145-order_5bn_3d2_5d"' in bad


def test_a_failure_is_a_table_of_fields_with_what_differs_marked():
    records = watch(announced="t-2")
    text = render_html(report(records))
    row = re.search(r'<table class="fields">.*?</table>', text, re.S)[0]
    assert "<mark>1</mark>" in row
    assert "<mark>2</mark>" in row
    assert "data-copy" in text
    assert "pulsar-conformance explain pip145.watch.update" in text


def test_numbers_are_the_same_everywhere_and_add_up():
    made = report(bad_records())
    words, summary = Page(render_html(made)).words, to_json(made)
    counts = summary["counts"]
    assert sum(counts["cases"].values()) == len(made.results)
    assert sum(counts["clauses"].values()) == len(made.clauses) + len(made.excluded)
    assert counts["conversations"] == len(made.run.trial_logs)
    assert f"judged by {len(made.results)} cases, the cells of 5 transcripts: " in words
    assert f"; {counts['conversations']} conversations" in words
    assert f"{sum(counts['clauses'].values())} clauses:" in words
    every = re.findall(r'<details class="case[^>]*>', render_html(made))
    assert sum(int(found[1]) if (found := re.search(r'data-count="(\d+)"', one)) else 1 for one in every) == len(made.results)


def test_a_timeline_has_each_conversation_and_names_the_longest():
    made = report(bad_records())
    (times,) = timeline(made)
    assert {bar.key for bar in times.bars} == set(made.run.trial_logs)
    for row in range(times.rows):
        ends = [(bar.begin, bar.end) for bar in times.bars if bar.row == row]
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    text = render_html(made)
    strip = re.search(r'<svg class="tl".*?</svg>', text, re.S)[0]
    assert len(re.findall(r"M\d+ [\d.]+h\d+", strip)) == len(times.bars)
    assert 'class="tb"' in strip
    assert f"What took longest: {times.longest[0].case}" in Page(text).words


def test_virtual_time_has_a_timeline_of_its_own():
    records = [
        one.model_copy(update={"virtual": True}) if one.record == "conversation" and one.case == "core/ping" else one
        for one in good_records()
    ]
    real, virtual = timeline(report(records))
    assert ([bar.case for bar in virtual.bars], virtual.virtual) == (["core/ping"], True)
    assert "core/ping" not in {bar.case for bar in real.bars}
    assert "in virtual time" in Page(render_html(report(records))).words
    real_end = max(one.t for one in records if one.record == "finished" and one.key != "core/ping#0")
    later = [one.model_copy(update={"t": 500.0}) if one.record == "finished" and one.key == "core/ping#0" else one for one in records]
    assert report(later).run.seconds == real_end
