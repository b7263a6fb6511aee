"""Links in texts that are written by hand, in notebooks, and in the site as it was built."""

import re

from conformance.site.check import problems
from conformance.site.linking import linked, relocated
from conformance.site.notebooks import in_the_site, settled
from conformance.site.sources import REPOSITORY

DOCS = REPOSITORY / "docs"


def test_clauses_and_cases_become_links(sources):
    text = "See `pip145.hash.empty` and `pip145/hash/equal-empty`, not `some.name`.\n"
    assert linked(text, "findings/x.md", sources) == (
        "See [`pip145.hash.empty`](../reference/clauses/pip145-list.md#pip145.hash.empty) and "
        "[`pip145/hash/equal-empty`](../reference/cases/pip145-hash.md#pip145-hash-equal-empty), not `some.name`.\n"
    )


def test_headings_links_and_code_stay_as_they_are(sources):
    text = "# `pip145.hash.empty`\n\n[`pip145.hash.empty`](x.md)\n\n```\n`pip145.hash.empty`\n```\n"
    assert linked(text, "a.md", sources) == text


def test_links_to_the_folder_of_pages_are_relocated():
    assert relocated("[a](docs/x.md) [b](docs/y/z.md#w) [c](https://d)", "contributing.md") == "[a](x.md) [b](y/z.md#w) [c](https://d)"


def test_links_of_pages_lead_through_the_repository_and_in_the_site_to_pages(sources):
    text = (
        "[a](../../notebooks/00_tour.ipynb) [b](../../CONTRIBUTING.md#writing) [c](../registers/questions.yaml) [d](../proxy.md#harm) "
        "[e](../../conformance/clauses/pip145_list.yaml) [f](https://x/) [g](#here)\n\n```\n[h](../../CONTRIBUTING.md)\n```\n"
    )
    assert in_the_site(text, "roles/operator.md", sources) == (
        "[a](../notebooks/00_tour.ipynb) [b](../contributing.md#writing) [c](../reference/questions.md) [d](../proxy.md#harm) "
        "[e](../reference/clauses/pip145-list.md) [f](https://x/) [g](#here)\n\n```\n[h](../../CONTRIBUTING.md)\n```\n"
    )


def test_links_of_pages_can_be_followed_in_the_repository():
    """Except for pages that exist in the site only, since they are made from the whole suite."""
    dead = []
    for path in DOCS.rglob("*.md"):
        text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)\s#]+)", text):
            place = (path.parent / target).resolve()
            if not place.exists() and not place.is_relative_to(DOCS / "reference"):
                dead.append(f"{path.relative_to(DOCS)}: {target}")
    assert dead == []


def test_pages_name_clauses_and_cases_that_exist(sources):
    known = {*sources.suite.clauses, *sources.suite.transcripts}
    for path in [*DOCS.rglob("*.md"), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]:
        named = re.findall(r"`((?:core|pip145)[./][a-z0-9-]+[./][a-z0-9./-]+)`", path.read_text())
        assert [name for name in named if name not in known] == [], path.name


def test_links_of_a_notebook_lead_to_pages(sources):
    content = (
        '<p><a href="../docs/registers/questions.yaml">x</a> <code>pip145/hash/equal-empty</code>'
        '<a href="../conformance/clauses/pip145_list.yaml"><code>pip145.hash.empty</code></a>'
        '<a href="#here">y</a> <a href="../docs/baselines.md">b</a> <a href="02_other.ipynb">n</a> <a href="../CONTRIBUTING.md">c</a></p>'
        '<script src=""> </script><script type="module">import("https://elsewhere")</script>'
        '<div class="celltoolbar">\n<div><span>nbval-skip</span>\n</div>\n<div><span>slow</span></div>\n</div>'
    )
    assert settled(content, "notebooks/01_first.ipynb", sources) == (
        '<p><a href="../reference/questions.html">x</a> '
        '<a href="../reference/cases/pip145-hash.html#pip145-hash-equal-empty"><code>pip145/hash/equal-empty</code></a>'
        '<a href="../reference/clauses/pip145-list.html#pip145.hash.empty"><code>pip145.hash.empty</code></a>'
        '<a href="#here">y</a> <a href="../baselines.html">b</a> <a href="02_other.html">n</a> <a href="../contributing.html">c</a></p>'
    )


def test_a_built_site_is_checked(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text('<h1 id="top">x</h1><a href="sub/a.html#in">1</a><a href="#top">2</a><a href="https://x/">3</a>')
    (tmp_path / "sub" / "a.html").write_text('<p id="in"><a href="../index.html#gone">4</a><a href="b.html">5</a></p>')
    (tmp_path / "404.html").write_text('<a href="/nowhere.html">6</a>')
    (tmp_path / "style.css").write_text("@import 'https://fonts/x.css'; p { background: url(//cdn/y.png) } q { background: url(z.png) }")
    (tmp_path / "d.html").write_text("<svg><title>x</title><text>.<em>and.</em></text></svg><em>y</em><svg><clippath/><A/></svg>")
    (tmp_path / "c.html").write_text(
        '<script src="https://cdn/x.js"></script><img src="x.png"><link rel="stylesheet" href="//cdn/y.css"><a href="sub/b.html">7</a>'
    )
    assert problems(tmp_path) == [
        "there is no sub/b.html, linked from c.html, sub/a.html",
        "there is no index.html#gone, linked from sub/a.html",
        "c.html: would load https://cdn/x.js",
        "c.html: would load //cdn/y.css",
        "d.html: <a> inside 1 drawing",
        "d.html: <em> inside 1 drawing",
        "style.css: would load https://fonts/x.css",
        "style.css: would load //cdn/y.png",
    ]
