"""Why a failure says nothing of the target: a call that it need not have, a frame that it need not take, something that was late."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from conformance.engine import log
from conformance.engine.diagnosis import Diagnosis
from conformance.engine.machine import Failure
from conformance.engine.matching import see
from conformance.engine.program import Program
from conformance.engine.statuses import (
    BUNDLE_REFUSED,
    CONFLICT,
    COUNT_REFUSED,
    NAME_REFUSED,
    NO_SUCH_PATH,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_OFFERED,
)
from refimpl.wire import FRAME_PADDING
from refimpl.wire.pulsar_api_pb2 import ServerError

_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
"""What a broker may refuse in the name of a topic: blanks and control characters. No text says which characters it must take."""
LATE_LIMIT: Final = 1.0
"""Seconds by which the harness or an admin call may be late before a case that speaks of time can't be judged."""
LINK_LATE_LIMIT: Final = 0.3
"""The same for the answer to CONNECT, which shows how long bytes take."""
STALLED: Final = 5.0
"""Seconds by which the harness may be late before a peer may have acted by its own clock: sent again what was not answered, closed a
connection that was silent."""
_AT_ONCE: Final = frozenset({"connected", "lookupTopicResponse", "partitionMetadataResponse", "pong", "send_receipt"})
"""Answers for which a peer has nothing to wait. No recorded one comes later than `LATE_LIMIT`, unless the machine was busy."""
_LIMITS: Final = {
    "Encryption is required": "the target takes producers with encryption only (encryptionRequireOnProducer)",
    "max same address producers limit": "the target takes fewer producers of a topic from one host (maxSameAddressProducersPerTopic)",
    "max same address consumers limit": "the target takes fewer consumers of a topic from one host (maxSameAddressConsumersPerTopic)",
    "max allowed delivery delay": "the target takes no message with such a delay (delayedDeliveryMaxDelayInMillis)",
}
"""What Apache Pulsar says where a setting keeps it from doing something, and what that means."""
_BY_ITS_CLOCK: Final = frozenset({"closed", "unexpected", "twice", "differs", "silence"})
"""Kinds of failures by which that shows."""


def still_in_use(trouble: log.Event | None, events: Iterable[log.Event]) -> bool:
    """Tell whether a namespace was not deleted because something of it is left, which a broker may take a minute for."""
    if not isinstance(trouble, log.End) or trouble.problem is None or trouble.status != CONFLICT:
        return False
    calls = next((event.detail for event in events if isinstance(event, log.Begin) and event.step == trouble.step), {})
    return any("delete_namespace" in call for call in calls.get("calls", [calls]))


def not_offered(failure: Failure, events: Iterable[log.Event]) -> str | None:
    """Say which call a conversation needs that the admin interface does not have, or not for this user; None: the trouble is another one.

    Where a clause speaks of the answer, 404 is an answer, with a reason or without.
    """
    trouble = failure.event
    if not isinstance(trouble, log.End) or trouble.status is None:
        return None
    reason = trouble.body.get("reason") or trouble.body.get("message") if isinstance(trouble.body, dict) else trouble.body
    said = str(reason or "").strip()
    judged = failure.action is not None and failure.action.clause is not None
    no_such_path = not judged and trouble.status == NOT_FOUND and NO_SUCH_PATH.fullmatch(said) is not None
    not_allowed = not judged and trouble.status in NOT_ALLOWED
    detail = next((event.detail for event in events if isinstance(event, log.Begin) and event.step == trouble.step), {})
    if not judged and trouble.status in NAME_REFUSED and (odd := _odd_name(detail)) is not None:
        return f"the target takes no topic named {odd!r}: it answers {trouble.status}"
    if not judged and trouble.status in COUNT_REFUSED and "partitions" in said and (count := _partitions(detail)) is not None:
        return f"the target takes no topic with {count} partitions: it answers {trouble.status} {said}"
    calls = [str(name) for call in detail.get("calls", [detail]) for name in call]
    if not judged and trouble.status in BUNDLE_REFUSED and "unload_bundle" in calls:
        return f"the target does not divide namespaces into the bundles of the case: it answers {trouble.status} {said}"
    if trouble.status not in NOT_OFFERED and not no_such_path and not not_allowed:
        return None
    if not_allowed:
        return f"the user may not call {calls[0] if calls else 'this'}: the admin interface answers {trouble.status}"
    words = f" {said}" if said and trouble.status in NOT_OFFERED and isinstance(trouble.body, dict) else ""
    return f"the admin interface of the target has no {calls[0] if calls else 'such call'}: it answers {trouble.status}{words}"


def _odd_name(detail: Mapping[str, Any]) -> str | None:
    """Return the name of a topic that is to be created, if it has characters that a broker may refuse."""
    for call in detail.get("calls", [detail]):
        for operation, given in call.items():
            name = given.get("topic") if isinstance(given, Mapping) else given
            if operation.startswith("create_") and isinstance(name, str) and _BLANK.search(name):
                return name
    return None


def _partitions(detail: Mapping[str, Any]) -> int | None:
    """Return how many partitions a topic is to have, as far as a call says so."""
    calls = [call for call in detail.get("calls", [detail]) if isinstance(call, Mapping)]
    counts = [given["partitions"] for call in calls for given in call.values() if isinstance(given, Mapping) and "partitions" in given]
    return max(counts, default=None)


def beyond(diagnosis: Diagnosis, events: Sequence[log.Event]) -> str | None:
    """Say that the peer takes no frame as large as one that it was sent, if that is why it closed a connection."""
    trouble = next((event for event in events if event.n == diagnosis.event), None)
    if not isinstance(trouble, log.Closed):
        return None
    limit = next((size for one in events if (size := _announced(one, trouble.at))), 0)
    sent = [_first_frame(one) for one in events if isinstance(one, log.Begin) and one.what == "send" and one.at == trouble.at]
    if not limit or max(sent, default=0) <= limit + FRAME_PADDING:
        return None
    return f"the target announces max_message_size {limit} in CONNECTED, and closes the connection on a frame of {max(sent)} bytes"


def _announced(event: log.Event, at: str) -> int:
    """Return the limit that CONNECTED tells on a connection; 0: the event is another one, or tells none."""
    frame = see(event).frame if isinstance(event, log.Frame) and event.at == at else None
    return int(frame.command.connected.max_message_size) if frame is not None else 0


def _first_frame(begin: log.Begin) -> int:
    """Return how many bytes the first frame of what was sent has."""
    return min(begin.size or 0, 4 + int((begin.data or "")[:8] or "0", 16))


def limited(diagnosis: Diagnosis, events: Iterable[log.Event]) -> str | None:
    """Say which setting of the peer keeps it from doing what it refuses, if its words name one that no policy of a namespace lifts."""
    trouble = next((event for event in events if event.n == diagnosis.event), None)
    frame = see(trouble).frame if isinstance(trouble, log.Frame) and diagnosis.kind in ("unexpected", "differs") else None
    if frame is None:
        return None
    words = frame.command.error.message + frame.command.send_error.message
    return next((setting for part, setting in _LIMITS.items() if part in words), None)


def no_room(diagnosis: Diagnosis, events: Iterable[log.Event]) -> bool:
    """Tell whether the peer had no room for a request beside others: it says so, where nothing asks for an error, or because of a rate."""
    trouble = next((event for event in events if event.n == diagnosis.event), None)
    frame = see(trouble).frame if isinstance(trouble, log.Frame) and diagnosis.kind in ("unexpected", "differs") else None
    if frame is None or not frame.command.HasField("error"):
        return False
    error = frame.command.error
    if diagnosis.kind == "differs":
        return "rate limit" in error.message
    return "rate limit" in error.message or error.error == ServerError.TooManyRequests or "maximum number of connections" in error.message


def may_be_lateness(program: Program, diagnosis: Diagnosis, events: Sequence[log.Event]) -> bool:
    """Tell whether a failure may come from something late of which no clause speaks."""
    if diagnosis.kind == "late" and diagnosis.clause is None and lagged(events):
        return True
    if diagnosis.kind in _BY_ITS_CLOCK and any(isinstance(event, log.Lag) and event.seconds > STALLED for event in events):
        return True
    if diagnosis.kind == "twice" and _slow_call(events, STALLED):
        return True
    stood_still = program.role == "broker" and _stood_still(events, diagnosis.event)  # what a client gets, the case may keep back
    return (diagnosis.timed or program.speaks_of_time) and (was_late(events) or stood_still)


def lagged(events: Iterable[log.Event]) -> bool:
    """Tell whether the harness was late at all."""
    return any(isinstance(event, log.Lag) for event in events)


def was_late(events: Sequence[log.Event]) -> bool:
    """Tell whether something was late of which no clause speaks: the harness, an admin call, the answer to CONNECT."""
    if any(isinstance(event, log.Lag) and event.seconds > LATE_LIMIT for event in events) or _slow_call(events, LATE_LIMIT):
        return True
    return _slow_link(events)


def _slow_link(events: Iterable[log.Event]) -> bool:
    """Tell whether the answer to CONNECT, which shows how long bytes take, came late on any connection."""
    first_sent: dict[str, float] = {}
    for event in events:
        if isinstance(event, log.Begin) and event.what == "send":
            first_sent.setdefault(event.at or "", event.t)
        elif isinstance(event, log.Frame) and event.at in first_sent and see(event).name == "connected":
            sent = first_sent.pop(event.at)
            if event.t - sent > LINK_LATE_LIMIT:
                return True
    return False


def _stood_still(events: Iterable[log.Event], failed: int | None) -> bool:
    """Tell whether the peer stood still before the failure: an answer came late for which it has nothing to wait."""
    sent: dict[str, float] = {}
    for event in events:
        if event.n == failed:
            return False
        if isinstance(event, log.Begin) and event.what == "send":
            sent[event.at or ""] = event.t
        elif isinstance(event, log.Frame) and event.t - sent.get(event.at, event.t) > LATE_LIMIT and see(event).name in _AT_ONCE:
            return True
    return False


def _slow_call(events: Iterable[log.Event], limit: float) -> bool:
    """Tell whether a call of the admin interface took longer than so many seconds: a case sends nothing meanwhile."""
    begun: dict[str, log.Begin] = {}
    for event in events:
        if isinstance(event, log.Begin) and event.what == "admin":
            begun[event.step] = event
        elif isinstance(event, log.End) and event.step in begun:
            calls = len(begun[event.step].detail.get("calls", ())) or 1
            if event.t - begun[event.step].t > calls * limit:
                return True
    return False
