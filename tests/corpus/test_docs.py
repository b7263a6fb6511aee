"""The page about corpora says what the code does."""

import re
from pathlib import Path

import pytest

from conformance.captures import Entry, rows
from conformance.corpus.corpora import MESSAGE_COLUMNS, TOPIC_COLUMNS
from conformance.corpus.job import Job
from conformance.corpus.jobs import conversations_hold, round_trip
from conformance.corpus.sources import jar_topics, pulsar_capture
from conformance.running.recorder import HOME
from conformance.site.sources import REPOSITORY

PAGE = (REPOSITORY / "docs" / "corpus.md").read_text()
LOG = HOME / "apache-pulsar@4.2.4" / "pip247.jsonl.gz"


def section(title):
    return re.search(rf"^(#+) {re.escape(title)}$(.*?)(?=^#{{2,3}} |\Z)", PAGE, re.DOTALL | re.MULTILINE)[2]


@pytest.mark.parametrize(("title", "options"), [("Captures", pulsar_capture.OPTIONS), ("The files in jars", jar_topics.OPTIONS)])
def test_options_are_those_of_the_sources(title, options):
    table = section(title).partition("| option | default | what it does |\n|---|---|---|\n")[2].partition("\n\n")[0]
    expected = [
        f"| `{option.name}` | {f'`{option.default}`' if option.default else ''} | {option.text}"
        + (f": {', '.join(f'`{choice}`' for choice in option.choices)}" if option.choices else "")
        + " |"
        for option in options
    ]
    assert table.splitlines() == expected


def test_columns_and_keys_are_those_of_the_code():
    named = re.findall(r"^\| (`[a-z_`, ]+) \|", section("Captures"), re.MULTILINE)
    columns = {column for names in named for column in re.findall(r"`(\w+)`", names)}
    assert columns == {*pulsar_capture.COLUMNS, *(option.name for option in pulsar_capture.OPTIONS)}
    keys = {
        key for names in re.findall(r"^\| (`[a-z`, ]+) \|", section("Raw captures"), re.MULTILINE) for key in re.findall(r"`(\w+)`", names)
    }
    assert keys == set(Entry.model_fields)
    for table in (TOPIC_COLUMNS, MESSAGE_COLUMNS):
        for name, kind in table.items():
            assert f"`{name} {kind.upper().replace(',', ', ')}`" in section("Which corpus")


def test_classes_are_those_of_the_code():
    named = re.findall(r"^\| `(\w+)` \|", section("What is no frame"), re.MULTILINE)
    assert set(named) == {
        rows.HEADER,
        rows.TRUNCATED,
        rows.REFUSED,
        rows.CUT,
        rows.SHRUNK,
        rows.LOG,
        rows.BAD_INDEX,
        rows.MISSING,
        rows.PACKETS,
    }
    assert f"first {rows.KEPT:,}" in section("What is no frame")


def test_options_of_jobs_exist():
    told = (round_trip.JOB, conversations_hold.JOB)
    options = {option for job in told for action in job.parser()._actions for option in action.option_strings}
    assert set(re.findall(r"`(--[a-z-]+)`", PAGE)) <= options
    common = {option for action in Job("x", "x", [], lambda run: None).parser()._actions for option in action.option_strings}
    table = re.findall(r"^\| `(--[a-z]+)` \|", PAGE.partition("## Which corpus")[0], re.MULTILINE)
    assert set(table) == {option for option in common if option.startswith("--")} - {"--help"} | {"--corpus"}
    for module in re.findall(r"python -m (conformance[\w.]+)", PAGE):
        assert (REPOSITORY / Path(*module.split("."))).with_suffix(".py").is_file()


def test_examples_work(spark, tmp_path, capsys):
    names = {"spark": spark, "folder": tmp_path, "capture": str(LOG), "log": LOG}
    for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(text, names)
    shown = capsys.readouterr().out
    assert "frames in" in shown
    assert "|connected|" in shown.replace(" ", "")
    assert names["sizes"].columns[3] == "sequence_id"
