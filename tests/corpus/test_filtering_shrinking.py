"""Examples are made small, always in the same way."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from conformance.corpus.filtering.comparing import reference_fits
from conformance.corpus.filtering.shrinking import Parts, shrink


def test_what_is_not_needed_goes() -> None:
    assert shrink(("abcxdef",), lambda parts: "x" in parts[0]) == ("x",)
    assert shrink(("aaxbbyaa",), lambda parts: "x" in parts[0] and "y" in parts[0]) == ("xy",)


def test_what_parts_have_in_common_goes_together() -> None:
    def holds(parts: Parts) -> bool:
        pattern, name = parts
        return pattern.replace("K", "k") == name and "K" in pattern

    assert shrink(("tenant/namespace/taskK", "tenant/namespace/taskk"), holds) == ("K", "k")


def test_a_pattern_and_a_name_that_fold() -> None:
    def holds(parts: Parts) -> bool:
        pattern, name = parts
        try:
            return reference_fits(pattern, name) is True and re.fullmatch(pattern, name, re.ASCII) is None
        except re.error:
            return False

    assert shrink(("(?i)TENANT-0/NS-1/TASK.*", "tenant-0/ns-1/tas\u212a-17"), holds) == ("(?i)K", "\u212a")


def test_characters_become_plainer() -> None:
    assert shrink(("xyz",), lambda parts: len(parts[0]) == 3) == ("aaa",)


def test_questions_are_limited() -> None:
    asked = []

    def holds(parts: Parts) -> bool:
        asked.append(parts)
        return False

    assert shrink(("a" * 200,), holds, most=50) == ("a" * 200,)
    assert len(asked) < 50


@given(st.text(st.sampled_from("abx"), min_size=1, max_size=12), st.text(st.sampled_from("abx"), max_size=12), st.integers(0, 4))
def test_nothing_can_be_left_out_of_the_result(first: str, second: str, modulus: int) -> None:
    def holds(parts: Parts) -> bool:
        return (parts[0].count("x") + parts[1].count("a")) % 5 == modulus and len(parts[0]) >= 1

    if not holds((first, second)):
        return
    small = shrink((first, second), holds)
    assert holds(small)
    assert shrink(small, holds) == small
    assert shrink((first, second), holds) == small
    for part in (0, 1):
        for place in range(len(small[part])):
            shorter = list(small)
            shorter[part] = small[part][:place] + small[part][place + 1 :]
            assert not holds((shorter[0], shorter[1]))
