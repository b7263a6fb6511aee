"""Requests and answers, one at a time: what the harness itself asks a target before and between conversations."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from google.protobuf.message import Message

from conformance.engine.frames import build_frame
from conformance.running.connection import Connection
from conformance.targets.model import TOKEN_REFUSED, ConnectRefused, Endpoint, TargetError
from conformance.targets.tls import tls_problem
from refimpl.wire.commands import command_name, sub_message
from refimpl.wire.frames import Frame

_SECONDS = 15.0


class Exchange:
    """Sends one request at a time and waits for the next frame other than PING, or for the end of the connection (None)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._events: asyncio.Queue[Frame | str | None] = asyncio.Queue()
        self._connection = Connection(self._heard, self._garbage, self._closed)

    def _heard(self, frame: Frame) -> None:
        if command_name(frame.command) != "ping":
            self._events.put_nowait(frame)

    def _garbage(self, data: bytes, reason: str) -> None:
        what = f"does not speak Pulsar's protocol: {first_bytes(data)} ({reason})" if data else f"floods: {reason}"
        self._events.put_nowait(what)

    def _closed(self, _: Literal["fin", "rst"]) -> None:
        self._events.put_nowait(None)

    async def __aenter__(self) -> Exchange:
        try:
            await self._connection.open(self._endpoint, _SECONDS)
        except (OSError, TimeoutError) as error:
            why, hint = tls_problem(error) or (why_not_connected(error), "is it running, and is the address right?")
            raise TargetError(f"no connection to {self._endpoint.service_url}: {why}", hint=hint) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.close()

    async def ask(self, spec: Mapping[str, Any], seconds: float | None = None) -> tuple[str, Message] | None:
        """Return the name and content of the next frame other than PING; None if the connection was closed.

        With `seconds` it is also None if nothing came in that time.
        """
        try:
            async with asyncio.timeout(_SECONDS if seconds is None else seconds):
                await self._connection.send(build_frame(spec), _SECONDS)
                event = await self._events.get()
        except TimeoutError:
            if seconds is not None:
                return None
            raise TargetError(
                f"{self._endpoint.service_url} does not answer {next(iter(spec))} within {_SECONDS:g} s", hint="does it speak Pulsar?"
            ) from None
        if isinstance(event, str):
            raise TargetError(f"{self._endpoint.service_url} {event}")
        return None if event is None else (command_name(event.command), sub_message(event.command))

    async def connect(self, flags: Iterable[str] = ()) -> Message:
        """Shake hands and return CONNECTED; `flags` are the feature flags that the client announces."""
        fields: dict[str, Any] = {"client_version": "pulsar-conformance", "protocol_version": 21}
        if flags:
            fields["feature_flags"] = dict.fromkeys(flags, True)
        if self._endpoint.proxy_to is not None:
            fields["proxy_to_broker_url"] = self._endpoint.proxy_to
        if self._endpoint.credentials is not None:
            method, data = self._endpoint.credentials
            fields |= {"auth_method_name": method, "auth_data": data}
        answer = await self.ask({"connect": fields})
        if answer is None:
            needs = "a client certificate (--tls-certificate)" if self._endpoint.tls else "TLS (pulsar+ssl://)"
            raise TargetError(f"{self._endpoint.service_url} ended the connection after CONNECT", hint=f"does it need {needs}, or a token?")
        name, message = answer
        if name == "error":
            hint = "give a token with --token-file" if self._endpoint.token is None else TOKEN_REFUSED
            raise ConnectRefused(f"{self._endpoint.service_url} refused CONNECT: {message.message}", hint=hint)  # type: ignore[attr-defined]
        if name != "connected":
            raise TargetError(f"{self._endpoint.service_url} answered CONNECT with {name}")
        return message


def first_bytes(data: bytes) -> str:
    """Say what a peer begins with that is none of Pulsar's frames: text as a text, other bytes as hexadecimal digits."""
    if data.startswith(b"HTTP/"):
        return "a web server answers, which may be the port of the admin interface"
    first = data[:16]
    text = first.rstrip(b"\r\n")
    shown = f'"{text.decode("ascii")}"' if text and text.isascii() and text.decode("ascii").isprintable() else first.hex(" ")
    return f"its first bytes are {shown}"


def why_not_connected(error: OSError | TimeoutError) -> str:
    """Say why there is no connection, in the words of the system; each reason once if a host has several addresses."""
    numbers = re.findall(r"\[Errno (\d+)\] Connect call failed", str(error))
    if numbers:
        return ", ".join(dict.fromkeys(os.strerror(int(number)) for number in numbers))
    if not isinstance(error, OSError) or error.errno is None:
        return str(error) or "time-out"
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
