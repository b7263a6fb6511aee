"""A target that goes away in the middle of a run: since when it was gone, and which conversations say nothing because of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from conformance.engine import log
from conformance.engine.verdict import Outcome, TrialLog, Verdict
from conformance.running.conversation import TargetLost
from conformance.running.probe import is_served
from conformance.targets.model import ConnectRefused, Endpoint, TargetError

MAY_BE_GONE = frozenset({"late", "harness", "closed", "garbage"})
"""Kinds of failures behind which the target is asked whether it is still there."""
_LAST_SECONDS = 3.0
"""A target that is stopped refuses first, and closes its connections then: failures of so many seconds before it was gone do not count."""


class Gone(TargetLost):
    """The target serves no connections any more.

    Args:
        key: The conversation that noticed it.
        problem: How it was noticed. A broker that refuses CONNECT is still there: a token may have expired.
        what: What is gone; the broker may serve connections when its admin interface does not answer.
    """

    def __init__(self, key: str, problem: TargetError, what: str = "the broker") -> None:
        refused = isinstance(problem, ConnectRefused)
        super().__init__(str(problem) if refused else problem.message)
        self.key = key
        self.what = f"{what} {'began to refuse connections' if refused else 'went away'}"


async def first_gone(key: str, brokers: Iterable[Endpoint], given: Endpoint) -> Gone | None:
    """Find out whether one of the brokers on which a conversation depends takes no new connection any more.

    Args:
        key: The conversation.
        brokers: The brokers.
        given: The one that the user named.
    """
    for broker in brokers:
        problem = await is_served(broker)
        if problem is not None:
            return Gone(key, problem, which_broker(broker, given))
    return None


def which_broker(gone: Endpoint, given: Endpoint) -> str:
    """Name what is gone: the broker of the address that the user gave, or another one of its cluster."""
    return "the broker" if gone.broker == given.broker else f"the broker at {gone.broker}, to which look-ups lead,"


@dataclass(frozen=True)
class Loss:
    """Why a run ended.

    Attributes:
        text: The reason, with time and case.
        in_flight: The keys of the conversations that do not count.
    """

    text: str = ""
    in_flight: tuple[str, ...] = ()


def loss(trial_logs: Mapping[str, TrialLog], outcomes: Mapping[str, Outcome], served: Collection[str], gone: Gone) -> Loss:
    """Find out what a target that went away leaves behind.

    It was gone when it closed the first connection on a conversation that failed by that, and at the latest after its last frame.

    Args:
        trial_logs: All conversations of the run.
        outcomes: What those came to that have ended.
        served: Those behind whose failure the target was still there.
        gone: How it was noticed.
    """
    closed = {key: time for key, one in outcomes.items() if key not in served and (time := _closed_at(one, trial_logs[key])) is not None}
    last = max((event.t for one in trial_logs.values() for event in one.events if isinstance(event, log.Frame)), default=0.0)
    since = min(closed.values(), default=last)
    first = min(closed, key=closed.__getitem__, default=gone.key)
    in_flight = tuple(key for key, one in trial_logs.items() if _in_flight(one, outcomes.get(key), min(since, last)))
    others = sum(trial_logs[key].begin.t <= since for key in in_flight if key != first)
    what = f"it and {others} more at that time do" if others else "it does"
    return Loss(f"{gone.what} at {since:.1f} s during {first.partition('#')[0]}: {gone}; {what} not count", in_flight)


def _closed_at(outcome: Outcome, trial_log: TrialLog) -> float | None:
    """Return when a conversation failed because its connection was closed; None if it did not."""
    diagnosis = outcome.diagnosis
    if diagnosis is None or diagnosis.kind not in ("closed", "garbage"):
        return None
    return next((event.t for event in trial_log.events if event.n == diagnosis.event), None)


def _in_flight(trial_log: TrialLog, outcome: Outcome | None, since: float) -> bool:
    if outcome is None or trial_log.finished is None:
        return True
    last = max((event.t for event in trial_log.events), default=trial_log.finished.t)
    return last > since - (0.0 if outcome.verdict == Verdict.PASS else _LAST_SECONDS)
