"""What a case does to frames between a client and its backdrop: rules that are armed by steps and used up by frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from google.protobuf.message import Message

from conformance.engine import frames, log
from conformance.engine.matching import match_frame, see
from conformance.engine.values import Value, resolve
from refimpl.wire import Frame, decode_frame, encode_frame
from refimpl.wire.commands import sub_message

EACH: Final = "all"


@dataclass
class Rule:
    """A rule of a case.

    Attributes:
        number: Its place among the rules of the case, from 1.
        side: Whose frames it is about: `client` or `broker`.
        frame: The frames, as a case writes them.
        do: What is done with them: one of `change`, `instead`, `twice`, `drop`, `delay`, `late`, `cut`.
        left: How many more frames it takes; None: each one.
        variables: The variables that its frames may use.
    """

    number: int
    side: str
    frame: Mapping[str, Any]
    do: Mapping[str, Any]
    left: int | None
    variables: Mapping[str, Value] = field(repr=False)

    def takes(self, side: str, frame: Frame) -> Mapping[str, Value] | None:
        """Return the variables with those that a frame binds, and count the frame; None if the rule is not about it."""
        ((name, _),) = self.frame.items()
        if side != self.side or self.left == 0 or not frame.command.HasField(name):
            return None
        found = match_frame(self.frame, see(log.Frame(key="", n=0, t=0, at="", data=frame.data.hex())), self.variables)
        if not found:
            return None
        if self.left is not None:
            self.left -= 1
        return {**self.variables, **dict(found.bindings)}


@dataclass(frozen=True)
class Passing:
    """What becomes of a frame.

    Attributes:
        frames: Bytes of the frames that are passed on in its direction.
        answers: Bytes of the frames that go to the client instead.
        delay: Seconds before `frames` are passed on, and everything behind them.
        late: Seconds before `frames` are passed on, while what is behind them goes on.
        cut: How the connection ends instead; None: it does not.
        rule: The rule that decided it; None: there was none.
    """

    frames: tuple[bytes, ...]
    answers: tuple[bytes, ...] = ()
    delay: float = 0.0
    late: float = 0.0
    cut: Literal["fin", "rst"] | None = None
    rule: int | None = None


class Rules:
    """The rules of one conversation, the newest first."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def arm(self, spec: Mapping[str, Any], variables: Mapping[str, Value]) -> Rule:
        """Add a rule.

        Args:
            spec: Side, frame, do and times of a step `on`.
            variables: The variables that are set now.
        """
        left = None if spec["times"] == EACH else int(spec["times"])
        rule = Rule(len(self._rules) + 1, spec["side"], spec["frame"], spec["do"], left, variables)
        self._rules.append(rule)
        return rule

    def passing(self, side: str, frame: Frame) -> Passing:
        """Decide what becomes of a frame of one side."""
        for rule in reversed(self._rules):
            variables = rule.takes(side, frame)
            if variables is not None:
                return _applied(rule, frame, variables)
        return Passing((frame.data,))


def _applied(rule: Rule, frame: Frame, variables: Mapping[str, Value]) -> Passing:
    ((what, argument),) = rule.do.items()
    if what == "change":
        return Passing((changed(frame, resolve(argument, variables)),), rule=rule.number)
    if what == "instead":
        return Passing((), tuple(frames.build_frame(resolve(one, variables)) for one in argument), rule=rule.number)
    if what == "delay":
        return Passing((frame.data,), delay=float(argument), rule=rule.number)
    if what == "late":
        return Passing((frame.data,), late=float(argument), rule=rule.number)
    if what == "cut":
        return Passing((), cut=argument, rule=rule.number)
    return Passing((frame.data, frame.data) if what == "twice" else (), rule=rule.number)


def changed(frame: Frame, fields: Mapping[str, Any]) -> bytes:
    """Return a frame with other values in some fields.

    Args:
        frame: The frame; its payload stays.
        fields: Values by field name, also inside other messages; `{$absent: true}` takes a field out.

    Raises:
        FrameProblem: A field is unknown, or its value does not fit.
    """
    command = decode_frame(frame.data).command
    _change(sub_message(command), fields)
    return encode_frame(command, frame.payload_bytes)


def _change(message: Message, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if name not in message.DESCRIPTOR.fields_by_name:
            raise frames.FrameProblem(f"{message.DESCRIPTOR.name} has no field {name}")
        if value == {"$absent": True}:
            message.ClearField(name)
        elif isinstance(value, dict) and message.DESCRIPTOR.fields_by_name[name].message_type is not None:
            getattr(message, name).SetInParent()
            _change(getattr(message, name), value)
        else:
            message.ClearField(name)
            frames.fill(message, {name: value})
