"""The admin interface over HTTP: poison in raw bytes, requests that stay half-sent, requests from pages of other sites."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
import trustme

from refimpl.broker import Configuration
from refimpl.net import admin_http
from refimpl.net.embedded import EmbeddedBroker
from refimpl.net.serving import serving
from tests.fakes.link_peers import DEADLINE
from tests.fakes.rest_client import ask
from tests.samples.tokens import TOKEN_SECRET_KEY

PERMISSIONS = "/admin/v2/namespaces/public/default/permissions"


@pytest.fixture
def broker():
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of the broker: its settings, who trusts it, and its authority as a file."""
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    trusting = ssl.create_default_context(cafile=folder / "authority.pem")
    paths = {"tlsCertificateFilePath": folder / "certificate.pem", "tlsKeyFilePath": folder / "key.pem"}
    return SimpleNamespace(settings={"webServicePortTls": "0", **{key: str(path) for key, path in paths.items()}}, trusting=trusting)


@contextlib.contextmanager
def connection(broker, url=""):
    host, port = (url or broker.admin_url).rpartition("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE) as found:
        yield found


def raw(broker, data: bytes) -> int | None:
    """Send bytes and return the status; None: the connection ended without an answer."""
    with connection(broker) as peer:
        peer.sendall(data)
        answer = peer.recv(65536)
    return int(answer.split()[1]) if answer else None


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    fields = {
        "Host": "localhost:8080",
        "Content-Length": str(len(body)),
        **{key.replace("_", "-"): value for key, value in headers.items()},
    }
    head = "".join(f"{key}: {value}\r\n" for key, value in fields.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "127.0.0.1:8080"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "broker.localhost"}, 200),
        ({"Host": "attacker.example:8080"}, 421),
        ({"Host": "127.0.0.1.attacker.example"}, 421),
        ({"Host": "user@localhost"}, 421),
        ({"Origin": "http://localhost:8080"}, 200),
        ({"Origin": "http://localhost:9999"}, 403),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_host_and_origin(broker, headers, status):
    assert raw(broker, request("GET", "/admin/v2/clusters", **headers)) == status


@pytest.mark.parametrize(("host", "status"), [("broker.example:8080", 200), ("localhost", 200), ("other.example:8080", 421)])
def test_the_advertised_address_is_a_name_of_the_server(host, status):
    with EmbeddedBroker({"advertisedAddress": "Broker.example"}) as broker:
        assert broker.service_url.startswith("pulsar://Broker.example:")
        url = f"http://127.0.0.1:{broker.admin_url.rpartition(':')[2]}"
        with connection(broker, url) as peer:
            peer.sendall(request("GET", "/admin/v2/clusters", Host=host))
            assert int(peer.recv(65536).split()[1]) == status


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 204),
        ("application/json; charset=utf-8", 204),
        ("text/plain", 415),
        ("text/plain;application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("", 415),
    ],
)
def test_a_body_is_json_by_its_type(broker, content_type, status):
    data = request("POST", f"{PERMISSIONS}/eve", b'["produce"]', Content_Type=content_type)
    assert raw(broker, data) == status
    granted = broker.call(lambda one: one.admin.permissions("public/default"))
    assert granted == ({"eve": ["produce"]} if status == 204 else {})


@pytest.mark.parametrize(
    ("query", "header", "named"),
    [("", "out", "out"), ("?listenerName=in", "out", "in"), ("?listenerName=in", "", "in"), ("", "", None)],
)
def test_a_listener_is_named_by_the_query_or_else_by_a_header(broker, query, header, named):
    url = f"{broker.admin_url}/lookup/v2/topic/persistent/public/default/t{query}"
    status, body = ask("GET", url, **({"X-Pulsar-ListenerName": header} if header else {}))
    if named is None:
        assert status == 200
    else:
        assert (status, json.loads(body)) == (500, {"reason": f"the broker do not have {named} listener"})


def test_without_a_body_no_type_is_needed(broker):
    assert raw(broker, request("PUT", "/admin/v2/persistent/public/default/t")) == 204


@pytest.mark.parametrize("token", ["\xff", "\xed\xa0\x80", "a.b.c", "\xff.\xff.\xff"])
def test_a_token_that_is_no_text_is_not_valid(token):
    with EmbeddedBroker({"authenticationEnabled": "true", "tokenSecretKey": TOKEN_SECRET_KEY}) as broker:
        assert raw(broker, request("GET", "/admin/v2/clusters", Authorization=f"Bearer {token}")) == 401


@pytest.mark.parametrize("name", [b"\xff", b"%ff", b"%ed%a0%80", b"\xed\xa0\x80"])
@pytest.mark.parametrize("place", ["path", "query"])
def test_names_that_are_no_text_are_refused(broker, name, place):
    path = b"/admin/v2/persistent/public/default/" + (name if place == "path" else b"t?force=" + name)
    method = b"PUT" if place == "path" else b"DELETE"
    status = raw(broker, method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status is not None
    assert 400 <= status < 500
    assert broker.call(lambda one: one.persistent_topics("public/default")) == []


IDLE = {"httpServerIdleTimeout": "100"}


@pytest.mark.parametrize("sent", [b"", b"GET /admin/v2/clu", b"GET /admin/v2/clusters HTTP/1.1\r\nHost: local"])
@pytest.mark.parametrize("later", [False, True])
def test_half_a_head_ends_with_the_connection(sent, later):
    with EmbeddedBroker(IDLE) as broker, connection(broker) as peer:
        if later:
            peer.sendall(request("GET", "/admin/v2/clusters"))
            assert peer.recv(65536).startswith(b"HTTP/1.1 200")
        peer.sendall(sent)
        assert peer.recv(65536) == b""


def test_half_a_body_is_answered_by_408():
    with EmbeddedBroker(IDLE) as broker:
        data = request("POST", f"{PERMISSIONS}/eve", b'["produce"]', Content_Type="application/json")
        assert raw(broker, data[:-3]) == 408
        assert broker.call(lambda one: one.admin.permissions("public/default")) == {}


def test_an_answer_that_nobody_reads_ends_the_connection():
    with EmbeddedBroker({**IDLE, "maxHttpServerConnections": "1"}) as broker, socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("127.0.0.1", int(broker.admin_url.rpartition(":")[2])))
        broker.call(lambda one: [one.admin.create_topic(f"persistent://public/default/{'x' * 1000}{n}") for n in range(8000)])
        peer.sendall(request("GET", "/admin/v2/persistent/public/default"))
        assert raw(broker, request("GET", "/admin/v2/clusters")) == 200, "there is room for another one again"


@pytest.mark.parametrize(
    ("settings", "sent", "status"),
    [
        ({"httpMaxRequestHeaderSize": "500"}, {"X": "y" * 400}, 200),
        ({"httpMaxRequestHeaderSize": "500"}, {"X": "y" * 500}, 431),
        ({}, {"X": "y" * 8000}, 200),
        ({}, {"X": "y" * 8192}, 431),
    ],
)
def test_a_head_that_is_too_large(settings, sent, status):
    with EmbeddedBroker(settings) as broker:
        assert raw(broker, request("GET", "/admin/v2/clusters", **sent)) == status


def test_a_body_beyond_the_setting():
    with EmbeddedBroker({"httpMaxRequestSize": "11"}) as broker:
        for body, status in ((b'["produce"]', 204), (b'["produce"] ', 400)):
            assert raw(broker, request("POST", f"{PERMISSIONS}/eve", body, Content_Type="application/json")) == status


def test_requests_have_a_rate():
    with EmbeddedBroker({"httpRequestsLimitEnabled": "true", "httpRequestsMaxPerSecond": "0.001"}) as broker:
        assert [raw(broker, request("GET", "/admin/v2/clusters")) for _ in range(3)] == [200, 429, 429]


@pytest.mark.parametrize("tls", [False, True])
def test_connections_beyond_the_limit_wait(certificate, tls):
    settings = {"maxHttpServerConnections": "2", **certificate.settings}
    with EmbeddedBroker(settings) as broker, contextlib.ExitStack() as stack:
        two = [stack.enter_context(connection(broker)) for _ in range(2)]
        for peer in two:
            peer.sendall(request("GET", "/admin/v2/clusters"))
            assert peer.recv(65536).startswith(b"HTTP/1.1 200")
        third = stack.enter_context(connection(broker, broker.admin_url_tls if tls else broker.admin_url))
        third.settimeout(0.2)
        if tls:
            with pytest.raises(TimeoutError):
                certificate.trusting.wrap_socket(third, server_hostname="127.0.0.1")
            return
        third.sendall(request("GET", "/admin/v2/clusters"))
        with pytest.raises(TimeoutError):
            third.recv(65536)
        two[0].close()
        third.settimeout(DEADLINE)
        assert third.recv(65536).startswith(b"HTTP/1.1 200")


def test_handshakes_that_fail_leave_room(certificate):
    with EmbeddedBroker({"maxHttpServerConnections": "1", **certificate.settings}) as broker:
        for _ in range(5):
            with connection(broker, broker.admin_url_tls) as peer:
                peer.sendall(request("GET", "/admin/v2/clusters"))
                with contextlib.suppress(ConnectionResetError):
                    while peer.recv(65536):
                        pass
        assert raw(broker, request("GET", "/admin/v2/clusters")) == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large(broker, chunked):
    body = json.dumps(["x" * admin_http.BODY_LIMIT]).encode()
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    fields = {"Content_Length": "", "Transfer_Encoding": "chunked"} if chunked else {"Content_Length": str(len(body))}
    assert raw(broker, request("POST", f"{PERMISSIONS}/eve", b"", Content_Type="application/json", **fields) + framed) == 413


def test_tls_for_those_who_trust_the_authority(certificate):
    with EmbeddedBroker(certificate.settings) as broker:
        url = f"{broker.admin_url_tls}/admin/v2/clusters"
        for _ in range(2):
            with urllib.request.urlopen(url, context=certificate.trusting, timeout=DEADLINE) as answer:
                assert json.load(answer) == ["standalone"]
            broker.stop()
            broker.start()
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            urllib.request.urlopen(url, timeout=DEADLINE)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            urllib.request.urlopen(url.replace("https:", "http:"), timeout=DEADLINE)
        assert raw(broker, request("GET", "/admin/v2/clusters")) == 200


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"webServicePortTls": "x"}, "webServicePortTls is a port, or nothing, not 'x'"),
        ({"webServicePortTls": "70000"}, "webServicePortTls is a port"),
        ({"webServicePortTls": "0"}, "TLS needs tlsCertificateFilePath"),
        ({"webServicePortTls": "0", "tlsCertificateFilePath": "x"}, "TLS needs tlsKeyFilePath"),
        ({"webServicePortTls": "0", "tlsCertificateFilePath": "x", "tlsKeyFilePath": "y"}, "No such file"),
        ({"httpRequestsMaxPerSecond": "0"}, "is a number above 0"),
    ],
)
def test_settings_that_do_not_fit(settings, words):
    with pytest.raises(ValueError, match=words), EmbeddedBroker(settings):
        pass


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        (b"garbage\r\n\r\n", "refused an HTTP request of 127.0.0.1 with 400: Invalid method encountered"),
        (b"G\xc3T / HTTP/1.1\r\n\r\n", "refused an HTTP request of 127.0.0.1 with 400: "),
        (request("GET", "/admin/v2/clusters", X="y" * 90_000), "refused an HTTP request of 127.0.0.1 with 400: Got more than 16384 bytes"),
        (request("GET", "/admin/v2/clusters", Host="elsewhere"), "refused GET /admin/v2/clusters of 127.0.0.1 with 421: "),
    ],
)
def test_what_is_refused_before_the_broker_sees_it_is_logged_in_one_line(sent, line):
    lines: list[str] = []

    async def ask() -> bytes:
        async with serving(Configuration(), log=lines.append) as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(running.admin_url.rpartition(":")[2]))
            writer.write(sent)
            async with asyncio.timeout(DEADLINE):
                answer = await reader.readline()
            writer.close()
        return answer

    assert int(asyncio.run(ask()).split()[1]) >= 400
    (found,) = [one for one in lines if one.startswith("refused")]
    assert found.startswith(line)
    assert found.isprintable()
