"""The results of the Spark jobs, from the JSON files in the repository."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.site.markup import Page, code, joined, link, plain, table
from conformance.site.sources import REPOSITORY

RESULTS: Final = REPOSITORY / "conformance" / "corpus" / "results"
PATH: Final = "reference/corpora.md"
TITLE: Final = "Results over corpora"
_ABOUT_JOB: Final = ("rows", "memory", "cores", "formulations")
"""Options that say nothing of the corpus."""

Result = Mapping[str, Any]


def corpora_page(folder: Path = RESULTS) -> Page:
    """Return what each job found: its laws, then what it counted.

    Args:
        folder: The results, one JSON file for each run, as a job writes them.
    """
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    lines = [
        f"# {TITLE}",
        "",
        f"What runs of {code('make spark')} found, one by one; {link(PATH, 'corpus.md', 'how the jobs work')}. Each part is made",
        f"from the JSON file of that name in {code('conformance/corpus/results')}, which also has examples and times.",
        "",
        *table(["run", "job", "rows", "seed", "laws that hold", "time", "with"], (_summary(name, one) for name, one in results.items())),
        "",
    ]
    for name, result in results.items():
        lines += [f"## {plain(name)} {{ #{name} }}", "", *_options(result), *_laws(result), "", *_counters(result)]
    return Page(PATH, TITLE, joined(lines))


def _summary(name: str, result: Result) -> Sequence[str]:
    versions, laws = result["versions"], result["laws"]
    return (
        f"[{plain(name)}](#{name})",
        code(result["job"]),
        _number(result["options"]["rows"]) if _is_drawn(result) else "as there are",
        str(result["seed"]),
        f"{sum(law['holds'] for law in laws)} of {len(laws)}",
        f"{result['seconds']['all']:,.0f} s",
        f"Spark {versions['spark']}, Python {versions['python']}, {versions['cores']} cores",
    )


def _is_drawn(result: Result) -> bool:
    return bool(result["options"].get("corpus") == "synthetic")


def _options(result: Result) -> list[str]:
    said = [f"{code(name)} {code(value)}" for name, value in result["options"].items() if value and name not in _ABOUT_JOB]
    return [", ".join(said) + ".", ""] if said else []


def _laws(result: Result) -> list[str]:
    rows = ((code(law["name"]), plain(law["text"]), _number(law["checked"]), _number(law["broken"])) for law in result["laws"])
    return table(["law", "what has to hold", "checked", "broken"], rows)


def _counters(result: Result) -> list[str]:
    counters = result["counters"]
    match result["job"]:
        case "filtering_agrees":
            return [
                *_costs(counters["costs"]),
                "",
                *_entries(counters.get("entries", {})),
                *_savings(counters.get("savings", [])),
                *_disagreements(counters["rules"]),
                "",
                *_speed(counters["speed"]),
                "",
            ]
        case "batches_agree":
            return [*_settings(counters["settings"]), "", *_consumers(counters["settings"]), ""]
        case "replay_watches":
            return [*_ways(counters), ""]
        case "hashes_agree":
            return [*table(["counted", "value"], ((plain(name), _number(value)) for name, value in counters.items())), ""]
        case _:
            return []


def _costs(costs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        "What a poll or a watch costs in bytes for each pattern with a namespace, grouped by the shape of the pattern:",
        "",
        *table(
            ["patterns", "how many", "selectivity", "poll without filter", "with filter", "and with hash", "opening a watch", "its update"],
            (
                (
                    plain(shape),
                    _number(one["patterns"]),
                    "" if one["selectivity"] is None else f"{one['selectivity']:.2%}",
                    *(_number(one[f"bytes {name}"]) for name in ("unfiltered", "filtered", "unchanged", "watch", "update")),
                )
                for shape, one in costs.items()
            ),
        ),
    ]


def _entries(found: Mapping[str, Mapping[str, int]]) -> list[str]:
    if not found:
        return []
    return [
        "What each of several subscriptions gets of the entries of messages, some of which are encrypted, damaged or acknowledged in part:",
        "",
        *table(
            [
                "subscription",
                "entries sent",
                "of these in part",
                "bytes sent",
                "permits",
                "messages that nobody can judge",
                "entries not compared",
            ],
            (
                (
                    plain(name),
                    f"{one['entries sent'] / one['entries']:.1%}",
                    _number(one["in part"]),
                    f"{one['bytes sent'] / one['bytes']:.1%}",
                    f"{one['permits'] / one['messages']:.1%}",
                    _number(one["undecidable"]),
                    _number(one.get("outside", 0)),
                )
                for name, one in found.items()
            ),
        ),
        "",
    ]


def _savings(found: Sequence[Mapping[str, Any]]) -> list[str]:
    if not found:
        return []
    return [
        "What filters save, by number of values, most messages of a batch, and kind of batch; shares of what is sent without a filter:",
        "",
        *table(
            ["values", "most", "batches", "messages in each", "filter by", "wanted", "bytes sent", "permits", "entries in part"],
            (
                (
                    _number(one["values"]),
                    _number(one["batch"]),
                    plain(one["batches"]),
                    f"{one['messages_per_entry']:,.4g}",
                    plain(one["filter"]),
                    f"{one['match_rate']:.1%}",
                    f"{one['bytes_sent']:.1%}",
                    f"{one['permits']:.1%}",
                    f"{one['entries_in_part']:.1%}",
                )
                for one in found
            ),
        ),
        "",
    ]


def _disagreements(rules: Mapping[str, Mapping[str, Any]]) -> list[str]:
    found = [one for rule in rules.values() for one in rule["disagreements"]]
    outside = sum(rule["pairs outside"].get("sql", {}).get("all", 0) for rule in rules.values())
    return [
        f"For Java {_number(outside)} pairs of a pattern and a subject are outside the common dialect. Where formulations differ from the",
        "reference, class by class, and the smallest pair that still shows it:",
        "",
        *table(
            ["rule", "formulation", "class", "it finds", "rows", "pattern and subject"],
            (
                (
                    plain(one["rule"]),
                    code(one["formulation"]),
                    plain(one["class_name"]),
                    plain(one["direction"].replace("-", " ")),
                    _number(one["count"]),
                    " ".join(code(ascii(part)) for part in one["shrunk"]),
                )
                for one in sorted(found, key=lambda one: (one["rule"], one["formulation"], one["class_name"]))
            ),
        ),
    ]


def _speed(speed: Mapping[str, Mapping[str, float]]) -> list[str]:
    names = list(dict.fromkeys(name for one in speed.values() for name in one))
    return [
        "Rows per second and core, including the reading, for at most a million rows:",
        "",
        *table(["rule", *map(code, names)], ((plain(rule), *(_number(one[name]) for name in names)) for rule, one in speed.items())),
    ]


def _settings(settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        "Entries, and their bytes besides messages:",
        "",
        *table(
            ["setting", "messages", "entries", "messages in each: mean", "p50", "p99", "largest", "overhead for a message", "in headers"],
            (
                (
                    plain(name),
                    _number(one["messages"]),
                    _number(one["entries"]),
                    *(f"{one['messages_per_entry'][which]:,.4g}" for which in ("mean", "p50", "p99", "max")),
                    f"{one['overhead_bytes_per_message']:,.4g}",
                    _number(one["header_bytes"]),
                )
                for name, one in settings.items()
            ),
        ),
    ]


def _consumers(settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        "What an entry filter decides for a consumer that wants one value; it accepts or rejects entries whose header lacks the property:",
        "",
        *table(
            ["setting", "wanted", "entries decided by their header", "messages wanted", "sent in vain", "never sent", "bytes sent"],
            (
                (
                    plain(name),
                    f"{plain(consumer['property'])} = {plain(consumer['value'])}, {consumer['missing']}",
                    f"{consumer['entries_decided'] / one['entries']:.1%}",
                    _number(consumer["wanted"]),
                    _number(consumer["messages_in_vain"]),
                    _number(consumer["messages_lost"]),
                    f"{consumer['bytes_accepted'] / one['entry_bytes']:.1%}",
                )
                for name, one in settings.items()
                for consumer in _telling(one["consumers"])
            ),
        ),
    ]


def _telling(consumers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the consumers of the first property's first value, which each setting has."""
    listed = list(consumers)
    return [one for one in listed if (one["property"], one["value"]) == (listed[0]["property"], listed[0]["value"])]


def _ways(counters: Mapping[str, Any]) -> list[str]:
    return [
        f"{_number(counters['watchers'])} watchers, {_number(counters['seconds'])} seconds, "
        + ", ".join(f"{_number(count)} changes of {name}" for name, count in counters["changes"].items())
        + "; for each watcher:",
        "",
        *table(
            ["proposal", "way", "interval or window", "frames", "bytes", "ms until it knows: p50", "p99", "largest"],
            (
                (
                    code(one["proposal"]),
                    plain(one["way"]),
                    f"{_number(one['milliseconds'])} ms",
                    f"{one['frames_per_watcher']:,.1f}",
                    f"{one['bytes_per_watcher']:,.0f}",
                    *(_number(one["staleness_ms"].get(name, "")) for name in ("p50", "p99", "max")),
                )
                for one in counters["ways"]
            ),
        ),
    ]


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else plain(str(value))
