"""Sets of patterns: each is checked as the reference checks it, and errors name its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering.dialect import beginning_of, features_of, tokens_of
from refimpl.indexes.topic_patterns import compile_pattern
from refimpl.proposals.topic_list.rules import PATTERN_MAX_LENGTH, pattern_length, without_domain

SHAPES: Sequence[str] = ("name", "everything", "beginning", "ending", "alternatives", "case-insensitive", "other")
"""Classes of patterns, by what they select."""
BEGINNINGS = 8
"""With so many beginnings of patterns topics are compared before anything else is done with them."""
_SHOWN = 80


@dataclass(frozen=True)
class Pattern:
    """A pattern that the reference accepts.

    Attributes:
        given: As a client sends it.
        text: Without its topic domain.
        beginning: Prefix of every matching name; empty if it is not obvious.
        shape: One of `SHAPES`.
    """

    given: str
    text: str
    beginning: str
    shape: str

    @property
    def features(self) -> frozenset[str]:
        """The features that the common dialect depends on."""
        return features_of(self.text)

    @property
    def namespace(self) -> str | None:
        """`tenant/namespace`, if it begins with one."""
        parts = self.beginning.split("/", 2)
        return "/".join(parts[:2]) if len(parts) == 3 else None

    @property
    def is_evaluated(self) -> bool:
        """Whether a broker with its default limit evaluates it; a longer one is ignored."""
        return pattern_length(self.given) <= PATTERN_MAX_LENGTH


@dataclass(frozen=True)
class PatternSet:
    """Some patterns; the place of each, from 0, stands for it in results."""

    patterns: tuple[Pattern, ...]

    def __len__(self) -> int:
        return len(self.patterns)

    @cached_property
    def feature_counts(self) -> Sequence[tuple[frozenset[str], int]]:
        """How many patterns have which features."""
        return list(Counter(pattern.features for pattern in self.patterns).items())

    @cached_property
    def beginnings(self) -> Sequence[str]:
        """Prefixes, one of which every matching name has; none if there are more than `BEGINNINGS`, or if they are not obvious."""
        kept: list[str] = []
        for beginning in sorted({pattern.beginning for pattern in self.patterns}):
            if not kept or not beginning.startswith(kept[-1]):
                kept.append(beginning)
        return kept if all(kept) and len(kept) <= BEGINNINGS else []


def pattern_set(given: Sequence[str], places: Sequence[str] | None = None) -> PatternSet:
    """Check patterns and make a set of them.

    Args:
        given: As clients send them, with or without a topic domain.
        places: Where each comes from, for error messages; None: its number.

    Raises:
        CorpusError: The reference refuses one of them; names its place, and tells why.
    """
    patterns = []
    for place, text in enumerate(given):
        try:
            patterns.append(_checked(text))
        except ValueError as error:
            where = places[place] if places else f"pattern {place + 1} of {len(given)}"
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.."
            raise CorpusError(f"{where} can't be used: {shown!r}: {error}") from None
    return PatternSet(tuple(patterns))


def read_patterns(path: Path) -> PatternSet:
    r"""Read patterns from a file: one on each line, UTF-8; empty lines are passed over, and a newline is written as `\n`.

    Raises:
        CorpusError: It can't be read, has none, or one that can't be used.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path} can't be read as a list of patterns: {error}") from None
    found = [(line.removesuffix("\r"), f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise CorpusError(f"{path} has no pattern; write one on each line")
    return pattern_set([text for text, _ in found], [place for _, place in found])


def _checked(given: str) -> Pattern:
    text = without_domain(given)
    compile_pattern(text)
    tokens = tokens_of(text)
    beginning, rest = beginning_of(tokens)
    if rest and rest[-1].kind == "end":
        rest = rest[:-1]
    return Pattern(given, text, beginning, _shape(text, beginning, [(token.kind, token.text) for token in rest]))


def _shape(text: str, beginning: str, rest: Sequence[tuple[str, str]]) -> str:
    kinds = [kind for kind, _ in rest]
    if not rest:
        return "name"
    if "fold" in features_of(text):
        return "case-insensitive"
    if "or" in kinds:
        return "alternatives"
    if rest[:2] == [("dot", "."), ("repeat", "*")]:
        if len(rest) == 2:
            return "everything" if beginning.endswith("/") or not beginning else "beginning"
        if set(kinds[2:]) <= {"literal", "escaped", "quote"}:
            return "ending"
    return "other"
