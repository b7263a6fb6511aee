"""A broker inside a program, for tests of clients.

    with EmbeddedBroker() as broker:                 # in its own thread
        client = pulsar.Client(broker.service_url)

    async with EmbeddedBroker() as broker:           # on the running event loop
        ...

It listens on ports of 127.0.0.1, free ones if none is named. Several embedded brokers are independent of each other. With `stop` and
`start` a test sees how its client bears a restart, with `faults` what it makes of refusals, delays and losses.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from refimpl.broker import Broker, Configuration
from refimpl.net.fault_switches import FaultSwitches
from refimpl.net.serving import Serving, serving
from refimpl.proposals.profiles import PROFILES, profile_name
from refimpl.proposals.uniform_batches import EntryFilterFactory
from refimpl.store import MemoryStore

T = TypeVar("T")


class EmbeddedBroker:
    """A broker on 127.0.0.1 for the duration of a block; each block starts a new, empty one.

    Args:
        config: Settings by their names in Pulsar's broker.conf.
        profile: `default`: what real peers speak; `as-written`: the texts of the proposals.
        port: TCP port of the binary protocol; 0: a free one.
        admin_port: TCP port of the admin interface; 0: a free one.
        entry_filters: Factories of entry filters by name, in addition to those of installed distributions; called for each subscription.
        brokers: Of how many brokers the cluster is. The addresses are those of the first one; look-ups lead to the others, which are on
            free ports, other ones after each `start`.

    Raises:
        ValueError: A setting or the profile is unknown.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        profile: str = "default",
        *,
        port: int = 0,
        admin_port: int = 0,
        entry_filters: Mapping[str, EntryFilterFactory] | None = None,
        brokers: int = 1,
    ) -> None:
        profile = profile_name(profile)
        if profile not in PROFILES:
            raise ValueError(f"profile is {' or '.join(PROFILES)}, not {profile!r}")
        self._configuration = Configuration.from_settings(config or {})
        self._profiles = PROFILES[profile]
        self._ports = port, admin_port
        self._entry_filters = entry_filters
        self._brokers = brokers
        self.faults = FaultSwitches()
        """What happens to commands between the broker and its clients."""
        self._store = MemoryStore()
        self._addresses: tuple[str, str, str | None, str | None] | None = None
        self._block: AbstractAsyncContextManager[Serving] | None = None
        self._serving: Serving | None = None
        self._runner: asyncio.Runner | None = None
        self._thread: threading.Thread | None = None

    @property
    def service_url(self) -> str:
        """Return the service URL for clients."""
        return self._known_addresses()[0]

    @property
    def admin_url(self) -> str:
        """Return the base URL of the admin interface."""
        return self._known_addresses()[1]

    @property
    def service_url_tls(self) -> str | None:
        """Return the service URL over TLS; None without the setting `brokerServicePortTls`."""
        return self._known_addresses()[2]

    @property
    def admin_url_tls(self) -> str | None:
        """Return the base URL of the admin interface over TLS; None without the setting `webServicePortTls`."""
        return self._known_addresses()[3]

    @property
    def broker(self) -> Broker:
        """Return the broker. Use it only on its event loop; from another thread, use `call`."""
        return self._running().driver.broker

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call a function with the broker in the broker's thread, and return its result."""
        if self._runner is None:
            return self._apply(function)

        async def apply() -> T:
            return self._apply(function)

        return asyncio.run_coroutine_threadsafe(apply(), self._runner.get_loop()).result()

    @property
    def running(self) -> bool:
        """Return whether the broker runs, and is not stopped."""
        return self._serving is not None

    def stop(self) -> None:
        """Stop the broker as if its process had ended: it refuses connections until `start`.

        Raises:
            RuntimeError: It does not run, or it runs on your event loop: then await `astop`.
        """
        self._in_its_thread(self.astop())

    def start(self) -> None:
        """Start the broker again at the same addresses, with all that it held: topics, messages, subscriptions.

        Raises:
            RuntimeError: It runs already, or it belongs to your event loop: then await `astart`.
            OSError: Something else has taken a port meanwhile.
        """
        self._in_its_thread(self.astart())

    async def astop(self) -> None:
        """Do what `stop` does, where the broker runs on the running event loop."""
        self._running()
        await self._leave()

    async def astart(self) -> None:
        """Do what `start` does, where the broker runs on the running event loop."""
        if self._block is not None:
            raise RuntimeError("the broker runs already")
        service, admin, *secure = (urlsplit(url or "").port or 0 for url in self._known_addresses())
        service_tls, admin_tls = (str(port or "") for port in secure)
        await self._enter(service, admin, replace(self._configuration, broker_service_port_tls=service_tls, web_service_port_tls=admin_tls))

    def _in_its_thread(self, work: Coroutine[Any, Any, None]) -> None:
        if self._runner is None:
            work.close()
            raise RuntimeError("the broker runs on an event loop of its own in a `with` block only; in `async with`, await astop or astart")
        asyncio.run_coroutine_threadsafe(work, self._runner.get_loop()).result()

    def _apply(self, function: Callable[[Broker], T]) -> T:
        driver = self._running().driver
        driver.broker.tick(driver.loop.time())
        try:
            return function(driver.broker)
        finally:
            driver.settle()

    def _running(self) -> Serving:
        if self._serving is None:
            raise RuntimeError("the broker runs inside a `with` block only" if self._addresses is None else "the broker is stopped")
        return self._serving

    def _known_addresses(self) -> tuple[str, str, str | None, str | None]:
        if self._addresses is None:
            raise RuntimeError("the broker runs inside a `with` block only")
        return self._addresses

    async def __aenter__(self) -> Self:
        """Start on the running event loop."""
        if self._addresses is not None:
            raise RuntimeError("the broker runs already")
        self._store = MemoryStore()
        await self._enter(*self._ports, self._configuration)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop."""
        self._addresses = None
        self.faults.clear()
        if self._block is not None:
            await self._leave()

    async def _enter(self, port: int, admin_port: int, configuration: Configuration) -> None:
        self._block = serving(
            configuration,
            profiles=self._profiles,
            store=self._store,
            port=port,
            admin_port=admin_port,
            entry_filters=self._entry_filters,
            faults=self.faults,
            brokers=self._brokers,
        )
        try:
            self._serving = await self._block.__aenter__()
        except BaseException:
            self._block = None
            raise
        served = self._serving
        self._addresses = served.service_url, served.admin_url, served.service_url_tls, served.admin_url_tls

    async def _leave(self) -> None:
        assert self._block is not None
        block, self._block, self._serving = self._block, None, None
        await block.__aexit__(None, None, None)

    def __enter__(self) -> Self:
        """Start in a new thread."""
        if self._addresses is not None:
            raise RuntimeError("the broker runs already")
        started: threading.Event = threading.Event()
        problems: list[BaseException] = []
        self._runner = asyncio.Runner()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, args=(self._runner, started, problems), name="broker", daemon=True)
        self._thread.start()
        started.wait()
        if problems:
            self._thread.join()
            self._runner = None
            raise problems[0]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop, and wait for the thread."""
        assert self._runner is not None
        assert self._thread is not None
        self._runner.get_loop().call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._runner = None

    def _serve(self, runner: asyncio.Runner, started: threading.Event, problems: list[BaseException]) -> None:
        async def block() -> None:
            async with self:
                started.set()
                await self._stop.wait()

        try:
            with runner:
                runner.run(block())
        except BaseException as error:
            problems.append(error)
        finally:
            started.set()
