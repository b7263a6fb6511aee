"""Strict reading of the suite's YAML files: errors name file, line and a suggestion, before anything is sent.

A subset of YAML: no duplicate keys, no dates, no yes/no, no octal numbers; whatever is not null, true, false
or a decimal number is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from yaml.reader import ReaderError

from conformance import files
from conformance.engine.step import KINDS, Place, StepKind
from conformance.names import did_you_mean

M = TypeVar("M", bound=BaseModel)


_MOST_PROBLEMS = 50
_MOST_PLACES = 100_000
"""Values in one file; a few aliases can stand for billions."""


class SourceProblem(ValueError):
    """A file that can't be used; one line for each error in it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems

    def __reduce__(self) -> tuple[type[SourceProblem], tuple[list[str]]]:
        """Keep its lines on the way from one process to another."""
        return type(self), (self.problems,)


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the types that unquoted text can have besides text, by its first character, in the form that PyYAML expects."""
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for kind, pattern, first in (
        ("null", r"~|null|", ["~", "n", "\0", ""]),
        ("bool", r"true|false", "tf"),
        ("int", r"-?(0|[1-9][0-9]*)", "-0123456789"),
        ("float", r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", "-0123456789"),
    ):
        for character in first:
            found.setdefault(character, []).append((f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$")))
    return found


class PythonLoader(yaml.SafeLoader):
    """Reads with PyYAML's own parser."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = _resolvers()  # type: ignore[misc]


if yaml.__with_libyaml__:

    class CLoader(yaml.CSafeLoader):
        """Reads with libyaml, five times as fast; its error messages differ."""

        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = _resolvers()  # type: ignore[misc]


Loader: Any = CLoader if yaml.__with_libyaml__ else PythonLoader


@dataclass(frozen=True)
class Source:
    """One file after reading: its data and the line of every place in it."""

    name: str
    data: Any
    lines: Mapping[Place, int] = field(repr=False)

    def at(self, place: Place) -> str:
        """Return `file:line` of a place, or of the nearest place around it."""
        while place not in self.lines and place:
            place = place[:-1]
        return f"{self.name}:{self.lines.get(place, 1)}"

    def problem(self, place: Place, text: str) -> str:
        """Write one problem as `file:line: place: text`."""
        shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
        return f"{self.at(place)}: {shown + ': ' if shown else ''}{text}"


def read_source(path: Path, name: str | None = None) -> Source:
    """Read one file.

    Args:
        path: The file.
        name: Its name in errors; its path by default.

    Raises:
        SourceProblem: The file can't be read or is not in this subset of YAML.
    """
    name = name or str(path)
    try:
        text = files.read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SourceProblem([f"{name}: can't be read: {why}"]) from None
    return read_text(text, name)


def read_text(text: str, name: str) -> Source:
    """Read the text of one file; see `read_source`."""
    loader = None
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        lines: dict[Place, int] = {}
        problems = list(_index(node, (), lines, name)) if node is not None else [f"{name}:1: the file is empty"]
        if problems or node is None:
            raise SourceProblem(problems)
        return Source(name, _constructed(loader, node, name), lines)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SourceProblem([f"{name}:{line}: not YAML: {error.problem}"]) from None
    except ReaderError as error:
        line = text.count("\n", 0, text.index(chr(error.character))) + 1
        raise SourceProblem([f"{name}:{line}: not YAML: {error.reason}"]) from None
    except RecursionError:
        raise SourceProblem([f"{name}:1: nested too deep, or an alias stands inside of what it names"]) from None
    finally:
        if loader is not None:
            loader.dispose()


def _constructed(loader: Any, node: yaml.Node, name: str) -> Any:
    try:
        return loader.construct_document(node)
    except ValueError as error:
        raise SourceProblem([f"{name}:1: not YAML: {error}"]) from None


def _index(node: yaml.Node, place: Place, lines: dict[Place, int], name: str) -> Iterator[str]:
    if len(lines) > _MOST_PLACES:
        raise SourceProblem([f"{name}: more than {_MOST_PLACES} values, with those that aliases repeat"])
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                yield f"{name}:{key.start_mark.line + 1}: a key is text, not a list or a mapping"
                continue
            if key.value in seen:
                yield f"{name}:{key.start_mark.line + 1}: the key {key.value!r} is given twice"
            seen.add(key.value)
            yield from _index(value, (*place, key.value), lines, name)
            lines[(*place, key.value)] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _index(item, (*place, index), lines, name)


def parse(kind: type[M], source: Source) -> M:
    """Build a model from a file.

    Raises:
        SourceProblem: One line for each key that is unknown, missing or has a wrong value.
    """
    try:
        return kind.model_validate(source.data)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        more = [f"{source.name}: and {len(errors) - _MOST_PROBLEMS} more"] if len(errors) > _MOST_PROBLEMS else []
        raise SourceProblem([_explain(kind, source, one) for one in errors[:_MOST_PROBLEMS]] + more) from None


def _explain(kind: type[BaseModel], source: Source, error: Any) -> str:
    place = _place(source.data, error["loc"])
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        key = str(place[-1])
        known = _keys_at(kind, source.data, place[:-1])
        text = f"unknown key {key!r}{did_you_mean(key, known)} (known here: {', '.join(known)})"
    elif error["type"] in ("string_type", "string_pattern_mismatch") and not isinstance(error.get("input"), str):
        text = f"this must be text, not {type(error.get('input')).__name__} {error.get('input')!r}; quote it"
    return source.problem(place, text)


def _place(data: Any, location: tuple[Any, ...]) -> Place:
    """Turn the location of a validation error into a place of the file, without the names of alternatives."""
    place: list[str | int] = []
    for index, part in enumerate(location):
        if isinstance(data, dict) and (part in data or index == len(location) - 1):
            place.append(part)
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            place.append(part)
            data = data[part]
    return tuple(place)


def _keys_at(kind: type[BaseModel], data: Any, place: Place) -> list[str]:
    """Return the keys that a place of a file may have: those of the class that reads it."""
    types: list[Any] = [kind]
    for part in place:
        types = [inner for one in types for inner in _inside(one, data, part)]
        data = data[part]
    return sorted({key for one in types for key in _fields(one, data)})


def _inside(kind: Any, data: Any, part: str | int) -> list[Any]:
    """Return the types of what is at one place inside a value of a type."""
    found = get_args(kind)[-1] if get_origin(kind) in (list, dict) else _fields(kind, data).get(str(part))
    while get_origin(found) is Annotated:
        found = get_args(found)[0]
    return list(get_args(found)) if get_origin(found) in (Union, UnionType) else [found]


def _fields(kind: Any, data: Any) -> dict[str, Any]:
    """Return the keys of a class with the types of their values; of steps, those of the kind that a key names."""
    if kind is StepKind:
        kind = next(KINDS[key] for key in data if key in KINDS)
    known = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
    return {info.alias or name: info.annotation for name, info in known.items()}
