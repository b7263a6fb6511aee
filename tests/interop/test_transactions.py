"""A client that wants transactions, at brokers without a coordinator of transactions."""

from __future__ import annotations

import pytest

from tests.fakes.frame_proxy import FrameProxy
from tests.interop.stock_clients import Client, ClientFailed

pytestmark = [pytest.mark.interop, pytest.mark.flows, pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True)]


def test_a_client_that_wants_transactions_is_refused(client: Client, proxy: FrameProxy, topic: str) -> None:
    with pytest.raises(ClientFailed):
        Client(client.process, proxy.service_url, transactions=True)
    assert client.process.running, "it was told, and did not wait"
    coordinators = proxy.seen("partitionMetadata", topic="persistent://pulsar/system/transaction_coordinator_assign")
    answer = proxy.wait_for_answer("partitionMetadataResponse", coordinators[0])
    assert (len(coordinators), answer.partitions, answer.response) == (1, 0, answer.Success), "there are none, and it asks no more"
    consumer = client.consumer(topic)
    client.producer(topic).send("one")
    assert consumer.receive().text == "one"
