"""A real Apache Pulsar behind a real pulsar-proxy: brokers of any release, and the proxy of the one release whose jars resolve.

A client asks the proxy where a topic is served, and names that broker in CONNECT of a second connection. From then on the proxy hands
bytes on as they are. It answers CONNECT itself, and asks the broker with one of its own.
"""

import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from conformance.targets.admin import AdminClient, AdminUnreachable
from conformance.targets.apache_cluster import ApacheCluster
from conformance.targets.apache_pulsar import READY_SECONDS, STOP_SECONDS, ApachePulsar, installed, java_command, prepared
from conformance.targets.connect_probe import connect_answer
from conformance.targets.jars import PROXY, PROXY_ARTIFACT
from conformance.targets.model import NOTHING, Endpoint, Progress, refuse_settings
from conformance.targets.process import free_ports, poll_until, supervised
from conformance.targets.properties import properties_text

_MEMORY = 256
"""MiB of its heap."""


@dataclass(frozen=True)
class ProxiedPulsar:
    """Apache Pulsar behind a proxy, both started for the run.

    Args:
        behind: What the proxy stands in front of.
    """

    behind: ApachePulsar | ApacheCluster
    startable: bool = field(default=False, init=False)
    profile: str = field(default="default", init=False)
    virtual_time: bool = field(default=False, init=False)
    in_virtual_time: None = field(default=None, init=False)
    starts_at_once: int = field(default=1, init=False)
    conversations_at_once: int = field(default=6, init=False)

    @property
    def name(self) -> str:
        """Return the name for reports."""
        return f"{self.behind.name}{'&' if '?' in self.behind.name else '?'}proxy=true"

    @property
    def release(self) -> str:
        """Return the version of the brokers."""
        return self.behind.release

    @asynccontextmanager
    async def run(self, config: Mapping[str, str] = NOTHING, *, progress: Progress | None = None) -> AsyncIterator[Endpoint]:
        """Start the brokers, then the proxy; all of it is stopped when the block is left.

        Args:
            config: Has to be empty.
            progress: Gets a line when Maven is asked, and when each part is ready.

        Returns:
            Where the proxy is reached.

        Raises:
            SettingsRefused: Settings were asked for.
            TargetError: Java or Maven is missing, the jars can't be resolved, or a part does not start; with the last lines of its log.
        """
        refuse_settings(self.name, config, hint="brokers behind a proxy are not started anew for the settings of a case")
        async with self.behind.run(progress=progress) as endpoint, proxy(endpoint, progress=progress) as reached:
            yield replace(reached, name=self.name)


@asynccontextmanager
async def proxy(endpoint: Endpoint, config: Mapping[str, str] = NOTHING, *, progress: Progress | None = None) -> AsyncIterator[Endpoint]:
    """Start a proxy in front of a broker; it is stopped when the block is left.

    Args:
        endpoint: The broker.
        config: The proxy's own settings, on top of those that suit tests.
        progress: Gets a line when Maven is asked, and when the proxy is ready.

    Returns:
        Where the proxy is reached.

    Raises:
        TargetError: Java or Maven is missing, the jars can't be resolved, or it does not start; with the last lines of its log.
    """
    installation = await installed(PROXY, progress, PROXY_ARTIFACT)
    began = time.monotonic()
    service, admin = free_ports(2)
    work = Path(tempfile.mkdtemp(prefix="pulsar-conformance-"))
    reached = replace(endpoint, service_url=f"pulsar://127.0.0.1:{service}", admin_url=f"http://127.0.0.1:{admin}")
    try:
        prepared(work)
        path = work / "proxy.conf"
        path.touch(mode=0o600)  # settings may hold secrets
        path.write_text(properties_text("proxy", {**_settings(endpoint, service, admin), **config}), encoding="ascii")
        start = ("org.apache.pulsar.proxy.server.ProxyServiceStarter", "-c", "proxy.conf")
        command = java_command(installation, work, *start, memory=_MEMORY)
        async with supervised(command, log=work / "proxy.log", cwd=work, grace_seconds=STOP_SECONDS, remove=work) as child:
            async with AdminClient(reached, seconds=5.0) as client:

                async def ready() -> bool:
                    try:
                        read = await client.call("namespace_exists", "public/default")
                    except AdminUnreachable:
                        return False
                    return read.status in (200, 401, 403) and await connect_answer(reached) != "none"

                await poll_until(ready, seconds=READY_SECONDS, what="pulsar-proxy", child=child)
            if progress:
                progress(f"pulsar-proxy {PROXY.version} is ready after {time.monotonic() - began:.1f} s")
            yield reached
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _settings(endpoint: Endpoint, service: int, admin: int) -> Mapping[str, str]:
    return {
        "brokerServiceURL": endpoint.service_url,
        "brokerWebServiceURL": endpoint.admin_url or "",
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
        "servicePort": str(service),
        "webServicePort": str(admin),
        "brokerProxyAllowedTargetPorts": "*",
        "brokerProxyAllowedHostNames": "localhost,127.0.0.1",
        "brokerProxyAllowedIPAddresses": "127.0.0.1",
    }
