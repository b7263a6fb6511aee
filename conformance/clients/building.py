"""Drivers that have to be built: fetched and compiled once by the tools of their language, then kept in the user's cache.

Layout of the cache: `clients/NAME/...`, in there what a driver was built to, under a digest of its sources.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from conformance.files import cache_folder
from conformance.java import OLDEST_JAVA, Java, JavaError, find_java, find_maven
from conformance.targets.jars import first_error, locked, resolved
from conformance.targets.model import Progress, TargetError
from conformance.targets.process import supervised

DRIVERS: Final = Path(__file__).parents[1] / "drivers"
_BUILD_SECONDS: Final = 1200.0
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulsar-conformance</groupId><artifactId>client</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""


@dataclass(frozen=True)
class JavaClient:
    """A client on Maven Central, with a driver of one file.

    Attributes:
        name: What the suite calls it, and the folder of its driver.
        artifact: Its artifact of org.apache.pulsar.
        version: "4.2.4".
        megabytes: Size of its jars.
    """

    name: str
    artifact: str
    version: str
    megabytes: int

    def check(self) -> None:
        """Find the tools that it needs.

        Raises:
            JavaError: One is missing.
        """
        if not (cache_folder() / "clients" / self.name / self.version).is_dir():
            find_maven()
        find_javac()

    async def jars(self, progress: Progress | None = None) -> tuple[Java, Path]:
        """Return a Java runtime and the folder with the jars of the client, which are fetched if the cache does not have them.

        Raises:
            JavaError: Java or Maven is missing.
            TargetError: Maven can't fetch them.
        """
        java = await find_java("this client")
        home = cache_folder() / "clients" / self.name / self.version
        pom = _POM.format(artifact=self.artifact, version=self.version)
        return java, await resolved(home, pom, f"{self.artifact} {self.version}", self.megabytes, java, progress)

    async def build(self, progress: Progress | None = None) -> Sequence[str]:
        """Return the command that starts its driver, which is compiled if it was not yet.

        Raises:
            JavaError: Java, its compiler or Maven is missing.
            TargetError: The client can't be fetched, or the driver not compiled.
        """
        source = DRIVERS / self.name / "Driver.java"
        java, lib = await self.jars(progress)
        classes = lib.parent / f"driver-{_digest([source])}"
        async with locked(lib.parent / "driver.lock", f"building the driver of client:{self.name}", progress):
            if not classes.is_dir():
                half = _half(classes)
                compiler = [str(find_javac()), "-nowarn", "-d", str(half), "-cp", f"{lib}/*", str(source)]
                await _run(compiler, source.parent, half.with_suffix(".log"), f"the driver of client:{self.name}")
                half.rename(classes)
        path = os.pathsep.join((str(classes), f"{lib}/*"))
        return [str(java.program), "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, "Driver"]


def find_javac() -> Path:
    """Find Java's compiler: the one in JAVA_HOME, else the one on PATH.

    Raises:
        JavaError: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    names = [str(Path(home) / "bin" / "javac")] if home else []
    for name in (*names, "javac"):
        if program := shutil.which(name):
            return Path(program)
    raise JavaError(
        "Java's compiler, javac, was not found", hint=f"install a JDK {OLDEST_JAVA} or newer and put it on PATH or into JAVA_HOME"
    )


@dataclass(frozen=True)
class GoClient:
    """A client in Go, whose driver is a module."""

    name: str

    def check(self) -> None:
        """Find the tool that it needs.

        Raises:
            TargetError: It is missing.
        """
        _find("go", "Go 1.24 or newer")

    async def build(self, progress: Progress | None = None) -> Sequence[str]:
        """Return the command that starts its driver, which is built if it was not yet.

        Raises:
            TargetError: Go is missing, or can't build it.
        """
        go, folder = _find("go", "Go 1.24 or newer"), DRIVERS / self.name
        program = cache_folder() / "clients" / self.name / f"driver-{_digest(sorted(folder.glob('*.*')))}"
        async with locked(program.with_name("driver.lock"), f"building the driver of client:{self.name}", progress):
            if not program.is_file():
                if progress:
                    progress(f"building the driver of client:{self.name} (minutes, once)")
                half, what = _half(program), f"the driver of client:{self.name}"
                await _run([go, "build", "-o", str(half / "driver"), "."], folder, half.with_suffix(".log"), what)
                (half / "driver").rename(program)
        return [str(program)]


@dataclass(frozen=True)
class RustClient:
    """A client in Rust, whose driver is a package."""

    name: str

    def check(self) -> None:
        """Find the tools that it needs.

        Raises:
            TargetError: One is missing.
        """
        _find("cargo", "Rust 1.85 or newer")
        _protoc()

    async def build(self, progress: Progress | None = None) -> Sequence[str]:
        """Return the command that starts its driver, which is built if it was not yet.

        Raises:
            TargetError: A tool is missing, or can't build it.
        """
        cargo, protoc, folder = _find("cargo", "Rust 1.85 or newer"), _protoc(), DRIVERS / self.name
        home = cache_folder() / "clients" / self.name
        program = home / f"driver-{_digest([*sorted(folder.glob('*.*')), *sorted(folder.glob('src/*'))])}"
        async with locked(program.with_name("driver.lock"), f"building the driver of client:{self.name}", progress):
            if not program.is_file():
                if progress:
                    progress(f"building the driver of client:{self.name} (minutes, once)")
                half, what = _half(program), f"the driver of client:{self.name}"
                compiler = half / "protoc"  # the client's build script starts one by its path
                compiler.write_text(f'#!/bin/sh\nexec {shlex.join(protoc)} "$@"\n', encoding="utf-8")
                compiler.chmod(0o755)
                command = [cargo, "build", "--locked", "--target-dir", str(home / "target")]
                await _run(["env", f"PROTOC={compiler}", *command], folder, half.with_suffix(".log"), what)
                shutil.copy(home / "target" / "debug" / "driver", half / "driver")
                (half / "driver").rename(program)
        return [str(program)]


def _protoc() -> list[str]:
    """Return the command of the compiler of protocol buffers: that of the machine, else that of Python's gRPC tools."""
    program = shutil.which("protoc")
    if program is not None:
        return [program]
    if find_spec("grpc_tools") is None:
        raise TargetError("protoc was not found, which builds the client for Rust", hint="pip install grpcio-tools, or put protoc on PATH")
    return [sys.executable, "-m", "grpc_tools.protoc"]


@dataclass(frozen=True)
class NpmClient:
    """A client in JavaScript, whose driver is a package of npm."""

    name: str

    def check(self) -> None:
        """Find the tools that it needs.

        Raises:
            TargetError: One is missing.
        """
        _find("node", "Node.js 20 or newer")
        _find("npm", "Node.js 20 or newer")

    async def build(self, progress: Progress | None = None) -> Sequence[str]:
        """Return the command that starts its driver, whose packages are fetched if they were not yet.

        Raises:
            TargetError: A tool is missing, or can't fetch them.
        """
        node, npm = _find("node", "Node.js 20 or newer"), _find("npm", "Node.js 20 or newer")
        files = sorted((DRIVERS / self.name).glob("*.*"))
        home = cache_folder() / "clients" / self.name / f"driver-{_digest(files)}"
        async with locked(home.with_name("driver.lock"), f"building the driver of client:{self.name}", progress):
            if not home.is_dir():
                half = _half(home)
                for file in files:
                    shutil.copy(file, half)
                fetch = [npm, "ci", "--silent", "--ignore-scripts"]
                await _run(fetch, half, half.with_suffix(".log"), f"the driver of client:{self.name}")
                half.rename(home)
        return [node, str(home / "driver.js")]


def _find(tool: str, what: str) -> str:
    """Return the path of a tool.

    Args:
        tool: Its program.
        what: What to install to have it.

    Raises:
        TargetError: It is missing.
    """
    program = shutil.which(tool)
    if program is None:
        raise TargetError(f"{tool} was not found", hint=f"install {what} and put {tool} on PATH; it fetches and builds the client once")
    return program


def _half(whole: Path) -> Path:
    half = whole.with_name(f".{whole.name}")
    shutil.rmtree(half, ignore_errors=True)  # left by a process that was killed: the lock is ours
    half.mkdir()
    return half


async def _run(command: Sequence[str], folder: Path, log: Path, what: str) -> None:
    async with supervised(command, log=log, cwd=folder, grace_seconds=2) as child:
        if await child.wait(_BUILD_SECONDS) != 0:
            raise TargetError(f"{what} can't be built: {first_error(log)}", hint=f"its tool's log: {log}")
    log.unlink()


def _digest(files: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()[:12]
