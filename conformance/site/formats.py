"""The file formats, from the classes that read them: one table for each object, and the JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.clients import driver
from conformance.engine import log
from conformance.engine import model as m
from conformance.engine.capabilities import CAPABILITIES
from conformance.site.markup import Page, code, joined, link, prose, table
from conformance.targets.target_file import TargetFile

PATH = "reference/formats.md"
KINDS: dict[str, Any] = {
    "transcript": m.Transcript,
    "fragment": m.Fragment,
    "settings": m.Settings,
    "register": m.Register,
    "baseline": m.Baseline,
    "target": TargetFile,
}
"""The files of the suite and of its users, and the class that reads each."""


LINES: dict[str, Any] = {"log": log.json_schema, "driver": driver.json_schema}
"""Files and streams of JSON lines, and what returns the schema of each."""


def schemas() -> dict[str, str]:
    """Return the JSON Schemas as files, by path."""
    found = {kind: cls.model_json_schema() for kind, cls in KINDS.items()} | {kind: schema() for kind, schema in LINES.items()}
    return {f"reference/schema/{kind}.json": json.dumps(schema, indent=2) + "\n" for kind, schema in found.items()}


def format_page() -> Page:
    """Return the page with every file format, key by key."""
    lines = [
        "# File formats",
        "",
        "Generated from the classes that read the files. The meaning of the keys of a transcript is described in "
        + link(PATH, "transcripts.md", "Transcripts")
        + ".",
        "The JSON Schemas: " + ", ".join(f"[{kind}](schema/{kind}.json)" for kind in (*KINDS, *LINES)) + ".",
        "An unknown key is an error, with file, line and suggestion.",
        "",
    ]
    definitions: dict[str, Mapping[str, Any]] = {}
    for kind, cls in KINDS.items():
        schema = cls.model_json_schema()
        definitions |= schema.pop("$defs", {})
        lines += [*_object(kind.capitalize(), schema, definitions), ""]
    lines += ["## Objects", "", "The objects in the files above, by name.", ""]
    for name, schema in sorted(definitions.items()):
        if "properties" in schema:
            lines += [*_object(name, schema, definitions, level=3), ""]
    lines += ["## Capabilities", "", "What `requires` may name, and how each is probed.", ""]
    lines += table(["capability", "the target has it when"], ((code(name), prose(text)) for name, text in CAPABILITIES.items()))
    return Page(PATH, "File formats", joined(lines))


def _object(name: str, schema: Mapping[str, Any], known: Mapping[str, Any], level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {name} {{ #{name.lower()} }}"
    yield ""
    if schema.get("description"):
        yield prose(schema["description"].split("\n")[0])
        yield ""
    needed = schema.get("required", ())
    rows = (
        (code(key), kind_of(value, known), _default(value, key in needed), prose(value.get("description", "")))
        for key, value in schema.get("properties", {}).items()
    )
    yield from table(["key", "kind", "without it", "meaning"], rows)


def _default(schema: Mapping[str, Any], needed: bool) -> str:
    if needed:
        return "needed"
    value = schema.get("default")
    return "" if value is None or value in ("", [], {}) else code(json.dumps(value))


def kind_of(schema: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Describe the values that a schema allows, in a few words of Markdown.

    Args:
        schema: A part of a JSON Schema.
        known: The definitions that it may refer to; those with properties have a place in the page.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if "properties" in known.get(name, {}) else kind_of(known.get(name, {}), known)
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return " or ".join(code(value) for value in schema["enum"])
    options = schema.get("anyOf") or schema.get("oneOf")
    if options and len(options) > 8:
        return "a step"
    if options:
        words = [kind_of(one, known) for one in options if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(words))
    return _plain_kind(schema, known)


def _plain_kind(schema: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array":
        return f"list of {kind_of(schema.get('items', {}), known)}"
    if kind == "object":
        return "one key and its value" if schema.get("maxProperties") == 1 else "map"
    if "pattern" in schema:
        return f"text like {code(schema['pattern'])}"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no", None: "any value"}
    return words.get(kind, str(kind))
