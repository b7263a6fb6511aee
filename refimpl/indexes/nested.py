"""A dictionary of dictionaries, such as the watchers of each connection by their ids."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

OuterT = TypeVar("OuterT", bound=Hashable)
InnerT = TypeVar("InnerT", bound=Hashable)
T = TypeVar("T")


class Nested(dict[OuterT, dict[InnerT, T]]):
    """A dictionary of dictionaries, none of which is empty."""

    def put(self, outer: OuterT, inner: InnerT, value: T) -> None:
        """Set a value."""
        self.setdefault(outer, {})[inner] = value

    def find(self, outer: OuterT, inner: InnerT) -> T | None:
        """Return a value; None: there is none."""
        return self.get(outer, {}).get(inner)

    def take(self, outer: OuterT, inner: InnerT) -> T | None:
        """Remove and return a value; None: there is none."""
        values = self.get(outer, {})
        value = values.pop(inner, None)
        if outer in self and not values:
            del self[outer]
        return value

    def keys_in(self, outer: OuterT) -> tuple[InnerT, ...]:
        """Return the inner keys under an outer one, in the order in which they were put."""
        return tuple(self.get(outer, ()))

    def count(self, outer: OuterT) -> int:
        """Return the number of values under an outer key."""
        return len(self.get(outer, ()))
