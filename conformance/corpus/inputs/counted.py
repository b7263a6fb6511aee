"""How much files have, counted in another way than by those who read them: what a reader loses, or gives twice, shows.

Nothing is looked at here but how many rows or bytes there are.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow.parquet as pq

from conformance.captures import INDEX
from conformance.corpus.inputs.names import topic_name

_LOGS = (".jsonl", ".jsonl.gz")


def text_rows(path: Path, *, names: bool) -> int:
    """Count the lines of a text that are not empty; of names those that differ."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        lines = (line.rstrip("\r\n") for line in file if line.strip())
        return len({topic_name(line).full for line in lines}) if names else sum(1 for _ in lines)


def parquet_rows(files: Sequence[Path], *, names: bool) -> int:
    """Count the rows that the ends of files tell; of names alone, which are a set, those that differ."""
    opened = [pq.ParquetFile(file) for file in files]
    if names and "id" not in opened[0].schema_arrow.names:
        hashes = [
            np.fromiter(map(hash, batch["topic"].to_pylist()), np.int64) for one in opened for batch in one.iter_batches(columns=["topic"])
        ]
        return len(np.unique(np.concatenate(hashes)))
    return sum(one.metadata.num_rows for one in opened)


def jar_rows(jars: Sequence[Path]) -> int:
    """Count the files of jars."""
    return sum(len({name for name in ZipFile(jar).namelist() if not name.endswith("/")}) for jar in jars)


def capture_bytes(home: Path, damaged: Collection[str] = (), before: float = inf) -> dict[str, int]:
    """Count the bytes that were sent according to event logs, and those of files that an index names.

    Args:
        home: A log, a raw capture, or a folder with some.
        damaged: Files that are not counted, by name.
        before: Nor are files that were written later, in seconds since 1970.

    Returns:
        Bytes by the name that a file has in rows. Captures of packets are not among them, since what is there twice counts once.
    """
    if home.is_file() and home.name != INDEX:
        folder, files, logs = home.parent, set[Path](), {home} if home.name.endswith(_LOGS) else set()
    else:
        folder = home.parent if home.is_file() else home
        indexes = sorted(folder.rglob(INDEX))
        lines = [(index, line) for index in indexes for line in index.read_bytes().decode("utf-8-sig").split("\n") if line.strip()]
        files = {index.parent / json.loads(line)["file"] for index, line in lines if _name(index, folder) not in damaged}
        logs = {path for path in folder.rglob("*") if path.name.endswith(_LOGS) and path.is_file()} - {*indexes, *files}
    kept = {path: name for path in sorted(files | logs) if (name := _name(path, folder)) not in damaged and path.stat().st_mtime <= before}
    return {name: log_bytes(path) if path in logs else path.stat().st_size for path, name in kept.items()}


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix().encode(errors="surrogateescape").decode(errors="backslashreplace")


def log_bytes(path: Path) -> int:
    """Count the bytes that an event log says were sent, in both directions."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return sum(_sizes(file))


def _sizes(lines: Iterable[bytes]) -> Iterator[int]:
    for line in lines:
        record = json.loads(line)
        if record["record"] in ("frame", "garbage", "answer") or (record["record"], record.get("what")) == ("begin", "send"):
            data = record.get("octets", record.get("data")) or ""
            yield record["size"] if ".." in data else len(data) // 2
