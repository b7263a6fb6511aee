"""The arguments of admin operations, from the path, the query and the body of a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from refimpl.broker.policies import QUOTA, STRATEGIES
from refimpl.broker.topic import LATEST
from refimpl.broker.unsupported import unsupported
from refimpl.names import DOMAINS
from refimpl.proposals.administration import AdminRequest
from refimpl.proposals.refused import AdminRefused

MODES = {"PERSISTENT": DOMAINS[:1], "NON_PERSISTENT": DOMAINS[1:], "ALL": DOMAINS}
"""The domains of the topics in a list, by its mode."""
PARTITIONED = "application/vnd.partitioned-topic-metadata+json"
"""The type of a body with the number of partitions and with properties; of any other type it is the number."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
"""A number in a path or query."""
_FLAGS = {text: flag for flag in (True, False) for text in (str(flag), str(flag).lower(), str(flag).upper())}
"""What Pulsar reads as a flag."""
_INT, _LONG = 2**31, 2**63
"""What Java's numbers are below."""


def _flag(name: str, default: str = "false") -> Callable[[Mapping[str, str], AdminRequest], bool]:
    return lambda _, request: request.query.get(name, default).lower() == "true"


def _segment(name: str) -> Callable[[Mapping[str, str], AdminRequest], str]:
    return lambda found, _: found[name]


def _texts(value: object, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, f"{what} has to be a list of texts")
    return value


def _actions(_: Mapping[str, str], request: AdminRequest) -> list[str]:
    if request.json() is None:
        raise AdminRefused(HTTPStatus.BAD_REQUEST, "Actions should not be null")
    return _texts(request.json(), "the body")


def _allowed_clusters(_: Mapping[str, str], request: AdminRequest) -> list[str]:
    body = request.json()
    if body is None:
        raise AdminRefused(HTTPStatus.PRECONDITION_FAILED, "TenantInfo is null")
    found = request.table().get("allowedClusters")
    if found is None:
        raise AdminRefused(HTTPStatus.PRECONDITION_FAILED, "Clusters cannot be null")
    return _texts(found, "allowedClusters")


def _quota_kind(request: AdminRequest) -> str:
    return request.query.get("backlogQuotaType", QUOTA)


def _no_backlog_quota(_: Mapping[str, str], request: AdminRequest) -> None:
    if _quota_kind(request) != QUOTA:
        raise unsupported(f"A backlog quota by {_quota_kind(request)}")


def _partitions(_: Mapping[str, str], request: AdminRequest) -> int:
    body = _needed(request)
    has_properties = isinstance(body, dict) and request.content_type == PARTITIONED
    return _whole(body.get("partitions") if has_properties else body)


def _start(_: Mapping[str, str], request: AdminRequest) -> tuple[int, int]:
    default = LATEST if request.json() is None else 0
    return _place("ledgerId", default)(_, request), _place("entryId", default)(_, request)


def _position(_: Mapping[str, str], request: AdminRequest) -> tuple[int, int]:
    if request.json() is None:
        raise AdminRefused(HTTPStatus.INTERNAL_SERVER_ERROR, "the body has to be a position")
    return _start(_, request)


def _place(name: str, default: int) -> Callable[[Mapping[str, str], AdminRequest], int]:
    def place(_: Mapping[str, str], request: AdminRequest) -> int:
        found = request.table().get(name, default)
        if type(found) is not int or not -1 <= found <= LATEST:
            raise AdminRefused(HTTPStatus.BAD_REQUEST, f"{name} has to be a number from -1 to {LATEST}")
        return found

    return place


def _mode(_: Mapping[str, str], request: AdminRequest) -> str:
    found = request.query.get("mode") or "PERSISTENT"
    if found not in MODES:
        raise AdminRefused(HTTPStatus.NOT_FOUND, f"{found!r} is none of {', '.join(MODES)}")
    return found


def _policy_topic(found: Mapping[str, str], request: AdminRequest) -> str:
    if _flag("isGlobal")(found, request):
        raise unsupported("A policy of all clusters")
    return _topic(found, request)


def _topic(found: Mapping[str, str], _: AdminRequest) -> str:
    return f"{found['domain']}://{found['tenant']}/{found['namespace']}/{found['topic']}"


def _properties(found: object) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, "properties have to be texts by name")
    return found


def _metadata_properties(_: Mapping[str, str], request: AdminRequest) -> dict[str, str]:
    body = request.json()
    return _properties(body.get("properties") or {}) if isinstance(body, dict) else {}


def _number(text: str, what: str, below: int = _LONG) -> int:
    if not (_NUMBER.fullmatch(text) and -below <= int(text) < below):
        raise AdminRefused(HTTPStatus.NOT_FOUND, f"{text!r} is not {what}")
    return int(text)


def _named_version(found: Mapping[str, str], _: AdminRequest) -> int:
    number = _number(found["version"], "a schema version")
    if number < 0:
        raise AdminRefused(HTTPStatus.NOT_FOUND, "Schema not found")
    return number


def _ttl_of_topic(_: Mapping[str, str], request: AdminRequest) -> int | None:
    text = request.query.get("messageTTL", "")
    return _number(text, "a number of seconds", _INT) if text else None


def _needed(request: AdminRequest) -> Any:
    """Return the parsed body where Pulsar wants a number or a flag, of which null is the smallest."""
    if not request.body.strip():
        raise AdminRefused(HTTPStatus.BAD_REQUEST, "The request entity cannot be empty.")
    return request.json()


def _whole(value: object) -> int:
    """Read a number as Pulsar does, be it a fraction or a text.

    Raises:
        AdminRefused: 400; 500 for one that is too large for Java.
    """
    if value is None:
        return 0
    number = int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, "the body has to be a number")
    if not -_INT <= number < _INT:
        raise AdminRefused(HTTPStatus.INTERNAL_SERVER_ERROR, "Request failed.")
    return int(number)


def _truth(value: object) -> bool:
    """Read a flag as Pulsar does, be it a number or a text.

    Raises:
        AdminRefused: 400.
    """
    if isinstance(value, str) and value in _FLAGS:
        return _FLAGS[value]
    if not isinstance(value, bool | int | None):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, "the body has to be true or false")
    return bool(value)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise AdminRefused(HTTPStatus.BAD_REQUEST, f"{what} has to be a text")
    return value


ARGUMENTS: Mapping[str, Callable[[Mapping[str, str], AdminRequest], Any]] = {
    **{name: _segment(name) for name in ("bundle", "cluster", "domain", "role", "subscription", "tenant")},
    "namespace": lambda found, _: f"{found['tenant']}/{found['namespace']}",
    "topic": _topic,
    "policy_topic": _policy_topic,
    "count": lambda found, _: _number(found["count"], "a number of messages", _INT),
    "timestamp": lambda found, _: _number(found["timestamp"], "a time"),
    "seconds": lambda found, _: _number(found["seconds"], "a number of seconds", _INT),
    "ledger": lambda found, _: _number(found["ledger"], "a ledger id"),
    "entry": lambda found, _: _number(found["entry"], "an entry id"),
    "version": _named_version,
    "nothing": lambda _, __: None,
    "body": lambda _, request: request.json(),
    "mode": _mode,
    "in_bundle": lambda _, request: request.query.get("bundle"),
    "destination": lambda _, request: request.query.get("destinationBroker"),
    "broker_id": lambda _, request: request.query.get("brokerId", ""),
    "listener": lambda _, request: request.query.get("listenerName"),
    "create": _flag("checkAllowAutoCreation"),
    "force": _flag("force"),
    "replicated": _flag("replicated"),
    "earliest": _flag("getEarliestTimeInBacklog"),
    "applied": _flag("applied"),
    "include_system": _flag("includeSystemTopic"),
    "per_partition": _flag("perPartition", "true"),
    "admin_roles": lambda _, request: _texts(request.table().get("adminRoles") or [], "adminRoles"),
    "allowed_clusters": _allowed_clusters,
    "clusters": lambda _, request: _texts([] if (body := request.json()) is None else body, "the body"),
    "backlog_quota": lambda _, request: {_quota_kind(request): request.json()},
    "message_ttl": _ttl_of_topic,
    "number": lambda _, request: _whole(_needed(request)),
    "flag": lambda _, request: _truth(_needed(request)),
    "strategy": lambda _, request: found if (found := request.json()) in STRATEGIES else None,
    "no_backlog_quota": _no_backlog_quota,
    "policies": lambda _, request: request.table(),
    "actions": _actions,
    "partitions": _partitions,
    "start": _start,
    "position": _position,
    "batch_index": _place("batchIndex", -1),
    "excluded": lambda _, request: bool(request.table().get("excluded")),
    "properties": lambda _, request: _properties(request.table().get("properties") or {}),
    "metadata_properties": _metadata_properties,
    "new_properties": lambda _, request: _properties(request.table()),
    "key": lambda _, request: request.query.get("key", ""),
    "latest": lambda _, request: request.query.get("initialPosition") != "earliest",
    "message_position": lambda _, request: _number(request.query.get("messagePosition", "1"), "a number of messages"),
    "publishers_left_out": _flag("excludePublishers"),
    "consumers_left_out": _flag("excludeConsumers"),
    "backlog_sizes": _flag("subscriptionBacklogSize", "true"),
    "schema_topic": lambda found, _: f"persistent://{found['tenant']}/{found['namespace']}/{found['topic']}",
    "schema_type": lambda _, request: _text(request.table().get("type"), "type"),
    "schema_definition": lambda _, request: _text(request.table().get("schema"), "schema"),
}
"""How each argument is found, by name."""
