"""Rare pairs become cases that a broker passes, whichever engine it has."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.corpus import promotion
from conformance.corpus.errors import CorpusError
from conformance.corpus.promotion import DIFFERS, FITS, FOLDER, Rare, case_of, promote, read_rare
from conformance.corpus.promotion import REFUSED as REFUSED_BY_JAVA
from conformance.engine.model import Transcript
from conformance.engine.source import parse, read_source
from conformance.judging.results import judge_log
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import Suite
from conformance.targets import InProcessTarget
from refimpl.net.virtual_time import VirtualTimeLoop

KELVIN = Rare(
    "kelvin", "(?i) folds by Unicode in RE2 only", "(?i)t/n/k", "persistent://t/n/\u212a", "does not fit", "synthetic_topics rows=9", 7
)
REFUSED = replace(KELVIN, name="octet", pattern=r"t/n/\C\C", topic="persistent://t/n/\u00e9", java="refused")


def result(tmp_path: Path, *rare: Rare | dict[str, Any]) -> Path:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"counters": {"rare": [one if isinstance(one, dict) else asdict(one) for one in rare]}}))
    return path


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["promotion", *map(str, arguments)])
    return promotion.main()


def test_a_case_says_where_it_comes_from_and_takes_both_readings() -> None:
    case = case_of(KELVIN)
    assert case["origin"] == f"synthetic_topics rows=9, row 7, digest {KELVIN.digest}: pattern '(?i)t/n/k', name 't/n/\\u212a'"
    assert case["vars"]["t"] == "persistent://${ns}/\u212a"
    java, re2 = case["steps"][-1]["one_of"]
    assert java["steps"][0]["broker"]["getTopicsOfNamespaceResponse"]["topics"] == []
    assert re2["steps"][0]["broker"]["getTopicsOfNamespaceResponse"]["topics"] == ["$t"]
    assert case_of(REFUSED)["steps"][-1]["one_of"][0]["steps"] == [
        {"broker": {"error": {"request_id": 1, "error": {"$in": ["MetadataError", "InvalidTopicName"]}}}}
    ]


def test_a_blank_name_gets_a_letter() -> None:
    blank = replace(KELVIN, pattern=r"t/n/\s", topic="persistent://t/n/\x0b", java="fits")
    assert case_of(blank)["vars"]["t"] == "persistent://${ns}/a\x0b"
    assert case_of(blank)["steps"][2]["client"]["getTopicsOfNamespace"]["topics_pattern"] == r"${ns}/a\s"


@pytest.mark.parametrize(
    ("rare", "words"),
    [
        (replace(KELVIN, pattern=".*"), r"the pattern '\.\*' does not speak of t/n/"),
        (replace(KELVIN, pattern="t/n/" + "a" * 50), "is too long for a broker with its usual settings"),
        (replace(KELVIN, java="fits"), "java.util.regex and RE2 say the same"),
    ],
)
def test_what_can_not_be_a_case(rare: Rare, words: str) -> None:
    with pytest.raises(CorpusError, match=words):
        case_of(rare)


def test_what_is_written_is_a_transcript(tmp_path: Path) -> None:
    written, problems = promote([KELVIN, REFUSED, KELVIN, replace(KELVIN, name="same", java="fits")], tmp_path)
    assert [path.name for path in written] == ["kelvin.yaml", "octet.yaml"]
    assert len(problems) == 1
    for path, rare in zip(written, (KELVIN, REFUSED), strict=True):
        transcript = parse(Transcript, read_source(path, path.name))
        assert (transcript.id, transcript.vars["t"]) == (f"promoted/{rare.name}", case_of(rare)["vars"]["t"])


def test_promoted_cases_run_on_the_reference_broker(suite: Suite) -> None:
    chosen = [name for name in suite.transcripts if name.startswith("promoted/")]
    assert len(chosen) >= 10
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        run, _ = runner.run(run_suite(suite, InProcessTarget(), Options(select=chosen), lambda _: None, Silent()))
    assert {one.verdict for one in judge_log(suite, run).results} == {"SPEC-GAP"}, "the reference reads as RE2 does"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_promoted_case_is_the_one_that_its_origin_gives(path: Path) -> None:
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    origin = re.fullmatch(r"(.*), row (\d+), digest ([0-9a-f]{16}): pattern (.*), name (.*)", case["origin"])
    assert origin is not None
    corpus, row, digest, pattern, name = origin.groups()
    java = case["steps"][-1]["one_of"][0]["steps"][0]["broker"]
    reading = REFUSED_BY_JAVA if "error" in java else FITS if java["getTopicsOfNamespaceResponse"]["topics"] else DIFFERS
    rare = Rare(path.stem, case["title"], ast.literal_eval(pattern), f"persistent://{ast.literal_eval(name)}", reading, corpus, int(row))
    assert rare.digest == digest
    assert case_of(rare) == case


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = result(tmp_path, KELVIN, REFUSED)
    assert command(monkeypatch, path, "octet", "--folder", tmp_path / "out") == 0
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["octet.yaml"]
    assert command(monkeypatch, path, "nothing") == 2
    assert "no class nothing; there are: kelvin, octet" in capsys.readouterr().err
    assert command(monkeypatch, tmp_path / "missing.json") == 2
    assert "missing.json: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "no result of a job that looks for rare rows"),
        ("nonsense", "no result of a job"),
        ('{"counters": {"rare": []}}', "the job met no rare rows"),
        ('{"counters": {"rare": [{"name": "x"}]}}', "a rare pair has no text, pattern, topic, java, corpus, row"),
    ],
)
def test_files_that_are_no_result(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(CorpusError, match=words):
        read_rare(path)
