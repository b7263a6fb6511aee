"""The generated pages, without mkdocs: complete, each place once, and no link that leads nowhere."""

import json
import posixpath
import re
from dataclasses import replace
from pathlib import Path

import typer
import yaml

from conformance.cli import app
from conformance.engine.parts import RELEASES
from conformance.report.badge import to_json
from conformance.site.book import TOP, other_files, pages
from conformance.site.clauses import clause_pages, register_title
from conformance.site.commands import EXIT_CODES, command_page
from conformance.site.formats import KINDS, format_page
from conformance.site.markup import case_place, clause_place, code, plain, prose
from conformance.site.programming import programming_pages
from conformance.site.sources import REPOSITORY, Doubt, Mutant, load_mutants, load_sources
from conformance.targets.operations import OPERATIONS
from tests.docs.markdown import WRITTEN, anchors_of, links_of
from tests.samples.report import bad_records, report


def test_paths_and_places_are_unique(made, generated):
    assert len(generated) == len(made)
    assert set(generated) & set(WRITTEN) == set()
    for path, page in generated.items():
        found = anchors_of(page.text)
        assert sorted(found) == sorted(set(found)), path


def test_exit_codes_are_told_where_no_site_is():
    text = (REPOSITORY / "docs" / "test-your-broker.md").read_text(encoding="utf-8")
    section = text.partition("### Exit codes\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (\d+) \| (.+) \|$", section, re.MULTILINE) == [(str(code), words) for code, words in EXIT_CODES.items()]


def test_every_clause_and_every_case_has_its_place(sources, generated):
    for clause in sources.suite.clauses:
        path, _, anchor = clause_place(sources, clause).partition("#")
        assert anchors_of(generated[path].text).count(anchor) == 1, clause
    for case in sources.suite.transcripts:
        path, _, anchor = case_place(case).partition("#")
        assert anchors_of(generated[path].text).count(anchor) == 1, case


def test_links_of_generated_pages_lead_somewhere(generated):
    files = other_files()
    anchors = {path: set(anchors_of(page.text)) for path, page in generated.items()}
    for path, page in generated.items():
        for link in links_of(page.text):
            target, _, anchor = link.partition("#")
            place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
            assert place in generated or place in WRITTEN or place in files, (path, link)
            if anchor and place in generated:
                assert anchor in anchors[place] or f"\n## {anchor}\n" in generated[place].text, (path, link)


def test_a_clause_shows_what_is_known_of_it(sources, generated):
    text = generated["reference/clauses/pip145-watch.md"].text
    part = text[text.index("### pip145.watch.unicode {") :].split("\n### ")[0]
    assert 'class="pc-level pc-must"' in part
    assert "**Without it:**" in part
    assert "[`pip145/update/unicode`](../cases/pip145-update.md#pip145-update-unicode)" in part
    assert part.count('class="pc-verdict ') == len(RELEASES)
    assert "2.11.0, 3.0.7, 4.0.0, known to fail: " in part
    assert "([finding](../../findings/encoded-names.md))" in part


def test_an_excluded_clause_has_its_reason_and_no_results(sources, generated):
    text = generated["reference/clauses/pip145-watch.md"].text
    part = text[text.index("### pip145.client.watch-hash-first {") :].split("\n### ")[0]
    assert "**Not tested:**" in part
    assert "pc-verdict" not in part


def test_a_case_shows_transcript_and_conversation(sources, generated):
    text = generated["reference/cases/pip145-update.md"].text
    part = text[text.index("## pip145/update/unicode {") :].split("\n## ")[0]
    assert '=== "With Apache Pulsar 4.2.4"' in part
    assert "<svg" in part
    assert "    id: pip145/update/unicode" in part
    assert "```yaml" not in part  # a page with colours opens a second later
    assert part.count('class="pc-verdict ') == len(RELEASES)


def test_drawings_stand_behind_a_fence_one_on_a_line(generated):
    for page in generated.values():
        lines = page.text.splitlines()
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
            if "<svg" in line:
                assert line.count("<svg") == 1
                assert (before.strip(), after.strip()) == ("```drawing", "```"), page.path


def test_how_the_cases_were_tested_is_shown_where_it_is_known(sources):
    fault = Mutant(
        clauses=["core.handshake.connected"],
        fault="It never answers.",
        killed_by=["core/handshake/ping-first"],
        unrelated_failures=["core/ack/individual"],
    )
    damages = {"core.handshake.connected": {"core/handshake/connected": {"late", "absent"}}}
    doubt = Doubt({"is_silent": fault}, damages, {"core.handshake.version-minimum": "It is part of another step."})
    with_, without = ("\n".join(page.text for page in clause_pages(replace(sources, doubt=one))) for one in (doubt, None))
    killer = "[`core/handshake/ping-first`](../cases/core-handshake.md#core-handshake-ping-first)"
    assert f"- A broker with a fault, `is_silent`: It never answers. Found by {killer}; one other case fails, too" in with_
    assert "- Its expectation fails when a log is damaged: absent, late" in with_
    assert "- No damage to a log is charged to it. It is part of another step." in with_
    assert "fault, `" not in without
    assert "log is damaged" not in without


def test_published_rows_of_mutants_are_read(tmp_path):
    (tmp_path / "core.json").write_text(json.dumps({"is_silent": {"clauses": ["core.ack.individual"], "fault": "No.", "killed_by": []}}))
    assert load_mutants(tmp_path) == {"is_silent": Mutant(clauses=["core.ack.individual"], fault="No.", killed_by=[])}


def test_pages_without_recordings(tmp_path):
    made = pages(load_sources(recordings=tmp_path, client_recordings=tmp_path))
    assert all("pc-verdicts" not in page.text for page in made if page.path.startswith("reference/c"))


def test_every_command_and_option_is_described():
    text = command_page().text
    commands = typer.main.get_command(app).commands
    for name, command in commands.items():
        for inner_name, inner in getattr(command, "commands", {"": command}).items():
            assert f"## {name}{' ' if inner_name else ''}{inner_name} {{ #" in text
            for parameter in inner.params:
                assert parameter.name.upper() in text or any(option in text for option in parameter.opts), (name, parameter.name)


def test_every_key_of_every_format_is_described(sources):
    text = format_page(sources.suite).text
    for cls in KINDS.values():
        for field, info in cls.model_fields.items():
            assert f"| `{info.alias or field}` |" in text, (cls, field)
    assert set(other_files()) >= {f"reference/schema/{kind}.json" for kind in (*KINDS, "log")}


def test_every_key_of_the_results_is_described():
    page = (REPOSITORY / "docs" / "continuous-integration.md").read_text(encoding="utf-8")
    part = page.partition("## For programs")[2].partition("\n## ")[0]
    results = to_json(report(bad_records()))
    keys = {*results, *results["counts"], *results["cases"][0], *results["clauses"][0]}
    assert not {key for key in keys if f"`{key}`" not in part}


def test_every_admin_call_is_described(sources):
    text = format_page(sources.suite).text.partition("## Admin calls ")[2]
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert rows.keys() == OPERATIONS.keys()
    for name, operation in OPERATIONS.items():
        assert f"`{operation.method} {'' if operation.path.startswith('/') else '/admin/v2/'}{operation.path}" in rows[name], name
        assert all(f"`{argument}`" in rows[name] for argument in operation.arguments), name
    using = [case for case in sources.suite.select([], role="broker") if "unload_bundle" in sources.suite.admin_calls(case.id)]
    assert using
    assert rows["unload_bundle"].endswith(f" {len(using)} |")


def test_every_package_has_its_page():
    assert "reference/python/wire.md" in {page.path for page in programming_pages()}
    assert "::: refimpl.wire.frames" in programming_pages()[0].text
    assert "pb2" not in programming_pages()[0].text.partition("## ")[2]


def test_navigation_names_every_page_once(generated):
    config = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())
    entries = list(leaves(config["nav"]))
    patterns = [re.escape(entry).replace(r"\*", "[^/]*") for entry in entries]
    for path in (*generated, *WRITTEN):
        assert sum(re.fullmatch(pattern, path) is not None for pattern in patterns) == 1, path
    notebooks = [entry for entry in entries if entry.endswith(".ipynb")]
    assert sorted(notebooks) == sorted(f"notebooks/{path.name}" for path in (REPOSITORY / "notebooks").glob("*.ipynb"))


def leaves(nav):
    if isinstance(nav, str):
        yield nav
    for one in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from leaves(one)


def test_pins_of_all_requirement_files_agree():
    seen = {}
    for path in REPOSITORY.glob("requirements*.txt"):
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                name, _, version = line.partition("==")
                assert version, (path.name, line)
                assert seen.setdefault(name, version) == version, (path.name, name)


def test_no_build_of_the_site_is_quiet():
    lines = [line for line in (REPOSITORY / "Makefile").read_text().splitlines() if "mkdocs build" in line]
    assert [line for line in lines if "--strict" not in line or "--quiet" in line or "-q" in line.split()] == []
    assert lines


def test_docs_extra_names_what_the_site_is_made_with():
    pinned = {line.partition("==")[0] for line in (REPOSITORY / "requirements-docs.txt").read_text().splitlines()}
    text = (REPOSITORY / "pyproject.toml").read_text()
    extra = re.findall(r'"([a-z0-9-]+)', re.findall(r"^docs = \[(.*)\]$", text, re.MULTILINE)[0])
    assert set(extra) <= pinned


def test_names_of_registers():
    assert [register_title(name) for name in ("core", "pip145_list", "pr7629")] == ["Core", "PIP-145, list", "PR 7629"]


def test_contributing_names_every_part_of_the_tree():
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    made = {"__pycache__", "build", "dist", "reports", "site"}
    homes = (REPOSITORY, *(REPOSITORY / name for name in ("conformance", "docs", "refimpl")))
    parts = {path.name for home in homes for path in home.iterdir() if path.is_dir() and path.suffix == "" and path.name[0] != "."} - made
    assert sorted(part for part in parts if not re.search(rf"^ *{part}/ ", text, re.MULTILINE)) == []


def test_text_is_taken_literally():
    assert plain("a_b <c> *d* [e](f) `g` | h & i") == r"a\_b &lt;c&gt; \*d\* \[e\](f) \`g\` \| h &amp; i"
    assert prose("take `a_b` and a_b") == r"take `a_b` and a\_b"
    assert prose("one ` alone") == r"one \` alone"
    assert code("a|b`") == "<code>a&#124;b&#96;</code>"


def test_texts_at_the_top_become_pages(generated):
    for name, (path, _) in TOP.items():
        assert generated[path].text.splitlines()[0] == Path(REPOSITORY / name).read_text().splitlines()[0]
        assert "](docs/" not in generated[path].text
