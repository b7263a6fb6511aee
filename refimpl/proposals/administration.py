"""The admin interface: requests, and the routes that an extension adds."""

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
    """An admin request.

    Attributes:
        method: "GET", "PUT", ...
        path: The path from its first slash on, percent-encoded, without the query.
        query: Decoded parameters.
        filters: All values of the parameter `property`, which may be repeated.
        body: The body as sent.
        token: The caller's token; None: there is none.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    token: str | None = None
    filters: tuple[str, ...] = ()

    def json(self) -> Any:
        """Return the parsed body; None if there is no body.

        Raises:
            AdminRefused: 400.
        """
        if not self.body.strip():
            return None
        try:
            found = json.loads(self.body)
            json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair can't be told to anybody afterwards
            return found
        except (ValueError, RecursionError) as error:
            raise AdminRefused(HTTPStatus.BAD_REQUEST, f"malformed JSON: {error}") from None

    def table(self) -> dict[str, Any]:
        """Return the parsed body, a JSON object; empty if there is no body.

        Raises:
            AdminRefused: 400.
        """
        body = self.json()
        if body is not None and not isinstance(body, dict):
            raise AdminRefused(HTTPStatus.BAD_REQUEST, "the body has to be a JSON object")
        return body or {}


Access = Literal["anybody", "cluster", "tenant", "lookup"]
"""Who may call: any authenticated role, superusers, admins of the tenant in the path, or roles that may use the namespace in the path."""


@dataclass(frozen=True)
class AdminPath:
    """A method on a path.

    Attributes:
        method: The HTTP method.
        template: The path; a name in braces matches one segment of it, `{domain}` only a topic domain.
        access: Who may call it.
    """

    method: str
    template: str
    access: Access = field(default="tenant", kw_only=True)

    def match(self, parts: list[str]) -> dict[str, str] | None:
        """Return the values of the names in braces; None: the path does not match."""
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
    """A route that an extension adds.

    Attributes:
        carry_out: Called with the values from the path and with the request. Returns the JSON of the response; None: 204.
            Raises `AdminRefused`.
    """

    carry_out: Callable[[Mapping[str, str], AdminRequest], object]
