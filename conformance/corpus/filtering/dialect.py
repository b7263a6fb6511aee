r"""The common dialect: where RE2 and Java's regular expressions agree, and where they do not.

The reference and the Arrow formulation use RE2; Spark SQL uses Java. A pattern is handed to Java inside of `(?d)\A(?:` and `)\z`. A
pair of a pattern and a subject (a name, or the text of a payload) is in the dialect if no row of `DIVERGENCES` covers it; then all
formulations agree on it. A row covers a pair if the pattern has certain features and the subject a certain look; then the
formulations that the row names may give another answer than the reference, or refuse the pattern. Each row has a pair that proves it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType

SQL, SQL_PLAIN, ARROW, REFERENCE = "sql", "sql-plain", "arrow", "reference"
"""The names of the formulations."""

_TOKEN = re.compile(
    r"""(?sx)
      (?P<quote>\\Q(?:(?!\\E).)*(?:\\E|\Z))
    | (?P<number>\\x(?:[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\}))
    | (?P<control>\\[tnrfa])
    | (?P<group>\\[dDwW])
    | (?P<space>\\[sS])
    | (?P<boundary>\\[bB])
    | (?P<edge>\\[Az])
    | (?P<property>\\[pP](?:\{\^?\w+\}|\w))
    | (?P<octet>\\C)
    | (?P<escaped>\\[!-/:-@\[-`{-~])
    | (?P<escape>\\.?)
    | (?P<class>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\\\]])*\])
    | (?P<flags>\(\?[imsU]*(?:-[imsU]+)?[:)])
    | (?P<named>\(\?P?<\w+>)
    | (?P<open>\((?!\?))
    | (?P<close>\))
    | (?P<or>\|)
    | (?P<repeat>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??)
    | (?P<dot>\.)
    | (?P<begin>\^)
    | (?P<end>\$)
    | (?P<brace>[{}])
    | (?P<literal>[^(\[])
    | (?P<other>.)"""
)
_IN_CLASS = re.compile(
    r"""(?sx)
      (?P<number>\\x(?:[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\}))
    | (?P<control>\\[tnrfa])
    | (?P<group>\\[dDwW])
    | (?P<space>\\[sS])
    | (?P<property>\\[pP](?:\{\^?\w+\}|\w))
    | (?P<escaped>\\[!-/:-@\[-`{-~])
    | (?P<escape>\\.?)
    | (?P<nested>\[|&&)
    | (?P<literal>.)"""
)
_LITERALS = frozenset({"literal", "escaped", "quote"})
_NOT_REPEATED = frozenset({"begin", "end", "edge", "boundary", "flags", "or", "open", "named", "repeat", ""})

LOOKS: Mapping[str, str] = MappingProxyType(
    {
        "any": "",
        "beyond ASCII": r"[^\x00-\x7f]",
        "with a vertical tab": r"\x0b",
        "with a newline at its end": r"\n\z",
        "with a line separator": r"[\r\x{85}\x{2028}\x{2029}]",
        "with a newline or line separator at its end": r"[\n\r\x{85}\x{2028}\x{2029}]\z",
        "with a newline or line separator": r"[\n\r\x{85}\x{2028}\x{2029}]",
    }
)
"""How a subject may look, each as a regular expression that is searched for in it; they are RE2 and Java at once."""
_LOOKS = {
    look: re.compile(text.replace(r"\z", r"\Z").replace(r"\x{85}", "\x85").replace(r"\x{2028}", "\u2028").replace(r"\x{2029}", "\u2029"))
    for look, text in LOOKS.items()
}


@dataclass(frozen=True)
class Token:
    """A part of a pattern.

    Attributes:
        kind: What it is, a name of the grammar above.
        text: As it stands there.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Divergence:
    """A class of pairs on which formulations may differ from the reference.

    Attributes:
        name: Its name.
        text: What is different.
        features: Features that a pattern must have, all of them.
        look: The look that the subject must have, a key of `LOOKS`.
        formulations: Those that may differ.
        witness: A pattern and a subject on which all of these differ from the reference, and no others do.
        agrees_from_java: The first version of Java that agrees; None: none does.
    """

    name: str
    text: str
    features: frozenset[str]
    look: str
    formulations: frozenset[str]
    witness: tuple[str, str]
    agrees_from_java: int | None = None

    def speaks_of(self, features: frozenset[str], looks: frozenset[str], formulation: str) -> bool:
        """Tell whether a pair is of this class for a formulation."""
        return formulation in self.formulations and self.features <= features and self.look in looks


def _divergence(
    name: str,
    features: str,
    look: str,
    witness: tuple[str, str],
    text: str,
    formulations: Sequence[str] = (SQL, SQL_PLAIN),
    before: int | None = None,
) -> Divergence:
    return Divergence(name, text, frozenset(features.split()), look, frozenset(formulations), witness, before)


DIVERGENCES: Sequence[Divergence] = (
    _divergence(
        "case-of-subject",
        "fold",
        "beyond ASCII",
        ("(?i)t/n/k", "t/n/\u212a"),
        "(?i) folds by Unicode in RE2 (the Kelvin sign is a k, É is an é), and ASCII letters only in Java",
    ),
    _divergence("case-of-pattern", "fold beyond", "any", ("(?i)t/n/\u017f", "t/n/s"), "the same for letters beyond ASCII in the pattern"),
    _divergence("vertical-tab", "space", "with a vertical tab", (r"t/n/\s", "t/n/\x0b"), r"\s has U+000B in Java and not in RE2"),
    _divergence(
        "inner-end",
        "inner-end",
        "with a newline at its end",
        (r"t/n/a$\n", "t/n/a\n"),
        "$ is the end in RE2; in Java it is also the place before a newline at the end, which the rest of the pattern can take",
    ),
    _divergence(
        "multi-line",
        "multi-line",
        "with a newline or line separator",
        ("(?m)t/n/a\\n^", "t/n/a\n"),
        "(?m) lets ^ stand behind a newline at the end in RE2, and not in Java",
    ),
    _divergence(
        "word-boundary",
        "boundary",
        "beyond ASCII",
        (r"t/n/\bé", "t/n/é"),
        r"\b looks at ASCII in RE2, and at Unicode in Java before 19",
        before=19,
    ),
    _divergence(
        "unicode-property", "property", "any", (r"t/n/\p{Greek}", "t/n/α"), r"\p{..} has other names and another Unicode version in Java"
    ),
    _divergence(
        "nested-class", "nested", "any", ("t/n/[a&&b]", "t/n/&"), "[ and && inside of [..] are characters in RE2 and operators in Java"
    ),
    _divergence("octets", "octet", "any", (r"t/n/\C\C", "t/n/é"), r"\C is one byte in RE2, and Java refuses it"),
    _divergence("named-group", "named", "any", ("t/n/(?P<x>a)", "t/n/a"), "(?P<x>..) is refused by Java"),
    _divergence(
        "escape", "escape", "any", (r"t/n/\v", "t/n/\n"), r"\v is U+000B in RE2 and any vertical space in Java; octal numbers differ, too"
    ),
    _divergence("ungreedy", "ungreedy", "any", (r"(?U)t/n/\w", "t/n/é"), r"(?U) swaps greed in RE2, and makes \w Unicode in Java"),
    _divergence(
        "other-syntax", "other", "any", ("t/n/a{,2}", "t/n/a{,2}"), "other syntax that RE2 has and Java reads differently or refuses"
    ),
    _divergence(
        "line-separator",
        "dot",
        "with a line separator",
        ("t/n/.*", "t/n/a\u2028b"),
        ". leaves out \\r, U+0085, U+2028 and U+2029 besides the newline, as (?d) is missing",
        (SQL_PLAIN,),
    ),
    _divergence(
        "end-of-subject",
        "",
        "with a newline or line separator at its end",
        ("t/n/a", "t/n/a\n"),
        "the last line separator of the subject may be left over, as the pattern ends with $ instead of \\z",
        (SQL_PLAIN,),
    ),
)
"""Everything that lies outside of the common dialect."""
REFUSABLE = frozenset({"property", "nested", "octet", "named", "escape", "other"})
"""Features of patterns that Java may refuse; it takes any other pattern that RE2 takes."""


def tokens_of(pattern: str) -> list[Token]:
    """Split a pattern into its parts; this works even for a pattern that RE2 refuses."""
    return [Token(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(pattern)]


@lru_cache(16_384)
def features_of(pattern: str) -> frozenset[str]:
    """Return the features of a pattern that `DIVERGENCES` name."""
    tokens = tokens_of(pattern)
    return frozenset(_features(tokens))


def _features(tokens: Sequence[Token]) -> Iterator[str]:
    last = ""
    for position, token in enumerate(tokens):
        match token.kind:
            case "space" | "boundary" | "property" | "octet" | "named" | "escape" | "dot":
                yield token.kind
            case "quote" if not literal_text(token):
                yield "other"
            case "literal" | "quote" | "number":
                yield from _beyond(token)
            case "class":
                yield from _features_of_class(token.text)
            case "flags":
                added = token.text.partition("-")[0]
                yield from (name for flag, name in (("i", "fold"), ("m", "multi-line"), ("U", "ungreedy")) if flag in added)
            case "end" if position < len(tokens) - 1:
                yield "inner-end"
            case "repeat" if last in _NOT_REPEATED:
                yield "other"
            case "brace" | "other":
                yield "other"
        last = token.kind


def _beyond(token: Token) -> Iterator[str]:
    if token.kind == "number":
        code = int(token.text[2:].strip("{}"), 16)
        if 0xD800 <= code <= 0xDFFF:
            yield "other"
        elif code > 0x7F:
            yield "beyond"
    elif not token.text.isascii():
        yield "beyond"


def _features_of_class(text: str) -> Iterator[str]:
    body = text[1:-1].removeprefix("^")
    if body.startswith("]"):
        yield "other"
    last = ""
    for found in _IN_CLASS.finditer(body):
        kind = str(found.lastgroup)
        if kind in ("space", "property", "nested", "escape"):
            yield kind
        elif kind in ("literal", "number"):
            yield from _beyond(Token(kind, found[0]))
        if found[0] == "-" and last in ("group", "space", "property"):
            yield "other"  # a range that begins with a class
        last = kind


def looks_of(subject: str) -> frozenset[str]:
    """Return the looks of a subject."""
    if subject.isascii() and subject.isprintable():
        return _PLAIN_LOOKS
    return frozenset(look for look, searched in _LOOKS.items() if searched.search(subject))


_PLAIN_LOOKS = frozenset({"any"})


@cache
def _of_formulation(formulation: str) -> tuple[Divergence, ...]:
    return tuple(one for one in DIVERGENCES if formulation in one.formulations)


def classes_of(pattern: str, subject: str, formulation: str) -> tuple[str, ...]:
    """Return the classes of a pair on which a formulation may differ from the reference.

    Args:
        pattern: Without a topic domain.
        subject: A name as patterns see it, or the text of a payload.
        formulation: Its name.

    Returns:
        The classes; none if the pair is in the common dialect.
    """
    features, looks = features_of(pattern), looks_of(subject)
    return tuple(one.name for one in _of_formulation(formulation) if one.speaks_of(features, looks, formulation))


def pairs_outside(
    feature_counts: Iterable[tuple[frozenset[str], int]], look_counts: Mapping[frozenset[str], int], formulation: str
) -> dict[str, int]:
    """Count pairs outside of the dialect without making them.

    Args:
        feature_counts: Features of patterns, and how many patterns have these.
        look_counts: How many subjects have certain looks.
        formulation: Its name.

    Returns:
        Pairs by class, and under `all` those of at least one class.
    """
    counts: dict[str, int] = {}
    for features, patterns in feature_counts:
        for looks, subjects in look_counts.items():
            names = [one.name for one in _of_formulation(formulation) if one.speaks_of(features, looks, formulation)]
            for name in [*names, *(["all"] if names else [])]:
                counts[name] = counts.get(name, 0) + patterns * subjects
    return counts


def in_frame(pattern: str) -> str:
    r"""Return the pattern for Java and Arrow: between \A and \z, where only a newline ends a line."""
    return rf"\A(?:{closed(pattern)})\z"


def for_java(pattern: str) -> str:
    """Return the pattern for Spark SQL."""
    return "(?d)" + in_frame(pattern)


def for_java_plain(pattern: str) -> str:
    """Return the form that is often written instead: between ^ and $, with Java's own notion of a line."""
    return f"^(?:{closed(pattern)})$"


def closed(pattern: str) -> str:
    r"""Close the last \Q of a pattern with \E, so that text can follow."""
    tokens = tokens_of(pattern)
    open_quote = bool(tokens) and tokens[-1].kind == "quote" and not tokens[-1].text[2:].endswith(r"\E")
    return pattern + r"\E" if open_quote else pattern


def literal_text(token: Token) -> str:
    """Return the text of a literal token."""
    if token.kind == "quote":
        return token.text[2:].removesuffix(r"\E")
    return token.text[1:] if token.kind == "escaped" else token.text


def beginning_of(tokens: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    """Return the obvious prefix of all matches, and the tokens after it."""
    begins = 1 if tokens and tokens[0].kind == "begin" else 0
    if _has_alternatives(tokens):
        return "", tokens
    text, position = "", begins
    while position < len(tokens) and tokens[position].kind in _LITERALS:
        part = literal_text(tokens[position])
        if position + 1 < len(tokens) and tokens[position + 1].kind == "repeat":
            return (text + part)[:-1], tokens[position:]
        text += part
        position += 1
    return text, tokens[position:]


def _has_alternatives(tokens: Sequence[Token]) -> bool:
    """Tell whether a pattern as a whole is a choice."""
    depth = 0
    for token in tokens:
        if token.kind in ("open", "named") or (token.kind == "flags" and token.text.endswith(":")):
            depth += 1
        elif token.kind == "close":
            depth -= 1
        elif token.kind == "or" and depth == 0:
            return True
    return False
