"""Stock clients against two brokers, always through a proxy whose record of frames is shown when a test fails.

`broker` is the reference broker and a real Apache Pulsar in turn, `client` the PyPI and the Maven client, or each one of `EVERY_CLIENT`.
Without the tools that a client or a real broker needs (Java and Maven, Go, Cargo, npm) tests are skipped with the reason, in CI they fail.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

import pytest

from conformance.targets import AdminClient, ApachePulsar, Endpoint
from conformance.targets.process import tail
from conformance.targets.reference import ReferenceTarget
from tests.conftest import require_java, skip_for
from tests.fakes.frame_proxy import FrameProxy, frame_proxy
from tests.interop.built_clients import missing_tool
from tests.interop.java_client import VERSIONS
from tests.interop.place import DEADLINE, Place, Test
from tests.interop.results import Recorder, flow
from tests.interop.stock_clients import Admin, Client, ClientProcess

REAL = {"real": "4.2.4", "real-v5": "5.0.0-M1"}
"""The releases that stock clients meet; the V5 client wants the second, all others are tried on the first."""
EVERY_CLIENT = (
    pytest.mark.parametrize("client", ["python", "java", "go", "rust", "flex", "java_v5"], indirect=True),
    pytest.mark.parametrize("broker", ["reference", *(pytest.param(name, marks=pytest.mark.real) for name in REAL)], indirect=True),
)
"""Marks of the flows that all clients have, each at the reference and at its release. They are two, so that a broker starts once for all."""
T = TypeVar("T")
_namespaces = itertools.count(1)


class BackgroundLoop:
    """An asyncio loop in a thread of its own, for what has to live on while a test waits."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine to its end."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter an asynchronous context manager for the length of a block, in one task from beginning to end."""
        ready: concurrent.futures.Future[tuple[T, asyncio.Event]] = concurrent.futures.Future()

        async def live() -> None:
            stop = asyncio.Event()
            try:
                async with manager as value:
                    ready.set_result((value, stop))
                    await stop.wait()
            except BaseException as error:
                if ready.done():
                    raise
                ready.set_exception(error)

        living = asyncio.run_coroutine_threadsafe(live(), self._loop)
        value, stop = ready.result()
        try:
            yield value
        finally:
            self._loop.call_soon_threadsafe(stop.set)
            living.result()

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="session")
def loop() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop()
    yield loop
    loop.close()


@pytest.fixture(scope="session", params=["reference", pytest.param("real", marks=pytest.mark.real)])
def broker(request: pytest.FixtureRequest, loop: BackgroundLoop) -> Iterator[Endpoint]:
    if request.param in REAL:
        require_java()
    target = ApachePulsar(REAL[request.param]) if request.param in REAL else ReferenceTarget()
    with loop.entered(target.run()) as endpoint:
        yield endpoint


@pytest.fixture(scope="session", params=["reference", pytest.param("real", marks=pytest.mark.real)])
def scalable_broker(request: pytest.FixtureRequest, loop: BackgroundLoop) -> Iterator[Endpoint]:
    """Run a broker that has scalable topics."""
    if request.param == "real":
        require_java()
    target = ApachePulsar("5.0.0-M1") if request.param == "real" else ReferenceTarget()
    with loop.entered(target.run()) as endpoint:
        yield endpoint


@pytest.fixture
def proxy(broker: Endpoint, loop: BackgroundLoop) -> Iterator[FrameProxy]:
    with loop.entered(frame_proxy(broker.service_url)) as proxy:
        yield proxy
        assert proxy.defects == []


@pytest.fixture(scope="session")
def client_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ClientProcess]]:
    processes: dict[str, ClientProcess] = {}

    def living(language: str) -> ClientProcess:
        if language not in processes or not processes[language].running:
            processes[language] = ClientProcess(language, tmp_path_factory.mktemp(language) / "client.log")
        return processes[language]

    yield living
    for process in processes.values():
        process.kill()


@pytest.fixture(params=["python", "java"])
def client(request: pytest.FixtureRequest, client_process: Callable[[str], ClientProcess], proxy: FrameProxy) -> Iterator[Client]:
    if request.param in VERSIONS:
        require_java()
    if tool := missing_tool(request.param):
        skip_for(f"{tool} is not installed")
    client = Client(client_process(request.param), proxy.service_url)
    yield client
    if client.process.running:
        client.end()


@pytest.fixture
def admin(broker: Endpoint, loop: BackgroundLoop) -> Admin:
    async def perform(op: str, arguments: object) -> Any:
        async with AdminClient(broker) as client:
            result = await client.call(op, arguments)
        assert result.ok, f"{op} {arguments}: {result.status} {result.reason}"
        return result.body

    return lambda op, arguments=None: loop.run(perform(op, arguments))


@pytest.fixture
def namespace(admin: Admin) -> str:
    """Create a namespace that no other test uses; its broker is thrown away, so it need not be removed."""
    name = f"public/interop-{next(_namespaces)}"
    admin("create_namespace", name)
    return name


@pytest.fixture
def topic(namespace: str) -> str:
    """Name a topic that does not exist yet."""
    return f"persistent://{namespace}/topic"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the flows of clients at a release that is not theirs."""
    foreign = [item for item in items if (of := flow(item)) and of[2] in REAL and (of[1] == "java_v5") != (of[2] == "real-v5")]
    config.hook.pytest_deselected(items=foreign)
    items[:] = [item for item in items if item not in set(foreign)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", action="store_true", help="write what the flows of stock clients gave, for the table on the site")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--results", default=False) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if (of := flow(item)) and call.when == "setup":
        item.user_properties.append(("flow", of))
    report = yield
    proxy = getattr(item, "funcargs", {}).get("proxy")
    if report.failed and isinstance(proxy, FrameProxy):
        report.sections.append(("frames", proxy.lines()))
        report.sections.append(("end of the broker's log", tail(item.funcargs["broker"].log_file)))
    return report


@pytest.fixture
def at(broker: Endpoint, namespace: str) -> Callable[[Test], None]:
    """Run a test at the broker, within the deadline; no task may be left of it."""

    async def main(test: Test) -> None:
        async with asyncio.timeout(DEADLINE), AdminClient(broker) as admin:
            before = asyncio.all_tasks()
            await test(Place(broker, admin, namespace))
            assert asyncio.all_tasks() <= before

    return lambda test: asyncio.run(main(test))
