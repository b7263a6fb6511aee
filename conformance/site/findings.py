"""The index of the findings: each page says under **Clause** which clauses it breaks."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from conformance.report.findings import Finding
from conformance.site.sources import REPOSITORY

PAGES: Final = REPOSITORY / "docs" / "findings"
_BROKEN: Final = re.compile(r"^\*\*Clauses?\*\*\s+(?!None)(.*?)(?=^\*\*|\Z)", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`([a-z0-9.-]+)`")


def read_findings(clauses: Collection[str], pages: Path = PAGES) -> list[Finding]:
    """Read the pages.

    Args:
        clauses: The clauses that there are.
        pages: The folder of the pages.
    """
    return [_read(path, clauses) for path in sorted(pages.glob("*.md")) if path.name != "README.md"]


def _read(path: Path, clauses: Collection[str]) -> Finding:
    text = path.read_text(encoding="utf-8")
    broken = _BROKEN.search(text)
    named = dict.fromkeys(_CODE.findall(broken[1]) if broken else ())
    return Finding(page=path.stem, title=text.partition("\n")[0].removeprefix("# "), clauses=tuple(one for one in named if one in clauses))


def index_of(found: Collection[Finding]) -> str:
    """Write the index."""
    return json.dumps([one.model_dump() for one in found], indent=1, ensure_ascii=False) + "\n"
