"""What failures have in common: the same field of the same command, a command that does not come, a refusal. And the cause in words.

A broker with one wrong line fails many cases. Grouped by cause, they are one line.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from google.protobuf.message import DecodeError

from conformance.engine import log
from conformance.engine.diagnosis import Diagnosis
from conformance.engine.matchers import ABSENT
from conformance.engine.matching import see
from conformance.engine.verdict import Outcome, TrialLog, Verdict
from conformance.judging.results import RunLog
from conformance.monitors.delivering import permits_used
from refimpl.wire import FrameDecoder, WireError
from refimpl.wire.commands import type_name
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import BaseCommand, ServerError

FAILED = (Verdict.FAIL, Verdict.WARN)
_EXTRA = frozenset({"unexpected", "silence", "too-early"})
"""Kinds of commands that come where none is expected: what the case waits for makes the kind, not what is wrong."""
_HIGH, _LOW = frozenset({"is one too high", "is too high"}), frozenset({"is one too low", "is too low", "is 0"})
_OTHER = "is another one"
_SENT_EARLIER, _SENT_LATER = "is that of a message that was sent earlier", "is that of a message that was sent later"
_PLACES = frozenset({_SENT_EARLIER, _SENT_LATER})
_NO_PERMIT = "without permits, which FLOW grants"
_MANY = 3
"""A command that does not come after more kinds of actions than this does not come whatever was done."""
_WORDS = {
    "differs": "{field} of {whose} {how}",
    "read": "{field} of {whose} {how}",
    "refused": "{request} is refused with {how}",
    "late": "{whose} does not come{behind}",
    "closed": "the connection is closed{behind}",
    "prevented": "{how}",
    "twice": "{whose} comes twice{behind}",
    "garbage": "bytes come that are no frame{behind}",
}
_COUNT = re.compile(r"(\d+) items? ")
_CONSTANT = re.compile(r"(?:[A-Z][a-z]+){2,}")
"""How the values of enumerations are written that say what went wrong, such as `ConsumerBusy`."""
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

    def words(self, several: Iterable[Cause] = ()) -> str:
        """Say it in one line; `several` are causes that are told as this one."""
        causes = [self, *several]
        whose = ", ".join(sorted({one.command for one in causes} - {""})) or "a frame"
        actions = sorted({one.after for one in causes} - {""})
        behind = f" after {', '.join(actions)}" if self.after or 0 < len(actions) <= _MANY else ""
        text = _WORDS.get(self.kind, "{whose} comes {how}{behind}" if self.how else "{whose} comes where nothing expects it{behind}")
        return text.format(field=self.field or "the frame", whose=whose, how=self.how, request=self.after or "a request", behind=behind)


@dataclass(frozen=True)
class Group:
    """Failures with one cause.

    Attributes:
        words: The cause.
        results: The results; those come first that fail the first clause.
        clauses: The clauses that fail in them. Those come first whose names speak of the cause, then those of most cases.
        example: What one of them expected and got, where a field is wrong.
    """

    words: str
    results: tuple[log.Result, ...]
    clauses: tuple[str, ...]
    example: str = ""


def cause_of(diagnosis: Diagnosis, trial_log: TrialLog) -> Cause:
    """Return why a conversation failed, in a form that can be compared.

    Args:
        diagnosis: Its diagnosis.
        trial_log: Its records.
    """
    if diagnosis.kind == "prevented":
        return Cause("prevented", how=diagnosis.summary)
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
        how = relation(one.expected, one.actual)
        if one.path == "payload.body" and how == _OTHER:
            how = _among_sent(one.expected, one.actual, events)
        return Cause(diagnosis.kind, command, field, how, "")
    if diagnosis.kind in _EXTRA and isinstance(failed, log.Frame) and _is_without_permit(failed, events):
        return Cause(diagnosis.kind, command, how=_NO_PERMIT)
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
            found.setdefault(cause, []).append((cause, result, diagnosis))
    made = [_group(key, members) for key, members in _joined(found).items()]
    return sorted(made, key=lambda one: (-len(one.clauses), -len(one.results)))


def attributed(run: RunLog, results: Sequence[log.Result], outcomes: Mapping[str, Outcome]) -> list[log.Result]:
    """Make a case UNTESTABLE that failed in its preparation, if the clause that says so failed elsewhere for the same cause.

    A step without a clause prepares. Where no case tests what it needs, the failure counts against its own case. A failure that a baseline
    explains counts as one, so that a run says the same of all other cases with a baseline and without.
    """
    charged: dict[Cause, log.Result] = {}
    prepared: dict[int, Cause] = {}
    for place, result in enumerate(results):
        explained = failure(run, result, outcomes) if result.verdict in (*FAILED, Verdict.XFAIL) else None
        if explained is None:
            continue
        cause, diagnosis = explained
        if diagnosis.clause is not None and Verdict.FAIL in result.clauses.values():
            charged.setdefault(cause, result)
        elif diagnosis.clause is None and result.verdict != Verdict.XFAIL:
            prepared[place] = cause
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
    return _OTHER


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
    if _CONSTANT.fullmatch(expected) and _CONSTANT.fullmatch(actual):
        return f"is {actual} instead of {expected}"
    return _OTHER


def _of_numbers(expected: int, actual: int) -> str:
    if actual == 0:
        return "is 0"
    if abs(actual - expected) == 1:
        return "is one too high" if actual > expected else "is one too low"
    return "is too high" if actual > expected else "is too low"


def _joined(found: Mapping[Cause, list[tuple[Cause, log.Result, Diagnosis]]]) -> dict[Cause, list[tuple[Cause, log.Result, Diagnosis]]]:
    """Join what has the same field whatever the command, or happens after so many kinds of actions that they do not matter."""
    kinds: dict[Cause, set[str]] = {}
    ways: dict[Cause, set[str]] = {}
    for cause in found:
        kinds.setdefault(replace(cause, after=""), set()).add(cause.after)
        ways.setdefault(replace(cause, command="", how=""), set()).add(cause.how)
    joined: dict[Cause, list[tuple[Cause, log.Result, Diagnosis]]] = {}
    for cause, members in found.items():
        plain = replace(cause, after="")
        if cause.kind == "differs":
            key = replace(cause, command="", how=_in_common(cause.how, ways[replace(cause, command="", how="")]))
        elif cause.kind in _EXTRA:
            key = replace(plain, kind="unexpected")
        else:
            key = plain if len(kinds[plain]) > _MANY and cause.kind != "refused" else cause
        joined.setdefault(key, []).extend(members)
    return joined


def _in_common(how: str, others: Set[str]) -> str:
    """Say how values are wrong that are so in one direction by more or less, or in both."""
    if how in _PLACES and others >= _PLACES:
        return "is that of another message"
    ways = others & (_HIGH | _LOW)
    if how not in ways or len(ways) == 1:
        return how
    return "is too high" if ways <= _HIGH else "is too low" if ways <= _LOW else _OTHER


def _group(key: Cause, members: Sequence[tuple[Cause, log.Result, Diagnosis]]) -> Group:
    results = [result for _, result, _ in members]
    clauses = Counter(name for one in results for name, verdict in one.clauses.items() if verdict in FAILED)
    causes = [cause for cause, _, _ in members]
    about = {word for text in (key.field, key.after, key.how, *(one.command for one in causes)) for word in re.split(r"\W|_", text.lower())}
    ordered = sorted(clauses, key=lambda clause: (-len(about & set(re.split(r"\W", clause))), -clauses[clause]))
    members = sorted(members, key=lambda one: one[1].clauses.get(ordered[0]) not in FAILED)
    differences = members[0][2].differences
    example = f"expected {differences[0].expected}, got {differences[0].actual}" if differences else ""
    return Group(key.words(causes), tuple(result for _, result, _ in members), tuple(ordered), example)


def _among_sent(expected: str, actual: str, events: Sequence[log.Event]) -> str:
    """Say which of the messages of a conversation came, if it is one of them."""
    bodies = [json.dumps(body, ensure_ascii=False) for body in _sent_bodies(events)]
    if expected not in bodies or actual not in bodies:
        return _OTHER
    return _SENT_LATER if bodies.index(actual) > bodies.index(expected) else _SENT_EARLIER


def _is_without_permit(failed: log.Frame, events: Sequence[log.Event]) -> bool:
    """Tell whether a frame is a MESSAGE for a consumer whose permits, those of all FLOW before, are used up by the messages before."""
    seen = see(failed).frame
    if seen is None or not seen.command.HasField("message"):
        return False
    consumer, permits = seen.command.message.consumer_id, 0
    for event in events:
        if isinstance(event, log.Frame) and event.at == failed.at:
            frame = see(event).frame
            if frame is not None and frame.command.HasField("message") and frame.command.message.consumer_id == consumer:
                permits -= permits_used(frame)
        elif isinstance(event, log.Begin) and event.what == "send" and event.at == failed.at:
            if ".." in (event.data or ".."):  # a FLOW may be in what the log lacks
                return False
            for sent in _sent_frames(event):
                if sent.command.HasField("flow") and sent.command.flow.consumer_id == consumer:
                    permits += sent.command.flow.messagePermits
                elif sent.command.HasField("subscribe") and sent.command.subscribe.consumer_id == consumer:
                    permits = 0
    return permits <= 0


def _sent_bodies(events: Sequence[log.Event]) -> Iterator[str]:
    for event in events:
        if isinstance(event, log.Begin) and event.what == "send":
            with contextlib.suppress(WireError, ValueError):
                for frame in _sent_frames(event):
                    if frame.payload_bytes is not None:
                        yield frame.payload().body.decode()


def _sent_frames(event: log.Begin) -> Iterator[Frame]:
    """Return the frames that the harness sent, as far as the log has them whole."""
    if ".." not in (event.data or ""):
        with contextlib.suppress(WireError, ValueError):
            yield from FrameDecoder().receive(bytes.fromhex(event.data or ""))


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
