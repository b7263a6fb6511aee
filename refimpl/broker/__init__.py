"""A broker without I/O: sessions, topics, subscriptions, dispatch, authorization, administration."""

from refimpl.broker.broker import PROPOSALS, Broker
from refimpl.broker.members import Member
from refimpl.broker.session import Session
from refimpl.configuration import Configuration
from refimpl.proposals.refused import AdminRefused

__all__ = ["PROPOSALS", "AdminRefused", "Broker", "Configuration", "Member", "Session"]
