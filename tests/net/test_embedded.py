"""A broker inside a program: in a thread of its own, on a running loop, two at once, with settings."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from refimpl.net.admin_http import BODY_LIMIT
from refimpl.net.embedded import EmbeddedBroker
from refimpl.wire import command, encode_frame
from tests.fakes.link_peers import connected
from tests.fakes.rest_client import ask


def test_two_at_once_do_not_know_of_each_other():
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        assert one.service_url != other.service_url
        path = "/admin/v2/persistent/public/default/"
        assert ask("PUT", f"{one.admin_url}{path}a%20%C3%A9", b"{}")[0] == 204
        assert json.loads(ask("GET", f"{one.admin_url}/admin/v2/persistent/public/default")[1]) == ["persistent://public/default/a é"]
        assert json.loads(ask("GET", f"{other.admin_url}/admin/v2/persistent/public/default")[1]) == []
        with connected(one.service_url), connected(other.service_url):
            pass


def test_settings_and_profile():
    with EmbeddedBroker({"clusterName": "here"}, profile="as-written") as broker:
        assert broker.broker.configuration.cluster_name == "here"
        assert broker.call(lambda one: one.admin.clusters()) == ["here"]
        assert json.loads(ask("GET", f"{broker.admin_url}/admin/v2/clusters")[1]) == ["here"]
    with pytest.raises(ValueError, match="clusterName"):
        EmbeddedBroker({"clusterNam": "x"})
    with pytest.raises(ValueError, match="profile is default or as-written, not 'x'"):
        EmbeddedBroker(profile="x")


def test_outside_of_its_block_it_is_nowhere():
    broker = EmbeddedBroker()
    with pytest.raises(RuntimeError, match="inside a `with` block"):
        _ = broker.service_url
    with broker:
        assert broker.service_url
    with pytest.raises(RuntimeError, match="inside a `with` block"):
        _ = broker.admin_url


def test_a_block_can_be_entered_again_and_begins_empty():
    broker = EmbeddedBroker()
    with broker:
        broker.call(lambda one: one.admin.create_tenant("t"))
    with broker:
        assert broker.call(lambda one: one.admin.tenants()) == ["public", "pulsar"]


def test_what_cannot_start_says_why():
    broker = EmbeddedBroker({"authenticationEnabled": "true"})
    with pytest.raises(ValueError, match="tokenSecretKey"):
        broker.__enter__()


def test_on_a_running_loop():
    async def main() -> None:
        async with EmbeddedBroker() as broker, aiohttp.ClientSession() as client:
            async with client.get(f"{broker.admin_url}/admin/v2/brokers/health") as answer:
                assert (answer.status, await answer.text()) == (200, "ok")
            broker.call(lambda one: one.admin.create_topic("persistent://public/default/t"))
            async with client.get(f"{broker.admin_url}/admin/v2/persistent/public/default?includeSystemTopic=false") as answer:
                assert await answer.json() == ["persistent://public/default/t"]

    asyncio.run(main())


def test_calls_reach_clients_at_once():
    with EmbeddedBroker() as broker, connected(broker.service_url) as peer:
        watch = command("watchTopicList", request_id=1, watcher_id=1, namespace="public/default", topics_pattern="public/default/.*")
        peer.send(encode_frame(watch))
        assert peer.receive() == "watchTopicListSuccess"
        broker.call(lambda one: one.admin.create_topic("persistent://public/default/t"))
        assert peer.receive() == "watchTopicUpdate"


def test_bodies_have_a_limit_and_malformed_requests_get_an_answer():
    with EmbeddedBroker() as broker:
        url = f"{broker.admin_url}/admin/v2/persistent/public/default/t/partitions"
        status, body = ask("PUT", url, b" " * (BODY_LIMIT + 1))
        assert (status, "bytes" in json.loads(body)["reason"]) == (413, True)
        assert ask("PUT", url, b"[")[0] == 400
        assert ask("PUT", url, b" " * (BODY_LIMIT - 1) + b"2")[0] == 204
        assert ask("GET", f"{broker.admin_url}/admin/v2/persistent/public/default/%ff/stats")[0] == 400
