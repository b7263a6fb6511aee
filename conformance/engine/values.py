"""Values of the transcript language: variables, text with variables in it, and expressions.

    $name            the variable, whatever its type
    "a/${name}-1"    text with the variable's text in it
    {$union: [..]}   an expression: one of the closed list below; arguments are values again

Every other `$` is literal. `resolve` replaces variables and expressions and leaves matchers (`$any`, `$len`, ..) for `matchers`.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import jwt
from crc32c import crc32c

Value: TypeAlias = Any
"""What YAML can hold: None, bool, int, float, str, list and dict of these."""
Environment: TypeAlias = Mapping[str, Value]

VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)\Z")
NOW: Final = "@now"
"""The variable with the seconds since 1970, while an action is performed."""
_INSIDE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PUT_TOGETHER: Final = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*\$\{")


class ValueProblem(ValueError):
    """A variable that is not set, an unknown expression or an argument that doesn't fit."""


class NotSet(ValueProblem):
    """A variable that is not set, or not yet."""

    def __init__(self, name: str, known: str) -> None:
        super().__init__(f"the variable ${name} is not set here (set: {known})")
        self.name = name


@dataclass(frozen=True)
class Later:
    """A value that speaks of what a frame is still to bind; a variable that has it stands for the value that it gets then."""

    value: Value


def resolve(value: Value, environment: Environment) -> Value:
    """Replace variables and expressions by their values.

    Args:
        value: A value as a transcript writes it; not changed.
        environment: The variables that are set.

    Raises:
        ValueProblem: A variable is not set, or an expression can't be computed.
    """
    if isinstance(value, str):
        return _resolve_text(value, environment) if "$" in value else value
    if isinstance(value, list):
        return [resolve(item, environment) for item in value]
    if isinstance(value, dict):
        if len(value) == 1:
            ((key, argument),) = value.items()
            if key in EXPRESSIONS:
                return evaluate(key, argument, environment)
        return {key: item if key == "$bind" else resolve(item, environment) for key, item in value.items()}
    return value


def resolve_known(value: Value, environment: Environment) -> Value:
    """Replace variables and expressions by their values; what speaks of a variable that is not set is `Later`.

    Raises:
        ValueProblem: An expression can't be computed.
    """
    try:
        return resolve(value, environment)
    except NotSet:
        return Later(_replace_known(value, environment))


def _replace_known(value: Value, environment: Environment) -> Value:
    if isinstance(value, str):
        whole = VARIABLE.match(value)
        if whole:
            known = environment.get(whole[1], value)
            return known.value if isinstance(known, Later) else known
        return _INSIDE.sub(lambda found: str(_replace_known(f"${found[1]}", environment)) if found[1] in environment else found[0], value)
    if isinstance(value, list):
        return [_replace_known(item, environment) for item in value]
    if isinstance(value, dict):
        return {key: item if key in ("$bind", "$map") else _replace_known(item, environment) for key, item in value.items()}
    return value


def evaluate(name: str, argument: Value, environment: Environment) -> Value:
    """Compute one expression."""
    if name == "$map":
        return _map(argument, environment)
    try:
        return EXPRESSIONS[name](resolve(argument, environment), environment)
    except ValueProblem:
        raise
    except (AttributeError, TypeError, ValueError, KeyError, IndexError) as error:
        raise ValueProblem(f"{name} can't be computed from {argument!r}: {error}") from None


def variables_of(value: Value) -> set[str]:
    """Return the names of all variables in a value, except those that `$map` introduces."""
    if isinstance(value, str):
        whole = VARIABLE.match(value)
        return {whole[1]} if whole else set(_INSIDE.findall(value))
    if isinstance(value, list):
        return set().union(*map(variables_of, value))
    if isinstance(value, dict):
        if "$map" in value:
            over = value["$map"]
            return variables_of(over.get("over")) | (variables_of(over.get("to")) - {over.get("as", "item")})
        return set().union(*(variables_of(item) for key, item in value.items() if key != "$bind"))
    return set()


def _resolve_text(text: str, environment: Environment) -> Value:
    whole = VARIABLE.match(text)
    if whole:
        return _look_up(whole[1], environment)
    if "${" not in text:
        return text
    if _PUT_TOGETHER.match(text):
        raise ValueProblem(f"{text!r} is no variable: a name can't be put together; write each as ${{name}} inside text")
    return _INSIDE.sub(lambda found: str(_look_up(found[1], environment)), text)


def _look_up(name: str, environment: Environment) -> Value:
    try:
        found = environment[name]
    except KeyError:
        known = ", ".join(sorted(key for key in environment if not key.startswith("@"))) or "none"
        raise NotSet(name, known) from None
    return resolve(found.value, environment) if isinstance(found, Later) else found


def _map(argument: Value, environment: Environment) -> Value:
    if not isinstance(argument, dict) or set(argument) - {"over", "to", "as"} or not {"over", "to"} <= set(argument):
        raise ValueProblem("$map takes {over: list, to: value, as: name}; the name is `item` if `as` is left out")
    name = argument.get("as", "item")
    return [resolve(argument["to"], {**environment, name: item}) for item in resolve(argument["over"], environment)]


def _union(lists: Value, _: Environment) -> Value:
    """Return each item of the lists once, in order; items may be messages."""
    return list({json.dumps(item, sort_keys=True, default=repr): item for one in lists for item in one}.values())


def _minus(lists: Value, _: Environment) -> Value:
    first, *others = lists
    gone = {item for one in others for item in one}
    return [item for item in first if item not in gone]


def _take(argument: Value, _: Environment) -> Value:
    items, number = argument
    return items[:number]


def _range(argument: Value, _: Environment) -> Value:
    low, high = argument
    return list(range(low, high))


def _random(argument: Value, environment: Environment) -> Value:
    """Draw from the seed of the conversation and the bounds: the same trial draws the same number again."""
    low, high = argument
    number = random.Random(f"{environment.get('@seed', 0)} {low} {high}").uniform(low, high)
    return round(number) if isinstance(low, int) and isinstance(high, int) else number


def _now(seconds: float, environment: Environment) -> int:
    """Return the milliseconds since 1970, so many seconds from now; known only while an action is performed."""
    return round(_time(seconds, environment) * 1000)


def _token(argument: Value, environment: Environment) -> str:
    """Make a JSON Web Token for a role that expires so many seconds from now, or at the last whole second before that."""
    claims = {"sub": argument["role"], "exp": int(_time(argument["expires"], environment))}
    return jwt.encode(claims, base64.b64decode(argument["key"]), algorithm="HS256")


def _time(seconds: float, environment: Environment) -> float:
    if NOW not in environment:
        raise ValueProblem("$now and $token tell the time of an action: write them into what the suite sends")
    return float(environment[NOW] + seconds)


def _topics_hash(topics: list[str], _: Environment) -> str:
    """Compute it apart from the reference, so that a fault in the reference's hash is seen when the reference is judged."""
    ordered = sorted(topics, key=lambda topic: topic.encode("utf-16-be", "surrogatepass"))
    return crc32c(",".join(ordered).encode()).to_bytes(4, "little").hex()


def _segment_name(argument: Value, _: Environment) -> str:
    """Return the name of a segment of a scalable topic, given by its place in the order of hashes, from 0."""
    topic, segments, place = argument
    one = sorted(segments, key=lambda segment: segment.hash_start)[place]
    return f"segment://{topic.removeprefix('topic://')}/{one.hash_start:04x}-{one.hash_end:04x}-{one.segment_id}"


EXPRESSIONS: Final[dict[str, Callable[[Value, Environment], Value]]] = {
    "$union": _union,
    "$minus": _minus,
    "$take": _take,
    "$count": lambda items, _: len(items),
    "$add": lambda numbers, _: sum(numbers),
    "$map": lambda _a, _e: None,  # never called: `evaluate` computes it, since its argument has a variable of its own
    "$range": _range,
    "$repeat": lambda pair, _: pair[0] * pair[1],
    "$upper": lambda text, _: text.upper(),
    "$values": lambda pair, _: [getattr(message, pair[1]) for message in pair[0]],
    "$topics_hash": _topics_hash,
    "$segment_name": _segment_name,
    "$random": _random,
    "$now": _now,
    "$token": _token,
}
