"""The words for harm between a client and a broker: for the switches of the embedded broker, and for a proxy.

    drop COMMAND                    the command is lost
    twice COMMAND                   it comes twice
    delay TIME COMMAND              it is held back, with all that follows it in its direction: 200ms, 1.5s
    refuse COMMAND CODE             a request is refused; the broker does not see it
    cut after N COMMAND             the connection ends behind each Nth of them

Each may end with `once` or `N times`; otherwise it lasts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from google.protobuf.message import Message

from refimpl.broker.requests import refusal
from refimpl.proposals.refused import Refused
from refimpl.wire import FIELD_BY_TYPE, TYPE_BY_FIELD, sub_message
from refimpl.wire.commands import did_you_mean
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandAck,
    CommandAckResponse,
    CommandConnect,
    CommandError,
    CommandSend,
    CommandSendError,
    ServerError,
)

REFUSED = "refused by a test"
"""The text of a refusal."""
_NO_REQUEST = 2**64 - 1
"""The request_id of the ERROR that refuses CONNECT."""
_SPELLINGS = {
    spelling.replace("_", "").lower(): name for number, name in FIELD_BY_TYPE.items() for spelling in (name, BaseCommand.Type.Name(number))
}
"""The field of each command in `BaseCommand`, by this name and by that of its type, in lower case and without underscores."""
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")
_LONGEST = 3600.0
_FORMS = "drop COMMAND, twice COMMAND, delay TIME COMMAND, refuse COMMAND CODE, cut after N COMMAND; `once` or `N times` may follow"


@dataclass
class Switch:
    """What happens to the next commands of a kind.

    Attributes:
        command: The field in `BaseCommand`.
        kind: What happens.
        left: How many times; None: as often as they come.
        seconds: For how long a command is delayed.
        refused: How it is refused.
        after: How many of them a cut takes.
        counted: Of these, how many have come.
    """

    command: str
    kind: Literal["refuse", "drop", "twice", "delay", "cut"]
    left: int | None = None
    seconds: float = 0.0
    refused: Refused | None = None
    after: int = 1
    counted: int = 0

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: One is out of its range.
        """
        if self.left is not None and self.left < 1:
            raise ValueError(f"times is at least 1, not {self.left}")
        if self.after < 1:
            raise ValueError(f"a cut comes after at least 1 command, not {self.after}")
        if not 0 <= self.seconds <= _LONGEST:
            raise ValueError(f"a delay is at least 0 s and at most {_LONGEST:g} s, not {self.seconds:g}")

    def __str__(self) -> str:
        """Write it in the words above, without what it has used up."""
        about = {"cut": f"cut after {self.after}", "delay": f"delay {self.seconds * 1e3:g}ms"}.get(self.kind, self.kind)
        name = BaseCommand.Type.Name(TYPE_BY_FIELD[self.command])
        code = "" if self.refused is None else f" {ServerError.Name(self.refused.code)}"
        left = "" if self.left is None else " once" if self.left == 1 else f" {self.left} times"
        return f"{about} {name}{code}{left}"


def read_switch(text: str) -> Switch:
    """Read a fault as it is written above.

    Args:
        text: Such as `delay 200ms watchTopicUpdate`.

    Raises:
        ValueError: It can't be understood; the message says what is wrong, and what may be written.
    """
    words = text.split()
    left = None
    if words[-1:] == ["once"]:
        words, left = words[:-1], 1
    elif len(words) > 2 and words[-1] in ("time", "times"):
        words, left = words[:-2], _number(words[-2], text)
    match words:
        case ["drop" | "twice" as kind, name]:
            return Switch(field_of(name), kind, left)
        case ["delay", time, name]:
            return Switch(field_of(name), "delay", left, seconds=_seconds(time, text))
        case ["refuse", name, code]:
            return refusing(name, code, left=left)
        case ["cut", "after", number, name]:
            return Switch(field_of(name), "cut", left, after=_number(number, text))
    raise ValueError(f"{text!r} is no fault; there are: {_FORMS}")


def refusing(command: str, error: str, message: str = REFUSED, left: int | None = None) -> Switch:
    """Return the switch that refuses requests.

    Raises:
        ValueError: There is no such command or code, or the command has no answer.
    """
    if error not in ServerError.keys():  # noqa: SIM118 (an enum has no `in`)
        raise ValueError(f"no error is called {error!r}{did_you_mean(error, ServerError.keys())}")
    name = field_of(command)
    request = getattr(BaseCommand(), name)
    if "request_id" not in request.DESCRIPTOR.fields_by_name and not isinstance(request, CommandConnect | CommandSend):
        raise ValueError(f"{command} has no answer that could refuse it; drop it instead")
    return Switch(name, "refuse", left, refused=Refused(ServerError.Value(error), message))


def field_of(command: str) -> str:
    """Return the field in `BaseCommand` of a command: `SEND_RECEIPT` and `send_receipt` name the same, LOOKUP is `lookupTopic`, too.

    Raises:
        ValueError: There is no such command.
    """
    name = _SPELLINGS.get(command.replace("_", "").lower())
    if name is None:
        raise ValueError(f"no command is called {command!r}{did_you_mean(command.upper(), map(BaseCommand.Type.Name, FIELD_BY_TYPE))}")
    return name


def refusal_of(command: BaseCommand, refused: Refused) -> Message:
    """Return the answer that refuses a request, in the form that belongs to it."""
    request = sub_message(command)
    if isinstance(request, CommandConnect):
        return CommandError(request_id=_NO_REQUEST, error=refused.code, message=refused.message)  # type: ignore[arg-type]
    if isinstance(request, CommandSend):
        numbers = {"producer_id": request.producer_id, "sequence_id": request.sequence_id}
        return CommandSendError(**numbers, error=refused.code, message=refused.message)  # type: ignore[arg-type]
    if isinstance(request, CommandAck):
        numbers = {"consumer_id": request.consumer_id, "request_id": request.request_id}
        return CommandAckResponse(**numbers, error=refused.code, message=refused.message)  # type: ignore[arg-type]
    return refusal(request, refused)


def _number(word: str, text: str) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise ValueError(f"{text!r}: {word!r} is no number")
    return int(word)


def _seconds(word: str, text: str) -> float:
    found = _TIME.fullmatch(word)
    if found is None:
        raise ValueError(f"{text!r}: {word!r} is no time; write 200ms or 1.5s")
    return float(found[1]) * (1e-3 if found[2] == "ms" else 1.0)
