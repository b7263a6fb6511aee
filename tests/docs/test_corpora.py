"""The page with the results of the Spark side says what the files say."""

import json
from pathlib import Path

import pytest

from conformance.corpus.jobs.__main__ import RUNS
from conformance.site.corpora import RESULTS, corpora_page
from conformance.site.markup import plain

FILES = sorted(RESULTS.glob("*.json"))


def test_every_run_of_make_spark_is_there() -> None:
    assert {path.stem for path in FILES} == set(RUNS)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_what_is_committed_holds_and_is_shown(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    assert path.stem in RUNS
    assert result["job"] == path.stem.partition("-")[0]
    assert result["laws"]
    assert all(law["holds"] and law["checked"] for law in result["laws"])
    text = corpora_page().text
    assert f"{{ #{path.stem} }}" in text
    for law in result["laws"]:
        assert f"| `{law['name']}` | {plain(law['text'])} | {law['checked']:,} | 0 |" in text


def test_a_broken_law_and_text_of_a_peer_are_shown_as_they_are(tmp_path: Path) -> None:
    law = {"name": "agrees", "text": "a | b", "checked": 7, "broken": 2, "holds": False}
    counters = {"topics": 12345, "largest <namespace>": "t/n"}
    result = {
        "job": "hashes_agree",
        "laws": [law],
        "counters": counters,
        "options": {"rows": 5, "corpus": "capture:a_b"},
        "seed": 3,
        "versions": {"spark": "4", "python": "3", "cores": 2},
        "seconds": {"all": 61.4},
    }
    (tmp_path / "hashes_agree-mine.json").write_text(json.dumps(result))
    text = corpora_page(tmp_path).text
    assert "| `hashes_agree` | as there are | 3 | 0 of 1 | 61 s | Spark 4, Python 3, 2 cores |" in text
    assert r"| `agrees` | a \| b | 7 | 2 |" in text
    assert "| topics | 12,345 |" in text
    assert "&lt;namespace&gt;" in text
