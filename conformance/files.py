"""Files that people name: read only if they are files, and of a size that such a file can have."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

SETTINGS = 8 << 20
"""Bytes of a file that a person writes: a target, a baseline, a transcript, settings, a token."""
LOG = 512 << 20
"""Bytes of a log, decompressed; a whole run writes 40 million."""
_GZIP = b"\x1f\x8b"


def cache_folder() -> Path:
    """Tell where jars, built clients and the checked suite are kept: PULSAR_CONFORMANCE_CACHE, else the user's cache folder.

    Returns:
        The folder; it need not exist.
    """
    if own := os.environ.get("PULSAR_CONFORMANCE_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pulsar-conformance"


def read_text(path: Path) -> str:
    """Read a file that a person writes.

    Raises:
        OSError: It can't be read, is a device or a folder, or holds more than `SETTINGS` bytes.
        UnicodeDecodeError: It is not UTF-8.
    """
    with path.open("rb") as file:
        _check_kind(path, file)
        return _read(path, file, SETTINGS).decode()


def read_log(path: Path) -> bytes:
    """Read a log, compressed or not; of a compressed one that is cut, what there is.

    Raises:
        OSError: It can't be read, is a device or a folder, or holds more than `LOG` bytes.
    """
    with path.open("rb") as file:
        _check_kind(path, file)
        packed = file.peek(2)[:2] == _GZIP
        return _read(path, gzip.open(file) if packed else file, LOG)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file at once: whoever reads it meanwhile has the old one, or all of the new one. Its folder is made if it is not there.

    Raises:
        OSError: It can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_bytes(data)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if it is not there: no other process gets it meanwhile. The lock ends with the process.

    Raises:
        OSError: It can't be written to, or another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".lock"
    with lock.open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EBUSY, "another run writes its report there", str(lock)) from None
        yield


def _check_kind(path: Path, file: IO[bytes]) -> None:
    mode = os.fstat(file.fileno()).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise OSError(errno.EINVAL, "it is no file", str(path))


def _read(path: Path, file: Any, most: int) -> bytes:
    data = bytearray()
    try:
        while piece := file.read1(1 << 16):
            data += piece
            if len(data) > most:
                raise OSError(errno.EFBIG, f"it holds more than {most >> 20} MB", str(path))
    except EOFError:  # the end of what is compressed is cut off
        if not data:
            raise OSError(errno.EIO, "it is cut at its very beginning", str(path)) from None
    return bytes(data)
