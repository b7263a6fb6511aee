"""What is drawn by chance, and made simpler again: a value is one of a few, and the ones before it are simpler."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Protocol


class Draw(Protocol):
    """Something that can be drawn."""

    def draw(self, chance: random.Random) -> Any:
        """Draw a value."""

    def simpler(self, value: Any) -> Iterator[Any]:
        """Yield simpler values than one that was drawn, the simplest first."""


class Choice:
    """One of some values, the simplest first; one that is given twice is drawn twice as often."""

    def __init__(self, *values: Any) -> None:
        self._values = values

    def draw(self, chance: random.Random) -> Any:
        """Draw one."""
        return chance.choice(self._values)

    def simpler(self, value: Any) -> Iterator[Any]:
        """Yield those before the first place of the value; all of them for a value that was given and not drawn."""
        yield from self._values[: self._values.index(value)] if value in self._values else self._values


class Each:
    """A tuple with one value of each part."""

    def __init__(self, *parts: Draw) -> None:
        self._parts = parts

    def draw(self, chance: random.Random) -> Any:
        """Draw all parts."""
        return tuple(part.draw(chance) for part in self._parts)

    def simpler(self, value: Any) -> Iterator[Any]:
        """Yield tuples with one simpler part."""
        for place, part in enumerate(self._parts):
            yield from ((*value[:place], one, *value[place + 1 :]) for one in part.simpler(value[place]))


class Some:
    """Different values, or the same ones if `values` has few; at least one and at most `most`."""

    def __init__(self, values: Draw, most: int, *, unique: bool = True) -> None:
        self._values = values
        self._most = most
        self._unique = unique

    def draw(self, chance: random.Random) -> Any:
        """Draw some."""
        drawn = [self._values.draw(chance) for _ in range(chance.randint(1, self._most))]
        return tuple(dict.fromkeys(drawn)) if self._unique else tuple(drawn)

    def simpler(self, value: Any) -> Iterator[Any]:
        """Yield shorter ones, and those with one simpler value."""
        if len(value) > 1:
            yield from (value[:place] + value[place + 1 :] for place in range(len(value)))
        for place, one in enumerate(value):
            changed = ((*value[:place], simple, *value[place + 1 :]) for simple in self._values.simpler(one))
            yield from (other for other in changed if not self._unique or len(set(other)) == len(other))
