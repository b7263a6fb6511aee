"""New clients with old brokers and old clients with new ones: what was negotiated decides, and topics are found either way."""

from __future__ import annotations

import pytest

from refimpl.proposals.topic_list import topics_hash
from refimpl.wire.pulsar_api_pb2 import BaseCommand
from tests.fakes.frame_proxy import FrameProxy
from tests.interop.pattern_watches import attached, send_and_receive, watched
from tests.interop.stock_clients import Admin, Client

pytestmark = pytest.mark.interop
PERIOD = 1


def pretend_older(proxy: FrameProxy, *flags: str) -> None:
    """Take feature flags out of CONNECTED, as an older broker would have."""

    def without(command: BaseCommand) -> BaseCommand:
        for flag in flags:
            command.connected.feature_flags.ClearField(flag)
        return command

    proxy.change["connected"] = without


@pytest.mark.parametrize("client", ["java"], indirect=True)
def test_a_client_never_watches_a_broker_without_watchers(client: Client, proxy: FrameProxy, admin: Admin, namespace: str) -> None:
    pretend_older(proxy, "supports_topic_watchers", "supports_topic_watcher_reconcile")
    topics = [f"persistent://{namespace}/orders-{number}" for number in range(2)]
    pattern = f"persistent://{namespace}/orders-.*"
    admin("create_topic", topics[0])
    consumer = client.consumer(pattern=pattern, discovery_period=PERIOD)
    poll = proxy.wait("getTopicsOfNamespace", topics_pattern=pattern, topics_hash=topics_hash(topics[:1]), count=2)
    answer = proxy.wait_for_answer("getTopicsOfNamespaceResponse", poll)
    assert (list(answer.topics), answer.changed, answer.topics_hash) == ([], False, topics_hash(topics[:1]))
    admin("create_topic", topics[1])
    attached(proxy, topics[1])
    changed = proxy.wait("getTopicsOfNamespaceResponse", topics_hash=topics_hash(topics))
    assert (sorted(changed.topics), changed.filtered, changed.changed) == (topics, True, True)
    send_and_receive(client, consumer, topics)
    assert not proxy.seen("watchTopicList")


@pytest.mark.parametrize("client", ["java"], indirect=True)
def test_a_client_polls_a_broker_that_watches_but_does_not_reconcile(
    client: Client, proxy: FrameProxy, admin: Admin, namespace: str
) -> None:
    pretend_older(proxy, "supports_topic_watcher_reconcile")
    topic = f"persistent://{namespace}/orders-0"
    consumer = client.consumer(pattern=f"persistent://{namespace}/orders-.*", discovery_period=PERIOD)
    watched(proxy)
    admin("create_topic", topic)
    proxy.wait("watchTopicUpdate", new_topics=[topic])
    attached(proxy, topic)
    send_and_receive(client, consumer, [topic])
    proxy.wait("getTopicsOfNamespace", topics_hash=topics_hash([topic]), count=2)
    assert len(proxy.seen("watchTopicList")) == 1


@pytest.mark.parametrize("client", ["python"], indirect=True)
def test_a_broker_does_not_bother_a_client_that_knows_no_watches(client: Client, proxy: FrameProxy, admin: Admin, namespace: str) -> None:
    topics = [f"persistent://{namespace}/orders-{number}" for number in range(2)]
    admin("create_topic", topics[0])
    consumer = client.consumer(pattern=f"persistent://{namespace}/orders-.*")
    admin("create_topic", topics[1])
    send_and_receive(client, consumer, topics[:1])
    (request,) = proxy.seen("getTopicsOfNamespace")
    answer = proxy.wait_for_answer("getTopicsOfNamespaceResponse", request)
    assert (request.HasField("topics_pattern"), request.HasField("topics_hash")) == (False, False)
    assert (list(answer.topics), answer.filtered, answer.changed) == (topics[:1], False, True)
    assert not proxy.seen("watchTopicUpdate")
    client.consumer(pattern=f"persistent://{namespace}/orders-.*", subscription="another")  # asks anew, and finds both
    assert {request.topic for request in proxy.seen("subscribe", subscription="another")} == set(topics)
