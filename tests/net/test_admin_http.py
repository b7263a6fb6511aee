"""The admin interface over HTTP: poison in raw bytes, requests that stay half-sent, requests from pages of other sites."""

from __future__ import annotations

import contextlib
import json
import socket

import pytest

from refimpl.net import admin_http
from refimpl.net.embedded import EmbeddedBroker
from tests.fakes.link_peers import DEADLINE
from tests.samples.tokens import TOKEN_SECRET_KEY

PERMISSIONS = "/admin/v2/namespaces/public/default/permissions"


@pytest.fixture
def broker():
    with EmbeddedBroker() as running:
        yield running


@contextlib.contextmanager
def connection(broker):
    host, port = broker.admin_url.rpartition("/")[2].split(":")
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


@pytest.mark.parametrize("sent", [b"", b"GET /admin/v2/clu", b"GET /admin/v2/clusters HTTP/1.1\r\nHost: local"])
@pytest.mark.parametrize("later", [False, True])
def test_half_a_head_ends_with_the_connection(monkeypatch, sent, later):
    monkeypatch.setattr(admin_http, "IDLE_SECONDS", 0.1)
    with EmbeddedBroker() as broker, connection(broker) as peer:
        if later:
            peer.sendall(request("GET", "/admin/v2/clusters"))
            assert peer.recv(65536).startswith(b"HTTP/1.1 200")
        peer.sendall(sent)
        assert peer.recv(65536) == b""


def test_half_a_body_is_answered_by_408(monkeypatch):
    monkeypatch.setattr(admin_http, "BODY_SECONDS", 0.1)
    with EmbeddedBroker() as broker:
        data = request("POST", f"{PERMISSIONS}/eve", b'["produce"]', Content_Type="application/json")
        assert raw(broker, data[:-3]) == 408
        assert broker.call(lambda one: one.admin.permissions("public/default")) == {}


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large(broker, chunked):
    body = json.dumps(["x" * admin_http.BODY_LIMIT]).encode()
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    fields = {"Content_Length": "", "Transfer_Encoding": "chunked"} if chunked else {"Content_Length": str(len(body))}
    assert raw(broker, request("POST", f"{PERMISSIONS}/eve", b"", Content_Type="application/json", **fields) + framed) == 413
