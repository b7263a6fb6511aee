"""Parquet of users: first the columns and types of each file, then the rows."""

from __future__ import annotations

import difflib
import glob
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from conformance.corpus.errors import CorpusError
from conformance.corpus.inputs.rows import Rows

_ROWS = 1 << 16
_KINDS: Mapping[str, tuple[pa.DataType, ...]] = {
    "string": (pa.string(), pa.large_string(), pa.string_view()),
    "binary": (pa.binary(), pa.large_binary(), pa.binary_view()),
    "boolean": (pa.bool_(),),
    "tinyint": (pa.int8(),),
    "smallint": (pa.int16(), pa.uint8()),
    "int": (pa.int32(), pa.uint16()),
    "bigint": (pa.int64(), pa.uint32()),
    "float": (pa.float32(),),
    "double": (pa.float64(),),
}


def check_parquet(path: str, required: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Look at all files of a corpus in Parquet.

    Args:
        path: A file, a folder, or several by a pattern with `*`.
        required: Columns that it has to have, with their types as Spark writes them.
        known: Columns that it may have, with the required ones.

    Raises:
        CorpusError: It is not there, can't be read, has a column that is missing, unknown or of another type, or a row that is wrong.
    """
    files = parquet_files(path)
    opened = [_open(file) for file in files]
    for file, one in zip(files, opened, strict=True):
        _check_columns(file, one.schema_arrow, required, known)
    _check_same_columns(files, opened, known)
    _check_folders(Path(path), files, known)
    counts = [one.metadata.num_rows for one in opened]
    starts = [0, *accumulate(counts)]
    if not starts[-1]:
        raise CorpusError(f"{path}: has no rows")

    def place(row: int) -> str:
        number = bisect_right(starts, row) - 1
        return f"{files[number]}, row {row - starts[number] + 1:,} of {counts[number]:,}"

    rows = Rows(starts[-1], place)
    for file, one in zip(files, opened, strict=True):
        names = [name for name in one.schema_arrow.names if name in known]
        try:
            for batch in one.iter_batches(_ROWS, columns=names):
                rows.check(batch)
        except (OSError, pa.ArrowException) as error:
            raise CorpusError(f"{file}: can't be read as Parquet: {_line(error)}") from None
    rows.end()


def parquet_files(path: str) -> list[Path]:
    """List the files of a corpus as Spark does: those whose names begin with `_` or `.` are no part of it.

    Raises:
        CorpusError: There is none, or something that would be left out: a link to a folder or to nothing, or what is no file.
    """
    try:
        given = [Path(path)] if Path(path).exists() else [Path(one) for one in sorted(glob.glob(path))]
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path}: can't be read as Parquet: {error}") from None
    if not given:
        raise CorpusError(f"{path}: can't be read as Parquet: there is no such file or folder")
    found = []
    for one in given:
        if one.is_dir() and not os.access(one, os.R_OK | os.X_OK):
            raise CorpusError(f"{one}: can't be read: Permission denied")
        inside = [file for file in sorted(one.rglob("*")) if not _is_hidden(file.relative_to(one))] if one.is_dir() else [one]
        found += [file for file in inside if file.is_symlink() or not file.is_dir() or not os.access(file, os.R_OK | os.X_OK)]
    for file in found:
        if not file.is_file():
            raise CorpusError(f"{file}: {_no_file(file)}")
    if not found:
        raise CorpusError(f"{path}: can't be read as Parquet: there is no file in this folder")
    if colon := next((file for file in found if ":" in str(file)), None):
        raise CorpusError(f"{colon}: can't be read by Spark, which takes the colon for that of a URI; give it another name")
    return found


def _is_hidden(name: Path) -> bool:
    """Tell whether Spark passes over a file: `_` in front hides it, but not a folder that names a column."""
    return any(part[0] == "." or (part[0] == "_" and "=" not in part) for part in name.parts)


def _no_file(path: Path) -> str:
    if path.is_symlink():
        return "is a link to a folder, which is not read; give the folder" if path.is_dir() else "is a link to what is not there"
    return "can't be read: Permission denied" if path.is_dir() else "is no ordinary file"


def spark_name(kind: pa.DataType) -> str:
    """Return the name that Spark has for a type; Arrow's own name for one that corpora do not have."""
    if pa.types.is_dictionary(kind):
        return spark_name(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)},{spark_name(kind.item_type)}>"
    return next((name for name, kinds in _KINDS.items() if kind in kinds), str(kind))


def _open(file: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file, memory_map=True)
    except (OSError, pa.ArrowException) as error:
        raise CorpusError(f"{file}: can't be read as Parquet: {_line(error)}") from None


def _check_folders(home: Path, files: Sequence[Path], known: Mapping[str, str]) -> None:
    """Refuse folders by which Spark would read something else: `key=k/part-0.parquet` is a column, and what lies beside it gets lost."""
    columns = [tuple(part.partition("=")[0] for part in file.parts[len(home.parts) : -1] if "=" in part) for file in files]
    for file, names in zip(files, columns, strict=True):
        if found := next((name for name in names if name in known), None):
            raise CorpusError(f"{file}: column {found} is named by a folder; write it into the files")
        if names != columns[0]:
            raise CorpusError(f"{file}: other folders with columns lead to it than to {files[0]}; Spark would read some of the files only")


def _check_same_columns(files: Sequence[Path], opened: Sequence[pq.ParquetFile], known: Mapping[str, str]) -> None:
    """Refuse files that do not have the same columns: Spark takes those of one of them, and the others lose theirs."""
    for file, one in zip(files, opened, strict=True):
        for name in known:
            there = [name in some.schema_arrow.names for some in (one, opened[0])]
            if there[0] is not there[1]:
                lacking, having = (file, files[0]) if there[1] else (files[0], file)
                raise CorpusError(f"{lacking}: column {name} is missing, which {having} has; give all files the same columns")


def _check_columns(file: Path, schema: pa.Schema, required: Mapping[str, str], known: Mapping[str, str]) -> None:
    wrong = []
    for name, kind in known.items():
        places = schema.get_all_field_indices(name)
        found = [spark_name(schema.field(place).type) for place in places]
        if len(found) > 1:
            wrong.append(f"column {name} is there {len(found)} times")
        elif found and found != [kind]:
            wrong.append(f"column {name} is {found[0]}, not {kind}")
        elif not found and name in required:
            wrong.append(f"column {name} ({kind}) is missing")
    wrong += unknown(schema.names, known)
    if wrong:
        raise CorpusError(f"{file}: {'; '.join(wrong)}")


def unknown(names: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """Say of each name that is no column that it is unknown, and what may be meant."""
    said = []
    for name in dict.fromkeys(names):
        if name not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            said.append(f"column {name} is unknown{f', did you mean {near[0]}?' if near else ''}")
    return said


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
