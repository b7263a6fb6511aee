"""Calls of the admin interface: what comes in, and what an extension adds to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

from refimpl.names import DOMAINS
from refimpl.proposals.refused import AdminRefused


@dataclass(frozen=True)
class AdminRequest:
    """A request.

    Attributes:
        method: "GET", "PUT", ...
        path: From its first slash on, still percent-encoded, without the query.
        query: Decoded parameters.
        filters: All values of the parameter `property`, which may come several times.
        body: As it was sent.
        token: What the caller authenticates with.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    token: str | None = None
    filters: tuple[str, ...] = ()

    def json(self) -> Any:
        """Return the parsed body; None if there is none.

        Raises:
            AdminRefused: 400.
        """
        if not self.body.strip():
            return None
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise AdminRefused(HTTPStatus.BAD_REQUEST, f"malformed JSON: {error}") from None

    def table(self) -> dict[str, Any]:
        """Return the parsed body, an object; empty if there is none.

        Raises:
            AdminRefused: 400.
        """
        body = self.json()
        if body is not None and not isinstance(body, dict):
            raise AdminRefused(HTTPStatus.BAD_REQUEST, "the body has to be a JSON object")
        return body or {}


Access = Literal["anybody", "cluster", "tenant", "lookup"]
"""Who may: everybody who is authenticated, super-users, who administers the tenant of the path, who may use the namespace of the path."""


@dataclass(frozen=True)
class AdminPath:
    """A method on a path.

    Attributes:
        method: The HTTP method.
        template: Path; what stands in braces matches one part of it, `{domain}` only a topic domain.
        access: Who may.
    """

    method: str
    template: str
    access: Access = field(default="tenant", kw_only=True)

    def match(self, parts: list[str]) -> dict[str, str] | None:
        """Return what the parts of a path fill into the braces; None: they don't fit."""
        wanted = self.template.split("/")[1:]
        if len(wanted) != len(parts):
            return None
        found = {}
        for name, part in zip(wanted, parts, strict=True):
            if not name.startswith("{"):
                if name != part:
                    return None
            elif not part or (name == "{domain}" and part not in DOMAINS):
                return None
            found[name.strip("{}")] = part
        return found


@dataclass(frozen=True)
class ExtensionRoute(AdminPath):
    """What a method on a path means that an extension adds.

    Attributes:
        carry_out: Gets what the path fills into the braces, and the request; returns what is answered as JSON, None: 204.
            Raises `AdminRefused`.
    """

    carry_out: Callable[[Mapping[str, str], AdminRequest], object]
