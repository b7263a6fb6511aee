"""The formula of sizes agrees with the frames that the reference encodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from conformance.corpus.filtering.costs import (
    Topics,
    by_shape,
    costs,
    field_bytes,
    field_bytes_of,
    list_answer,
    list_request,
    varint_bytes,
    watch_answer,
    watch_request,
    watch_update,
)
from conformance.corpus.filtering.patterns import pattern_set
from refimpl.proposals.topic_list import TopicListBroker
from refimpl.wire import command, encode_frame
from refimpl.wire.pulsar_api_pb2 import CommandGetTopicsOfNamespace, CommandWatchTopicList

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), max_size=20)
IDS = st.integers(0, 2**64 - 1)
HASH = "0d0602ed"


def fields(names: list[str]) -> Topics:
    return Topics(len(names), sum(field_bytes(len(name.encode())) for name in names))


@given(IDS)
def test_varints(number: int) -> None:
    length = 1
    while number >> (7 * length):
        length += 1
    assert varint_bytes(number) == length


@given(NAMES, IDS)
def test_lists(names: list[str], request_id: int) -> None:
    answer = command("getTopicsOfNamespaceResponse", request_id=request_id, topics=names, filtered=True, topics_hash=HASH, changed=True)
    assert list_answer(fields(names), request_id=request_id) == len(encode_frame(answer))


@given(NAMES, IDS, IDS)
def test_watches(names: list[str], request_id: int, watcher_id: int) -> None:
    opened = command("watchTopicListSuccess", request_id=request_id, watcher_id=watcher_id, topic=names, topics_hash=HASH)
    assert watch_answer(fields(names), request_id=request_id, watcher_id=watcher_id) == len(encode_frame(opened))
    update = command("watchTopicUpdate", watcher_id=watcher_id, new_topics=names, topics_hash=HASH)
    assert watch_update(fields(names), watcher_id=watcher_id) == len(encode_frame(update))


@given(st.text(max_size=60), st.text(max_size=300), IDS)
def test_requests(namespace: str, pattern: str, request_id: int) -> None:
    space, length = len(namespace.encode()), len(pattern.encode())
    request = command("getTopicsOfNamespace", request_id=request_id, namespace=namespace, mode=CommandGetTopicsOfNamespace.PERSISTENT)
    assert list_request(space, request_id=request_id) == len(encode_frame(request))
    request.getTopicsOfNamespace.topics_pattern = pattern
    assert list_request(space, length, request_id=request_id) == len(encode_frame(request))
    request.getTopicsOfNamespace.topics_hash = HASH
    assert list_request(space, length, has_hash=True, request_id=request_id) == len(encode_frame(request))
    watch = command("watchTopicList", request_id=request_id, watcher_id=7, namespace=namespace, topics_pattern=pattern, topics_hash=HASH)
    assert watch_request(space, length, request_id=request_id, watcher_id=7) == len(encode_frame(watch))


TOPICS = [
    *(f"persistent://t/n/a-{number}" for number in range(30)),
    "persistent://t/n/" + "long" * 40,
    "persistent://t/n/é",
    "persistent://t/n/__change_events",
    "non-persistent://t/n/a-1",
    "persistent://u/n/a-1",
]


def test_costs_are_those_of_a_broker(spark: SparkSession) -> None:
    patterns = pattern_set(["persistent://t/n/a-1.*", "t/n/.*", "t/n/é", "t/n/none", "v/n/.*", ".*", "t/n/a-[0-9]*" + "(?:x|y)?" * 8])
    frame = spark.createDataFrame([(topic,) for topic in TOPICS], "topic STRING")
    found = costs(frame, patterns)
    assert set(found) == {0, 1, 2, 3, 4, 6}
    for place, cost in found.items():
        pattern = patterns.patterns[place]
        here = [topic for topic in TOPICS if topic.startswith(f"persistent://{pattern.namespace}/")]
        broker = TopicListBroker(lambda _, here=here: here)
        plain = CommandGetTopicsOfNamespace(request_id=1, namespace=pattern.namespace, mode=CommandGetTopicsOfNamespace.PERSISTENT)
        filtered = CommandGetTopicsOfNamespace(topics_pattern=pattern.given)
        filtered.MergeFrom(plain)
        unchanged = CommandGetTopicsOfNamespace(topics_hash=broker.get_topics(filtered, here).topics_hash)
        unchanged.MergeFrom(filtered)
        for request, data in ((plain, cost.unfiltered), (filtered, cost.filtered), (unchanged, cost.unchanged)):
            answer = broker.get_topics(request, here)
            base = command("getTopicsOfNamespaceResponse")
            base.getTopicsOfNamespaceResponse.CopyFrom(answer)
            asked = command("getTopicsOfNamespace")
            asked.getTopicsOfNamespace.CopyFrom(request)
            assert data == len(encode_frame(asked)) + len(encode_frame(base)), (pattern.given, request)
        if pattern.is_evaluated:
            watched = CommandWatchTopicList(
                request_id=1, watcher_id=1, namespace=pattern.namespace, topics_pattern=pattern.given, topics_hash=HASH
            )
            opened = command("watchTopicListSuccess")
            opened.watchTopicListSuccess.CopyFrom(broker.watch("connection", watched))
            asked = command("watchTopicList")
            asked.watchTopicList.CopyFrom(watched)
            assert cost.watch == len(encode_frame(asked)) + len(encode_frame(opened))
    summed = by_shape(found, patterns)
    assert summed["all"]["patterns"] == 6
    assert summed["all"]["longer than evaluated"] == 1
    assert summed["everything"]["matching"] == 32
    assert summed["everything"]["selectivity"] == 1.0
    assert summed["all"]["bytes filtered"] == sum(cost.filtered for cost in found.values())


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384])
def test_field_bytes_of_a_column(spark: SparkSession, length: int) -> None:
    frame = spark.createDataFrame([("x" * length,)], "topic STRING")
    assert frame.select(field_bytes_of()).collect()[0][0] == field_bytes(length)
