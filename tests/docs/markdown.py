"""Pages of the site as Markdown: those written by hand, and the anchors and links of a page."""

import re

from conformance.site.sources import REPOSITORY

DOCS = REPOSITORY / "docs"
WRITTEN = {path.relative_to(DOCS).as_posix(): path.read_text() for path in DOCS.rglob("*.md") if ".ipynb_checkpoints" not in path.parts}
FENCE = re.compile(r"^( *)(```+).*?^\1\2[ \t]*$", re.DOTALL | re.MULTILINE)


def outside_fences(text):
    return FENCE.sub("", text)


def anchors_of(text):
    return re.findall(r"^ *#+ .*\{ #(\S+)[^}]*\}$", outside_fences(text), re.MULTILINE)


def links_of(text):
    return re.findall(r"\]\((?!https?:)([^)\s]+)\)", outside_fences(text))
