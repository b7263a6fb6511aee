"""The check of outputs is strict: a cell that shows something else than what is committed fails, in each form that it shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.notebooks.build import build

CODE = "from conformance.notebooks import table\ntable(['a'], [(1,)])"
ROOT = Path(__file__).parents[2]


def checked(path: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", f"-c{ROOT / 'pyproject.toml'}", path]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False).stdout


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("notebook") / "a.ipynb"
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": CODE, "outputs": [], "execution_count": None}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    build(path)
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("form", [None, "text/plain", "text/html"])
def test_outputs_are_compared_in_every_form(notebook: dict[str, Any], form: str | None, tmp_path: Path) -> None:
    changed = json.loads(json.dumps(notebook))
    if form is not None:
        data = changed["cells"][0]["outputs"][0]["data"]
        data[form] = [line.replace("1", "2") for line in data[form]]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(changed), encoding="utf-8")
    assert ("1 passed" if form is None else "1 failed") in checked(path)
