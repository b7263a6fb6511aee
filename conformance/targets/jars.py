"""The jars of Apache Pulsar by version: resolved once with Maven, then kept in a cache.

Layout of the cache: `apache-pulsar/VERSION/lib/*.jar` next to `complete.json`, which says how many jars there have to be. A version is
resolved in a temporary folder and renamed when whole; a lock file lets one process at a time do that.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from xml.sax.saxutils import escape

from conformance.files import cache_folder
from conformance.java import Java, find_maven
from conformance.targets.model import Progress, TargetError
from conformance.targets.process import poll_until, supervised

_RESOLVE_SECONDS = 1800.0
_MARKER = "complete.json"


@dataclass(frozen=True)
class Release:
    """A release of Apache Pulsar whose jars are all on Maven Central.

    Attributes:
        version: "4.2.4".
        megabytes: Size of its jars.
        versions_pom: Artifact whose `dependencyManagement` makes the versions of its libraries fit together.
        old_metadata: Keeps its metadata in ZooKeeper (standalone before 2.11).
        bookie_port_option: The starter takes the bookie's port as an option.
    """

    version: str
    megabytes: int
    versions_pom: str = "pulsar"
    old_metadata: bool = False
    bookie_port_option: bool = True


_KNOWN = (
    Release("2.10.5", 170, old_metadata=True),
    Release("2.11.0", 183),
    Release("3.0.7", 199),
    Release("4.0.0", 228),
    Release("4.2.4", 242),
    Release("5.0.0-M1", 220, versions_pom="pulsar-dependencies", bookie_port_option=False),
)
RELEASES = MappingProxyType({release.version: release for release in _KNOWN})
"""The releases that are known to resolve and start, by version, oldest first."""
BROKER_ARTIFACT, PROXY_ARTIFACT = "pulsar-broker", "pulsar-proxy"
PROXY = Release("2.11.0", 130)
"""The release whose proxy is on Maven Central; brokers of all releases can stand behind it."""
_FOLDERS = {BROKER_ARTIFACT: "apache-pulsar", PROXY_ARTIFACT: "apache-pulsar-proxy"}

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulsar-conformance</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>{versions_pom}</artifactId><version>{version}</version><type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""
# Poms of Pulsar name further repositories that may not answer: an empty folder in their place makes Maven go on to Central at once.
_SETTINGS = """\
<settings>
  <mirrors><mirror><id>empty</id><mirrorOf>external:*,!central</mirrorOf><url>{empty}</url></mirror></mirrors>
</settings>
"""


async def jars(release: Release, java: Java, progress: Progress | None = None, artifact: str = BROKER_ARTIFACT) -> Path:
    """Return the folder with the jars of a release; resolve them with Maven when the cache does not have them whole.

    Args:
        release: Which one.
        java: What Maven runs with.
        progress: Gets a line when Maven has to be asked, or another process is asking it.
        artifact: The program that they are for.

    Returns:
        The folder of the jars.

    Raises:
        JavaError: Maven is missing.
        TargetError: Maven can't resolve them.
    """
    folder = _FOLDERS[artifact]
    pom = _POM.format(versions_pom=release.versions_pom, version=release.version, artifact=artifact)
    return await resolved(cache_folder() / folder / release.version, pom, f"{folder} {release.version}", release.megabytes, java, progress)


async def resolved(home: Path, pom: str, what: str, megabytes: int, java: Java, progress: Progress | None = None) -> Path:
    """Return the folder with the jars that a pom depends on; resolve them with Maven when the cache does not have them whole.

    Args:
        home: Their folder in the cache.
        pom: The text of the pom.
        what: What they are, for messages.
        megabytes: Their size.
        java: What Maven runs with.
        progress: Gets a line when Maven has to be asked, or another process is asking it.

    Returns:
        The folder of the jars.

    Raises:
        JavaError: Maven is missing.
        TargetError: Maven can't resolve them.
    """
    if _is_complete(home):
        return home / "lib"
    maven = find_maven()
    async with locked(home.with_name(f"{home.name}.lock"), f"resolving {what}", progress):
        if not _is_complete(home):
            if progress:
                progress(f"resolving {what} with Maven (about {megabytes} MB, once)")
            await _resolve_into(home, pom, what, maven, java)
    return home / "lib"


def _is_complete(home: Path) -> bool:
    try:
        expected = json.loads((home / _MARKER).read_text())["jars"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(expected == len(list((home / "lib").glob("*.jar"))))


@asynccontextmanager
async def locked(path: Path, doing: str, progress: Progress | None) -> AsyncIterator[None]:
    """Do something in the cache that one process at a time may do.

    Args:
        path: The lock file; its folder is made.
        doing: What is done, for messages: "building x".
        progress: Gets a line when another process does it.

    Raises:
        TargetError: The cache can't be written, or the other process does not end.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TargetError(
            f"cache folder {path.parent}: {error.strerror}", hint="set PULSAR_CONFORMANCE_CACHE to a folder that can be written"
        ) from None
    with path.open("a") as file:

        async def taken() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        if not await taken():
            if progress:
                progress(f"another process is {doing}: waiting for it")
            await poll_until(taken, seconds=_RESOLVE_SECONDS, what=f"{doing} by another process", interval=0.5)
        yield


async def _resolve_into(home: Path, pom: str, what: str, maven: Path, java: Java) -> None:
    prefix = f".{home.name}-"
    for left_over in home.parent.glob(f"{prefix}*"):  # left by a process that was killed: the lock is ours
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=home.parent) as name:
        work = Path(name)
        await _run_maven(work, pom, what, maven, java)
        whole = work / "whole"
        whole.mkdir()
        (work / "lib").rename(whole / "lib")
        count = len(list((whole / "lib").glob("*.jar")))
        (whole / _MARKER).write_text(json.dumps({"version": home.name, "jars": count}) + "\n")
        shutil.rmtree(home, ignore_errors=True)
        whole.rename(home)


async def _run_maven(work: Path, pom: str, what: str, maven: Path, java: Java) -> None:
    empty = work / "empty"
    empty.mkdir()
    (work / "pom.xml").write_text(pom)
    settings = work / "settings.xml"
    settings.write_text(_SETTINGS.format(empty=escape(empty.as_uri())))
    # ours in the place that the user has not taken: both are then in force, the user's mirrors first
    place = "-gs" if (Path.home() / ".m2" / "settings.xml").exists() else "-s"
    command = [str(maven), "-q", "-B", place, str(settings), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    log = work / "maven.log"
    # Maven finds its runtime through JAVA_HOME; ours is JAVA_HOME/bin/java or, on PATH, often a chain of links into it
    environment = {**os.environ, "JAVA_HOME": str(java.program.resolve().parent.parent)}
    async with supervised(
        [*command, f"-DoutputDirectory={work / 'lib'}"], log=log, cwd=work, grace_seconds=2, environment=environment
    ) as child:
        exit_code = await child.wait(_RESOLVE_SECONDS)
        if exit_code != 0 or not list(work.glob("lib/*.jar")):
            raise TargetError(f"Maven could not resolve {what}: {first_error(log)}", hint="can Maven reach Maven Central?")


def first_error(log: Path) -> str:
    """Return the first line of a tool's log that tells of an error, else its first line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return next((line for line in [*errors, *lines] if line), "it said nothing")
