"""The clients that the suite can drive by itself, and what `client:NAME` means."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from conformance.clients.building import DRIVERS, GoClient, JavaClient, NpmClient, RustClient
from conformance.java import JavaError
from conformance.names import did_you_mean
from conformance.targets.model import Progress, TargetError

PREFIX: Final = "client:"


class Built(Protocol):
    """A client whose driver has to be built."""

    def check(self) -> None:
        """Find the tools that it needs; JavaError or TargetError if one is missing."""

    async def build(self, progress: Progress | None = None) -> Sequence[str]:
        """Return the command that starts its driver."""


@dataclass(frozen=True)
class ClientTarget:
    """A client under test.

    Attributes:
        name: "client:python"; for reports and baselines.
        command: How its driver is started; empty until it is built.
        at_once: How many drivers run at the same time, at most: they wait nearly always, but take memory.
        built: What builds its driver; None: nothing has to be built.
    """

    name: str
    command: Sequence[str] = ()
    at_once: int = 24
    profile: str = "default"
    built: Built | None = None

    async def ready(self, progress: Progress | None = None) -> ClientTarget:
        """Return it with the command of its driver, which is built if it was not yet.

        Args:
            progress: Gets a line when that takes long.

        Raises:
            TargetError: It can't be built.
        """
        if self.built is None:
            return self
        try:
            return replace(self, command=await self.built.build(progress), built=None)
        except JavaError as error:
            raise TargetError(error.message, hint=error.hint) from None


IN_PROCESS: Final = ClientTarget("client:in-process", ["in-process"])
"""The reference client inside the process of the suite, for those who use `conformance.clients.in_process`."""


class _NoDriver:
    def check(self) -> None:
        raise TargetError(f"{MANUAL.name} has no driver: only `run` asks a person instead")

    async def build(self, progress: Progress | None = None) -> Sequence[str]:  # noqa: ARG002
        self.check()
        return ()


MANUAL: Final = ClientTarget("client:manual", at_once=1, built=_NoDriver())
"""Any program that a person points at the suite: nobody drives it but them."""


@dataclass(frozen=True)
class Package:
    """A client in a Python package.

    Attributes:
        file: Its driver.
        module: What it imports.
        install: The package to install for it.
    """

    file: str
    module: str
    install: str


JAVA: Final = JavaClient("java", "pulsar-client", "4.2.4", 47)
JAVA_V5: Final = JavaClient("java_v5", "pulsar-client-v5", "5.0.0-M1", 38)
KNOWN: Final[Mapping[str, Package | JavaClient | GoClient | RustClient | NpmClient]] = {
    "reference": Package("reference.py", "refimpl", "pulsar-conformance"),
    "python": Package("python.py", "pulsar", "pulsar-client"),
    "java": JAVA,
    "java_v5": JAVA_V5,
    "go": GoClient("go"),
    "rust": RustClient("rust"),
    "flex": NpmClient("flex"),
}
"""By name: what their drivers need."""


def parse_client(text: str) -> ClientTarget:
    """Find out which client a user means.

    Args:
        text: `client:NAME` with one of `KNOWN`, `client:manual`, or `client:PATH` with a program that is its driver.

    Raises:
        TargetError: There is no such client or program, or something that it needs is not installed.
    """
    meant = text.removeprefix(PREFIX)
    if text == MANUAL.name:
        return MANUAL
    if meant in KNOWN:
        return _known(meant)
    if "/" not in meant:
        raise TargetError(
            f"{text!r} is no client that the suite knows{did_you_mean(meant, [*KNOWN, 'manual'])}",
            hint=f"known are {', '.join(PREFIX + name for name in KNOWN)}; for another driver give a path: {PREFIX}./my-driver; "
            f"without a driver: {MANUAL.name}",
        )
    program = Path(meant).expanduser()
    if not (program.is_file() and os.access(program, os.X_OK)):
        reason = "is a folder" if program.is_dir() else "is not executable" if program.exists() else "does not exist"
        raise TargetError(f"{text}: the driver {reason}", hint="a driver is a program that reads and writes JSON lines")
    return ClientTarget(f"{PREFIX}{program.name}", [str(program.absolute())])


def _known(name: str) -> ClientTarget:
    client = KNOWN[name]
    if isinstance(client, Package):
        if find_spec(client.module) is None:
            raise TargetError(f"{PREFIX}{name} needs the package {client.module}", hint=f"pip install {client.install}")
        return ClientTarget(f"{PREFIX}{name}", [sys.executable, str(DRIVERS / client.file)])
    try:
        client.check()
    except JavaError as error:
        raise TargetError(f"{PREFIX}{name}: {error.message}", hint=error.hint) from None
    at_once = 2 if isinstance(client, JavaClient) else ClientTarget.at_once  # each takes a processor for some seconds
    return ClientTarget(f"{PREFIX}{name}", at_once=at_once, built=client)
