"""What the notebooks about corpora need: a quiet start, counts that are right, and a visible skip where there is no Spark."""

import os
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from conformance.corpus import notebooks, session
from conformance.corpus.errors import SparkError
from conformance.corpus.filtering.comparing import INSIDE, Comparison, Disagreements
from conformance.site.sources import REPOSITORY


def disagreements(formulation, class_name, count):
    return Disagreements(formulation, "matching", class_name, "missing", count, 0, "a", "b", ("a", "b"))


def test_disagreements_are_counted_inside_and_outside_of_the_dialect():
    found = [
        disagreements("sql", INSIDE, 2),
        disagreements("sql", "octets", 3),
        disagreements("sql", "escape", 4),
        disagreements("arrow", "octets", 5),
    ]
    comparison = Comparison(10, 10, {}, found)
    assert notebooks.parted(comparison, "sql") == (2, 7)
    assert notebooks.parted(comparison, "arrow") == (0, 5)
    assert notebooks.parted(comparison, "sql-plain") == (0, 0)


def test_what_a_start_writes_is_kept(capfd):
    with notebooks._standard_error_kept():
        os.write(2, b"Setting default log level")
    os.write(2, b"later")
    assert capfd.readouterr().err == "later"


def test_what_a_start_writes_is_shown_if_it_fails(capfd, monkeypatch):
    def failing(*_, **__):
        os.write(2, b"no memory")
        raise SparkError("Spark can't be started", hint="")

    monkeypatch.setattr(notebooks, "spark_session", failing)
    with pytest.raises(SparkError):
        notebooks.start()
    assert capfd.readouterr().err == "no memory"


def test_stopping_what_was_not_started_is_nothing():
    notebooks.stop()
    notebooks.stop()


@pytest.mark.parametrize(("ci", "skipped"), [("", ["spark_a.ipynb"]), ("true", [])])
def test_notebooks_with_spark_are_skipped_with_the_reason(ci, skipped, monkeypatch):
    def missing():
        raise SparkError("Java is missing", hint="install Java 17")

    monkeypatch.setattr(session, "check", missing)
    monkeypatch.setenv("CI", ci)
    marked = []
    items = [
        SimpleNamespace(path=Path(name), add_marker=lambda mark, name=name: marked.append((name, mark.kwargs["reason"])))
        for name in ("00_tour.ipynb", "spark_a.ipynb", "spark_b.py")
    ]
    runpy.run_path(str(REPOSITORY / "notebooks" / "conftest.py"))["pytest_collection_modifyitems"](items)
    assert [name for name, _ in marked] == skipped
    assert all("Java is missing" in reason for _, reason in marked)
