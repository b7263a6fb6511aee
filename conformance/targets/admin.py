"""A client of Pulsar's admin HTTP interface, which performs operations.

A response is never an exception, whatever its status: the caller decides what an operation should return.
"""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import yarl
from pydantic_core import from_json

from conformance.engine.statuses import NOT_ALLOWED, NOT_OFFERED
from conformance.targets.model import LOOPBACK, Endpoint, TargetError
from conformance.targets.operations import OPERATIONS, check_arguments, request
from conformance.targets.policies import POLICIES
from conformance.targets.process import poll_until
from conformance.targets.tls import speaks_tls, tls_problem
from refimpl.net.memory_link import MemoryLink
from refimpl.proposals.administration import AdminRequest

_REMOVE_SECONDS = 10.0
_SECONDS_UNSURE = 5.0
"""For a call to a broker that may not be reachable."""
_WHEN_LIMITED = 0.25
"""Seconds before a call is made again that the interface refused because of a rate."""
ADMIN_SECONDS = 30.0
"""How long one call may take."""
_AT_ONCE = 100
"""Topics that are deleted at the same time."""
_TRANSIENT = frozenset({409, 412, 500, 503})
_FORCE_REFUSED = frozenset({405, 412})
NO_SUCH_PATH = NOT_OFFERED | {HTTPStatus.NOT_FOUND}
"""What an admin interface says of a call that it does not have; 404 also of what is called."""
_REDIRECTS = 3
_LONGEST_REASON = 4096
"""Characters of a reason that are kept."""
LARGEST_ANSWER = 16 << 20
"""Bytes of an answer that are read."""
_MOST_VALUES = 500_000
"""Values in it: each takes much more memory than the byte that it can be written with."""


class AdminUnreachable(TargetError):
    """The admin interface gave no answer."""


@dataclass(frozen=True)
class AdminResult:
    """An answer.

    Attributes:
        status: The HTTP status.
        body: The parsed JSON, or the text where it is none; None when empty.
        reason: Why it was refused, in the broker's words; empty on success.
        size: Characters of the answer.
    """

    status: int
    body: object
    reason: str
    size: int = field(default=0, compare=False)

    @property
    def ok(self) -> bool:
        """Tell whether the status is 2xx."""
        return 200 <= self.status < 300


class AdminClient:
    """A client of one admin interface, to be used as an async context manager.

    Args:
        endpoint: Where it is.
        seconds: How long one call may take.
    """

    def __init__(self, endpoint: Endpoint, *, seconds: float = ADMIN_SECONDS) -> None:
        if endpoint.admin_url is None:
            raise TargetError(f"{endpoint.name} has no admin URL", hint="give one with --admin-url or admin_url")
        self._base = endpoint.admin_url.rstrip("/")
        self.endpoint = endpoint
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the client."""
        if self.endpoint.in_process is not None:
            return self
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}  # what is compressed has no size
        if self.endpoint.token is not None:
            headers["Authorization"] = f"Bearer {self.endpoint.token.get_secret_value()}"
        trust = self.endpoint.ssl_context() if self._base.startswith("https:") else True
        self._session = aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None),  # `_send` has one for all of an exchange
            connector=aiohttp.TCPConnector(ssl=trust),
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()

    async def call(self, op: str, args: object = None) -> AdminResult:
        """Perform one operation.

        Args:
            op: Its name in `OPERATIONS`.
            args: Its arguments by name; a bare value stands for the first one.

        Returns:
            The answer, whatever its status.

        Raises:
            TargetError: There is no such operation, or its arguments don't fit.
            AdminUnreachable: There was no answer.
        """
        arguments = check_arguments(op, args)
        if op == "create_tenant" and arguments["allowed_clusters"] is None:
            clusters = await self.call("clusters")
            names = clusters.body if isinstance(clusters.body, list) else []
            arguments["allowed_clusters"] = [name for name in names if name != "global"]
        if op == "create_namespace" and not arguments["policies"]:
            arguments["policies"] = self.endpoint.namespace_policies
        method, path, body = request(op, arguments)
        return await self._send(method, path, body)

    async def _send(self, method: str, path: str, body: object) -> AdminResult:
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        if self.endpoint.in_process is not None:
            return self._ask(self.endpoint.in_process, method, path, data or b"")
        assert self._session is not None, "the client is not open"
        limited: AdminResult | None = None
        url = yarl.URL(self._base + path, encoded=True)  # names are encoded already, exactly once
        headers = {} if body is None and method != "PUT" else {"Content-Type": "application/json"}
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    limited = await self._follow(method, url, data, headers)
                    if limited.status != HTTPStatus.TOO_MANY_REQUESTS:
                        return limited
                    await asyncio.sleep(_WHEN_LIMITED)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError):
                if limited is not None:
                    return limited
                raise AdminUnreachable(f"{method} {url}: no answer in {self._seconds:g} s") from None
            connected = not isinstance(error, aiohttp.ClientConnectorError)
            if connected and url.scheme == "http" and await speaks_tls(url.host or "", url.port or 80):
                raise AdminUnreachable(f"{method} {url}: the port speaks TLS", hint=f"write https://{url.authority}") from None
            why, hint = tls_problem(error) or (str(error) or type(error).__name__, "is this the admin URL?")
            raise AdminUnreachable(f"{method} {url}: no answer ({why})", hint=hint) from None

    async def _follow(self, method: str, url: yarl.URL, data: bytes | None, headers: Mapping[str, str]) -> AdminResult:
        """Ask, and follow redirects as far as the user allows: brokers of a cluster send to each other what only one of them can do."""
        assert self._session is not None
        for _ in range(_REDIRECTS):
            asked = self._session.request(
                method, url, data=data, headers=headers, allow_redirects=False, server_hostname=self.endpoint.tls_hostname
            )
            async with asked as response:
                text = await _text(response)
                location = _location(response)
            if location is None:
                return _result(response.status, text)
            if location.scheme != url.scheme or not self.endpoint.allows(str(location)):
                reason = f"it redirects to {location.origin()}, which is not on a host of the target; --allow-host allows another one"
                return AdminResult(response.status, None, reason)
            url = location
        raise AdminUnreachable(f"{method} {url}: it redirects more than {_REDIRECTS} times")

    def _ask(self, link: MemoryLink, method: str, path: str, body: bytes) -> AdminResult:
        """Ask a broker inside this process, and then the one that it sends to: it knows the owner."""
        token = self.endpoint.token.get_secret_value() if self.endpoint.token else None
        place, _, text = path.partition("?")
        query = parse_qsl(text, keep_blank_values=True)
        filters = tuple(value for key, value in query if key == "property")
        asked = AdminRequest(method, place, dict(query), body, token, filters)
        answer = link.admin(asked, self.endpoint.admin_url)
        if answer.status == HTTPStatus.TEMPORARY_REDIRECT:
            location = urlsplit(answer.headers["Location"])
            there = dict(parse_qsl(location.query, keep_blank_values=True))
            answer = link.admin(replace(asked, path=location.path, query=there), f"{location.scheme}://{location.netloc}")
        return _result(answer.status, answer.body.decode(errors="replace"))

    async def remove_namespace(self, namespace: str, *, patient: bool = True) -> AdminResult:
        """Delete a namespace and everything in it, also on brokers that do not allow to force that.

        Scalable topics go first, since deleting their namespace leaves them behind (observed on Apache Pulsar 5.0.0-M1). Responses that may
        pass (system topics that are being created or deleted at the same time) are asked again for a while.

        Args:
            namespace: "tenant/name".
            patient: Whether to ask again where it is in use.

        Returns:
            The last answer; 404 when there was no such namespace.

        Raises:
            AdminUnreachable: There was no answer.
        """
        await self._remove_each(namespace, "delete_scalable_topic", await self.call("list_scalable_topics", namespace))
        last = await self.call("delete_namespace", {"namespace": namespace, "force": True})
        force = last.status not in _FORCE_REFUSED

        async def removed() -> bool:
            nonlocal last
            if not force:
                await self._remove_topics(namespace)
            last = await self.call("delete_namespace", {"namespace": namespace, "force": force})
            return last.status not in _TRANSIENT

        if not last.ok and (not force or (patient and last.status in _TRANSIENT)):
            try:
                await poll_until(removed, seconds=_REMOVE_SECONDS, what=f"deleting {namespace}", interval=0.25)
            except AdminUnreachable:
                raise
            except TargetError:
                return last
        return last

    async def _remove_topics(self, namespace: str) -> None:
        for domain in ("persistent", "non-persistent"):
            within = {"namespace": namespace, "domain": domain, "system": True}
            await self._remove_each(namespace, "delete_partitioned_topic", await self.call("list_partitioned_topics", within))
            await self._remove_each(namespace, "delete_topic", await self.call("list_topics", within))

    async def _remove_each(self, namespace: str, op: str, listed: AdminResult) -> None:
        """Delete what is listed, as far as it is in the namespace: a list may be anything."""
        names = listed.body if listed.ok and isinstance(listed.body, list) else []
        topics = [name for name in names if isinstance(name, str) and f"://{namespace}/" in name]
        for at in range(0, len(topics), _AT_ONCE):
            await asyncio.gather(*(self.call(op, {"topic": topic, "force": True}) for topic in topics[at : at + _AT_ONCE]))


async def missing_operations(admin: AdminClient) -> frozenset[str]:
    """Return the operations that an admin interface does not have at all.

    They are those of scalable topics, if it can't list them; `set_policy NAME` for each policy that it can't read; and if it can read none,
    all operations that only operators need (`Operation.rare`): nothing that changes nothing tells of them.
    """
    listed = await admin.call("list_scalable_topics", "public/default")
    read = {name: await admin.call("policy", {"of": "public/default", "policy": name}) for name in POLICIES}
    unknown = {name for name, answer in read.items() if answer.status in NO_SUCH_PATH}
    missing = {f"set_policy {name}" for name in unknown}
    if listed.status in NO_SUCH_PATH:
        missing |= {name for name, operation in OPERATIONS.items() if operation.path.startswith("scalable/")}
    if unknown == set(POLICIES):
        missing |= {name for name, operation in OPERATIONS.items() if operation.rare}
    return frozenset(missing)


async def is_cluster(admin: AdminClient) -> bool | None:
    """Tell whether an admin interface lists more than one broker; None: it tells that to superusers only."""
    listed = await admin.call("brokers")
    if listed.status in NOT_ALLOWED:
        return None
    return listed.ok and isinstance(listed.body, list) and len(listed.body) > 1


async def another(admin: AdminClient) -> Endpoint | None:
    """Return another broker of the cluster, whose admin interface answers; None if there is none that the user allows.

    Args:
        admin: The admin interface that the user named.
    """
    endpoint, own = admin.endpoint, urlsplit(admin.endpoint.admin_url or "")
    listed = await admin.call("brokers")
    for broker in listed.body if listed.ok and isinstance(listed.body, list) else []:
        there = urlsplit(f"{own.scheme}://{broker}")
        same = there.port == own.port and (there.hostname == own.hostname or {there.hostname, own.hostname} <= LOOPBACK)
        if same or not endpoint.allows(there.geturl()):
            continue
        other = replace(endpoint, admin_url=there.geturl())
        with contextlib.suppress(AdminUnreachable):
            async with AdminClient(other, seconds=_SECONDS_UNSURE) as client:
                if (await client.call("brokers")).ok:
                    return other
    return None


async def listed_settings(endpoint: Endpoint) -> Mapping[str, object]:
    """Return the settings that the admin interface of a target lists; none without an answer that is such a list."""
    if endpoint.admin_url is None:
        return {}
    try:
        async with AdminClient(endpoint) as admin:
            result = await admin.call("runtime_configuration")
    except AdminUnreachable:
        return {}
    return result.body if result.ok and isinstance(result.body, dict) else {}


async def unconfirmed_settings(endpoint: Endpoint) -> frozenset[str]:
    """Return the settings that a target was started with and does not list as its own; none if it lists no settings at all."""
    known = await listed_settings(endpoint) if endpoint.config else {}
    return frozenset(endpoint.config) - frozenset(known) if known else frozenset()


async def _text(response: aiohttp.ClientResponse) -> str:
    """Read the body of an answer, as far as it has a size that a broker's answer can have."""
    if (coding := response.headers.get("Content-Encoding", "identity").lower()) != "identity":
        raise aiohttp.ClientPayloadError(f"its body comes as {coding}, which it was not asked for")
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > LARGEST_ANSWER:
            raise aiohttp.ClientPayloadError(f"its body is longer than {LARGEST_ANSWER >> 20} MB")
    return body.decode(errors="replace")


def _location(response: aiohttp.ClientResponse) -> yarl.URL | None:
    """Return where an answer sends the client; None if it does not."""
    text = response.headers.get("Location")
    if response.status not in (301, 302, 303, 307, 308) or text is None:
        return None
    try:
        location = response.url.join(yarl.URL(text, encoded=True))
        location.origin()
    except ValueError:
        raise aiohttp.ClientPayloadError("it redirects to what is no address") from None
    return location


def _result(status: int, text: str) -> AdminResult:
    if text.count(",") + text.count("[") + text.count("{") > _MOST_VALUES:
        raise AdminUnreachable(f"an answer of the admin interface has more than {_MOST_VALUES} values")
    try:
        body = from_json(text) if text else None  # refuses what a log can't hold: half a pair of surrogates, hundreds of levels
    except ValueError:
        body = text
    if 200 <= status < 300:
        return AdminResult(status, body, "", len(text))
    reason = body.get("reason") or body.get("message") if isinstance(body, dict) else None
    return AdminResult(status, body, str(reason or text.strip())[:_LONGEST_REASON], len(text))
