"""A real Apache Pulsar, one standalone broker of a given version on free ports of 127.0.0.1, started for the run and thrown away after it.

How it is started was observed on each release of `RELEASES`. Its data live in a temporary folder, so stopping does not wait for them to be
saved: SIGTERM, and SIGKILL after two seconds.
"""

import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import SecretStr

from conformance.java import JavaError, find_java
from conformance.targets.admin import AdminClient, AdminUnreachable, unconfirmed_settings
from conformance.targets.jars import BROKER_ARTIFACT, RELEASES, Release, jars
from conformance.targets.model import NOTHING, Endpoint, Progress, TargetError, own_token
from conformance.targets.process import Supervised, free_ports, poll_until, supervised
from conformance.targets.properties import properties_text

READY_SECONDS = 120.0
FIRST_SECONDS = 10.0
SERVER_ERROR, NO_ANSWER = 500, 999
STOP_SECONDS = 2.0
_PORT_ATTEMPTS = 3
_PORT_TAKEN = ("Address already in use", "BindException", "Failed to bind")

USUAL_SETTINGS: Mapping[str, str] = {
    "bindAddress": "127.0.0.1",
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "allowLoopback": "true",
    "journalSyncData": "false",
    "diskUsageThreshold": "0.999",
    "diskUsageWarnThreshold": "0.99",
    "brokerDeleteInactiveTopicsEnabled": "false",  # otherwise topics without a subscription are deleted after about a minute
    "forceDeleteNamespaceAllowed": "true",
    "nettyMaxFrameSizeBytes": "5253120",  # of the storage; its default is less than the largest frame of a client
}
"""The settings of each broker that is started, alone or in a cluster, and of its storage."""
_ALONE = {
    "clusterName": "standalone",
    "advertisedAddress": "localhost",
    "loadBalancerEnabled": "false",
    "zookeeperServers": "",
    "configurationStoreServers": "",
}
_CHOSEN_SETTINGS = frozenset({"brokerServicePort", "webServicePort", "bookiePort", "bindAddress", "advertisedAddress", "clusterName"})
_FIRST_TOPIC = "persistent://public/default/pulsar-conformance-first"
_FIRST_CALLS: Sequence[tuple[str, object]] = (
    ("create_topic", {"topic": _FIRST_TOPIC}),
    ("create_subscription", {"topic": _FIRST_TOPIC, "subscription": "first"}),
    ("delete_topic", {"topic": _FIRST_TOPIC, "force": True}),
)
"""A broker that has just started refuses its first subscription now and then, while it begins to read the namespace's topic of policies."""
_OPENED = [
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/sun.net",
    "java.base/java.lang",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
]
_LOG4J = """\
<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%d{ISO8601} %-5p [%t] %c{1} - %m%n%xEx"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True)
class _Ports:
    service: int
    admin: int
    bookie: int
    zookeeper: int


@dataclass(frozen=True)
class Installation:
    """A release with its jars, and the Java that runs it."""

    release: Release
    java: Path
    lib: Path


async def installed(release: Release, progress: Progress | None, artifact: str = BROKER_ARTIFACT) -> Installation:
    """Resolve the jars of a release, if the cache does not have them.

    Args:
        release: Which one.
        progress: Gets a line when Maven is asked.
        artifact: The program that they are for.

    Raises:
        TargetError: Java or Maven is missing, or the jars can't be resolved.
    """
    try:
        java = await find_java()
        return Installation(release, java.program, await jars(release, java, progress, artifact))
    except JavaError as error:
        raise TargetError(error.message, hint=error.hint) from None


@dataclass(frozen=True)
class ApachePulsar:
    """Apache Pulsar of one version.

    Args:
        version: One of `RELEASES`.
        token: Sent with CONNECT and each admin call. None: the token that the settings give to the broker itself
            (`brokerClientAuthenticationParameters: "token:..."`), if they do.
    """

    version: str
    token: SecretStr | None = None
    startable: bool = field(default=True, init=False)
    profile: str = field(default="default", init=False)
    virtual_time: bool = field(default=False, init=False)
    in_virtual_time: None = field(default=None, init=False)
    starts_at_once: int = field(default=1, init=False)
    conversations_at_once: int = field(default=6, init=False)

    def __post_init__(self) -> None:
        if self.version not in RELEASES:
            hint = f"it starts {', '.join(RELEASES)}; of another one start a broker yourself, and give its address: pulsar://HOST:PORT"
            raise TargetError(f"the suite does not start Apache Pulsar {self.version}", hint=hint)

    @property
    def name(self) -> str:
        """Return the name for reports and baselines."""
        return f"apache-pulsar@{self.version}"

    @property
    def release(self) -> str:
        """Return the version."""
        return self.version

    @asynccontextmanager
    async def run(self, config: Mapping[str, str] = NOTHING, *, progress: Progress | None = None) -> AsyncIterator[Endpoint]:
        """Start it, after resolving its jars if the cache does not have them; it is stopped when the block is left.

        Args:
            config: Pulsar's own settings, on top of those that suit tests.
            progress: Gets a line when Maven is asked, and when the broker is ready.

        Returns:
            Where it is reached.

        Raises:
            TargetError: Java or Maven is missing, the jars can't be resolved, or it does not start; with the last lines of its log.
        """
        _check_settings(self.name, config)
        installation = await installed(RELEASES[self.version], progress)
        async with AsyncExitStack() as stack:
            began = time.monotonic()
            endpoint = await self._start(stack, installation, config)
            if progress:
                progress(f"{self.name} is ready after {time.monotonic() - began:.1f} s")
            yield replace(endpoint, unconfirmed_config=await unconfirmed_settings(endpoint))

    async def _start(self, stack: AsyncExitStack, installation: "Installation", config: Mapping[str, str]) -> Endpoint:
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            one_try = self._one_try(installation, config)
            try:
                return await stack.enter_async_context(one_try)
            except TargetError as error:
                if attempt == _PORT_ATTEMPTS or not any(text in str(error) for text in _PORT_TAKEN):
                    raise
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def _one_try(self, installation: "Installation", config: Mapping[str, str]) -> AsyncIterator[Endpoint]:
        ports = _Ports(*free_ports(4))
        work = Path(tempfile.mkdtemp(prefix="pulsar-conformance-"))
        endpoint = Endpoint(
            name=self.name,
            service_url=f"pulsar://127.0.0.1:{ports.service}",
            admin_url=f"http://127.0.0.1:{ports.admin}",
            release=self.version,
            token=self.token or own_token(config),
            config=dict(config),
            log_file=work / "broker.log",
            thrown_away=True,
        )
        try:
            _write_files(work, ports, config)
            command = _command(installation, work, ports)
            async with supervised(command, log=work / "broker.log", cwd=work, grace_seconds=STOP_SECONDS, remove=work) as child:
                await await_ready(endpoint, child)
                yield endpoint
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _check_settings(name: str, config: Mapping[str, str]) -> None:
    properties_text(name, config)
    for key in sorted(_CHOSEN_SETTINGS & set(config)):
        raise TargetError(f"{name} can't be given the setting {key}", hint="each start chooses it again")


def prepared(work: Path) -> None:
    """Put into a folder what a program of a release needs: a place for temporary files, and what it logs."""
    (work / "tmp").mkdir()
    (work / "log4j2.xml").write_text(_LOG4J)


def _write_files(work: Path, ports: _Ports, config: Mapping[str, str]) -> None:
    prepared(work)
    chosen = {"brokerServicePort": str(ports.service), "webServicePort": str(ports.admin), "bookiePort": str(ports.bookie)}
    path = work / "standalone.conf"
    path.touch(mode=0o600)  # settings may hold secrets
    path.write_text(properties_text("standalone", {**USUAL_SETTINGS, **_ALONE, **chosen, **config}), encoding="ascii")


def _command(installation: Installation, work: Path, ports: _Ports) -> Sequence[str]:
    release = installation.release
    storage = ["--bookkeeper-dir", "data/bookkeeper"]
    if release.old_metadata:
        storage += ["--zookeeper-dir", "data/zookeeper", "--zookeeper-port", str(ports.zookeeper)]
    else:
        storage += ["--metadata-dir", "data/metadata"]
    if release.bookie_port_option:
        storage += ["--bookkeeper-port", str(ports.bookie)]
    start = ("org.apache.pulsar.PulsarStandaloneStarter", "--config", "standalone.conf", "-nfw", "-nss", "-a", "localhost", *storage)
    return java_command(installation, work, *start)


def java_command(installation: Installation, work: Path, *start: str, memory: int = 768) -> Sequence[str]:
    """Return the command that runs a program of a release.

    Args:
        installation: The release and what runs it.
        work: A folder of `prepared`.
        start: The class and its arguments.
        memory: MiB of the heap at most.
    """
    return [
        str(installation.java),
        *("-Xms128m", f"-Xmx{memory}m", "-XX:MaxDirectMemorySize=512m"),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djava.net.preferIPv4Stack=true",
        f"-Djava.io.tmpdir={work / 'tmp'}",  # native libraries are unpacked there, and left behind
        f"-Dlog4j.configurationFile={work / 'log4j2.xml'}",
        "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
        "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
        *("-cp", f"{work}:{installation.lib}/*"),
        *start,
    ]


async def await_ready(endpoint: Endpoint, child: Supervised) -> None:
    """Wait until it reads a namespace, and then for its first subscription, which some settings never allow."""
    async with AdminClient(endpoint, seconds=5.0) as admin:

        async def reads() -> bool:
            return max(await statuses(("namespace_exists", "public/default"))) in (200, 401, 403)

        async def subscribes() -> bool:
            return max(await statuses(*_FIRST_CALLS)) < SERVER_ERROR

        async def statuses(*calls: tuple[str, object]) -> list[int]:
            try:
                return [(await admin.call(name, arguments)).status for name, arguments in calls]
            except AdminUnreachable:
                return [NO_ANSWER]

        await poll_until(reads, seconds=READY_SECONDS, what=endpoint.name, child=child)
        try:
            await poll_until(subscribes, seconds=FIRST_SECONDS, what=endpoint.name, child=child)
        except TargetError:
            if child.exit_code is not None:
                raise
