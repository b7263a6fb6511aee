"""The job `batches_agree`: batches of PIP-191 are the same in two formulations, and no wanted message is lost; what they cost and save."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

from conformance.corpus.batching.contents import with_contents
from conformance.corpus.batching.entries import both
from conformance.corpus.batching.laws import LAWS as OF_BATCHES
from conformance.corpus.batching.laws import Found, find
from conformance.corpus.batching.settings import MOST_OF_ONE, Setting, Want, frequent_values, sweep, wants
from conformance.corpus.batching.slices import WHOLE, Slices, is_whole, number_of_slices, slices
from conformance.corpus.corpora import add_corpus_option, check_messages, messages, rows_written
from conformance.corpus.errors import CorpusError
from conformance.corpus.job import Findings, Job, Run
from conformance.corpus.laws import Outcome
from conformance.corpus.sources.jar_topics import MESSAGES

LAWS = (*OF_BATCHES, WHOLE)
PROPERTIES: Mapping[str, Sequence[str]] = {"synthetic": ("region", "version"), "jars": ("jar", "extension")}
"""What producers extract if nothing else is said."""
PRODUCERS = 4
"""As many as the source draws if nothing else is said."""
DISTRIBUTIONS: Mapping[str, Mapping[str, object]] = {
    "2 values": {"values": 2, "producers": 12, "names": "shared", "first": (1 << 31) - 100},
    "1,000 values": {"values": 1000},
    "all values equally frequent": {"exponent": 0},
    "no runs": {"burst": 1},
    "runs of 64": {"burst": 64},
    "all equal": {"values": 1, "absent": 0, "producers": 1},
}
"""Options of `synthetic_messages` that are tried besides the usual ones, with the usual setting and a delay of 100 ms."""
SLICED = "2 values"
"""The distribution that is looked at in two slices or more, however small it is."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this job."""
    add_corpus_option(parser)
    parser.add_argument("--properties", type=_names, help="what producers extract, separated by commas (of synthetic: region,version)")
    parser.add_argument("--values", type=int, default=5, help="so many of the most frequent values of each are extracted (%(default)s)")
    parser.add_argument("--settings", type=int, help="try only the first of the settings (all)")
    parser.add_argument("--distributions", type=int, help="try only the first of the distributions (all)")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def look(options: argparse.Namespace) -> None:
    """Look at the numbers and at the corpus."""
    for name, least in (("values", 1), ("settings", 1), ("distributions", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise CorpusError(f"--{name} is at least {least}, not {value}")
    check_messages(options)


def check(run: Run) -> Findings:
    """Try the settings on the corpus, and the distributions if it is synthetic."""
    options = run.options
    found: dict[str, Found] = {}
    with run.part("read the corpus"):
        corpus, rows = _corpus(run, {})
        names = options.properties or PROPERTIES.get(options.corpus)
        if not names:
            raise CorpusError(f"{options.corpus}: say with --properties which properties producers extract")
        frequent = frequent_values(corpus.whole, names, options.values)
    empty = [name for name, values in frequent.items() if not values]
    if empty:
        raise CorpusError(f"{options.corpus}: no message has the property {empty[0]}; choose others with --properties")
    for setting in sweep(frequent)[: options.settings]:
        with run.part(setting.name):
            found[setting.name] = _found(corpus, rows, setting, wants(frequent))
    corpus.unpersist()
    if options.corpus == "synthetic":
        for name, setting, found_here in _distributions(run, names[:1]):
            found[f"{name}, {setting.name}"] = found_here
    counters = {
        "values": {name: list(values) for name, values in frequent.items()},
        "settings": {name: one.counters for name, one in found.items()},
    }
    return Findings(_laws(list(found.values())), counters)


def _distributions(run: Run, names: Sequence[str]) -> Iterator[tuple[str, Setting, Found]]:
    for name, changed in list(DISTRIBUTIONS.items())[: run.options.distributions]:
        with run.part(name):
            corpus, rows = _corpus(run, changed, least=2 if name == SLICED else 1)
            frequent = frequent_values(corpus.whole, names, run.options.values)
            setting = Setting("delay 100 ms", frequent, delay=100)
            yield name, setting, _found(corpus, rows, setting, wants(frequent))
            corpus.unpersist()


def _corpus(run: Run, changed: Mapping[str, Any], least: int = 1) -> tuple[Slices, int]:
    """Return a corpus in slices, and how many messages it has."""
    options = run.options
    drawn = {"rows": options.rows, "seed": options.seed, "producers": max(PRODUCERS, options.rows // MOST_OF_ONE)}
    corpus = messages(run.spark, options.corpus, **{**drawn, **changed})
    rows = rows_written(options.corpus, MESSAGES, options.rows)
    rows = corpus.count() if rows is None else rows
    return slices(with_contents(corpus), number_of_slices(corpus, rows, least)), rows


def _found(corpus: Slices, rows: int, setting: Setting, consumers: Sequence[Want]) -> Found:
    found = find((both(part, setting, consumers) for part in corpus), setting, consumers)
    return replace(found, outcomes=[*found.outcomes, is_whole(rows, [found.counters["messages"]])])


def _laws(found: Sequence[Found]) -> list[Outcome]:
    return [reduce(add, outcomes) for outcomes in zip(*(one.outcomes for one in found), strict=True)]


JOB = Job(
    "batches_agree",
    "Check that batches are uniform, the same in two formulations, and lose nothing; count what they cost.",
    LAWS,
    check,
    add_options,
    look,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
