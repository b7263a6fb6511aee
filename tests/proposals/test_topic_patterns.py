"""What patterns fit, and that the index of a namespace finds what trying each pattern finds."""

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from refimpl.indexes import topic_patterns
from refimpl.indexes.topic_patterns import PatternIndex, compile_pattern

OPTIONS = re2.Options()
OPTIONS.log_errors = False


@pytest.mark.parametrize(
    ("pattern", "literal", "kind"),
    [
        ("public/ns/abc", "public/ns/abc", "whole"),
        ("^public/ns/abc$", "public/ns/abc", "whole"),
        (r"^\Qpublic/ns/a.b\E$", "public/ns/a.b", "whole"),
        (r"public/ns/a\.b", "public/ns/a.b", "whole"),
        (r"\Qa\\E", "a\\", "whole"),
        (r"\Qa.b", "a.b", "whole"),
        ("", "", "whole"),
        ("public/ns/abc-123-.*", "public/ns/abc-123-", "open_end"),
        (".*", "", "open_end"),
        (r"public/ns/a\-b.*$", "public/ns/a-b", "open_end"),
        ("public/ns/.*-17", "-17", "other"),
        ("public/ns/a+bc?d[xy]efg", "efg", "other"),
        ("public/ns/abc(x|y)de", "abc", "other"),
        ("public/ns/abc{2}d", "ab", "other"),
        (r"\Qab\E*c", "a", "other"),
        ("public/ns/abc|d", "", "other"),
        ("(?i)public/ns/abc", "", "other"),
        (r"public/ns/[\]a|]bcd", "bcd", "other"),
        (r"public/ns/\pLabc", "", "other"),
        ("public/ns/a{b.*", "", "other"),
        ("public/ns/(?P<x>a|b)cde.*f", "cde", "other"),
    ],
)
def test_what_is_known_of_a_pattern(pattern, literal, kind):
    compiled = compile_pattern(pattern, "public/ns/")
    assert compiled.literal == literal
    assert (compiled.whole, compiled.open_end) == (kind == "whole", kind == "open_end")


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not_fit"),
    [
        ("n/a-1", ["n/a-1"], ["n/a-10", "xn/a-1"]),  # pip145.pattern.full-match
        ("n/a", ["n/a"], ["n/A"]),  # pip145.pattern.case-sensitive
        ("(?i)n/a", ["n/a", "N/A"], ["n/b"]),  # pip145.pattern.common-syntax
        (r"\Qn/a.b\E.", ["n/a.bc"], ["n/axbc"]),
        ("n/.", ["n/\u00fc", "n/\U0001f600"], ["n/ab", "n/\n"]),  # pip145.pattern.unicode
        ("n/.*", ["n/", "n/\U0001f600"], ["n/a\nb", "m/a"]),
        ("", [], ["n/a"]),  # pip145.pattern.empty
        ("n/(a|b)[0-9]{2,}", ["n/a12", "n/b123"], ["n/a1", "n/c12"]),
        ("n/x|n/y", ["n/x", "n/y"], ["n/xn/y"]),
    ],
)
def test_what_a_pattern_fits(pattern, fits, does_not_fit):
    compiled = compile_pattern(pattern)
    assert all(compiled.matches(name) for name in fits)
    assert not any(compiled.matches(name) for name in does_not_fit)


@pytest.mark.parametrize("pattern", ["t-[", "a(", "*", "a{2,1}", "t-(?!b).*", "t-.*(?<!b)", r"t-(.)\1", "a++", "((a{100}){100}){100}"])
def test_pattern_that_does_not_compile_is_refused_without_a_word_on_standard_error(pattern, capfd):
    with pytest.raises(ValueError, match=r"patterns are RE2 regular expressions, without look-around and back-references"):
        compile_pattern(pattern)
    assert capfd.readouterr() == ("", "")


def test_pattern_that_needs_too_much_memory_is_refused():
    with pytest.raises(ValueError, match="too large"):
        compile_pattern("(" + "|".join(f"[a-z]+{number}" for number in range(20_000)) + ")")


PIECES = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "n/",
        "-1",
        "",
        r"\.",
        ".",
        ".*",
        ".+",
        "[ab]",
        "[^a]",
        "(a|b)",
        "(?:ab)?",
        "b*",
        "a{2}",
        r"\Qa.b\E",
        r"\d",
        "$",
        "^",
        "|",
        "(?i)",
        "{",
        "}",
        "\u00fc",
        "b??",
    ]
)
PATTERNS = st.lists(PIECES, max_size=6).map("".join)
NAMES = st.lists(st.sampled_from(["a", "b", "ab", "n/", "-1", ".", "1", "A", "\u00fc", "\n", "{", "}"]), max_size=7).map("".join)


def fits(text, name):
    return re2.fullmatch(text, name, OPTIONS) is not None


def compiles(text):
    try:
        re2.compile(text, OPTIONS)
    except re2.error:
        return False
    return True


@given(PATTERNS, NAMES, st.sampled_from(["", "n/", "a"]))
def test_what_is_known_of_a_pattern_never_changes_what_it_fits(text, name, known_prefix):
    if not compiles(text):
        with pytest.raises(ValueError, match="RE2"):
            compile_pattern(text, known_prefix)
        return
    name = known_prefix + name
    assert compile_pattern(text, known_prefix).matches(name) is fits(text, name)


class IndexMachine(RuleBasedStateMachine):
    """Patterns come and go while names are looked up."""

    loose, set_size, set_memory = 2, 4, topic_patterns.SET_MEMORY

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(topic_patterns, "LOOSE", self.loose)
        self.patch.setattr(topic_patterns, "SET_SIZE", self.set_size)
        self.patch.setattr(topic_patterns, "SET_MEMORY", self.set_memory)
        self.index = PatternIndex()
        self.texts = {}

    def teardown(self):
        self.patch.undo()

    @rule(text=PATTERNS)
    def add(self, text):
        if compiles(text):
            self.index.add(compile_pattern(text))
            self.texts[text] = None

    @initialize(texts=st.lists(PATTERNS, max_size=12))
    def add_many(self, texts):
        for text in texts:
            self.add(text)

    @rule(data=st.data())
    def discard(self, data):
        text = data.draw(st.sampled_from([*self.texts, "unknown"]))
        self.index.discard(text)
        self.texts.pop(text, None)

    @rule(name=NAMES)
    def look_up(self, name):
        found = self.index.matching(name)
        assert sorted(found) == sorted(text for text in self.texts if fits(text, name))

    @invariant()
    def counts(self):
        assert len(self.index) == len(self.texts)


class IndexWithoutMemoryMachine(IndexMachine):
    """The same, where nothing but single patterns can be compiled."""

    set_memory = 2000


TestIndex = IndexMachine.TestCase
TestIndexWithoutMemory = IndexWithoutMemoryMachine.TestCase


def test_an_emptied_index_keeps_nothing():
    index = PatternIndex()
    texts = ["n/a", "n/a.*", "n/[ab].*c", "n/[ab].*", "(?i)n/a"]
    for text in texts:
        index.add(compile_pattern(text, "n/"))
    assert sorted(index.matching("n/a")) == sorted(["n/a", "n/a.*", "n/[ab].*", "(?i)n/a"])
    for text in texts:
        index.discard(text)
    assert index.matching("n/a") == []
    assert not any((index._patterns, index._whole, index._open_ends, index._others))


class FailingSet:
    """A set that reports no match, as one whose memory has run out."""

    def Match(self, name):  # noqa: N802
        return None


def test_result_of_a_set_that_has_run_out_of_memory_is_not_believed():
    patterns = [compile_pattern(text) for text in ("n/[ab]", "n/[bc]", "n/[cd]")]
    automaton = topic_patterns._Automaton(patterns, FailingSet())
    assert list(automaton.matching("n/b")) == ["n/[ab]", "n/[bc]"]


def test_adding_and_removing_patterns_compiles_few_of_them_again(monkeypatch):
    compiled = []
    original = topic_patterns._automata
    monkeypatch.setattr(topic_patterns, "_automata", lambda patterns: compiled.append(len(patterns)) or original(patterns))
    texts = ["n/" + "".join(f"[{digit}x]" for digit in str(number)) for number in range(4000)]
    index = PatternIndex()
    for text in texts[:3000]:
        index.add(compile_pattern(text))
    assert index.matching("n/17") == [texts[17]]
    assert sum(compiled) == 3000
    compiled.clear()
    for old, text in zip(texts, texts[3000:], strict=False):
        index.discard(old)
        index.add(compile_pattern(text))
        assert index.matching("n/" + text[2:].translate({ord(mark): None for mark in "[x]"})) == [text]
        assert index.matching("n/2500") == [texts[2500]]
    assert sum(compiled) < 1000 * 10
    assert len(index) == 3000
