"""Whether a driver may be believed: what it says that its client has done has left frames in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.engine import log
from conformance.engine.client_steps import DRIVER, RESULT
from conformance.engine.matching import see
from conformance.engine.node import USER
from refimpl.wire import command_name

_WITHOUT_FRAMES: Final = ("start", "refresh")
"""The verbs that a client may carry out without a connection."""


_NOTHING_YET: Final = frozenset({"", "connect", "authResponse", "ping", "pong", "partitionMetadata", "lookupTopic"})
"""Commands after which there is no producer yet, and no consumer."""


@dataclass
class _Owed:
    """What a client must have sent before all that it was asked can be done.

    Attributes:
        requests: How much it was asked.
        names: The commands that it has sent.
    """

    requests: int = 0
    names: set[str] = field(default_factory=set)
    _attaches: bool = False
    _texts: int = 0

    def ask(self, request: Mapping[str, Any]) -> None:
        self.requests += 1
        self._attaches = self._attaches or not {"producer", "consumer"}.isdisjoint(request)
        sending = request.get("send")
        if isinstance(sending, Mapping) and sending.get("flush", True):
            self._texts += len(sending.get("texts", ()))

    def missing(self, sent: int) -> str | None:
        if self._attaches and self.names <= _NOTHING_YET:
            return "the driver says that its client has a producer or a consumer, but the client has asked for none"
        if self._texts > sent:
            return f"the driver says that its client has sent {self._texts:,} messages, but it has sent {sent:,}"
        return None


def untrue(events: Iterable[log.Event]) -> str | None:
    """Find what a driver says that can't be.

    A broken driver answers without asking its client. Who is never connected breaks no rule, so that a case would pass.

    Args:
        events: The events of one conversation with a client, in their order.

    Returns:
        What it says, and what was not there; None: it may be believed.
    """
    done = without_frames = sent = stored = 0
    said_something = delivered = asked = False
    owed = _Owed()
    for event in events:
        if isinstance(event, log.Begin) and event.what == "drive":
            asked = True
            owed.ask(event.detail)
            without_frames += any(verb in event.detail for verb in _WITHOUT_FRAMES)
        elif isinstance(event, log.Begin) and event.what == "send":
            delivered = True  # the case itself sends; what, its expectations look at
        elif isinstance(event, log.Frame | log.Passed):
            frame = see(event).frame
            command = None if frame is None else frame.command
            if isinstance(event, log.Passed):
                delivered = delivered or command is None or command.HasField("message")
            else:
                said_something = True
                owed.names.add(command_name(command) if command is not None and command.HasField("type") else "")
                if command is not None and command.HasField("send"):
                    sent += max(1, command.send.num_messages)
        elif isinstance(event, log.Told) and event.at == DRIVER and event.what == RESULT and event.detail.get("ok"):
            done += 1
            result = event.detail.get("result")
            ids = result.get("ids") if isinstance(result, dict) else None
            stored += len(ids) if isinstance(ids, list) else 0
            if done > without_frames and not said_something:
                return "the driver says that its client has done what it was asked, but the client has sent nothing"
            if done == owed.requests and (missing := owed.missing(sent)) is not None:
                return missing
            if stored > sent:
                return f"the driver says that {stored:,} messages are stored, but its client has sent {sent:,}"
        elif isinstance(event, log.Told) and event.at == USER and event.what == "message" and not delivered:
            return "the driver reports a message before one was delivered to its client"
    return None if said_something or not asked else "the client has sent nothing, whatever it was asked"
