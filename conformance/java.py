"""Java and Maven on this machine, for real brokers, for Spark and for the project's own tests; or what to install."""

import asyncio
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_HINT = f"install a JDK {OLDEST_JAVA} or newer and put it on PATH or into JAVA_HOME"


class JavaError(Exception):
    """Java or Maven can't be used here: what is wrong in one line, and what to do about it.

    Args:
        message: What is wrong.
        hint: What the user can do.
    """

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(f"{message} ({hint})")
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Java:
    """A Java runtime.

    Attributes:
        program: The executable.
        major: Its version, 17 for "17.0.15" and 8 for "1.8.0_402".
    """

    program: Path
    major: int


async def find_java(whose: str = "Apache Pulsar") -> Java:
    """Choose the Java runtime: the one in JAVA_HOME, else the one on PATH; the first that is new enough.

    Args:
        whose: What needs it, for the messages.

    Returns:
        The runtime.

    Raises:
        JavaError: There is none, or none is new enough.
    """
    home = os.environ.get("JAVA_HOME")
    names = [str(Path(home) / "bin" / "java")] if home else []
    found = [Path(path) for path in (shutil.which(name) for name in [*names, "java"]) if path]
    too_old = []
    for program in found:
        major = await _major_version(program)
        if major >= OLDEST_JAVA:
            return Java(program, major)
        too_old.append(f"{program} is Java {major or 'of an unknown version'}")
    if too_old:
        raise JavaError(f"{whose} needs Java {OLDEST_JAVA} or newer, but {' and '.join(too_old)}", hint=_JAVA_HINT)
    raise JavaError(f"{whose} needs Java, which was not found", hint=_JAVA_HINT)


async def _major_version(program: Path) -> int:
    """Return the version of a runtime; 0 if it does not tell, or can't be started."""
    try:
        process = await asyncio.create_subprocess_exec(
            program, "-version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError:
        return 0
    output, _ = await process.communicate()
    match = _VERSION.search(output.decode(errors="replace"))
    return int(match[1]) if match else 0


def find_maven() -> Path:
    """Find Maven on PATH.

    Returns:
        The executable.

    Raises:
        JavaError: It is not there.
    """
    program = shutil.which("mvn")
    if program is None:
        raise JavaError(
            "Maven was not found", hint="install Maven 3.6 or newer and put mvn on PATH; it fetches Apache Pulsar once for each version"
        )
    return Path(program)
