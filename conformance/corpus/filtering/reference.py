"""The rules with the code of the reference: plain Python, row by row."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from conformance.corpus.errors import CorpusError
from conformance.corpus.filtering.patterns import PatternSet
from conformance.corpus.filtering.rules import (
    HasProperties,
    IsSystemTopic,
    MatchedName,
    MatchesAny,
    Matching,
    PayloadBeginsWith,
    PayloadFits,
    Rule,
)
from refimpl.indexes.topic_patterns import PatternIndex, compile_pattern
from refimpl.names import is_system_topic
from refimpl.proposals.message_filter.kinds import (
    PREFIX_BASE64_KEY,
    REGEX_KEY,
    BytesPrefixFilter,
    Candidate,
    InvalidFilter,
    MessageFilter,
    RegexFilter,
    SchemaAccess,
)
from refimpl.proposals.scalable_topics.rules import fits
from refimpl.proposals.topic_list.rules import matched_name
from refimpl.wire.pulsar_api_pb2 import MessageMetadata


def evaluator(rule: Rule) -> Callable[[Any], Any]:
    """Return the function of a rule, from one input value to its result.

    Raises:
        CorpusError: A filter of messages that the reference refuses.
    """
    match rule:
        case MatchedName():
            return matched_name
        case IsSystemTopic():
            return is_system_topic
        case Matching(patterns):
            return _matching(patterns)
        case MatchesAny(patterns):
            matching = _matching(patterns)
            return lambda topic: bool(matching(topic))
        case HasProperties(filters):
            return lambda properties: fits(dict(properties or ()), dict(filters))
        case PayloadFits(pattern):
            return _judging(lambda: RegexFilter({REGEX_KEY: pattern}, SchemaAccess()), pattern)
        case PayloadBeginsWith(prefix):
            encoded = base64.b64encode(prefix).decode()
            return _judging(lambda: BytesPrefixFilter({PREFIX_BASE64_KEY: encoded}, SchemaAccess()), encoded)
    raise TypeError(rule)


def column(rule: Rule) -> Callable[[pa.RecordBatch], pa.Array]:
    """Return the function of a rule for batches."""
    evaluate = evaluator(rule)
    (name,) = rule.inputs
    return lambda batch: pa.array(map(evaluate, batch.column(name).to_pylist()), rule.type)


def _matching(patterns: PatternSet) -> Callable[[str], list[int]]:
    """Return the function that a broker calls when a topic is created: it looks the topic up among the watched patterns."""
    index = PatternIndex()
    places: dict[str, list[int]] = defaultdict(list)
    for place, pattern in enumerate(patterns.patterns):
        index.add(compile_pattern(pattern.text))
        places[pattern.text].append(place)

    def matching(topic: str) -> list[int]:
        if is_system_topic(topic):
            return []
        return sorted(place for text in index.matching(matched_name(topic)) for place in places[text])

    return matching


def _judging(build: Callable[[], MessageFilter], shown: str) -> Callable[[bytes | None], bool]:
    try:
        message_filter = build()
    except InvalidFilter as error:
        raise CorpusError(f"the message filter {shown!r} can't be used: {error.reason}") from None
    metadata = MessageMetadata()
    return lambda payload: message_filter.matches(Candidate(payload or b"", metadata))
