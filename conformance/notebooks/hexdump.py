"""Frames and other bytes, taken apart: a line of a table for each part, tinted by what the part is for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from conformance.notebooks.shown import STYLE, Shown
from conformance.report.wording import cut, one_line
from refimpl.wire import Line, annotate, format_lines

_SHOWN = 16
"""Bytes of a line that are written out."""
_TEXT = 96
_LINES = 60

_KINDS = (
    ("bad", re.compile(r"!")),
    ("size", re.compile(r"(total|command|metadata|broker entry metadata) size|message \d+: metadata size")),
    ("mark", re.compile(r"type = |checksum follows|broker entry metadata follow|crc32c")),
    ("head", re.compile(r"[\w.]+ \(\d+ bytes\)$")),
    ("body", re.compile(r"payload, |message \d+: \d+ bytes")),
)
_TINTS = {
    "size": "66,133,244,.20",
    "mark": "255,152,0,.20",
    "head": "128,128,128,.16",
    "field": "76,175,80,.12",
    "body": "171,71,188,.18",
    "bad": "229,57,53,.26",
}
_STYLE = STYLE + "".join(f"table.pcn.pcn.pcn tr.k-{kind}>td+td{{background:rgba({tint})}}" for kind, tint in _TINTS.items())


def frame(data: bytes, title: str = "") -> Shown:
    """Show a frame, whole or damaged, with the meaning of every byte.

    Args:
        data: The frame.
        title: What stands above it; without one, how long it is.
    """
    return _shown(list(annotate(data)), title or f"{len(data)} bytes")


def hexdump(parts: Sequence[tuple[bytes, str]], title: str = "") -> Shown:
    """Show bytes whose parts the caller explains.

    Args:
        parts: Bytes and their meaning, in their order.
        title: What stands above them; without one, how many they are.
    """
    lines, place = [], 0
    for data, text in parts:
        lines.append(Line(place, len(data), data.hex(), text))
        place += len(data)
    return _shown(lines, title or f"{place} bytes")


def framed(command: bytes, rest: bytes = b"", *, total_size: int | None = None, command_size: int | None = None) -> bytes:
    """Put sizes in front of bytes, also such as `encode_frame` refuses to write.

    Args:
        command: What should be a BaseCommand.
        rest: What follows it in the frame.
        total_size: Written instead of the right one.
        command_size: Written instead of the right one.
    """
    total = 4 + len(command) + len(rest) if total_size is None else total_size
    size = len(command) if command_size is None else command_size
    return total.to_bytes(4, "big") + size.to_bytes(4, "big") + command + rest


def _shown(lines: Sequence[Line], title: str) -> Shown:
    left_out = len(lines) - _LINES
    shown = [_shortened(line) for line in lines[:_LINES]]
    if left_out > 0:
        shown.append(Line(shown[-1].offset, 0, "", f"{left_out} more lines"))
    rows = "".join(f"{_row(line)}\n" for line in shown)
    head = f'<tr><th class="n">at</th><th>bytes</th><th>{escape(one_line(title))}</th></tr>'
    html = f'<style>{_STYLE}</style>\n<div class="pcn"><table class="pcn"><thead>{head}</thead><tbody>\n{rows}</tbody></table></div>'
    return Shown(html, f"{one_line(title)}\n{format_lines(shown)}")


def _row(line: Line) -> str:
    text = line.text.lstrip(" ")
    inside = 0.3 + 0.6 * (len(line.text) - len(text))
    return (
        f'<tr class="k-{_kind(text)}"><td class="n"><code>{line.offset:04}</code></td><td><code>{_spaced(line.hex)}</code></td>'
        f'<td style="padding-left:{inside:.1f}em"><code>{escape(text)}</code></td></tr>'
    )


def _shortened(line: Line) -> Line:
    many = line.size > _SHOWN
    return Line(line.offset, line.size, line.hex[: 2 * _SHOWN].rstrip(".") + ".." if many else line.hex, cut(one_line(line.text), _TEXT))


def _spaced(digits: str) -> str:
    many = digits.endswith("..")
    digits = digits.removesuffix("..")
    pairs = [digits[place : place + 2] for place in range(0, len(digits), 2)]
    return " ".join(pairs) + (" …" if many else "")


def _kind(text: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.match(text)), "field")
