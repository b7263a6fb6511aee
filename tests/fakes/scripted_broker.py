"""A broker that says what a test tells it to, for a client without I/O."""

from __future__ import annotations

import random
from typing import Any

from refimpl.client import ClientCore, ClientOptions, Connection
from refimpl.wire import Frame, FrameDecoder, command, command_name, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata

URL = "pulsar://broker:6650"
TOPIC = "persistent://public/default/t"
FLAGS = {"supports_topic_watchers": True, "supports_topic_watcher_reconcile": True}


class ScriptedBroker:
    """One client and the broker's end of its newest connection; `now` is the time for both."""

    def __init__(self, options: ClientOptions | None = None, **choices: Any) -> None:
        self.log: list[str] = []
        self.core = ClientCore(URL, options, random=random.Random(7), log=self.log.append, **choices)
        self.now = 0.0
        self.connection: Connection = None  # type: ignore[assignment]
        self.frames: list[Frame] = []
        self._decoder = FrameDecoder()

    def begin(self, call: Any, *arguments: Any) -> Any:
        """Let the application call something."""
        with self.core.entered(self.now):
            return call(*arguments)

    def dialled(self) -> list[Connection]:
        """Return what is to be dialled."""
        return self.core.connections_to_open()

    def accept(self, **connected: Any) -> Frame:
        """Accept the one connection that the client dials; return its CONNECT."""
        (self.connection,) = self.dialled()
        self._decoder, self.frames = FrameDecoder(), []
        self.connection.opened(self.now)
        connect = self.expect("connect")
        self.send("connected", **{"server_version": "scripted", "protocol_version": 21, "feature_flags": FLAGS, **connected})
        return connect

    def sent(self) -> list[str]:
        """Return the names of the commands that the client has sent since, and forget them."""
        self._read()
        frames, self.frames = self.frames, []
        return [command_name(frame.command) for frame in frames]

    def expect_frame(self, name: str) -> Frame:
        """Return the next frame, which must be of that kind."""
        self._read()
        assert self.frames, f"nothing was sent, not {name}"
        frame = self.frames.pop(0)
        assert command_name(frame.command) == name
        return frame

    def expect(self, name: str) -> Any:
        """Return the next command, which must be of that kind."""
        return getattr(self.expect_frame(name).command, name)

    def send(self, name: str, payload: bytes | None = None, **fields: Any) -> None:
        """Send a command."""
        self.deliver(encode_frame(command(name, **fields), payload))

    def deliver(self, data: bytes) -> None:
        """Send bytes."""
        self.connection.receive(data, self.now)

    def cut(self) -> None:
        """Lose the connection."""
        self.connection.eof(self.now)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while (deadline := self.core.next_deadline()) is not None and deadline <= end:
            self.now = deadline
            self.core.tick(self.now)
        self.now = end

    def answer_partitions(self, count: int = 0) -> None:
        """Answer PARTITIONED_METADATA."""
        request = self.expect("partitionMetadata")
        self.send("partitionMetadataResponse", request_id=request.request_id, partitions=count, response="Success")

    def answer_lookup(self, url: str = URL, **fields: Any) -> str:
        """Answer LOOKUP; return its topic."""
        request = self.expect("lookupTopic")
        answer = {"response": "Connect", "authoritative": True, "brokerServiceUrl": url, **fields}
        self.send("lookupTopicResponse", request_id=request.request_id, **answer)
        return str(request.topic)

    def succeed(self, name: str) -> Any:
        """Take a request of that kind and answer it by SUCCESS."""
        request = self.expect(name)
        self.send("success", request_id=request.request_id)
        return request

    def refuse(self, name: str, error: str) -> None:
        """Take a request of that kind and answer it by ERROR."""
        self.send("error", request_id=self.expect(name).request_id, error=error, message="because")

    def answer_producer(self, **fields: Any) -> Any:
        """Take a PRODUCER and accept it."""
        request = self.expect("producer")
        self.send("producer_success", **{"request_id": request.request_id, "producer_name": "p-1", "last_sequence_id": -1, **fields})
        return request

    def message(self, entry: int, body: bytes = b"x", *, header: dict[str, Any] | None = None, **fields: Any) -> None:
        """Deliver an entry to consumer 0."""
        metadata = MessageMetadata(producer_name="p", sequence_id=entry, publish_time=1, **(header or {}))
        message_id = {"ledgerId": 3, "entryId": entry}
        self.send("message", encode_payload(metadata, body), **{"consumer_id": 0, "message_id": message_id, **fields})

    def _read(self) -> None:
        if self.connection is not None:
            while data := self.connection.data_to_send(1000):
                self.frames += self._decoder.receive(data)
