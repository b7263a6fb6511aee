"""Execute the notebooks, each in a fresh kernel, and bring them into their normal form: `python -m conformance.notebooks.build`.

The normal form has execution counts from 1, no trace of when and how a cell was run, one output of a stream where there were
several, sorted keys, an indent of one blank, and a line feed at the end. Executing a notebook that has not changed changes nothing.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

HOME = Path(__file__).parents[2] / "notebooks"
TIMEOUT = 120.0
"""Seconds that one cell may take."""
_ARGUMENTS = ["--IPKernelApp.log_level=ERROR"]
"""Kernels warn that they listen on the loopback interface; they do so on purpose."""
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_KEPT = ("tags", "reason")
"""What the metadata of a cell may hold."""
_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

Notebook = dict[str, Any]


def normal(notebook: Notebook) -> Notebook:
    """Return a notebook in its normal form.

    Args:
        notebook: As in its file, format 4.
    """
    cells: list[dict[str, Any]] = []
    used: set[str] = set()
    for cell in copy.deepcopy(notebook["cells"]):
        source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        kept = {
            "cell_type": cell["cell_type"],
            "id": _cell_id(cell.get("id", ""), source, used),
            "metadata": {key: value for key, value in cell.get("metadata", {}).items() if key in _KEPT and value},
            "source": source.rstrip().splitlines(keepends=True),
        }
        if cell["cell_type"] == "code":
            ran = sum("execution_count" in one for one in cells)
            outputs = _joined([_output(one, ran + 1) for one in cell.get("outputs", [])])
            kept |= {"execution_count": ran + 1, "outputs": outputs}
        cells.append(kept)
    metadata = {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def dump(notebook: Notebook) -> str:
    """Write a notebook as its file holds it."""
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def execute(path: Path) -> Notebook:
    """Run all cells of a notebook in a fresh kernel, in the folder where it stands.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    import nbformat  # noqa: PLC0415
    from nbclient import NotebookClient  # noqa: PLC0415

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3", resources=folder, extra_arguments=_ARGUMENTS).execute()
    result: Notebook = json.loads(json.dumps(notebook))
    return result


def build(path: Path) -> float:
    """Execute a notebook and write it in its normal form.

    Returns:
        Seconds that it took.
    """
    begin = time.monotonic()
    path.write_text(dump(normal(execute(path))), encoding="utf-8")
    return time.monotonic() - begin


def _cell_id(given: str, source: str, used: set[str]) -> str:
    """Keep the id of a cell; a missing or repeated one is made from what the cell says."""
    name, number = given, 0
    while name in used or not _CELL_ID.fullmatch(name):
        name = hashlib.sha256(f"{number}{source}".encode()).hexdigest()[:8]
        number += 1
    used.add(name)
    return name


def _output(output: dict[str, Any], count: int) -> dict[str, Any]:
    output.pop("transient", None)
    if output["output_type"] == "execute_result":
        output["execution_count"] = count
    if "data" in output:
        output["metadata"] = {}
        output["data"] = {mime: _lines(value) if mime.startswith("text/") else value for mime, value in output["data"].items()}
    if "text" in output:
        output["text"] = _lines(output["text"])
    return output


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join what one stream wrote in several pieces; how many there are depends on the speed of the machine."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        if joined and output["output_type"] == "stream" and joined[-1].get("name") == output["name"]:
            joined[-1]["text"] = _lines([*joined[-1]["text"], *output["text"]])
        else:
            joined.append(output)
    return joined


def _lines(text: str | list[str]) -> list[str]:
    return (text if isinstance(text, str) else "".join(text)).splitlines(keepends=True)


def main(arguments: list[str]) -> None:
    """Build the notebooks that are named, or all of them."""
    for path in [Path(name) for name in arguments] or sorted(HOME.glob("*.ipynb")):
        print(f"{path.name}: {build(path):.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
