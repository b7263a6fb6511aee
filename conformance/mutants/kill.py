"""Which cases kill which mutants: each mutant is run in process, in virtual time, and judged like any other broker.

python -m conformance.mutants            the whole matrix, written to kill_matrix.json
python -m conformance.mutants NAME ..    some mutants, shown only
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
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
from conformance.mutants.without import WITHOUT
from conformance.running.in_process import run_in_process
from conformance.suite import Suite, load_suite

MATRIX = Path(__file__).parent / "kill_matrix.json"
_BAD = (Verdict.FAIL, Verdict.WARN)


@dataclass(frozen=True)
class Killing:
    """What became of one mutant.

    Attributes:
        killed_by: Cases that fail and cite its clause, or one that depends on it.
        strangers: Cases that fail although they have nothing to do with its clause.
    """

    mutant: str
    killed_by: tuple[str, ...]
    strangers: tuple[str, ...]


def load_mutants() -> Mapping[str, Mutant]:
    """Import the modules that hold mutants, and return all by name."""
    for module in pkgutil.iter_modules(conformance.mutants.__path__):
        if module.name not in ("__main__", "kill", "model", "without"):
            importlib.import_module(f"{conformance.mutants.__name__}.{module.name}")
    return MUTANTS


def tested_clauses(suite: Suite) -> list[str]:
    """Return the clauses of the broker that cases cite: each needs a mutant, or a reason to have none."""
    cited = {clause for case in suite.transcripts.values() for clause in case.clauses}
    return [clause for clause in suite.clauses if clause in cited and suite.clauses[clause].side != "client"]


def concerned(suite: Suite, clause: str) -> set[str]:
    """Return the cases that cite a clause, or one that depends on it."""
    clauses = {clause}
    while more := {one for one, what in suite.clauses.items() if not clauses.isdisjoint(what.depends_on)} - clauses:
        clauses |= more
    return {name for name, case in suite.transcripts.items() if not clauses.isdisjoint(case.clauses)}


def run_cases(suite: Suite, mutant: Mutant, cases: Sequence[str], profile: str) -> list[log.Result]:
    """Judge a mutant by some cases of one profile, one trial of each; no cases: all."""
    with mutant.applied():
        run = run_in_process(suite, cases, profile)
    return judge_log(suite, run).results


def kill(suite: Suite, mutant: Mutant, *, everything: bool) -> Killing:
    """Run a mutant.

    Args:
        suite: All cases.
        mutant: What is run.
        everything: Run every case, to see that no stranger fails; otherwise only those that are concerned.
    """
    own = concerned(suite, mutant.clause)
    failed: set[str] = set()
    for profile, cases in _by_profile(suite, own).items():
        results = run_cases(suite, mutant, [] if everything else cases, profile)
        failed |= {result.case for result in results if result.verdict in _BAD}
    return Killing(mutant.name, tuple(sorted(failed & own)), tuple(sorted(failed - own)))


def _by_profile(suite: Suite, cases: Iterable[str]) -> dict[str, list[str]]:
    """Sort cases by the profile to run them in: the default one, unless they are for `as-written` alone."""
    found: dict[str, list[str]] = {}
    for name in sorted(cases):
        found.setdefault("default" if "default" in suite.transcripts[name].profiles else "as-written", []).append(name)
    return found


@cache
def _suite() -> Suite:
    return load_suite()


def _kill_by_name(name: str, everything: bool) -> Killing:
    return kill(_suite(), load_mutants()[name], everything=everything)


def kill_all(names: Iterable[str], *, everything: bool, processes: int = 2) -> list[Killing]:
    """Run mutants, several at a time."""
    chosen = list(names)
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(_kill_by_name, chosen, [everything] * len(chosen)))


def matrix(killings: Iterable[Killing]) -> dict[str, Any]:
    """Return the kill matrix as it is written and published."""
    mutants = load_mutants()
    rows = {
        one.mutant: {"clause": mutants[one.mutant].clause, "lie": mutants[one.mutant].lie, "killed_by": list(one.killed_by)}
        for one in sorted(killings, key=lambda one: (mutants[one.mutant].clause, one.mutant))
    }
    return {"mutants": rows, "without": dict(sorted(WITHOUT.items()))}


def problems(suite: Suite, killings: Iterable[Killing]) -> list[str]:
    """Return what is wrong with the mutants: clauses without one, mutants that live, mutants that strangers kill."""
    mutants = load_mutants()
    having = {one.clause for one in mutants.values()}
    found = [
        f"{clause} has no mutant and no reason to have none" for clause in tested_clauses(suite) if clause not in having | set(WITHOUT)
    ]
    found += [f"{clause} is no tested clause of the broker" for clause in sorted((having | set(WITHOUT)) - set(tested_clauses(suite)))]
    found += [f"{clause} has a mutant, and a reason to have none" for clause in sorted(having & set(WITHOUT))]
    for one in killings:
        if not one.killed_by:
            found.append(f"{one.mutant} lives: no case of {mutants[one.mutant].clause} fails")
        if one.strangers:
            found.append(f"{one.mutant} ({mutants[one.mutant].clause}) is killed by {', '.join(one.strangers)}")
    return found


def write_matrix(found: dict[str, Any], path: Path = MATRIX) -> None:
    """Write the kill matrix."""
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
