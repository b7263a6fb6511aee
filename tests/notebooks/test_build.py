"""Executing a notebook, and its normal form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance.notebooks.build import build, dump, normal


def notebook(*sources: str, **extra: Any) -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "id": f"cell{index}", "metadata": {}, "source": source, "outputs": [], "execution_count": None, **extra}
        for index, source in enumerate(sources)
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def test_a_built_notebook_has_outputs_and_does_not_change_when_built_again(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(notebook("import sys\nprint('a')\nsys.stdout.flush()\nprint('b')", "1 + 1")), encoding="utf-8")
    build(path)
    first = path.read_text(encoding="utf-8")
    cells = json.loads(first)["cells"]
    assert cells[0]["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["a\n", "b\n"]}]
    assert cells[1]["outputs"][0]["data"] == {"text/plain": ["2"]}
    assert [cell["execution_count"] for cell in cells] == [1, 2]
    assert all(cell["metadata"] == {} for cell in cells)
    build(path)
    assert path.read_text(encoding="utf-8") == first


def test_cells_are_counted_from_one_whatever_they_said() -> None:
    made = normal(notebook("1", "2", execution_count=17))
    assert [cell["execution_count"] for cell in made["cells"]] == [1, 2]


def test_pieces_of_a_stream_become_one() -> None:
    pieces = [{"output_type": "stream", "name": "stdout", "text": text} for text in ("a", "b\n", "c\n")]
    other = {"output_type": "stream", "name": "stderr", "text": "d\n"}
    made = normal(notebook("x", outputs=[*pieces, other]))
    assert [one["text"] for one in made["cells"][0]["outputs"]] == [["ab\n", "c\n"], ["d\n"]]


def test_tags_and_reasons_are_kept_and_nothing_else() -> None:
    metadata = {"tags": ["nbval-skip"], "reason": "because", "collapsed": True, "execution": {"iopub.status.busy": "x"}}
    assert normal(notebook("x", metadata=metadata))["cells"][0]["metadata"] == {"tags": ["nbval-skip"], "reason": "because"}


def test_ids_are_kept_and_made_where_they_are_missing_or_repeated() -> None:
    made = notebook("a", "b", "c")
    made["cells"][1]["id"] = "cell0"
    del made["cells"][2]["id"]
    ids = [cell["id"] for cell in normal(made)["cells"]]
    assert ids[0] == "cell0"
    assert len(set(ids)) == 3
    assert ids == [cell["id"] for cell in normal(made)["cells"]]


def test_the_file_has_sorted_keys_and_ends_with_a_line_feed() -> None:
    text = dump(normal(notebook("x")))
    assert text.endswith("}\n")
    assert list(json.loads(text)["cells"][0]) == sorted(json.loads(text)["cells"][0])
