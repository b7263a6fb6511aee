"""Tokens that expire on open connections: what the cases, which wait for real brokers, leave out."""

import base64

import jwt
import pytest

from refimpl.broker import Broker, Configuration
from refimpl.wire import command_name
from tests.fakes.broker_peer import Peer

KEY = b"0123456789abcdef0123456789abcdef"
DAY = 1_700_000_000.0


def token(role="user", **claims):
    return jwt.encode({"sub": role, **claims}, KEY, algorithm="HS256").encode()


def world(check=10):
    settings = {
        "authenticationEnabled": "true",
        "tokenSecretKey": f"data:;base64,{base64.b64encode(KEY).decode()}",
        "authenticationRefreshCheckSeconds": str(check),
        "keepAliveIntervalSeconds": "100000",
    }
    return Broker(Configuration.from_settings(settings), wall_clock_offset=DAY)


def connected(broker, data, **flags):
    peer = Peer(broker, connect=False)
    flags = flags or {"supports_auth_refresh": True}
    answer = peer.ask("connect", client_version="x", protocol_version=21, auth_method_name="token", auth_data=data, feature_flags=flags)
    return peer, type(answer).__name__


def told(peer, seconds):
    peer.broker.tick(seconds)
    return [command_name(frame.command) for frame in peer.frames()]


@pytest.mark.parametrize(
    ("claims", "answer"),
    [
        ({"exp": DAY + 1}, "CommandConnected"),
        ({"exp": DAY}, "CommandError"),
        ({"exp": "soon"}, "CommandError"),
        ({"nbf": DAY}, "CommandConnected"),
        ({"nbf": DAY + 1}, "CommandError"),
        ({"iat": DAY + 1000}, "CommandConnected"),
    ],
)
def test_token_counts_from_its_first_second_to_its_last(claims, answer):
    assert connected(world(), token(**claims))[1] == answer


def test_token_is_asked_for_when_the_broker_looks_and_not_before():
    peer, _ = connected(world(), token(exp=DAY + 25))
    assert told(peer, 20) == []
    assert told(peer, 30) == ["authChallenge"]
    peer.send("authResponse", response={"auth_method_name": "token", "auth_data": token(exp=DAY + 45)})
    assert told(peer, 40) == []
    assert told(peer, 50) == ["authChallenge"]
    assert not peer.session.closing
    assert told(peer, 60) == []
    assert peer.session.closing


def test_client_may_bring_a_new_token_unasked():
    peer, _ = connected(world(), token(exp=DAY + 25))
    peer.send("authResponse", response={"auth_method_name": "token", "auth_data": token()})
    assert told(peer, 1000) == []
    assert not peer.session.closing


@pytest.mark.parametrize(("check", "claims"), [(0, {"exp": DAY + 1}), (10, {})])
def test_connection_goes_on_if_nobody_looks_or_its_token_never_expires(check, claims):
    peer, _ = connected(world(check), token(**claims))
    assert told(peer, 1000) == []
    assert not peer.session.closing


def test_answer_without_authentication_ends_the_connection():
    peer = Peer(Broker())
    peer.send("authResponse", response={"auth_method_name": "token", "auth_data": b"x"})
    assert peer.session.closing
