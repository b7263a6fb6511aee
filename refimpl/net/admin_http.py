"""The admin interface over HTTP: passes requests to `refimpl.broker.rest` and sends the responses."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Mapping
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web

from refimpl.broker.rest import refusal
from refimpl.net.driver import Driver
from refimpl.net.listener import Listener
from refimpl.proposals.administration import AdminRequest
from refimpl.proposals.refused import AdminRefused

BODY_LIMIT = 1024 * 1024
"""Maximum size of a request body, in bytes."""
BODY_SECONDS = 30.0
"""Seconds for the body of a request to come."""
IDLE_SECONDS = 60.0
"""Seconds for the head of a request to come, also of the next one on a connection."""
_SHUTDOWN_SECONDS = 1.0
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")

_SILENT = logging.Logger("refimpl.net.admin_http", logging.CRITICAL + 1)


class AdminServer:
    """A server that listens until it is closed.

    Args:
        driver: The driver of the broker.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._listener: Listener | None = None
        self._local = True
        server = web.Server(self._answer, access_log=None, logger=_SILENT, keepalive_timeout=IDLE_SECONDS)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)

    async def listen(self, listening: socket.socket) -> None:
        """Start to accept requests.

        Args:
            listening: A bound socket; the server closes it at the end.
        """
        self._local = ip_address(listening.getsockname()[0]).is_loopback
        await self._runner.setup()
        assert self._runner.server is not None
        self._listener = Listener(listening, self._runner.server)

    async def close(self) -> None:
        """Stop accepting requests."""
        if self._listener is not None:
            await self._listener.close()
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(0)  # others have their turn between pipelined requests
        try:
            _check_headers(request.headers, local=self._local)
            answer = self._driver.admin(_request(request, await _body(request)))
        except AdminRefused as refused:
            answer = refusal(refused.status, refused.reason)
        return web.Response(status=answer.status, body=answer.body, headers={**answer.headers, "Content-Type": answer.content_type})


def _check_headers(headers: Mapping[str, str], *, local: bool) -> None:
    """Check that a request does not come from a page of another site, which a browser of this machine shows.

    Args:
        headers: The headers.
        local: Whether the server listens on this machine only; then its name is that of this machine.

    Raises:
        AdminRefused: The name of the server is another, or the page is of another origin.
    """
    host = headers.get("Host", "")
    name = urlsplit(f"//{host}").hostname if _HOST.fullmatch(host) else None
    if host and (name is None or (local and not _is_this_machine(name))):
        raise AdminRefused(HTTPStatus.MISDIRECTED_REQUEST, "the Host of the request is not this server")
    origin = headers.get("Origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise AdminRefused(HTTPStatus.FORBIDDEN, "requests from pages of other origins are not served")


def _is_this_machine(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


async def _body(request: web.BaseRequest) -> bytes:
    """Return the body of a request.

    Raises:
        AdminRefused: It is too large, does not come in time, or is not JSON by its type.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > BODY_LIMIT:
                    raise AdminRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {BODY_LIMIT} bytes")
    except TimeoutError:
        raise AdminRefused(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {BODY_SECONDS:g} s") from None
    if body and request.content_type != "application/json":
        raise AdminRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a body has to be application/json")
    return bytes(body)


def _request(request: web.BaseRequest, body: bytes) -> AdminRequest:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return AdminRequest(
        method=request.method,
        path=request.raw_path.partition("?")[0],
        query=dict(request.query),
        filters=tuple(request.query.getall("property", ())),
        body=body,
        token=token.strip() if scheme.lower() == "bearer" else None,
    )
