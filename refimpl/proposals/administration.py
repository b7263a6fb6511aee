"""The admin interface: requests and responses, and the routes that an extension adds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, Literal, NamedTuple

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
        address: The caller's address.
        body: The body as sent.
        content_type: The type of the body.
        token: The caller's token; None: there is none.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    token: str | None = None
    filters: tuple[str, ...] = ()
    address: str = ""
    content_type: str = "application/json"

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


@dataclass(frozen=True)
class AdminResponse:
    """A response."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Access(NamedTuple):
    """Who may call an operation, besides superusers.

    Attributes:
        role: Any authenticated role, admins of the tenant in the path, or nobody else.
        actions: A role that may do one of these in the namespace in the path may call, too.
        status: What all others get.
    """

    role: Literal["any", "admin", "nobody"] = "admin"
    actions: tuple[str, ...] = ()
    status: HTTPStatus = HTTPStatus.UNAUTHORIZED


ADMINS = Access()


@dataclass(frozen=True)
class AdminPath:
    """A method on a path.

    Attributes:
        method: The HTTP method.
        template: The path; a name in braces matches one segment of it, `{domain}` only a topic domain.
    """

    method: str
    template: str

    @cached_property
    def _segments(self) -> list[str]:
        return self.template.split("/")[1:]

    @cached_property
    def _literals(self) -> list[tuple[int, str]]:
        """The segments without braces and their places, the last one first: paths differ there most often."""
        return [(place, one) for place, one in reversed([*enumerate(self._segments)]) if not one.startswith("{")]

    @property
    def literals(self) -> int:
        """Return the number of segments without braces: of several paths that match, the one with most of them is meant."""
        return len(self._literals)

    @property
    def landmark(self) -> tuple[int, int, str]:
        """Return the number of segments, and place and text of the last one without braces: a path that matches has the same."""
        return len(self._segments), *self._literals[0]

    def match(self, parts: list[str]) -> dict[str, str] | None:
        """Return the values of the names in braces; None: the path does not match."""
        if len(self._segments) != len(parts):
            return None
        for place, one in self._literals:
            if parts[place] != one:
                return None
        found = {name.strip("{}"): part for name, part in zip(self._segments, parts, strict=True) if name.startswith("{")}
        if not all(found.values()) or found.get("domain", DOMAINS[0]) not in DOMAINS:
            return None
        return found


@dataclass(frozen=True)
class ExtensionRoute(AdminPath):
    """A route that an extension adds.

    Attributes:
        carry_out: Called with the values from the path and with the request. Returns the JSON of the response; None: 204.
            Raises `AdminRefused`.
        access: Who may call it.
    """

    carry_out: Callable[[Mapping[str, str], AdminRequest], object]
    access: Access = ADMINS
