"""Pulsar's admin HTTP interface: a closed table of operations, and a client that performs them.

The table is data, so that transcripts can be checked before a run and the documentation can be generated. A response is never an exception,
whatever its status: the caller decides what an operation should return.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import Literal, Self
from urllib.parse import parse_qsl, quote, urlencode

import aiohttp
import yarl
from pydantic_core import from_json

from conformance.names import did_you_mean
from conformance.targets.model import Endpoint, TargetError
from conformance.targets.process import poll_until
from refimpl.net.memory_link import MemoryLink
from refimpl.proposals.administration import AdminRequest

_TOPIC = re.compile(r"(persistent|non-persistent|topic)://([^/]+)/([^/]+)/(.+)", re.DOTALL)
_NAMESPACE = re.compile(r"([^/]+)/([^/]+)")
_POSITIONS = {"latest": 2**63 - 1, "earliest": -1}
_REMOVE_SECONDS = 10.0
_AT_ONCE = 100
"""Topics that are deleted at the same time."""
_TRANSIENT = frozenset({409, 412, 500, 503})
_FORCE_REFUSED = frozenset({405, 412})
_NO_SUCH_PATH = frozenset({404, 405, 501})
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


Body = Literal["none", "actions", "partitions", "position", "properties", "tenant"]


@dataclass(frozen=True)
class Operation:
    """One operation of the admin interface.

    Attributes:
        method: The HTTP method.
        path: Below `/admin/v2`; `{topic}` and `{namespace}` stand for their path, `{scalable}` for that of a scalable topic, any other
            `{argument}` for its percent-encoded text.
        required: Arguments that have to be given; a bare value stands for the first.
        text: What it does, in one line.
        optional: The others, with their defaults.
        query: Parameters; `{argument}` stands for its value. A list is given one by one.
        body: What is sent.
    """

    method: Literal["GET", "PUT", "POST", "DELETE"]
    path: str
    required: tuple[str, ...]
    text: str
    optional: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body = "none"

    @property
    def reads(self) -> bool:
        """Tell whether it changes nothing."""
        return self.method == "GET"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the names of all arguments, the required ones first."""
        return (*self.required, *self.optional)


_FORCE: Mapping[str, object] = {"force": False}
_FORCE_TOPIC = {"force": "{force}", "deleteSchema": "true"}
_NS, _T, _SCALABLE = ("namespace",), ("topic",), "scalable/{scalable}"
CONFIGURATION_PATH = "brokers/configuration/runtime"

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "create_tenant": Operation(
            "PUT", "tenants/{tenant}", ("tenant",), "Create a tenant; allowed on every cluster unless told.",
            {"admin_roles": [], "allowed_clusters": None}, body="tenant",
        ),
        "delete_tenant": Operation("DELETE", "tenants/{tenant}", ("tenant",), "Delete a tenant.", _FORCE, {"force": "{force}"}),
        "create_namespace": Operation("PUT", "namespaces/{namespace}", _NS, "Create a namespace with the broker's usual policies."),
        "delete_namespace": Operation(
            "DELETE", "namespaces/{namespace}", _NS, "Delete a namespace; forced: with its topics.", _FORCE, {"force": "{force}"}
        ),
        "unload_namespace": Operation("PUT", "namespaces/{namespace}/unload", _NS, "Unload all topics of a namespace."),
        "grant_permission": Operation(
            "POST", "namespaces/{namespace}/permissions/{role}", ("namespace", "role", "actions"),
            "Allow a role actions (produce, consume, ..) in a namespace.", body="actions",
        ),
        "revoke_permission": Operation(
            "DELETE", "namespaces/{namespace}/permissions/{role}", ("namespace", "role"), "Take all actions in a namespace from a role."
        ),
        "create_topic": Operation("PUT", "{topic}", _T, "Create a topic without partitions."),
        "delete_topic": Operation("DELETE", "{topic}", _T, "Delete a topic without partitions, or one partition.", _FORCE, _FORCE_TOPIC),
        "unload_topic": Operation("PUT", "{topic}/unload", _T, "Unload a topic: its clients are disconnected and look it up again."),
        "create_partitioned_topic": Operation(
            "PUT", "{topic}/partitions", ("topic", "partitions"), "Create a topic with partitions.", body="partitions"
        ),
        "update_partitioned_topic": Operation(
            "POST", "{topic}/partitions", ("topic", "partitions"), "Let the number of partitions grow.", body="partitions"
        ),
        "delete_partitioned_topic": Operation("DELETE", "{topic}/partitions", _T, "Delete a topic with partitions.", _FORCE, _FORCE_TOPIC),
        "create_subscription": Operation(
            "PUT", "{topic}/subscription/{subscription}", ("topic", "subscription"), "Create a subscription at `latest` or `earliest`.",
            {"position": "latest", "properties": {}}, {"replicated": "false"}, body="position",
        ),
        "delete_subscription": Operation(
            "DELETE", "{topic}/subscription/{subscription}", ("topic", "subscription"),
            "Delete a subscription; forced: also with consumers.", _FORCE, {"force": "{force}"},
        ),
        "skip_messages": Operation(
            "POST", "{topic}/subscription/{subscription}/skip/{count}", ("topic", "subscription", "count"),
            "Let a subscription skip its next messages.",
        ),
        "skip_all_messages": Operation(
            "POST", "{topic}/subscription/{subscription}/skip_all", ("topic", "subscription"), "Let a subscription skip all its messages.",
        ),
        "create_scalable_topic": Operation(
            "PUT", _SCALABLE, _T, "Create a scalable topic (`topic://..`).",
            {"properties": {}, "segments": 1}, {"numInitialSegments": "{segments}"}, body="properties",
        ),
        "set_scalable_topic_properties": Operation(
            "PUT", f"{_SCALABLE}/properties", ("topic", "properties"),
            "Give a scalable topic other properties; no release of Apache Pulsar has this.", body="properties",
        ),
        "delete_scalable_topic": Operation("DELETE", _SCALABLE, _T, "Delete a scalable topic.", _FORCE, {"force": "{force}"}),
        "namespaces": Operation("GET", "namespaces/{tenant}", ("tenant",), "List the namespaces of a tenant."),
        "namespace_exists": Operation("GET", "namespaces/{namespace}", _NS, "Read the policies of a namespace; 404: there is none."),
        "list_topics": Operation(
            "GET", "{domain}/{namespace}", _NS, "List the topics of a namespace, each partition by itself.",
            {"domain": "persistent", "system": False}, {"includeSystemTopic": "{system}"},
        ),
        "list_partitioned_topics": Operation(
            "GET", "{domain}/{namespace}/partitioned", _NS, "List the topics with partitions of a namespace.",
            {"domain": "persistent", "system": False}, {"includeSystemTopic": "{system}"},
        ),
        "list_scalable_topics": Operation(
            "GET", "scalable/{namespace}", _NS, "List the scalable topics of a namespace that have properties (`key=value`).",
            {"properties": []}, {"property": "{properties}"},
        ),
        "get_scalable_topic": Operation("GET", _SCALABLE, _T, "Read the segments and properties of a scalable topic."),
        "partitioned_metadata": Operation("GET", "{topic}/partitions", _T, "Read the number of partitions of a topic."),
        "topic_stats": Operation("GET", "{topic}/stats", _T, "Read the counters of a topic, its producers and subscriptions."),
        "partitioned_stats": Operation("GET", "{topic}/partitioned-stats", _T, "Read the counters of all partitions of a topic."),
        "list_subscriptions": Operation("GET", "{topic}/subscriptions", _T, "List the subscriptions of a topic, or of all its partitions."),
        "clusters": Operation("GET", "clusters", (), "List the clusters."),
        "broker_health": Operation("GET", "brokers/health", (), "Let the broker produce to and read from itself."),
        "runtime_configuration": Operation("GET", CONFIGURATION_PATH, (), "Read the broker's settings."),
    }
)  # fmt: skip
"""The operations by name."""


class AdminClient:
    """A client of one admin interface, to be used as an async context manager.

    Args:
        endpoint: Where it is.
        seconds: How long one call may take.
    """

    def __init__(self, endpoint: Endpoint, *, seconds: float = 30.0) -> None:
        if endpoint.admin_url is None:
            raise TargetError(f"{endpoint.name} has no admin URL", hint="give one with --admin-url or admin_url")
        self._base = endpoint.admin_url.rstrip("/") + "/admin/v2/"
        self._endpoint = endpoint
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the client."""
        if self._endpoint.in_process is not None:
            return self
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}  # what is compressed has no size
        if self._endpoint.token is not None:
            headers["Authorization"] = f"Bearer {self._endpoint.token.get_secret_value()}"
        trust = self._endpoint.ssl_context() if self._base.startswith("https:") else True
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
        method, path, body = request(op, arguments)
        return await self._send(method, path, body)

    async def _send(self, method: str, path: str, body: object) -> AdminResult:
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        if self._endpoint.in_process is not None:
            return self._ask(self._endpoint.in_process, method, path, data or b"")
        assert self._session is not None, "the client is not open"
        url = yarl.URL(self._base + path, encoded=True)  # names are encoded already, exactly once
        headers = {} if body is None and method != "PUT" else {"Content-Type": "application/json"}
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(method, url, data, headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise AdminUnreachable(f"{method} {url}: no answer in {self._seconds:g} s") from None
            raise AdminUnreachable(
                f"{method} {url}: no answer ({str(error) or type(error).__name__})", hint="is this the admin URL?"
            ) from None

    async def _follow(self, method: str, url: yarl.URL, data: bytes | None, headers: Mapping[str, str]) -> AdminResult:
        """Ask, and follow redirects to the same address: a broker that sends the harness elsewhere is not the one under test."""
        assert self._session is not None
        for _ in range(_REDIRECTS):
            async with self._session.request(method, url, data=data, headers=headers, allow_redirects=False) as response:
                text = await _text(response)
                location = _location(response)
            if location is None:
                return _result(response.status, text)
            if location.origin() != url.origin():
                reason = f"it redirects to {location.origin()}, which is not the admin URL of the target"
                return AdminResult(response.status, None, reason)
            url = location
        raise AdminUnreachable(f"{method} {url}: it redirects more than {_REDIRECTS} times")

    def _ask(self, link: MemoryLink, method: str, path: str, body: bytes) -> AdminResult:
        """Ask a broker inside this process."""
        token = self._endpoint.token.get_secret_value() if self._endpoint.token else None
        place, _, text = path.partition("?")
        query = parse_qsl(text, keep_blank_values=True)
        filters = tuple(value for key, value in query if key == "property")
        answer = link.admin(AdminRequest(method, f"/admin/v2/{place}", dict(query), body, token, filters))
        return _result(answer.status, answer.body.decode(errors="replace"))

    async def remove_namespace(self, namespace: str) -> AdminResult:
        """Delete a namespace and everything in it, also on brokers that do not allow to force that.

        Scalable topics go first, since deleting their namespace leaves them behind (observed on Apache Pulsar 5.0.0-M1). Responses that may
        pass (system topics that are being created or deleted at the same time) are asked again for a while.

        Args:
            namespace: "tenant/name".

        Returns:
            The last answer; 404 when there was no such namespace.

        Raises:
            AdminUnreachable: There was no answer.
        """
        await self._remove_each("delete_scalable_topic", await self.call("list_scalable_topics", namespace))
        last = await self.call("delete_namespace", {"namespace": namespace, "force": True})
        force = last.status not in _FORCE_REFUSED

        async def removed() -> bool:
            nonlocal last
            if not force:
                await self._remove_topics(namespace)
            last = await self.call("delete_namespace", {"namespace": namespace, "force": force})
            return last.status not in _TRANSIENT

        if not last.ok and last.status in _TRANSIENT | _FORCE_REFUSED:
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
            await self._remove_each("delete_partitioned_topic", await self.call("list_partitioned_topics", within))
            await self._remove_each("delete_topic", await self.call("list_topics", within))

    async def _remove_each(self, op: str, listed: AdminResult) -> None:
        topics = listed.body if listed.ok and isinstance(listed.body, list) else []
        for at in range(0, len(topics), _AT_ONCE):
            await asyncio.gather(*(self.call(op, {"topic": topic, "force": True}) for topic in topics[at : at + _AT_ONCE]))


async def missing_operations(admin: AdminClient) -> frozenset[str]:
    """Return the operations that an admin interface does not have at all: those of scalable topics, if it can't list them."""
    listed = await admin.call("list_scalable_topics", "public/default")
    missing = listed.status in _NO_SUCH_PATH
    return frozenset(name for name, operation in OPERATIONS.items() if missing and operation.path.startswith("scalable/"))


async def unconfirmed_settings(endpoint: Endpoint) -> frozenset[str]:
    """Return the settings that a target was started with and does not list as its own; none if it lists no settings at all."""
    if not endpoint.config or endpoint.admin_url is None:
        return frozenset()
    try:
        async with AdminClient(endpoint) as admin:
            result = await admin.call("runtime_configuration")
    except AdminUnreachable:
        return frozenset()
    known = result.body if result.ok and isinstance(result.body, dict) and result.body else endpoint.config
    return frozenset(endpoint.config) - frozenset(known)


def check_arguments(op: str, args: object = None) -> dict[str, object]:
    """Normalise the arguments of an operation.

    Args:
        op: The name of the operation.
        args: Arguments by name; a bare value stands for the first one.

    Returns:
        Every argument by name, optional ones filled in.

    Raises:
        TargetError: There is no such operation, or its arguments don't fit.
    """
    operation = OPERATIONS.get(op)
    if operation is None:
        raise TargetError(f"there is no admin operation {op!r}{did_you_mean(op, OPERATIONS)}", hint=f"there are: {', '.join(OPERATIONS)}")
    if isinstance(args, Mapping):
        given = dict(args)
    elif args is None:
        given = {}
    elif operation.arguments:
        given = {operation.arguments[0]: args}
    else:
        raise TargetError(f"admin operation {op} takes no argument")
    allowed = ", ".join(operation.arguments) or "nothing"
    for key in given:
        if key not in operation.arguments:
            raise TargetError(
                f"admin operation {op} has no argument {key!r}{did_you_mean(str(key), operation.arguments)}", hint=f"it takes: {allowed}"
            )
    missing = [key for key in operation.required if key not in given]
    if missing:
        raise TargetError(f"admin operation {op} needs {', '.join(missing)}", hint=f"it takes: {allowed}")
    return {**operation.optional, **given}


def request(op: str, arguments: Mapping[str, object]) -> tuple[str, str, object]:
    """Build the request of an operation.

    Args:
        op: The name of the operation.
        arguments: All arguments, as `check_arguments` gives them.

    Returns:
        The HTTP method, path and query below `/admin/v2/`, and what to send as JSON (None: nothing).

    Raises:
        TargetError: A name is not of the form that the operation needs.
    """
    operation = OPERATIONS[op]
    path = re.sub(r"\{(\w+)\}", lambda match: _path_of(match[1], arguments), operation.path)
    query = [(key, one) for key, value in operation.query.items() for one in _query_texts(value, arguments)]
    return operation.method, path + (f"?{urlencode(query)}" if query else ""), _body(operation.body, arguments)


def _path_of(placeholder: str, arguments: Mapping[str, object]) -> str:
    if placeholder == "namespace":
        return _namespace_path(str(arguments["namespace"]))
    if placeholder == "topic":
        return topic_path(str(arguments["topic"]), ("persistent", "non-persistent"))
    if placeholder == "scalable":
        return topic_path(str(arguments["topic"]), ("topic",)).removeprefix("topic/")
    return quote(str(arguments[placeholder]), safe="")


def _namespace_path(namespace: str) -> str:
    match = _NAMESPACE.fullmatch(namespace)
    if match is None:
        raise TargetError(f"{namespace!r} is not the name of a namespace", hint="it has the form tenant/name")
    return "/".join(quote(part, safe="") for part in match.groups())


def topic_path(topic: str, domains: tuple[str, ...]) -> str:
    """Turn the full name of a topic into its path: the local name, which may hold anything, is percent-encoded as one part.

    Args:
        topic: "persistent://tenant/namespace/local".
        domains: Which domains are allowed.

    Returns:
        "persistent/tenant/namespace/local".

    Raises:
        TargetError: The name is not of that form.
    """
    match = _TOPIC.fullmatch(topic)
    if match is None or match[1] not in domains:
        raise TargetError(
            f"{topic!r} is not the full name of a topic", hint=f"it has the form {' or '.join(domains)}://tenant/namespace/local"
        )
    return "/".join(quote(part, safe="") for part in match.groups())


def _query_texts(value: str, arguments: Mapping[str, object]) -> list[str]:
    """Return the values of a parameter: of a list each, of anything else one."""
    given = arguments.get(value.strip("{}"))
    if isinstance(given, list):
        return [str(one) for one in given]
    text = value.format_map(arguments)
    return [text.lower() if text in ("True", "False") else text]


def _body(kind: Body, arguments: Mapping[str, object]) -> object:
    if kind == "none":
        return None
    if kind == "tenant":
        return {"adminRoles": arguments["admin_roles"], "allowedClusters": arguments["allowed_clusters"]}
    if kind == "position":
        properties = arguments["properties"]
        return _position(arguments["position"]) | ({"properties": properties} if properties else {})
    return arguments[kind]


def _position(position: object) -> dict[str, object]:
    entry = _POSITIONS.get(str(position))
    if entry is None:
        raise TargetError(f"{position!r} is not a position", hint=f"it is one of: {', '.join(_POSITIONS)}")
    return {"ledgerId": entry, "entryId": entry, "partitionIndex": -1}


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
