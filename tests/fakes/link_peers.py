"""What the tests of the network share: frames, a peer over a socket, a peer over a link."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from refimpl.wire import FrameDecoder, command, command_name, encode_frame

DEADLINE = 20.0
"""Seconds within which everything has to happen: long for a busy machine, and below the 30 s of a keep-alive, which would send what was left."""
CONNECT = encode_frame(command("connect", client_version="test", protocol_version=21))
PING = encode_frame(command("ping"))
TOPIC = "persistent://public/default/t"


def metadata(request_id: int, topic: str = TOPIC) -> bytes:
    return encode_frame(command("partitionMetadata", topic=topic, request_id=request_id))


def list_topics(request_id: int, namespace: str = "public/default") -> bytes:
    return encode_frame(command("getTopicsOfNamespace", namespace=namespace, request_id=request_id))


class SocketPeer:
    """A blocking client with a deadline on everything."""

    def __init__(self, url: str) -> None:
        host, _, port = url.rpartition("/")[2].partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=DEADLINE)
        self.decoder = FrameDecoder(1 << 30)
        self.frames: list = []

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> str | None:
        """Return the name of the next command; None at the end."""
        found = self.next()
        return None if found is None else command_name(found)

    def next(self):
        """Return the next command; None at the end."""
        while not self.frames:
            data = self.socket.recv(65536)
            if not data:
                return None
            self.frames += self.decoder.receive(data)
        return self.frames.pop(0).command


@contextlib.contextmanager
def connected(url: str) -> Iterator[SocketPeer]:
    peer = SocketPeer(url)
    with peer.socket:
        peer.send(CONNECT)
        assert peer.receive() == "connected"
        yield peer


class LinkPeer:
    """The other end of a connection over a link: keeps what came."""

    def __init__(self, link) -> None:
        self.data = b""
        self.names: list[str] = []
        self.closed: str | None = None
        self._decoder = FrameDecoder(1 << 30)
        self.connection = link.connect(self._data, self._closed)

    def _data(self, data: bytes) -> None:
        self.data += data
        self.names += [command_name(frame.command) for frame in self._decoder.receive(data)]

    def _closed(self, how: str) -> None:
        assert self.closed is None
        self.closed = how
