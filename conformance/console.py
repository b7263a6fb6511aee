"""The consoles of commands, and how commands end early."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NoReturn

import typer
from rich.console import Console

from conformance.exit_codes import EXIT_COULD_NOT_RUN, EXIT_USAGE


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """End when nobody reads: Rich would end with 1, which is a verdict."""
        with contextlib.suppress(SystemExit):
            super().on_broken_pipe()
        raise SystemExit(EXIT_COULD_NOT_RUN)


out = _Console()
err = _Console(stderr=True)


def stop(code: int, text: str) -> NoReturn:
    """Print an error and end with an exit code."""
    err.print(text, style="bold red", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(code)


def check_choice(option: str, value: str, allowed: Sequence[str]) -> None:
    """End unless the value of an option is one of its choices."""
    if value not in allowed:
        stop(EXIT_USAGE, f"{option} is one of {', '.join(allowed)}; not {value!r}")
