"""A broker inside a program, for tests of clients.

    with EmbeddedBroker() as broker:                 # in its own thread
        client = pulsar.Client(broker.service_url)

    async with EmbeddedBroker() as broker:           # on the running event loop
        ...

It listens on free ports of 127.0.0.1. Several embedded brokers are independent of each other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, TypeVar

from refimpl.broker import Broker, Configuration
from refimpl.net.serving import Serving, serving
from refimpl.proposals.profiles import PROFILES, profile_name
from refimpl.proposals.uniform_batches import EntryFilterFactory

T = TypeVar("T")


class EmbeddedBroker:
    """A broker on free ports of 127.0.0.1 for the duration of a block; each block starts a new, empty one.

    Args:
        config: Settings by their names in Pulsar's broker.conf.
        profile: `default`: what real peers speak; `as-written`: the texts of the proposals.
        entry_filters: Factories of entry filters by name, in addition to those of installed distributions; called for each subscription.

    Raises:
        ValueError: A setting or the profile is unknown.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        profile: str = "default",
        *,
        entry_filters: Mapping[str, EntryFilterFactory] | None = None,
    ) -> None:
        profile = profile_name(profile)
        if profile not in PROFILES:
            raise ValueError(f"profile is {' or '.join(PROFILES)}, not {profile!r}")
        self._configuration = Configuration.from_settings(config or {})
        self._profiles = PROFILES[profile]
        self._entry_filters = entry_filters
        self._block: AbstractAsyncContextManager[Serving] | None = None
        self._serving: Serving | None = None
        self._runner: asyncio.Runner | None = None
        self._thread: threading.Thread | None = None

    @property
    def service_url(self) -> str:
        """Return the service URL for clients."""
        return self._running().service_url

    @property
    def admin_url(self) -> str:
        """Return the base URL of the admin interface."""
        return self._running().admin_url

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

    def _apply(self, function: Callable[[Broker], T]) -> T:
        driver = self._running().driver
        driver.broker.tick(driver.loop.time())
        try:
            return function(driver.broker)
        finally:
            driver.settle()

    def _running(self) -> Serving:
        if self._serving is None:
            raise RuntimeError("the broker runs inside a `with` block only")
        return self._serving

    async def __aenter__(self) -> Self:
        """Start on the running event loop."""
        if self._block is not None:
            raise RuntimeError("the broker runs already")
        self._block = serving(self._configuration, profiles=self._profiles, entry_filters=self._entry_filters)
        try:
            self._serving = await self._block.__aenter__()
        except BaseException:
            self._block = None
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop."""
        assert self._block is not None
        block, self._block, self._serving = self._block, None, None
        await block.__aexit__(kind, error, trace)

    def __enter__(self) -> Self:
        """Start in a new thread."""
        if self._block is not None:
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
