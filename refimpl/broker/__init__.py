"""A broker without I/O: sessions, topics, subscriptions, dispatch, authorization, administration."""

from refimpl.broker.broker import PROPOSALS, Broker
from refimpl.broker.configuration import Configuration
from refimpl.broker.errors import AdminRefused
from refimpl.broker.session import Session

__all__ = ["PROPOSALS", "AdminRefused", "Broker", "Configuration", "Session"]
