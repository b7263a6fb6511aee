"""The page of clients by brokers: what came of each pair, from the file that `make pairs` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conformance.clients.pairs import BROKERS, FAILED, HELD, NOT_OFFERED, REFERENCE, RESULTS, TALKS, Explanation, Pair, explanations, load
from conformance.site.interop import CLIENTS
from conformance.site.markup import Page, code, joined, link, plain, table

PATH: Final = "reference/pairs.md"
TITLE: Final = "Clients by brokers"
NAMES: Final = {**CLIENTS, "reference": "the reference client"}


def pairs_page(path: Path = RESULTS) -> Page:
    """Return a table of clients by brokers, and what each cell means."""
    pairs = load(path)
    clients = [name for name in NAMES if name in pairs]
    brokers = [name for name in BROKERS if any(name in of for of in pairs.values())]
    known = {(one.client, one.what): one for one in explanations()}
    lines = [
        f"# {TITLE}",
        "",
        "Each client talks to each broker through the proxy, while monitors judge both sides: "
        f"{code('make pairs')} does it again, {link(PATH, 'proxy.md', 'the proxy')} does it with yours.",
        "",
        "A cell says whether all clauses held that monitors could judge, how many these were, and how many talks were held to their end,",
        "of those that the client offers. What was broken or failed is below, with its reason; what a client does not offer as well.",
        "",
        *table(
            ["client", *(f"{'the reference' if name == REFERENCE else name}" for name in brokers)],
            ([plain(NAMES[client]), *(_cell(pairs[client].get(broker)) for broker in brokers)] for client in clients),
        ),
        "",
        "## What was broken, or failed",
        "",
        *table(["client", "broker", "what", "how", "why"], (row for client in clients for row in _bad(client, pairs[client], known))),
        "",
        "## What was not run",
        "",
        *table(["client", "what", "why"], (row for client in clients for row in _left_out(client, pairs[client]))),
        "",
        "## The talks",
        "",
        *table(["talk", "what happens"], ([plain(name), plain(words)] for name, (words, _) in TALKS.items())),
    ]
    return Page(PATH, TITLE, joined(lines))


def _cell(pair: Pair | None) -> str:
    if pair is None:
        return "not run yet"
    if pair.not_run is not None:
        return "–"
    offered = [came for came in pair.talks.values() if not came.startswith(NOT_OFFERED)]
    broken = sorted({one["clause"] for one in pair.breaches})
    judged = (
        f"{len(pair.judged)} clauses held"
        if not broken
        else f"**{', '.join(map(code, broken))} broken**, {len(pair.judged) - len(broken)} held"
    )
    return f"{judged}; {offered.count(HELD)} of {len(offered)} talks"


def _bad(client: str, of: dict[str, Pair], known: dict[tuple[str, str], Explanation]) -> Iterator[list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for broker in BROKERS:
        pair = of.get(broker)
        if pair is None:
            continue
        for one in pair.breaches:
            found.setdefault((one["clause"], f"by the {one['by']}, in {one['talk']}"), []).append(broker)
        for name, came in pair.talks.items():
            if came.startswith(FAILED):
                found.setdefault((name, came.removeprefix(f"{FAILED}: ").split("/pair-")[0]), []).append(broker)
    for (what, how), brokers in found.items():
        reason = known.get((client, what))
        why = "not explained" if reason is None else plain(reason.reason)
        if reason is not None and reason.link is not None:
            why += f" {link(PATH, reason.link.removeprefix('docs/'), 'More')}"
        yield [plain(NAMES[client]), plain(", ".join(brokers)), plain(what), plain(how), why]


def _left_out(client: str, of: dict[str, Pair]) -> Iterator[list[str]]:
    found: dict[str, list[str]] = {}
    for broker, pair in of.items():
        if pair.not_run is not None:
            found.setdefault(pair.not_run, []).append(f"with {broker}")
        for name, came in pair.talks.items():
            if came.startswith(NOT_OFFERED):
                found.setdefault(_not_offered(came.removeprefix(f"{NOT_OFFERED}: ")), []).append(name)
    for reason, names in sorted(found.items(), key=lambda one: one[1]):
        yield [plain(NAMES[client]), plain(", ".join(dict.fromkeys(names))), plain(reason)]


def _not_offered(came: str) -> str:
    """Say what a client lacks: `seek: seek` is a verb that it does not have, `consumer: option pattern` a part of one."""
    verb, colon, what = came.partition(": ")
    if not colon:
        return came
    return f"it does not offer {verb}" if what == verb else f"it does not offer, for {verb}: {what}"
