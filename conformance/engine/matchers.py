"""Matchers: whether a received value fits the pattern of a transcript, and if not, where they differ.

    scalar                 equal; an absent field fits its declared default
    {field: pattern, ..}   a message: each named field fits; fields not named are ignored
    [pattern, ..]          a repeated field: as many items, each fits in order

    {$any: true}           anything that is present          {$absent: true}     the field is not there
    {$present: true}       the field itself is there         {$only: true}       (in a message) no other field is there
    {$in: [..]}            one of the patterns               {$not: pattern}     anything but
    {$re: regex}           the whole text fits (RE2)         {$len: pattern}     the length of text, bytes or list
    {$gt $gte $lt: n}      compared as numbers               {$bind: name}       remembered as a variable
    {$bag: [..]}           these items in any order          {$contains: [..]}   these items are among them
    {$each: pattern}       every item fits                   {$after: id}        a message id after another one
    {$segments: n}         the n segments of a layout

All keys of one object must hold. Bytes are written as {text: ..}, {hex: ..}, {base64: ..}; text alone means its UTF-8.
"""

from __future__ import annotations

import base64
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import re2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from conformance.engine.values import Value
from refimpl.wire.pulsar_api_pb2 import ACTIVE, MessageIdData, SegmentInfoProto
from refimpl.wire.schema import is_repeated

Bindings: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True)
class Difference:
    """One place where the received value differs from the expected one."""

    path: str
    expected: str
    actual: str

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.path or 'frame'}: expected {self.expected}, got {self.actual}"


@dataclass(frozen=True)
class Match:
    """The outcome of a comparison: no differences means that it fits."""

    differences: tuple[Difference, ...] = ()
    bindings: tuple[tuple[str, Value], ...] = ()

    def __bool__(self) -> bool:
        """Tell whether it fits."""
        return not self.differences

    def __add__(self, other: Match) -> Match:
        """Join two outcomes: both must fit."""
        if other is FITS:
            return self
        return Match(self.differences + other.differences, self.bindings + other.bindings)


FITS: Final = Match()
ABSENT: Final = "nothing (the field is absent)"
"""How differences write a field that is not there."""


class Absent:
    """Stands for a field that is not there; `default` is its declared default, or None."""

    def __init__(self, default: Value = None) -> None:
        self.default = default


def match(pattern: Value, actual: Value, path: str = "") -> Match:
    """Compare a resolved pattern with a value.

    Args:
        pattern: What is expected; variables and expressions are already replaced.
        actual: A plain value, a protobuf message, a list of these, or `Absent`.
        path: Where the value stands, for the differences.
    """
    if isinstance(pattern, dict):
        return _match_object(pattern, actual, path)
    if isinstance(actual, Absent):
        if actual.default is not None and actual.default == pattern and type(actual.default) is type(pattern):
            return FITS
        return _differs(path, pattern, actual)
    if isinstance(pattern, list):
        return _match_list(pattern, actual, path)
    expected = pattern.encode() if isinstance(actual, bytes) and isinstance(pattern, str) else pattern
    same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return FITS if same else _differs(path, pattern, actual)


def match_message(pattern: Mapping[str, Value], message: Message, path: str = "") -> Match:
    """Compare the named fields of a message; fields that are not named are ignored unless `$only` is set."""
    result = FITS
    for name, expected in pattern.items():
        if name == "$only":
            extra = [field.name for field, _ in message.ListFields() if field.name not in pattern]
            if expected and extra:
                result += Match((Difference(path, "no field but " + ", ".join(k for k in pattern if k != "$only"), ", ".join(extra)),))
            continue
        field = message.DESCRIPTOR.fields_by_name.get(name)
        where = f"{path}.{name}" if path else name
        if field is None:
            result += Match((Difference(where, "a field of this name", f"none in {message.DESCRIPTOR.name}"),))
        else:
            result += match(expected, field_value(message, field), where)
    return result


def field_value(message: Message, field: FieldDescriptor) -> Value:
    """Read a field as the language sees it: enums by name, repeated fields as lists, a field not there as `Absent`."""
    value = getattr(message, field.name)
    if is_repeated(field):
        return list(value) if field.enum_type is None else [_plain(item, field) for item in value]
    if not message.HasField(field.name):
        return Absent(_plain(field.default_value, field) if field.has_default_value else None)
    return _plain(value, field)


def _plain(value: Value, field: FieldDescriptor) -> Value:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else value
    return value


def show(value: Value) -> str:
    """Write a value in one short line."""
    if isinstance(value, Absent):
        return ABSENT
    if isinstance(value, bytes):
        return f"bytes {value[:24].hex()}{'..' if len(value) > 24 else ''} ({len(value)})"
    if isinstance(value, Message):
        return str(value).strip().replace("\n", " ")[:300]
    if isinstance(value, list):
        inner = ", ".join(show(item) for item in value[:8])
        return f"[{inner}{f', .. ({len(value)} items)' if len(value) > 8 else ''}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {show(item)}" for key, item in value.items()) + "}"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 300 else f"{text[:300]}.. ({len(text)} characters)"


def _differs(path: str, pattern: Value, actual: Value) -> Match:
    return Match((Difference(path, show(pattern), _shown_like(pattern, actual)),))


def _shown_like(pattern: Value, actual: Value) -> str:
    """Write a value as what it is compared with is written: bytes as a text, if they are one and a text is expected."""
    if isinstance(pattern, str) and isinstance(actual, bytes) and actual.isascii() and actual.decode("ascii").isprintable():
        return show(actual.decode("ascii"))
    return show(actual)


def _match_object(pattern: Mapping[str, Value], actual: Value, path: str) -> Match:
    matchers = {key: value for key, value in pattern.items() if key in MATCHERS}
    if "example" in pattern and (matchers or set(pattern) == {"example"}):
        pattern = {key: value for key, value in pattern.items() if key != "example"}
    result = FITS
    for key, argument in matchers.items():
        result += MATCHERS[key](argument, actual, path)
    rest = {key: value for key, value in pattern.items() if key not in matchers}
    if rest or not pattern:
        result += _match_rest(rest, actual, path)
    return result


def _match_rest(rest: Mapping[str, Value], actual: Value, path: str) -> Match:
    if isinstance(actual, Message):
        return match_message(rest, actual, path)
    if isinstance(actual, bytes):
        expected = bytes_of(rest)
        return FITS if expected == actual else _differs(path, expected, actual)
    if isinstance(actual, dict):
        result = FITS
        for key, expected in rest.items():
            result += match(expected, actual[key] if key in actual else Absent(), f"{path}.{key}" if path else key)
        return result
    return _differs(path, dict(rest), actual)


def bytes_of(spec: Value) -> bytes:
    """Build bytes from {text}, {hex}, {base64}, each with an optional {repeat: times}; or from text; bytes stay as they are.

    Raises:
        ValueError: The object has other keys, or the digits are wrong.
    """
    if isinstance(spec, bytes):
        return spec
    if isinstance(spec, str):
        return spec.encode()
    kinds: dict[str, Callable[[str], bytes]] = {"text": str.encode, "hex": bytes.fromhex, "base64": base64.b64decode}
    kind = [key for key in spec if key in kinds]
    if len(kind) != 1 or set(spec) - {*kind, "repeat"}:
        raise ValueError(f"bytes are written as {{text: ..}}, {{hex: ..}} or {{base64: ..}}, optionally with repeat; not as {spec!r}")
    return kinds[kind[0]](spec[kind[0]]) * int(spec.get("repeat", 1))


def _match_list(pattern: list[Value], actual: Value, path: str) -> Match:
    if not isinstance(actual, list):
        return _differs(path, pattern, actual)
    if len(pattern) != len(actual):
        return Match((Difference(path, f"{len(pattern)} items {show(pattern)}", f"{len(actual)} items {show(actual)}"),))
    result = FITS
    for index, (expected, item) in enumerate(zip(pattern, actual, strict=True)):
        result += match(expected, item, f"{path}[{index}]")
    return result


def _any(argument: Value, actual: Value, path: str) -> Match:
    return FITS if bool(argument) != isinstance(actual, Absent) else Match((Difference(path, "anything", show(actual)),))


def _absent(argument: Value, actual: Value, path: str) -> Match:
    there = not (isinstance(actual, Absent) or actual == [])
    wanted = "nothing (the field is absent)" if argument else "a value"
    return FITS if there != bool(argument) else Match((Difference(path, wanted, show(actual)),))


def _in(argument: Value, actual: Value, path: str) -> Match:
    for option in argument:
        found = match(option, actual, path)
        if found:
            return found
    return Match((Difference(path, f"one of {show(argument)}", show(actual)),))


def _not(argument: Value, actual: Value, path: str) -> Match:
    return FITS if not match(argument, actual, path) else Match((Difference(path, f"anything but {show(argument)}", show(actual)),))


def _re(argument: Value, actual: Value, path: str) -> Match:
    fits = isinstance(actual, str) and re2.fullmatch(argument, actual) is not None
    return FITS if fits else Match((Difference(path, f"text that fits /{argument}/", show(actual)),))


def _len(argument: Value, actual: Value, path: str) -> Match:
    if not isinstance(actual, list | str | bytes):
        return Match((Difference(path, f"a length of {show(argument)}", show(actual)),))
    found = match(argument, len(actual), f"length of {path}")
    return Match(tuple(Difference(d.path, d.expected, f"{d.actual}: {show(actual)}") for d in found.differences), found.bindings)


def _compare(word: str, holds: Callable[[Any, Any], bool]) -> Callable[[Value, Value, str], Match]:
    def compare(argument: Value, actual: Value, path: str) -> Match:
        number = isinstance(actual, int | float) and not isinstance(actual, bool)
        return FITS if number and holds(actual, argument) else Match((Difference(path, f"a number {word} {show(argument)}", show(actual)),))

    return compare


def _bind(argument: Value, actual: Value, path: str) -> Match:
    if isinstance(actual, Absent):
        return Match((Difference(path, f"a value to remember as ${argument}", show(actual)),))
    return Match((), ((argument, actual),))


_PAIRED = 50
"""Above so many items on either side the numbers are compared first: it takes their product to tell which ones are missing."""


def _bag(argument: Value, actual: Value, path: str) -> Match:
    if not isinstance(actual, list):
        return _differs(path, argument, actual)
    if len(argument) != len(actual) and max(len(argument), len(actual)) > _PAIRED:
        return _differs(path, f"{len(argument)} items", f"{len(actual)} items")
    missing, extra = _pair_off(argument, actual)
    differences = []
    if missing:
        differences.append(Difference(path, f"also {show(missing)}", f"{len(actual)} items without it"))
    if extra:
        differences.append(Difference(path, "nothing else", f"also {show(extra)}"))
    return Match(tuple(differences))


def _contains(argument: Value, actual: Value, path: str) -> Match:
    if not isinstance(actual, list):
        return _differs(path, argument, actual)
    missing, _ = _pair_off(argument, actual)
    return Match((Difference(path, f"to contain {show(missing)}", show(actual)),)) if missing else FITS


def _pair_off(patterns: list[Value], items: Iterable[Value]) -> tuple[list[Value], list[Value]]:
    """Pair each pattern with an item of its own, augmenting paths included; return what is left of both."""
    left = list(items)
    types = {*map(type, patterns), *map(type, left)}
    if types <= {str} or types <= {int}:
        wanted, found = Counter(patterns), Counter(left)
        return list((wanted - found).elements()), list((found - wanted).elements())
    fits = functools.cache(lambda pattern, item: bool(match(patterns[pattern], left[item])))
    owner: dict[int, int] = {}

    def claim(pattern: int, seen: set[int]) -> bool:
        own_place_first = itertools.chain(range(pattern, len(left)), range(min(pattern, len(left))))
        for item in own_place_first:
            if item not in seen and fits(pattern, item):
                seen.add(item)
                if item not in owner or claim(owner[item], seen):
                    owner[item] = pattern
                    return True
        return False

    missing = [pattern for index, pattern in enumerate(patterns) if not claim(index, set())]
    return missing, [item for index, item in enumerate(left) if index not in owner]


def _each(argument: Value, actual: Value, path: str) -> Match:
    if not isinstance(actual, list):
        return _differs(path, argument, actual)
    return Match(tuple(itertools.chain.from_iterable(match(argument, v, f"{path}[{i}]").differences for i, v in enumerate(actual))))


def _after(argument: Value, actual: Value, path: str) -> Match:
    """Compare message ids: ledgers roll over, so entry ids alone tell no order."""
    places = [(one.ledgerId, one.entryId) for one in (argument, actual) if isinstance(one, MessageIdData)]
    fits = len(places) == 2 and places[0] < places[1]
    return FITS if fits else Match((Difference(path, f"a message id after {show(argument)}", show(actual)),))


_HASHES = 1 << 16
"""The number of hashes that the segments of a scalable topic share."""


def _segments(argument: Value, actual: Value, path: str) -> Match:
    """Compare the segments of a layout with their number. Numbers and ranges are the broker's choice."""
    found = _active_segments(actual) or []
    numbers = {number for number, _, _ in found}
    edges = [0, *(end + 1 for _, _, end in found)]
    fits = all(start <= end for _, start, end in found) and edges == [*(start for _, start, _ in found), _HASHES]
    if fits and len(numbers) == len(found) == argument:
        return FITS
    wanted = f"{argument} active segments with different numbers, whose ranges have each hash from 0 to {_HASHES - 1} once"
    return Match((Difference(path, wanted, show(actual)),))


def _active_segments(actual: Value) -> list[tuple[int, int, int]] | None:
    """Return number, first and last hash of each segment, in the order of their hashes; None: they are not all active segments.

    Args:
        actual: Segments as SCALABLE_TOPIC_UPDATE has them, or as the admin interface has them: an object by number.
    """
    if isinstance(actual, list) and all(isinstance(one, SegmentInfoProto) and one.state == ACTIVE for one in actual):
        return sorted(((one.segment_id, one.hash_start, one.hash_end) for one in actual), key=lambda one: one[1])
    try:
        if not all(one["state"] == "ACTIVE" for one in actual.values()):
            return None
        ranges = [(int(number), one["hashRange"]) for number, one in actual.items()]
        return sorted(((number, int(one["start"]), int(one["end"])) for number, one in ranges), key=lambda one: one[1])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


MATCHERS: Final[dict[str, Callable[[Value, Value, str], Match]]] = {
    "$any": _any,
    "$present": lambda argument, actual, path: _absent(not argument, actual, path),
    "$absent": _absent,
    "$in": _in,
    "$not": _not,
    "$re": _re,
    "$len": _len,
    "$gt": _compare("above", lambda a, b: a > b),
    "$gte": _compare("of at least", lambda a, b: a >= b),
    "$lt": _compare("below", lambda a, b: a < b),
    "$bind": _bind,
    "$bag": _bag,
    "$contains": _contains,
    "$each": _each,
    "$after": _after,
    "$segments": _segments,
}
