"""Serves a broker on the network for the duration of a block: the binary protocol and the admin interface."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from ipaddress import IPv4Address
from typing import Any

from refimpl.broker import Broker, Configuration, Member
from refimpl.net.admin_http import AdminServer
from refimpl.net.driver import Driver
from refimpl.net.fault_switches import FaultSwitches
from refimpl.net.server import Server
from refimpl.net.tls import server_context
from refimpl.proposals import message_filter, uniform_batches
from refimpl.proposals.message_filter import FilterRegistry
from refimpl.proposals.profiles import DEFAULT, Profiles
from refimpl.proposals.uniform_batches import EntryFilterFactory
from refimpl.store import MemoryStore


@dataclass(frozen=True)
class Serving:
    """A running broker on the network.

    Attributes:
        driver: The driver of the broker; use it only on its event loop.
        service_url: "pulsar://127.0.0.1:PORT".
        admin_url: "http://127.0.0.1:PORT".
        service_url_tls: "pulsar+ssl://127.0.0.1:PORT"; None without `brokerServicePortTls`.
        admin_url_tls: "https://127.0.0.1:PORT"; None without `webServicePortTls`.
        members: The brokers of the cluster, the first one with these addresses.
    """

    driver: Driver
    service_url: str
    admin_url: str
    service_url_tls: str | None
    admin_url_tls: str | None
    members: Sequence[Member]


@contextlib.asynccontextmanager
async def serving(
    configuration: Configuration | None = None,
    *,
    profiles: Profiles = DEFAULT,
    store: MemoryStore | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    admin_port: int = 0,
    filter_registry: FilterRegistry | None = None,
    log: Callable[[str], None] | None = None,
    entry_filters: Mapping[str, EntryFilterFactory] | None = None,
    faults: FaultSwitches | None = None,
    brokers: int = 1,
) -> AsyncIterator[Serving]:
    """Serve a broker.

    Args:
        configuration: The settings.
        profiles: Which reading of each proposal the broker speaks.
        store: The store, for example that of an earlier broker.
        host: The IPv4 address to listen on. The answers to LOOKUP contain it, unless `advertisedAddress` names another host.
        port: TCP port of the binary protocol; 0: a free one.
        admin_port: TCP port of the admin interface; 0: a free one.
        filter_registry: The available message filters; None: `installed_message_filters`.
        log: Called with a line for each notable event.
        entry_filters: Entry filters by name; they run after the built-in ones and those of installed distributions.
        faults: What a test switches on between the broker and its clients.
        brokers: Of how many brokers the cluster is. Those after the first one are on free ports, and without TLS.

    Returns:
        The running broker; it accepts connections already.

    Raises:
        OSError: A port is in use; `filename` names it.
        ValueError: Settings of the configuration contradict each other, or name files that can't be used.
    """
    configuration = configuration or Configuration()
    tls_ports = configuration.broker_service_port_tls, configuration.web_service_port_tls
    context = server_context(configuration) if any(tls_ports) else None
    async with contextlib.AsyncExitStack() as stack:
        service, admin = (stack.enter_context(_listening(host, number)) for number in (port, admin_port))
        service_tls, admin_tls = (stack.enter_context(_listening(host, int(number))) if number else None for number in tls_ports)
        others = [[stack.enter_context(_listening(host, 0)) for _ in range(2)] for _ in range(brokers - 1)]
        told = configuration.advertised_address or ("127.0.0.1" if IPv4Address(host).is_unspecified else host)
        service_url, admin_url = _url("pulsar", told, service), _url("http", told, admin)
        service_url_tls = _url("pulsar+ssl", told, service_tls) if service_tls else None
        admin_url_tls = _url("https", told, admin_tls) if admin_tls else None
        members = [
            Member(service_url, admin_url, service_url_tls),
            *(Member(_url("pulsar", told, one), _url("http", told, two)) for one, two in others),
        ]
        broker = Broker(
            configuration,
            store=store,
            profiles=profiles,
            members=members,
            log=log,
            wall_clock_offset=time.time() - asyncio.get_running_loop().time(),
            plugins=installed_plugins(filter_registry, entry_filters, log),
        )
        driver = Driver(broker, log=log, faults=faults)
        stack.callback(driver.close)
        for member, listening in zip(members, ((service, admin), *others), strict=True):
            server, admin_server = Server(driver, member), AdminServer(driver, member)
            stack.push_async_callback(server.close)
            server.listen(listening[0])
            stack.push_async_callback(admin_server.close)
            await admin_server.listen(listening[1])
            if member is members[0] and service_tls is not None:
                server.listen(service_tls, context)
            if member is members[0] and admin_tls is not None:
                await admin_server.listen(admin_tls, context)
        yield Serving(driver, service_url, admin_url, service_url_tls, admin_url_tls, members)


def installed_plugins(
    filter_registry: FilterRegistry | None = None,
    entry_filters: Mapping[str, EntryFilterFactory] | None = None,
    log: Callable[[str], None] | None = None,
) -> Mapping[str, Any]:
    """Return what proposals take from installed distributions, by their registers: the `plugins` of a broker.

    Args:
        filter_registry: The available message filters; None: `installed_message_filters`.
        entry_filters: Entry filters by name, behind those of installed distributions.
        log: Called with a line for each that can't be loaded.
    """
    registry = filter_registry or installed_message_filters(log)
    filters = {**installed_entry_filters(log), **(entry_filters or {})}
    return {message_filter.PROPOSAL.register: registry, uniform_batches.PROPOSAL.register: filters}


def installed_message_filters(log: Callable[[str], None] | None = None) -> FilterRegistry:
    """Return the built-in message filters and those of installed distributions.

    Args:
        log: Called with a line for each entry point that fails to load.
    """
    registry = FilterRegistry(message_filter.BUILT_IN, entry_points(group=message_filter.ENTRY_POINT_GROUP))
    if log is not None:
        for name, problem in registry.problems.items():
            log(f"message filter {name}: {problem}")
    return registry


def installed_entry_filters(log: Callable[[str], None] | None = None) -> Mapping[str, EntryFilterFactory]:
    """Return the built-in entry filters and those of installed distributions.

    Args:
        log: Called with a line for each entry point that fails to load.
    """
    installed = entry_points(group=uniform_batches.ENTRY_POINT_GROUP)
    return uniform_batches.with_entry_points(installed, log or (lambda _: None))


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), f"{host}:{port}") from None


def _url(scheme: str, host: str, listening: socket.socket) -> str:
    return f"{scheme}://{host}:{listening.getsockname()[1]}"
