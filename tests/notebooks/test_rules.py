"""The notebooks keep to the rules, and each rule finds what breaks it. Their outputs are checked by nbval."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.notebooks.build import HOME, dump, normal
from tests.notebooks.rules import RULES, problems

NOTEBOOKS = sorted(HOME.glob("*.ipynb"))


def sample() -> dict[str, Any]:
    text = [
        "Sizes, see [`core.frame.too-large-closes`](../conformance/clauses/core.yaml) and\n",
        "[`core/frame/too-large`](../conformance/transcripts/core/frame/too-large.yaml).",
    ]
    output = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": ["2"]}}
    return {
        "cells": [
            {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Title\n", "\n", "After reading you can decide 1.5 things."]},
            {"cell_type": "markdown", "id": "b", "metadata": {}, "source": text},
            {"cell_type": "code", "id": "c", "metadata": {}, "execution_count": 1, "outputs": [output], "source": ["1 + 1"]},
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def broken(change: Callable[[list[dict[str, Any]]], None]) -> list[str]:
    notebook = copy.deepcopy(sample())
    change(notebook["cells"])
    return [one.partition(":")[0] for one in problems(dump(notebook))]


def test_there_are_notebooks() -> None:
    assert "01_wire_format.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_to_the_rules(path: Path) -> None:
    assert problems(path.read_text(encoding="utf-8")) == []


def test_the_sample_keeps_to_the_rules() -> None:
    assert problems(dump(sample())) == []


def source(text: str) -> Callable[[list[dict[str, Any]]], None]:
    return lambda cells: cells[2].update(source=text.splitlines(keepends=True), outputs=cells[2]["outputs"])


def says(text: str) -> Callable[[list[dict[str, Any]]], None]:
    return lambda cells: cells[1].update(source=text.splitlines(keepends=True))


def shows(text: str) -> Callable[[list[dict[str, Any]]], None]:
    return lambda cells: cells[2]["outputs"][0]["data"].update({"text/plain": [text]})


BROKEN: dict[str, list[Callable[[list[dict[str, Any]]], None]]] = {
    "normal_form": [
        lambda cells: cells[2]["metadata"].update(execution={"iopub.execute_input": "x"}),
        lambda cells: cells[2]["metadata"].update(scrolled=True),
        lambda cells: cells[1].update(id="a"),
    ],
    "size": [lambda cells: cells[1].update(source=["word " * 70_000])],
    "ran_in_order": [lambda cells: cells[2].update(execution_count=2), lambda cells: cells[2].update(execution_count=None)],
    "first_cell": [
        lambda cells: cells[0].update(source=["# Title"]),
        lambda cells: cells[0].update(source=["# Title\n", "\n", "One sentence. Another."]),
        lambda cells: cells[0].update(source=["Text."]),
    ],
    "one_heading": [says("# Another title")],
    "explained": [lambda cells: cells.append({**copy.deepcopy(cells[2]), "id": "d", "execution_count": 2})],
    "short_cells": [source("1\n" * 16), source("1 + " * 30 + "1")],
    "imported_code": [source("class A:\n    pass"), source("def f():\n" + "    x = 1\n" * 5)],
    "outputs": [
        lambda cells: cells[2].update(outputs=[]),
        lambda cells: cells[2].update(outputs=[{"output_type": "stream", "name": "stderr", "text": ["x"]}]),
        source(""),
    ],
    "opt_outs": [
        lambda cells: cells[2]["metadata"].update(tags=["nbval-ignore-output"]),
        source("# NBVAL_IGNORE_OUTPUT\n1 + 1"),
    ],
    "nothing_leaks": [
        shows("pulsar://localhost:6650"),
        shows("10.0.0.17"),
        shows(f"{Path.home()}/x"),
        shows("File /usr/lib/x.py"),
        shows("<object at 0x7f3a5b6c7d8e>"),
        shows("2026-01-31"),
        shows("12:30:59"),
    ],
    "links": [
        says("[x](../conformance/clauses/nowhere.yaml)"),
        says("[x](../conformance/clauses)"),
        says("[x](../conformance/clauses/core.yaml#core.frame.too-large-closes)"),
        says("[x](../reference/clauses/core.md)"),
        says("[x](02_nowhere.ipynb)"),
        says("[x](../nowhere.md)"),
        says("[x](https://example.org/)"),
    ],
    "cited_clauses": [says("As `core.frame.no-such-clause` says.")],
    "links_say_where_they_lead": [
        says("[`core.frame.too-large-closes`](../conformance/clauses/pip145_list.yaml)"),
        says("[`core/frame/too-large`](../conformance/transcripts/core/frame/largest.yaml)"),
    ],
}


def test_every_rule_is_tried() -> None:
    assert set(BROKEN) == {check.__name__ for check in RULES}


@pytest.mark.parametrize(("rule", "change"), [(rule, change) for rule, changes in BROKEN.items() for change in changes])
def test_a_rule_finds_what_breaks_it(rule: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    assert rule in broken(change)


def test_links_to_pages_written_by_hand_resolve() -> None:
    assert broken(says("[transcripts](../docs/transcripts.md), [this](01_wire_format.ipynb)")) == []


def test_an_opt_out_with_a_reason_is_allowed() -> None:
    reason = {"tags": ["nbval-ignore-output"], "reason": "the order of two answers is the broker's choice"}
    assert broken(lambda cells: cells[2]["metadata"].update(reason)) == []


def test_the_normal_form_is_its_own_normal_form() -> None:
    once = normal(json.loads(NOTEBOOKS[0].read_text(encoding="utf-8")))
    assert dump(normal(once)) == dump(once)
