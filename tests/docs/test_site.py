"""The site as a reader gets it. `make docs` does the same; without mkdocs it is skipped.

Never with `--quiet`: mkdocs counts the warnings that it prints, so a quiet build is not strict.

One build is enough for all tests of this file. Those with a browser are skipped without one: Chromium is no part of this project.
"""

import functools
import gzip
import importlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from conformance.report.html import render_html
from conformance.site.check import problems
from conformance.site.home import failing_report
from conformance.site.search import INDEX, MOST
from conformance.site.sources import REPOSITORY

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed: `make docs` installs it")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE, DESK = {"width": 400, "height": 800}, {"width": 1400, "height": 900}
ALIKE = (
    "decisions/0",
    "findings/",
    "reference/cases/",
    "reference/client-results/",
    "reference/clauses/",
    "reference/python/",
    "reference/results/",
)
"""Folders of pages that are made alike: a browser looks at the largest of each."""
QUESTIONS = {
    "hash is equal": "notebooks/pip_145_topic_list_watch.html",
    "baseline": "baselines.html",
    "continuous integration": "continuous-integration.html",
    "pip145.race.same-id": "reference/clauses/pip145-watch.html",
    "driver": "drivers.html",
    "which error for a command before CONNECT": "findings/commands-before-connect.html",
    "how is topics_hash computed": "answers.html",
    "how does a broker announce watchers": "answers.html",
    "run only the cases of one proposal": "answers.html",
    "accept known failures": "answers.html",
    "why is my result UNTESTABLE": "answers.html",
    "a failure shows only sometimes": "answers.html",
    "how long does a run take": "answers.html",
    "is it safe on production": "answers.html",
    "namespaces left behind after an interrupted run": "answers.html",
    "compare two versions before an upgrade": "answers.html",
    "reference broker for Go tests": "answers.html",
    "record the traffic of my client": "answers.html",
    "old client with new broker": "answers.html",
    "what did Pulsar ship instead": "answers.html",
    "exit code 5": "reference/cli.html",
    "TLS certificates and tokens": "test-your-broker.html",
    "install without internet": "install.html",
    "report that the suite is wrong": "answers.html",
    "reference broker from C#": "answers.html",
    "test vectors hash": "answers.html",
    "admin calls": "reference/formats.html",
}
"""What a stranger types, and a page that has to be among the first answers."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder of the site, and what the build said."""
    folder = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    return folder, done


@pytest.fixture(scope="module")
def address(built, sources):
    """Serve the site, and beside it a report in which something fails; return their address."""
    folder, _ = built
    report = failing_report(sources)
    assert report is not None
    (folder / "report-of-a-run.html").write_text(render_html(report), encoding="utf-8")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    """Return Chromium."""
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("playwright is not installed: `make test` installs it")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    sync_api = importlib.import_module("playwright.sync_api")
    with sync_api.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def opened(browser):
    """Return what opens a page, and the complaints of the browser."""
    complaints = []
    contexts = []

    def open_(viewport, scheme="light"):
        context = browser.new_context(viewport=viewport, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: complaints.append(f"{page.url}: {said.text}") if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
        page.on("response", lambda answer: complaints.append(f"{answer.url}: {answer.status}") if answer.status >= 400 else None)
        page.on("request", lambda asked: complaints.append(f"loads {asked.url}") if "//127.0.0.1:" not in asked.url else None)
        return page

    yield open_, complaints
    for context in contexts:
        context.close()


def looked_at(folder):
    """Return the pages that a browser looks at: all that people wrote, and of those that are made alike the largest."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.html") if path.name != "404.html"]
    alike = {one: [name for name in names if name.startswith(one)] for one in ALIKE}
    largest = [max(found, key=lambda name: (folder / name).stat().st_size) for found in alike.values()]
    return sorted({*largest, *(name for name in names if not name.startswith(ALIKE))})


def test_the_site_is_built_strictly_with_whole_drawings_and_loads_nothing_from_elsewhere(built, generated):
    folder, done = built
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    assert problems(folder) == []
    for name, page in generated.items():
        drawings = [line.strip() for line in page.text.splitlines() if line.strip().startswith("<svg")]
        html = (folder / name).with_suffix(".html").read_text() if drawings else ""
        assert [one for one in drawings if one not in html] == [], name


def test_the_home_page_shows_a_report_the_releases_and_a_finding(built, sources):
    home = (built[0] / "index.html").read_text()
    assert "not conformant" in home
    assert home.count('class="pc-shot-case"') == 3
    assert all(f"Apache Pulsar {released.name}" in home for released in sources.released)
    assert "<svg" in home
    assert "{{" not in home


def test_the_index_of_the_search_is_small(built):
    assert len(gzip.compress((built[0] / INDEX).read_bytes())) < MOST


def test_a_browser_has_nothing_to_complain_about(built, address, opened):
    open_, complaints = opened
    wide = []
    page = open_(PHONE)
    for name in looked_at(built[0]):
        page.goto(f"{address}/{name}")
        if page.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
            wide.append(name)
        broken = page.evaluate("[...document.images].filter(one => one.complete && !one.naturalWidth).map(one => one.src)")
        complaints += [f"{name}: {one} is no image" for one in broken]
    assert wide == []
    assert complaints == []


def test_wide_tables_are_read_on_a_phone_without_scrolling_sideways(address, opened):
    open_, _ = opened
    page = open_(PHONE)
    for name in ("reference/pairs.html", "reference/unseen.html", "reference/variants.html", "notebooks/pip_145_topic_list_watch.html"):
        page.goto(f"{address}/{name}")
        rights = page.evaluate("[...document.querySelectorAll('table[data-rows] td')].map(one => one.getBoundingClientRect().right)")
        assert rights
        assert max(rights) <= PHONE["width"], name


def test_results_are_read_on_a_phone_without_scrolling_sideways(address, opened):
    open_, _ = opened
    page = open_(PHONE)
    for name in ("reference/results.html", "reference/results/pip145-watch.html"):
        page.goto(f"{address}/{name}")
        widths = page.evaluate("[...document.querySelectorAll('.pc-matrix tr, .pc-bars')].map(one => one.getBoundingClientRect().right)")
        assert widths
        assert max(widths) <= PHONE["width"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_answers(address, opened, question):
    open_, complaints = opened
    page = open_(DESK)
    page.goto(f"{address}/index.html")
    box = page.locator("input.md-search__input")
    page.locator(".md-search-result__meta", has_text="Type to start searching").wait_for(state="attached")
    box.fill(question)
    box.press("End")  # the page reads the box at each key
    page.locator(".md-search-result__item").first.wait_for()
    answers = page.locator(".md-search-result__item > a").evaluate_all("found => found.map(one => one.href)")
    assert [one for one in answers[:5] if QUESTIONS[question] in one], answers[:5]
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_opens_a_conversation_and_fits_a_phone(address, opened, scheme):
    open_, complaints = opened
    page = open_(PHONE, scheme)
    page.goto(f"{address}/report-of-a-run.html")
    assert page.locator("text=not conformant").count()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.locator("details:has(summary)").first.evaluate("one => one.open = true")
    assert complaints == []


def test_a_foreign_element_in_a_drawing_fails_the_build(tmp_path, caplog):
    hooks = importlib.import_module("conformance.site.hooks")
    config = SimpleNamespace(site_dir=tmp_path)
    page = tmp_path / "cases.html"
    page.write_text("<p><em>text</em></p><svg><text>persistent://t/n/a</text></svg>")
    with caplog.at_level(logging.WARNING, "mkdocs"):
        hooks.on_post_build(config)
        assert caplog.messages == []
        page.write_text("<p><em>text</em></p><svg><text>persistent://t/n/<em>a</em></text></svg>")
        hooks.on_post_build(config)
    assert caplog.messages == ["cases.html: <em> inside 1 drawing"]
    assert [one.levelname for one in caplog.records] == ["WARNING"]  # of which one is enough for a strict build to fail
