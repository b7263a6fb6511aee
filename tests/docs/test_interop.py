"""The table of stock clients: it has the form that the flows have now, and nothing in it has failed."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from conformance.site.interop import CLIENTS, PATH, RESULTS, interop_page
from conformance.site.sources import REPOSITORY

FOLDER = REPOSITORY / "tests" / "interop"
RESULT_OF = json.loads(RESULTS.read_text(encoding="utf-8"))


def flows(path: Path) -> set[str]:
    """Return the names of the flows of a file: its tests that take a client and a broker."""
    found = {node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}
    return {
        f"{path.name}::{node.name}" for node in found if node.name.startswith("test_") and "client" in {one.arg for one in node.args.args}
    }


def test_every_flow_has_its_row():
    """`make interop` writes the rows anew, `pytest --results tests/interop/FILE.py` those of a file."""
    there_are = set().union(*(flows(path) for path in FOLDER.glob("test_*.py") if "pytest.mark.flows" in path.read_text(encoding="utf-8")))
    assert set(RESULT_OF) == there_are


def test_every_row_has_the_reference_and_known_clients_and_brokers():
    for name, clients in RESULT_OF.items():
        assert set(clients) <= set(CLIENTS), name
        for client, brokers in clients.items():
            assert {"reference"} <= set(brokers) <= {"reference", "real", "real-v5"}, (name, client)


def test_the_flows_of_core_are_tried_with_every_client():
    core = {name: set(clients) for name, clients in RESULT_OF.items() if name.startswith("test_core_flows.py::")}
    assert len(core) > 20
    assert all(clients == set(CLIENTS) for clients in core.values())


def test_no_flow_has_failed():
    failed = [
        (name, client, broker)
        for name, clients in RESULT_OF.items()
        for client, of in clients.items()
        for broker in of
        if of[broker] == "failed"
    ]
    assert failed == []


def test_the_page_shows_each_flow():
    page = interop_page()
    assert page.path == PATH
    for name in RESULT_OF:
        words = name.partition("::")[2].removeprefix("test_").replace("_", " ")
        assert words[:1].upper() + words[1:] in page.text


def test_each_file_of_flows_has_a_heading_and_only_columns_of_clients_that_were_tried():
    page = interop_page().text
    assert "## Look-up over HTTP" in page
    part = page.split("## More flows")[1].split("\n## ")[0]
    assert CLIENTS["java"] in part
    assert CLIENTS["rust"] not in part
