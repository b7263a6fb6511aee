"""The law that a corpus is looked at as a whole breaks when a reader loses rows of files, or gives them twice."""

import gzip
import json
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from conformance.corpus.batching.slices import is_whole
from conformance.corpus.corpora import messages, rows_written, topics
from conformance.corpus.inputs import counted
from conformance.corpus.sources.blocks import BLOCK
from conformance.corpus.sources.jar_topics import MESSAGES, TOPICS, JarSource
from conformance.corpus.sources.synthetic_messages import SyntheticMessages
from conformance.corpus.sources.user_text import UserText
from tests.samples.captured import raw
from tests.samples.faults import fault, planted

pytestmark = pytest.mark.usefixtures("without_compiling")
ROWS = BLOCK + 5
TEXT, CORPORA = "conformance.corpus.inputs.text", "conformance.corpus.corpora"


def without_last(right):
    return lambda *given, **more: list(right(*given, **more))[:-1]


def last_twice(right):
    def found(*given, **more):
        every = list(right(*given, **more))
        return [*every, *every[-1:]]

    return found


def first_file(right):
    return lambda path: right(path) + "/a*"


def without_case(right):
    return lambda text, where: right(text.lower(), where)


def as_names(right):
    """Take topics for a set of names, also if they have properties."""
    return lambda frame: right(frame).dropDuplicates(["kind"])


ALL_FAULTS = (
    fault("nothing is wrong", f"{TEXT}:_objects", lambda right: right),
    fault("the last line of a text is lost", f"{TEXT}:_objects", without_last, "whole"),
    fault("the last name of a list is lost", f"{TEXT}:_names", without_last, "whole"),
    fault("names of a list have no case", f"{TEXT}:_full_name", without_case, "whole"),
    fault("of a folder of Parquet the first file is read", f"{CORPORA}:_for_hadoop", first_file, "whole"),
    fault("topics that are alike are taken for one", f"{CORPORA}:_completed", as_names, "whole"),
    fault("the last file of a jar is lost", "conformance.corpus.sources.jar_topics:read_files", without_last, "whole"),
    fault("the last jars are read by nobody", "conformance.corpus.sources.jar_topics:divide", without_last, "whole"),
    fault("the last jars are read twice", "conformance.corpus.sources.jar_topics:divide", last_twice, "whole"),
    fault("the last block is drawn by nobody", "conformance.corpus.sources.blocks:_BlockReader.partitions", without_last, "whole"),
    fault("a block lacks its last row", "conformance.corpus.sources.blocks:_BlockReader.read", lambda right: lambda *given: (one[:-1] for one in right(*given)), "whole"),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Corpora of files, each with something that comes again or is empty."""
    home = tmp_path_factory.mktemp("counted")
    (home / "names.txt").write_bytes("﻿a\r\n\n\u00a0\nA\npersistent://public/default/a\nt/n/b".encode())
    lines = [json.dumps({"topic": topic, "payload": "p"}) for topic in "aba"]
    (home / "messages.jsonl.gz").write_bytes(gzip.compress("\n\n".join(lines).encode()))
    (home / "topics.jsonl").write_text('{"topic": "a"}\n\n{"topic": "b", "properties": {"k": ""}}\n')
    for name, columns in {"names": ["topic"], "topics": ["topic", "id"]}.items():
        (home / f"{name}.parquet").mkdir()
        for number, file in enumerate("ab"):
            rows = {
                "topic": [f"persistent://t/n/{file}", f"persistent://t/n/{name}-{number * ('id' in columns)}"],
                "id": [2 * number, 2 * number + 1],
            }
            pq.write_table(pa.table(rows).select(columns), home / f"{name}.parquet" / f"{file}.parquet")
    (home / "jars").mkdir()
    for name in "ab":
        with ZipFile(home / "jars" / f"{name}.jar", "w") as jar:
            jar.mkdir("META-INF")
            for file in ("META-INF/x", "c/D.class", "c/D.class", "c/E.class"):
                jar.writestr(file, name)
    return home


def in_driver(source):
    """Read without Spark, so that what is planted here is in force."""
    reader = source.reader(StructType.fromDDL(source.schema()))
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def counts(spark, home):
    """Return for each corpus how many rows it should have, and how many are read."""
    for name, what in (("names.txt", TOPICS), ("messages.jsonl.gz", MESSAGES), ("topics.jsonl", TOPICS)):
        yield rows_written(f"{home}/{name}", what, 0), in_driver(UserText({"path": f"{home}/{name}", "as": what}))
    for name in ("names.parquet", "topics.parquet"):
        yield rows_written(f"{home}/{name}", TOPICS, 0), topics(spark, f"{home}/{name}").count()
    yield rows_written(f"jars:{home}/jars", MESSAGES, 0), in_driver(JarSource({"path": f"{home}/jars", "as": MESSAGES}))
    yield rows_written("synthetic", MESSAGES, ROWS), in_driver(SyntheticMessages({"rows": str(ROWS), "payload": "no"}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("one", ALL_FAULTS, ids=lambda one: one.name)
def test_each_fault_breaks_the_law(spark, folder, one):
    with planted(one):
        outcomes = [is_whole(written, [read]) for written, read in counts(spark, folder)]
    assert {outcome.name for outcome in outcomes if outcome.broken} == one.laws
    assert [outcome.checked for outcome in outcomes] == [3, 3, 2, 3, 4, 6, ROWS]


def test_what_only_spark_can_read_is_not_counted():
    assert rows_written("s3://some/messages.parquet", MESSAGES, 5) is None
    assert rows_written("capture:", MESSAGES, 5) is None


def test_messages_of_parquet_are_counted_too(spark, folder):
    rows = messages(spark, f"{folder}/messages.jsonl.gz").toArrow()
    for name in ("a", "b"):
        (folder / "messages.parquet").mkdir(exist_ok=True)
        pq.write_table(rows, folder / "messages.parquet" / f"{name}.parquet")
    assert rows_written(f"{folder}/messages.parquet", MESSAGES, 0) == 6


def test_bytes_of_captures_are_counted_by_file(tmp_path):
    raw(tmp_path / "c", ("client", b"12345"), ("broker", b"123"))
    assert sum(counted.capture_bytes(tmp_path).values()) == 8
    assert sum(counted.capture_bytes(tmp_path / "c" / "index.jsonl").values()) == 8
    assert counted.capture_bytes(tmp_path, {"c/index.jsonl"}) == {}
    assert counted.capture_bytes(tmp_path, before=0.0) == {}
