"""Finds out what a target can do before anything is judged, or says in one line why it can't be tested at all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from google.protobuf.message import Message

from conformance.engine.capabilities import CAPABILITIES, DECLARED, FLAGS
from conformance.engine.frames import build_frame
from conformance.running.connection import Connection
from conformance.targets.admin import AdminClient, AdminUnreachable
from conformance.targets.model import Endpoint, TargetError
from refimpl.wire.commands import command_name, sub_message
from refimpl.wire.frames import Frame

_SECONDS = 15.0


@dataclass(frozen=True)
class Probed:
    """What a target announced, and what it can do."""

    server_version: str
    protocol_version: int
    capabilities: Mapping[str, bool]


class _Exchange:
    """Sends one request at a time and waits for the next frame, or for the end of the connection (None)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._events: asyncio.Queue[Frame | str | None] = asyncio.Queue()
        self._connection = Connection(self._events.put_nowait, self._garbage, self._closed)

    def _garbage(self, data: bytes, reason: str) -> None:
        self._events.put_nowait(f"{reason}; its first bytes are {data[:16]!r}")

    def _closed(self, _: Literal["fin", "rst"]) -> None:
        self._events.put_nowait(None)

    async def __aenter__(self) -> _Exchange:
        try:
            await self._connection.open(self._endpoint, _SECONDS)
        except (OSError, TimeoutError) as error:
            hint = "is it running, and is the address right?"
            raise TargetError(f"no connection to {self._endpoint.service_url}: {error or 'time-out'}", hint=hint) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.close()

    async def ask(self, spec: Mapping[str, Any]) -> tuple[str, Message] | None:
        """Return the name and content of the next frame other than PING; None if the connection was closed."""
        await self._connection.send(build_frame(spec), _SECONDS)
        while True:
            try:
                event = await asyncio.wait_for(self._events.get(), _SECONDS)
            except TimeoutError:
                raise TargetError(
                    f"{self._endpoint.service_url} does not answer {next(iter(spec))} within {_SECONDS:g} s", hint="does it speak Pulsar?"
                ) from None
            if isinstance(event, str):
                raise TargetError(f"{self._endpoint.service_url} does not speak Pulsar's protocol: {event}")
            if event is None:
                return None
            if command_name(event.command) != "ping":
                return command_name(event.command), sub_message(event.command)

    async def connect(self) -> Message:
        """Shake hands and return CONNECTED."""
        fields: dict[str, Any] = {"client_version": "pulsar-conformance", "protocol_version": 21}
        if self._endpoint.token is not None:
            fields |= {"auth_method_name": "token", "auth_data": self._endpoint.token.get_secret_value()}
        answer = await self.ask({"connect": fields})
        if answer is None:
            raise TargetError(f"{self._endpoint.service_url} ended the connection after CONNECT", hint="does it need TLS, or a token?")
        name, message = answer
        if name == "error":
            raise TargetError(f"{self._endpoint.service_url} refused CONNECT: {message.message}", hint="give a token")  # type: ignore[attr-defined]
        if name != "connected":
            raise TargetError(f"{self._endpoint.service_url} answered CONNECT with {name}")
        return message


async def probe(endpoint: Endpoint) -> Probed:
    """Find out what a target can do.

    Raises:
        TargetError: It is not reachable, speaks another protocol, or contradicts the declarations in its file.
    """
    async with _Exchange(endpoint) as exchange:
        connected: Any = await exchange.connect()
        flags = connected.feature_flags
        found = dict.fromkeys(DECLARED, False) | {name: bool(getattr(flags, flag)) for name, flag in FLAGS.items()}
        found["connected-flags"] = connected.HasField("feature_flags")
        answer = await exchange.ask(_list_topics("public/default/.*"))
        found["topic-list-filter"] = answer is not None and answer[0].startswith("getTopics") and answer[1].HasField("topics_hash")
    async with _Exchange(endpoint) as exchange:
        await exchange.connect()
        answer = await exchange.ask(_list_topics("public/default/(?!x).*"))
        found["regex-look-around"] = answer is not None and answer[0].startswith("getTopics") and found["topic-list-filter"]
    found["admin"] = await _admin_answers(endpoint)
    found["config"] = False
    found["auto-creation"] = True
    return Probed(connected.server_version, connected.protocol_version, _with_declared(endpoint, found))


async def is_served(endpoint: Endpoint) -> str | None:
    """Tell why a new connection is not served; None if it is."""
    try:
        async with _Exchange(endpoint) as exchange:
            await exchange.connect()
    except TargetError as error:
        return str(error)
    return None


def _list_topics(pattern: str) -> dict[str, Any]:
    return {"getTopicsOfNamespace": {"request_id": 1, "namespace": "public/default", "topics_pattern": pattern}}


async def _admin_answers(endpoint: Endpoint) -> bool:
    if endpoint.admin_url is None:
        return False
    try:
        async with AdminClient(endpoint) as admin:
            return (await admin.call("namespaces", "public")).status < 500
    except AdminUnreachable as error:
        raise TargetError(
            f"the admin URL {endpoint.admin_url} does not answer: {error.message}", hint="leave it out, or correct it"
        ) from None


def _with_declared(endpoint: Endpoint, found: dict[str, bool]) -> dict[str, bool]:
    for name, declared in endpoint.capabilities.items():
        if name not in CAPABILITIES:
            raise TargetError(f"{endpoint.name} declares an unknown capability {name}", hint=f"known: {', '.join(CAPABILITIES)}")
        if name in FLAGS and declared and not found[name]:
            raise TargetError(
                f"{endpoint.name} declares {name}, but its CONNECTED does not set {FLAGS[name]}",
                hint="correct the target file or the broker",
            )
    known = found | dict(endpoint.capabilities)
    return {name: known[name] for name in CAPABILITIES}
