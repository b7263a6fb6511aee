"""What all sources and jobs share: options, blocks, exit codes, and results that are whole."""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from conformance.corpus import job as jobs
from conformance.corpus import session
from conformance.corpus.errors import CorpusError, SparkError, reason_of
from conformance.corpus.job import BROKEN, HOLD, NOT_RUN, Findings, Job, write_result
from conformance.corpus.laws import Law
from conformance.corpus.sources.blocks import BLOCK, COMMON, BlockSource, generator
from conformance.corpus.sources.options import Option, read_options
from conformance.java import JavaError

TABLE = (
    Option("path", None, "where"),
    Option("mode", "keep", "how", choices=("keep", "drop")),
    Option("rows", 10, "how many", least=1),
    Option("share", 0.5, "how much", least=0),
)


def test_options_are_read_by_type_and_filled_in():
    assert read_options("s", TABLE, {"path": "/x"}) == {"path": "/x", "mode": "keep", "rows": 10, "share": 0.5}
    assert read_options("s", TABLE, {"PATH": "/x", "Rows": "7", "share": "1"}) == {"path": "/x", "mode": "keep", "rows": 7, "share": 1.0}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "s: the option path has to be given (where)"),
        ({"path": "x", "row": "1"}, "s: there is no option row, did you mean rows? known: path, mode, rows, share"),
        ({"path": "x", "zzz": "1"}, "s: there is no option zzz; known: path, mode, rows, share"),
        ({"path": "x", "rows": "many"}, "s: rows is a number (how many), not 'many'"),
        ({"path": "x", "rows": "0"}, "s: rows is at least 1, not 0"),
        ({"path": "x", "share": "-0.5"}, "s: share is at least 0, not -0.5"),
        ({"path": "x", "mode": "fail"}, "s: mode is one of keep, drop, not 'fail'"),
    ],
)
def test_options_that_are_wrong_are_named(given, message):
    with pytest.raises(CorpusError) as caught:
        read_options("s", TABLE, given)
    assert str(caught.value) == message


class Numbers(BlockSource):
    OPTIONS = (*COMMON, Option("most", 9, "largest number", least=0))

    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "id BIGINT, number BIGINT"

    def block(self, number, rows):
        drawn = generator(self.chosen["seed"], 3, number).integers(0, self.chosen["most"] + 1, rows)
        return pa.record_batch({"number": drawn, "id": np.arange(rows) + number * BLOCK})


def read_blocks(columns=("id", "number"), **options):
    source = Numbers({name: str(value) for name, value in options.items()})
    reader = source.reader(SimpleNamespace(fieldNames=lambda: list(columns)))
    parts = reader.partitions()
    return len(parts), pa.Table.from_batches([batch for part in parts for batch in reader.read(part)])


def test_rows_of_blocks_depend_on_the_seed_and_not_on_partitions():
    rows = 3 * BLOCK + 5
    counts, tables = zip(*(read_blocks(rows=rows, partitions=parts) for parts in (1, 2, 3, 4, 100)), strict=True)
    assert counts == (1, 2, 3, 4, 4)
    assert all(table.equals(tables[0]) for table in tables)
    assert tables[0]["id"].to_pylist() == list(range(rows))
    assert not read_blocks(rows=rows, seed=2)[1].equals(tables[0])


def test_the_same_rows_come_first_when_there_are_more():
    few, many = (read_blocks(rows=rows)[1] for rows in (BLOCK, 2 * BLOCK))
    assert many.slice(0, BLOCK).equals(few)


def test_blocks_and_streams_are_drawn_apart():
    drawn = {(stream, block): generator(1, stream, block).integers(0, 1 << 60) for stream in range(4) for block in range(4)}
    assert len(set(drawn.values())) == len(drawn)


def test_blocks_give_the_columns_that_are_asked_for():
    assert read_blocks(("number",), rows=5)[1].column_names == ["number"]


def test_reasons_come_back_out_of_a_traceback():
    text = "Traceback:\n  File x\nconformance.corpus.errors.CorpusError: x: first\n\nconformance.corpus.errors.CorpusError: x: second\n at java"
    assert reason_of(RuntimeError(text)) == "x: second"
    assert reason_of(CorpusError("one")) == "one"
    assert reason_of(RuntimeError("other")) is None


# Jobs

LAW, OTHER = Law("the-law", "It holds."), Law("other", "It holds, too.")


@pytest.fixture
def no_spark(monkeypatch):
    @contextmanager
    def started(name, **_):
        yield SimpleNamespace(version="0", sparkContext=SimpleNamespace(defaultParallelism=2))

    monkeypatch.setattr(jobs, "spark_session", started)


def run_job(check, tmp_path, *arguments):
    return Job("some", "Checks.", [OTHER, LAW], check).main(["--result", str(tmp_path / "r.json"), *arguments])


def law(checked, broken):
    return LAW.outcome(checked, broken, [{"row": 1}] * min(broken, 2))


@pytest.mark.parametrize(("checked", "broken", "code"), [(5, 0, HOLD), (5, 1, BROKEN), (0, 0, HOLD)])
def test_a_job_exits_by_its_laws_and_leaves_a_result(no_spark, tmp_path, capsys, checked, broken, code):
    def check(run):
        with run.part("a part"):
            pass
        return Findings([OTHER.outcome(1, 0), law(checked, broken)], {"rows": run.options.rows})

    assert run_job(check, tmp_path, "--rows", "7", "--seed", "3") == code
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["holds"], result["seed"], result["counters"], result["options"]["rows"]) == (code == HOLD, 3, {"rows": 7}, 7)
    assert [found["name"] for found in result["laws"]] == ["other", "the-law"]
    assert set(result["seconds"]) == {"a part", "all"}
    assert list(tmp_path.iterdir()) == [tmp_path / "r.json"]
    shown = capsys.readouterr()
    assert ("BROKEN  the-law" in shown.out) == (code == BROKEN)
    assert ("nothing the-law" in shown.out) == (checked == 0)
    assert "a part .." in shown.err


def test_a_job_that_has_checked_nothing_has_not_run(no_spark, tmp_path, capsys):
    assert run_job(lambda _: Findings([law(0, 0)]), tmp_path) == NOT_RUN
    assert json.loads((tmp_path / "r.json").read_text())["holds"] is False
    assert capsys.readouterr().err == "some: nothing was checked: the corpus has nothing of which a law speaks\n"


def test_what_captures_have_besides_is_in_the_result_and_in_one_line(no_spark, monkeypatch, tmp_path, capsys):
    without = {"capture:x.pcap": {"encrypted messages": 1200, "pieces that are no frame: cut": 3}}
    monkeypatch.setattr(Job, "_left_out", lambda *_: without)
    assert run_job(lambda run: Findings([law(1, 0)]), tmp_path) == HOLD
    assert json.loads((tmp_path / "r.json").read_text())["left out"] == without
    assert "left out of capture:x.pcap: 1,200 encrypted messages, 3 pieces that are no frame: cut\n" in capsys.readouterr().out


def test_bad_input_is_one_line_and_leaves_the_result_that_was_there(no_spark, tmp_path, capsys):
    (tmp_path / "r.json").write_text("old")

    def check(run):
        raise RuntimeError("Traceback\nconformance.corpus.errors.CorpusError: x.parquet: not messages\n")

    assert run_job(check, tmp_path) == NOT_RUN
    assert capsys.readouterr().err == "some: x.parquet: not messages\n"
    assert (tmp_path / "r.json").read_text() == "old"


def test_a_defect_of_a_job_is_no_broken_law(no_spark, tmp_path, capsys):
    assert run_job(lambda run: Findings([law(1 // 0, 0)]), tmp_path) == NOT_RUN
    assert capsys.readouterr().err.endswith("some: stopped by an error of its own: ZeroDivisionError\n")
    assert not (tmp_path / "r.json").exists()


def test_an_option_that_a_job_does_not_have(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        run_job(lambda run: Findings([]), tmp_path, "--colour")
    assert caught.value.code == NOT_RUN
    assert "unrecognized arguments: --colour" in capsys.readouterr().err


def test_a_job_has_options_of_its_own(no_spark, tmp_path):
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--more", default="x")

    job = Job("some", "Checks.", [OTHER, LAW], lambda run: Findings([law(1, 0)], {"more": run.options.more}), add)
    assert job.main(["--result", str(tmp_path / "r.json"), "--more", "y"]) == HOLD
    assert json.loads((tmp_path / "r.json").read_text())["counters"] == {"more": "y"}


def test_a_result_is_whole_or_not_there(tmp_path):
    path = tmp_path / "deep" / "r.json"
    with pytest.raises(TypeError):
        write_result(path, {"a": 1, "b": object()})
    assert list(tmp_path.iterdir()) == []
    write_result(path, {"a": 1})
    with pytest.raises(TypeError):
        write_result(path, {"a": 2, "b": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(path.parent.iterdir()) == [path]


# What Spark needs


@pytest.fixture
def java(monkeypatch):
    async def find_java(whose):
        return SimpleNamespace(program=Path("java"))

    monkeypatch.setattr(session, "find_java", find_java)


def test_without_java_a_job_says_what_to_do(monkeypatch, tmp_path, capsys):
    async def find_java(whose):
        raise JavaError(f"{whose} needs Java, which was not found", hint="install a JDK")

    monkeypatch.setattr(session, "find_java", find_java)
    assert run_job(lambda run: Findings([law(1, 0)]), tmp_path) == NOT_RUN
    assert capsys.readouterr().err == "some: Spark needs Java, which was not found (install a JDK)\n"
    assert not (tmp_path / "r.json").exists()


def test_a_java_that_is_too_old(monkeypatch, tmp_path):
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(SparkError, match=r"Spark needs Java 17 or newer, but .*java is Java 11"):
        session.check()


def test_a_java_that_can_not_be_started(monkeypatch, tmp_path):
    broken = tmp_path / "bin" / "java"
    broken.parent.mkdir()
    broken.write_bytes(b"\x7fELF\x00")
    broken.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(broken.parent))
    with pytest.raises(SparkError, match=r"Spark needs Java 17 or newer, but .*java is Java of an unknown version"):
        session.check()


def test_too_little_memory(java, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(session, "available_megabytes", lambda: 700)
    assert run_job(lambda run: Findings([law(1, 0)]), tmp_path) == NOT_RUN
    error = capsys.readouterr().err
    assert error == "some: Spark needs 2560 MiB of memory, and 700 MiB are free (free some, or give less with --memory)\n"
    session.check(megabytes=100)
    with pytest.raises(SparkError, match="Spark needs 812 MiB of memory"):
        session.check(megabytes=300)


def test_without_pyspark(monkeypatch):
    monkeypatch.setattr(session, "find_spec", lambda name: None if name == "pyspark" else object())
    with pytest.raises(SparkError, match="PySpark is not installed"):
        session.check()


@pytest.mark.parametrize("program", ["jobs", "jobs.batches_agree", "jobs.round_trip", "cluster"])
@pytest.mark.parametrize(
    ("lacking", "said"), [("pyspark", "PySpark is"), ("pyspark pyarrow pandas numpy", "PySpark and pyarrow and pandas and NumPy are")]
)
def test_a_program_without_its_packages_ends_with_one_line(program, lacking, said, tmp_path):
    blocked = f"import sys\nfor name in {lacking.split()}:\n    sys.modules[name] = None\n"
    (tmp_path / "sitecustomize.py").write_text(blocked)
    path = os.pathsep.join([str(tmp_path), str(Path(session.__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-m", f"conformance.corpus.{program}"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{said} not installed (pip install 'pulsar-conformance[spark]')\n"


def test_it_is_found_in_a_notebook_too(java, monkeypatch):
    monkeypatch.setattr(session, "available_megabytes", lambda: None)

    async def cell():  # a notebook's cells run in an event loop
        return session.check()

    assert asyncio.run(cell()) == Path("java")


def test_what_is_free_is_a_number_where_the_system_tells():
    free = session.available_megabytes()
    assert free is None or 0 < free < 1 << 30
