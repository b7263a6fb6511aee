"""The data source `jar_topics`: the files in a folder of jars, those that PySpark ships unless told otherwise.

A corpus that is on every machine that runs Spark: some 150,000 hierarchical names, with real sizes and the skew that they come with.

    persistent://org.apache.spark/spark-core_2.13-4.3.0/org%2Fapache%2Fspark%2FSparkEnv.class      a file as a topic
    persistent://org.apache.spark/spark-core_2.13-4.3.0/files                                      all files of a jar as messages of a topic

The tenant is the group of the jar: that of the Maven descriptor in it that goes with its name, else the two outer packages that most of
its classes are in. The namespace is the jar's name. In the local name a slash is `%2F`, since a broker would take a name with a slash for
one of the old form, with a cluster; and `%` is `%25`. Rows come in the order of the jars' names and of the central directory of each jar.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from conformance.corpus.columns import MESSAGE_COLUMNS, TOPIC_COLUMNS, arrow_schema, ddl
from conformance.corpus.errors import CorpusError
from conformance.corpus.sources.options import Option, read_options

TOPICS, MESSAGES = "topics", "messages"
OPTIONS = (
    Option("path", "", "a folder of jars; PySpark's own if not given"),
    Option("as", TOPICS, "what a file becomes: a topic, or a message of its jar's topic", choices=(TOPICS, MESSAGES)),
    Option("payload", "none", "payload of messages: none (only the size), or the bytes of the file", choices=("none", "bytes")),
    Option("interval", 1, "milliseconds between two messages of a jar", least=0),
    Option("partitions", 8, "largest number of Spark partitions; it does not change the rows", least=1),
)
OF_JAR: Mapping[str, str] = {
    **dict.fromkeys(("jar", "package", "extension", "method"), "string"),
    **dict.fromkeys(("size", "compressed_size"), "bigint"),
}
"""The columns that a file in a jar has besides those of all corpora."""
COLUMNS: Mapping[str, Mapping[str, str]] = {TOPICS: {**TOPIC_COLUMNS, **OF_JAR}, MESSAGES: {**MESSAGE_COLUMNS, **OF_JAR}}
"""The columns of both, with their types as Spark writes them."""
FIRST_PUBLISH_TIME = 1_767_225_600_000
"""Milliseconds: that of the first message of each jar, 2026-01-01 00:00 UTC."""
_BATCH_ROWS, _BATCH_BYTES = 4096, 8 << 20
_LARGEST = (1 << 31) - 1
_METHODS = {0: "stored", 8: "deflate", 9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstd"}
_DESCRIPTOR = re.compile(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties")
_NOT_IN_NAMESPACES = re.compile(r"[^-=:.\w]", re.ASCII)


@dataclass(frozen=True)
class Jar:
    """One jar.

    Attributes:
        path: Where it is.
        first: Number of its first row.
        count: Its files.
    """

    path: Path
    first: int
    count: int


@dataclass
class JarPartition(InputPartition):
    """The jars that one task reads."""

    jars: Sequence[Jar]


class JarSource(DataSource):
    """The files in jars, as topics or as messages."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.chosen = read_options(self.name(), OPTIONS, options)
        jar_paths(jar_folder(self.chosen["path"]))

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "jar_topics"

    def schema(self) -> str:
        """Return the columns."""
        return ddl(COLUMNS[self.chosen["as"]])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what Spark reads from."""
        return _JarReader(self.chosen, schema.fieldNames())


class _JarReader(DataSourceReader):
    def __init__(self, chosen: Mapping[str, Any], columns: Sequence[str]) -> None:
        self._chosen = chosen
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return divide(find_jars(jar_folder(self._chosen["path"])), self._chosen["partitions"])

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        folder = jar_folder(self._chosen["path"])  # PySpark's may be elsewhere on this node
        for jar in partition.jars:
            for batch in jar_batches(replace(jar, path=folder / jar.path.name), self._chosen):
                yield batch.select(self._columns)


def jar_folder(text: str) -> Path:
    """Return the folder of jars; that of PySpark if the text is empty, also where PySpark is read out of its archive, as in workers."""
    if text:
        return Path(text.removeprefix("file:"))
    home = Path(pyspark.__file__).parent
    return next((folder for parent in (home, *home.parents) if (folder := parent / "jars").is_dir()), home / "jars")


def jar_paths(folder: Path) -> list[Path]:
    """List the jars of a folder by their names.

    Raises:
        CorpusError: The folder or the jars are missing.
    """
    paths = sorted(folder.glob("*.jar")) if folder.is_dir() else []
    if not paths:
        raise CorpusError(
            f"{folder}: {'no *.jar in this folder' if folder.is_dir() else 'there is no such folder'}; path names one with jars"
        )
    return paths


def find_jars(folder: Path) -> list[Jar]:
    """List the jars of a folder by their names, with the numbers of their rows.

    Raises:
        CorpusError: The folder or the jars are missing, or one can't be read.
    """
    paths = jar_paths(folder)
    counts = [len(read_files(path)) for path in paths]
    firsts = accumulate(counts, initial=0)
    return [Jar(path, first, count) for path, first, count in zip(paths, firsts, counts, strict=False)]


def divide(jars: Sequence[Jar], parts: int) -> list[JarPartition]:
    """Put jars together into partitions of about as many files each, in their order."""
    files = max(1, sum(jar.count for jar in jars))
    groups = groupby(jars, key=lambda jar: (2 * jar.first + jar.count) * parts // (2 * files))
    return [JarPartition(list(found)) for _, found in groups]


def read_files(path: Path) -> list[ZipInfo]:
    """List the files of a jar in the order of its central directory; of files of the same name the first.

    Raises:
        CorpusError: It is not a jar.
    """
    try:
        with ZipFile(path) as jar:
            found: dict[str, ZipInfo] = {}
            for file in jar.infolist():
                if not file.is_dir():
                    found.setdefault(file.filename, file)
            return list(found.values())
    except (BadZipFile, OSError, NotImplementedError) as error:
        raise CorpusError(f"{path}: can't be read as a jar: {error}; remove it from the folder, or fetch it again") from None


def group_of(path: Path, files: Sequence[ZipInfo]) -> str:
    """Return the group that a jar belongs to, which becomes the tenant."""
    descriptors = (match for file in files if (match := _DESCRIPTOR.fullmatch(file.filename)))
    for match in descriptors:
        group, artifact = match.groups()
        if path.stem == artifact or path.stem.startswith(f"{artifact}-"):
            return _NOT_IN_NAMESPACES.sub("_", group)
    outer = Counter(
        ".".join(file.filename.split("/")[:2])
        for file in files
        if file.filename.endswith(".class") and file.filename.count("/") > 1 and not file.filename.startswith("META-INF/")
    )
    return _NOT_IN_NAMESPACES.sub("_", min(outer, key=lambda name: (-outer[name], name))) if outer else "none"


def local_name(path: str) -> str:
    """Return the path of a file as the last part of a topic's name."""
    return path.replace("%", "%25").replace("/", "%2F")


def kind_of(path: str) -> str:
    """Return the class of a name: metadata, nested-class, class or resource."""
    if path.startswith("META-INF/"):
        return "metadata"
    if path.endswith(".class"):
        return "nested-class" if "$" in path.rpartition("/")[2] else "class"
    return "resource"


def file_properties(jar: str, file: ZipInfo) -> dict[str, str]:
    """Return what the rows say of a file as text: jar, package, extension and compression method."""
    package, _, name = file.filename.rpartition("/")
    method = _METHODS.get(file.compress_type, str(file.compress_type))
    return {"jar": jar, "package": package.replace("/", "."), "extension": name.rpartition(".")[2] if "." in name else "", "method": method}


def jar_batches(jar: Jar, chosen: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Read the rows of a jar.

    Raises:
        CorpusError: It can't be read, or it changed since it was listed.
    """
    files = read_files(jar.path)
    if len(files) != jar.count:
        raise CorpusError(f"{jar.path}: changed while it was read: {jar.count:,} files, then {len(files):,}; start again")
    schema = arrow_schema(COLUMNS[chosen["as"]])
    waiting: list[dict[str, Any]] = []
    size = 0
    with _Contents(jar.path, chosen["payload"] == "bytes") as payloads:
        for row in _rows(jar, files, chosen, payloads):
            waiting.append(row)
            size += len(row.get("payload") or b"")
            if len(waiting) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                yield pa.RecordBatch.from_pylist(waiting, schema=schema)
                waiting, size = [], 0
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=schema)


def _rows(jar: Jar, files: Sequence[ZipInfo], chosen: Mapping[str, Any], payloads: _Contents) -> Iterator[dict[str, Any]]:
    namespace = f"persistent://{group_of(jar.path, files)}/{_NOT_IN_NAMESPACES.sub('_', jar.path.stem)}"
    for number, file in enumerate(files):
        properties = file_properties(jar.path.stem, file)
        sizes = {"size": file.file_size, "compressed_size": file.compress_size}
        common = {"id": jar.first + number, "properties": properties, **properties, **sizes}
        if chosen["as"] == TOPICS:
            yield {**common, "topic": f"{namespace}/{local_name(file.filename)}", "kind": kind_of(file.filename)}
        else:
            yield {
                **common,
                "topic": f"{namespace}/files",
                "producer_name": jar.path.stem,
                "sequence_id": number,
                "publish_time": FIRST_PUBLISH_TIME + number * chosen["interval"],
                "key": properties["package"],
                "payload": payloads.read(file),
                "payload_size": payloads.size(file),
            }


class _Contents:
    """What is in the files of a jar; opened once, since reading the central directory takes longest."""

    def __init__(self, path: Path, wanted: bool) -> None:
        self._path = path
        self._jar = ZipFile(path) if wanted else None

    def __enter__(self) -> _Contents:
        return self

    def __exit__(self, *_: object) -> None:
        if self._jar is not None:
            self._jar.close()

    def read(self, file: ZipInfo) -> bytes | None:
        """Read one; None if it is not needed."""
        if self._jar is None:
            return None
        try:
            return self._jar.read(file)
        except (BadZipFile, OSError, NotImplementedError, RuntimeError, zlib.error) as error:
            raise CorpusError(f"{self._path}: {file.filename} can't be read: {error}; remove the jar, or fetch it again") from None

    def size(self, file: ZipInfo) -> int:
        """Return how many bytes it has."""
        if file.file_size > _LARGEST:
            raise CorpusError(f"{self._path}: {file.filename} has {file.file_size:,} bytes: too many for a message; take the jar away")
        return file.file_size
