"""The cost of a pattern subscription on the wire: bytes of requests and answers, with and without filter and hash.

One poll, for a pattern that begins with a namespace:

    unfiltered    GET_TOPICS_OF_NAMESPACE without a pattern; the answer has all topics, and the client throws most away
    filtered      with topics_pattern: the answer has what matches; all, if the pattern is longer than a broker evaluates
    unchanged     with topics_pattern and the topics_hash that the client has: the answer has no topics
    watch         WATCH_TOPIC_LIST and its answer; it replaces later polls
    update        one WATCH_TOPIC_UPDATE, for a topic of average length that comes

Sizes are those of whole frames, by a formula that agrees with `refimpl.wire` byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from conformance.corpus.filtering.dialect import ARROW
from conformance.corpus.filtering.formulations import FORMULATIONS
from conformance.corpus.filtering.hashes import namespace_of
from conformance.corpus.filtering.patterns import SHAPES, Pattern, PatternSet
from conformance.corpus.filtering.rules import Matching
from conformance.corpus.filtering.sql import is_system_topic

HEADER = 8
"""Bytes in front of a command: the sizes of frame and command."""
HASH = 8
"""Bytes of a topics_hash."""


@dataclass(frozen=True)
class Topics:
    """Some topics, as far as sizes depend on them.

    Attributes:
        count: How many.
        size: Bytes of their fields in a message: each has a tag, a length and its name in UTF-8.
    """

    count: int
    size: int


@dataclass(frozen=True)
class Cost:
    """What one pattern costs, in bytes of requests and answers.

    Attributes:
        listed: Topics of its namespace that lists show.
        matching: Those of them that it fits.
        unfiltered: A poll without filter and hash.
        filtered: A poll with filter.
        unchanged: A poll with filter and hash, after which nothing has changed.
        watch: Opening a watch.
        update: One update of it.
    """

    listed: int
    matching: int
    unfiltered: int
    filtered: int
    unchanged: int
    watch: int
    update: int


def varint_bytes(number: int) -> int:
    """Return how many bytes a number takes as a varint."""
    return max(1, -(-number.bit_length() // 7))


def field_bytes(length: int) -> int:
    """Return how many bytes a text of some bytes takes as a field, with its tag and its length."""
    return 1 + varint_bytes(length) + length


def field_bytes_of(topic: Column | str = "topic") -> Column:
    """Return `field_bytes` of a topic's name as an expression; names are shorter than 2 ** 21 bytes."""
    length = F.octet_length(topic)
    return length + F.when(length < 1 << 7, 2).when(length < 1 << 14, 3).otherwise(4)


def frame_bytes(message: int, tag: int) -> int:
    """Return the size of a frame.

    Args:
        message: Bytes of the message inside of BaseCommand.
        tag: Number of the command, which is also its type.
    """
    return HEADER + 1 + varint_bytes(tag) + varint_bytes(tag << 3) + varint_bytes(message) + message


def list_request(namespace: int, pattern: int | None = None, *, has_hash: bool = False, request_id: int = 1) -> int:
    """Return the size of GET_TOPICS_OF_NAMESPACE; texts are given by their bytes."""
    message = 1 + varint_bytes(request_id) + field_bytes(namespace) + 2
    message += (field_bytes(pattern) if pattern is not None else 0) + (field_bytes(HASH) if has_hash else 0)
    return frame_bytes(message, 32)


def list_answer(topics: Topics, *, request_id: int = 1) -> int:
    """Return the size of GET_TOPICS_OF_NAMESPACE_RESPONSE."""
    return frame_bytes(1 + varint_bytes(request_id) + topics.size + 2 + field_bytes(HASH) + 2, 33)


def watch_request(namespace: int, pattern: int, *, request_id: int = 1, watcher_id: int = 1) -> int:
    """Return the size of WATCH_TOPIC_LIST with a hash; texts are given by their bytes."""
    ids = 2 + varint_bytes(request_id) + varint_bytes(watcher_id)
    return frame_bytes(ids + field_bytes(namespace) + field_bytes(pattern) + field_bytes(HASH), 64)


def watch_answer(topics: Topics, *, request_id: int = 1, watcher_id: int = 1) -> int:
    """Return the size of WATCH_TOPIC_LIST_SUCCESS."""
    return frame_bytes(2 + varint_bytes(request_id) + varint_bytes(watcher_id) + topics.size + field_bytes(HASH), 65)


def watch_update(topics: Topics, *, watcher_id: int = 1) -> int:
    """Return the size of WATCH_TOPIC_UPDATE."""
    return frame_bytes(1 + varint_bytes(watcher_id) + topics.size + field_bytes(HASH), 66)


NO_TOPICS = Topics(0, 0)


def cost_of(pattern: Pattern, listed: Topics, matching: Topics) -> Cost:
    """Return what a pattern that begins with a namespace costs.

    Args:
        pattern: The pattern.
        listed: What a list of its namespace shows.
        matching: What it fits of that.
    """
    assert pattern.namespace is not None
    namespace, length = len(pattern.namespace.encode()), len(pattern.given.encode())
    answered = matching if pattern.is_evaluated else listed
    one = Topics(1, round(matching.size / matching.count)) if matching.count else NO_TOPICS
    return Cost(
        listed=listed.count,
        matching=matching.count,
        unfiltered=list_request(namespace) + list_answer(listed),
        filtered=list_request(namespace, length) + list_answer(answered),
        unchanged=list_request(namespace, length, has_hash=True) + list_answer(NO_TOPICS),
        watch=watch_request(namespace, length) + watch_answer(matching),
        update=watch_update(one),
    )


def costs(topics: DataFrame, patterns: PatternSet) -> dict[int, Cost]:
    """Return what each pattern costs that begins with a namespace, by its place.

    Args:
        topics: With a column `topic`; those that lists of persistent topics do not show are left out here.
        patterns: Any.
    """
    listed = topics.where(F.col("topic").startswith("persistent://") & ~is_system_topic())
    sums = (F.count("*").alias("count"), F.sum(field_bytes_of()).alias("size"))
    in_namespace = {
        row.namespace: Topics(row["count"], row["size"]) for row in listed.groupBy(namespace_of().alias("namespace")).agg(*sums).collect()
    }
    matched = FORMULATIONS[ARROW](listed.select("topic"), Matching(patterns), "_places")
    by_place = matched.select("topic", F.explode("_places").alias("place")).groupBy("place").agg(*sums).collect()
    matching = {row.place: Topics(row["count"], row["size"]) for row in by_place}
    return {
        place: cost_of(pattern, in_namespace.get(pattern.namespace, NO_TOPICS), matching.get(place, NO_TOPICS))
        for place, pattern in enumerate(patterns.patterns)
        if pattern.namespace is not None
    }


def by_shape(found: Mapping[int, Cost], patterns: PatternSet) -> dict[str, dict[str, Any]]:
    """Sum up what patterns cost by their shape.

    Args:
        found: From `costs`.
        patterns: Those of which it is.
    """
    summed = {
        shape: _summed({place: cost for place, cost in found.items() if patterns.patterns[place].shape == shape}, patterns)
        for shape in SHAPES
    }
    return {**{shape: sums for shape, sums in summed.items() if sums["patterns"]}, "all": _summed(found, patterns)}


def _summed(found: Mapping[int, Cost], patterns: PatternSet) -> dict[str, Any]:
    listed, matching = sum(cost.listed for cost in found.values()), sum(cost.matching for cost in found.values())
    return {
        "patterns": len(found),
        "longer than evaluated": sum(not patterns.patterns[place].is_evaluated for place in found),
        "listed": listed,
        "matching": matching,
        "selectivity": round(matching / listed, 6) if listed else None,
        **{
            f"bytes {name}": sum(getattr(cost, name) for cost in found.values())
            for name in ("unfiltered", "filtered", "unchanged", "watch", "update")
        },
    }
