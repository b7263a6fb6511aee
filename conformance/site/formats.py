"""The file formats, from the classes that read them: one table for each object, and the JSON Schemas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.clients import driver
from conformance.engine import log
from conformance.engine import model as m
from conformance.engine.capabilities import CAPABILITIES
from conformance.site.markup import Page, code, joined, link, prose, table
from conformance.site.sources import REPOSITORY
from conformance.suite import Suite
from conformance.targets.operations import OPERATIONS, Operation, full_path
from conformance.targets.target_file import TargetFile

PATH = "reference/formats.md"
PROTO = REPOSITORY / "proto" / "pulsar_api.proto"
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
    """Return the JSON Schemas and the schema of the commands as files, by path."""
    found = {kind: cls.model_json_schema() for kind, cls in KINDS.items()} | {kind: schema() for kind, schema in LINES.items()}
    texts = {f"{kind}.json": json.dumps(schema, indent=2) + "\n" for kind, schema in found.items()}
    texts[PROTO.name] = PROTO.read_text(encoding="utf-8")
    return {f"reference/schema/{name}": text for name, text in texts.items()}


def format_page(suite: Suite) -> Page:
    """Return the page with every file format, key by key, and the calls of the admin interface that transcripts name.

    Args:
        suite: Whose calls are counted.
    """
    lines = [
        "# File formats",
        "",
        "Generated from the classes that read the files. The meaning of the keys of a transcript is described in "
        + link(PATH, "transcripts.md", "Transcripts")
        + ".",
        "The JSON Schemas: " + ", ".join(f"[{kind}](schema/{kind}.json)" for kind in (*KINDS, *LINES)) + ".",
        "An unknown key is an error, with file, line and suggestion.",
        f"Commands and their numbers: [{PROTO.name}](schema/{PROTO.name}); [admin calls](#admin-calls) at the end of this page.",
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
    return Page(PATH, "File formats", joined([*lines, "", *_admin_calls(suite)]))


LEAST = frozenset({"create_namespace", "delete_namespace", "create_topic", "delete_topic"})
"""The calls that an admin interface has first."""


def _admin_calls(suite: Suite) -> Iterator[str]:
    calls = [suite.admin_calls(case.id) for case in suite.select([], role="broker")]
    used = Counter(name for names in calls for name in names)
    enough = sum(names <= LEAST for names in calls)
    yield "## Admin calls { #admin-calls }"
    yield ""
    first = ", ".join(code(name) for name in OPERATIONS if name in LEAST)
    yield "What cases ask of a broker's admin interface: the calls that `admin` and `read` of a transcript may name,"
    yield f"and how many cases for brokers use each. {enough} of {len(calls)} cases need no other calls than {first}."
    yield "A run makes and deletes its namespaces with these, and reads `runtime_configuration` and `brokers` if the broker has them."
    yield (
        "`{topic}` stands for domain, tenant, namespace and name with slashes between them, each percent-encoded; `{of}` for the path of a "
        "namespace or a topic, behind which comes that of the policy."
    )
    yield "Arguments in parentheses may be left out."
    yield ""
    rows = ((code(name), code(_request(one)), _arguments(one), prose(one.text), str(used[name])) for name, one in OPERATIONS.items())
    yield from table(["call", "request", "arguments", "what it does", "cases"], rows)


def _request(operation: Operation) -> str:
    return f"{operation.method} {full_path(operation.path)}{'/..' if 'policy' in operation.required else ''}"


def _arguments(operation: Operation) -> str:
    optional = f"({', '.join(map(code, operation.optional))})" if operation.optional else ""
    return " ".join(filter(None, [", ".join(map(code, operation.required)), optional]))


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
