"""The pages of the Python packages: which modules they show; the documentation itself is read from the docstrings by mkdocstrings."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from conformance.site.markup import Page, joined
from conformance.site.sources import REPOSITORY

PACKAGES: dict[str, tuple[str, str, Sequence[str]]] = {
    "wire": (
        "Wire format",
        "Bytes to commands and back. Most of it is importable from `refimpl.wire`; the messages are in `refimpl.wire.pulsar_api_pb2`.",
        ("refimpl/wire",),
    ),
    "proposals": (
        "Rules of the proposals",
        "What each proposal asks for, as plain functions and two small state machines: without sockets, clocks and threads.",
        ("refimpl/proposals",),
    ),
    "broker": (
        "Reference broker",
        "The broker as a value: bytes and a time go in, bytes come out. `refimpl.net` carries them over sockets.",
        ("refimpl/broker", "refimpl/store"),
    ),
    "client": ("Reference client", "The client as a value, with the same verbs as the broker.", ("refimpl/client",)),
    "net": (
        "Running it",
        "The only package with sockets: the server, the admin interface, the embedded broker, and virtual time for tests.",
        ("refimpl/net",),
    ),
}
"""Pages by name: title, what to say first, and the folders whose modules they show."""
_GENERATED = "_pb2"


def programming_pages(home: Path = REPOSITORY) -> list[Page]:
    """Return a page for each package that has modules with public names.

    Args:
        home: The folder that holds the packages.
    """
    pages = []
    for name, (title, words, folders) in PACKAGES.items():
        modules = [module for folder in folders for module in _modules(home, folder)]
        if modules:
            lines = [f"# {title}", "", words, ""]
            for module in modules:
                lines += [f"## {module}", "", f"::: {module}", "    options: {heading_level: 3, show_root_heading: false}", ""]
            pages.append(Page(f"reference/python/{name}.md", title, joined(lines)))
    return pages


def _modules(home: Path, folder: str) -> list[str]:
    """Return the modules of a folder that define something public, by their dotted names."""
    found = []
    for path in sorted((home / folder).rglob("*.py")):
        inside = path.relative_to(home).with_suffix("").parts
        if any(part.startswith("_") for part in inside) or path.stem.endswith(_GENERATED):
            continue
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, kinds) and not node.name.startswith("_") for node in tree.body):
            found.append(".".join(inside))
    return found
