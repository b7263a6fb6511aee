"""The suite inside a notebook: cases against the reference broker, as it is or wrong in one rule, and against recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache

from conformance.engine import log
from conformance.judging.results import judge_log
from conformance.mutants.kill import load_mutants
from conformance.notebooks.shown import Shown, table
from conformance.running.in_process import run_in_process
from conformance.running.recorder import load_target
from conformance.suite import Suite, load_suite
from refimpl.proposals.profiles import profile_name


@cache
def suite() -> Suite:
    """Return all cases and clauses."""
    return load_suite()


def verdicts(*select: str, mutant: str = "", profile: str = "default") -> list[log.Result]:
    """Run cases against the reference broker in this process, in virtual time.

    Args:
        select: Globs for the names of cases.
        mutant: The fault that the broker is to have; empty: none.
        profile: `default` or `as-written`.
    """
    with ThreadPoolExecutor(1) as pool:  # the thread of a notebook has a loop of its own
        return pool.submit(_run, select, mutant, profile).result()


def recorded_verdicts(release: str, *select: str) -> list[log.Result]:
    """Judge the recorded answers of a real broker again.

    Args:
        release: Of Apache Pulsar, such as `4.2.4`.
        select: Globs for the names of cases.

    Raises:
        LookupError: The release was not recorded.
    """
    chosen = {case.id for case in suite().select(select, role="broker")}
    run = load_target(f"apache-pulsar@{release}", only=chosen)
    if run is None:
        raise LookupError(f"there is no recording of {release}")
    return judge_log(suite(), run).results


def found_faults(faults: Mapping[str, str], release: str = "") -> Shown:
    """Show what cases say of the reference broker as it is, and of one with a single fault.

    Args:
        faults: The fault by the name of the case that is to find it.
        release: A recorded release, whose verdict is shown as well; empty: none.
    """
    right = _by_case(verdicts(*faults))
    rows = [[case, fault, right[case], _by_case(verdicts(case, mutant=fault))[case]] for case, fault in faults.items()]
    heads = ["case", "fault", "reference", "with the fault"]
    if release:
        seen = _by_case(recorded_verdicts(release, *faults))
        heads, rows = [*heads, release], [[*row, seen[row[0]]] for row in rows]
    return table(heads, rows, code=["case", "fault"])


def _by_case(results: Sequence[log.Result]) -> dict[str, str]:
    return {one.case: one.verdict for one in sorted(results, key=lambda one: one.verdict, reverse=True)}


def _run(select: Sequence[str], mutant: str, profile: str) -> list[log.Result]:
    with load_mutants()[mutant].applied() if mutant else nullcontext():
        run = run_in_process(suite(), select, profile_name(profile))
    return judge_log(suite(), run).results
