"""From a log to results: one pure function for a run that has just ended, a recording and a truncated log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.engine import log
from conformance.engine.diagnosis import Diagnosis
from conformance.engine.values import Value
from conformance.engine.verdict import Outcome, TrialLog, Verdict, conversations, error_clauses, judge, sum_up
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_COULD_NOT_RUN, EXIT_INCONCLUSIVE, EXIT_NOT_CONFORMANT, EXIT_STALE_BASELINE
from conformance.suite import Suite


@dataclass(frozen=True)
class RunLog:
    """A log, sorted by conversation. Its `repr` is short, since `asyncio.Runner` writes that of what it returns."""

    header: log.Header
    trial_logs: Mapping[str, TrialLog] = field(repr=False)
    skipped: Sequence[log.Skipped] = field(default=(), repr=False)
    results: Sequence[log.Result] = field(default=(), repr=False)
    footer: log.Footer | None = None
    outcomes: Mapping[str, Outcome] = field(default_factory=dict, repr=False)
    """What conversations came to that have just been judged: the same as `judge_trial` would say."""

    @property
    def seconds(self) -> float:
        """Return when the last conversation ended: of those in real time, if there are any."""
        ended = [one for one in self.trial_logs.values() if one.finished is not None]
        real = [one for one in ended if not one.begin.virtual] or ended
        return max((one.finished.t for one in real if one.finished is not None), default=0.0)

    @property
    def complete(self) -> bool:
        """Tell whether the run reached its end."""
        return self.footer is not None and self.footer.complete


@dataclass
class Judged:
    """Results, and the outcome of each conversation behind them."""

    results: list[log.Result]
    outcomes: dict[str, Outcome] = field(default_factory=dict)


def read_log(records: Iterable[Any], name: str) -> RunLog:
    """Sort the records of a log. Conversations that were in flight when the target went away are left out: they do not count.

    Raises:
        LogError: There is no header.
    """
    listed = list(records)
    headers = [record for record in listed if isinstance(record, log.Header)]
    if not headers:
        raise log.LogError(f"{name}: no header: this is no event log, or its first line is lost")
    if headers[0].format != log.FORMAT:
        raise log.LogError(f"{name}: format {headers[0].format}; this version reads {log.FORMAT}")
    footer = next((record for record in listed if isinstance(record, log.Footer)), None)
    lost = footer.in_flight if footer is not None else ()
    return RunLog(
        headers[0],
        {key: one for key, one in conversations(listed).items() if key not in lost},
        [record for record in listed if isinstance(record, log.Skipped)],
        [record for record in listed if isinstance(record, log.Result)],
        footer,
    )


def judge_log(suite: Suite, run: RunLog) -> Judged:
    """Judge every conversation of a log and sum up by case and cell; controls applied, the baseline not."""
    judged = Judged([])
    grouped: dict[tuple[str, str], list[Outcome]] = {}
    cell_of: dict[tuple[str, str], dict[str, Value]] = {}
    for trial_log in run.trial_logs.values():
        outcome = run.outcomes.get(trial_log.begin.key) or judge_trial(suite, trial_log, run.header)
        if outcome is None:
            continue
        judged.outcomes[outcome.key] = outcome
        place = trial_log.begin.case, json.dumps(trial_log.begin.cell, sort_keys=True)
        grouped.setdefault(place, []).append(outcome)
        cell_of[place] = dict(trial_log.begin.cell)
    if run.footer is not None and not run.footer.complete:
        grouped = _confirmed(grouped)
        judged.outcomes.update({one.key: one for some in grouped.values() for one in some})
    for place, outcomes in grouped.items():
        judged.results.append(sum_up(suite.transcripts[place[0]], cell_of[place], outcomes, suite.observed))
    judged.results += [skipped_result(suite, one) for one in run.skipped if one.case in suite.transcripts]
    judged.results = apply_controls(suite, sorted(judged.results, key=lambda one: (one.case, json.dumps(one.cell))))
    return judged


def _confirmed(grouped: Mapping[tuple[str, str], list[Outcome]]) -> dict[tuple[str, str], list[Outcome]]:
    """Make INCONCLUSIVE what would have been asked again if the run had not ended early: a command did not come in its time.

    It counts if it did not come in a second conversation either, of the same case or of another one.
    """
    runs = Counter(one.key.partition("~")[0] for some in grouped.values() for one in some)
    never_came = {one.missing for some in grouped.values() for one in some if "~" in one.key}

    def counted(one: Outcome) -> Outcome:
        if one.missing is None or one.missing in never_came or runs[one.key.partition("~")[0]] > 1 or one.diagnosis is None:
            return one
        diagnosis = replace(one.diagnosis, summary=f"{one.diagnosis.summary}; the run ended before this was asked again")
        return replace(one, verdict=Verdict.INCONCLUSIVE, clauses=dict.fromkeys(one.clauses, Verdict.UNTESTABLE), diagnosis=diagnosis)

    return {place: [counted(one) for one in some] for place, some in grouped.items()}


def judge_trial(suite: Suite, trial_log: TrialLog, header: log.Header) -> Outcome | None:
    """Judge one conversation; None if its case is no longer in the suite.

    A conversation whose case would send something else today can't be judged: it is an ERROR.
    """
    transcript = suite.transcripts.get(trial_log.begin.case)
    if transcript is None:
        return None
    if trial_log.begin.actions and trial_log.begin.actions != suite.actions_digest(trial_log.begin.case, trial_log.begin.cell):
        diagnosis = Diagnosis("harness", "stale: the case sends something else today")
        return Outcome(trial_log.begin.key, Verdict.ERROR, error_clauses(transcript.clauses), diagnosis)
    return judge(suite.program(trial_log.begin, header.release), trial_log, suite.levels, header.slow)


def skipped_result(suite: Suite, skipped: log.Skipped) -> log.Result:
    """Return the result of a case that was not run."""
    clauses = dict.fromkeys(suite.transcripts[skipped.case].clauses, str(skipped.verdict))
    return log.Result(case=skipped.case, cell=skipped.cell, verdict=skipped.verdict, summary=skipped.reason, clauses=clauses, trials=0)


def apply_controls(suite: Suite, results: Sequence[log.Result]) -> list[log.Result]:
    """Make a negative case UNTESTABLE unless its control passed in the same run, since it then proves nothing."""
    good = {Verdict.PASS, Verdict.XPASS, Verdict.WARN}
    passed = {result.case for result in results if result.verdict in good}
    seen = {result.case for result in results}
    changed = []
    for result in results:
        control = suite.transcripts[result.case].control
        if control is not None and result.verdict in good and control in seen and control not in passed:
            text = f"its control {control} did not pass"
            clauses = dict.fromkeys(result.clauses, str(Verdict.UNTESTABLE))
            changed.append(result.model_copy(update={"verdict": Verdict.UNTESTABLE, "summary": text, "clauses": clauses}))
        else:
            changed.append(result)
    return changed


def exit_code(
    results: Sequence[log.Result], stale: Sequence[str] = (), *, complete: bool = True, strict: bool = False, claimed: bool = True
) -> int:
    """Return the exit code of a run; `claimed` tells whether the target claims something that was judged."""
    verdicts = {result.verdict for result in results}
    if not complete or Verdict.ERROR in verdicts:
        return EXIT_COULD_NOT_RUN
    if Verdict.FAIL in verdicts or (strict and Verdict.WARN in verdicts):
        return EXIT_NOT_CONFORMANT
    if stale:
        return EXIT_STALE_BASELINE
    nothing_judged = not claimed or verdicts <= {Verdict.UNTESTABLE, Verdict.NOT_APPLICABLE}
    return EXIT_INCONCLUSIVE if nothing_judged or Verdict.INCONCLUSIVE in verdicts else EXIT_CONFORMANT


def counts(results: Iterable[log.Result]) -> dict[str, int]:
    """Count results by verdict."""
    found: dict[str, int] = {}
    for result in results:
        found[str(result.verdict)] = found.get(str(result.verdict), 0) + 1
    return found
