"""What every notebook must keep to; each rule yields the places that break it."""

from __future__ import annotations

import ast
import json
import re
import socket
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from conformance.notebooks.build import dump, normal
from conformance.suite import HOME, Suite, load_suite
from refimpl.proposals import PROPOSALS

ROOT = HOME.parent
MAX_SIZE, MAX_LINES, MAX_COLUMNS, MAX_FUNCTION_LINES = 300_000, 15, 100, 5
OPT_OUTS = {"nbval-ignore-output", "nbval-skip", "nbval-raises-exception", "raises-exception"}
LEAKS = {
    "the name of this machine": re.compile(rf"\b{re.escape(socket.gethostname())}\b"),
    "a host name": re.compile(r"localhost|\.local\b|\.internal\b"),
    "an address": re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b|\[::1?\]"),
    "a path": re.compile(
        rf"{re.escape(str(Path.home()))}\b|{re.escape(str(ROOT))}\b|(?<![\w/:.])/(home|tmp|usr|var|opt|Users)/|[A-Z]:\\\\"
    ),
    "the place of an object": re.compile(r"\bat 0x[0-9a-f]{6,}"),
    "a date": re.compile(r"\b20\d\d-[01]\d-[0-3]\d\b"),
    "a time": re.compile(r"\b[0-2]\d:[0-5]\d:[0-5]\d\b"),
}
_TEXTS = "|".join(re.escape(proposal.address) for proposal in PROPOSALS)
_LINK = re.compile(rf"\]\((?!(?:{_TEXTS})\))([^)\s]+)\)")
"""A link, but not one to the text of a proposal."""
_CITED = re.compile(r"`((?:core|pip\d+|pr\d+)\.[a-z0-9.-]+)`")

Notebook = dict[str, Any]
Rule = Callable[[str, Notebook], Iterator[str]]
RULES: list[Rule] = []


def rule(check: Rule) -> Rule:
    RULES.append(check)
    return check


def problems(text: str) -> list[str]:
    notebook = json.loads(text)
    return [f"{check.__name__}: {found}" for check in RULES for found in check(text, notebook)]


@cache
def suite() -> Suite:
    return load_suite()


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def cells(notebook: Notebook, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def shown(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell["outputs"]:
        yield "".join(output.get("text", []))
        for value in output.get("data", {}).values():
            yield "".join(value) if isinstance(value, list | str) else json.dumps(value)


@rule
def normal_form(text: str, notebook: Notebook) -> Iterator[str]:
    if text != dump(normal(notebook)):
        yield "run `make notebooks`"


@rule
def size(text: str, notebook: Notebook) -> Iterator[str]:
    if len(text.encode()) > MAX_SIZE:
        yield f"{len(text.encode())} bytes"


@rule
def ran_in_order(text: str, notebook: Notebook) -> Iterator[str]:
    counts = [cell["execution_count"] for cell in cells(notebook, "code")]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts {counts}"


@rule
def first_cell(text: str, notebook: Notebook) -> Iterator[str]:
    first = notebook["cells"][0]
    heading, _, rest = source(first).partition("\n\n")
    if first["cell_type"] != "markdown" or not re.fullmatch(r"# [^\n]+", heading):
        yield "it does not begin with a heading"
    if "\n\n" in rest.strip() or len(re.findall(r"[.!?](?:\s|$)", rest)) != 1:
        yield "not one sentence follows the heading"


@rule
def one_heading(text: str, notebook: Notebook) -> Iterator[str]:
    headings = [line for cell in cells(notebook, "markdown") for line in source(cell).splitlines() if line.startswith("# ")]
    if len(headings) != 1:
        yield f"{headings}"


@rule
def explained(text: str, notebook: Notebook) -> Iterator[str]:
    for before, cell in zip(notebook["cells"], notebook["cells"][1:], strict=False):
        if cell["cell_type"] == "code" and before["cell_type"] != "markdown":
            yield f"{cell['id']}: no sentence stands before it"


@rule
def short_cells(text: str, notebook: Notebook) -> Iterator[str]:
    for cell in cells(notebook, "code"):
        lines = source(cell).splitlines()
        if len(lines) > MAX_LINES:
            yield f"{cell['id']}: {len(lines)} lines"
        if any(len(line) > MAX_COLUMNS for line in lines):
            yield f"{cell['id']}: {max(map(len, lines))} columns"


@rule
def imported_code(text: str, notebook: Notebook) -> Iterator[str]:
    for cell in cells(notebook, "code"):
        for node in ast.walk(ast.parse(source(cell))):
            if isinstance(node, ast.ClassDef):
                yield f"{cell['id']}: class {node.name}"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES:
                yield f"{cell['id']}: function {node.name} is longer than {MAX_FUNCTION_LINES} lines"


@rule
def outputs(text: str, notebook: Notebook) -> Iterator[str]:
    for cell in cells(notebook, "code"):
        if "nbval-skip" in cell["metadata"].get("tags", []):
            continue
        body = ast.parse(source(cell)).body
        if not body:
            yield f"{cell['id']}: it is empty"
        elif isinstance(body[-1], ast.Expr) and not cell["outputs"]:
            yield f"{cell['id']}: it shows nothing"
        for output in cell["outputs"]:
            if output["output_type"] == "error" or output.get("name") == "stderr":
                yield f"{cell['id']}: it shows {output.get('ename', 'standard error')}"


@rule
def opt_outs(text: str, notebook: Notebook) -> Iterator[str]:
    for cell in notebook["cells"]:
        tags = set(cell["metadata"].get("tags", []))
        if tags & OPT_OUTS and len(cell["metadata"].get("reason", "")) < 10:
            yield f"{cell['id']}: {sorted(tags)} without a reason"
        if re.search(r"#\s*(NBVAL|PYTEST_VALIDATE)_", source(cell)):
            yield f"{cell['id']}: opts out by a comment"


@rule
def nothing_leaks(text: str, notebook: Notebook) -> Iterator[str]:
    for cell in cells(notebook, "code"):
        for part in shown(cell):
            for what, pattern in LEAKS.items():
                found = pattern.search(part)
                if found is not None:
                    yield f"{cell['id']}: {what}, {found[0]!r}"


@rule
def links(text: str, notebook: Notebook) -> Iterator[str]:
    for cell in cells(notebook, "markdown"):
        for target in _LINK.findall(source(cell)):
            if re.match(r"https?:", target):
                yield f"{cell['id']}: {target} leads out of the site"
            elif "#" in target:
                yield f"{cell['id']}: {target} leads to a place that not every reader of notebooks knows"
            elif not (ROOT / "notebooks" / target).is_file():
                yield f"{cell['id']}: {target} leads nowhere"


@rule
def cited_clauses(text: str, notebook: Notebook) -> Iterator[str]:
    for cell in cells(notebook, "markdown"):
        for name in _CITED.findall(source(cell)):
            if name not in suite().clauses:
                yield f"{cell['id']}: there is no clause {name}"


@rule
def links_say_where_they_lead(text: str, notebook: Notebook) -> Iterator[str]:
    files = named_files()
    for cell in cells(notebook, "markdown"):
        for name, target in re.findall(r"\[`([^`]+)`\]\(([^)]*)\)", source(cell)):
            if files.get(name) != target:
                yield f"{cell['id']}: {name} leads to {target}"


@cache
def named_files() -> dict[str, str]:
    """Return for each clause and each case the file that it stands in, as a notebook links it."""
    names = [path.stem for path in sorted((HOME / "clauses").glob("*.yaml"))]
    registers = zip(names, suite().registers, strict=True)
    clauses = {clause.id: f"../conformance/clauses/{name}.yaml" for name, register in registers for clause in register.clauses}
    return clauses | {case: f"../conformance/transcripts/{case}.yaml" for case in suite().transcripts}
