"""Parquet of users: first the columns and types of each file, then the rows."""

from __future__ import annotations

import difflib
import glob
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
        _check_columns(file, one.schema_arrow, _of_folders(file), required, known)
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
        CorpusError: There is none.
    """
    try:
        given = [Path(path)] if Path(path).exists() else [Path(one) for one in sorted(glob.glob(path))]
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path}: can't be read as Parquet: {error}") from None
    if not given:
        raise CorpusError(f"{path}: can't be read as Parquet: there is no such file or folder")
    found = []
    for one in given:
        inside = sorted(file for file in one.rglob("*") if file.is_file()) if one.is_dir() else [one]
        found += [file for file in inside if one == file or not any(part[0] in "_." for part in file.relative_to(one).parts)]
    if not found:
        raise CorpusError(f"{path}: can't be read as Parquet: there is no file in this folder")
    if colon := next((file for file in found if ":" in str(file)), None):
        raise CorpusError(f"{colon}: can't be read by Spark, which takes the colon for that of a URI; give it another name")
    return found


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


def _of_folders(file: Path) -> set[str]:
    """Return the columns that folders name, as in `region=eu/part-0.parquet`."""
    return {part.partition("=")[0] for part in file.parts[:-1] if "=" in part}


def _check_columns(file: Path, schema: pa.Schema, folders: set[str], required: Mapping[str, str], known: Mapping[str, str]) -> None:
    wrong = []
    for name, kind in known.items():
        places = schema.get_all_field_indices(name)
        found = [spark_name(schema.field(place).type) for place in places]
        if len(found) > 1:
            wrong.append(f"column {name} is there {len(found)} times")
        elif found and found != [kind]:
            wrong.append(f"column {name} is {found[0]}, not {kind}")
        elif not found and name in required and name not in folders:
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
