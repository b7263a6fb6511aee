"""The page of the stock clients: what came of each flow, from the file that `make interop` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from conformance.site.markup import Page, code, joined, link, plain, table
from conformance.site.sources import CLIENTS as TITLES
from conformance.site.sources import REPOSITORY

RESULTS: Final = REPOSITORY / "conformance" / "interop.json"
PATH: Final = "reference/interop.md"
TITLE: Final = "Stock clients"
_VERSIONS: Final = {"java": "4.2.4", "java_v5": "5.0.0-M1", "python": "3.13.0", "go": "0.19.0", "flex": "1.1.1", "rust": "6.9.1"}
CLIENTS: Final = {name: f"{title} {_VERSIONS[name]}" for name, title in TITLES.items()}
"""The clients, in the order of the columns."""
REFERENCE: Final = "reference"
_GROUPS: Final = {
    "test_core_flows.py": "Flows of every client",
    "test_flows.py": "More flows, of Java and Python",
    "test_letters.py": "Chunks, encryption, dead letters, retries",
    "test_schemas.py": "Schemas",
    "test_tokens.py": "Tokens",
    "test_transactions.py": "Transactions",
    "test_http_lookup.py": "Look-up over HTTP",
}
"""What the files of the flows are about, in the order of the page."""
_SIGNS: Final = {"passed": "yes", "not offered": "–", "skipped": "skipped", "failed": "**no**"}

Results = Mapping[str, Mapping[str, Mapping[str, str]]]


def interop_page(path: Path = RESULTS) -> Page:
    """Return a table of flows by client: at the reference, and at a real release."""
    results: Results = json.loads(path.read_text(encoding="utf-8"))
    clients = [client for client in CLIENTS if any(client in found for found in results.values())]
    order = list(_GROUPS)
    files = sorted({name.partition("::")[0] for name in results}, key=order.index)
    lines = [
        f"# {TITLE}",
        "",
        "What applications do with stock clients, at the reference broker and at a real Apache Pulsar: 4.2.4, for Java V5 5.0.0-M1, since",
        f"that client refuses brokers without scalable topics. {code('make interop')} runs these flows and writes what this page shows;",
        f"each is a test in {code('tests/interop')}, where the two brokers have to agree.",
        f"{link(PATH, 'reference-broker.md', 'Use the reference broker')} tells what the reference does not have.",
        "",
        "A cell has the reference first, then the real broker, or one sign for both: yes, skipped, or – for what a client does not offer,",
        "or is not driven to do here. The reasons are below. A client without a column was not tried in these flows.",
        "",
    ]
    for file in files:
        flows = {name: found for name, found in results.items() if name.startswith(f"{file}::")}
        tried = [client for client in clients if any(client in found for found in flows.values())]
        lines += [f"## {_GROUPS[file]}", ""]
        lines += table(
            ["flow", *(CLIENTS[client] for client in tried)],
            (
                (plain(_words(name.partition("::")[2])), *(_cell(found.get(client, {})) for client in tried))
                for name, found in flows.items()
            ),
        )
        lines.append("")
    lines += ["## Why not", "", *table(["client", "flow", "broker", "reason"], _reasons(results))]
    return Page(PATH, TITLE, joined(lines))


def _words(name: str) -> str:
    words = name.removeprefix("test_").replace("_", " ")
    return words[:1].upper() + words[1:]


def _cell(found: Mapping[str, str]) -> str:
    """Write the results at the reference and at the real broker; one sign if they are equal."""
    brokers = sorted(found, key=lambda name: name != REFERENCE)
    signs = [_SIGNS[found[broker].partition(":")[0]] for broker in brokers]
    if brokers == [REFERENCE]:
        signs.append("not run yet")
    return signs[0] if len(signs) > 1 and len(set(signs)) == 1 else " / ".join(signs)


def _reasons(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """Yield why a flow was not run, once for each client."""
    for client in CLIENTS:
        for name, found in results.items():
            by_reason: dict[str, list[str]] = {}
            for broker, result in found.get(client, {}).items():
                if ":" in result:
                    by_reason.setdefault(result, []).append("the reference" if broker == REFERENCE else "the real broker")
            for reason, brokers in by_reason.items():
                yield CLIENTS[client], plain(_words(name.partition("::")[2])), " and ".join(brokers), plain(reason)
