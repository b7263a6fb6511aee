"""The output of a cell: HTML for people, plain text for diffs between versions and for readers that show no HTML."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from google.protobuf.message import Message

from conformance.report.wording import one_line
from refimpl.proposals.refused import Refused
from refimpl.wire import Frame, line_notation, wrap
from refimpl.wire.pulsar_api_pb2 import ServerError

_TABLE = "table.pcn.pcn.pcn"
STYLE = (
    "div.pcn{overflow-x:auto}"
    f"{_TABLE}{{border-collapse:collapse;margin:.3em 0;table-layout:auto;font-size:13px;display:table;width:auto;color:inherit}}"
    f"{_TABLE} :is(th,td){{text-align:left;vertical-align:top;padding:.15em .9em .15em .3em;border:0;white-space:normal;max-width:none}}"
    f"{_TABLE} th{{font-weight:600;border-bottom:1px solid rgba(128,128,128,.5)}}"
    f"{_TABLE} tr{{background:none;border:0}}"
    f"{_TABLE} :is(td.n,th.n){{text-align:right;font-variant-numeric:tabular-nums}}"
    f"{_TABLE} code{{background:none;padding:0;font:12px ui-monospace,Menlo,Consolas,monospace;color:inherit}}"
    f"{_TABLE} code{{white-space:pre-wrap;word-break:normal;overflow-wrap:normal}}"
)
"""Colours are tints over the colours of the page, so that they fit a light and a dark one."""


@dataclass(frozen=True)
class Shown:
    """The result of a cell.

    Attributes:
        html: A fragment that needs nothing else: no script, nothing that is loaded.
        text: The same as plain text.
    """

    html: str
    text: str

    def _repr_mimebundle_(self, include: Collection[str] | None = None, exclude: Collection[str] | None = None) -> dict[str, str]:
        """Give Jupyter both forms."""
        del include, exclude
        return {"text/html": self.html, "text/plain": self.text}


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, code: Collection[str] = ()) -> Shown:
    """Show a table.

    Args:
        heads: The names of the columns.
        rows: One value for each column; columns of numbers only are set to the right. A `Shown` stands in its cell as it is.
        code: The columns to set in a type of fixed width.
    """
    listed = [list(row) for row in rows]
    numbers = [bool(listed) and all(type(row[place]) in (int, float) for row in listed) for place in range(len(heads))]
    texts = [[_text(value) for value in row] for row in listed]
    head = "".join(f"<th{_side(number)}>{escape(name)}</th>" for name, number in zip(heads, numbers, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{_side(n)}>{_cell(value, name in code)}</td>" for value, name, n in zip(row, heads, numbers, strict=True))
        + "</tr>\n"
        for row in listed
    )
    html = (
        f'<style>{STYLE}</style>\n<div class="pcn"><table class="pcn"><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'
    )
    return Shown(html, aligned([list(heads), *texts], numbers))


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Write rows as columns of plain text, the first row underlined."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(value.rjust(width) if r else value.ljust(width) for value, width, r in zip(row, widths, right, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def attempt(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Call a function that may refuse its arguments, and return the result or the refusal.

    Returns:
        What it returned, frames and messages in line notation; or `refused, ` and the reason of its ValueError or Refused.
    """
    try:
        return one_line(_told(call(*arguments, **options)))
    except ValueError as error:
        return one_line(f"refused, {error}")
    except Refused as refused:
        return one_line(f"refused, {ServerError.Name(refused.code)}: {refused.message}")


def _told(value: object) -> str:
    if isinstance(value, Frame):
        return line_notation(value)
    if isinstance(value, Message):
        return line_notation(wrap(value))
    return f"[{', '.join(map(_told, value))}]" if isinstance(value, list) else repr(value)


def _text(value: object) -> str:
    if isinstance(value, Shown):
        return value.text
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else one_line(value)


def _side(number: bool) -> str:
    return ' class="n"' if number else ""


def _cell(value: object, code: bool) -> str:
    if isinstance(value, Shown):
        return value.html
    text = _text(value)
    return f"<code>{escape(text)}</code>" if code and text else escape(text)
