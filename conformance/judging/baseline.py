"""Known failures of a target: found by its name, applied to results, reported when stale."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from conformance.engine import log
from conformance.engine.model import Baseline, BaselineEntry
from conformance.engine.source import parse, read_source
from conformance.engine.verdict import Verdict

HOME = Path(__file__).parents[1] / "baselines"
_BAD = (Verdict.FAIL, Verdict.WARN, Verdict.ERROR)


def load_baseline(target: str, path: Path | None = None) -> Baseline:
    """Load the baseline of a target; an empty one if there is none.

    Args:
        target: Name of the target.
        path: A file to use instead of the one that belongs to the target.

    Raises:
        SourceProblem: The file is not a baseline.
    """
    where = path or HOME / f"{target}.yaml"
    if path is None and not where.is_file():
        return Baseline(format=1, target=target)
    return parse(Baseline, read_source(where, where.name))


def case_name(result: log.Result) -> str:
    """Return the id of a case with its cell in brackets, as baselines and reports write it."""
    cell = ",".join(f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in result.cell.items())
    return f"{result.case}[{cell}]" if cell else result.case


def apply_baseline(baseline: Baseline, results: Sequence[log.Result], today: date) -> tuple[list[log.Result], list[str]]:
    """Mark known failures.

    Returns:
        The results, with XFAIL for a known failure and XPASS where a known failure did not happen; and a line for every
        entry that is stale: expired, without a failure to explain, or for a case that does not exist.
    """
    used: set[int] = set()
    changed = [_apply(baseline, result, used) for result in results]
    stale = [f"{entry.case}: expired on {entry.until}" for entry in baseline.entries if entry.until and entry.until < today]
    for index, entry in enumerate(baseline.entries):
        concerned = [result for result in results if _names(entry, result)]
        judged = [one for one in concerned if one.verdict not in (Verdict.UNTESTABLE, Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE)]
        if judged and index not in used and entry.expect_rate is None:
            stale.append(f"{entry.case}: the failure of {entry.clause} did not happen; take the entry out")
    return changed, stale


def unknown_cases(baseline: Baseline, cases: Iterable[str]) -> list[str]:
    """Return the entries that fit no case of the suite."""
    known = list(cases)
    return [entry.case for entry in baseline.entries if not any(_glob(name, entry.case.partition("[")[0]) for name in known)]


def _apply(baseline: Baseline, result: log.Result, used: set[int]) -> log.Result:
    concerned = [(index, entry) for index, entry in enumerate(baseline.entries) if _names(entry, result)]
    if result.verdict in _BAD:
        failing = {clause for clause, verdict in result.clauses.items() if verdict in _BAD} or {next(iter(result.clauses))}
        explained = {}
        for index, entry in concerned:
            if entry.clause in failing and entry.verdict == result.clauses[entry.clause] and entry.diagnosis in result.summary:
                explained[entry.clause] = entry
                used.add(index)
        if failing <= set(explained):
            reason = "; ".join(dict.fromkeys(entry.reason for entry in explained.values()))
            return result.model_copy(update={"verdict": Verdict.XFAIL, "baseline": reason})
    elif result.verdict == Verdict.PASS and any(entry.expect_rate is None for _, entry in concerned):
        return result.model_copy(update={"verdict": Verdict.XPASS})
    return result


def _names(entry: BaselineEntry, result: log.Result) -> bool:
    return _glob(case_name(result), entry.case) or _glob(result.case, entry.case)


def _glob(name: str, pattern: str) -> bool:
    return name == pattern or fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))
