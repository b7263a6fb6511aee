"""Tables of a proposal: what its text says, who does it, what the registers and the cases are, in which order to implement it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from html import escape
from itertools import pairwise
from typing import Any

from conformance.engine.model import Clause, Register
from conformance.engine.source import parse, read_source
from conformance.engine.step import Role
from conformance.engine.verdict import Verdict
from conformance.names import HOME
from conformance.notebooks.shown import Shown, table
from conformance.notebooks.steps import STEPS
from conformance.running import recorder

_RECORDED: dict[Role, tuple[str, str]] = {
    "broker": ("apache-pulsar@", "release"),
    "client": ("client-", "recorded client"),
}
"""How the folders of recordings begin, and what one of them is."""
_TARGET: dict[Role, str] = {"broker": "TARGET", "client": "client:NAME"}


def duties(*clauses: str) -> Shown:
    """Show what the text says, what a peer must do therefore, and who does it by the recordings.

    Args:
        clauses: Their ids, in the order of the rows.

    Raises:
        LookupError: There is no such clause.
    """
    found = [_clause(name) for name in clauses]
    rows = [(one.says, one.text, clause_link(one.id), _doers(one)) for one in found]
    return table(["the text says", "what a peer must do", "clause", "who does it"], rows)


def to_implement(register: str, side: Role) -> Shown:
    """Show in which order to implement a proposal, each step with the clauses that check it and the command that judges it.

    Args:
        register: Such as `pip145`.
        side: `broker` or `client`.

    Raises:
        LookupError: A glob of a step fits no clause that is tested.
    """
    rows = []
    for number, (what, families) in enumerate(STEPS[register, side], 1):
        globs = [f"{register}.{family}" for family in families.split()]
        names = list(dict.fromkeys(name for glob in globs for name in _fitting(side, glob)))
        selected = " ".join(f"--select '{glob}'" for glob in globs)
        command = f"pulsar-conformance run {_TARGET[side]} {selected}"
        rows.append((f"{number}.", what, joined([clause_link(name) for name in names]), Shown(f"<code>{escape(command)}</code>", command)))
    return table(["", f"what the {side} does", "checked by", "judged by"], rows)


def all_cases(register: str) -> Shown:
    """Show all cases for a proposal, one row for each group.

    Args:
        register: Such as `pip145`: the folder below `conformance/transcripts`.

    Raises:
        LookupError: There are none.
    """
    home = HOME / "transcripts" / register
    found = sorted(path.relative_to(home) for path in home.glob("*/*.yaml"))
    if not found:
        raise LookupError(f"there are no cases for {register}")
    groups: dict[str, list[Shown]] = {}
    for path in found:
        address, name = f"../conformance/transcripts/{register}/{path.as_posix()}", path.stem
        link = Shown(f'<a href="{escape(address)}"><code>{escape(name)}</code></a>', name)
        groups.setdefault(path.parent.name, []).append(link)
    return table(["group", "cases"], [(f"{register}/{group}", joined(links)) for group, links in groups.items()], code=["group"])


def registered(register: Iterable[Any], about: str, **columns: str) -> Shown:
    """Show what the register of divergences, or that of questions, says of a proposal.

    Args:
        register: From `conformance.site.registers.load_entries`.
        about: The proposal, such as `PIP-145`.
        columns: The heading of each field of an entry that is shown, such as `here="here"`.
    """
    found = [one for one in register if one.about == about]
    values = [[getattr(one, field) for field in columns] for one in found]
    rows = [[", ".join(value) if isinstance(value, list) else value for value in row] for row in values]
    return table(list(columns.values()), rows)


def clause_link(name: str) -> Shown:
    """Return a link to a clause, as the cells of notebooks have it."""
    address = f"../conformance/clauses/{_clauses()[name][1]}.yaml"
    return Shown(f'<a href="{escape(address)}"><code>{escape(name)}</code></a>', name)


def joined(parts: Sequence[Shown]) -> Shown:
    """Return several cells as one."""
    return Shown(", ".join(one.html for one in parts), ", ".join(one.text for one in parts))


def _clause(name: str) -> Clause:
    if name not in _clauses():
        raise LookupError(f"there is no clause {name}")
    return _clauses()[name][0]


def _fitting(side: Role, glob: str) -> list[str]:
    clauses = [clause for clause, _ in _clauses().values() if clause.side == side and not clause.excluded]
    found = [one.id for one in clauses if fnmatchcase(one.id, glob)]
    if not found:
        raise LookupError(f"no clause for the {side} fits {glob}")
    return found


def _doers(clause: Clause) -> str:
    """Say which recorded implementations keep a clause, and which break it."""
    recorded = _recorded(clause.side)
    return _told(list(recorded), [found.get(clause.id, []) for found in recorded.values()], _RECORDED[clause.side][1])


def _told(names: Sequence[str], verdicts: Sequence[Sequence[str]], one: str) -> str:
    """Say who keeps a clause, given what each case says of it for each implementation: `one` says what those are."""
    passes = [Verdict.PASS in found for found in verdicts]
    fails = [Verdict.FAIL in found or Verdict.WARN in found for found in verdicts]
    keep = _several(names, [good and not bad for good, bad in zip(passes, fails, strict=True)], one)
    partly = _several(names, [good and bad for good, bad in zip(passes, fails, strict=True)], one)
    fail = _several(names, [bad and not good for good, bad in zip(passes, fails, strict=True)], one)
    said = [keep, partly and f"{partly} not always", fail and f"not {fail}"]
    return "; ".join(filter(None, said)) or f"not seen in a {one}"


@cache
def _recorded(side: Role) -> dict[str, dict[str, list[str]]]:
    """Return what the cases in the recordings of one side say of each clause, by the name of the implementation."""
    prefix, home = _RECORDED[side][0], recorder.HOME if side == "broker" else recorder.CLIENT_HOME
    found: dict[str, dict[str, list[str]]] = {}
    for target in (one for one in recorder.targets(home) if one.startswith(prefix)):
        clauses = found.setdefault(target.removeprefix(prefix), {})
        for result in recorder.load_results(target, home):
            for clause, verdict in result.clauses.items():
                clauses.setdefault(clause, []).append(verdict)
    return found


def _several(names: Sequence[str], chosen: Sequence[bool], one: str) -> str:
    """Name those that are chosen; neighbours as a range if they are three or more."""
    if names and all(chosen):
        return f"all {len(names)} {one}s"
    places = [place for place, this in enumerate(chosen) if this]
    neighbours = len(places) > 2 and all(after - before == 1 for before, after in pairwise(places))
    found = [names[place] for place in places]
    return f"{found[0]} to {found[-1]}" if neighbours and one == "release" else ", ".join(found)


@cache
def _clauses() -> dict[str, tuple[Clause, str]]:
    """Return all clauses by id, each with the name of the file that it stands in; reads no cases, which would take seconds."""
    paths = sorted((HOME / "clauses").glob("*.yaml"))
    registers = [(parse(Register, read_source(path, path.name)), path.stem) for path in paths]
    return {clause.id: (clause, name) for register, name in registers for clause in register.clauses}
