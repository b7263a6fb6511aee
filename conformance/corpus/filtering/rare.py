"""The rare pairs of pattern and name that a comparison found, in a form that can become cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from conformance.corpus.filtering.comparing import Disagreements, reference_fits
from conformance.corpus.filtering.dialect import DIVERGENCES
from conformance.corpus.promotion import DIFFERS, FITS, REFUSED, Rare

_NAMESPACE = "t/n/"
_TEXTS = {one.name: one.text for one in DIVERGENCES}


def rare_pairs(spark: SparkSession, found: Sequence[Disagreements], corpus: str) -> list[Rare]:
    """Return one pair for each class and direction on which java.util.regex and RE2 differ.

    Args:
        spark: Its Java is asked.
        found: Disagreements about patterns of topics.
        corpus: The corpus in which they were found, with its options.
    """
    java = java_reading(spark)
    rare: dict[str, Rare] = {}
    for one in found:
        name = f"{one.class_name}-{one.direction}"
        if one.class_name not in _TEXTS or name in rare or len(one.shrunk) != 2:
            continue
        for pattern, topic in _in_a_namespace(*one.shrunk):
            reading = java(pattern, topic)
            if reading != (FITS if reference_fits(pattern, topic) else DIFFERS):
                rare[name] = Rare(name, _TEXTS[one.class_name], pattern, f"persistent://{topic}", reading, corpus, one.row)
                break
    return [rare[name] for name in sorted(rare)]


def _in_a_namespace(pattern: str, subject: str) -> Iterator[tuple[str, str]]:
    """Yield the pair below a namespace, behind a letter and as it is; a local name has no slash, is not blank, and no system topic."""
    if "/" in subject or "://" in pattern:
        return
    for before in ("a", ""):
        if (before + subject).strip():
            yield f"{_NAMESPACE}{before}(?:{pattern})", f"{_NAMESPACE}{before}{subject}"


def java_reading(spark: SparkSession) -> Callable[[str, str], str]:
    """Return a function that says how java.util.regex reads a pattern as a broker uses it: `FITS`, `DIFFERS` or `REFUSED`."""
    regex: Any = spark._jvm.java.util.regex.Pattern  # type: ignore[union-attr]

    def reading(pattern: str, subject: str) -> str:
        try:
            return FITS if regex.compile(pattern).matcher(subject).matches() else DIFFERS
        except IllegalArgumentException:
            return REFUSED

    return reading
