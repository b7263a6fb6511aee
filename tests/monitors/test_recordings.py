"""Monitors over all conversations with releases that are kept: what brokers do wrong there is known, and each reason explains something."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from conformance.engine.overheard import Overheard, overhear
from conformance.monitors import MONITORS
from conformance.monitors.explained import explanations, is_explained
from conformance.running import recorder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", name="heard")
def all_heard() -> dict[str, Overheard]:
    """Let monitors hear every conversation; by release and conversation."""
    found = {}
    for target in recorder.targets():
        run = recorder.load_target(target)
        assert run is not None
        found.update({f"{target} {key}": overhear(trial.events, "broker") for key, trial in run.trial_logs.items()})
    return found


def of(name: str) -> str:
    return name.partition(" ")[2]


def test_what_monitors_find_is_explained(heard: dict[str, Overheard]) -> None:
    found = [(name, one.clause, one.text) for name, heard_of in heard.items() for one in heard_of.breaches]
    assert [one for one in found if not is_explained(of(one[0]), one[1])] == []


def test_each_explanation_explains_something_and_leads_to_a_finding(heard: dict[str, Overheard]) -> None:
    found = {(of(name), one.clause) for name, heard_of in heard.items() for one in heard_of.breaches}
    assert [entry for entry in explanations() if not any(entry.covers(*one) for one in found)] == []
    assert [entry.link for entry in explanations() if not entry.reason.endswith(".") or not (ROOT / entry.link).is_file()] == []


def test_recordings_have_much_to_say_to_each_monitor_of_brokers(heard: dict[str, Overheard]) -> None:
    judged = sum((one.judged for one in heard.values()), Counter[str]())
    brokers = {clause for kind in MONITORS if kind.side == "broker" for clause in kind.clauses}
    assert brokers - {clause for clause, count in judged.items() if count >= 100} == {"pip247.flag.nothing-unasked", "pip247.version.grows"}


@pytest.mark.parametrize("data", ["cut", "no frame"])
def test_a_send_that_the_log_has_in_part_makes_what_it_said_unknown(data: str) -> None:
    run = recorder.load_target(recorder.SHOWN_TARGET)
    assert run is not None
    trial = next(one for key, one in run.trial_logs.items() if key.startswith("core/send/receipts#"))
    assert overhear(trial.events, "broker").judged["core.send.ids-unchanged"] > 0
    changed = [
        event.model_copy(update={"data": event.data[:64] + ".." + event.data[-8:] if data == "cut" else "ff" * 8})
        if getattr(event, "what", None) == "send" and event.data is not None and len(event.data) > 100
        else event
        for event in trial.events
    ]
    assert changed != trial.events
    assert overhear(changed, "broker").breaches == []
