"""The common dialect holds for random patterns and subjects, in Spark's own `rlike`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.filtering.comparing import reference_fits
from conformance.corpus.filtering.dialect import DIVERGENCES, SQL, SQL_PLAIN, classes_of, for_java, for_java_plain
from conformance.corpus.sources.topic_forms import KINDS, MIXES

ATOMS = [
    *[
        "a",
        "b",
        "k",
        "s",
        "/",
        "t",
        "é",
        "\u212a",
        "ſ",
        "😀",
        r"\.",
        r"\-",
        ".",
        "[ab]",
        "[^a]",
        "[a-k]",
        r"[^\w]",
        r"\d",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\n",
    ],
    *[
        r"\x6b",
        r"\x{212a}",
        r"\Qa.b\E",
        r"\Qk",
        "^",
        "$",
        r"\b",
        r"\A",
        r"\z",
        r"[\d_]",
        "[[:alpha:]]",
        "[é-ſ]",
        r"\pL",
        "(?P<x>a)",
        "{",
        "}",
        "]",
        "-",
        r"\t",
    ],
    *[
        r"\v",
        r"\C",
        "[a&&b]",
        r"[k\-]",
        r"\_",
        r"\07",
        r"\1",
        r"\Q\E",
        "(?i)",
        "(?s)",
        "(?m)",
        "(?U)",
        "(?i:k)",
        "(?-i:s)",
        r"[\w-a]",
        "[]a]",
    ],
]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}"]
CHARACTERS = "abksKSt/n.-éÉ\u212aſ😀\n\r\x0b\u2028\u0085 0_Aİı"


def pattern_of(random: Random, depth: int = 0) -> str:
    text = ""
    for _ in range(random.randint(1, 4)):
        if depth < 2 and random.random() < 0.2:
            other = "|" + pattern_of(random, depth + 1) if random.random() < 0.5 else ""
            text += "(" + random.choice(["", "?:"]) + pattern_of(random, depth + 1) + other + ")"
        else:
            text += random.choice(ATOMS if random.random() < 0.4 else ATOMS[:23])
        if random.random() < 0.3:
            text += random.choice(REPEATS)
    return text + ("|" + pattern_of(random, 1) if not depth and random.random() < 0.1 else "")


def pairs_of(seed: int, count: int) -> Iterator[tuple[str, str, bool]]:
    random = Random(seed)
    for _ in range(count):
        pattern = pattern_of(random)
        for _ in range(6):
            subject = "".join(random.choice(CHARACTERS) for _ in range(random.randint(0, 5)))
            fits = reference_fits(pattern, subject)
            if fits is not None:
                yield pattern, subject, fits


def test_java_agrees_on_random_pairs_of_the_dialect(spark: SparkSession) -> None:
    pairs = list(pairs_of(seed=7, count=6000))
    for formulation, framed in ((SQL, for_java), (SQL_PLAIN, for_java_plain)):
        inside = [(pattern, subject, fits) for pattern, subject, fits in pairs if not classes_of(pattern, subject, formulation)]
        assert len(inside) > 5000
        assert sum(fits for *_, fits in inside) > 200
        rows = [(pattern, framed(pattern), subject, fits) for pattern, subject, fits in inside]
        frame = spark.createDataFrame(rows, "pattern STRING, regex STRING, subject STRING, fits BOOLEAN")
        differing = frame.where(F.rlike("subject", "regex") != F.col("fits")).collect()
        assert [(row.pattern, row.subject, row.fits) for row in differing] == []


def test_the_page_has_each_class() -> None:
    pages = Path(__file__).parents[2].joinpath("docs", "corpus-filtering.md").read_text(encoding="utf-8")
    for one in DIVERGENCES:
        (line,) = [line for line in pages.splitlines() if line.startswith(f"| `{one.name}` |")]
        assert line.endswith(f"| {', '.join(sorted(one.formulations))} |")
    for place, kind in enumerate(KINDS):
        (line,) = [line for line in pages.splitlines() if line.startswith(f"| `{kind}`") and " % |" in line]
        shares = [f"{round(MIXES[mix][place] * 100, 1):g} %" if MIXES[mix][place] else "-" for mix in ("usual", "ascii", "adversarial")]
        assert [cell.strip() for cell in line.split("|")[-4:-1]] == shares
