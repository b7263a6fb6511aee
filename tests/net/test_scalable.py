"""Scalable topics over real sockets: the watch in real time, the admin calls by HTTP, the client in a loop of its own."""

from __future__ import annotations

import asyncio
import json
import time

from refimpl.net.client import Client
from refimpl.net.embedded import EmbeddedBroker
from refimpl.proposals.scalable_topics import topics_hash
from refimpl.wire import command, encode_frame
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe
from tests.fakes.link_peers import PING, connected
from tests.fakes.rest_client import ask

NS = "public/default"


def watch(**fields: object) -> bytes:
    return encode_frame(command("watchScalableTopics", watch_id=1, namespace=NS, **fields))


def create(broker: EmbeddedBroker, name: str, **properties: str) -> None:
    assert ask("PUT", f"{broker.admin_url}/admin/v2/scalable/{NS}/{name}", json.dumps(properties).encode())[0] == 204


def test_a_creation_is_told_after_the_window_and_a_known_set_not_at_all():
    with EmbeddedBroker() as broker, connected(broker.service_url) as peer:
        peer.send(watch())
        assert peer.receive() == "watchScalableTopicsUpdate"
        begin = time.monotonic()
        create(broker, "x")
        assert peer.receive() == "watchScalableTopicsUpdate"
        assert time.monotonic() - begin >= 0.05
        with connected(broker.service_url) as again:
            again.send(watch(current_hash=topics_hash([f"topic://{NS}/x"])) + PING)
            assert again.receive() == "pong"
            create(broker, "y")
            assert [again.receive(), peer.receive()] == ["watchScalableTopicsUpdate"] * 2


def test_a_list_takes_several_properties():
    with EmbeddedBroker() as broker:
        create(broker, "x", owner="alice", env="prod")
        create(broker, "y", owner="alice")
        url = f"{broker.admin_url}/admin/v2/scalable/{NS}"
        assert json.loads(ask("GET", f"{url}?property=owner=alice")[1]) == [f"topic://{NS}/x", f"topic://{NS}/y"]
        assert json.loads(ask("GET", f"{url}?property=owner=alice&property=env=prod")[1]) == [f"topic://{NS}/x"]
        assert ask("GET", f"{url}?property=owner")[0] == 412


def test_switched_off():
    with EmbeddedBroker({"scalableTopicsEnabled": "false"}) as broker, connected(broker.service_url) as peer:
        peer.send(watch())
        assert peer.receive() == "watchScalableTopicsUpdate"


def test_a_namespace_is_followed():
    async def follow(broker: EmbeddedBroker) -> list[str]:
        async with Client(broker.service_url, seed=1) as client, asyncio.timeout(20):
            choices = {"type": CommandSubscribe.Shared, "initial_position": CommandSubscribe.Earliest}
            consumer = await client.subscribe_namespace(NS, "s", property_filters={"owner": "alice"}, **choices)
            seen = []
            for name in ("a", "b", "c"):
                await asyncio.to_thread(create, broker, name, owner="alice" if name != "b" else "bob")
                producer = await client.create_producer(f"topic://{NS}/{name}")
                await producer.send(name.encode())
                if name != "b":
                    seen.append((await consumer.receive()).payload.decode())
            return seen

    with EmbeddedBroker() as broker:
        assert asyncio.run(follow(broker)) == ["a", "c"]
