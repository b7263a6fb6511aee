"""The files in jars, as topics and as messages."""

import warnings
from collections import Counter
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from conformance.corpus.columns import ddl
from conformance.corpus.errors import CorpusError
from conformance.corpus.sources.jar_topics import (
    COLUMNS,
    FIRST_PUBLISH_TIME,
    OPTIONS,
    JarSource,
    divide,
    find_jars,
    group_of,
    jar_batches,
    jar_folder,
    kind_of,
    local_name,
    read_files,
)
from conformance.corpus.sources.options import read_options
from refimpl.broker.names import parse_topic


def make_jar(path, files, method=ZIP_DEFLATED):
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w", method) as jar:
        for name in files:
            jar.writestr(name, name * 3)
    return path


def chosen(**given):
    return read_options("jar_topics", OPTIONS, given)


def rows(folder, **given):
    return [row for jar in find_jars(folder) for batch in jar_batches(jar, chosen(**given)) for row in batch.to_pylist()]


@pytest.fixture
def folder(tmp_path):
    make_jar(tmp_path / "b-2.0.jar", ["org/x/A.class", "org/x/A$1.class", "org/x/", "META-INF/maven/org.group/b/pom.properties", "README"])
    make_jar(
        tmp_path / "a one-1.jar", ["com/y/z/B.class", "com/y/C.class", "com/v/D.class", "META-INF/versions/9/org/o/E.class"], ZIP_STORED
    )
    make_jar(tmp_path / "c.jar", ["data/100%.txt", "x.d/no-extension"])
    (tmp_path / "notes.txt").touch()
    return tmp_path


def test_files_become_topics_in_the_order_of_jars_and_of_their_directories(folder):
    assert [(row["id"], row["topic"], row["kind"]) for row in rows(folder)] == [
        (0, "persistent://com.y/a_one-1/com%2Fy%2Fz%2FB.class", "class"),
        (1, "persistent://com.y/a_one-1/com%2Fy%2FC.class", "class"),
        (2, "persistent://com.y/a_one-1/com%2Fv%2FD.class", "class"),
        (3, "persistent://com.y/a_one-1/META-INF%2Fversions%2F9%2Forg%2Fo%2FE.class", "metadata"),
        (4, "persistent://org.group/b-2.0/org%2Fx%2FA.class", "class"),
        (5, "persistent://org.group/b-2.0/org%2Fx%2FA$1.class", "nested-class"),
        (6, "persistent://org.group/b-2.0/META-INF%2Fmaven%2Forg.group%2Fb%2Fpom.properties", "metadata"),
        (7, "persistent://org.group/b-2.0/README", "resource"),
        (8, "persistent://none/c/data%2F100%25.txt", "resource"),
        (9, "persistent://none/c/x.d%2Fno-extension", "resource"),
    ]


def test_files_have_properties_and_sizes(folder):
    found = rows(folder)
    assert dict(found[0]["properties"]) == {"jar": "a one-1", "package": "com.y.z", "extension": "class", "method": "stored"}
    assert (found[0]["size"], found[0]["compressed_size"]) == (45, 45)
    assert dict(found[9]["properties"]) == {"jar": "c", "package": "x.d", "extension": "", "method": "deflate"}
    for row in found:
        assert dict(row["properties"]) == {name: row[name] for name in ("jar", "package", "extension", "method")}


def test_files_become_messages_of_their_jar(folder):
    found = rows(folder, **{"as": "messages", "interval": "5", "payload": "bytes"})
    assert [(row["id"], row["sequence_id"], row["producer_name"]) for row in found[3:6]] == [
        (3, 3, "a one-1"),
        (4, 0, "b-2.0"),
        (5, 1, "b-2.0"),
    ]
    assert {row["topic"] for row in found} == {
        "persistent://com.y/a_one-1/files",
        "persistent://org.group/b-2.0/files",
        "persistent://none/c/files",
    }
    assert [row["publish_time"] - FIRST_PUBLISH_TIME for row in found] == [0, 5, 10, 15, 0, 5, 10, 15, 0, 5]
    assert (found[4]["key"], found[4]["payload"], found[4]["payload_size"]) == ("org.x", b"org/x/A.class" * 3, 39)
    assert {row["payload"] for row in rows(folder, **{"as": "messages"})} == {None}


def test_the_group_is_that_of_the_descriptor_that_goes_with_the_jar(tmp_path):
    names = ["META-INF/maven/org.other/shaded/pom.properties", "META-INF/maven/org.right/thing/pom.properties", "a/b/C.class"]
    path = make_jar(tmp_path / "thing-1.0.jar", names)
    assert group_of(path, read_files(path)) == "org.right"
    path = make_jar(tmp_path / "thingy-1.0.jar", names)
    assert group_of(path, read_files(path)) == "a.b"
    path = make_jar(tmp_path / "tie.jar", ["b/b/C.class", "a/b/C.class", "C.class"])
    assert group_of(path, read_files(path)) == "a.b"


def test_of_files_with_the_same_name_the_first_counts(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        path = make_jar(tmp_path / "a.jar", ["x", "y", "x"])
    assert [file.filename for file in read_files(path)] == ["x", "y"]


@pytest.mark.parametrize("name", ["a\nb/c", "käse/\U0001f9c0.class", "with space", "%2F"])
def test_odd_names_are_kept(tmp_path, name):
    make_jar(tmp_path / "j.jar", [name])
    (row,) = rows(tmp_path)
    local = row["topic"].removeprefix("persistent://none/j/")
    assert local.replace("%2F", "/").replace("%25", "%") == name


def test_names_and_kinds():
    assert local_name("a/b%2F") == "a%2Fb%252F"
    assert [kind_of(name) for name in ("META-INF/A.class", "a$b/C.class", "a/C$D.class", "x")] == [
        "metadata",
        "class",
        "nested-class",
        "resource",
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda home: home / "gone", r"gone: there is no such folder"),
        (lambda home: home, r"no \*\.jar in this folder"),
        (lambda home: (home / "x.jar").write_bytes(b"no jar") and home, r"x\.jar: can't be read as a jar: File is not a zip file"),
    ],
)
def test_folders_that_can_not_be_read(tmp_path, make, message):
    with pytest.raises(CorpusError, match=message):
        find_jars(make(tmp_path))


def test_a_jar_that_is_damaged_or_that_changes(tmp_path):
    path = make_jar(tmp_path / "x.jar", ["long-name-of-a-file", "b"])
    (jar,) = find_jars(tmp_path)
    data = bytearray(path.read_bytes())
    data[50] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(CorpusError, match=r"x\.jar: long-name-of-a-file can't be read"):
        list(jar_batches(jar, chosen(**{"as": "messages", "payload": "bytes"})))
    make_jar(path, ["a"])
    with pytest.raises(CorpusError, match=r"x\.jar: changed while it was read: 2 files, then 1"):
        list(jar_batches(jar, chosen()))
    path.write_bytes(data[:-20])
    with pytest.raises(CorpusError, match=r"can't be read as a jar"):
        list(jar_batches(jar, chosen()))


@pytest.mark.parametrize("parts", [1, 2, 3, 10, 1000])
def test_partitions_hold_each_jar_once_in_order(tmp_path, parts):
    for number in range(12):
        make_jar(tmp_path / f"{number:02}.jar", [f"{file}" for file in range(number * 3)])
    jars = find_jars(tmp_path)
    partitions = divide(jars, parts)
    assert [jar for partition in partitions for jar in partition.jars] == jars
    assert len(partitions) <= parts
    assert parts == 1 or len(partitions) > 1
    assert [jar.first for jar in jars] == [sum(other.count for other in jars[:number]) for number in range(12)]


def test_options_are_checked():
    with pytest.raises(CorpusError, match="jar_topics: as is one of topics, messages, not 'rows'"):
        JarSource({"as": "rows"})
    with pytest.raises(CorpusError, match="jar_topics: there is no option rows;"):
        JarSource({"rows": "5"})


def test_the_jars_of_pyspark_are_a_corpus():
    files = Counter()
    for path in jar_folder("").glob("*.jar"):
        with ZipFile(path) as jar:
            files[path.stem] = sum(not name.endswith("/") for name in jar.namelist())
    jars = find_jars(jar_folder(""))
    assert {jar.path.stem: jar.count for jar in jars} == files
    assert sum(files.values()) > 100_000
    found = [row for jar in jars[:20] for batch in jar_batches(jar, chosen()) for row in batch.to_pylist()]
    assert [row["id"] for row in found] == list(range(sum(jar.count for jar in jars[:20])))
    assert all(parse_topic(row["topic"]).full == row["topic"] for row in found)


def test_the_jars_of_pyspark_are_found_out_of_its_archive_too(tmp_path, monkeypatch):
    make_jar(tmp_path / "spark" / "jars" / "x.jar", ["a"])
    for place in ("spark/__init__.py", "spark/python/lib/pyspark.zip/pyspark/__init__.py"):
        monkeypatch.setattr("pyspark.__file__", str(tmp_path / place))
        assert jar_folder("") == tmp_path / "spark" / "jars"


def test_spark_reads_topics_and_messages(spark, folder):
    for kind in ("topics", "messages"):
        frame = spark.read.format("jar_topics").options(path=str(folder), partitions=2, **{"as": kind}).load()
        assert frame.columns == list(COLUMNS[kind])
        assert frame.schema == spark.createDataFrame([], ddl(COLUMNS[kind])).schema
        expected = rows(folder, **{"as": kind})
        columns = ["id", "topic", "jar", "package", "extension", "method", "size", "compressed_size"]
        assert sorted(tuple(row) for row in frame.select(columns).collect()) == [tuple(row[name] for name in columns) for row in expected]
        assert frame.rdd.getNumPartitions() == 2
