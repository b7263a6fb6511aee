"""Keeps the suite, once it is loaded and checked, in the user's cache folder, for as long as no file of it changes.

To read and check all cases takes seconds, which each command would spend again.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic

from conformance.files import cache_folder, write_whole
from conformance.names import HOME

if TYPE_CHECKING:
    from conformance.suite import Suite

_SOURCES = (HOME, HOME.parent / "refimpl")
"""Whatever code a suite is read and checked by."""
_MOST = 4
"""Copies of this package whose suites are kept, the newest."""


def load(digest: str) -> Suite | None:
    """Return the suite that was kept.

    Args:
        digest: Of the files of clauses and cases.

    Returns:
        The suite; None if none was kept, if a file has changed since, or if what was kept can't be read.
    """
    try:
        data = _path().read_bytes()
        with _paused_collection():
            key, suite = pickle.loads(data)  # written by `keep`; the programs that the suite starts are in the same folder
    except Exception:  # a file that was cut, or written by another version, may raise anything
        return None
    return suite if key == _key(digest) else None


def keep(digest: str, suite: Suite) -> None:
    """Keep a suite; without a cache folder that can be written to, keep nothing."""
    path = _path()
    with contextlib.suppress(OSError):
        write_whole(path, pickle.dumps((_key(digest), suite), pickle.HIGHEST_PROTOCOL))
        for old in sorted(path.parent.iterdir(), key=lambda one: one.stat().st_mtime)[:-_MOST]:
            old.unlink()


def _path() -> Path:
    return cache_folder() / "suites" / f"{hashlib.sha256(os.fsencode(HOME)).hexdigest()[:16]}.pickle"


def _key(digest: str) -> str:
    """Return what has to be the same: the files of the suite, all code that could read them, and the versions of what that leans on."""
    key = hashlib.sha256(f"{digest} {sys.version} {pydantic.VERSION}".encode())
    for folder in _SOURCES:
        for path in sorted(folder.rglob("*.py")):
            status = path.stat()
            key.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return key.hexdigest()


@contextlib.contextmanager
def _paused_collection() -> Iterator[None]:
    """Do without Python's garbage collection, which would look through all that has been read again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
