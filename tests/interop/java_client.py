"""The Maven clients: their jars, copied by Maven into the project's cache once, and the command that starts `Client.java` with them.

`java` is the client for ordinary topics, `java_v5` the one for scalable topics; each folder has what it needs.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from conformance.java import find_java, find_maven
from conformance.targets.jars import cache_folder

VERSIONS = {"java": "4.2.4", "java_v5": "5.0.0-M1"}
_FOLDER = Path(__file__).parent
_RESOLVE_SECONDS = 900
# Poms of Pulsar name further repositories that may not answer: an empty folder in their place makes Maven go on to Central at once.
_SETTINGS = "<settings><mirrors><mirror><id>empty</id><mirrorOf>external:*,!central</mirrorOf><url>{}</url></mirror></mirrors></settings>"


def java_command(client: str) -> list[str]:
    """Give the command that runs the Java side.

    Args:
        client: "java" or "java_v5".

    Raises:
        JavaError: Java or Maven is missing.
        subprocess.SubprocessError: Maven could not fetch the jars; with its words.
    """
    java = asyncio.run(find_java()).program
    lib = cache_folder() / client.replace("java", "java-client").replace("_", "-") / VERSIONS[client]
    if not lib.exists():
        _resolve(lib, _FOLDER / client / "pom.xml", find_maven(), java)
    return [str(java), "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{lib}/*", str(_FOLDER / client / "Client.java")]


def _resolve(lib: Path, pom: Path, maven: Path, java: Path) -> None:
    lib.parent.mkdir(parents=True, exist_ok=True)
    with lib.with_name(f"{lib.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if lib.exists():  # another process was faster
            return
        with tempfile.TemporaryDirectory(dir=lib.parent) as name:
            work = Path(name)
            shutil.copy(pom, work)
            (work / "empty").mkdir()
            (work / "settings.xml").write_text(_SETTINGS.format((work / "empty").as_uri()))
            place = "-gs" if (Path.home() / ".m2" / "settings.xml").exists() else "-s"
            subprocess.run(
                [maven, "-q", "-B", place, "settings.xml", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib"],
                cwd=work, env={**os.environ, "JAVA_HOME": str(java.resolve().parent.parent)}, timeout=_RESOLVE_SECONDS, check=True,
            )  # fmt: skip
            (work / "lib").rename(lib)
