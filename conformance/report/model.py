"""One report: all data that renderers need, computed once from a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from conformance.engine import log
from conformance.engine.model import Baseline, Clause
from conformance.engine.verdict import Outcome, Verdict, clause_verdicts
from conformance.judging.baseline import apply_baseline
from conformance.judging.causes import attributed
from conformance.judging.claims import Claims, claims_of, explained
from conformance.judging.results import RunLog, exit_code, judge_log
from conformance.suite import Suite


@dataclass(frozen=True)
class Report:
    """The report of a run.

    Attributes:
        suite: The suite that judged it.
        run: The log.
        results: One for each case and cell, baseline applied, in the order of their names.
        outcomes: The outcome of each conversation by its key.
        clauses: The verdict of every clause in scope of the run: all that are not excluded when every case was run (those
            that no case cites are UNTESTABLE), otherwise those that its cases cite.
        stale: Baseline entries that no longer explain a failure.
        strict: Whether warnings count.
        excluded: The clauses that are not tested on purpose; empty unless every case was run.
        claims: What was judged, and what the target does not claim.
        whole: Whether every case of the profile was run or skipped with a reason, so that the report covers the whole suite.
    """

    suite: Suite
    run: RunLog
    results: Sequence[log.Result]
    outcomes: Mapping[str, Outcome]
    clauses: Mapping[str, Verdict]
    stale: Sequence[str] = ()
    strict: bool = False
    excluded: Sequence[Clause] = field(default_factory=tuple)
    whole: bool = True
    claims: Claims = field(default_factory=Claims)

    @property
    def exit_code(self) -> int:
        """Return the process exit code."""
        claimed = bool(self.claims.judged) and not self.claims.unjudged
        return exit_code(self.results, self.stale, complete=self.run.complete, strict=self.strict, claimed=claimed)

    @property
    def clause_counts(self) -> Counter[str]:
        """Count clauses by verdict, and those that are excluded."""
        counted = Counter(str(verdict) for verdict in self.clauses.values())
        counted["EXCLUDED"] = len(self.excluded)
        return counted

    @property
    def conversations(self) -> int:
        """Count the conversations that were judged: one for each trial of each cell, and repetitions."""
        return len(self.outcomes)

    @property
    def repetitions(self) -> int:
        """Count those that were held once more, since the first one said nothing about the target, or only that it was late."""
        return sum("~" in key for key in self.outcomes)

    @property
    def transcripts(self) -> int:
        """Count the transcripts whose cells are the cases of this report."""
        return len({result.case for result in self.results})

    @property
    def case_counts(self) -> Counter[str]:
        """Count results by verdict."""
        return Counter(str(result.verdict) for result in self.results)


def build_report(suite: Suite, run: RunLog, baseline: Baseline, today: date, *, strict: bool = False) -> Report:
    """Judge a log and apply a baseline.

    Args:
        suite: Clauses and transcripts to judge by.
        run: The log of a run or a recording.
        baseline: Known failures.
        today: For entries that expire.
        strict: Whether warnings count.
    """
    judged = explained(suite, run, judge_log(suite, run))
    results, stale = apply_baseline(baseline, judged.results, today)
    results = attributed(run, results, judged.outcomes)
    seen = clause_verdicts(results)
    whole = {case.id for case in suite.select([], profile=run.header.profile, role=run.header.role)} <= {result.case for result in results}
    cited = {clause for result in results for clause in result.clauses}
    in_profile = [
        clause
        for clause in suite.clauses.values()
        if run.header.profile in clause.profiles and (clause.side == run.header.role or clause.id in cited)
    ]
    tested = [clause for clause in in_profile if not clause.excluded]
    clauses = {clause.id: seen.get(clause.id, Verdict.UNTESTABLE) for clause in tested if whole or clause.id in seen}
    excluded = [clause for clause in in_profile if clause.excluded] if whole else []
    claims = claims_of(suite, run, results, judged.outcomes)
    return Report(suite, run, results, judged.outcomes, clauses, stale, strict, excluded, whole, claims)
