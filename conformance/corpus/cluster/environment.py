"""Packs what the workers of a cluster need into one archive: an interpreter, the locked requirements, and this project.

The archive goes with `spark-submit --archives environment.tar.gz#environment`. PySpark itself is left out, since each node of a cluster
has its own; the interpreter is a copy that expects the same Python installed on each node.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from conformance.corpus.errors import SparkError

ROOT = Path(__file__).parents[3]
REQUIREMENTS = ("requirements.txt", "requirements-spark.txt")
NAME = "environment"
_ON_EACH_NODE = ("pyspark", "py4j")
_PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


@dataclass(frozen=True)
class Environment:
    """A packed environment.

    Attributes:
        archive: What goes to the workers.
        home: The same, unpacked: the driver's Java starts Python planners in it, under the same relative name as the workers.
    """

    archive: Path
    home: Path


def pack(folder: Path, root: Path = ROOT) -> Environment:
    """Make the archive; the requirements are installed again only if they have changed.

    Args:
        folder: Where environments and archives are kept.
        root: The project's folder, with its requirements files.

    Returns:
        The environment.

    Raises:
        SparkError: This is not a checkout of the project, or a package can't be installed.
    """
    wanted = _requirements(root)
    home = folder / hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()[:16]
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        _run(sys.executable, "-m", "venv", "--clear", "--copies", str(home))
        listed = home / "requirements.txt"
        listed.write_text("\n".join(wanted) + "\n", encoding="ascii")
        _run(str(python), *_PIP, "--no-deps", "--requirement", str(listed))
        (home / "complete").touch()
    _run(str(python), *_PIP, "--no-deps", "--no-build-isolation", "--force-reinstall", str(root))
    archive = folder / f"{NAME}.tar.gz"
    new = archive.with_suffix(".new")
    with tarfile.open(new, "w:gz", compresslevel=1) as file:  # Spark loses the permissions of a plain .tar
        for part in ("bin", "lib", "pyvenv.cfg"):
            file.add(home / part, part, filter=_without_caches)
    new.replace(archive)
    return Environment(archive.absolute(), home.absolute())


def _requirements(root: Path) -> list[str]:
    try:
        lines = [line.strip() for name in REQUIREMENTS for line in (root / name).read_text(encoding="ascii").splitlines()]
    except OSError as error:
        hint = "an environment is packed from a checkout; with an installed package pack your own, see the page on corpora"
        raise SparkError(f"{error.filename} is missing", hint=hint) from None
    return [line for line in lines if line and not line.startswith("#") and line.partition("==")[0] not in _ON_EACH_NODE]


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise SparkError(f"{' '.join(command[:4])} .. failed: {' '.join(last) or 'without a word'}", hint="are the registries reachable?")
