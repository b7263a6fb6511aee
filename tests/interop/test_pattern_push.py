"""The pattern consumer of the Maven client: told of topics at once, through cuts and mistakes, by WATCH_TOPIC_LIST (PIP-145)."""

from __future__ import annotations

import pytest

from refimpl.proposals.topic_list import topics_hash
from refimpl.wire.pulsar_api_pb2 import BaseCommand
from tests.fakes.frame_proxy import FrameProxy
from tests.interop.pattern_watches import attached, send_and_receive, watched
from tests.interop.stock_clients import Admin, Client

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("client", ["java"], indirect=True)]

LONG_PERIOD = 60
"""Seconds between two checks of the client: longer than any deadline here, so that what arrives was pushed."""

SHORT_PERIOD = 2


@pytest.fixture
def orders(namespace: str, admin: Admin) -> list[str]:
    """Name three topics of which only the first exists."""
    names = [f"persistent://{namespace}/orders-{number}" for number in range(3)]
    admin("create_topic", names[0])
    return names


@pytest.fixture
def pattern(namespace: str) -> str:
    return f"persistent://{namespace}/orders-.*"


def test_created_and_deleted_topics_are_pushed(client: Client, proxy: FrameProxy, admin: Admin, orders: list[str], pattern: str) -> None:
    consumer = client.consumer(pattern=pattern, discovery_period=LONG_PERIOD)
    watch, answer = watched(proxy)
    assert (watch.topics_pattern, watch.topics_hash) == (pattern, topics_hash(orders[:1]))
    assert (answer.watcher_id, list(answer.topic), answer.topics_hash) == (watch.watcher_id, [], topics_hash(orders[:1]))
    admin("create_topic", orders[1])
    update = proxy.wait("watchTopicUpdate", new_topics=[orders[1]])
    assert (update.watcher_id, list(update.deleted_topics), update.topics_hash) == (watch.watcher_id, [], topics_hash(orders[:2]))
    attached(proxy, orders[1])
    send_and_receive(client, consumer, orders[:2])
    admin("delete_topic", {"topic": orders[1], "force": True})
    update = proxy.wait("watchTopicUpdate", deleted_topics=[orders[1]])
    assert (list(update.new_topics), update.topics_hash) == ([], topics_hash(orders[:1]))
    assert len(proxy.seen("watchTopicList")) == 1
    assert len(proxy.seen("getTopicsOfNamespace")) == 1


def test_a_created_topic_with_partitions_is_pushed(
    client: Client, proxy: FrameProxy, admin: Admin, orders: list[str], pattern: str
) -> None:
    consumer = client.consumer(pattern=pattern, discovery_period=LONG_PERIOD)
    watched(proxy)
    admin("create_partitioned_topic", {"topic": orders[1], "partitions": 2})
    partitions = [f"{orders[1]}-partition-{index}" for index in range(2)]
    for partition in partitions:
        attached(proxy, partition)
    send_and_receive(client, consumer, [orders[0], *partitions])


@pytest.mark.parametrize("created", [True, False], ids=["topic-created", "nothing-changed"])
def test_a_cut_connection_is_reconciled_by_the_hash(
    client: Client, proxy: FrameProxy, admin: Admin, orders: list[str], pattern: str, created: bool
) -> None:
    consumer = client.consumer(pattern=pattern, discovery_period=LONG_PERIOD)
    first, _ = watched(proxy)
    existing = orders[:1]
    with proxy.cut():
        mark = proxy.mark
        if created:
            admin("create_topic", orders[1])
            existing = orders[:2]
    again, answer = watched(proxy, mark)
    assert (again.watcher_id, again.topics_pattern, again.topics_hash) == (first.watcher_id, pattern, topics_hash(orders[:1]))
    assert sorted(answer.topic) == (existing if created else [])
    assert (answer.watcher_id, answer.topics_hash) == (first.watcher_id, topics_hash(existing))
    for topic in existing:
        attached(proxy, topic, mark)
    send_and_receive(client, consumer, existing)
    admin("create_topic", orders[2])  # the watcher lives on
    proxy.wait(
        "watchTopicUpdate", mark, watcher_id=first.watcher_id, new_topics=[orders[2]], topics_hash=topics_hash([*existing, orders[2]])
    )


def test_a_periodic_check_with_the_current_hash_brings_nothing(
    client: Client, proxy: FrameProxy, admin: Admin, orders: list[str], pattern: str
) -> None:
    client.consumer(pattern=pattern, discovery_period=SHORT_PERIOD)
    first, _ = watched(proxy)
    proxy.wait("watchTopicList", count=3)
    for check in proxy.seen("watchTopicList"):
        answer = proxy.wait_for_answer("watchTopicListSuccess", check)
        assert (check.watcher_id, check.topics_hash) == (first.watcher_id, topics_hash(orders[:1]))
        assert (answer.watcher_id, list(answer.topic), answer.topics_hash) == (first.watcher_id, [], topics_hash(orders[:1]))
    mark = proxy.mark
    admin("create_topic", orders[1])
    attached(proxy, orders[1])
    _, answer = watched(proxy, mark, topics_hash=topics_hash(orders[:2]))
    assert list(answer.topic) == []


def test_a_lost_update_is_made_up_for_by_the_next_check(
    client: Client, proxy: FrameProxy, admin: Admin, orders: list[str], pattern: str
) -> None:
    consumer = client.consumer(pattern=pattern, discovery_period=SHORT_PERIOD)
    first, _ = watched(proxy)
    proxy.change["watchTopicUpdate"] = lambda _: None
    mark = proxy.mark
    admin("create_topic", orders[1])
    attached(proxy, orders[1])
    assert not proxy.seen("watchTopicUpdate")
    (healed, *_) = [answer for answer in proxy.seen("watchTopicListSuccess", mark) if answer.topic]
    assert (healed.watcher_id, sorted(healed.topic), healed.topics_hash) == (first.watcher_id, orders[:2], topics_hash(orders[:2]))
    (asked,) = proxy.seen("watchTopicList", mark, request_id=healed.request_id)
    assert (asked.watcher_id, asked.topics_hash) == (first.watcher_id, topics_hash(orders[:1]))
    send_and_receive(client, consumer, orders[:2])


def test_a_hash_that_does_not_fit_is_checked_at_once(
    client: Client, proxy: FrameProxy, admin: Admin, orders: list[str], pattern: str
) -> None:
    def spoilt(command: BaseCommand) -> BaseCommand:
        command.watchTopicUpdate.topics_hash = "01234567"
        return command

    consumer = client.consumer(pattern=pattern, discovery_period=LONG_PERIOD)
    first, _ = watched(proxy)
    proxy.change["watchTopicUpdate"] = spoilt
    mark = proxy.mark
    admin("create_topic", orders[1])
    check, answer = watched(proxy, mark)
    assert (check.watcher_id, check.topics_hash) == (first.watcher_id, topics_hash(orders[:2]))
    assert (list(answer.topic), answer.topics_hash) == ([], topics_hash(orders[:2]))
    attached(proxy, orders[1])
    send_and_receive(client, consumer, orders[:2])


def test_a_clean_end_closes_the_watch(client: Client, proxy: FrameProxy, admin: Admin, orders: list[str], pattern: str) -> None:
    admin("create_topic", orders[1])
    consumer = client.consumer(pattern=pattern, discovery_period=LONG_PERIOD)
    watch, _ = watched(proxy)
    send_and_receive(client, consumer, orders[:2])
    mark = proxy.mark
    consumer.close()
    close = proxy.wait("watchTopicListClose", mark, watcher_id=watch.watcher_id)
    proxy.wait_for_answer("success", close)
    assert len(proxy.seen("close_consumer", mark)) == 2
    admin("create_topic", orders[2])  # nobody is told
    client.end()
    proxy.wait_for_end("client")
    assert not proxy.seen("watchTopicUpdate")
    assert len(proxy.seen("close_producer", mark)) == 2
    for topic in orders[:2]:
        stats = admin("topic_stats", topic)
        assert stats["publishers"] == stats["subscriptions"]["s"]["consumers"] == []
