"""Brokers of a few lines: one that behaves, and others that are named by their fault."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from conformance.targets import AttachedTarget, Endpoint
from refimpl.wire import FrameDecoder, WireError, command, command_name, encode_frame

PONG = encode_frame(command("pong"))
TOPIC_NOT_FOUND = 11
PLAIN = Endpoint(name="peer", service_url="pulsar://x")


class Peer:
    """A broker of a few lines; a subclass is named by its fault."""

    async def answer(self, frame, writer):
        name, message = command_name(frame.command), getattr(frame.command, command_name(frame.command))
        if name == "connect":
            writer.write(encode_frame(command("connected", server_version="Peer", protocol_version=21)))
        elif name == "ping":
            writer.write(PONG)
        elif name == "partitionMetadata":
            writer.write(encode_frame(command("partitionMetadataResponse", request_id=message.request_id)))
        elif name == "getTopicsOfNamespace":
            writer.write(encode_frame(command("getTopicsOfNamespaceResponse", request_id=message.request_id)))
        elif name == "lookupTopic":
            writer.write(encode_frame(command("lookupTopicResponse", request_id=message.request_id, response=1)))
        elif name in ("subscribe", "producer"):
            writer.write(encode_frame(command("error", request_id=message.request_id, error=TOPIC_NOT_FOUND, message="no such topic")))

    async def serve(self, reader, writer):
        decoder = FrameDecoder()
        with contextlib.suppress(WireError, ConnectionError):
            while data := await reader.read(65536):
                for frame in decoder.receive(data):
                    await self.answer(frame, writer)
        writer.close()


class PongTwice(Peer):
    async def answer(self, frame, writer):
        await super().answer(frame, writer)
        if command_name(frame.command) == "ping":
            writer.write(PONG)


class LatePong(Peer):
    """Answers its first PINGs half a second late."""

    def __init__(self, late):
        self.late = late

    async def answer(self, frame, writer):
        if command_name(frame.command) == "ping" and self.late:
            self.late -= 1
            asyncio.get_running_loop().call_later(0.5, writer.write, PONG)
        else:
            await super().answer(frame, writer)


class NoPong(Peer):
    async def answer(self, frame, writer):
        if command_name(frame.command) != "ping":
            await super().answer(frame, writer)


class BusyAtFirst(Peer):
    """Leaves its first PINGs without an answer."""

    def __init__(self, busy):
        self.busy = busy
        self.asked = 0

    async def answer(self, frame, writer):
        if command_name(frame.command) == "ping":
            self.asked += 1
            if self.asked <= self.busy:
                return
        await super().answer(frame, writer)


class SaysBefore(Peer):
    """Sends a command of its own before it answers its first PINGs."""

    def __init__(self, times, name, **fields):
        self.times = times
        self.said = encode_frame(command(name, **fields))

    async def answer(self, frame, writer):
        if command_name(frame.command) == "ping" and self.times:
            self.times -= 1
            writer.write(self.said)
        await super().answer(frame, writer)


class HalfPong(Peer):
    async def answer(self, frame, writer):
        if command_name(frame.command) != "ping":
            await super().answer(frame, writer)
        else:
            writer.write(PONG[:7])
            writer.close()


class GarbagePong(Peer):
    async def answer(self, frame, writer):
        if command_name(frame.command) != "ping":
            await super().answer(frame, writer)
        else:
            writer.write(b"\x00\x00\x00\x04garbage")


class Flood(Peer):
    async def answer(self, frame, writer):
        await super().answer(frame, writer)
        if command_name(frame.command) == "ping":
            writer.write(PONG * 20000)


class EndlessPings(Peer):
    """Says nothing but PING from the first frame of some kind on, as fast as it is read."""

    def __init__(self, after):
        self.after = after

    async def answer(self, frame, writer):
        await super().answer(frame, writer)
        try:
            while command_name(frame.command) == self.after:
                writer.write(encode_frame(command("ping")) * 5000)
                await writer.drain()
        finally:
            if command_name(frame.command) == self.after:
                writer.transport.abort()


class DripOfPings(Peer):
    """Says nothing but a PING now and then."""

    async def answer(self, frame, writer):
        try:
            while True:
                writer.write(encode_frame(command("ping")))
                await writer.drain()
                await asyncio.sleep(0.05)
        finally:
            writer.transport.abort()


class SpeaksHttp(Peer):
    async def serve(self, reader, writer):
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()


class RefusesAfterPing(Peer):
    """Refuses CONNECT from the first PING on, as a broker does to which a token has expired."""

    refuses = False

    async def answer(self, frame, writer):
        if command_name(frame.command) == "ping":
            self.refuses = True
            writer.close()
        elif self.refuses:
            writer.write(encode_frame(command("error", request_id=0, error="AuthenticationError", message="expired")))
        else:
            await super().answer(frame, writer)


class DiesAtPing(Peer):
    """Takes no connection any more after the first PING."""

    server: asyncio.Server

    async def answer(self, frame, writer):
        if command_name(frame.command) != "ping":
            await super().answer(frame, writer)
        else:
            self.server.close()
            writer.close()


class HangsAtPing(Peer):
    """Takes connections and says nothing any more after the first PING, of which it tells."""

    def __init__(self, hangs: Callable[[], None]) -> None:
        self._hangs, self._hung = hangs, False

    async def answer(self, frame, writer):
        if command_name(frame.command) == "ping" and not self._hung:
            self._hung = True
            self._hangs()
        if not self._hung:
            await super().answer(frame, writer)


@contextlib.asynccontextmanager
async def running(peer: Peer, endpoint: Endpoint = PLAIN, tls: ssl.SSLContext | None = None) -> AsyncIterator[AttachedTarget]:
    serving: list[asyncio.Task[None]] = []

    async def serve(reader, writer):
        serving.append(asyncio.current_task())
        try:
            await peer.serve(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    peer.server = server  # type: ignore[attr-defined]
    port = server.sockets[0].getsockname()[1]
    try:
        scheme = "pulsar+ssl" if tls else "pulsar"
        yield AttachedTarget(replace(endpoint, service_url=f"{scheme}://127.0.0.1:{port}"))
    finally:  # what is still open when the loop ends is a warning in a later test
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
