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
EXAMPLES: dict[str, str] = {
    "wire": """
>>> from refimpl.wire import command, decode_frame, encode_frame, line_notation
>>> data = encode_frame(command("ping"))
>>> data.hex(" ", -4)
'00000009 00000005 08129201 00'
>>> line_notation(decode_frame(data))
'PING{}'
""",
    "proposals": """
>>> from refimpl.proposals.topic_list import topics_hash
>>> topics_hash(["persistent://public/default/a"])
'e4a876e3'
>>> topics_hash([])
'00000000'
""",
    "broker": """
>>> from refimpl.broker import Broker, Configuration
>>> from refimpl.wire import command, decode_frame, encode_frame, type_name
>>> broker = Broker(Configuration.from_settings({"keepAliveIntervalSeconds": "5"}))
>>> session = broker.connect(0.0)
>>> session.receive(encode_frame(command("connect", client_version="me", protocol_version=21)), 0.0)
>>> type_name(decode_frame(session.data_to_send()).command)
'CONNECTED'
>>> broker.tick(5.0)
>>> type_name(decode_frame(session.data_to_send()).command)
'PING'
""",
    "client": """
>>> import random
>>> from refimpl.client import ClientCore
>>> core = ClientCore("pulsar://127.0.0.1:6650", random=random.Random(0))
>>> with core.entered(0.0):
...     creating = core.create_producer("persistent://public/default/t")
>>> len(core.connections_to_open())
1
""",
    "net": """
>>> from refimpl.net.embedded import EmbeddedBroker
>>> with EmbeddedBroker() as broker:
...     broker.service_url.rpartition(":")[0]
'pulsar://127.0.0.1'
""",
}
"""A session in Python for each page; the tests run them."""
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
            lines = [f"# {title}", "", words, "", "```pycon", EXAMPLES[name].strip(), "```", ""]
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
