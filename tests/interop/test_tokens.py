"""Stock clients on brokers with token authentication, when their tokens expire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conformance.targets import ApachePulsar, Endpoint
from conformance.targets.reference import ReferenceTarget
from refimpl.wire.pulsar_api_pb2 import AuthenticationError
from tests.conftest import require_java, skip_for
from tests.fakes.frame_proxy import FrameProxy
from tests.interop.built_clients import missing_tool
from tests.interop.conftest import REAL, BackgroundLoop
from tests.interop.stock_clients import Client, ClientFailed, ClientProcess, texts
from tests.samples.tokens import TOKEN_SECRET_KEY, expiring_token, tokens

pytestmark = [pytest.mark.interop, pytest.mark.flows]

SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "authenticationRefreshCheckSeconds": "1",
    "tokenSecretKey": TOKEN_SECRET_KEY,
    "superUserRoles": "admin",
    "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
    "brokerClientAuthenticationParameters": f"token:{tokens('admin')['admin']}",
}
SOON = 10
"""Seconds after which a token expires: enough to connect and subscribe on a machine with much to do."""
AN_HOUR = 3600


@pytest.fixture(scope="module", params=["reference", pytest.param("real", marks=pytest.mark.real)])
def broker(request: pytest.FixtureRequest, loop: BackgroundLoop) -> Iterator[Endpoint]:
    if request.param in REAL:
        require_java()
    target = ApachePulsar(REAL[request.param]) if request.param in REAL else ReferenceTarget()
    with loop.entered(target.run(SETTINGS)) as endpoint:
        yield endpoint


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """Hold the token that the client has, and that its supplier reads when it is asked for another one."""
    return tmp_path / "token"


@pytest.fixture(params=["python", "java", "go"])
def client(
    request: pytest.FixtureRequest, client_process: Callable[[str], ClientProcess], proxy: FrameProxy, token_file: Path
) -> Iterator[Client]:
    if tool := missing_tool(request.param):
        skip_for(f"{tool} is not installed")
    token_file.write_text(expiring_token("admin", AN_HOUR))
    client = Client(client_process(request.param), proxy.service_url, token_file=str(token_file))
    yield client
    if client.process.running:
        client.end()


def attempts_of_the_first(proxy: FrameProxy) -> int:
    """Count the connections of the client that came first: another one may look for a broker that had the port before."""
    versions = [one.client_version for one in proxy.seen("connect")]
    return versions.count(versions[0])


def test_a_client_goes_on_with_another_token(client: Client, proxy: FrameProxy, topic: str, token_file: Path) -> None:
    token_file.write_text(expiring_token("admin", SOON))
    consumer, producer = client.consumer(topic), client.producer(topic)
    producer.send("before")
    connections = attempts_of_the_first(proxy)
    token_file.write_text(expiring_token("admin", AN_HOUR))
    proxy.wait("authChallenge", count=connections)
    proxy.wait("authResponse", count=connections)
    producer.send("after")
    assert texts(consumer.receive_all(2)) == ["before", "after"]
    assert attempts_of_the_first(proxy) == connections, "it is the same connection"
    assert proxy.seen("error") == []


def test_a_client_that_has_no_other_token_is_cut_off_until_it_has_one(
    client: Client, proxy: FrameProxy, topic: str, token_file: Path
) -> None:
    token_file.write_text(expiring_token("admin", SOON))
    consumer, producer = client.consumer(topic), client.producer(topic)
    producer.send("before")
    consumer.ack([consumer.receive()])
    proxy.wait("ack")
    connections = len(proxy.seen("connect"))
    proxy.wait("authResponse", count=connections)
    proxy.wait("connect", count=connections + 1)
    proxy.wait("error", error=AuthenticationError)
    token_file.write_text(expiring_token("admin", AN_HOUR))
    producer.send("after")
    assert consumer.receive().text == "after"


def test_a_client_whose_token_has_expired_is_refused_until_it_has_another(
    client: Client, proxy: FrameProxy, topic: str, token_file: Path
) -> None:
    token_file.write_text(expiring_token("admin", -5))
    asked = client.process.begin("producer", client=client.name, name="early", topic=topic, aside=True)
    proxy.wait("error", error=AuthenticationError)
    assert proxy.seen("connected") == []
    assert proxy.seen("partitionMetadata") == [], "it waits until it is connected"
    token_file.write_text(expiring_token("admin", AN_HOUR))
    with suppress(ClientFailed):  # clients differ in whether they try again
        asked()
    consumer = client.consumer(topic)
    client.producer(topic).send("one")
    assert consumer.receive().text == "one"
