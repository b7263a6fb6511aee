"""A conversation as rows, one for each item that a reader should see. HTML, text and sequence diagrams are made from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, TypeAlias

from conformance.engine import log
from conformance.engine.machine import Taken
from conformance.engine.program import Program
from conformance.engine.step import ProgramProblem
from conformance.engine.values import ValueProblem
from conformance.engine.verdict import Outcome, TrialLog
from conformance.report.model import Report
from conformance.report.wording import clean, cut, one_line, plain_value
from conformance.suite import Suite
from refimpl.wire import Line, WireError, annotate, decode_frame, format_lines, line_notation
from refimpl.wire.pulsar_api_pb2 import BaseCommand

Way: TypeAlias = Literal["out", "in", "ask", "reply", "note"]
"""harness to peer, peer to harness, harness to admin API and back, or none of these."""

LINE_LIMIT = 600
"""Characters of one row that are shown."""
HEX_LINES = 40
"""Lines of an annotated frame that are shown."""
_TEXT_LIMIT = 160
_ARROWS = {"out": ">", "in": "<", "ask": ">", "reply": "<", "note": " "}


@dataclass(frozen=True)
class Row:
    """One line of a conversation.

    Attributes:
        way: Direction: who sends to whom.
        head: The command, the admin call, or a few words.
        rest: Its fields or arguments; follows the head without a blank if it starts with `{`.
        at: The connection; empty for admin calls and remarks.
        t: Seconds since the conversation began; None for a transcript that was not run.
        n: Number of the event in the log.
        data: The bytes sent or received, as far as they are known.
        remark: A note for the reader.
        path: The step of the transcript that performed or took it.
        clause: The clause that this step tests.
        failing: Whether the case failed here.
        depth: How deep it is nested in other steps.
        example: Whether the bytes are only one example of many that fit.
    """

    way: Way
    head: str
    rest: str = ""
    at: str = ""
    t: float | None = None
    n: int | None = None
    data: bytes | None = field(default=None, repr=False)
    remark: str = ""
    path: str = ""
    clause: str | None = None
    failing: bool = False
    depth: int = 0
    example: bool = False

    @property
    def text(self) -> str:
        """Return head and rest on one line, safe and not too long."""
        gap = "" if not self.rest or (self.rest.startswith("{") and not self.head.endswith(":")) else " "
        return cut(one_line(f"{self.head}{gap}{self.rest}"), LINE_LIMIT)

    @property
    def arrow(self) -> str:
        """Return `>` for what the harness sends and `<` for what it receives."""
        return _ARROWS[self.way]

    def annotated(self, limit: int = HEX_LINES, length: int = 32) -> str:
        """Return the bytes in annotated hexadecimal; empty if there are none.

        Args:
            limit: Number of lines that are shown.
            length: Number of bytes of one line that are written out.
        """
        if not self.data:
            return ""
        lines = annotate(self.data)
        shown = [
            Line(
                line.offset,
                line.size,
                line.hex if line.size <= length else line.hex[: 2 * length].rstrip(".") + "..",
                cut(one_line(line.text), _TEXT_LIMIT),
            )
            for line in islice(lines, limit)
        ]
        more = next(lines, None)
        return format_lines(shown) + (f"\n… and so on from byte {more.offset}; the frame has {len(self.data)} bytes" if more else "")


def notation(data: bytes) -> tuple[str, str]:
    """Return the name of a frame's command, and its fields; for bytes that are not a frame, a short description."""
    try:
        head, brace, rest = line_notation(decode_frame(data)).partition("{")
    except (WireError, ValueError):
        return f"{len(data)} bytes that are no frame", cut(data.hex(), 96)
    return head, brace + rest


def split_frames(data: bytes) -> list[bytes]:
    """Split bytes into frames by their sizes; a rest that is not a frame is the last piece."""
    pieces = []
    while len(data) >= 8:
        size = 4 + int.from_bytes(data[:4], "big")
        if not 8 <= size < len(data):
            break
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data] if data or not pieces else pieces


def report_rows(report: Report, key: str) -> list[Row]:
    """Return the rows of one conversation of a report; see `judged_rows`."""
    return judged_rows(report.suite, report.run.header, report.run.trial_logs[key], report.outcomes.get(key))


def judged_rows(suite: Suite, header: log.Header, trial_log: TrialLog, outcome: Outcome | None) -> list[Row]:
    """Return the rows of one conversation, with the steps and clauses that took each event.

    Args:
        suite: The suite that judged it.
        header: The head of its log.
        trial_log: Its records.
        outcome: Its outcome, if there is one.
    """
    failing = outcome.diagnosis.event if outcome is not None and outcome.diagnosis is not None else None
    taken = outcome.taken if outcome is not None else ()
    transcript = suite.transcripts.get(trial_log.begin.case)
    if transcript is None:
        return trial_rows(trial_log, failing=failing)
    try:
        if trial_log.begin.actions and trial_log.begin.actions != suite.actions_digest(transcript.id, trial_log.begin.cell):
            return trial_rows(trial_log, failing=failing)
        program = suite.program(trial_log.begin, header.release)
    except (ProgramProblem, ValueProblem):
        return trial_rows(trial_log, failing=failing)
    return trial_rows(trial_log, program, taken, failing=failing)


def trial_rows(
    trial_log: TrialLog, program: Program | None = None, taken: Sequence[Taken] = (), *, failing: int | None = None
) -> list[Row]:
    """Turn a conversation into rows.

    Args:
        trial_log: Its records.
        program: The compiled case; with it, rows of actions know their steps and clauses.
        taken: The steps that took events.
        failing: Number of the event at which the case failed.
    """
    actions = {} if program is None else _paths(program)
    steps = {one.n: one for one in taken}
    broker = trial_log.begin.broker
    rows = [] if broker is None else [Row("note", f"held at {broker}, which owns the namespaces of the case", t=0.0)]
    begins: dict[str, log.Begin] = {}
    for event in trial_log.events:
        if isinstance(event, log.Begin):
            begins[event.step] = event
        step = steps.get(event.n)
        path, clause = (step.path, step.clause) if step is not None else actions.get(getattr(event, "step", ""), ("", None))
        for row in _rows_of(event, begins):
            failed = event.n == failing
            rows.append(replace(row, t=event.t - trial_log.begin.t, n=event.n, path=path, clause=clause, failing=failed))
    if trial_log.finished is not None and trial_log.finished.problem is not None:
        text = f"the suite stopped: {trial_log.finished.problem}"
        rows.append(Row("note", text, t=trial_log.finished.t - trial_log.begin.t, failing=failing is None))
    elif trial_log.finished is None:
        rows.append(Row("note", "the log ends here", failing=failing is None))
    return rows


def _paths(program: Program) -> dict[str, tuple[str, str | None]]:
    return {
        f"{group.number}.{index}.{place}": (action.path, action.clause)
        for group in program.actions()
        for index, lane in enumerate(group.lanes)
        for place, action in enumerate(lane)
    }


def _rows_of(event: log.Event, begins: Mapping[str, log.Begin]) -> Iterator[Row]:
    if isinstance(event, log.Begin):
        yield from _begun(event)
    elif isinstance(event, log.End):
        yield from _ended(event, begins.get(event.step))
    elif isinstance(event, log.Frame | log.Answer):
        data = bytes.fromhex(event.data)
        answer = isinstance(event, log.Answer)
        at = event.at if isinstance(event, log.Answer) else _linked(event.at, event.link)
        yield Row("out" if answer else "in", *notation(data), at, data=data, remark="answered by itself" if answer else "")
    elif isinstance(event, log.Garbage):
        data = bytes.fromhex(event.data)
        yield Row("in", f"{len(data)} bytes that are no frame:", event.reason, event.at, data=data)
    elif isinstance(event, log.Closed):
        yield Row("in", "closes the connection" + (" with a reset" if event.how == "rst" else ""), at=_linked(event.at, event.link))
    elif isinstance(event, log.Opened):
        yield Row("in", "opens a connection", at=_linked(event.at, event.link))
    elif isinstance(event, log.Passed):
        data = bytes.fromhex(event.data)
        remark = "of the backdrop" if event.rule is None else f"by rule {event.rule}"
        yield Row("out", *notation(data), _linked("c", event.link), data=data, remark=remark)
    elif isinstance(event, log.Told):
        yield Row("reply", event.what, plain_value(event.detail), at=event.at)
    elif isinstance(event, log.Deadline):
        yield Row("note", "the suite stops waiting")
    else:
        yield Row("note", f"the suite itself was {event.seconds:g} s late")


def _linked(at: str, link: int | None) -> str:
    """Return the connection; those of a client under test are numbered."""
    return at if link is None else f"{at}{link}"


def _begun(event: log.Begin) -> Iterator[Row]:
    at = event.at or ""
    if event.what == "send":
        yield from _sent(event, at)
    elif event.what == "open":
        broker = event.detail.get("broker")
        yield Row("out", "opens a connection" + (f" to {broker}" if broker else ""), at=at)
    elif event.what == "close":
        how = {"rst": " with a reset", "half": ", its own half"}.get(str(event.detail.get("how")), "")
        yield Row("out", f"closes the connection{how}", at=at)
    elif event.what == "reading":
        yield Row("out", "reads again" if event.detail.get("on") else "reads nothing from now on", at=at)
    elif event.what == "move":
        yield Row("ask", f"moves {event.detail.get('namespace')} to {event.detail.get('broker')}")
    elif event.what == "advance":
        yield Row("note", f"lets {float(event.detail.get('seconds', 0)):g} s pass")
    elif event.what == "rule":
        yield Row("note", f"rule {event.detail.get('number')}:", plain_value({k: event.detail.get(k) for k in ("side", "frame", "do")}))
    elif event.what == "drive":
        yield Row("ask", *call_text(event.detail), at=at)
    else:
        remarks = (f"at {at}" if at else "", "read until it fits" if event.what == "read" else "")
        yield Row("ask", *call_text(event.detail), remark=", ".join(filter(None, remarks)))


def _sent(event: log.Begin, at: str) -> Iterator[Row]:
    head, cut_mark, _ = (event.data or "").partition("..")
    data = bytes.fromhex(head)
    if cut_mark:
        remark = f"{event.size} bytes; the log keeps the first {len(data)} and the last ones"
        yield Row("out", *_cut_notation(data, event.size or 0), at, remark=remark)
        return
    pieces = split_frames(data)
    for index, piece in enumerate(pieces):
        yield Row("out", *notation(piece), at, data=piece, remark="in the same write" if index else "")


def _cut_notation(data: bytes, size: int) -> tuple[str, str]:
    command_size = int.from_bytes(data[4:8], "big")
    if 0 < command_size <= len(data) - 8:
        with suppress(ValueError):
            head, brace, rest = line_notation(BaseCommand.FromString(data[8 : 8 + command_size])).partition("{")
            return head, f"{brace}{rest} + {size - 8 - command_size} bytes"
    return f"{size} bytes", data[:48].hex() + "…"


def call_text(detail: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of an admin call and its arguments; of several calls, the first and how many."""
    calls: Sequence[Mapping[str, Any]] = detail["calls"] if isinstance(detail.get("calls"), list) else [detail]
    if not calls or not calls[0]:
        return "admin", ""
    ((name, arguments),) = list(calls[0].items())[:1]
    shown = arguments if isinstance(arguments, str) else "" if arguments is None else plain_value(arguments)
    return (name, shown) if len(calls) == 1 else (f"{len(calls)} admin calls:", f"{name} {shown}, …")


def _ended(event: log.End, begin: log.Begin | None) -> Iterator[Row]:
    if begin is not None and begin.what in ("admin", "read"):
        body = "" if event.body is None else event.body if isinstance(event.body, str) else plain_value(event.body)
        yield Row("reply", str(event.status or "no answer"), clean(body), remark=event.problem or "")
    elif event.problem is not None:
        yield Row("note", event.problem)


def window(rows: Sequence[Row], head: int = 50, tail: int = 20, around: int = 12) -> list[Row]:
    """Leave out the middle of a long conversation, except for the failed rows and the rows around them."""
    if len(rows) <= head + tail + around:
        return list(rows)
    kept = {*range(head), *range(len(rows) - tail, len(rows))}
    for index, row in enumerate(rows):
        if row.failing:
            kept |= set(range(max(0, index - around), min(len(rows), index + around // 2)))
    result: list[Row] = []
    gap = 0
    for index, row in enumerate(rows):
        if index in kept:
            if gap:
                result.append(Row("note", f"… {gap} lines left out"))
            result.append(row)
            gap = 0
        else:
            gap += 1
    return result


def connections(rows: Sequence[Row]) -> list[str]:
    """Return the connections of a conversation in the order of their first use."""
    return list(dict.fromkeys(row.at for row in rows if row.at))


def format_row(row: Row, width: int = 0) -> str:
    """Write a row as one line: time, direction, connection, text.

    Args:
        row: The row.
        width: Columns for the connection.
    """
    time = "" if row.t is None else f"{row.t:9.3f} "
    where = row.at or {"ask": "admin", "reply": "admin"}.get(row.way, "")
    parts = f"{time}{row.arrow} {where:<{width}} {'  ' * row.depth}{row.text}".rstrip()
    notes = [note for note in (row.clause and f"[{row.clause}]", row.remark and f"({one_line(row.remark)})") if note]
    failed = "  <== fails here" if row.failing else ""
    return parts + ("  " + " ".join(notes) if notes else "") + failed
