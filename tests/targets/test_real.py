"""A real Apache Pulsar: started, asked, stopped, with nothing left of it."""

import asyncio
import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest

from conformance.targets import RELEASES, AdminClient, ApachePulsar, Endpoint, connect_answer

pytestmark = pytest.mark.real
NS = "public/targets"
NAMES = ["plain", "été-☃", "a b", "a%2Fb", "50%", "x+y", "q?a=b&c#d", "😀"]


def assert_nothing_left(endpoint: Endpoint) -> None:
    assert asyncio.run(connect_answer(endpoint)) == "none"
    assert endpoint.log_file is not None
    work = endpoint.log_file.parent
    assert not work.exists()
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(str(work).encode() in command for command in commands)


def test_names_of_all_kinds_live_and_die_on_a_real_broker() -> None:
    async def main() -> Endpoint:
        config = {"enableBrokerSideSubscriptionPatternEvaluation": "false", "noSuchSetting": "1"}
        async with ApachePulsar("4.2.4").run(config) as endpoint, AdminClient(endpoint) as admin:
            assert endpoint.unconfirmed_config == {"noSuchSetting"}
            assert await connect_answer(endpoint) == "connected"
            settings = (await admin.call("runtime_configuration")).body
            assert isinstance(settings, dict)
            assert settings["enableBrokerSideSubscriptionPatternEvaluation"] == "false"
            assert (await admin.call("broker_health")).body == "ok"
            assert (await admin.call("create_namespace", NS)).status == 204
            topics = [f"persistent://{NS}/{name}" for name in NAMES]
            for topic in topics:
                assert (await admin.call("create_topic", topic)).status == 204
            assert (await admin.call("create_topic", topics[0])).status == 409
            assert (await admin.call("create_topic", f"persistent://{NS}/a/b")).status == 412  # this release refuses the slash
            partitioned = {"topic": f"persistent://{NS}/p", "partitions": 2}
            assert (await admin.call("create_partitioned_topic", partitioned)).ok
            assert (await admin.call("update_partitioned_topic", {**partitioned, "partitions": 3})).ok
            assert (await admin.call("partitioned_metadata", partitioned["topic"])).body == {"partitions": 3, "deleted": False}
            listed = (await admin.call("list_topics", NS)).body
            assert isinstance(listed, list)
            assert sorted(listed) == sorted([*topics, *(f"persistent://{NS}/p-partition-{i}" for i in range(3))])
            assert (await admin.call("create_subscription", {"topic": topics[2], "subscription": "s /é"})).ok
            stats = (await admin.call("topic_stats", topics[2])).body
            assert isinstance(stats, dict)
            assert list(stats["subscriptions"]) == ["s /é"]
            assert (await admin.call("unload_topic", topics[1])).ok
            for topic in topics[:3]:
                assert (await admin.call("delete_topic", {"topic": topic, "force": True})).ok
            assert (await admin.call("delete_topic", topics[0])).status == 404
            assert (await admin.remove_namespace(NS)).status == 204
            assert (await admin.call("namespace_exists", NS)).status == 404
        return endpoint

    assert_nothing_left(asyncio.run(main()))


def token(key: bytes, subject: str) -> str:
    def text(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    signed = f"{text(json.dumps({'alg': 'HS256'}).encode())}.{text(json.dumps({'sub': subject}).encode())}"
    return f"{signed}.{text(hmac.digest(key, signed.encode(), hashlib.sha256))}"


def test_a_broker_with_authentication_is_reached_with_its_own_token() -> None:
    key = bytes(range(32))
    config = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": f"data:;base64,{base64.b64encode(key).decode()}",
        "superUserRoles": "admin",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{token(key, 'admin')}",
    }

    async def main() -> Endpoint:
        async with ApachePulsar("4.2.4").run(config) as endpoint:
            assert endpoint.unconfirmed_config == {"tokenSecretKey"}  # a setting of the plugin
            assert token(key, "admin") not in repr(endpoint)
            assert await connect_answer(endpoint) == "connected"
            async with AdminClient(endpoint) as admin:
                assert (await admin.call("create_namespace", NS)).status == 204
                granted = {"namespace": NS, "role": "reader", "actions": ["consume"]}
                assert (await admin.call("grant_permission", granted)).status == 204
                assert (await admin.remove_namespace(NS)).status == 204
            nobody = Endpoint(name="nobody", service_url=endpoint.service_url, admin_url=endpoint.admin_url)
            assert await connect_answer(nobody) == "refused"
            async with AdminClient(nobody) as admin:
                assert (await admin.call("namespaces", "public")).status == 401
        return endpoint

    assert_nothing_left(asyncio.run(main()))


@pytest.mark.parametrize("version", [version for version in RELEASES if version != "4.2.4"])
def test_every_known_release_starts(version: str) -> None:
    async def main() -> Endpoint:
        async with ApachePulsar(version).run() as endpoint, AdminClient(endpoint) as admin:
            assert await connect_answer(endpoint) == "connected"
            assert (await admin.call("create_namespace", NS)).status == 204
            assert (await admin.call("create_topic", f"persistent://{NS}/été a%2Fb")).status == 204
            scalable = await admin.call("create_scalable_topic", {"topic": f"topic://{NS}/s", "properties": {"owner": "me"}})
            assert scalable.ok == (version == "5.0.0-M1")
            assert (await admin.remove_namespace(NS)).status == 204
        return endpoint

    assert_nothing_left(asyncio.run(main()))
