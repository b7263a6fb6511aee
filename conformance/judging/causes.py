"""What failures have in common: the same field of the same command, a command that does not come, a refusal. And the cause in words.

A broker with one wrong line fails many cases. Grouped by cause, they are one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from google.protobuf.message import DecodeError

from conformance.engine import log
from conformance.engine.diagnosis import Diagnosis
from conformance.engine.matchers import ABSENT
from conformance.engine.matching import see
from conformance.engine.verdict import Outcome, TrialLog, Verdict
from conformance.judging.results import RunLog
from refimpl.wire import FrameDecoder, WireError
from refimpl.wire.commands import type_name
from refimpl.wire.pulsar_api_pb2 import BaseCommand, ServerError

FAILED = (Verdict.FAIL, Verdict.WARN)
_BY_ITSELF = frozenset({"has its bytes reversed", "is reversed", "has its bits inverted", "has other capitals"})
"""Ways to be wrong that say enough, whatever the command."""
_MANY = 3
"""A command that does not come after more kinds of actions than this does not come whatever was done."""
_WORDS = {
    "differs": "{field} of {whose} {how}",
    "read": "{field} of {whose} {how}",
    "refused": "{request} is refused with {how}",
    "late": "{whose} does not come{behind}",
    "closed": "the connection is closed{behind}",
    "silence": "{whose} comes where there must be silence{behind}",
    "twice": "{whose} comes twice{behind}",
    "too-early": "{whose} comes too early{behind}",
    "garbage": "bytes come that are no frame{behind}",
}
_COUNT = re.compile(r"(\d+) items? ")
_HEX = re.compile(r"(?:[0-9a-f]{2}){2,}")
_TYPES = {field.name: BaseCommand.Type.Name(field.number) for field in BaseCommand.DESCRIPTOR.fields if field.message_type}


@dataclass(frozen=True)
class Cause:
    """Why a case failed, as far as other cases may have failed for the same reason.

    Attributes:
        kind: That of the diagnosis, or `refused` where an ERROR came instead of an answer.
        command: The command that came, or did not, as logs name it (`WATCH_TOPIC_UPDATE`); of an admin call its operation.
        field: The field that is wrong, without the command and without positions in lists.
        how: How it is wrong, or the code of a refusal.
        after: What the harness did last: a command or an admin operation.
    """

    kind: str
    command: str = ""
    field: str = ""
    how: str = ""
    after: str = ""

    def words(self, commands: Iterable[str] = ()) -> str:
        """Say it in one line; `commands` are those of several causes that are told as one."""
        whose = ", ".join(sorted({self.command, *commands} - {""})) or "a frame"
        behind = f" after {self.after}" if self.after else ""
        text = _WORDS.get(self.kind, "{whose} comes where nothing expects it{behind}")
        return text.format(field=self.field or "the frame", whose=whose, how=self.how, request=self.after or "a request", behind=behind)


@dataclass(frozen=True)
class Group:
    """Failures with one cause.

    Attributes:
        words: The cause.
        results: The results; those come first that fail the first clause.
        clauses: The clauses that fail in them. Those come first whose names speak of the cause.
    """

    words: str
    results: tuple[log.Result, ...]
    clauses: tuple[str, ...]


def cause_of(diagnosis: Diagnosis, trial_log: TrialLog) -> Cause:
    """Return why a conversation failed, in a form that can be compared.

    Args:
        diagnosis: Its diagnosis.
        trial_log: Its records.
    """
    events = [one for one in trial_log.events if diagnosis.event is None or one.n < diagnosis.event]
    after = _last_action(events)
    command = _TYPES.get(diagnosis.command, diagnosis.command)
    failed = next((one for one in trial_log.events if one.n == diagnosis.event), None)
    if isinstance(failed, log.Frame) and diagnosis.kind not in ("differs", "read"):
        frame = see(failed).frame
        if frame is not None and frame.command.HasField("error"):
            return Cause("refused", "ERROR", "", ServerError.Name(frame.command.error.error), after)
    if diagnosis.kind in ("differs", "read") and diagnosis.differences:
        one = diagnosis.differences[0]
        if one.path == "time":
            return Cause("late", command, after=after)
        field = re.sub(r"\[\d+\]", "", one.path)
        field = field.partition(".")[2] if diagnosis.kind == "differs" else field
        return Cause(diagnosis.kind, command, field, relation(one.expected, one.actual), "")
    return Cause(diagnosis.kind, command, after=after)


def groups(run: RunLog, results: Sequence[log.Result], outcomes: Mapping[str, Outcome]) -> list[Group]:
    """Group the failures of a run by their cause, those of most clauses first.

    Args:
        run: The log.
        results: Its results, baseline applied.
        outcomes: The outcome of each conversation by its key.
    """
    found: dict[Cause, list[tuple[Cause, log.Result, Diagnosis]]] = {}
    for result in results:
        explained = failure(run, result, outcomes) if result.verdict in FAILED else None
        if explained is not None:
            cause, diagnosis = explained
            key = replace(cause, command="") if cause.how in _BY_ITSELF else cause
            found.setdefault(key, []).append((cause, result, diagnosis))
    made = [_group(key, members) for key, members in _joined(found).items()]
    return sorted(made, key=lambda one: (-len(one.clauses), -len(one.results)))


def attributed(run: RunLog, results: Sequence[log.Result], outcomes: Mapping[str, Outcome]) -> list[log.Result]:
    """Make a case UNTESTABLE that failed in its preparation, if the clause that says so failed elsewhere for the same cause.

    A step without a clause prepares. Where no case tests what it needs, the failure counts against its own case.
    """
    charged: dict[Cause, log.Result] = {}
    prepared: dict[int, Cause] = {}
    for place, result in enumerate(results):
        explained = failure(run, result, outcomes) if result.verdict in FAILED else None
        if explained is None:
            continue
        cause, diagnosis = explained
        if diagnosis.clause is None:
            prepared[place] = cause
        elif result.verdict == Verdict.FAIL:
            charged.setdefault(cause, result)
    changed = list(results)
    for place, cause in prepared.items():
        source = charged.get(cause)
        if source is not None:
            clause = next(name for name, verdict in source.clauses.items() if verdict == Verdict.FAIL)
            summary = f"it did not get so far, since {cause.words()}: {clause}, which fails in {source.case}"
            clauses = dict.fromkeys(results[place].clauses, str(Verdict.UNTESTABLE))
            changed[place] = results[place].model_copy(update={"verdict": Verdict.UNTESTABLE, "summary": summary, "clauses": clauses})
    return changed


def failure(run: RunLog, result: log.Result, outcomes: Mapping[str, Outcome]) -> tuple[Cause, Diagnosis] | None:
    """Return the cause of a result and its diagnosis; None if no conversation explains it."""
    for key in result.keys:
        outcome = outcomes.get(key)
        if outcome is not None and outcome.verdict in FAILED and outcome.diagnosis is not None and outcome.diagnosis.kind != "branch":
            return cause_of(outcome.diagnosis, run.trial_logs[key]), outcome.diagnosis
    return None


def relation(expected: str, actual: str) -> str:
    """Say how a value is wrong.

    Args:
        expected: As differences write it.
        actual: Likewise.
    """
    if actual == ABSENT:
        return "is missing"
    if expected == ABSENT:
        return "is there, and must not be"
    lengths = _COUNT.match(expected), _COUNT.match(actual)
    if lengths[0] and lengths[1]:
        wanted, got = (int(one[1]) for one in lengths if one)
        return "lacks items" if got < wanted else "has items too many" if got > wanted else "has other items, or another order"
    if expected.startswith('"') and actual.startswith('"'):
        return _of_texts(expected.strip('"'), actual.strip('"'))
    if re.fullmatch(r"-?\d+", expected) and re.fullmatch(r"-?\d+", actual):
        return _of_numbers(int(expected), int(actual))
    if actual in ("true", "false"):
        return f"is {actual}"
    return "is another one"


def _of_texts(expected: str, actual: str) -> str:
    if not actual:
        return "is empty"
    if _HEX.fullmatch(expected) and _HEX.fullmatch(actual.lower()):
        if bytes.fromhex(actual)[::-1] == bytes.fromhex(expected):
            return "has its bytes reversed"
        if len(actual) == len(expected) and int(actual, 16) ^ int(expected, 16) == (1 << 4 * len(actual)) - 1:
            return "has its bits inverted"
    if actual == expected[::-1]:
        return "is reversed"
    if actual.lower() == expected.lower():
        return "has other capitals"
    if expected and (actual.startswith(expected) or actual.endswith(expected)):
        return "is longer than it should be"
    if expected.startswith(actual) or expected.endswith(actual):
        return "is cut"
    return "is another one"


def _of_numbers(expected: int, actual: int) -> str:
    if actual == 0:
        return "is 0"
    if abs(actual - expected) == 1:
        return "is one too high" if actual > expected else "is one too low"
    return "is too high" if actual > expected else "is too low"


def _joined(found: Mapping[Cause, list[tuple[Cause, log.Result, Diagnosis]]]) -> dict[Cause, list[tuple[Cause, log.Result, Diagnosis]]]:
    """Join what happens after so many kinds of actions that they do not matter."""
    kinds: dict[Cause, set[str]] = {}
    for cause in found:
        kinds.setdefault(replace(cause, after=""), set()).add(cause.after)
    joined: dict[Cause, list[tuple[Cause, log.Result, Diagnosis]]] = {}
    for cause, members in found.items():
        plain = replace(cause, after="")
        joined.setdefault(plain if len(kinds[plain]) > _MANY and cause.kind != "refused" else cause, []).extend(members)
    return joined


def _group(key: Cause, members: Sequence[tuple[Cause, log.Result, Diagnosis]]) -> Group:
    results = [result for _, result, _ in members]
    clauses = list(dict.fromkeys(name for one in results for name, verdict in one.clauses.items() if verdict in FAILED))
    about = {
        word for text in (key.field, key.after, *(cause.command for cause, _, _ in members)) for word in re.split(r"\W|_", text.lower())
    }
    clauses.sort(key=lambda clause: -len(about & set(re.split(r"\W", clause))))
    results.sort(key=lambda one: one.clauses.get(clauses[0]) not in FAILED)
    return Group(key.words(cause.command for cause, _, _ in members), tuple(results), tuple(clauses))


def _last_action(events: Sequence[log.Event]) -> str:
    """Name what the harness did last, other than opening connections and asking what it waits for."""
    for event in reversed(events):
        if not isinstance(event, log.Begin):
            continue
        if event.what == "send":
            sent = _sent(event)
            if sent and sent not in ("PING", "CONNECT"):
                return sent
        elif event.what == "admin":
            return str(next(iter(event.detail.get("calls", [event.detail])[0]), ""))
        elif event.what == "close":
            return "the end of a connection"
    return ""


def _sent(event: log.Begin) -> str:
    """Name the last command of what was sent, the first one if the log keeps only its beginning; empty for what is no frame."""
    head, cut, _ = (event.data or "").partition("..")
    data = bytes.fromhex(head)
    try:
        if cut:
            return type_name(BaseCommand.FromString(data[8 : 8 + int.from_bytes(data[4:8], "big")]))
        frames = FrameDecoder().receive(data)
        return type_name(frames[-1].command) if frames else ""
    except (WireError, ValueError, DecodeError):
        return ""
