"""The page: whole, offline, escaped, and the same each time."""

import re
from html.parser import HTMLParser

import pytest

from conformance.engine import log
from conformance.report.html import render_html
from conformance.report.matrix import render_matrix_html
from tests.samples.report import KNOWN, TEXT, TrialLogWriter, bad_records, frame, good_records, report

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


def page(records=None, **how):
    return Page(render_html(report(records, **how)))


@pytest.mark.parametrize("text", [render_html(report(bad_records())), render_matrix_html([report(), report(bad_records())])])
def test_the_page_loads_nothing(text):
    found = Page(text)
    for tag, attributes in found.tags:
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#") or (tag == "a" and attributes["href"] == TEXT)
    assert not [tag for tag, _ in found.tags if tag in ("link", "img", "iframe", "object", "embed", "base")]
    assert [tag for tag, _ in found.tags].count("script") == 1
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
    text = render_html(report(bad_records()))
    marked = re.findall(r'<li class="w-in bad">.*?</li>', text, re.S)
    assert any("ERROR{request_id: 1, error: MetadataError" in one for one in marked)
    assert text.count('class="i x"') == 2
    assert "type = ERROR (14)" in text


def test_a_conversation_shows_clauses_admin_calls_and_frames():
    text = render_html(report())
    assert "create_topic persistent://public/pc-1/t-1" in text
    assert '<a class="cl" href="#clause-pip145-watch-update">' in text
    assert "0.110" in text
    assert "type = WATCH_TOPIC_UPDATE (66)" in text
    assert 'role="img"' in text


def test_bytes_that_were_shown_are_not_shown_again():
    text = render_html(report())
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
    text = render_html(report(bad_records(), known=[KNOWN]))
    assert "<script>alert" not in text
    assert "<b onclick" not in text
    assert "Broker <b>" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_header_and_census_of_a_peer_stay_text():
    records = good_records()
    made = report(records, target="<img src=x onerror=alert(1)>")
    assert "<img" not in render_html(made)
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
    text = render_html(report(trial_log.end()))
    assert len(text) < 200_000
    assert "lines left out" in text
    assert "(30054 characters)" in text


def test_the_same_report_gives_the_same_bytes():
    assert render_html(report(bad_records())) == render_html(report(bad_records()))


def test_a_page_without_a_conversation_stands():
    assert "nothing tested" in page([]).words


def test_a_page_stays_small_and_failures_stay_in_it(monkeypatch):
    monkeypatch.setattr("conformance.report.html.PAGE_BUDGET", 0)
    found = page(bad_records())
    assert "left out to keep this page small" in found.words
    assert "ERROR{request_id: 1, error: MetadataError" in found.words
    assert [tag for tag, _ in found.tags].count("svg") == 3
