"""Wording that all renderers share: verdicts for people, numbers with their nouns, and text that is safe to show anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

VERDICT_WORDS: Final[dict[str, str]] = {
    "PASS": "passed",
    "FAIL": "failed",
    "ERROR": "could not be run",
    "WARN": "warned",
    "INCONCLUSIVE": "inconclusive",
    "XFAIL": "known to fail",
    "XPASS": "passed against the baseline",
    "SPEC-GAP": "left open by the text",
    "NOT-APPLICABLE": "not applicable",
    "UNTESTABLE": "untestable",
    "EXCLUDED": "excluded",
}
"""Every verdict that a count can speak of, in the order of counts."""

VERDICT_MEANING: Final[dict[str, str]] = {
    "PASS": "Everything that was expected came, and nothing else.",
    "FAIL": "A statement at level MUST does not hold.",
    "ERROR": "The suite could not run the case; that says nothing about the target.",
    "WARN": "A statement at level SHOULD does not hold.",
    "INCONCLUSIVE": "The suite was too slow to judge a rule that speaks of time.",
    "XFAIL": "It fails, and the baseline of this target knows it, with a reason.",
    "XPASS": "The baseline calls it a known failure, but it passed.",
    "SPEC-GAP": "The text allows more than one behaviour; this is which one was seen.",
    "NOT-APPLICABLE": "The target does not have the feature that this is about.",
    "UNTESTABLE": "Something that the case needs is missing here, so nothing is known.",
    "EXCLUDED": "Deliberately not tested; the reason is given.",
}

SHORT: Final = 400
"""Characters of a reason or of a line of a diagnosis that are shown: a peer chooses how long its texts are."""
LINES: Final = 150
"""Lines of a diagnosis that are shown."""
_NO_SECTION: Final = frozenset({"", "observed", "settled"})
_ALWAYS: Final = ("PASS", "FAIL", "WARN", "NOT-APPLICABLE", "UNTESTABLE")
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)


def clean(text: object) -> str:
    r"""Make text of a peer safe for terminals, XML and HTML: control characters are escaped as `\x1b`; line feeds and tabs stay."""
    written = str(text)
    return written if written.isascii() and written.isprintable() else _UNSAFE.sub(_escaped, written)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: object) -> str:
    """Make text safe and put it on one line."""
    return clean(text).replace("\n", "\\n").replace("\t", " ")


def cut(text: str, limit: int) -> str:
    """Keep the first characters of a long text and say how long it was."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def short(text: object) -> str:
    """Make text safe, put it on one line and shorten it to a readable length."""
    return cut(one_line(text), SHORT)


def paragraph(text: str) -> list[str]:
    """Make text of many lines safe and shorten it to a readable size: number of lines, and length of each."""
    lines = clean(text).splitlines()
    more = [f"… {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return [*(cut(line, SHORT) for line in lines[:LINES]), *more]


def middle_cut(text: str, limit: int) -> str:
    """Keep both ends of a long text."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) * 3 // 5
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def sentence_cut(text: str, limit: int) -> str:
    """Keep both ends of a long sentence, with whole words; if its words are long, cut in the middle of them."""
    before, found, after = middle_cut(text, limit - 2).partition("…")
    first, last = before.rpartition(" ")[0], after.partition(" ")[2]
    whole = len(text) > limit and found and len(first) * 2 > len(before) and len(last) * 2 > len(after)
    return f"{first} … {last}" if whole else middle_cut(text, limit)


def number_of(count: int, noun: str, plural: str | None = None) -> str:
    """Write a number with its noun: `1 clause`, `1,200 clauses`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], limit: int = 6) -> str:
    """Write names with commas; if there are many, the first ones and how many more."""
    every = list(names)
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def counted(counts: Mapping[str, int], always: Iterable[str] = ()) -> list[tuple[str, int, str]]:
    """Return verdict, number and words in their usual order.

    Args:
        counts: Numbers by verdict.
        always: Further verdicts that are shown even if their number is 0.
    """
    shown = {*_ALWAYS, *always}
    return [(name, counts.get(name, 0), words) for name, words in VERDICT_WORDS.items() if counts.get(name, 0) or name in shown]


def cases_counted(cases: int, transcripts: int) -> str:
    """Say how many cases there are, and what is counted as one."""
    return f"{cases:,}" if cases == transcripts else f"{cases:,}, the cells of {number_of(transcripts, 'transcript')}"


def given_policies(policies: Iterable[str]) -> str:
    """Say which policies the namespaces of a run were given."""
    return f"the namespaces of the run have {', '.join(sorted(policies))} of their own, since the broker's settings are not the usual ones"


def conversations_counted(conversations: int, repetitions: int) -> str:
    """Say how many conversations were held, and how many of them once more."""
    return number_of(conversations, "conversation") + (f", {number_of(repetitions, 'repetition')} among them" if repetitions else "")


def plain_value(value: Any) -> str:
    """Write a value of a transcript or a log as transcripts do, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {plain_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(plain_value, value)) + "]"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return json.dumps(value, ensure_ascii=False, default=str)


def section_words(section: str) -> str:
    """Say which part of its text a clause comes from; empty if no part covers it.

    Args:
        section: What the clause names: a section, the source of a release, or how it was found otherwise.
    """
    if section in _NO_SECTION:
        return ""
    return one_line(section) if section.startswith("source of ") else f"section “{one_line(section)}”"
