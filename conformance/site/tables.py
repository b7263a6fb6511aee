"""Tables as a narrow screen shows them: long names break at their joints, and where columns find no room each row is a block of its own."""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Final

_TABLE: Final = re.compile(r"<table( class=\"pcn\")?>(.*?)</table>", re.DOTALL)
_HEAD: Final = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW: Final = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_CELL: Final = re.compile(r"(<td\b[^>]*)>(.*?)</td>", re.DOTALL)
_TAG: Final = re.compile(r"(<[^>]*>)")
_NAME: Final = re.compile(r"[^\s<>&;]{12,}")
_JOINT: Final = re.compile(r"(?<=[._/,:=])(?=\w)|(?<=[a-z])(?=[A-Z])")
_COLUMNS: Final = 4
"""Tables with fewer columns find room on a telephone."""
_SHORT: Final = 12
"""Letters of a cell that finds room beside many others."""


def readable(html: str) -> str:
    """Return a page whose tables can be read on a narrow screen.

    A row says of each cell which column it belongs to, so that a style sheet can show the row as a block.

    Args:
        html: The content of a page.
    """
    whole = _TABLE.sub(_stacked, html)
    return _CELL.sub(lambda found: f"{found[1]}>{breakable(found[2])}</td>", whole)


def breakable(html: str) -> str:
    """Let long names break behind points, slashes and the like, and before capital letters.

    Args:
        html: The content of a cell.
    """
    parts = _TAG.split(html)
    parts[::2] = [_NAME.sub(lambda found: _JOINT.sub("<wbr>", found[0]), part) for part in parts[::2]]
    return "".join(parts)


def _stacked(found: re.Match[str]) -> str:
    heads = [_text(head) for head in _HEAD.findall(found[2])]
    cells = [_CELL.findall(row) for row in _ROW.findall(found[2])]
    if len(heads) < _COLUMNS or all(len(_text(text)) <= _SHORT for row in cells for _, text in row[1:]):
        return found[0]
    rows = _ROW.sub(lambda row: f"<tr>{_named(row[1], heads)}</tr>", found[2])
    return f"<table{found[1] or ''} data-rows>{rows}</table>"


def _named(row: str, heads: list[str]) -> str:
    names = iter(["", *heads[1:]])

    def named(cell: re.Match[str]) -> str:
        name = next(names, "")
        return f'{cell[1]} data-of="{escape(name)}">{cell[2]}</td>' if name and cell[2].strip() else cell[0]

    return _CELL.sub(named, row)


def _text(html: str) -> str:
    return unescape(_TAG.sub("", html)).strip()
