r"""Topic patterns: RE2 regular expressions, and an index of all patterns of a namespace.

Most patterns are a name, or a prefix followed by `.*`; a dictionary finds both. Any other pattern is indexed by a text that all
matching names contain, so that RE2 tries only the patterns whose text is in the name. Many patterns with the same text are compiled
into one automaton, `re2.Set`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from refimpl.indexes.nested import Nested

PATTERN_MEMORY = 1 << 20
"""Memory limit of RE2 for one pattern, in bytes; a pattern that needs more is refused."""

SET_MEMORY = 32 << 20
"""Memory limit of RE2 for an automaton of many patterns, in bytes."""

SET_SIZE = 2000
"""Maximum number of patterns in one automaton."""

LOOSE = 32
"""Number of patterns from which an automaton is faster than trying them individually."""

_COMPILED = 1024
"""Size of the cache of compiled patterns."""

_LITERAL = r"[^\\.+*?()|\[\]{}^$]|\\[!-/:-@\[-`{-~]|\\Q(?:(?!\\E).)*(?:\\E|\Z)"
_SIMPLE = re.compile(rf"(?s)\^?((?:{_LITERAL})*)(\.\*)?\$?\Z")
_TOKEN = re.compile(
    rf"""(?sx)(?P<literal>{_LITERAL})
    | (?P<repeat>[*+?]\??|\{{[0-9]+(?:,[0-9]*)?\}}\??)
    | (?P<open>\((?:\?:|\?P?<\w+>|(?!\?)))
    | (?P<close>\))
    | (?P<or>\|)
    | (?P<other>[.^$]|\\[dDwWsSbBAz]|\[\^?\]?(?:\\[^Q]|[^\\\[\]])*\])"""
)
_FILED_UNDER = 8
"""Number of characters of a required text, the last ones, by which the index finds a pattern."""
_EVERYTHING = "(?s).*"


@dataclass(frozen=True, slots=True)
class TopicsPattern:
    """A valid pattern; made by `compile_pattern`.

    Attributes:
        text: The regular expression, without a topic domain.
        literal: A text that all matching names contain; with `whole` it is the name, with `open_end` its prefix.
        whole: The pattern matches `literal` only.
        open_end: The pattern is `literal` followed by `.*`.
    """

    text: str
    literal: str
    whole: bool = False
    open_end: bool = False

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches a whole name: pip145.pattern.full-match.

        Args:
            name: A topic without its domain and partition suffix: `tenant/namespace/local-name`.
        """
        if self.whole:
            return name == self.literal
        if self.open_end:
            return name.startswith(self.literal) and "\n" not in name[len(self.literal) :]
        return self.literal in name and _compiled(self.text).fullmatch(name.encode()) is not None


def compile_pattern(text: str, known_prefix: str = "") -> TopicsPattern:
    r"""Compile a pattern.

    Args:
        text: RE2 syntax, which has `\Q..\E` and `(?i)` but neither look-around nor back-references; without a topic domain.
        known_prefix: A prefix of all names, such as `tenant/namespace/`.

    Raises:
        ValueError: RE2 can't compile it, or needs more memory than a pattern may take.
    """
    simple = _SIMPLE.match(text)
    if simple is not None:
        return TopicsPattern(text, _unescaped(simple[1]), whole=not simple[2], open_end=bool(simple[2]))
    _compiled(text)
    return TopicsPattern(text, _required(text, known_prefix))


@lru_cache(_COMPILED)
def _compiled(text: str) -> Any:
    try:
        return re2.compile(text.encode(), _options(PATTERN_MEMORY))
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"{reason} (patterns are RE2 regular expressions, without look-around and back-references)") from None


def _options(memory: int) -> re2.Options:
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    options.never_capture = True
    return options


def _unescaped(literal: str) -> str:
    """Return the text of a sequence of literal tokens."""
    return "".join(_character(token[0]) for token in re.finditer(f"(?s){_LITERAL}", literal))


def _character(token: str) -> str:
    if token.startswith("\\Q"):
        return token[2:].removesuffix("\\E")
    return token.removeprefix("\\") or token


def _required(text: str, known_prefix: str) -> str:
    """Return the longest known text that all matching names contain; empty if none is found."""
    best = run = ""
    depth = position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or (token.lastgroup == "or" and not depth):
            return ""
        position = token.end()
        depth += {"open": 1, "close": -1}.get(token.lastgroup or "", 0)
        if token.lastgroup == "literal" and not depth:
            run += _character(token[0])
            continue
        if token.lastgroup == "repeat":
            run = run[:-1]
        best = max(best, run.removeprefix(known_prefix), key=len)
        run = ""
    return max(best, run.removeprefix(known_prefix), key=len)


class PatternIndex:
    """All patterns of a namespace; finds those that match a name.

    Patterns are compiled when a name first needs them; adding and removing patterns does not invalidate compiled ones.
    """

    def __init__(self) -> None:
        self._patterns: dict[str, TopicsPattern] = {}
        self._whole: Nested[str, str, None] = Nested()  # by literal and text
        self._open_ends: dict[int, Nested[str, str, None]] = {}  # by the length of the literal, the literal and the text
        self._others: dict[int, dict[str, _Group]] = {}

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, pattern: TopicsPattern) -> None:
        """Add a pattern, unless there is one with the same text."""
        if pattern.text in self._patterns:
            return
        self._patterns[pattern.text] = pattern
        if pattern.whole:
            self._whole.put(pattern.literal, pattern.text, None)
        elif pattern.open_end:
            self._open_ends.setdefault(len(pattern.literal), Nested()).put(pattern.literal, pattern.text, None)
        else:
            key = pattern.literal[-_FILED_UNDER:]
            self._others.setdefault(len(key), {}).setdefault(key, _Group()).add(pattern)

    def discard(self, text: str) -> None:
        """Remove the pattern with a text, if there is one."""
        pattern = self._patterns.pop(text, None)
        if pattern is None:
            return
        if pattern.whole:
            self._whole.take(pattern.literal, text)
        elif pattern.open_end:
            self._open_ends[len(pattern.literal)].take(pattern.literal, text)
            _forget_empty(self._open_ends, len(pattern.literal))
        else:
            key = pattern.literal[-_FILED_UNDER:]
            groups = self._others[len(key)]
            groups[key].discard(text)
            _forget_empty(groups, key)
            _forget_empty(self._others, len(key))

    def matching(self, name: str) -> list[str]:
        """Return the texts of the patterns that match a name.

        Args:
            name: `tenant/namespace/local-name`.

        Returns:
            Each text once, in any order.
        """
        found = [*self._whole.keys_in(name)]
        for length, by_beginning in self._open_ends.items():
            if "\n" not in name[length:]:
                found += by_beginning.keys_in(name[:length])
        for group in self._groups_for(name):
            found += group.matching(name)
        return found

    def _groups_for(self, name: str) -> Iterable[_Group]:
        groups: dict[int, _Group] = {}
        for length, by_text in self._others.items():
            for start in range(len(name) - length + 1) if length else (0,):
                group = by_text.get(name[start : start + length])
                if group is not None:
                    groups[id(group)] = group
        return groups.values()


class _Group:
    """Patterns with the same required text: compiled into automata of growing size; the newest ones are not compiled yet."""

    def __init__(self) -> None:
        self._loose: dict[str, TopicsPattern] = {}
        self._automata: list[_Automaton] = []

    def __len__(self) -> int:
        return len(self._loose) + sum(len(automaton.patterns) for automaton in self._automata)

    def add(self, pattern: TopicsPattern) -> None:
        self._loose[pattern.text] = pattern

    def discard(self, text: str) -> None:
        if self._loose.pop(text, None) is None:
            for automaton in self._automata:
                automaton.patterns.pop(text, None)
            self._automata = [automaton for automaton in self._automata if automaton.patterns]

    def matching(self, name: str) -> Iterator[str]:
        if len(self._loose) > LOOSE:
            self._compile()
        for automaton in self._automata:
            yield from automaton.matching(name)
        for pattern in self._loose.values():
            if pattern.matches(name):
                yield pattern.text

    def _compile(self) -> None:
        """Compile the new patterns, together with automata that are not much larger or that have lost half of their patterns."""
        patterns = self._loose
        self._loose = {}
        kept = []
        for automaton in sorted(self._automata, key=lambda one: len(one.patterns)):
            if len(patterns) < SET_SIZE and (len(automaton.patterns) <= 2 * len(patterns) or automaton.is_sparse):
                patterns = automaton.patterns | patterns
            else:
                kept.append(automaton)
        ordered = list(patterns.values())
        for start in range(0, len(ordered), SET_SIZE):
            kept += _automata(ordered[start : start + SET_SIZE])
        self._automata = [automaton for automaton in kept if automaton.patterns]


class _Automaton:
    """Some patterns in one `re2.Set`; without a set, they are tried individually.

    A set that runs out of memory reports no match. Therefore it also contains a pattern that matches everything: a result without
    that pattern is invalid.
    """

    def __init__(self, patterns: list[TopicsPattern], compiled: re2.Set | None) -> None:
        self.patterns = {pattern.text: pattern for pattern in patterns}
        self._texts = tuple(self.patterns)
        self._compiled = compiled

    @property
    def is_sparse(self) -> bool:
        return 2 * len(self.patterns) < len(self._texts)

    def matching(self, name: str) -> Iterator[str]:
        everything = len(self._texts)
        indexes = self._compiled.Match(name) if self._compiled is not None else None
        if indexes is None or everything not in indexes:
            yield from (text for text, pattern in self.patterns.items() if pattern.matches(name))
        else:
            yield from (self._texts[index] for index in indexes if index != everything and self._texts[index] in self.patterns)


def _automata(patterns: list[TopicsPattern]) -> list[_Automaton]:
    """Compile patterns into as few automata as the memory limit allows."""
    compiled = re2.Set.FullMatchSet(_options(SET_MEMORY))
    try:
        for pattern in patterns:
            compiled.Add(pattern.text.encode())
        compiled.Add(_EVERYTHING.encode())
        compiled.Compile()
    except re2.error:
        if len(patterns) == 1:
            return [_Automaton(patterns, None)]
        middle = len(patterns) // 2
        return _automata(patterns[:middle]) + _automata(patterns[middle:])
    return [_Automaton(patterns, compiled)]


def _forget_empty(table: dict[Any, Any], key: object) -> None:
    if not table[key]:
        del table[key]
