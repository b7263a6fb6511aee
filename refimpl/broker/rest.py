"""Pulsar's admin interface without HTTP: it maps requests to operations of `Admin`, and results to responses.

    PUT /admin/v2/persistent/public/default/a%20b  ->  Admin.create_topic("persistent://public/default/a b")  ->  204

`ROUTES` is the whole interface. Paths and status codes are as observed on Apache Pulsar 4.2.4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from refimpl.broker.admin import Admin
from refimpl.broker.broker import Broker
from refimpl.broker.topic import LATEST, Topic
from refimpl.names import DOMAINS
from refimpl.proposals.administration import Access, AdminPath, AdminRequest, ExtensionRoute
from refimpl.proposals.refused import AdminRefused
from refimpl.store import Entry
from refimpl.wire import WireError, decompress, parse_payload

_JSON = "application/json"


@dataclass(frozen=True)
class AdminResponse:
    """A response."""

    status: int
    body: bytes = b""
    content_type: str = _JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Route(AdminPath):
    """A route to an operation of `Admin`.

    Attributes:
        operation: The operation.
        arguments: Its positional arguments, by name in `_ARGUMENTS`.
        options: Its keyword arguments, by name in `_ARGUMENTS`.
    """

    operation: Callable[..., object]
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def carry_out(self, admin: Admin, path: Mapping[str, str], request: AdminRequest) -> object:
        """Run the operation and return its result."""
        values = [_ARGUMENTS[name](path, request) for name in self.arguments]
        options = {name: _ARGUMENTS[name](path, request) for name in self.options}
        return self.operation(admin, *values, **options)


def _namespace_topics(admin: Admin, namespace: str, mode: str, *, include_system: bool) -> list[str]:
    domains = {"NON_PERSISTENT": DOMAINS[1:], "ALL": DOMAINS}.get(mode, DOMAINS[:1])
    return [topic for domain in domains for topic in admin.topics(namespace, domain, include_system=include_system)]


def _health(admin: Admin) -> AdminResponse:
    return AdminResponse(HTTPStatus.OK, admin.health().encode(), "text/plain")


def _peek(admin: Admin, topic: str, subscription: str, position: int) -> AdminResponse:
    return _message(*admin.peek_message(topic, subscription, position))


_TENANT = "/admin/v2/tenants/{tenant}"
_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
_TOPICS = "/admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC = f"{_TOPICS}/{{topic}}"
_SCHEMAS = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
_SUBSCRIPTION = f"{_TOPIC}/subscription/{{subscription}}"
_T, _NS, _S = ("topic",), ("namespace",), ("topic", "subscription")

ROUTES = (
    Route("GET", "/admin/v2/clusters", Admin.clusters, access="anybody"),
    Route("GET", "/admin/v2/brokers/health", _health, access="cluster"),
    Route("GET", "/admin/v2/brokers/configuration/runtime", Admin.runtime_configuration, access="cluster"),
    Route("GET", "/admin/v2/tenants", Admin.tenants, access="cluster"),
    Route("PUT", _TENANT, Admin.create_tenant, ("tenant",), ("admin_roles",), access="cluster"),
    Route("DELETE", _TENANT, Admin.delete_tenant, ("tenant",), ("force",), access="cluster"),
    Route("GET", "/admin/v2/namespaces/{tenant}", Admin.namespaces, ("tenant",)),
    Route("GET", _NAMESPACE, Admin.policies, _NS),
    Route("PUT", _NAMESPACE, Admin.create_namespace, ("new_namespace",)),
    Route("DELETE", _NAMESPACE, Admin.delete_namespace, _NS, ("force",)),
    Route("PUT", f"{_NAMESPACE}/unload", Admin.unload_namespace, _NS),
    Route("GET", f"{_NAMESPACE}/topics", _namespace_topics, ("namespace", "mode"), ("include_system",)),
    Route("GET", f"{_NAMESPACE}/permissions", Admin.permissions, _NS),
    Route("POST", f"{_NAMESPACE}/permissions/{{role}}", Admin.grant_permission, ("namespace", "role", "actions")),
    Route("DELETE", f"{_NAMESPACE}/permissions/{{role}}", Admin.revoke_permission, ("namespace", "role")),
    Route("GET", _TOPICS, Admin.topics, ("namespace", "domain"), ("include_system",)),
    Route("GET", f"{_TOPICS}/partitioned", Admin.partitioned_topics, ("namespace", "domain"), ("include_system",)),
    Route("PUT", _TOPIC, Admin.create_topic, _T),
    Route("DELETE", _TOPIC, Admin.delete_topic, _T, ("force",)),
    Route("PUT", f"{_TOPIC}/unload", Admin.unload_topic, _T),
    Route("GET", f"{_TOPIC}/partitions", Admin.partitioned_metadata, _T, access="lookup"),
    Route("PUT", f"{_TOPIC}/partitions", Admin.create_partitioned_topic, ("topic", "partitions")),
    Route("POST", f"{_TOPIC}/partitions", Admin.update_partitioned_topic, ("topic", "partitions")),
    Route("DELETE", f"{_TOPIC}/partitions", Admin.delete_partitioned_topic, _T, ("force",)),
    Route("GET", f"{_TOPIC}/stats", Admin.topic_stats, _T),
    Route("GET", f"{_TOPIC}/internalStats", Admin.internal_stats, _T),
    Route("GET", f"{_TOPIC}/partitioned-stats", Admin.partitioned_stats, _T, ("per_partition",)),
    Route("GET", f"{_TOPIC}/subscriptions", Admin.subscriptions, _T),
    Route("PUT", _SUBSCRIPTION, Admin.create_subscription, (*_S, "position", "properties")),
    Route("DELETE", _SUBSCRIPTION, Admin.delete_subscription, _S, ("force",)),
    Route("POST", f"{_SUBSCRIPTION}/skip/{{count}}", Admin.skip_messages, (*_S, "count")),
    Route("POST", f"{_SUBSCRIPTION}/skip_all", Admin.skip_messages, (*_S, "all")),
    Route("GET", f"{_SUBSCRIPTION}/position/{{count}}", _peek, (*_S, "count")),
    Route("GET", f"{_SCHEMAS}/schema", Admin.schema, ("schema_topic", "newest")),
    Route("GET", f"{_SCHEMAS}/schema/{{version}}", Admin.schema, ("schema_topic", "version")),
    Route("POST", f"{_SCHEMAS}/schema", Admin.add_schema, ("schema_topic", "schema_type", "schema_definition", "properties")),
    Route("GET", "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}", Admin.lookup, _T, access="lookup"),
)
"""All routes of the interface."""


def handle(broker: Broker, request: AdminRequest, now: float) -> AdminResponse:
    """Handle an admin request.

    Args:
        broker: The broker.
        request: The request.
        now: The time, in seconds.

    Returns:
        The response. A refused request has the body `{"reason": ...}` and an error status.
    """
    broker.tick(now)
    try:
        role = broker.admin.authenticate(request.token)
        parts = _parts(request.path)
        routes: list[Route | ExtensionRoute] = [*ROUTES, *(route for extension in broker.extensions.values() for route in extension.routes)]
        matching = [(route, found) for route in routes if (found := route.match(parts)) is not None]
        if not matching:
            raise AdminRefused(HTTPStatus.NOT_FOUND, f"there is nothing at {request.path}")
        chosen = next(((route, found) for route, found in matching if route.method == request.method), None)
        if chosen is None:
            allowed = ", ".join(sorted({route.method for route, _ in matching}))
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} takes {allowed}", {"Allow": allowed})
        return _carry_out(broker, *chosen, request, role)
    except AdminRefused as refused:
        return refusal(refused.status, refused.reason)


def refusal(status: int, reason: str, headers: Mapping[str, str] | None = None) -> AdminResponse:
    """Return the response to a refused request."""
    return AdminResponse(status, json.dumps({"reason": reason}).encode(), headers=headers or {})


def _carry_out(
    broker: Broker, route: Route | ExtensionRoute, found: Mapping[str, str], request: AdminRequest, role: str | None
) -> AdminResponse:
    _check_access(broker, route.access, found, role)
    result = route.carry_out(broker.admin, found, request) if isinstance(route, Route) else route.carry_out(found, request)
    if isinstance(result, AdminResponse):
        return result
    if result is None:
        return AdminResponse(HTTPStatus.NO_CONTENT)
    return AdminResponse(HTTPStatus.OK, json.dumps(result, ensure_ascii=False).encode())


def _check_access(broker: Broker, access: Access, found: Mapping[str, str], role: str | None) -> None:
    if access == "lookup":
        if not broker.authorization.allows(role, f"{found['tenant']}/{found['namespace']}", "produce", "consume"):
            raise AdminRefused(HTTPStatus.FORBIDDEN, "Unauthorized to look up")
    elif access != "anybody":
        broker.admin.check_access(role, found["tenant"] if access == "tenant" else None)


def _parts(path: str) -> list[str]:
    """Split a path and decode each segment once, so that a name may contain an encoded slash or percent sign."""
    try:
        path.encode()
        return [unquote(part, errors="strict") for part in path.removesuffix("/").split("/")[1:]]
    except UnicodeError:
        raise AdminRefused(HTTPStatus.BAD_REQUEST, f"{path} is not UTF-8") from None


# Arguments of operations, from the path, the query and the body


def _flag(name: str, default: str = "false") -> Callable[[Mapping[str, str], AdminRequest], bool]:
    return lambda _, request: request.query.get(name, default).lower() == "true"


def _texts(value: object, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, f"{what} has to be a list of texts")
    return value


def _partitions(_: Mapping[str, str], request: AdminRequest) -> int:
    body = request.json()
    number = body.get("partitions") if isinstance(body, dict) else body
    if not isinstance(number, int) or isinstance(number, bool):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, "the body has to be a number of partitions")
    return number


def _position(_: Mapping[str, str], request: AdminRequest) -> tuple[int, int]:
    body = request.table()
    place = body.get("ledgerId", LATEST), body.get("entryId", LATEST)
    if not all(type(one) is int and -1 <= one <= LATEST for one in place):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, f"ledgerId and entryId have to be numbers from -1 to {LATEST}")
    return place


def _properties(_: Mapping[str, str], request: AdminRequest) -> dict[str, str]:
    found = request.table().get("properties") or {}
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, "properties have to be texts by name")
    return found


def _count(found: Mapping[str, str], _: AdminRequest) -> int:
    if not (found["count"].isascii() and found["count"].isdecimal() and len(found["count"]) < 19):
        raise AdminRefused(HTTPStatus.NOT_FOUND, f"{found['count']!r} is not a number of messages")
    return int(found["count"])


def _version(found: Mapping[str, str], _: AdminRequest) -> int:
    if not (found["version"].isascii() and found["version"].isdecimal() and len(found["version"]) < 19):
        raise AdminRefused(HTTPStatus.NOT_FOUND, f"{found['version']!r} is not a schema version")
    return int(found["version"])


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, f"{what} has to be a text")
    return value


def _new_namespace(found: Mapping[str, str], request: AdminRequest) -> str:
    request.table()  # policies are parsed, but not supported
    return f"{found['tenant']}/{found['namespace']}"


_ARGUMENTS: Mapping[str, Callable[[Mapping[str, str], AdminRequest], Any]] = {
    "tenant": lambda found, _: found["tenant"],
    "namespace": lambda found, _: f"{found['tenant']}/{found['namespace']}",
    "new_namespace": _new_namespace,
    "domain": lambda found, _: found["domain"],
    "topic": lambda found, _: f"{found['domain']}://{found['tenant']}/{found['namespace']}/{found['topic']}",
    "subscription": lambda found, _: found["subscription"],
    "role": lambda found, _: found["role"],
    "count": _count,
    "all": lambda _, __: None,
    "mode": lambda _, request: request.query.get("mode", "PERSISTENT"),
    "force": _flag("force"),
    "include_system": _flag("includeSystemTopic"),
    "per_partition": _flag("perPartition", "true"),
    "admin_roles": lambda _, request: _texts(request.table().get("adminRoles") or [], "adminRoles"),
    "actions": lambda _, request: _texts(request.json(), "the body"),
    "partitions": _partitions,
    "position": _position,
    "properties": _properties,
    "schema_topic": lambda found, _: f"persistent://{found['tenant']}/{found['namespace']}/{found['topic']}",
    "newest": lambda _, __: None,
    "version": _version,
    "schema_type": lambda _, request: _text(request.table().get("type"), "type"),
    "schema_definition": lambda _, request: _text(request.table().get("schema"), "schema"),
}


def _message(topic: Topic, index: int, entry: Entry) -> AdminResponse:
    """Return a response with the payload of an entry and its metadata as headers."""
    try:
        payload = parse_payload(entry.data)
        metadata = payload.metadata
        body = decompress(payload.body, metadata.compression, metadata.uncompressed_size)
    except WireError as error:
        raise AdminRefused(HTTPStatus.INTERNAL_SERVER_ERROR, f"the message can't be read: {error}") from None
    headers = {
        "X-Pulsar-Message-ID": f"{topic.stored.ledger_id}:{index}",
        "X-Pulsar-producer-name": _ascii(metadata.producer_name),
        "X-Pulsar-sequence-id": str(metadata.sequence_id),
        "X-Pulsar-publish-time": _moment(metadata.publish_time),
        "X-Pulsar-Is-Encrypted": str(bool(metadata.encryption_keys)).lower(),
        "X-Pulsar-txn-uncommitted": "false",
    }
    if metadata.properties:
        headers["X-Pulsar-PROPERTY"] = json.dumps({one.key: one.value for one in metadata.properties})
    if metadata.HasField("num_messages_in_batch"):
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
    if metadata.HasField("partition_key"):
        headers["X-Pulsar-partition-key"] = _ascii(metadata.partition_key)
    return AdminResponse(HTTPStatus.OK, body, "application/octet-stream", headers)


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _moment(millis: int) -> str:
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(millis)
