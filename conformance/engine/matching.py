"""How frames of a transcript are matched with events: the parts of matching that no kind of step owns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, TypeAlias

from google.protobuf.message import Message

from conformance.engine import log
from conformance.engine.matchers import FITS, Difference, Match, match_message
from conformance.engine.parts import Window
from conformance.engine.values import VARIABLE, Environment, Value, resolve
from refimpl.wire import WireError, decode_frame
from refimpl.wire.ack_set import is_whole
from refimpl.wire.commands import command_name, sub_message
from refimpl.wire.frames import Frame as WireFrame
from refimpl.wire.pulsar_api_pb2 import CommandLookupTopicResponse

Arrival: TypeAlias = log.Frame | log.Closed | log.Garbage | log.Opened | log.Told | log.Passed
"""An event of the role under test, or of the backdrop behind it."""


@dataclass(frozen=True)
class Seen:
    """An event of the role under test, decoded; its frame is shared and must not be changed."""

    event: Arrival
    name: str
    frame: WireFrame | None = None


@dataclass(frozen=True)
class Clock:
    """The time of an event, and of the end of the last action (None while actions run)."""

    now: float
    since: float | None
    slow: float


def see(event: Arrival) -> Seen:
    """Decode an event of the role under test."""
    if isinstance(event, log.Told | log.Opened):
        return Seen(event, event.what if isinstance(event, log.Told) else "opened")
    frame = _decoded(event.data) if isinstance(event, log.Frame | log.Passed) else None
    return Seen(event, "" if frame is None else command_name(frame.command), frame)


@lru_cache(maxsize=256)  # a frame is seen several times in a row: is it ambient, which step takes it
def _decoded(data: str) -> WireFrame | None:
    try:
        frame = decode_frame(bytes.fromhex(data))
        if frame.command.message.ack_set:
            _leave_out_whole(frame)
        if frame.command.lookupTopicResponse.brokerServiceUrlTls:
            _name_the_only_address(frame.command.lookupTopicResponse)
    except WireError:
        return None
    return frame


def _leave_out_whole(frame: WireFrame) -> None:
    """Empty the ack_set of a MESSAGE if it calls all messages of the batch open: it says what none says."""
    words = frame.command.message.ack_set
    with contextlib.suppress(WireError):
        if is_whole(words, frame.payload().metadata.num_messages_in_batch):
            del words[:]


def _name_the_only_address(answer: CommandLookupTopicResponse) -> None:
    """Let the address with TLS be that of the broker, if it has no other one."""
    if not answer.brokerServiceUrl:
        answer.brokerServiceUrl = answer.brokerServiceUrlTls


def in_time(window: Window | None, within: float, bindings: Mapping[str, Value], clock: Clock) -> Match:
    """Compare the time of an event with a window. Without a window, compare it with the time limit of a step after the last action."""
    if window is not None:
        start = bindings.get(f"@{window.since}")
        if start is None:
            return Match((Difference("time", f"a moment labelled {window.since}", "no such label was reached"),))
        after = clock.now - start
        if not window.min <= after <= window.max:
            return Match((Difference("time", f"{window.min:g} to {window.max:g} s after {window.since}", f"{after:.3f} s"),))
    elif clock.since is not None and clock.now > clock.since + within * clock.slow:
        return Match((Difference("time", f"at most {within * clock.slow:g} s after the last action", f"{clock.now - clock.since:.3f} s"),))
    return FITS


def match_frame(spec: Mapping[str, Any], seen: Seen, variables: Mapping[str, Value]) -> Match:
    """Compare a decoded frame with a frame of a transcript."""
    ((name, fields),) = spec.items()
    if seen.frame is None:
        ways = {log.Closed: "the end of the connection", log.Opened: "a new connection", log.Told: f"the driver says: {seen.name}"}
        return Match((Difference("", name, ways.get(type(seen.event), "bytes that are no frame")),))
    if seen.name != name:
        return Match((Difference("", name, seen.name),))
    return match_message(resolve(fields, variables), sub_message(seen.frame.command), name)


def values_at(message: Any, path: str) -> list[Value]:
    """Return what a field holds, as a list; the names in its path are joined by dots. A message is an object of its fields."""
    value = reduce(getattr, path.split("."), message)
    if isinstance(value, Message):
        return [{field.name: held if isinstance(held, str | bytes | int | float) else list(held) for field, held in value.ListFields()}]
    return [value] if isinstance(value, str | bytes | int | float) else list(value)


def sent_bindings(spec: Any, variables: Environment) -> dict[str, Value]:
    """Return the variables that a send binds: every `$bind` with its example."""
    if isinstance(spec, dict):
        own = {spec["$bind"]: resolve(spec["example"], variables)} if {"$bind", "example"} <= set(spec) else {}
        return own | {k: v for inner in spec.values() for k, v in sent_bindings(inner, variables).items()}
    if isinstance(spec, list):
        return {k: v for inner in spec for k, v in sent_bindings(inner, variables).items()}
    return {}


def binds(spec: Any, variables: Environment) -> Iterator[str]:
    """Yield the variables that a pattern binds when it fits: every `$bind` in it, and in the variables that it names."""
    if isinstance(spec, Mapping):
        for key, value in spec.items():
            yield from [value] if key == "$bind" else binds(value, variables)
    elif isinstance(spec, list):
        for value in spec:
            yield from binds(value, variables)
    elif isinstance(spec, str) and (whole := VARIABLE.match(spec)) and isinstance(named := variables.get(whole[1]), Mapping | list):
        yield from binds(named, variables)
