"""What a pattern consumer of a stock client does on the wire, waited for at a proxy."""

from __future__ import annotations

from typing import Any

from tests.fakes.frame_proxy import FrameProxy
from tests.interop.stock_clients import Client, Consumer, texts


def send_and_receive(client: Client, consumer: Consumer, topics: list[str]) -> None:
    for topic in topics:
        client.producer(topic).send(f"to {topic}")
    assert sorted(texts(consumer.receive_all(len(topics)))) == [f"to {topic}" for topic in sorted(topics)]


def watched(proxy: FrameProxy, since: int = 0, **fields: object) -> tuple[Any, Any]:
    """Wait for WATCH_TOPIC_LIST and its answer."""
    request = proxy.wait("watchTopicList", since, **fields)
    return request, proxy.wait_for_answer("watchTopicListSuccess", request)


def attached(proxy: FrameProxy, topic: str, since: int = 0) -> None:
    """Wait until a member of the pattern consumer is subscribed to a topic."""
    proxy.wait_for_answer("success", proxy.wait("subscribe", since, topic=topic))
