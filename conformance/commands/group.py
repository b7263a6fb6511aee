"""How any command ends: interrupted, with a pipe that nobody reads, by a wrong argument, or by a mistake of the suite."""

from __future__ import annotations

import traceback
from typing import Any, Final

import typer
from typer.core import TyperGroup

from conformance.console import out, stop
from conformance.exit_codes import EXIT_COULD_NOT_RUN, EXIT_CRASHED
from conformance.interruption import signals_alike

_ONE_ARGUMENT: Final = {
    "run": "choose cases with --select CASE",
    "explore": "choose a proposal with --proposal NAME",
    "list": "choose cases with --select CASE",
    "show": "name the recording with --target TARGET",
    "explain": "ask for one clause at a time",
    "doctor": "check one target at a time",
    "report": "make the report of one log at a time",
}
"""What to do instead of a further argument."""


class Commands(TyperGroup):
    """All commands. One that is interrupted, or fails by a mistake of its own, says nothing about a target: it never ends with 0 or 1."""

    def invoke(self, ctx: Any) -> Any:
        """Carry out a command."""
        with signals_alike():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                stop(EXIT_COULD_NOT_RUN, "interrupted")
            except BrokenPipeError:
                out.on_broken_pipe()
            except Exception as error:
                if hasattr(error, "exit_code") or isinstance(error, typer.Abort):  # Typer's own
                    raise _with_what_to_do(error) from None
                traceback.print_exc()
                stop(EXIT_CRASHED, "the suite itself failed: this is a mistake in it, and says nothing about the target")


def _with_what_to_do(error: Exception) -> Exception:
    """Return an error of Typer, with what was meant by an argument too many."""
    command = getattr(getattr(error, "ctx", None), "info_name", None)
    if command in _ONE_ARGUMENT and "extra argument" in str(error):
        error.message = f"{error}; {_ONE_ARGUMENT[command]}"  # type: ignore[attr-defined]
    return error
