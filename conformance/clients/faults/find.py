"""Which cases find which faulty clients: each is run in process, in virtual time, and judged like any other client."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

import conformance.clients.faults
from conformance.clients.faults.model import FAULTS
from conformance.clients.in_process import run_clients_in_process
from conformance.engine.verdict import Verdict
from conformance.judging.results import judge_log
from conformance.mutants.model import Mutant
from conformance.suite import Suite, load_suite

_BAD = (Verdict.FAIL, Verdict.WARN, Verdict.SPEC_GAP)
_ORDINARY = (
    "core/client/*",
    "pip145/client/attaches-listed",
    "pip145/client/mismatch",
    "pip191/client/example",
    "pr7629/client/filters-itself",
)
"""Cases in which clients do what they usually do: there monitors hear what no case cites."""
_IN_ONE_RUN = 64


@dataclass(frozen=True)
class Finding:
    """What became of one faulty client.

    Attributes:
        found_by: Cases that fail, and cite a clause of it that they have not seen kept.
        missed: Clauses of it that no such case cites.
        charged: Clauses of it that a case names as broken; a step that speaks of several clauses names one.
    """

    fault: str
    found_by: tuple[str, ...]
    missed: tuple[str, ...]
    charged: tuple[str, ...]


def load_faults() -> Mapping[str, Mutant]:
    """Import the modules that hold faults, and return all by name."""
    for module in pkgutil.iter_modules(conformance.clients.faults.__path__):
        if module.name not in ("__main__", "find", "model"):
            importlib.import_module(f"{conformance.clients.faults.__name__}.{module.name}")
    return FAULTS


def find(suite: Suite, fault: Mutant) -> Finding:
    """Run a faulty client with the cases for clients that cite its clauses; for clauses that only monitors judge, with ordinary ones."""
    cases = {case.id for case in suite.select(_ORDINARY, role="client")} if suite.observed.intersection(fault.clauses) else set()
    cases |= {name for clause in fault.clauses for name in suite.cases_of[clause] if "client" in suite.transcripts[name].tests}
    with fault.applied():
        runs = [run_clients_in_process(suite, part) for part in _parts(sorted(cases))]
    failed = [one for run in runs for one in judge_log(suite, run).results if one.verdict in _BAD]
    found_by = {one.case for one in failed if any(one.clauses[clause] != Verdict.PASS for clause in fault.clauses if clause in one.clauses)}
    missed = tuple(clause for clause in fault.clauses if all(one.clauses.get(clause, Verdict.PASS) == Verdict.PASS for one in failed))
    charged = tuple(clause for clause in fault.clauses if any(one.clauses.get(clause) in _BAD for one in failed))
    return Finding(fault.name, tuple(sorted(found_by)), missed, charged)


def _parts(cases: list[str]) -> Iterator[list[str]]:
    """Divide cases among runs, because a run ends when it has heard too much of one client."""
    for begin in range(0, len(cases), _IN_ONE_RUN):
        yield cases[begin : begin + _IN_ONE_RUN]


@cache
def _suite() -> Suite:
    return load_suite()


def _find_by_name(name: str) -> Finding:
    return find(_suite(), load_faults()[name])


def find_all(names: Iterable[str], *, processes: int = 2) -> Iterator[Finding]:
    """Run faulty clients, several at a time; yield what became of each, in their order."""
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_find_by_name, list(names))
