"""The admin interface over HTTP and HTTPS: passes requests to `refimpl.broker.rest` and sends the responses."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from refimpl.broker import Member
from refimpl.broker.log import Log
from refimpl.broker.rest import refusal
from refimpl.net.driver import Driver
from refimpl.net.listener import Listener, Room
from refimpl.proposals.administration import AdminRequest
from refimpl.proposals.refused import AdminRefused

BODY_LIMIT = 1024 * 1024
"""Maximum size of a request body, in bytes."""
_JSON_TYPE = re.compile(r"application/([-.a-z]+\+)?json")
_SHUTDOWN_SECONDS = 1.0
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")


class _Unreadable(logging.Handler):
    """Writes what can't be read as HTTP into the log of the broker, where all other refusals are."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        whose = str(*record.args) if isinstance(record.args, tuple) and len(record.args) == 1 else ""
        if error is not None:
            reason = str(getattr(error, "message", error)).partition("\n")[0].rstrip(":")
            self._log.refused("an HTTP request", str(getattr(error, "code", 500)), reason or type(error).__name__, whose)


class _Counting(web.Server):
    """Tells when a connection has ended."""

    def __init__(self, room: Room, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._room = room

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._room.leave()


class AdminServer:
    """A server that listens until it is closed.

    Args:
        driver: The driver of the broker.
        member: The broker of a cluster that is asked; None: the only one.
    """

    def __init__(self, driver: Driver, member: Member | None = None) -> None:
        self._driver = driver
        self._member = member
        self._settings = settings = driver.broker.configuration
        self._idle = settings.http_server_idle_timeout / 1000
        self._head = settings.http_max_request_header_size
        self._due = 0.0
        self._turn = asyncio.Lock()
        self._listeners: list[Listener] = []
        self._local = True
        self._room = Room(settings.max_http_server_connections)
        options = {"max_line_size": 2 * self._head, "max_field_size": 2 * self._head, "keepalive_timeout": self._idle}
        logger = logging.Logger(__name__)
        logger.addHandler(_Unreadable(driver.broker.log))
        server = _Counting(self._room, self._answer, access_log=None, logger=logger, handler_cancellation=True, **options)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)

    async def listen(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Start to accept requests.

        Args:
            listening: A bound socket; the server closes it at the end.
            tls: The TLS context; None: plain TCP.
        """
        self._local = ip_address(listening.getsockname()[0]).is_loopback
        if self._runner.server is None:
            await self._runner.setup()
        assert self._runner.server is not None
        self._listeners.append(Listener(listening, self._runner.server, tls, self._room))

    async def close(self) -> None:
        """Stop accepting requests."""
        for listener in self._listeners:
            await listener.close()
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._check_rate()
            self._check_head(request)
            _check_headers(request.headers, local=self._local, advertised=self._settings.advertised_address)
            asked = _request(request, await self._body(request))
            async with self._turn:
                await asyncio.sleep(0)  # others have theirs between two requests, whatever connections these are from
                answer = self._driver.admin(asked, self._member)
        except AdminRefused as refused:
            self._driver.broker.log.refused(f"{request.method} {request.path}", str(refused.status), refused.reason, request.remote or "")
            answer = refusal(refused)
        response = web.Response(status=answer.status, body=answer.body, headers={**answer.headers, "Content-Type": answer.content_type})
        return await self._sent(request, response)

    async def _sent(self, request: web.BaseRequest, response: web.Response) -> web.Response:
        """Send a response; drop the connection if its peer does not read."""
        try:
            async with asyncio.timeout(self._idle):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response

    def _check_rate(self) -> None:
        """Count a request against the rate; a second without requests may be made up for."""
        if not self._settings.http_requests_limit_enabled:
            return
        now = self._driver.loop.time()
        if self._due > now:
            raise AdminRefused(HTTPStatus.TOO_MANY_REQUESTS, "Too Many Requests")
        self._due = max(self._due, now - 1) + 1 / self._settings.http_requests_max_per_second

    def _check_head(self, request: web.BaseRequest) -> None:
        size = len(request.raw_path) + sum(len(name) + len(value) for name, value in request.raw_headers)
        if size > self._head:
            raise AdminRefused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "Request Header Fields Too Large")

    async def _body(self, request: web.BaseRequest) -> bytes:
        """Return the body of a request.

        Raises:
            AdminRefused: It is too large, does not come in time, or is not JSON by its type.
        """
        allowed = self._settings.http_max_request_size
        body = bytearray()
        try:
            async with asyncio.timeout(self._idle):
                async for piece in request.content.iter_any():
                    body += piece
                    if 0 <= allowed < len(body):
                        raise AdminRefused(HTTPStatus.BAD_REQUEST, f"a body may have {allowed} bytes")
                    if len(body) > BODY_LIMIT:
                        raise AdminRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {BODY_LIMIT} bytes")
        except TimeoutError:
            raise AdminRefused(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {self._idle:g} s") from None
        if body and not _JSON_TYPE.fullmatch(request.content_type):
            raise AdminRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a body has to be application/json")
        return bytes(body)


def _check_headers(headers: Mapping[str, str], *, local: bool, advertised: str) -> None:
    """Check that a request does not come from a page of another site, which a browser of this machine shows.

    Args:
        headers: The headers.
        local: Whether the server listens on this machine only; then its name is that of this machine, or the advertised one.
        advertised: The host that clients are told, if it is a setting.

    Raises:
        AdminRefused: The name of the server is another, or the page is of another origin.
    """
    host = headers.get("Host", "")
    name = urlsplit(f"//{host}").hostname if _HOST.fullmatch(host) else None
    if host and (name is None or (local and name != advertised.lower() and not _is_this_machine(name))):
        raise AdminRefused(HTTPStatus.MISDIRECTED_REQUEST, "the Host of the request is not this server")
    origin = headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise AdminRefused(HTTPStatus.FORBIDDEN, "requests from pages of other origins are not served")


def _is_this_machine(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def _request(request: web.BaseRequest, body: bytes) -> AdminRequest:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    query = dict(request.query)
    if (listener := request.headers.get("X-Pulsar-ListenerName")) is not None:
        query.setdefault("listenerName", listener)
    return AdminRequest(
        method=request.method,
        path=request.raw_path.partition("?")[0],
        query=query,
        filters=tuple(request.query.getall("property", ())),
        body=body,
        token=token.strip() if scheme.lower() == "bearer" else None,
        address=request.remote or "",
        content_type=request.content_type,
    )
