"""Accepting connections: limits, the end of the file descriptors, TLS handshakes that never come."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from refimpl.configuration import Configuration
from refimpl.net.embedded import EmbeddedBroker
from refimpl.net.listener import BACKLOG, Listener
from refimpl.net.serving import serving
from refimpl.wire import FrameDecoder, sub_message
from refimpl.wire.pulsar_api_pb2 import CommandError, NotAllowedError
from tests.fakes.broker_peer import Peer, make_broker
from tests.fakes.link_peers import CONNECT, DEADLINE, PING, SocketPeer, connected


@pytest.mark.parametrize(("key", "others"), [("brokerMaxConnections", "10.0.0.2"), ("brokerMaxConnectionsPerIp", "10.0.0.1")])
def test_connections_beyond_the_limit_are_refused_as_pulsar_does(key, others):
    broker = make_broker(**{key: "2"})
    first, second = broker.connect(0.0, "10.0.0.1"), broker.connect(0.0, others)
    third = broker.connect(0.0, "10.0.0.1")
    (frame,) = FrameDecoder(1 << 20).receive(third.data_to_send())
    answer = sub_message(frame.command)
    assert isinstance(answer, CommandError)
    assert (answer.request_id, answer.error) == (2**64 - 1, NotAllowedError)
    assert answer.message.startswith("Reached the maximum number of connections")
    assert (third.closing, first.closing, second.closing) == (True, False, False)
    assert len(broker.sessions) == 2
    elsewhere = broker.connect(0.0, "10.0.0.3")
    assert elsewhere.closing == (key == "brokerMaxConnections")
    elsewhere.eof(0.0)
    first.eof(0.0)
    assert not broker.connect(0.0, "10.0.0.1").closing, "an ended connection no longer counts"


def test_no_limit_by_default():
    broker = make_broker()
    assert not any(broker.connect(0.0, "10.0.0.1").closing for _ in range(1000))
    assert Peer(broker).ask("ping").DESCRIPTOR.name == "CommandPong"


def test_refused_connection_over_a_socket():
    with EmbeddedBroker({"brokerMaxConnectionsPerIp": "1"}) as broker, connected(broker.service_url) as good:
        late = SocketPeer(broker.service_url)
        with late.socket:
            assert late.receive() == "error"
            assert late.receive() is None
        good.send(PING)
        assert good.receive() == "pong"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("admin", [False, True])
def test_without_file_descriptors_new_connections_are_closed_at_once_and_nothing_is_logged(monkeypatch, capfd, code, admin):
    accept, accepted = socket.socket.accept, []

    def exhausted(listening):
        """Fail as long as the descriptor that was kept is open."""
        listeners = [one for one in all_listeners if one._listening is listening]
        try:
            os.fstat(listeners[0]._spare)
        except OSError:
            accepted.append(1)
            return accept(listening)
        raise OSError(code, os.strerror(code))

    all_listeners = []
    made = Listener.__init__

    def remembered(listener, *args):
        all_listeners.append(listener)
        made(listener, *args)

    async def main():
        monkeypatch.setattr(Listener, "__init__", remembered)
        problems = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with serving(Configuration()) as served:
            good = await asyncio.to_thread(connected_peer, served)
            with good.socket:
                monkeypatch.setattr(socket.socket, "accept", exhausted)
                for _ in range(50):
                    url = served.admin_url if admin else served.service_url
                    reader, writer = await asyncio.open_connection(*url.rpartition("/")[2].split(":"))
                    assert await asyncio.wait_for(reader.read(), DEADLINE) == b""
                    writer.close()
                monkeypatch.setattr(socket.socket, "accept", accept)
                await asyncio.to_thread(served_well, good, served)
        assert (problems, len(accepted)) == ([], 50)

    asyncio.run(main())
    assert capfd.readouterr() == ("", "")


def connected_peer(served) -> SocketPeer:
    peer = SocketPeer(served.service_url)
    peer.send(CONNECT)
    assert peer.receive() == "connected"
    return peer


def served_well(good, served):
    good.send(PING)
    assert good.receive() == "pong"
    with connected(served.service_url) as later:
        later.send(PING)
        assert later.receive() == "pong"


def test_a_burst_of_connections_fits_the_backlog(monkeypatch):
    asked = []
    listen = socket.socket.listen
    monkeypatch.setattr(socket.socket, "listen", lambda one, *size: asked.append(size) or listen(one, *size))
    with EmbeddedBroker():
        pass
    assert asked.count((BACKLOG,)) == 2
    assert BACKLOG >= 4096


def test_settings_are_known_by_pulsars_keys():
    found = make_broker(brokerMaxConnections="7").admin.runtime_configuration()
    assert (found["brokerMaxConnections"], found["brokerMaxConnectionsPerIp"]) == ("7", "0")
