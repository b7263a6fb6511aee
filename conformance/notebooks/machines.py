"""What the declarations of a proposal say, as tables and pictures: the transitions of its machines, and its two profiles."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields
from enum import Enum
from typing import Any

from conformance.notebooks.shown import Shown, table
from conformance.notebooks.state_diagram import states
from refimpl.proposals import PROPOSALS


def state_diagram(transitions: Iterable[Any], *, without: Collection[Enum] = (), conditions: bool = False, title: str) -> Shown:
    """Draw a transition table.

    Args:
        transitions: Rows with `state`, `event`, `condition` and `target`.
        without: Events that are left out, such as those that every state accepts.
        conditions: Whether arrows say under which condition they hold.
        title: Text for readers who can't see the picture.
    """
    rows = []
    for one in transitions:
        event = f"{one.event.name} if {one.condition}" if conditions and one.condition else one.event.name
        if one.event not in without:
            rows.append((one.state.name, event, one.target.name))
    return states(rows, title=title)


def state_table(transitions: Iterable[Any]) -> Shown:
    """Show a transition table, with what each event is and what the peer sends.

    Args:
        transitions: Rows with `state`, `event`, `condition`, `target` and `send`.
    """
    rows = [
        (one.state.name, one.event.name, one.event.value, one.condition, one.target.name, one.send.name if one.send else "")
        for one in transitions
    ]
    heads = ["state", "event", "which is", "if", "next state", "sends"]
    return table(heads, rows, code=["state", "event", "if", "next state", "sends"])


def profiles(register: str) -> Shown:
    """Show the fields of the profiles of a proposal, with their values in both.

    Args:
        register: Such as `pip145`.
    """
    (proposal,) = (one for one in PROPOSALS if one.register == register)
    default, written = proposal.profiles["default"], proposal.profiles["as-written"]
    rows = [(one.name, str(getattr(default, one.name)), str(getattr(written, one.name))) for one in fields(default)]
    return table(["field", "default", "as-written"], rows, code=["field"])
