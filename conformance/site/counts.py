"""What changes with the suite, its recordings and its findings, outside of the site: `make counts` writes it anew."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from conformance.report.findings import INDEX
from conformance.site.findings import index_of, read_findings
from conformance.site.home import readme_parts
from conformance.site.sources import REPOSITORY, load_sources
from conformance.suite import Suite

README: Final = REPOSITORY / "README.md"
_COUNTED: Final = re.compile(r"[\d,]+ clauses in [\d,]+ cases")
_PART: Final = re.compile(r"(?<=<!-- made: )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


def counted(text: str, suite: Suite) -> str:
    """Return a text with the current numbers of clauses and cases.

    Args:
        text: Markdown that says `N clauses in M cases` somewhere.
        suite: The suite to count.
    """
    return _COUNTED.sub(f"{len(suite.clauses):,} clauses in {len(suite.transcripts):,} cases", text)


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """Return a text in which each part between `<!-- made: NAME -->` and `<!-- end -->` is new.

    Args:
        text: Markdown.
        parts: The parts by name.
    """
    return _PART.sub(lambda found: f"{found[1]}{found[2]}{parts[found[1]]}", text)


if __name__ == "__main__":
    sources = load_sources()
    INDEX.write_text(index_of(read_findings(sources.suite.clauses)), encoding="utf-8")
    README.write_text(with_parts(counted(README.read_text(encoding="utf-8"), sources.suite), readme_parts(sources)), encoding="utf-8")
