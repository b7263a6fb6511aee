"""Monitors: rules that hold in any conversation between a client and a broker, tied to clauses. No sockets, no clocks.

    frames of both sides --> Monitors --> breaches: which clause, which side, on which connection, when

What was not seen is unknown, and never a breach: a conversation may begin in the middle, have gaps, or be cut.
"""

from conformance.monitors.conversation import MONITORS, Monitors, monitors_of
from conformance.monitors.model import Breach, Side

__all__ = ["MONITORS", "Breach", "Monitors", "Side", "monitors_of"]
