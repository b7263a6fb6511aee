"""Numbers that change with the suite, where a text says them that is no page of the site: `make counts` writes them anew."""

from __future__ import annotations

import re

from conformance.site.sources import REPOSITORY
from conformance.suite import Suite, load_suite

README = REPOSITORY / "README.md"
_COUNTED = re.compile(r"\d+ clauses in \d+ cases")


def counted(text: str, suite: Suite) -> str:
    """Return a text with the numbers of clauses and cases as they are.

    Args:
        text: Markdown that says `N clauses in M cases` somewhere.
        suite: What is counted.
    """
    return _COUNTED.sub(f"{len(suite.clauses)} clauses in {len(suite.transcripts)} cases", text)


if __name__ == "__main__":
    README.write_text(counted(README.read_text(encoding="utf-8"), load_suite()), encoding="utf-8")
