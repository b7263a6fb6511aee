"""The options of a source: a table that is documented, checked and read in one place."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.corpus.errors import CorpusError


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name: Its name in `spark.read.option`; upper and lower case are the same.
        default: Its default, of its type: str, int or float. None: it is required, and is a str.
        text: What it does, in one line.
        choices: All possible values, if they are limited.
        least: The smallest number.
    """

    name: str
    default: str | int | float | None
    text: str
    choices: Sequence[str] = ()
    least: float | None = None


def read_options(source: str, table: Sequence[Option], given: Mapping[str, str]) -> dict[str, Any]:
    """Check the options that were given, and fill in the others.

    Args:
        source: Name of the source, for messages.
        table: All options.
        given: The options, as Spark passes them.

    Raises:
        CorpusError: An option is unknown, is missing, or has a value that it can't have.
    """
    known = {option.name.lower(): option for option in table}
    for name in given:
        if name.lower() not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            meant = f", did you mean {known[near[0]].name}?" if near else ";"
            raise CorpusError(f"{source}: there is no option {name}{meant} known: {', '.join(option.name for option in table)}")
    values = {name.lower(): value for name, value in given.items()}
    return {option.name: _read(source, option, values.get(name)) for name, option in known.items()}


def _read(source: str, option: Option, text: str | None) -> Any:
    if text is None:
        if option.default is None:
            raise CorpusError(f"{source}: the option {option.name} has to be given ({option.text})")
        return option.default
    kind: Any = type(option.default) if option.default is not None else str
    try:
        value: Any = kind(text)
    except ValueError:
        raise CorpusError(f"{source}: {option.name} is a number ({option.text}), not {text!r}") from None
    if option.choices and value not in option.choices:
        raise CorpusError(f"{source}: {option.name} is one of {', '.join(option.choices)}, not {text!r}")
    if option.least is not None and not float(value) >= option.least:  # this refuses NaN, too
        raise CorpusError(f"{source}: {option.name} is at least {option.least:g}, not {text}")
    return value
