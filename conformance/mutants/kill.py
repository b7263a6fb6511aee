"""Which cases kill which mutants: each mutant is run in process, in virtual time, and judged like any other broker.

python -m conformance.mutants            all rows of the kill matrix
python -m conformance.mutants NAME ..    the rows of some mutants

The matrix is in `killed/`, a file for each part of the clause registers, a row for each mutant.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import conformance.mutants
from conformance.engine import log
from conformance.engine.verdict import Verdict
from conformance.judging.results import judge_log
from conformance.mutants.model import MUTANTS, Mutant
from conformance.running.in_process import run_in_process
from conformance.suite import Suite, load_suite

KILLED = Path(__file__).parent / "killed"
_BAD = (Verdict.FAIL, Verdict.WARN)


@dataclass(frozen=True)
class Killing:
    """What became of one mutant.

    Attributes:
        killed_by: Cases that fail and cite a clause of it.
        missed: Clauses of it that no such case cites.
        unrelated_failures: Other cases of its registers that fail; None: they were not run.
    """

    mutant: str
    killed_by: tuple[str, ...]
    missed: tuple[str, ...] = ()
    unrelated_failures: tuple[str, ...] | None = None


def load_mutants() -> Mapping[str, Mutant]:
    """Import the modules that hold mutants, and return all by name."""
    for module in pkgutil.iter_modules(conformance.mutants.__path__):
        if module.name not in ("__main__", "kill", "model"):
            importlib.import_module(f"{conformance.mutants.__name__}.{module.name}")
    return MUTANTS


def run_cases(suite: Suite, mutant: Mutant, cases: Sequence[str], profile: str, brokers: int = 1) -> list[log.Result]:
    """Judge a mutant by some cases of one profile on a number of brokers; no cases: all."""
    with mutant.applied():
        run = run_in_process(suite, cases, profile, brokers)
    return judge_log(suite, run).results


def kill(suite: Suite, mutant: Mutant, *, register: bool = False) -> Killing:
    """Run a mutant.

    Args:
        suite: All cases.
        mutant: What is run.
        register: Run also the cases that cite none of its clauses, as far as they belong to their registers.
    """
    own = {case for clause in mutant.clauses for case in suite.cases_of[clause]}
    killed_by = _failing(suite, mutant, own) & own  # by themselves, so that names and hashes are the same without their registers
    missed = tuple(clause for clause in mutant.clauses if killed_by.isdisjoint(suite.cases_of[clause]))
    if not register:
        return Killing(mutant.name, tuple(sorted(killed_by)), missed)
    registers = {clause.partition(".")[0] for clause in mutant.clauses}
    others = _failing(suite, mutant, own | {name for name in suite.transcripts if name.partition("/")[0] in registers}) - own
    return Killing(mutant.name, tuple(sorted(killed_by)), missed, tuple(sorted(others)))


def _failing(suite: Suite, mutant: Mutant, cases: Set[str]) -> set[str]:
    """Return which of some cases fail, or of the controls that run with them."""
    return {
        result.case
        for (profile, brokers), some in _by_target(suite, cases).items()
        for result in run_cases(suite, mutant, some, profile, brokers)
        if result.verdict in _BAD
    }


def _by_target(suite: Suite, cases: Iterable[str]) -> dict[tuple[str, int], list[str]]:
    """Sort cases by the profile to run them in, the default one unless they are for the text as written alone, and by how many brokers."""
    found: dict[tuple[str, int], list[str]] = {}
    for name in sorted(cases):
        case = suite.transcripts[name]
        profile = "default" if "default" in case.profiles else "as-written"
        found.setdefault((profile, 2 if "cluster" in case.requires else 1), []).append(name)
    return found


@cache
def _suite() -> Suite:
    return load_suite()


def _kill_by_name(name: str, register: bool) -> Killing:
    return kill(_suite(), load_mutants()[name], register=register)


def kill_all(names: Iterable[str], *, register: bool, processes: int = 2) -> Iterator[Killing]:
    """Run mutants, several at a time; yield what became of each, in their order."""
    chosen = list(names)
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_kill_by_name, chosen, [register] * len(chosen))


def row(one: Killing) -> dict[str, Any]:
    """Return the row of a mutant as it is published."""
    mutant = load_mutants()[one.mutant]
    found: dict[str, Any] = {"clauses": list(mutant.clauses), "fault": mutant.fault, "killed_by": list(one.killed_by)}
    return found if one.unrelated_failures is None else {**found, "unrelated_failures": list(one.unrelated_failures)}


def published(folder: Path = KILLED) -> dict[str, dict[str, Any]]:
    """Return all rows that are published, by the name of the mutant."""
    return {name: one for path in sorted(folder.glob("*.json")) for name, one in json.loads(path.read_text(encoding="utf-8")).items()}


def publish(killings: Iterable[Killing], folder: Path = KILLED) -> None:
    """Write the rows of some mutants, each into the file of its first clause; rows of mutants that are no more go."""
    rows = {name: one for name, one in published(folder).items() if name in load_mutants()}
    rows |= {one.mutant: row(one) for one in killings}
    ordered = sorted(rows.items(), key=lambda one: (one[1]["clauses"], one[0]))
    for register in sorted({one["clauses"][0].partition(".")[0] for one in rows.values()}):
        text = {name: one for name, one in ordered if one["clauses"][0].startswith(f"{register}.")}
        (folder / f"{register}.json").write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
