"""Finds out what a target can do before anything is judged, or says in one line why it can't be tested at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from google.protobuf.message import Message

from conformance.engine.capabilities import CAPABILITIES, DECLARED, FLAGS
from conformance.engine.frames import build_frame
from conformance.names import did_you_mean
from conformance.running.connection import Connection
from conformance.targets.admin import AdminClient, AdminUnreachable
from conformance.targets.model import Endpoint, TargetError
from refimpl.wire.commands import command_name, sub_message
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import ServerError

_SECONDS = 15.0
_SECONDS_UNSURE = 5.0
"""For a request that a target may leave unanswered."""
_REFUSALS = frozenset({ServerError.UnsupportedVersionError, ServerError.NotAllowedError})
"""Errors by which a broker says that it does not look up layouts at all."""


@dataclass(frozen=True)
class Probed:
    """What a target announced, and what it can do."""

    server_version: str
    protocol_version: int
    capabilities: Mapping[str, bool]


class _Exchange:
    """Sends one request at a time and waits for the next frame other than PING, or for the end of the connection (None)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._events: asyncio.Queue[Frame | str | None] = asyncio.Queue()
        self._connection = Connection(self._heard, self._garbage, self._closed)

    def _heard(self, frame: Frame) -> None:
        if command_name(frame.command) != "ping":
            self._events.put_nowait(frame)

    def _garbage(self, data: bytes, reason: str) -> None:
        what = f"does not speak Pulsar's protocol: {reason}; its first bytes are {data[:16]!r}" if data else f"floods: {reason}"
        self._events.put_nowait(what)

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
    """Find out what a target can do. A feature flag counts if one of several connections tells it, as the cases judge whether all do.

    Raises:
        TargetError: It is not reachable, speaks another protocol, or contradicts the declarations in its file.
    """
    async with _Exchange(endpoint) as exchange:
        connected: Any = await exchange.connect()
        found = dict.fromkeys(DECLARED, False)
        told = [connected.feature_flags]
        answer = await exchange.ask(_list_topics("public/default/.*"))
        found["topic-list-filter"] = answer is not None and answer[0].startswith("getTopics") and answer[1].HasField("topics_hash")
    async with _Exchange(endpoint) as exchange:
        second: Any = await exchange.connect(FLAGS.values())
        told.append(second.feature_flags)
        found |= {name: any(getattr(flags, flag) for flags in told) for name, flag in FLAGS.items()}
        found["connected-flags"] = connected.HasField("feature_flags")
        answer = await exchange.ask(_list_topics("public/default/(?!x).*"))
        found["regex-look-around"] = answer is not None and answer[0].startswith("getTopics") and found["topic-list-filter"]
    found["scalable-layout"] = found["scalable-topics"] and await _looks_up_layouts(endpoint)
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


async def _looks_up_layouts(endpoint: Endpoint) -> bool:
    """Ask for the layout of a scalable topic that does not exist: a broker that only has the watch does not answer, or refuses."""
    async with _Exchange(endpoint) as exchange:
        await exchange.connect()
        request = {"session_id": 1, "topic": "topic://public/default/pulsar-conformance-no-such-topic", "create_if_missing": False}
        answer = await exchange.ask({"scalableTopicLookup": request}, _SECONDS_UNSURE)
        if answer is None or answer[0] != "scalableTopicUpdate":
            return False
        update: Any = answer[1]
        return not update.HasField("error") or update.error not in _REFUSALS


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


def claimed(endpoint: Endpoint, claims: Iterable[str]) -> Endpoint:
    """Return an endpoint that declares further capabilities, as its file could."""
    return replace(endpoint, capabilities={**endpoint.capabilities, **dict.fromkeys(claims, True)})


def _with_declared(endpoint: Endpoint, found: dict[str, bool]) -> dict[str, bool]:
    for name, declared in endpoint.capabilities.items():
        if name not in CAPABILITIES:
            meant = did_you_mean(name, CAPABILITIES)
            raise TargetError(f"{endpoint.name} declares an unknown capability {name}{meant}", hint=f"known: {', '.join(CAPABILITIES)}")
        if name in FLAGS and name not in DECLARED and declared and not found[name]:
            raise TargetError(
                f"{endpoint.name} declares {name}, but its CONNECTED does not set {FLAGS[name]}",
                hint="correct the declaration or the broker",
            )
    known = found | dict(endpoint.capabilities)
    return {name: known[name] for name in CAPABILITIES}
