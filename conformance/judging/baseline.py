"""Known failures of a target: found by its name, applied to results, reported when stale."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from conformance.engine import log
from conformance.engine.model import Baseline, BaselineEntry
from conformance.engine.source import parse, read_source
from conformance.engine.verdict import Verdict
from conformance.names import file_name, is_file_name

HOME = Path(__file__).parents[1] / "baselines"
_SAYS_NOTHING = (Verdict.UNTESTABLE, Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE)
_BAD = (Verdict.FAIL, Verdict.WARN, Verdict.ERROR)


def load_baseline(target: str, path: Path | None = None) -> Baseline:
    """Load the baseline of a target; an empty one if there is none.

    Args:
        target: Name of the target; a cluster has the baseline of its release.
        path: A file to use instead of the one that belongs to the target, or another target's name, to use the one of that. With other
            settings, a release may not show all that it gets wrong: none of these entries is stale.

    Raises:
        SourceProblem: The file is not a baseline.
    """
    if path is not None and not path.exists() and _kept(str(path)) is not None:
        kept = load_baseline(str(path))
        return kept.model_copy(update={"entries": [_if_it_shows(entry) for entry in kept.entries]})
    where = path or _kept(target)
    return Baseline(format=1, target=target) if where is None else parse(Baseline, read_source(where, where.name))


def _if_it_shows(entry: BaselineEntry) -> BaselineEntry:
    """Return an entry that is not stale if a run does not show its failure."""
    return entry if entry.expect_rate is not None else entry.model_copy(update={"expect_rate": 1.0})


def release_of(server_version: str) -> str | None:
    """Return the target whose baseline is that of an Apache Pulsar release, as CONNECTED calls it; None if there is none.

    Args:
        server_version: Such as `Pulsar Server4.2.4`.
    """
    target = f"apache-pulsar@{server_version.removeprefix('Pulsar Server')}"
    return target if _kept(target) is not None else None


def _kept(target: str) -> Path | None:
    """Return the file of the suite that belongs to a target, if there is one."""
    name = file_name(target.partition("?")[0])
    path = HOME / f"{name}.yaml"
    return path if is_file_name(name) and path.is_file() else None


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
    names = [(case_name(result), result.case) for result in results]
    concerned = [_fitting(entry.case, names) for entry in baseline.entries]
    changed = []
    for place, result in enumerate(results):
        entries = [(index, entry) for index, entry in enumerate(baseline.entries) if place in concerned[index]]
        changed.append(_apply(entries, result, used))
    stale = [f"{entry.case}: expired on {entry.until}" for entry in baseline.entries if entry.until and entry.until < today]
    for index, entry in enumerate(baseline.entries):
        judged = any(results[place].verdict not in _SAYS_NOTHING for place in concerned[index])
        if judged and index not in used and entry.expect_rate is None:
            stale.append(f"{entry.case}: the failure of {entry.clause} did not happen; take the entry out")
    return changed, stale


def unknown_cases(baseline: Baseline, cases: Iterable[str]) -> list[str]:
    """Return the entries that fit no case of the suite."""
    known = [(name,) for name in cases]
    return [entry.case for entry in baseline.entries if not _fitting(entry.case.partition("[")[0], known)]


def _apply(concerned: Sequence[tuple[int, BaselineEntry]], result: log.Result, used: set[int]) -> log.Result:
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


def _fitting(pattern: str, names: Sequence[tuple[str, ...]]) -> set[int]:
    """Return the places of what has a name that fits a glob; brackets stand for themselves."""
    fits = re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match if set(pattern) & {"*", "?"} else pattern.__eq__
    return {place for place, some in enumerate(names) if any(map(fits, some))}
