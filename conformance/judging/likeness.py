"""Compares the answers of two brokers to the same actions: a recorded one, and the reference.

The frames of each connection are compared as a bag: real brokers answer pipelined requests in any order. What may differ is
listed in `reference_differences.yaml`, with a reason for each: fields that differ everywhere, and cases.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from pydantic import BaseModel, ConfigDict

from conformance.engine import log
from conformance.engine.source import parse, read_source
from conformance.engine.verdict import TrialLog
from conformance.judging.results import RunLog
from refimpl.wire import FrameDecoder, WireError, decode_frame, sub_message, type_name

HOME = Path(__file__).parent / "reference_differences.yaml"
_NO_POSITION = 2**63 - 2
"""Ledger ids above this stand for a position that is no ledger."""


class FieldDifference(BaseModel):
    """A field that is not compared: `CONNECTED.server_version`, or `*.message` in any command."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    field: str
    reason: str


class CaseDifference(BaseModel):
    """Cases in which the answers differ."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    case: str
    reason: str


class Differences(BaseModel):
    """What may differ."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    fields: list[FieldDifference]
    cases: list[CaseDifference]


@dataclass(frozen=True)
class Unlike:
    """A conversation in which the reference answered something else.

    Attributes:
        key: Of the conversation.
        case: Its case.
        missing: What the recorded broker sent, and the reference did not, each with its connection.
        extra: What the reference sent, and the recorded broker did not, each with its connection.
    """

    key: str
    case: str
    missing: tuple[str, ...]
    extra: tuple[str, ...]


def load_differences(path: Path = HOME) -> Differences:
    """Read what may differ.

    Raises:
        SourceProblem: The file is malformed.
    """
    return parse(Differences, read_source(path, path.name))


def compare(recorded: RunLog, answered: RunLog, fields: Iterable[FieldDifference]) -> Iterator[Unlike]:
    """Yield the conversations that differ. For each cell of a case the first trial is compared, if its first attempt counts."""
    patterns = [one.field for one in fields]
    for key, trial_log in recorded.trial_logs.items():
        other = answered.trial_logs.get(key)
        if trial_log.begin.trial or trial_log.begin.attempt or f"{key}~1" in recorded.trial_logs or other is None:
            continue
        was, now = _received(trial_log, patterns), _received(other, patterns)
        if was != now:
            yield Unlike(key, trial_log.begin.case, tuple(sorted((was - now).elements())), tuple(sorted((now - was).elements())))


def unlisted(found: Iterable[Unlike], differences: Differences) -> tuple[list[Unlike], list[str]]:
    """Return the differences that are not listed, and the entries that are no longer needed."""
    rest, used = [], set()
    for one in found:
        entries = [entry.case for entry in differences.cases if fnmatch.fnmatchcase(one.case, entry.case)]
        used.update(entries)
        if not entries:
            rest.append(one)
    return rest, [entry.case for entry in differences.cases if entry.case not in used]


def _received(trial_log: TrialLog, ignored: list[str]) -> Counter[str]:
    ledgers: dict[int, int] = {}
    sent = _sent(trial_log)
    found: Counter[str] = Counter()
    for event in trial_log.events:
        if getattr(event, "at", None) == "alive":
            continue  # the harness asks for a list that all cases share
        if isinstance(event, log.Closed):
            found[f"{event.at} closed"] += 1
        elif isinstance(event, log.Frame):
            frame = decode_frame(bytes.fromhex(event.data))
            name = type_name(frame.command)
            fields = dict(_fields(sub_message(frame.command), name, ignored, ledgers))
            payload = "" if frame.payload_bytes is None else f" + {sent.get(frame.payload_bytes) or frame.payload_bytes.hex()}"
            seen = f"{event.at} {name} {json.dumps(fields, sort_keys=True)}{payload}"
            found[seen] = 1 if name == "PING" else found[seen] + 1  # one may ask for several requests, if they meet
    return found


def _sent(trial_log: TrialLog) -> dict[bytes, str]:
    """Return where payloads were sent: some have the time of day, so that they differ from one run to the next."""
    found: dict[bytes, str] = {}
    for event in trial_log.events:
        if isinstance(event, log.Begin) and event.what == "send" and event.data and ".." not in event.data:
            with contextlib.suppress(WireError):
                for frame in FrameDecoder(max_frame_size=2**31).receive(bytes.fromhex(event.data)):
                    if frame.payload_bytes is not None:
                        found.setdefault(frame.payload_bytes, f"what {event.step} sent")
    return found


def _fields(message: Message, name: str, ignored: list[str], ledgers: dict[int, int]) -> Iterator[tuple[str, Any]]:
    for field, value in message.ListFields():
        path = f"{name}.{field.name}"
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in ignored):
            continue
        yield field.name, _plain(value, field.name, path, ignored, ledgers)


def _plain(value: Any, field: str, path: str, ignored: list[str], ledgers: dict[int, int]) -> Any:
    if isinstance(value, Message):
        return dict(_fields(value, path, ignored, ledgers))
    if isinstance(value, str | int | float | bool):
        is_ledger = field == "ledgerId" and isinstance(value, int) and value < _NO_POSITION
        return f"ledger {ledgers.setdefault(int(value), len(ledgers))}" if is_ledger else value
    if isinstance(value, bytes):
        return value.hex()
    return sorted((_plain(one, field, path, ignored, ledgers) for one in value), key=str)
