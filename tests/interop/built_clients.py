"""The clients in Go, Rust and JavaScript: what starts them, after their own tools have fetched and built them into the project's cache."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.files import cache_folder

TOOLS = {"go": "go", "rust": "cargo", "flex": "npm"}
"""What builds each of them."""
_FOLDER = Path(__file__).parent
_BUILD_SECONDS = 1200


def missing_tool(client: str) -> str | None:
    """Return the tool that a client needs and that is not here."""
    tool = TOOLS.get(client)
    return tool if tool is not None and shutil.which(tool) is None else None


def built_command(client: str) -> Sequence[str]:
    """Give the command that runs a client, which is built first.

    Raises:
        subprocess.SubprocessError: It can't be fetched or built; with the words of its tool.
    """
    place = cache_folder() / f"{client}-client"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return {"go": _go, "rust": _rust, "flex": _flex}[client](place)


def _go(place: Path) -> Sequence[str]:
    _run(["go", "build", "-o", str(place / "client"), "."], _FOLDER / "go")
    return [str(place / "client")]


def _rust(place: Path) -> Sequence[str]:
    environment = {"CARGO_TARGET_DIR": str(place / "target")}
    if shutil.which("protoc") is None:
        protoc = place / "protoc"
        protoc.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m grpc_tools.protoc "$@"\n')
        protoc.chmod(0o755)
        environment["PROTOC"] = str(protoc)
    _run(["cargo", "build", "--quiet", "--locked"], _FOLDER / "rust", **environment)
    return [str(place / "target" / "debug" / "interop")]


def _flex(place: Path) -> Sequence[str]:
    for path in (_FOLDER / "flex").iterdir():
        shutil.copy(path, place)
    if not (place / "node_modules").exists():
        _run(["npm", "ci", "--silent", "--ignore-scripts"], place)
    return ["node", str(place / "client.js")]


def _run(command: Sequence[str], folder: Path, **environment: str) -> None:
    subprocess.run(command, cwd=folder, env={**os.environ, **environment}, timeout=_BUILD_SECONDS, check=True, stdin=subprocess.DEVNULL)
