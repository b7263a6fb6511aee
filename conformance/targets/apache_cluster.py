"""A real cluster of Apache Pulsar: ZooKeeper, a bookie and several brokers of one release, each a process on free ports of 127.0.0.1.

The jars of a release hold all of it. Each part waits for the one before. A start takes half a minute, and 400 MB for each broker, so that
cases that need settings of their own are left to single brokers.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from conformance.targets.admin import AdminClient, AdminUnreachable
from conformance.targets.apache_pulsar import STOP_SECONDS, USUAL_SETTINGS, Installation, await_ready, installed, java_command, prepared
from conformance.targets.jars import RELEASES
from conformance.targets.model import NOTHING, Endpoint, Progress, TargetError, refuse_settings
from conformance.targets.process import Supervised, free_ports, poll_until, supervised
from conformance.targets.properties import properties_text

_SECONDS = 180.0
_CLUSTER = "pulsar-conformance"
_SMALL = 256
"""MiB of the heap of what stores metadata and messages."""
_BALANCED = {
    "clusterName": _CLUSTER,
    "advertisedAddress": "127.0.0.1",
    "loadBalancerEnabled": "true",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "loadBalancerOverrideBrokerNicSpeedGbps": "1",
}
"""Namespaces are spread over the brokers, and stay where they are unless somebody unloads them. Brokers before 4.0 have
to be told how fast the network is, where the machine does not know it."""


@dataclass(frozen=True)
class ApacheCluster:
    """Several brokers of one version of Apache Pulsar.

    Args:
        version: One of `RELEASES`.
        brokers: How many.
        token: Sent with CONNECT and each admin call.
    """

    version: str
    brokers: int = 2
    token: SecretStr | None = None
    startable: bool = field(default=False, init=False)
    profile: str = field(default="default", init=False)
    virtual_time: bool = field(default=False, init=False)
    in_virtual_time: None = field(default=None, init=False)
    starts_at_once: int = field(default=1, init=False)
    conversations_at_once: int = field(default=6, init=False)

    @property
    def name(self) -> str:
        """Return the name for reports."""
        return f"apache-pulsar@{self.version}?brokers={self.brokers}"

    @property
    def release(self) -> str:
        """Return the version."""
        return self.version

    @asynccontextmanager
    async def run(self, config: Mapping[str, str] = NOTHING, *, progress: Progress | None = None) -> AsyncIterator[Endpoint]:
        """Start it; all of it is stopped when the block is left.

        Args:
            config: Has to be empty.
            progress: Gets a line when Maven is asked, and when the cluster is ready.

        Returns:
            Where its first broker is reached.

        Raises:
            SettingsRefused: Settings were asked for.
            TargetError: Java or Maven is missing, the jars can't be resolved, or a part does not start; with the last lines of its log.
        """
        refuse_settings(self.name, config, hint="only a single broker is started anew for the settings of a case")
        installation = await installed(RELEASES[self.version], progress)
        work = Path(tempfile.mkdtemp(prefix="pulsar-conformance-"))
        try:
            async with AsyncExitStack() as stack:
                began = time.monotonic()
                endpoints = await self._start(stack, installation, work)
                if progress:
                    progress(f"{self.name} is ready after {time.monotonic() - began:.1f} s")
                yield endpoints[0]
        finally:
            shutil.rmtree(work, ignore_errors=True)

    async def _start(self, stack: AsyncExitStack, installation: Installation, work: Path) -> list[Endpoint]:
        zookeeper, bookie, *ports = free_ports(2 + 2 * self.brokers)
        endpoints = [self._endpoint(work / f"broker-{place}", *ports[2 * place : 2 * place + 2]) for place in range(self.brokers)]
        part = _Starter(stack, installation, work)
        await _listens(await part("zookeeper", *_ZOOKEEPER, config=_zookeeper(work, zookeeper), memory=_SMALL), zookeeper)
        await _succeeds(await part("metadata", *_METADATA, *_metadata(zookeeper, endpoints[0]), memory=_SMALL))
        await _listens(await part("bookie", *_BOOKIE, config=_bookie(work, zookeeper, bookie), memory=_SMALL), bookie)
        children = [await part(f"broker-{place}", *_BROKER, config=_broker(zookeeper, one)) for place, one in enumerate(endpoints)]
        await asyncio.gather(*(_is_healthy(one, child) for one, child in zip(endpoints, children, strict=True)))
        await await_ready(endpoints[0], children[0])
        return endpoints

    def _endpoint(self, folder: Path, service: int, admin: int) -> Endpoint:
        return Endpoint(
            name=self.name,
            service_url=f"pulsar://127.0.0.1:{service}",
            admin_url=f"http://127.0.0.1:{admin}",
            release=self.version,
            token=self.token,
            log_file=folder / "log",
            thrown_away=True,
        )


_ZOOKEEPER = ("org.apache.zookeeper.server.quorum.QuorumPeerMain", "settings.conf")
_METADATA = ("org.apache.pulsar.PulsarClusterMetadataSetup", "--cluster", _CLUSTER)
_BOOKIE = ("org.apache.bookkeeper.server.Main", "--conf", "settings.conf")
_BROKER = ("org.apache.pulsar.PulsarBrokerStarter", "-c", "settings.conf")


@dataclass(frozen=True)
class _Starter:
    """Starts the parts of a cluster, each in a folder of its own."""

    stack: AsyncExitStack
    installation: Installation
    work: Path

    async def __call__(self, name: str, *start: str, config: Mapping[str, str] = NOTHING, memory: int = 768) -> Supervised:
        folder = self.work / name
        folder.mkdir()
        prepared(folder)
        (folder / "settings.conf").write_text(properties_text(name, config), encoding="ascii")
        command = java_command(self.installation, folder, *start, memory=memory)
        child = supervised(command, log=folder / "log", cwd=folder, grace_seconds=STOP_SECONDS, remove=folder)
        return await self.stack.enter_async_context(child)


def _zookeeper(work: Path, port: int) -> Mapping[str, str]:
    return {
        "tickTime": "2000",
        "dataDir": str(work / "zookeeper" / "data"),
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
    }


def _metadata(zookeeper: int, first: Endpoint) -> Sequence[str]:
    stores = [part for option in ("--metadata-store", "--configuration-metadata-store") for part in (option, _store(zookeeper))]
    return [*stores, "--web-service-url", first.admin_url or "", "--broker-service-url", first.service_url]


def _bookie(work: Path, zookeeper: int, port: int) -> Mapping[str, str]:
    return {
        "bookiePort": str(port),
        "advertisedAddress": "127.0.0.1",
        "listeningInterface": "lo",
        "allowLoopback": "true",
        "metadataServiceUri": f"metadata-store:{_store(zookeeper)}",
        "journalDirectories": str(work / "bookie" / "journal"),
        "ledgerDirectories": str(work / "bookie" / "ledgers"),
        "journalSyncData": "false",
        "diskUsageThreshold": "0.999",
        "diskUsageWarnThreshold": "0.99",
        "httpServerEnabled": "false",
        "nettyMaxFrameSizeBytes": USUAL_SETTINGS["nettyMaxFrameSizeBytes"],
    }


def _broker(zookeeper: int, endpoint: Endpoint) -> Mapping[str, str]:
    assert endpoint.admin_url is not None
    stores = dict.fromkeys(("metadataStoreUrl", "configurationMetadataStoreUrl"), _store(zookeeper))
    ports = {"brokerServicePort": str(endpoint.port), "webServicePort": endpoint.admin_url.rpartition(":")[2]}
    return {**USUAL_SETTINGS, **_BALANCED, **stores, **ports}


def _store(zookeeper: int) -> str:
    return f"zk:127.0.0.1:{zookeeper}"


async def _listens(child: Supervised, port: int) -> None:
    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.transport.abort()
        return True

    await poll_until(listens, seconds=_SECONDS, what=child.log.parent.name, child=child)


async def _succeeds(child: Supervised) -> None:
    if await child.wait(_SECONDS) != 0:
        raise TargetError(f"{child.log.parent.name} of the cluster is not written; the last lines:\n{child.last_lines()}")


async def _is_healthy(endpoint: Endpoint, child: Supervised) -> None:
    async with AdminClient(endpoint) as admin:

        async def healthy() -> bool:
            try:
                return (await admin.call("broker_health")).ok
            except AdminUnreachable:
                return False

        await poll_until(healthy, seconds=_SECONDS, what=child.log.parent.name, child=child, interval=0.5)
