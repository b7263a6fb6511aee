"""The command line, from the application itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from conformance.cli import app
from conformance.exit_codes import (
    EXIT_CONFORMANT,
    EXIT_COULD_NOT_RUN,
    EXIT_CRASHED,
    EXIT_INCONCLUSIVE,
    EXIT_NOT_CONFORMANT,
    EXIT_STALE_BASELINE,
    EXIT_USAGE,
)
from conformance.site.markup import Page, code, fenced, joined, prose, table

PATH = "reference/cli.md"
NAME = "pulsar-conformance"
EXIT_CODES = {
    EXIT_CONFORMANT: "the target conforms",
    EXIT_NOT_CONFORMANT: "it does not",
    EXIT_USAGE: "wrong usage",
    EXIT_COULD_NOT_RUN: "the target or the suite could not run",
    EXIT_STALE_BASELINE: "an entry of the baseline no longer explains anything",
    EXIT_INCONCLUSIVE: "a result is still inconclusive, or nothing could be judged",
    EXIT_CRASHED: "the suite itself failed, which says nothing about the target",
}

_PLACEHOLDERS: dict[object, str] = {int: "N", float: "X", Path: "PATH"}


def command_page() -> Page:
    """Return the page with every command and its options."""
    group: Any = typer.main.get_command(app)
    lines = ["# Command line", "", prose(group.help or ""), "", "Each command takes `--help`.", ""]
    for words, command in _commands(group, [NAME]):
        lines += [*_command(words, command), ""]
    lines += ["## Exit codes", "", *table(["code", "meaning"], ((str(number), text) for number, text in EXIT_CODES.items()))]
    return Page(PATH, "Command line", joined(lines))


def _commands(command: Any, words: list[str]) -> Iterator[tuple[list[str], Any]]:
    if not getattr(command, "commands", None):
        yield words, command
        return
    for name, inner in command.commands.items():
        if not inner.hidden:
            yield from _commands(inner, [*words, name])


def _command(words: list[str], command: Any) -> Iterator[str]:
    name = " ".join(words[1:])
    yield f"## {name} {{ #{'-'.join(words[1:])} }}"
    yield ""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = [*words, *(["[OPTIONS]"] if options else []), *(_placeholder(one) for one in arguments)]
    yield from fenced(" ".join(usage))
    yield ""
    text = " ".join((command.help or "").split("\f")[0].split())
    yield prose(text)
    yield ""
    if arguments:
        rows = ((code(one.name.upper()), prose(getattr(one, "help", "") or ""), _default(one)) for one in arguments)
        yield from table(["argument", "meaning", "without it"], rows)
        yield ""
    if options:
        rows = ((_spelled(one), prose(getattr(one, "help", "") or ""), _default(one)) for one in options)
        yield from table(["option", "meaning", "without it"], rows)


def _placeholder(argument: Any) -> str:
    shown = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return shown if argument.required else f"[{shown}]"


def _spelled(option: Any) -> str:
    if option.is_flag:
        return ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    kind = _PLACEHOLDERS.get(option.type_descriptor.annotation, "TEXT")
    return ", ".join(code(f"{name} {kind}") for name in option.opts)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "needed"
    value = parameter.default
    if value is None or value is False or value in ("", (), []):
        return ""
    return code("on" if value is True else value)
