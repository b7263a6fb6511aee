"""The admin interface over HTTP: passes requests to `refimpl.broker.rest` and sends the responses."""

from __future__ import annotations

import asyncio
import logging
import socket
from http import HTTPStatus

from aiohttp import web

from refimpl.broker.rest import refusal
from refimpl.net.driver import Driver
from refimpl.proposals.administration import AdminRequest

BODY_LIMIT = 1024 * 1024
"""Maximum size of a request body, in bytes."""
_SHUTDOWN_SECONDS = 1.0

_SILENT = logging.Logger("refimpl.net.admin_http", logging.CRITICAL + 1)


class AdminServer:
    """A server that listens until it is closed.

    Args:
        driver: The driver of the broker.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        server = web.Server(self._answer, access_log=None, logger=_SILENT)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)

    async def listen(self, listening: socket.socket) -> None:
        """Start to accept requests.

        Args:
            listening: A bound socket; the server closes it at the end.
        """
        await self._runner.setup()
        await web.SockSite(self._runner, listening).start()

    async def close(self) -> None:
        """Stop accepting requests."""
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(0)  # others have their turn between pipelined requests
        body = await _body(request)
        if body is None:
            answer = refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {BODY_LIMIT} bytes")
        else:
            answer = self._driver.admin(_request(request, body))
        return web.Response(status=answer.status, body=answer.body, headers={**answer.headers, "Content-Type": answer.content_type})


async def _body(request: web.BaseRequest) -> bytes | None:
    if (request.content_length or 0) > BODY_LIMIT:
        return None
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > BODY_LIMIT:
            return None
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
