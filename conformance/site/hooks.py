"""Hooks that mkdocs calls during a build: they pass it the generated pages, and expand the navigation."""

from __future__ import annotations

import logging
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page as SitePage

from conformance.site.book import facts, other_files, pages
from conformance.site.check import problems
from conformance.site.drawings import FENCE
from conformance.site.home import filled, home_facts
from conformance.site.linking import linked
from conformance.site.markup import Page
from conformance.site.notebooks import in_the_site, settled
from conformance.site.publishing import days_of_change, extra_settings, repository_address, repository_name, version_line
from conformance.site.search import INDEX, thinned
from conformance.site.sources import REPOSITORY, Sources, load_sources
from conformance.site.tables import readable

NOTEBOOKS: Final = REPOSITORY / "notebooks"
_LOG: Final = logging.getLogger("mkdocs.hooks.conformance")
"""What it warns of breaks a strict build."""


class _Book:
    """The results of one build; `mkdocs serve` makes them once."""

    sources: Sources
    pages: list[Page]
    facts: dict[str, str]
    changed: dict[str, str]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the pages, put their names where the navigation has a pattern, and register the fence of drawings with Markdown."""
    address = repository_address()
    _Book.sources = load_sources(doubted=True)
    _Book.pages = pages(_Book.sources)
    _Book.facts = {**facts(_Book.sources), **home_facts(_Book.sources), "repository": repository_name(address)}
    _Book.changed = days_of_change()
    config.repo_url = address
    config.repo_name = repository_name(address)
    config.copyright = version_line()
    config["extra"] = extra_settings(config.extra)
    names = [page.path for page in _Book.pages]
    docs = Path(config.docs_dir)
    written = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md") if ".ipynb_checkpoints" not in path.parts)
    titles = {page.path: page.title for page in _Book.pages}
    config.nav = _expanded(config.nav, [*names, *written], titles)
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [FENCE]
    return config


def _expanded(nav: Any, names: list[str], titles: dict[str, str]) -> Any:
    """Replace each pattern in the navigation by the pages that fit, an index first; generated pages bring their titles."""
    if isinstance(nav, dict):
        return {key: _expanded(value, names, titles) for key, value in nav.items()}
    if isinstance(nav, list):
        return [_expanded(one, names, titles) for one in nav]
    if isinstance(nav, str) and "*" in nav:
        found = sorted(
            (name for name in names if fnmatchcase(name, nav)), key=lambda name: Path(name).name not in ("README.md", "index.md")
        )
        return [{titles[name]: name} if name in titles else name for name in found]
    return nav


def _on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and files, and the notebooks, before any plugin looks at them."""
    for page in _Book.pages:
        files.append(File.generated(config, page.path, content=page.text))
    for path, text in other_files().items():
        files.append(File.generated(config, path, content=text))
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File(f"notebooks/{notebook.name}", str(REPOSITORY), config.site_dir, config.use_directory_urls))
    return files


on_files = event_priority(100)(_on_files)


def on_page_markdown(markdown: str, page: SitePage, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Fill in numbers, link clauses and cases, and let links into the repository lead to pages, where people wrote the page."""
    if page.file.generated_by is not None:
        return markdown
    day = _Book.changed.get(f"docs/{page.file.src_uri}")
    if day is not None:
        page.meta["revision_date"] = day
    path = page.file.src_uri
    return filled(linked(in_the_site(markdown, path, _Book.sources), path, _Book.sources), _Book.facts)


def on_page_content(html: str, page: SitePage, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Resolve the links of notebooks, which mkdocs does not check, and make tables readable on narrow screens."""
    path = page.file.src_uri
    return readable(settled(html, path, _Book.sources) if path.endswith(".ipynb") else html)


def _on_post_build(config: MkDocsConfig) -> None:
    """Make the index of the search small, and check the site as it was written."""
    index = Path(config.site_dir) / INDEX
    if index.is_file():
        index.write_text(thinned(index.read_text(encoding="utf-8"), _Book.sources), encoding="utf-8")
    for problem in problems(Path(config.site_dir)):
        _LOG.warning(problem)


on_post_build = event_priority(-100)(_on_post_build)
