"""The reference broker of this project: as a process of its own, or inside this process in virtual time."""

import json
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from conformance.engine.capabilities import DECLARED, FLAGS
from conformance.targets.model import NOTHING, Endpoint, Progress, SettingsRefused, own_token
from conformance.targets.process import Supervised, poll_until, supervised
from conformance.targets.properties import properties_text
from refimpl.broker import Broker, Configuration, Member
from refimpl.net.memory_link import MemoryLink
from refimpl.proposals.profiles import PROFILES

READY_SECONDS = 60.0
STOP_SECONDS = 5.0
FIRST_DAY = 1_767_225_600.0
"""When virtual time begins, in seconds since 1970: at the start of 2026."""
CAPABILITIES = dict.fromkeys(
    (*sorted(DECLARED - FLAGS.keys()), "scalable-layout", "key-shared", "waiting-producers", "delayed-delivery"), True
)
"""What it can do that no flag tells."""


@dataclass(frozen=True)
class ReferenceTarget:
    """The reference broker as a child process on free ports of 127.0.0.1.

    Args:
        profile: One of `PROFILES`.
        token: Sent with CONNECT and each admin call. None: the token that the settings give to the broker itself, if they do.
        brokers: Of how many brokers the cluster is; the endpoint is that of the first one.
    """

    profile: str = "default"
    token: SecretStr | None = None
    brokers: int = 1
    startable: bool = field(default=True, init=False)
    virtual_time: bool = field(default=False, init=False)
    starts_at_once: int = field(default=4, init=False)
    conversations_at_once: int = field(default=24, init=False)

    @property
    def name(self) -> str:
        """Return the name for reports and baselines."""
        return _name("reference", self.profile, self.brokers)

    @property
    def in_virtual_time(self) -> "InProcessTarget":
        """Return the same broker inside this process."""
        return InProcessTarget(self.profile, self.token, self.brokers)

    @property
    def release(self) -> None:
        """It is no release of Apache Pulsar."""

    @asynccontextmanager
    async def run(self, config: Mapping[str, str] = NOTHING, *, progress: Progress | None = None) -> AsyncIterator[Endpoint]:
        """Start it; it has ended when the block is left.

        Args:
            config: Pulsar's own settings.
            progress: Gets a line when the broker is ready.

        Returns:
            Where it is reached.

        Raises:
            SettingsRefused: It does not know one of the settings.
            TargetError: It does not start; with the last lines of its log.
        """
        _check_settings(self.name, config)
        with tempfile.TemporaryDirectory(prefix="pulsar-conformance-", ignore_cleanup_errors=True) as folder:
            work = Path(folder)
            settings, log = work / "settings.conf", work / "broker.log"
            settings.touch(mode=0o600)  # settings may hold secrets
            settings.write_text(properties_text(self.name, config), encoding="ascii")
            serve = [sys.executable, "-m", "conformance.cli", "broker"]
            command = [*serve, "--config-file", str(settings), "--profile", self.profile, "--brokers", str(self.brokers), "--verbose"]
            async with supervised(command, log=log, cwd=work, grace_seconds=STOP_SECONDS, remove=work) as child:
                ready = await _ready(self.name, child)
                if progress:
                    progress(f"{self.name} is ready at {ready['service_url']}")
                yield Endpoint(
                    name=self.name,
                    service_url=ready["service_url"],
                    admin_url=ready["admin_url"],
                    token=self.token or own_token(config),
                    config=dict(config),
                    capabilities=CAPABILITIES,
                    log_file=log,
                    thrown_away=True,
                )


@dataclass(frozen=True)
class InProcessTarget:
    """The reference broker inside this process, reached without sockets; on a loop in virtual time waiting takes no time.

    Args:
        profile: One of `PROFILES`.
        token: Sent with CONNECT and each admin call. None: the token that the settings give to the broker itself, if they do.
        brokers: Of how many brokers the cluster is; the endpoint is that of the first one.
    """

    profile: str = "default"
    token: SecretStr | None = None
    brokers: int = 1
    startable: bool = field(default=True, init=False)
    virtual_time: bool = field(default=True, init=False)
    in_virtual_time: None = field(default=None, init=False)
    starts_at_once: int = field(default=1, init=False)
    conversations_at_once: int = field(default=6, init=False)

    @property
    def name(self) -> str:
        """Return the name for reports and baselines."""
        return _name("in-process", self.profile, self.brokers)

    @property
    def release(self) -> None:
        """It is no release of Apache Pulsar."""

    @asynccontextmanager
    async def run(self, config: Mapping[str, str] = NOTHING, *, progress: Progress | None = None) -> AsyncIterator[Endpoint]:  # noqa: ARG002
        """Make a broker; its connections are lost when the block is left.

        Args:
            config: Pulsar's own settings.
            progress: Not used.

        Returns:
            Where it is reached.

        Raises:
            SettingsRefused: It does not know one of the settings.
        """
        members = [Member(f"pulsar://in-process:{6650 + place}", f"http://in-process:{8080 + place}") for place in range(self.brokers)]
        configuration = _check_settings(self.name, config)
        try:
            broker = Broker(
                configuration,
                profiles=PROFILES[self.profile],
                members=members,
                wall_clock_offset=FIRST_DAY,
            )
        except ValueError as error:  # settings that contradict each other
            raise SettingsRefused(f"{self.name}: {error}") from None
        link = MemoryLink(broker, log=lambda line: print(line, file=sys.stderr))
        try:
            yield Endpoint(
                name=self.name,
                service_url=members[0].service_url,
                admin_url=members[0].admin_url,
                token=self.token or own_token(config),
                config=dict(config),
                capabilities=CAPABILITIES,
                thrown_away=True,
                in_process=link,
            )
        finally:
            link.close()


def _name(name: str, profile: str, brokers: int) -> str:
    of_profile = name if profile == "default" else f"{name}@{profile}"
    return of_profile if brokers == 1 else f"{of_profile}?brokers={brokers}"


def _check_settings(name: str, config: Mapping[str, str]) -> Configuration:
    try:
        return Configuration.from_settings(config)
    except ValueError as error:
        raise SettingsRefused(f"{name}: {error}") from None


async def _ready(name: str, child: Supervised) -> dict[str, str]:
    """Wait for the line in which the broker prints its addresses."""
    found: dict[str, str] = {}

    async def said() -> bool:
        text = child.log.read_text(encoding="utf-8", errors="replace") if child.log.exists() else ""
        lines = [line for line in text.splitlines(keepends=True) if line.startswith('{"service_url"') and line.endswith("\n")]
        found.update(json.loads(lines[0]) if lines else {})
        return bool(lines)

    await poll_until(said, seconds=READY_SECONDS, what=name, child=child)
    return found
