"""Every relative link of every notebook, followed as JupyterLab, a viewer of repositories and the site follow it."""

import json
import posixpath
import re
import shlex
import subprocess

import pytest

from conformance.site.notebooks import settled
from conformance.site.registers import load_entries
from conformance.site.sources import REPOSITORY
from refimpl.proposals import PROPOSALS
from tests.docs.markdown import WRITTEN, anchors_of

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
LINK = re.compile(r"\[([^\]]+)\]\((?!https:)([^)\s]+)\)")


def links_of(path):
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "markdown"]
    return sorted({link for cell in cells for link in LINK.findall("".join(cell["source"])) if "://" not in link[1]})


def test_the_only_addresses_elsewhere_are_those_of_the_texts():
    texts = {proposal.address for proposal in PROPOSALS}
    found = {address for path in NOTEBOOKS for address in re.findall(r"\]\((\w+://[^)\s]+)\)", path.read_text())}
    assert found == texts


@pytest.fixture(scope="module")
def committed():
    done = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return set(done.stdout.split("\0"))


def folder_of_lab():
    """Return the folder that JupyterLab shows: it opens no file that is not below it."""
    recipe = (REPOSITORY / "Makefile").read_text().partition("\nlab: ")[2].partition("\n\n")[0]
    (command,) = [line for line in recipe.splitlines() if "jupyter lab" in line]
    words = shlex.split(command.replace("$(ARGS)", "").partition(" lab ")[2])
    folders = [word for word in words if not word.startswith("-")]
    return posixpath.join("/", *folders)


@pytest.mark.parametrize("proposal", PROPOSALS, ids=lambda proposal: proposal.register)
def test_each_finding_about_a_proposal_is_linked_from_its_notebook(proposal):
    (path,) = [one for one in NOTEBOOKS if one.stem.replace("_", "").startswith(proposal.register)]
    linked = {target for _, target in links_of(path)}
    findings = {finding for entry in load_entries("divergences") if entry.about == proposal.name for finding in entry.findings}
    assert {one for one in findings if f"../docs/findings/{one}.md" not in linked} == set()


def test_notebooks_have_links():
    assert all(links_of(path) for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_to_committed_files_so_that_a_viewer_of_repositories_shows_them(path, committed):
    for _, target in links_of(path):
        assert posixpath.normpath(posixpath.join("notebooks", target)) in committed, target


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_to_files_below_the_folder_that_lab_opens(path):
    top = REPOSITORY / folder_of_lab().lstrip("/")
    for _, target in links_of(path):
        found = (path.parent / target).resolve()
        assert found.is_file(), target  # of a folder JupyterLab makes an empty editor
        assert not any(part.startswith(".") for part in found.relative_to(top).parts), target


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_to_pages_and_places_of_the_site(path, sources, generated):
    pages = {name: anchors_of(page.text) for name, page in generated.items()} | {name: anchors_of(text) for name, text in WRITTEN.items()}
    pages |= {f"notebooks/{one.name}": [] for one in NOTEBOOKS}
    addresses = {re.sub(r"(README|index)?\.(md|ipynb)$", lambda end: f"{'index' if end[1] else ''}.html", name): name for name in pages}
    for text, target in links_of(path):
        html = settled(f'<a href="{target}">{text.strip("`")}</a>', f"notebooks/{path.name}", sources)
        (address,) = re.findall('href="([^"]*)"', html)
        page, _, anchor = address.partition("#")
        name = addresses.get(posixpath.normpath(posixpath.join("notebooks", page)))
        assert name, (target, address)
        assert not anchor or anchor in pages[name], (target, address)
        if text.startswith("`"):
            assert anchor in (text.strip("`"), text.strip("`").replace("/", "-")), (target, address)
