"""The consoles of commands, and how commands end early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import typer
from rich.console import Console

from conformance.exit_codes import EXIT_USAGE

out = Console()
err = Console(stderr=True)


def stop(code: int, text: str) -> NoReturn:
    """Print an error and end with an exit code."""
    err.print(text, style="bold red", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(code)


def check_choice(option: str, value: str, allowed: Sequence[str]) -> None:
    """End unless the value of an option is one of its choices."""
    if value not in allowed:
        stop(EXIT_USAGE, f"{option} is one of {', '.join(allowed)}; not {value!r}")
