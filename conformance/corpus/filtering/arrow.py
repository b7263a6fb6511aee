"""The rules with pyarrow's kernels, a batch at a time; google-re2 matches many patterns at once.

If the patterns have few prefixes, topics that have none of them are left out first. A kernel looks at one pattern. So patterns that
are names, or beginnings of names, are looked up in dictionaries; of the others, up to `KERNELS` are taken by kernels one after the other,
and more of them are compiled into automata (`re2.Set`), which a batch's different names meet once each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import re2

from conformance.corpus.filtering.dialect import in_frame
from conformance.corpus.filtering.patterns import Pattern, PatternSet
from conformance.corpus.filtering.rules import (
    DOMAINS,
    PARTITION_SUFFIX,
    HasProperties,
    IsSystemTopic,
    MatchedName,
    MatchesAny,
    Matching,
    PayloadBeginsWith,
    PayloadFits,
    Rule,
)
from refimpl.indexes.topic_patterns import SET_MEMORY, SET_SIZE
from refimpl.names import SYSTEM_ENDING, SYSTEM_LOCAL_NAMES, SYSTEM_PREFIXES

KERNELS = 16
"""So many patterns are cheaper one after the other than together in an automaton."""
_SYSTEM = rf"(?:\A{SYSTEM_PREFIXES[0]}|\A{SYSTEM_PREFIXES[1]}|(?:(?:\A|/)(?:{'|'.join(SYSTEM_LOCAL_NAMES)})|{SYSTEM_ENDING})\z)"
_Batch = Callable[[pa.RecordBatch], pa.Array]
_Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def column(rule: Rule) -> _Batch:
    """Return the function of a rule for batches."""
    match rule:
        case MatchedName():
            return lambda batch: matched_names(batch.column("topic"))
        case IsSystemTopic():
            return lambda batch: are_system_topics(batch.column("topic"))
        case Matching(patterns):
            matching = _Matching(patterns)
            return lambda batch: matching.lists(batch.column("topic"))
        case MatchesAny(patterns):
            matching = _Matching(patterns)
            return lambda batch: matching.any(batch.column("topic"))
        case HasProperties(filters):
            return lambda batch: _have_properties(batch.column("properties"), filters)
        case PayloadFits(pattern):
            return lambda batch: _fit(batch.column("payload"), pattern)
        case PayloadBeginsWith(prefix):
            return lambda batch: pc.fill_null(pc.starts_with(batch.column("payload"), pattern=prefix), not prefix)
    raise TypeError(rule)


def without_partition(topics: pa.Array) -> pa.Array:
    """Return the names of the partitioned topics that partitions belong to; other names unchanged."""
    may_be = pc.ends_with(pc.ascii_rtrim(topics, characters="0123456789"), pattern="-partition-")
    if not pc.any(may_be).as_py():
        return topics
    stripped = pc.replace_substring_regex(topics.filter(may_be), pattern=PARTITION_SUFFIX, replacement="")
    return pc.replace_with_mask(topics, may_be, stripped)


def matched_names(topics: pa.Array) -> pa.Array:
    """Return what patterns are compared with."""
    names = without_partition(topics)
    rest = names
    known = None
    for domain in DOMAINS:
        has_domain = pc.starts_with(names, pattern=domain)
        if pc.any(has_domain).as_py():
            rest = pc.if_else(has_domain, pc.binary_replace_slice(names, 0, len(domain), b""), rest)
        known = has_domain if known is None else pc.or_(known, has_domain)
    if pc.all(known).as_py():
        return rest
    others = names.filter(pc.invert(known))
    behind = pc.replace_substring_regex(others, pattern=r"(?s)\A.*?://", replacement="")
    behind = pc.if_else(pc.match_substring(others, pattern="://"), behind, "")
    return pc.replace_with_mask(rest, pc.invert(known), behind)


def are_system_topics(topics: pa.Array) -> pa.Array:
    """Tell which topics are the broker's own."""
    may_be = pc.or_(pc.match_substring(topics, pattern="__"), pc.starts_with(topics, pattern=SYSTEM_PREFIXES[0]))
    if not pc.any(may_be).as_py():
        return may_be
    return pc.replace_with_mask(may_be, may_be, pc.match_substring_regex(without_partition(topics.filter(may_be)), pattern=_SYSTEM))


def _have_properties(properties: pa.Array, filters: Iterable[tuple[str, str]]) -> pa.Array:
    wanted = pa.array(np.ones(len(properties), bool))
    for key, value in filters:
        found = pc.map_lookup(properties, pa.scalar(key), "first")
        wanted = pc.and_(wanted, pc.fill_null(pc.equal(found, value), False))
    return wanted


def _fit(payloads: pa.Array, pattern: str) -> pa.Array:
    payloads = pc.fill_null(payloads, b"")
    try:
        texts = pc.cast(payloads, pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([payload_text(payload) for payload in payloads.to_pylist()], pa.string())
    return pc.match_substring_regex(texts, pattern=in_frame(pattern))


def payload_text(payload: bytes) -> str:
    """Return a payload as the text that a regular expression is compared with."""
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return payload.decode("latin-1")


def _listed(topics: pa.Array, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell which rows, possibly repeated, are not system topics."""
    there = np.zeros(len(topics), bool)
    there[rows] = True
    different = np.flatnonzero(there)
    there[different] = ~are_system_topics(topics.take(pa.array(different))).to_numpy(zero_copy_only=False)
    return there[rows]


def _begin_with(topics: pa.Array, beginnings: Sequence[str]) -> pa.Array:
    """Tell which topics have a name that begins with one of some texts; those in an unknown domain always may."""
    domains = [pc.starts_with(topics, pattern=domain) for domain in DOMAINS]
    names = [pc.starts_with(topics, pattern=domain + beginning) for domain in DOMAINS for beginning in beginnings]
    return reduce(pc.or_, names, pc.invert(reduce(pc.or_, domains)))


class _Matching:
    """A set of patterns, divided by how each is matched."""

    def __init__(self, patterns: PatternSet) -> None:
        self._begin_with = patterns.beginnings
        self._names = _Dictionary((place, pattern) for place, pattern in enumerate(patterns.patterns) if pattern.shape == "name")
        by_length: dict[int, list[tuple[int, Pattern]]] = defaultdict(list)
        others = []
        for place, pattern in enumerate(patterns.patterns):
            if pattern.shape in ("beginning", "everything"):
                by_length[len(pattern.beginning)].append((place, pattern))
            elif pattern.shape != "name":
                others.append((place, pattern))
        self._beginnings = {length: _Dictionary(some) for length, some in sorted(by_length.items())}
        self._kernels = others if len(others) <= KERNELS else []
        self._automata = [] if self._kernels else list(_automata(others))

    def lists(self, topics: pa.Array) -> pa.Array:
        """Return the places of the matching patterns for each topic."""
        rows, places = self._pairs(topics)
        order = np.lexsort((places, rows))
        offsets = np.searchsorted(rows[order], np.arange(len(topics) + 1))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(places[order].astype(np.int32)))

    def any(self, topics: pa.Array) -> pa.Array:
        """Return whether a pattern matches, for each topic."""
        found = np.zeros(len(topics), bool)
        found[self._pairs(topics)[0]] = True
        return pa.array(found)

    def _pairs(self, topics: pa.Array) -> _Pairs:
        """Return the pairs of row and place that match, in any order."""
        seen = np.arange(len(topics))
        if self._begin_with:
            seen = seen[_begin_with(topics, self._begin_with).to_numpy(zero_copy_only=False)]
            topics = topics.take(pa.array(seen))
        found = list(self._found(matched_names(topics)))
        rows = np.concatenate([np.empty(0, np.int64), *(pair[0] for pair in found)])
        places = np.concatenate([np.empty(0, np.int64), *(pair[1] for pair in found)])
        listed = _listed(topics, rows)
        return seen[rows[listed]], places[listed]

    def _found(self, names: pa.Array) -> Iterable[_Pairs]:
        yield self._names.found(names)
        if self._beginnings:
            has_newline = pc.match_substring(names, pattern="\n").to_numpy(zero_copy_only=False)
            for length, dictionary in self._beginnings.items():
                rows, places = dictionary.found(pc.utf8_slice_codeunits(names, 0, length))
                yield _without_newline_behind(names, length, rows, places, has_newline)
        for place, pattern in self._kernels:
            fits = pc.match_substring_regex(names, pattern=in_frame(pattern.text))
            rows = np.flatnonzero(fits.to_numpy(zero_copy_only=False))
            yield rows, np.full(len(rows), place)
        if self._automata:
            yield self._by_automata(names)

    def _by_automata(self, names: pa.Array) -> _Pairs:
        encoded = names.dictionary_encode()
        rows, places = [], []
        for number, name in enumerate(encoded.dictionary.to_pylist()):
            for automaton in self._automata:
                found = automaton.matching(name)
                places += found
                rows += [number] * len(found)
        return _spread(encoded.indices.to_numpy(), np.array(rows, np.int64), np.array(places, np.int64), len(encoded.dictionary))


def _spread(numbers: npt.NDArray[np.int32], of_numbers: npt.NDArray[np.int64], places: npt.NDArray[np.int64], different: int) -> _Pairs:
    """Return the results of rows from those of their distinct names; `of_numbers` ascends."""
    first = np.searchsorted(of_numbers, np.arange(different + 1))
    counts = np.diff(first)[numbers]
    rows = np.repeat(np.arange(len(numbers)), counts)
    ends = np.cumsum(counts)
    within = np.arange(len(rows)) - np.repeat(ends - counts, counts)
    return rows, places[np.repeat(first[numbers], counts) + within]


def _without_newline_behind(
    names: pa.Array, length: int, rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64], has_newline: npt.NDArray[np.bool_]
) -> _Pairs:
    """Leave out names whose rest `.*` can't match."""
    doubtful = np.flatnonzero(has_newline)
    if not len(doubtful):
        return rows, places
    rests = pc.utf8_slice_codeunits(names.take(pa.array(doubtful)), length)
    refused = doubtful[pc.match_substring(rests, pattern="\n").to_numpy(zero_copy_only=False)]
    kept = ~np.isin(rows, refused)
    return rows[kept], places[kept]


class _Dictionary:
    """Texts, and the places of the patterns that stand for each."""

    def __init__(self, patterns: Iterable[tuple[int, Pattern]]) -> None:
        places: dict[str, list[int]] = defaultdict(list)
        for place, pattern in patterns:
            places[pattern.beginning].append(place)
        self._texts = pa.array(list(places), pa.string())
        self._first = np.array([0, *np.cumsum([len(some) for some in places.values()])], np.int64)
        self._places = np.array([place for some in places.values() for place in some], np.int64)

    def found(self, texts: pa.Array) -> _Pairs:
        """Return the pairs of row and place whose texts are equal."""
        numbers = pc.fill_null(pc.index_in(texts, value_set=self._texts), -1).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(numbers >= 0)
        numbers = numbers[rows]
        counts = np.diff(self._first)[numbers]
        ends = np.cumsum(counts)
        within = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
        return np.repeat(rows, counts), self._places[np.repeat(self._first[numbers], counts) + within]


class _Automaton:
    """Some patterns in one `re2.Set`.

    A set that runs out of memory reports nothing. So there is also a pattern that matches everything: if it is missing, the patterns are
    tried one by one.
    """

    def __init__(self, patterns: Sequence[tuple[int, Pattern]], compiled: re2.Set) -> None:
        self._places = [place for place, _ in patterns]
        self._patterns = [pattern for _, pattern in patterns]
        self._compiled = compiled

    def matching(self, name: str) -> list[int]:
        found = self._compiled.Match(name)
        everything = len(self._places)
        if everything not in found:
            found = [number for number, one in enumerate(self._patterns) if _compiled(one.text).fullmatch(name.encode()) is not None]
        return [self._places[number] for number in found if number != everything]


def _automata(patterns: Sequence[tuple[int, Pattern]]) -> Iterable[_Automaton]:
    for start in range(0, len(patterns), SET_SIZE):
        yield from _compiled_sets(patterns[start : start + SET_SIZE])


def _compiled_sets(patterns: Sequence[tuple[int, Pattern]]) -> Iterable[_Automaton]:
    together = re2.Set.FullMatchSet(_options())
    try:
        for _, pattern in patterns:
            together.Add(pattern.text.encode())
        together.Add(b"(?s).*")
        together.Compile()
    except re2.error:
        if len(patterns) == 1:
            raise
        middle = len(patterns) // 2
        yield from _compiled_sets(patterns[:middle])
        yield from _compiled_sets(patterns[middle:])
        return
    yield _Automaton(patterns, together)


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = SET_MEMORY
    options.log_errors = False
    options.never_capture = True
    return options


def _compiled(text: str) -> Any:
    return re2.compile(text.encode(), _options())
