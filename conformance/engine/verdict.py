"""From a log to verdicts: of each conversation, of each case, of each clause; pure functions of (transcripts, log)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from conformance.engine import log
from conformance.engine.diagnosis import Diagnosis, diagnose
from conformance.engine.earned import untrue
from conformance.engine.machine import Machine, MachineError, State, Taken
from conformance.engine.matching import match_frame, see
from conformance.engine.model import Level, Transcript
from conformance.engine.node import expected, walk
from conformance.engine.overheard import overhear
from conformance.engine.program import Program
from conformance.engine.statuses import SERVER_ERROR
from conformance.engine.unjudged import beyond, lagged, limited, may_be_lateness, no_room, not_offered, still_in_use, was_late
from conformance.engine.values import Value, ValueProblem


class Verdict(StrEnum):
    """The verdict of a case, a clause or a conversation."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    NOT_APPLICABLE = "NOT-APPLICABLE"
    UNTESTABLE = "UNTESTABLE"
    INCONCLUSIVE = "INCONCLUSIVE"
    SPEC_GAP = "SPEC-GAP"
    XFAIL = "XFAIL"
    XPASS = "XPASS"
    ERROR = "ERROR"


SEVERITY: Final = {
    verdict: rank
    for rank, verdict in enumerate(
        (
            Verdict.NOT_APPLICABLE,
            Verdict.UNTESTABLE,
            Verdict.PASS,
            Verdict.XPASS,
            Verdict.SPEC_GAP,
            Verdict.XFAIL,
            Verdict.WARN,
            Verdict.INCONCLUSIVE,
            Verdict.FAIL,
            Verdict.ERROR,
        )
    )
}
"""Verdicts from the mildest to the gravest: several are summed up by the gravest."""

_BY_LEVEL: Final = {"MUST": Verdict.FAIL, "SHOULD": Verdict.WARN, "MAY": Verdict.SPEC_GAP}
_BY_BRANCH: Final = {"conforms": Verdict.PASS, "warn": Verdict.WARN, "gap": Verdict.SPEC_GAP, "fails": Verdict.FAIL}
SAYS_NOTHING: Final = frozenset({Verdict.INCONCLUSIVE, Verdict.ERROR})
"""Of the target: the conversation is repeated."""
RUNS: Final = 3
"""A conversation that says nothing of the target is run so often at most; frames that come late count if they do in as many runs."""


@dataclass(frozen=True)
class Outcome:
    """The verdict of one conversation.

    `late` has the clauses about how soon frames come that were not kept. One conversation proves nothing, so the verdict leaves them out.
    """

    key: str
    verdict: Verdict
    clauses: Mapping[str, Verdict]
    diagnosis: Diagnosis | None = None
    branches: tuple[str, ...] = ()
    observed: Mapping[str, Value] = field(default_factory=dict)
    ambient: int = 0
    taken: tuple[Taken, ...] = field(default=(), repr=False)
    """The steps that took its events, as far as it went."""
    late: Mapping[str, Diagnosis] = field(default_factory=dict)
    overheard: Mapping[str, Verdict] = field(default_factory=dict)
    """What monitors say of clauses, whether the case cites them or not."""
    breaches: tuple[Diagnosis, ...] = ()
    """What they found, the first breach of each clause."""

    @property
    def missing(self) -> str | None:
        """Return the command that did not come in its time, if that counts only when it is so each time; see `Diagnosis`.

        The target, or its machine, may have been too busy with other conversations.
        """
        return None if self.verdict in SAYS_NOTHING or self.diagnosis is None else self.diagnosis.missing

    @property
    def got_nothing(self) -> bool:
        """Tell whether it fails since a command did not come of which a clause speaks."""
        return self.missing is None and self.verdict is Verdict.FAIL and self.diagnosis is not None and self.diagnosis.kind == "late"


@dataclass
class TrialLog:
    """The records of one conversation."""

    begin: log.TrialStarted
    events: list[log.Event] = field(default_factory=list)
    finished: log.Finished | None = None


def conversations(records: Iterable[Any]) -> dict[str, TrialLog]:
    """Sort the records of a log by conversation; records of other kinds are left out."""
    trial_logs: dict[str, TrialLog] = {}
    for record in records:
        if isinstance(record, log.TrialStarted):
            trial_logs[record.key] = TrialLog(record)
        elif isinstance(record, log.Finished) and record.key in trial_logs:
            trial_logs[record.key].finished = record
        elif hasattr(record, "key") and record.key in trial_logs:
            trial_logs[record.key].events.append(record)
    return trial_logs


def judge(program: Program, trial_log: TrialLog, levels: Mapping[str, Level], slow: float = 1.0) -> Outcome:
    """Judge one conversation.

    Args:
        program: The compiled cell, with the fresh names of this conversation.
        trial_log: Its events.
        levels: The level of every clause.
        slow: Factor on every `within`, as in the run.
    """
    return resume(program, Machine(program, slow), trial_log.events, trial_log, levels)


def resume(program: Program, machine: Machine, events: Iterable[log.Event], trial_log: TrialLog, levels: Mapping[str, Level]) -> Outcome:
    """Judge a trial with a machine that has already taken its first events.

    Args:
        program: The compiled cell.
        machine: It takes the rest.
        events: The rest.
        trial_log: The trial; its events are shown where it failed.
        levels: The level of every clause.
    """
    outcome = _resumed(program, machine, events, trial_log, levels)
    if program.role != "client":
        return outcome
    lie = None if outcome.verdict in (Verdict.FAIL, Verdict.ERROR) else untrue(trial_log.events)
    if lie is not None:
        return _error(program, trial_log, Diagnosis("harness", lie), _furthest(machine))
    return _with_monitors(outcome, trial_log, levels)


def _resumed(program: Program, machine: Machine, events: Iterable[log.Event], trial_log: TrialLog, levels: Mapping[str, Level]) -> Outcome:
    try:
        for event in events:
            machine.feed(event)
            if machine.failure is not None:
                break
    except (MachineError, ValueProblem) as error:
        return _error(program, trial_log, Diagnosis("harness", str(error)), _furthest(machine))
    if trial_log.finished is not None and trial_log.finished.problem is not None and machine.failure is None:
        return _prevented(program, trial_log, trial_log.finished.problem, trial_log.finished.clause, _furthest(machine), levels)
    if machine.failure is None and machine.done:
        return _passed(program, trial_log, machine)
    return _failed(program, trial_log, machine, levels)


def _with_monitors(outcome: Outcome, trial_log: TrialLog, levels: Mapping[str, Level]) -> Outcome:
    """Add what monitors say of the client. A breach is one whatever the case is about, and whether it came to its end or not."""
    heard = overhear(trial_log.events, "client")
    breaches = {one.clause: Diagnosis("monitor", f"{one.text} ({one.connection})", clause=one.clause) for one in reversed(heard.breaches)}
    broken = {clause: _BY_LEVEL[levels.get(clause, "MUST")] for clause in breaches}
    return replace(
        outcome,
        verdict=worst([outcome.verdict, *broken.values()]),
        clauses={clause: worst([verdict, broken.get(clause, verdict)]) for clause, verdict in outcome.clauses.items()},
        diagnosis=outcome.diagnosis or next(reversed(breaches.values()), None),
        overheard={**dict.fromkeys(heard.judged, Verdict.PASS), **broken},
        breaches=tuple(reversed(breaches.values())),
    )


def _prevented(
    program: Program, trial_log: TrialLog, problem: str, clause: str | None, taken: tuple[Taken, ...], levels: Mapping[str, Level]
) -> Outcome:
    """Judge a conversation that something outside of its steps ended: it fails a clause that it tests, and none that others test."""
    if clause is None:
        return _error(program, trial_log, Diagnosis("harness", problem), taken)
    clauses = dict.fromkeys(program.clauses, Verdict.UNTESTABLE)
    diagnosis = Diagnosis("prevented", f"{problem}: {clause}", clause=clause, missing=problem)
    if clause not in clauses:
        return Outcome(trial_log.begin.key, Verdict.UNTESTABLE, clauses, diagnosis, taken=taken)
    clauses[clause] = _BY_LEVEL[levels.get(clause, "MUST")]
    return Outcome(trial_log.begin.key, clauses[clause], clauses, diagnosis, taken=taken)


def _furthest(machine: Machine) -> tuple[Taken, ...]:
    return max((state.taken for state in machine.states), key=len, default=())


def _error(program: Program, trial_log: TrialLog, diagnosis: Diagnosis, taken: tuple[Taken, ...]) -> Outcome:
    return Outcome(trial_log.begin.key, Verdict.ERROR, error_clauses(program.clauses), diagnosis, taken=taken)


def error_clauses(clauses: Sequence[str]) -> dict[str, Verdict]:
    """Return what a case that could not be run says about its clauses: nothing, and the first one shows the error."""
    return {clause: Verdict.UNTESTABLE if index else Verdict.ERROR for index, clause in enumerate(clauses)}


def _passed(program: Program, trial_log: TrialLog, machine: Machine) -> Outcome:
    state = next(state for state in machine.states if not state.nodes)
    clauses = dict.fromkeys(program.clauses, Verdict.PASS)
    named = [branch for branch in state.branches if branch.name not in ("present", "left out")]
    for branch in named:
        charged = branch.clause or program.clauses[0]
        clauses[charged] = worst([clauses[charged], _BY_BRANCH[branch.level]])
    late = _late(program, state, trial_log.events, machine.slow)
    diagnosis = None
    if late and (was_late(trial_log.events) or lagged(trial_log.events)):
        asked = [clause for clause in late if clause in clauses]
        clauses |= dict.fromkeys(asked, Verdict.INCONCLUSIVE)
        diagnosis = late[asked[0]] if asked else None
        late = {}
    verdict = worst(clauses.values())
    if verdict not in (Verdict.PASS, Verdict.INCONCLUSIVE):
        taken = ", ".join(branch.name for branch in named if branch.level != "conforms")
        diagnosis = Diagnosis("branch", f"the peer took a branch that is not full conformance: {taken}")
    branches = tuple(branch.name for branch in named)
    observed, ambient = dict(state.observed), len(machine.ambient)
    return Outcome(trial_log.begin.key, verdict, clauses, diagnosis, branches, observed, ambient, state.taken, late)


def _late(program: Program, state: State, events: Sequence[log.Event], slow: float) -> dict[str, Diagnosis]:
    """Return for each clause about how soon frames come the frame that came last after its time."""
    late: dict[str, Diagnosis] = {}
    arrived = {event.n: event for event in events if isinstance(event, log.Frame)}
    least = min((rule.seconds for _, rule in program.soon), default=0.0) * slow
    for step in sorted((one for one in state.taken if one.delay > least and one.n in arrived), key=lambda one: -one.delay):
        seen = see(arrived[step.n])
        for clause, rule in program.soon:
            if clause not in late and step.delay > rule.seconds * slow and any(match_frame(one, seen, {}) for one in rule.frames):
                summary = f"{seen.name} came {step.delay:.3f} s after what it answers or announces (at most {rule.seconds * slow:g} s)"
                late[clause] = Diagnosis("late", summary, step.path, clause, event=step.n, timed=True)
    return late


def _failed(program: Program, trial_log: TrialLog, machine: Machine, levels: Mapping[str, Level]) -> Outcome:
    diagnosis = diagnose(program, machine, trial_log.events, trial_log.begin.t)
    trouble = machine.failure.event if machine.failure is not None else None
    stumbled = isinstance(trouble, log.End) and trouble.problem is not None and (trouble.status or 0) >= SERVER_ERROR
    if still_in_use(trouble, trial_log.events):
        return Outcome(trial_log.begin.key, Verdict.UNTESTABLE, dict.fromkeys(program.clauses, Verdict.UNTESTABLE), diagnosis)
    lacking = None if machine.failure is None else not_offered(machine.failure, trial_log.events)
    if lacking is not None:
        diagnosis = replace(diagnosis, kind="harness", summary=lacking)
        return Outcome(trial_log.begin.key, Verdict.UNTESTABLE, dict.fromkeys(program.clauses, Verdict.UNTESTABLE), diagnosis)
    if (setting := beyond(diagnosis, trial_log.events) or limited(diagnosis, trial_log.events)) is not None:
        diagnosis = replace(diagnosis, kind="harness", summary=setting)
        return Outcome(trial_log.begin.key, Verdict.UNTESTABLE, dict.fromkeys(program.clauses, Verdict.UNTESTABLE), diagnosis)
    if diagnosis.kind == "harness" and not stumbled:
        return _error(program, trial_log, diagnosis, _furthest(machine))
    if stumbled or no_room(diagnosis, trial_log.events) or may_be_lateness(program, diagnosis, trial_log.events):
        clauses = dict.fromkeys(program.clauses, Verdict.UNTESTABLE)
        return Outcome(trial_log.begin.key, Verdict.INCONCLUSIVE, clauses, diagnosis, taken=diagnosis.taken)
    charged = _gravest(diagnosis.clause or program.clauses[0], machine, levels)
    taken = {step.clause for step in diagnosis.taken}
    open_clauses = {node.clause for node in walk(diagnosis.left)}
    clauses = {clause: Verdict.PASS if clause in taken and clause not in open_clauses else Verdict.UNTESTABLE for clause in program.clauses}
    clauses[charged] = _BY_LEVEL[levels.get(charged, "MUST")]
    return Outcome(trial_log.begin.key, clauses[charged], clauses, diagnosis, observed=dict(diagnosis.observed), taken=diagnosis.taken)


def _gravest(clause: str, machine: Machine, levels: Mapping[str, Level]) -> str:
    """Return the clause to charge: of one that leaves all open, what else the peer could have done by a clause that does not."""
    if levels.get(clause) != "MAY" or machine.failure is None:
        return clause
    others = (one.clause for state in machine.failure.states for one in expected(state.nodes))
    return next((one for one in others if one is not None and levels.get(one) == "MUST"), clause)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Sum up several verdicts by the most serious one."""
    return max(verdicts, key=SEVERITY.__getitem__, default=Verdict.UNTESTABLE)


def sum_up(
    transcript: Transcript, cell: Mapping[str, Value], outcomes: Sequence[Outcome], observed: Collection[str] = frozenset()
) -> log.Result:
    """Sum up all trials of one cell of a case.

    A trial that fails counts against `trials.fail_over`. One that says nothing about the target, or fails because a command did not
    come in its time, is replaced by its last attempt.
    A clause about how soon frames come is a WARN if they come late in each run of a trial.
    What monitors found counts for its clause. Of what they found kept, only clauses that no case cites (`observed`) are in the result.
    """
    last: dict[str, Outcome] = {}
    runs: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        trial = outcome.key.partition("~")[0]
        runs.setdefault(trial, []).append(outcome)
        before = last.get(trial, outcome)
        if outcome.verdict not in SAYS_NOTHING or before.verdict in SAYS_NOTHING or before.missing:
            last[trial] = outcome
    final = list(last.values())
    bad = [o for o in final if o.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE)]
    tolerated = transcript.trials.fail_over if transcript.trials else 0
    judged = final if len(bad) > tolerated or not bad else [o for o in final if o not in bad] or final
    clauses = {clause: worst(o.clauses[clause] for o in judged) for clause in transcript.clauses}
    late = {clause: found for some in runs.values() for clause, found in always_late(some).items()}
    clauses |= {clause: worst([clauses.get(clause, Verdict.PASS), Verdict.WARN]) for clause in late}
    heard = {clause for o in judged for clause, found in o.overheard.items() if found is not Verdict.PASS or clause in observed}
    clauses |= {clause: worst(o.overheard.get(clause, Verdict.UNTESTABLE) for o in judged) for clause in sorted(heard - clauses.keys())}
    verdict = worst([*(o.verdict for o in judged), *(Verdict.WARN for _ in late)])
    diagnoses = [*(o.diagnosis for o in bad if o.verdict is verdict), *late.values(), *(o.diagnosis for o in bad)]
    shown = next(filter(None, diagnoses), None)
    more = dict.fromkeys(one for o in bad for one in o.breaches if shown is None or one.summary != shown.summary)
    summary = shown.summary if shown else ""
    if transcript.trials is not None:
        summary = _rate(len(bad), len(final)) + (f": {summary}" if summary else "")
    return log.Result(
        case=transcript.id,
        cell=dict(cell),
        verdict=verdict,
        summary=summary,
        clauses={clause: str(v) for clause, v in clauses.items()},
        keys=[o.key for o in outcomes],
        trials=len(final),
        failed_trials=len(bad),
        branches=sorted({branch for o in final for branch in o.branches}),
        observed={name: value for o in final for name, value in o.observed.items()},
        diagnosis="\n".join([shown.text() if shown else "", *(f"{one.clause}: {one.summary}" for one in more)]).strip(),
    )


def always_late(outcomes: Sequence[Outcome]) -> dict[str, Diagnosis]:
    """Return the clauses about how soon frames come that no run of a trial kept, if there are enough runs."""
    if len(outcomes) < RUNS:
        return {}
    return {clause: found for clause, found in outcomes[-1].late.items() if all(clause in one.late for one in outcomes)}


def _rate(bad: int, count: int) -> str:
    if bad:
        return f"{bad} of {count} trials failed"
    bound = f" (the rate is below {3 / count:.1%} with 95 % confidence)" if count > 3 else ""
    return f"none of {count} trials failed{bound}"


def clause_verdicts(results: Iterable[log.Result]) -> dict[str, Verdict]:
    """Sum up what all cases say about each clause. One failure outweighs any number of passes."""
    verdicts: dict[str, list[Verdict]] = {}
    for result in results:
        known = result.verdict == Verdict.XFAIL
        for clause, text in result.clauses.items():
            failed = text in (Verdict.FAIL, Verdict.WARN)
            verdicts.setdefault(clause, []).append(Verdict.XFAIL if known and failed else Verdict(text))
    return {clause: worst(seen) for clause, seen in verdicts.items()}
