"""Patterns drawn from the names of a corpus, so that they select something, in the forms that people write.

Of each name there is one pattern, of one of the shapes below in turn. With `outside`, one of eight lies outside of the common dialect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from conformance.corpus.errors import CorpusError

_DIGITS = re.compile(r"[0-9]+")
_META = re.compile(r"[\\.+*?()|\[\]{}^$]")


def escaped(text: str) -> str:
    """Return a pattern that matches one text, and no other."""
    text = _META.sub(lambda found: f"\\{found[0]}", text).replace("\n", r"\n").replace("\r", r"\r")
    return text.replace("://", r":\/\/")  # otherwise it would end the topic domain


def _split(name: str) -> tuple[str, str]:
    """Divide a name into `tenant/namespace/` and the local name."""
    parts = name.split("/", 2)
    return ("", name) if len(parts) < 3 else ("/".join(parts[:2]) + "/", parts[2])


def _everything(name: str, _: Random) -> str:
    return escaped(_split(name)[0]) + ".*"


def _beginning(name: str, random: Random) -> str:
    space, local = _split(name)
    return escaped(space + local[: random.randint(1, max(1, len(local) // 2))]) + ".*"


def _whole(name: str, _: Random) -> str:
    return escaped(name)


def _quoted(name: str, _: Random) -> str:
    if r"\E" in name or "\n" in name or "://" in name:
        return escaped(name)
    return rf"^\Qpersistent://{name}\E$"


def _digits(name: str, _: Random) -> str:
    space, local = _split(name)
    parts = [escaped(part) for part in _DIGITS.split(local)]
    return escaped(space) + "[0-9]+".join(parts)


def _ending(name: str, random: Random) -> str:
    space, local = _split(name)
    return escaped(space) + ".*" + escaped(local[-random.randint(1, 4) :])


def _alternatives(name: str, random: Random) -> str:
    space, local = _split(name)
    return f"{escaped(space)}(?:{escaped(local[:3])}|{escaped(local[:1])}{random.choice('aeiou')}).*"


def _any_namespace(name: str, random: Random) -> str:
    space, local = _split(name)
    return f"{escaped(space.partition('/')[0])}/[^/]+/{escaped(local[: random.randint(2, 6)])}.*"


def _word_and_number(name: str, _: Random) -> str:
    return escaped(_split(name)[0]) + r"[a-z]+-\d{1,6}"


def _repeated(name: str, _: Random) -> str:
    """Put a letter into the name that may be there any number of times, also not at all."""
    space, local = _split(name)
    half = (len(local) + 1) // 2
    return escaped(name) if "://" in name else f"{escaped(space + local[:half])}x*{escaped(local[half:])}"


def _choice(name: str, _: Random) -> str:
    space, local = _split(name)
    return f"{escaped(name)}|{escaped(space)}{escaped(local[:2])}[a-z]+-[0-9]+"


def _folded(name: str, random: Random) -> str:
    space, local = _split(name)
    return (
        f"(?i){escaped(space)}{escaped(local[: random.randint(1, 4)])}.*".swapcase()
        .replace("(?I)", "(?i)")
        .replace(r"\N", r"\n")
        .replace(r"\R", r"\r")
    )


def _folded_anywhere(name: str, random: Random) -> str:
    return "(?i)" + escaped(name.partition("/")[0]) + "/.*/.*" + random.choice(["k", "s", "i", "å", "ss", "\u017f"]) + ".*"


def _space(name: str, _: Random) -> str:
    return escaped(_split(name)[0]) + r".*\s.*"


def _inner_end(name: str, _: Random) -> str:
    return escaped(_split(name)[0]) + r"[^\n]*$\s*"


def _letters(name: str, _: Random) -> str:
    return escaped(_split(name)[0]) + r"\pL+.*"


def _lines(name: str, _: Random) -> str:
    return "(?m)" + escaped(_split(name)[0]) + r".*$[\s\S]*^"


def _boundary(name: str, _: Random) -> str:
    return escaped(_split(name)[0]) + r".*\b\W*"


def _named(name: str, _: Random) -> str:
    return escaped(_split(name)[0]) + "(?P<local>.*)"


def _nested(name: str, _: Random) -> str:
    return escaped(_split(name)[0]) + "[a-z&&[^k]].*"


def _bytes(name: str, _: Random) -> str:
    return escaped(_split(name)[0]) + r"(?:\C\C)*"


def _vertical(name: str, _: Random) -> str:
    return "(?s)" + escaped(_split(name)[0]) + r".*\v.*"


def _ungreedy(name: str, _: Random) -> str:
    return "(?U)" + escaped(_split(name)[0]) + r"[\w-]*"


INSIDE: Sequence[Callable[[str, Random], str]] = (
    _beginning,
    _everything,
    _whole,
    _digits,
    _quoted,
    _ending,
    _alternatives,
    _word_and_number,
    _any_namespace,
    _repeated,
    _choice,
)
"""What draws a pattern of the common dialect from a name, shape by shape."""
OUTSIDE: Sequence[Callable[[str, Random], str]] = (
    _folded,
    _folded_anywhere,
    _space,
    _inner_end,
    _letters,
    _lines,
    _boundary,
    _named,
    _nested,
    _bytes,
    _vertical,
    _ungreedy,
)
"""What draws others."""


def with_twins(patterns: Sequence[str]) -> list[str]:
    """Return patterns, and behind them one in eight once more: with another domain, with none, or just as it is."""
    domains = ("", "persistent://", "non-persistent://")
    twins = [text.removeprefix(domains[1]) for text in patterns[::8]]
    found = [*patterns]
    for number, text in enumerate(twins):
        found.append(text if text[:1] in ("", "(", "^") or "://" in text else domains[number % len(domains)] + text)
    return found


def drawn_patterns(names: Sequence[str], count: int, seed: int, *, outside: bool = True) -> list[str]:
    """Draw patterns.

    Args:
        names: What patterns are compared with, at least one; without control characters other than \\n and \\r.
        count: How many patterns.
        seed: Seed of the draw.
        outside: Let one of eight lie outside of the common dialect.

    Raises:
        CorpusError: There is no name.
    """
    if not names:
        raise CorpusError("patterns are drawn from the names of a corpus, and this one has none; give it rows, or patterns in a file")
    patterns = []
    for number in range(count):
        random = Random(f"{seed}/{number}")
        name = names[random.randrange(len(names))]
        shapes = OUTSIDE if outside and number % 8 == 7 else INSIDE
        index = number // 8 if outside and number % 8 == 7 else number
        text = shapes[index % len(shapes)](name, random)
        with_domain = random.random() < 0.3 and "://" not in text and text[:1] not in ("", "(")
        patterns.append(f"persistent://{text}" if with_domain else text)
    return patterns
