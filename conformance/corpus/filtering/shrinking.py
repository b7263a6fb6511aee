"""Shrinks an example: the same example gives the same result, and nothing can be left out of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Parts = tuple[str, ...]
_PAIRS = 600
"""Most pairs of characters that are left out together."""
_PLAIN = "ak1"


def shrink(parts: Parts, holds: Callable[[Parts], bool], most: int = 20_000) -> Parts:
    """Shrink an example while a condition holds for it.

    Args:
        parts: The example: texts, such as a pattern and a name.
        holds: The condition; it is true of `parts`.
        most: Largest number of calls of `holds`.

    Returns:
        The shortest texts found for which it still holds: no character, and no character from each of two parts, can be left out.
    """
    asked: dict[Parts, bool] = {parts: True}

    def still_holds(candidate: Parts) -> bool:
        if candidate not in asked:
            if len(asked) >= most:
                return False
            asked[candidate] = holds(candidate)
        return asked[candidate]

    while True:
        smaller = next((candidate for candidate in _smaller(parts) if still_holds(candidate)), None)
        if smaller is None:
            return parts
        parts = smaller


def _smaller(parts: Parts) -> Iterator[Parts]:
    yield from _without_common(parts)
    for place, part in enumerate(parts):
        for shorter in _without_a_run(part):
            yield _replaced(parts, place, shorter)
    yield from _without_pairs(parts)
    for place, part in enumerate(parts):
        for plainer in _plainer(part):
            yield _replaced(parts, place, plainer)


def _replaced(parts: Parts, place: int, part: str) -> Parts:
    return *parts[:place], part, *parts[place + 1 :]


def _without_common(parts: Parts) -> Iterator[Parts]:
    """Leave out what all parts begin with, or end with: all of it, half of it, and so on."""
    shortest = min(map(len, parts))
    if len(parts) < 2:
        return
    for size in _halves(next((at for at in range(shortest) if len({part[at] for part in parts}) > 1), shortest)):
        yield tuple(part[size:] for part in parts)
    for size in _halves(next((at for at in range(shortest) if len({part[-1 - at] for part in parts}) > 1), shortest)):
        yield tuple(part[:-size] for part in parts)


def _halves(size: int) -> Iterator[int]:
    while size:
        yield size
        size //= 2


def _without_a_run(text: str) -> Iterator[str]:
    for size in _halves(len(text)):
        for start in range(0, len(text) - size + 1, max(1, size // 2)):
            yield text[:start] + text[start + size :]


def _without_pairs(parts: Parts) -> Iterator[Parts]:
    for first in range(len(parts)):
        for second in range(first + 1, len(parts)):
            if len(parts[first]) * len(parts[second]) > _PAIRS:
                continue
            for one in range(len(parts[first])):
                for other in range(len(parts[second])):
                    shorter = _replaced(parts, first, parts[first][:one] + parts[first][one + 1 :])
                    yield _replaced(shorter, second, parts[second][:other] + parts[second][other + 1 :])


def _plainer(text: str) -> Iterator[str]:
    for place, character in enumerate(text):
        for plain in _PLAIN:
            if plain == character:
                break
            if character.isalnum() and (len(plain.encode()), plain) < (len(character.encode()), character):
                yield text[:place] + plain + text[place + 1 :]
