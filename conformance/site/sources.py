"""All input of the pages, read once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from conformance import mutation
from conformance.engine import log
from conformance.engine.model import Baseline, Clause, Register
from conformance.engine.step import Role
from conformance.judging.baseline import load_baseline
from conformance.names import HOME
from conformance.report.model import Report, build_report
from conformance.report.views import results_by_clause
from conformance.running import recorder
from conformance.suite import Suite, load_suite

REPOSITORY = HOME.parent
KILLED = HOME / "mutants" / "killed"
CLIENTS = {"java": "Java", "java_v5": "Java V5", "python": "Python", "go": "Go", "flex": "pulsar-flex", "rust": "Rust"}
"""What the clients that the suite drives are called, in the order of columns."""


class Mutant(BaseModel):
    """A broker with one fault.

    Attributes:
        clauses: What it breaks.
        fault: What it does instead.
        killed_by: Cases that fail and cite one of these clauses.
        unrelated_failures: Other cases of the same registers that fail.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    clauses: list[str]
    fault: str
    killed_by: list[str]
    unrelated_failures: list[str] = []


@dataclass(frozen=True)
class Doubt:
    """What shows that the cases see what they claim to see.

    Attributes:
        mutants: Brokers with a fault, by name.
        charged: For each clause the cases where a damage to the log of a passing run was charged to it, and the kinds of damage there.
        uncharged: Clauses that no damage charges, and why.
    """

    mutants: Mapping[str, Mutant]
    charged: Mapping[str, Mapping[str, set[str]]]
    uncharged: Mapping[str, str]


@dataclass(frozen=True)
class Released:
    """One recorded implementation: its report, its baseline, and its title in a column."""

    name: str
    report: Report
    baseline: Baseline

    @cached_property
    def by_clause(self) -> dict[str, list[log.Result]]:
        """Return the results that speak of each clause."""
        return results_by_clause(self.report)

    @cached_property
    def by_case(self) -> dict[str, list[log.Result]]:
        """Return the results of each case, one for each of its cells."""
        found: dict[str, list[log.Result]] = {}
        for result in self.report.results:
            found.setdefault(result.case, []).append(result)
        return found


@dataclass(frozen=True)
class Sources:
    """The input of the pages.

    Attributes:
        suite: Clauses and cases.
        registers: The registers by the names of their files.
        released: The recorded implementations, oldest release first.
        texts: The text of each transcript as it stands in its file, by case.
        doubt: How the cases themselves were tested, if that is to be shown.
        clients: The recorded clients.
    """

    suite: Suite
    registers: Mapping[str, Register]
    released: Sequence[Released]
    texts: Mapping[str, str]
    doubt: Doubt | None = None
    clients: Sequence[Released] = ()

    def recorded(self, side: Role) -> Sequence[Released]:
        """Return the recorded implementations of one side."""
        return self.clients if side == "client" else self.released

    @cached_property
    def illustrating(self) -> list[Released]:
        """Return the recorded implementations, the preferred one for examples (`recorder.SHOWN_TARGET`) first, then the newest."""
        newest = list(reversed(self.released))
        return sorted(newest, key=lambda one: one.report.run.header.target != recorder.SHOWN_TARGET)

    @cached_property
    def register_of(self) -> dict[str, str]:
        """Return for each clause the name of its register."""
        return {clause.id: name for name, register in self.registers.items() for clause in register.clauses}

    @cached_property
    def resting(self) -> dict[str, list[str]]:
        """Return for each clause those that depend on it."""
        found: dict[str, list[str]] = {}
        for clause in self.suite.clauses.values():
            for name in clause.depends_on:
                found.setdefault(name, []).append(clause.id)
        return found

    @cached_property
    def mutants_of(self) -> dict[str, list[tuple[str, Mutant]]]:
        """Return for each clause the mutants that break it."""
        found: dict[str, list[tuple[str, Mutant]]] = {}
        for name, mutant in sorted(self.doubt.mutants.items()) if self.doubt else ():
            for clause in mutant.clauses:
                found.setdefault(clause, []).append((name, mutant))
        return found

    def families(self, register: str) -> dict[str, list[Clause]]:
        """Return the clauses of a register by the first two parts of their ids, such as `core.frame`."""
        grouped: dict[str, list[Clause]] = {}
        for clause in self.registers[register].clauses:
            grouped.setdefault(".".join(clause.id.split(".")[:2]), []).append(clause)
        return grouped

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Return the cases by the first two parts of their ids, such as `core/frame`."""
        grouped: dict[str, list[str]] = {}
        for case in self.suite.transcripts:
            grouped.setdefault("/".join(case.split("/")[:2]), []).append(case)
        return grouped


def load_sources(
    home: Path = HOME, recordings: Path = recorder.HOME, doubted: bool = False, client_recordings: Path = recorder.CLIENT_HOME
) -> Sources:
    """Read everything.

    Args:
        home: A folder that holds `clauses` and `transcripts`.
        recordings: A folder with a folder for each recorded target.
        doubted: Show also how the cases themselves were tested; damaging the logs takes half a minute.
        client_recordings: A folder with a folder for each recorded client.
    """
    suite = load_suite(home)
    names = [path.stem for path in sorted((home / "clauses").glob("*.yaml"))]
    clients = {one.report.run.header.target.removeprefix("client:"): one for one in _released(suite, client_recordings)}
    return Sources(
        suite,
        dict(zip(names, suite.registers, strict=True)),
        _released(suite, recordings),
        {case: (home / "transcripts" / f"{case}.yaml").read_text(encoding="utf-8") for case in suite.transcripts},
        load_doubt(suite) if doubted else None,
        [clients[name] for name in sorted(clients, key=[*CLIENTS, *clients].index)],
    )


def _released(suite: Suite, recordings: Path) -> list[Released]:
    released = []
    for run in recorder.load_completed(suite, recordings):
        target, version = run.header.target, run.header.server_version.rpartition(" ")[2]
        baseline = load_baseline(target)
        day = date.fromisoformat(run.header.started[:10])
        title = f"{CLIENTS.get(target.removeprefix('client:'), target)} {version}" if run.header.role == "client" else target
        released.append(Released(run.header.release or title, build_report(suite, run, baseline, day), baseline))
    return released


def load_doubt(suite: Suite) -> Doubt:
    """Read what `make mutants` has written, and damage the logs of passing runs."""
    found = mutation.try_damages(suite, mutation.passing_runs(suite))
    return Doubt(load_mutants(), found.charged, mutation.load_reasons())


def load_mutants(folder: Path = KILLED) -> dict[str, Mutant]:
    """Read which cases find which mutants, by name.

    Args:
        folder: Has a file for each part of the clause registers.
    """
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))]
    return {name: Mutant.model_validate(row) for text in texts for name, row in json.loads(text).items()}
