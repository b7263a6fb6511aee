"""Numbers that change with the suite, in texts that are not pages of the site: `make counts` updates them."""

from __future__ import annotations

import re

from conformance.site.sources import REPOSITORY
from conformance.suite import Suite, load_suite

README = REPOSITORY / "README.md"
_COUNTED = re.compile(r"\d+ clauses in \d+ cases")


def counted(text: str, suite: Suite) -> str:
    """Return a text with the current numbers of clauses and cases.

    Args:
        text: Markdown that says `N clauses in M cases` somewhere.
        suite: The suite to count.
    """
    return _COUNTED.sub(f"{len(suite.clauses)} clauses in {len(suite.transcripts)} cases", text)


if __name__ == "__main__":
    README.write_text(counted(README.read_text(encoding="utf-8"), load_suite()), encoding="utf-8")
