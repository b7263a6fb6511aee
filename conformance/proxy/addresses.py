"""Answers that say where a topic is served, changed so that a client stays on the proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from refimpl.wire import command_name
from refimpl.wire.pulsar_api_pb2 import BaseCommand

Places = Iterator[tuple[Any, str]]
"""Messages, each with the name of the field of an address in them. The field of the TLS address has the same name with an ending."""


def _look_up(answer: Any) -> Places:
    yield answer, "brokerServiceUrl"


def _closed(close: Any) -> Places:
    yield close, "assignedBrokerServiceUrl"


def _segments(update: Any) -> Places:
    yield update.dag, "controller_broker_url"
    for place in update.dag.segment_brokers:
        yield place, "broker_url"


def _coordinators(update: Any) -> Places:
    for assignment in update.snapshot.assignments:
        yield assignment, "broker_service_url"


_PLACES: Mapping[str, Callable[[Any], Places]] = {
    "lookupTopicResponse": _look_up,
    "topicMigrated": _look_up,
    "close_producer": _closed,
    "close_consumer": _closed,
    "scalableTopicUpdate": _segments,
    "watchTcAssignmentsUpdate": _coordinators,
}
LEADING = frozenset(_PLACES)
"""The commands of a broker that have addresses."""


def lead_back(command: BaseCommand, lead: Callable[[str, bool], str | None], *, tls: bool, to_tls: bool = False) -> bool:
    """Change the addresses in a command of a broker.

    Args:
        command: The command; one of `LEADING`.
        lead: Takes the address of a broker, and whether clients reach it through the service URL; gives the address of the proxy that leads
            there, or None: the address stays.
        tls: Whether the proxy goes to brokers with TLS.
        to_tls: Whether clients come to the proxy with TLS.

    Returns:
        Whether something was changed.
    """
    name = command_name(command)
    message = getattr(command, name)
    changed = False
    for holder, field in _PLACES[name](message):
        of_tls = f"{field}Tls" if "Url" in field else f"{field}_tls"
        url = getattr(holder, of_tls if tls else field)
        proxied = name == "lookupTopicResponse" and message.proxy_through_service_url
        address = lead(url, proxied) if url else None
        if address is None:
            continue
        setattr(holder, of_tls if to_tls else field, address)
        holder.ClearField(field if to_tls else of_tls)
        if not holder.IsInitialized():  # where the plain address is required
            setattr(holder, field, "")
        if proxied:
            message.proxy_through_service_url = False
        changed = True
    return changed
