"""The job `filtering_agrees`: all formulations of filters give the same result, on each row of a corpus and on entries of its messages."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import reduce
from itertools import cycle
from operator import add
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.batching.contents import with_contents
from conformance.corpus.batching.sent import sent
from conformance.corpus.batching.settings import MOST_OF_ONE, Setting, awkward_values, frequent_values, wanted_values
from conformance.corpus.batching.slices import WHOLE, is_whole, number_of_slices, slices
from conformance.corpus.corpora import check_messages, check_topics, rows_written
from conformance.corpus.corpora import messages as read_messages
from conformance.corpus.delivering.laws import LAWS as OF_ENTRIES
from conformance.corpus.delivering.laws import Delivered, judge
from conformance.corpus.delivering.savings import savings
from conformance.corpus.delivering.stored import stored, with_records
from conformance.corpus.delivering.subscriptions import subscriptions
from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering import costs, rows, sql
from conformance.corpus.filtering.comparing import Comparison, compare
from conformance.corpus.filtering.drawing import drawn_patterns, with_twins
from conformance.corpus.filtering.formulations import FORMULATIONS, formulations_of
from conformance.corpus.filtering.laws import LAWS as OF_NAMES
from conformance.corpus.filtering.laws import agreement, any_is_some, classes_are_real, shown
from conformance.corpus.filtering.patterns import PatternSet, pattern_set, read_patterns
from conformance.corpus.filtering.rare import rare_pairs
from conformance.corpus.filtering.reference import evaluator
from conformance.corpus.filtering.rules import (
    IsSystemTopic,
    MatchedName,
    Matching,
    PayloadBeginsWith,
    PayloadFits,
    Rule,
    property_filters,
)
from conformance.corpus.job import Findings, Job, Run
from conformance.corpus.laws import EXAMPLES, Outcome
from conformance.corpus.sources.jar_topics import MESSAGES, TOPICS

LAWS = (*OF_NAMES, *OF_ENTRIES, WHOLE)
VALUES = 5
"""So many of the most frequent values of a property are extracted."""
SPEED_ROWS = 1_000_000
"""So many rows at most are timed."""
PAYLOAD_REGEX = r'(?s)(?:ÿ\x00Ã)?[a-z-]+://[^"]*ns-[0-9]/.*'
"""It tells bytes that are not UTF-8 from the characters that some readers put in their place, and from none."""
BATCHES_OF_ONE: tuple[Literal["batch"], Literal["java_single"]] = ("batch", "java_single")
"""How producers write a batch of one message, one slice after the other."""
MANY, MANY_ROWS = 250, 20_000
"""So many patterns are drawn once more, and compared on about so many rows: a set of that many is matched in another way."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this job."""
    rows.add_options(parser)
    parser.add_argument("--formulations", default="reference,sql,arrow,sql-plain", help=f"some of {','.join(FORMULATIONS)} (%(default)s)")
    parser.add_argument("--patterns", type=int, default=100, help="how many patterns are drawn from the names of the corpus (%(default)s)")
    parser.add_argument("--pattern-file", type=Path, help="patterns, one on each line, instead of drawn ones")
    parser.add_argument("--inside", action="store_true", help="draw patterns of the common dialect only")
    parser.add_argument("--property", action="append", metavar="KEY=VALUE", help="a property that topics have to have; can be repeated")
    parser.add_argument("--payload-regex", default=PAYLOAD_REGEX, help="what payloads have to fit (%(default)s)")
    parser.add_argument("--messages", help="corpus of messages whose entries are filtered (as --corpus, if it has messages; or none)")
    parser.add_argument("--savings", type=int, default=4096, help="messages of each corpus of savings; 0: none (%(default)s)")
    parser.add_argument("--payload-prefix", default="persistent://tenant-1", help="what payloads have to begin with (%(default)s)")


def look(options: argparse.Namespace) -> None:
    """Look at the corpus and at the patterns."""
    formulations_of(options.formulations)
    if options.pattern_file is not None:
        read_patterns(options.pattern_file)
    elif options.patterns < 1:
        raise CorpusError(f"--patterns is at least 1, not {options.patterns}")
    for rule in _rules(options, pattern_set([])):
        evaluator(rule)
    check_topics(options)
    if options.savings < 0:
        raise CorpusError(f"--savings is at least 0, not {options.savings}")
    if options.messages not in (None, "none"):
        check_messages(argparse.Namespace(corpus=options.messages))


def check(run: Run) -> Findings:
    """Compare the formulations on each row, and find out what filters cost and save."""
    formulations = formulations_of(run.options.formulations)
    with rows.topics_at_hand(run.spark, run.options) as topics:
        return _check(run, topics, formulations)


def _check(run: Run, topics: DataFrame, formulations: Sequence[str]) -> Findings:
    options = run.options
    with run.part("patterns"):
        patterns, many = _patterns(run, topics)
    rules = _rules(options, patterns)
    messages = rows.with_payload(topics)
    comparisons = {}
    for rule in rules:
        with run.part(f"compare {rule.name}"):
            comparisons[rule.name] = compare(messages if "payload" in rule.inputs else topics, rule, formulations)
    count = comparisons[MatchedName.name].rows
    if not count:
        raise CorpusError("the corpus has no topics; give it rows, or another folder")
    if many is not None:
        some = topics.where(F.pmod(F.xxhash64("topic"), F.lit(max(1, count // MANY_ROWS))) == 0)
        with run.part(f"compare {Matching.name}, {len(many)} patterns"):
            comparisons[f"{Matching.name}, {len(many)} patterns"] = compare(some, Matching(many), formulations)
    laws = [agreement(name, comparisons) for name in formulations[1:]]
    with run.part("compare any with each"):
        laws.append(any_is_some(topics, patterns, formulations))
    laws.append(classes_are_real(run.spark, formulations[1:]))
    counters = _counters(patterns, comparisons)
    drawn = f", mix {options.mix}, rows {options.rows}" if options.corpus == "synthetic" else ""
    corpus = f"{options.corpus}{drawn}, seed {options.seed}, {len(patterns)} patterns"
    counters["rare"] = [asdict(one) for one in rare_pairs(run.spark, comparisons[Matching.name].found, corpus)]
    with run.part("costs"):
        counters["costs"] = costs.by_shape(costs.costs(topics, patterns), patterns)
    counters["speed"] = dict(_speeds(run, topics, rules, formulations))
    messages_corpus = _messages_corpus(options)
    if messages_corpus:
        with run.part("filters over entries"):
            of_entries = _entries(run, messages_corpus)
        laws = _with(laws, of_entries.outcomes)
        counters["entries"] = {name: dict(one) for (name,), one in of_entries.counters.items()}
    if options.savings:
        with run.part("savings"):
            of_savings, counters["savings"] = savings(run.spark, options.savings, options.seed)
        laws = _with(laws, of_savings.outcomes)
    if (written := rows_written(options.corpus, TOPICS, options.rows)) is not None:
        laws = _with(laws, [is_whole(written, [count])])
    counters["refused by Java"] = sql.refused(run.spark, [pattern.text for pattern in patterns.patterns])[:EXAMPLES]
    return Findings(laws, counters)


def _patterns(run: Run, topics: DataFrame) -> tuple[PatternSet, PatternSet | None]:
    """Return the patterns that are asked for, and a larger set with some that are equal but for their domains, if they are drawn."""
    options = run.options
    if options.pattern_file is not None:
        return read_patterns(options.pattern_file), None
    names, outside = rows.names_to_draw_from(topics), not options.inside
    many = with_twins(drawn_patterns(names, MANY, options.seed + 1, outside=outside))
    return pattern_set(drawn_patterns(names, options.patterns, options.seed, outside=outside)), pattern_set(many)


def _rules(options: argparse.Namespace, patterns: PatternSet) -> list[Rule]:
    return [
        MatchedName(),
        IsSystemTopic(),
        Matching(patterns),
        property_filters(options.property or ["region=eu-west", "tier="]),
        PayloadFits(options.payload_regex),
        PayloadBeginsWith(options.payload_prefix.encode()),
    ]


def _messages_corpus(options: argparse.Namespace) -> str:
    """Return the corpus of messages; empty: none, since a file of topics has no messages."""
    has_messages = options.corpus.partition(":")[0] in ("synthetic", "jars", "capture")
    chosen: str = options.messages or (options.corpus if has_messages else "none")
    return "" if chosen == "none" else chosen


def _entries(run: Run, corpus: str) -> Delivered:
    """Let the reference send messages in uniform batches, and judge the entries."""
    options = run.options
    producers = max(4, options.rows // MOST_OF_ONE)
    messages = read_messages(run.spark, corpus, options.rows, options.seed, producers=producers)
    written = rows_written(corpus, MESSAGES, options.rows)
    count = messages.count() if written is None else written
    parts = slices(with_contents(messages), number_of_slices(messages, count, least=2))
    names = parts.whole.select(F.explode(F.map_keys("properties")).alias("name")).groupBy("name").count()
    first = names.sort(F.col("name") != "region", F.desc("count"), "name").first()
    name = first["name"] if first else "region"
    values = wanted_values(frequent_values(parts.whole, [name], VALUES)[name]) or ["none"]
    settings = [Setting("entries", {name: tuple(values)}, delay=100, batch_of_one=form) for form in BATCHES_OF_ONE]
    wanted = subscriptions(values[0], values[-1], name, next(iter(awkward_values(values)), " "))
    looked_at, found = [], []
    for part, setting in zip(parts, cycle(settings), strict=False):
        looked_at.append(part.count())
        found.append(judge(stored(sent(with_records(part, name), setting)), wanted))
    parts.unpersist()
    every = reduce(add, found)
    return replace(every, outcomes=[*every.outcomes, is_whole(count, looked_at)])


def _with(laws: Sequence[Outcome], others: Sequence[Outcome]) -> list[Outcome]:
    """Add up outcomes of the same law."""
    more = {one.name: one for one in others}
    return [one + more.pop(one.name) if one.name in more else one for one in laws] + list(more.values())


def _counters(patterns: PatternSet, comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
    rules = {}
    for name, comparison in comparisons.items():
        rules[name] = {
            "rows": comparison.rows,
            "pairs": comparison.pairs,
            "pairs outside": comparison.outside,
            "disagreements": [shown(one) for one in comparison.found],
        }
    return {
        "patterns": {"all": len(patterns), **Counter(pattern.shape for pattern in patterns.patterns)},
        "rules": rules,
    }


def _speeds(run: Run, topics: DataFrame, rules: Sequence[Rule], formulations: Sequence[str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Time each rule in each formulation, with the reading, on a sample of the corpus if it is large."""
    cores = run.spark.sparkContext.defaultParallelism
    sample = topics.sample(min(1.0, SPEED_ROWS / topics.count()), run.options.seed)
    messages, count = rows.with_payload(sample), sample.count()
    for rule in rules:
        frame = (messages if "payload" in rule.inputs else sample).select("id", *rule.inputs)
        speeds: dict[str, float] = {}
        for name in formulations:
            began = time.perf_counter()
            with run.part(f"{rule.name} by {name}"):
                FORMULATIONS[name](frame, rule, "_value").write.format("noop").mode("overwrite").save()
            speeds[name] = round(count / (time.perf_counter() - began) / cores)
        yield rule.name, speeds


JOB = Job(
    "filtering_agrees",
    "Compare all formulations of the filters on each row of a corpus, and count what filters cost.",
    LAWS,
    check,
    add_options,
    look,
)

if __name__ == "__main__":
    sys.exit(JOB.main())
