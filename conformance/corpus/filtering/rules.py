"""The rules that have several formulations. Each is applied to a frame and gives one column.

A rule says which columns it reads and the type of its own; its meaning is in the reference, `reference.evaluator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering.patterns import PatternSet

DOMAINS = ("persistent://", "non-persistent://")
"""What the full names of persistent and non-persistent topics begin with."""
PARTITION_SUFFIX = r"-partition-(?:0|[1-9][0-9]*)\z"
"""What makes a name that of a partition; RE2 and Java read it alike."""


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        name: Its name.
        inputs: The columns that it reads.
        type: Of its own column, as Arrow says it.
    """

    name: ClassVar[str]
    inputs: ClassVar[Sequence[str]] = ("topic",)
    type: ClassVar[pa.DataType] = pa.bool_()


@dataclass(frozen=True)
class MatchedName(Rule):
    """PIP-145: what patterns are compared with: a topic without its domain and its partition's number."""

    name = "matched-name"
    type = pa.string()


@dataclass(frozen=True)
class IsSystemTopic(Rule):
    """PIP-145: whether a topic is one of the broker's own, which lists leave out."""

    name = "system-topic"


@dataclass(frozen=True)
class Matching(Rule):
    """PIP-145: the places of the patterns that fit a topic, ascending; a system topic fits none."""

    patterns: PatternSet
    name = "matching"
    type = pa.list_(pa.int32())


@dataclass(frozen=True)
class MatchesAny(Rule):
    """PIP-145: whether a topic fits any of the patterns."""

    patterns: PatternSet
    name = "matches-any"


@dataclass(frozen=True)
class HasProperties(Rule):
    """PR 25648: whether a topic has all properties that are asked for, with just these values; `filters` are pairs of key and value."""

    filters: tuple[tuple[str, str], ...]
    name = "has-properties"
    inputs = ("properties",)


@dataclass(frozen=True)
class PayloadFits(Rule):
    """PR 7629: whether the whole payload fits a regular expression; bytes that are not UTF-8 are characters of these numbers."""

    pattern: str
    name = "payload-fits"
    inputs = ("payload",)


@dataclass(frozen=True)
class PayloadBeginsWith(Rule):
    """PR 7629: whether the payload begins with some bytes."""

    prefix: bytes
    name = "payload-begins-with"
    inputs = ("payload",)


def property_filters(texts: Sequence[str]) -> HasProperties:
    """Return the rule for filters that a command line gives as `key=value`; of a key that comes twice the last value counts.

    Raises:
        CorpusError: One has no `=`.
    """
    for text in texts:
        if "=" not in text:
            raise CorpusError(f"a property filter is written key=value, not {text!r}")
    pairs = (text.partition("=") for text in texts)
    return HasProperties(tuple({key: value for key, _, value in pairs}.items()))
