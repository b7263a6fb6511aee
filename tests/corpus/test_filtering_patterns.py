"""Sets of patterns, what is known of each, and the common dialect."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering.dialect import (
    ARROW,
    DIVERGENCES,
    LOOKS,
    SQL,
    SQL_PLAIN,
    classes_of,
    closed,
    features_of,
    in_frame,
    looks_of,
    pairs_outside,
    tokens_of,
)
from conformance.corpus.filtering.drawing import INSIDE, drawn_patterns, escaped
from conformance.corpus.filtering.patterns import BEGINNINGS, SHAPES, pattern_set, read_patterns
from refimpl.indexes.topic_patterns import compile_pattern

PATTERNS = st.lists(
    st.sampled_from(
        [
            *"abk/.*+?|()^$",
            "é",
            "\u212a",
            r"\.",
            r"\Qa.b\E",
            r"\Qk",
            "[ab]",
            "[^a]",
            "(?i)",
            "(?:",
            r"\s",
            r"\b",
            "{2}",
            ".*",
            r"\n",
            r"\Q\E",
        ]
    ),
    max_size=8,
).map("".join)
SUBJECTS = st.text(st.sampled_from("abkK/é\u212a\n\x0b\u2028. "), max_size=6)


@pytest.mark.parametrize(
    ("given_text", "text", "beginning", "shape"),
    [
        ("persistent://t/n/.*", "t/n/.*", "t/n/", "everything"),
        (".*", ".*", "", "everything"),
        ("t/n/a", "t/n/a", "t/n/a", "name"),
        (r"^\Qpersistent://t/n/a", r"^\Qt/n/a", "t/n/a", "name"),
        ("^t/n/ord.*$", "^t/n/ord.*$", "t/n/ord", "beginning"),
        ("t/n/.*x", "t/n/.*x", "t/n/", "ending"),
        ("t/n/(a|b)", "t/n/(a|b)", "t/n/", "alternatives"),
        ("t/n/a|t/n/b", "t/n/a|t/n/b", "", "alternatives"),
        ("(?i)t/n/k", "(?i)t/n/k", "", "case-insensitive"),
        (r"t/n/[ab]\d+", r"t/n/[ab]\d+", "t/n/", "other"),
        ("t/n/ab*", "t/n/ab*", "t/n/a", "other"),
        (r"t/n/a\Q\E*", r"t/n/a\Q\E*", "t/n/", "other"),
    ],
)
def test_what_is_known_of_a_pattern(given_text: str, text: str, beginning: str, shape: str) -> None:
    (pattern,) = pattern_set([given_text]).patterns
    assert (pattern.text, pattern.beginning, pattern.shape) == (text, beginning, shape)
    assert pattern.shape in SHAPES


@given(PATTERNS, SUBJECTS)
def test_what_fits_begins_as_it_is_said(text: str, subject: str) -> None:
    try:
        compiled = compile_pattern(text)
    except ValueError:
        assume(False)
    (pattern,) = pattern_set([text]).patterns
    subject = pattern.beginning + subject
    for candidate in (subject, subject[1:], pattern.beginning):
        if compiled.matches(candidate):
            assert candidate.startswith(pattern.beginning)
        if pattern.shape == "name":
            assert compiled.matches(candidate) == (candidate == pattern.beginning)
        if pattern.shape in ("beginning", "everything"):
            rest = candidate.removeprefix(pattern.beginning)
            assert compiled.matches(candidate) == (candidate.startswith(pattern.beginning) and "\n" not in rest)


@given(PATTERNS)
def test_tokens_are_the_whole_pattern(text: str) -> None:
    assert "".join(token.text for token in tokens_of(text)) == text


@given(PATTERNS, SUBJECTS)
def test_a_frame_changes_nothing(text: str, subject: str) -> None:
    try:
        fits = compile_pattern(text).matches(subject)
    except ValueError:
        assume(False)
    assert pc.match_substring_regex(pa.array([subject]), pattern=in_frame(text))[0].as_py() == fits


def test_an_open_quote_is_closed() -> None:
    assert closed(r"a\Qb") == r"a\Qb\E"
    assert closed(r"a\Qb\E") == r"a\Qb\E"
    assert closed(r"\\Qb") == r"\\Qb"


@given(st.text(st.sampled_from("a\n\r\x0b\x85\u2028\u2029é😀 ")))
def test_looks_are_the_same_for_arrow(subject: str) -> None:
    of_arrow = {look for look, text in LOOKS.items() if pc.match_substring_regex(pa.array([subject]), pattern=text)[0].as_py()}
    assert of_arrow == looks_of(subject)


def test_each_class_has_a_witness_in_it() -> None:
    assert len({one.name for one in DIVERGENCES}) == len(DIVERGENCES)
    for one in DIVERGENCES:
        compile_pattern(one.witness[0])
        for formulation in (SQL, SQL_PLAIN, ARROW):
            assert (one.name in classes_of(*one.witness, formulation)) == (formulation in one.formulations)


@pytest.mark.parametrize(
    ("pattern", "subject", "classes"),
    [
        ("(?i)t/n/K", "t/n/k", ()),
        ("(?i)t/n/K", "t/n/\u212a", ("case-of-subject",)),
        ("(?i)t/n/[\u017f]", "t/n/s", ("case-of-pattern",)),
        (r"(?i)t/n/\x{212a}", "t/n/k", ("case-of-pattern",)),
        ("(?-i)t/n/é", "t/n/é", ()),
        (r"t/n/[\s]", "t/n/\x0b", ("vertical-tab",)),
        ("t/n/.*", "t/n/a\u2028", ()),
        ("t/n/a$", "t/n/a\n", ()),
        ("t/n/[[:alpha:]]", "t/n/a", ("nested-class",)),
        (r"t/n/[\d-z]", "t/n/a", ("other-syntax",)),
        ("t/n/[]a]", "t/n/a", ("other-syntax",)),
        ("t/n/a{", "t/n/a{", ("other-syntax",)),
        ("t/n/^*", "t/n/", ("other-syntax",)),
        (r"t/n/\12", "t/n/\n", ("escape",)),
    ],
)
def test_classes(pattern: str, subject: str, classes: tuple[str, ...]) -> None:
    compile_pattern(pattern)
    assert classes_of(pattern, subject, SQL) == classes
    assert classes_of(pattern, subject, ARROW) == ()


def test_pairs_outside_are_counted_without_making_them() -> None:
    patterns = ["(?i)t/n/k", "(?i)t/n/k", r"t/n/\s", "t/n/.*", r"(?i)t/\s\u017f".replace(r"\u017f", "\u017f")]
    subjects = ["t/n/k", "t/n/\u212a", "t/n/\x0b", "t/n/\x0b\u212a", "t/n/a\u2028", "t/n/x\n"]
    pairs = [(pattern, subject) for pattern in patterns for subject in subjects]
    for formulation in (SQL, SQL_PLAIN, ARROW):
        found = [classes_of(pattern, subject, formulation) for pattern, subject in pairs]
        expected = {name: sum(name in classes for classes in found) for name in {name for classes in found for name in classes}}
        if any(found):
            expected["all"] = sum(bool(classes) for classes in found)
        looks = {look: sum(looks_of(subject) == look for subject in subjects) for look in map(looks_of, subjects)}
        assert pairs_outside(pattern_set(patterns).feature_counts, looks, formulation) == expected


def test_an_invalid_pattern_among_ten_thousand_is_named() -> None:
    texts = [f"t/n/{number}" for number in range(10_000)]
    texts[4710] = "t/n/(a"
    with pytest.raises(CorpusError) as caught:
        pattern_set(texts)
    assert str(caught.value).startswith("pattern 4711 of 10000 can't be used: 't/n/(a': missing ): t/n/(a")
    assert "\n" not in str(caught.value)


def test_a_file_of_patterns(tmp_path: Path) -> None:
    path = tmp_path / "patterns.txt"
    path.write_text("persistent://t/n/.*\n\nt/n/\u2028.*\r\n", encoding="utf-8", newline="")
    assert [pattern.text for pattern in read_patterns(path).patterns] == ["t/n/.*", "t/n/\u2028.*"]
    path.write_text("t/n/.*\n\nhttp://t/n/.*\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"patterns.txt, line 3 can't be used: 'http://t/n/\.\*': Does not support topic domain: http"):
        read_patterns(path)
    path.write_text("\n \n", encoding="utf-8")
    with pytest.raises(CorpusError, match="has no pattern; write one on each line"):
        read_patterns(path)
    path.write_bytes(b"\xff")
    with pytest.raises(CorpusError, match="can't be read as a list of patterns"):
        read_patterns(path)
    with pytest.raises(CorpusError, match="can't be read"):
        read_patterns(tmp_path / "none.txt")


def test_beginnings_of_a_set() -> None:
    assert pattern_set(["t/n/a.*", "t/n/b", "t/n/a-.*x", "t/m/.*"]).beginnings == ["t/m/", "t/n/a", "t/n/b"]
    assert pattern_set(["t/n/a.*", "(?i)t/n/b"]).beginnings == []
    assert pattern_set([f"t/n-{number}/.*" for number in range(BEGINNINGS)]).beginnings
    assert pattern_set([f"t/n-{number}/.*" for number in range(BEGINNINGS + 1)]).beginnings == []
    assert pattern_set([]).beginnings == []


@given(st.text(st.characters().filter(str.isprintable), max_size=12))
def test_an_escaped_text_fits_itself_alone(text: str) -> None:
    (pattern,) = pattern_set([escaped(text)]).patterns
    assert (pattern.shape, pattern.beginning) == ("name", text)


def test_drawn_patterns_fit_what_they_are_drawn_from() -> None:
    names = [f"t/n/orders-{number}" for number in range(50)]
    patterns = pattern_set(drawn_patterns(names, 90, 1, outside=False)).patterns
    assert {pattern.shape for pattern in patterns} >= {"name", "everything", "beginning", "ending", "alternatives", "other"}
    assert all(any(compile_pattern(pattern.text).matches(name) for name in names) for pattern in patterns)
    assert not any(classes_of(pattern.text, name, SQL) for pattern in patterns for name in [*names, "t/n/é\u2028\n"])
    assert drawn_patterns(names, 90, 1) == drawn_patterns(names, 90, 1) != drawn_patterns(names, 90, 2)
    assert len(INSIDE) > 5


def test_patterns_can_be_drawn_from_any_names() -> None:
    generator = random.Random(1)
    names = [
        "",
        "a",
        "a/b",
        "\n",
        r"t/n/\E",
        "t/n/a://b",
        *("t/n/" + "".join(generator.choices("é😀[](){}*+?|\\^$.\r\u2028 k", k=6)) for _ in range(100)),
    ]
    pattern_set(drawn_patterns(names, 2000, 1))
    with pytest.raises(CorpusError, match="this one has none"):
        drawn_patterns([], 1, 1)


def test_features_of_a_class_of_characters() -> None:
    assert features_of(r"[a-z\-\]_0-9]") == frozenset()
    assert features_of(r"[\sé]") == {"space", "beyond"}


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "/",
        "//",
        "://",
        "x://y",
        "t/n/",
        "t/n/a://b",
        "🌍",
        "e\u0301",
        "t/n/a\r\n",
        "\u2028",
        " ",
        "-partition-5",
        "(",
        "t/n/" + "x" * 5000,
    ],
)
def test_patterns_are_drawn_from_any_name(name):
    patterns = [text for seed in range(5) for text in drawn_patterns([name], 24, seed)]
    assert len(pattern_set(patterns)) == 120
