"""Pulsar's admin interface without HTTP: it maps requests to operations of `Admin`, and results to responses.

    PUT /admin/v2/persistent/public/default/a%20b  ->  Admin.create_topic("persistent://public/default/a b")  ->  204

`ROUTES` is the whole interface, and unsupported.py the rest of Pulsar's. Paths and status codes are as observed on Apache Pulsar 4.2.4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import unquote, unquote_plus, urlencode

from refimpl.broker.admin import Admin
from refimpl.broker.broker import Broker
from refimpl.broker.members import Member, Members
from refimpl.broker.policies import AUTO_UPDATE, BACKLOG_QUOTA, COMPATIBILITY, DEDUPLICATION, POLICIES, TTL, VALIDATION, Policy
from refimpl.broker.rest_arguments import ARGUMENTS, MODES
from refimpl.broker.rest_messages import message_response
from refimpl.broker.unsupported import UNSUPPORTED, unsupported
from refimpl.proposals.administration import ADMINS, Access, AdminPath, AdminRequest, AdminResponse, ExtensionRoute
from refimpl.proposals.refused import AdminRefused


@dataclass(frozen=True)
class Route(AdminPath):
    """A route to an operation of `Admin`.

    Attributes:
        operation: The operation.
        arguments: Its positional arguments, by name in `ARGUMENTS`; a policy stands for itself.
        options: Its keyword arguments, by name in `ARGUMENTS`.
    """

    operation: Callable[..., object]
    arguments: tuple[str | Policy, ...] = ()
    options: tuple[str, ...] = ()

    def owner(self, members: Members, path: Mapping[str, str], request: AdminRequest) -> Member | None:
        """Return the broker of a cluster that has to be asked: the owner of the topic or of the bundle; None: any of them."""
        if self.operation in _BY_ANY_BROKER:
            return None
        namespace = ARGUMENTS["namespace"](path, request) if "namespace" in path else ""
        if "bundle" in self.arguments:
            return members.owner_of_named(namespace, path["bundle"])
        named = next((one for one in ("topic", "policy_topic", "schema_topic") if one in self.arguments), None)
        return None if named is None else members.owner_of(namespace, ARGUMENTS[named](path, request))

    def carry_out(self, admin: Admin, path: Mapping[str, str], request: AdminRequest) -> object:
        """Run the operation and return its result."""
        values = [one if isinstance(one, Policy) else ARGUMENTS[one](path, request) for one in self.arguments]
        options = {name: ARGUMENTS[name](path, request) for name in self.options}
        return self.operation(admin, *values, **options)


def _namespace_topics(admin: Admin, namespace: str, mode: str, *, include_system: bool) -> list[str]:
    return [topic for domain in MODES[mode] for topic in admin.topics(namespace, domain, include_system=include_system)]


def _health(admin: Admin, broker_id: str = "") -> AdminResponse:
    return _text(admin.health(broker_id))


def _ready(admin: Admin) -> AdminResponse:
    return _text(admin.health())


def _version(admin: Admin) -> AdminResponse:
    return _text(admin.version())


def _topic_bundle(admin: Admin, topic: str) -> AdminResponse:
    return _text(admin.topic_bundle(topic))


def _text(answer: str) -> AdminResponse:
    return AdminResponse(HTTPStatus.OK, answer.encode(), "text/plain")


def _peek_message(admin: Admin, topic: str, subscription: str, position: int) -> AdminResponse:
    return message_response(*admin.peek_message(topic, subscription, position))


def _message(admin: Admin, topic: str, ledger: int, entry: int) -> AdminResponse:
    return message_response(*admin.message(topic, ledger, entry))


def _examine_message(admin: Admin, topic: str, position: int, *, latest: bool) -> AdminResponse:
    return message_response(*admin.examine_message(topic, position, latest=latest))


def _policy(admin: Admin, namespace: str, policy: Policy) -> object:
    found = admin.policy(namespace, policy)
    return AdminResponse(HTTPStatus.OK) if found is None else found


def _topic_policy(admin: Admin, topic: str, policy: Policy, *, applied: bool) -> object:
    found = admin.topic_policy(topic, policy, applied=applied)
    return AdminResponse(HTTPStatus.OK) if found is None else found


def _set_replication_clusters(admin: Admin, namespace: str, clusters: Iterable[str]) -> AdminResponse:
    admin.set_replication_clusters(namespace, clusters)
    return AdminResponse(HTTPStatus.OK)


def _trim_topic(admin: Admin, topic: str) -> AdminResponse:
    admin.trim_topic(topic)
    return AdminResponse(HTTPStatus.OK)


def _policy_routes() -> Iterator[Route]:
    for one in POLICIES:
        path, ending = f"{_NAMESPACE}/{one.path}", "Map" if one is BACKLOG_QUOTA else ""
        nothing = "no_backlog_quota" if one is BACKLOG_QUOTA else "nothing"
        body = _BODIES.get(one.key, "body")
        yield Route("GET", f"{path}{ending}", _policy, ("namespace", one))
        yield Route(one.method, path, Admin.set_policy, ("namespace", one, body))
        if one.removable:
            yield Route("DELETE", path, Admin.set_policy, ("namespace", one, nothing))
        if one.topic_path is not None:
            path = f"{_TOPIC}/{one.topic_path}"
            yield Route("GET", f"{path}{ending}", _topic_policy, ("policy_topic", one), ("applied",))
            body = {TTL.key: "message_ttl", DEDUPLICATION.key: "body"}.get(one.key, body)
            yield Route(one.method, path, Admin.set_topic_policy, ("policy_topic", one, body))
            if one is not VALIDATION:
                yield Route("DELETE", path, Admin.remove_topic_policy, ("policy_topic", one, nothing))


_BODIES = {
    BACKLOG_QUOTA.key: "backlog_quota",
    COMPATIBILITY.key: "strategy",
    TTL.key: "number",
    **dict.fromkeys((DEDUPLICATION.key, AUTO_UPDATE.key, VALIDATION.key), "flag"),
}
"""How the bodies of calls that set policies are read, by the key of the policy, in `ARGUMENTS`; as they are, if it is not here."""
_BY_ANY_BROKER = (
    Admin.partitioned_metadata,
    Admin.create_partitioned_topic,
    Admin.update_partitioned_topic,
    Admin.create_missed_partitions,
    Admin.terminate_partitioned_topic,
    Admin.partitioned_stats,
    Admin.partitioned_internal_stats,
    Admin.internal_info,
    Admin.lookup,
    _topic_bundle,
)
"""Operations that name a topic and are not redirected to the owner of its bundle."""

_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")

_USE, _FORBIDDEN = ("produce", "consume"), HTTPStatus.FORBIDDEN
_ACCESS = {
    operation: access
    for access, operations in {
        Access("any"): (Admin.clusters, _version, _ready),
        Access("nobody"): (
            Admin.cluster, Admin.brokers, Admin.leader_broker, _health, Admin.check_backlog_quota, Admin.runtime_configuration,
            Admin.tenants, Admin.create_tenant, Admin.update_tenant, Admin.delete_tenant, Admin.unload_namespace, Admin.unload_bundle,
        ),
        Access(status=_FORBIDDEN): (
            Admin.policies, Admin.permissions, Admin.grant_permission, Admin.revoke_permission, Admin.replication_clusters,
            _set_replication_clusters, _policy, Admin.set_policy, _topic_policy, Admin.set_topic_policy, Admin.remove_topic_policy,
            Admin.create_topic, Admin.delete_topic, Admin.create_partitioned_topic, Admin.update_partitioned_topic,
            Admin.create_missed_partitions, Admin.delete_partitioned_topic,
        ),
        Access(actions=_USE): (
            Admin.partitioned_metadata, Admin.properties, Admin.topic_stats, Admin.internal_stats, Admin.internal_info,
            Admin.partitioned_internal_stats, Admin.partitioned_stats, Admin.schema, Admin.schemas, Admin.lookup,
        ),
        Access(actions=_USE, status=_FORBIDDEN): (
            Admin.bundles, _namespace_topics, Admin.topics, Admin.partitioned_topics, _topic_bundle,
        ),
        Access(actions=("produce",)): (Admin.add_schema,),
        Access(actions=("consume",)): (
            Admin.last_message_id, Admin.message_id_at, _examine_message, _message, _peek_message, Admin.subscriptions,
            Admin.create_subscription, Admin.delete_subscription, Admin.subscription_properties, Admin.skip_messages, Admin.expire_messages,
            Admin.expire_old_messages, Admin.expire_in_all_subscriptions, Admin.reset_cursor, Admin.reset_cursor_to_time,
        ),
        Access(actions=("consume",), status=_FORBIDDEN): (Admin.clear_backlog,),
    }.items()
    for operation in operations
}  # fmt: skip
"""Who may call an operation; admins of the tenant may call the others, which all others get 401 for."""

_TENANT = "/admin/v2/tenants/{tenant}"
_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
_TOPICS = "/admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC = f"{_TOPICS}/{{topic}}"
_SCHEMAS = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
_LOOKUP = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
_SUBSCRIPTION = f"{_TOPIC}/subscription/{{subscription}}"
_STATS = ("earliest", "backlog_sizes", "publishers_left_out", "consumers_left_out")
_T, _NS, _S = ("topic",), ("namespace",), ("topic", "subscription")

ROUTES = (
    Route("GET", "/admin/v2/clusters", Admin.clusters),
    Route("GET", "/admin/v2/clusters/{cluster}", Admin.cluster, ("cluster",)),
    Route("GET", "/admin/v2/brokers", Admin.brokers),
    Route("GET", "/admin/v2/brokers/leaderBroker", Admin.leader_broker),
    Route("GET", "/admin/v2/brokers/version", _version),
    Route("GET", "/admin/v2/brokers/ready", _ready),
    Route("GET", "/admin/v2/brokers/health", _health, ("broker_id",)),
    Route("GET", "/admin/v2/brokers/backlog-quota-check", Admin.check_backlog_quota),
    Route("GET", "/admin/v2/brokers/configuration/runtime", Admin.runtime_configuration),
    Route("GET", "/admin/v2/brokers/{cluster}", Admin.brokers, ("cluster",)),
    Route("GET", "/admin/v2/tenants", Admin.tenants),
    Route("GET", _TENANT, Admin.tenant, ("tenant",)),
    Route("PUT", _TENANT, Admin.create_tenant, ("tenant", "admin_roles", "allowed_clusters")),
    Route("POST", _TENANT, Admin.update_tenant, ("tenant", "admin_roles", "allowed_clusters")),
    Route("DELETE", _TENANT, Admin.delete_tenant, ("tenant",), ("force",)),
    Route("GET", "/admin/v2/namespaces/{tenant}", Admin.namespaces, ("tenant",)),
    Route("GET", _NAMESPACE, Admin.policies, _NS),
    Route("PUT", _NAMESPACE, Admin.create_namespace, ("namespace", "policies")),
    Route("DELETE", _NAMESPACE, Admin.delete_namespace, _NS, ("force",)),
    Route("PUT", f"{_NAMESPACE}/unload", Admin.unload_namespace, _NS),
    Route("GET", f"{_NAMESPACE}/bundles", Admin.bundles, _NS),
    Route("PUT", f"{_NAMESPACE}/{{bundle}}/unload", Admin.unload_bundle, ("namespace", "bundle"), ("destination",)),
    Route("POST", f"{_NAMESPACE}/clearBacklog", Admin.clear_backlog, _NS),
    Route("POST", f"{_NAMESPACE}/clearBacklog/{{subscription}}", Admin.clear_backlog, ("namespace", "subscription")),
    Route("GET", f"{_NAMESPACE}/replication", Admin.replication_clusters, _NS),
    Route("POST", f"{_NAMESPACE}/replication", _set_replication_clusters, ("namespace", "clusters")),
    Route("GET", f"{_NAMESPACE}/topics", _namespace_topics, ("namespace", "mode"), ("include_system",)),
    Route("GET", f"{_NAMESPACE}/permissions", Admin.permissions, _NS),
    Route("POST", f"{_NAMESPACE}/permissions/{{role}}", Admin.grant_permission, ("namespace", "role", "actions")),
    Route("DELETE", f"{_NAMESPACE}/permissions/{{role}}", Admin.revoke_permission, ("namespace", "role")),
    *_policy_routes(),
    Route("GET", _TOPICS, Admin.topics, ("namespace", "domain"), ("include_system", "in_bundle")),
    Route("GET", f"{_TOPICS}/partitioned", Admin.partitioned_topics, ("namespace", "domain"), ("include_system",)),
    Route("PUT", _TOPIC, Admin.create_topic, ("topic", "new_properties")),
    Route("DELETE", _TOPIC, Admin.delete_topic, _T, ("force",)),
    Route("PUT", f"{_TOPIC}/unload", Admin.unload_topic, _T),
    Route("GET", f"{_TOPIC}/partitions", Admin.partitioned_metadata, _T, ("create",)),
    Route("PUT", f"{_TOPIC}/partitions", Admin.create_partitioned_topic, ("topic", "partitions", "metadata_properties")),
    Route("POST", f"{_TOPIC}/partitions", Admin.update_partitioned_topic, ("topic", "partitions")),
    Route("DELETE", f"{_TOPIC}/partitions", Admin.delete_partitioned_topic, _T, ("force",)),
    Route("POST", f"{_TOPIC}/createMissedPartitions", Admin.create_missed_partitions, _T),
    Route("GET", f"{_TOPIC}/properties", Admin.properties, _T),
    Route("PUT", f"{_TOPIC}/properties", Admin.update_properties, ("topic", "new_properties")),
    Route("DELETE", f"{_TOPIC}/properties", Admin.remove_property, ("topic", "key")),
    Route("POST", f"{_TOPIC}/terminate", Admin.terminate_topic, _T),
    Route("POST", f"{_TOPIC}/terminate/partitions", Admin.terminate_partitioned_topic, _T),
    Route("DELETE", f"{_TOPIC}/truncate", Admin.truncate_topic, _T),
    Route("POST", f"{_TOPIC}/trim", _trim_topic, _T),
    Route("GET", f"{_TOPIC}/compaction", Admin.compaction_status, _T),
    Route("GET", f"{_TOPIC}/lastMessageId", Admin.last_message_id, _T),
    Route("GET", f"{_TOPIC}/messageid/{{timestamp}}", Admin.message_id_at, ("topic", "timestamp")),
    Route("GET", f"{_TOPIC}/examinemessage", _examine_message, ("topic", "message_position"), ("latest",)),
    Route("GET", f"{_TOPIC}/ledger/{{ledger}}/entry/{{entry}}", _message, ("topic", "ledger", "entry")),
    Route("GET", f"{_TOPIC}/stats", Admin.topic_stats, _T, _STATS),
    Route("GET", f"{_TOPIC}/internalStats", Admin.internal_stats, _T),
    Route("GET", f"{_TOPIC}/internal-info", Admin.internal_info, _T),
    Route("GET", f"{_TOPIC}/partitioned-internalStats", Admin.partitioned_internal_stats, _T),
    Route("GET", f"{_TOPIC}/partitioned-stats", Admin.partitioned_stats, _T, ("per_partition", *_STATS)),
    Route("GET", f"{_TOPIC}/subscriptions", Admin.subscriptions, _T),
    Route("PUT", _SUBSCRIPTION, Admin.create_subscription, (*_S, "start", "properties"), ("replicated",)),
    Route("DELETE", _SUBSCRIPTION, Admin.delete_subscription, _S, ("force",)),
    Route("GET", f"{_SUBSCRIPTION}/properties", Admin.subscription_properties, _S),
    Route("POST", f"{_SUBSCRIPTION}/skip/{{count}}", Admin.skip_messages, (*_S, "count")),
    Route("POST", f"{_SUBSCRIPTION}/skip_all", Admin.skip_messages, (*_S, "nothing")),
    Route("POST", f"{_SUBSCRIPTION}/expireMessages", Admin.expire_messages, (*_S, "position"), ("excluded",)),
    Route("POST", f"{_SUBSCRIPTION}/expireMessages/{{seconds}}", Admin.expire_old_messages, (*_S, "seconds")),
    Route("POST", f"{_TOPIC}/all_subscription/expireMessages/{{seconds}}", Admin.expire_in_all_subscriptions, ("topic", "seconds")),
    Route("POST", f"{_SUBSCRIPTION}/resetcursor", Admin.reset_cursor, (*_S, "position"), ("batch_index", "excluded")),
    Route("POST", f"{_SUBSCRIPTION}/resetcursor/{{timestamp}}", Admin.reset_cursor_to_time, (*_S, "timestamp")),
    Route("GET", f"{_SUBSCRIPTION}/position/{{count}}", _peek_message, (*_S, "count")),
    Route("GET", f"{_SCHEMAS}/schema", Admin.schema, ("schema_topic", "nothing")),
    Route("GET", f"{_SCHEMAS}/schema/{{version}}", Admin.schema, ("schema_topic", "version")),
    Route("GET", f"{_SCHEMAS}/schemas", Admin.schemas, ("schema_topic",)),
    Route("POST", f"{_SCHEMAS}/schema", Admin.add_schema, ("schema_topic", "schema_type", "schema_definition", "properties")),
    Route("DELETE", f"{_SCHEMAS}/schema", Admin.delete_schema, ("schema_topic",), ("force",)),
    Route("GET", _LOOKUP, Admin.lookup, _T, ("listener",)),
    Route("GET", f"{_LOOKUP}/bundle", _topic_bundle, _T),
)
"""All routes of the interface."""


def _by_landmark(paths: Iterable[AdminPath]) -> dict[tuple[int, int, str], list[AdminPath]]:
    """Return routes by what a path that matches has: the few that can are found at once."""
    found: dict[tuple[int, int, str], list[AdminPath]] = {}
    for path in paths:
        found.setdefault(path.landmark, []).append(path)
    return found


KNOWN = _by_landmark((*ROUTES, *UNSUPPORTED))
"""What the interface serves, and what nobody serves."""


def handle(broker: Broker, request: AdminRequest, now: float, member: Member | None = None) -> AdminResponse:
    """Handle an admin request.

    Args:
        broker: The broker.
        request: The request.
        now: The time, in seconds.
        member: The broker of the cluster that is asked; None: the only one, or the first one.

    Returns:
        The response. A refused request has the body `{"reason": ...}` and an error status.
    """
    broker.tick(now)
    try:
        role = broker.admin.authenticate(request.token)
        return _carry_out(broker, *_route(broker, request), request, role, member or broker.members.leader)
    except AdminRefused as refused:
        broker.log.refused(f"{request.method} {request.path}", str(refused.status), refused.reason, request.address)
        return refusal(refused)


def refusal(refused: AdminRefused) -> AdminResponse:
    """Return the response to a refused request."""
    return AdminResponse(refused.status, json.dumps({"reason": refused.reason}).encode(), headers=refused.headers)


def _route(broker: Broker, request: AdminRequest) -> tuple[Route | ExtensionRoute, Mapping[str, str]]:
    """Return the route of a request, and the values from its path."""
    parts = [part.partition(";")[0] for part in request.path.removesuffix("/").split("/")[1:]]  # without what Java calls matrix parameters
    extending = (route for extension in broker.extensions.values() for route in extension.routes)
    known = (route for place, part in enumerate(parts) for route in KNOWN.get((len(parts), place, part), ()))
    matching = [(route, found) for route in (*known, *extending) if (found := route.match(parts)) is not None]
    if not matching:
        raise AdminRefused(HTTPStatus.NOT_FOUND, f"there is nothing at {request.path}")
    fitting = [one for one in matching if one[0].method == ("GET" if request.method == "HEAD" else request.method)]
    if fitting:
        # of several that fit, the one with most literals is meant, and of two alike the one that is served
        route, found = max(fitting, key=lambda one: (one[0].literals, isinstance(one[0], Route | ExtensionRoute)))
        if isinstance(route, Route | ExtensionRoute):
            return route, {name: _decoded(name, part) for name, part in found.items()}
        raise unsupported(f"{request.method} {request.path}", parts[2])
    methods = {route.method for route, _ in matching}
    allowed = ", ".join(sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}))
    if request.method == "OPTIONS":
        return ExtensionRoute("OPTIONS", request.path, lambda _, __: _text(allowed), Access("any")), {}
    raise AdminRefused(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} takes {allowed}", {"Allow": allowed})


def _carry_out(
    broker: Broker, route: Route | ExtensionRoute, found: Mapping[str, str], request: AdminRequest, role: str | None, member: Member
) -> AdminResponse:
    _check_access(broker, route.access if isinstance(route, ExtensionRoute) else _ACCESS.get(route.operation, ADMINS), found, role)
    owner = route.owner(broker.members, found, request) if isinstance(route, Route) else None
    if owner not in (None, member):  # core.cluster.admin-redirect
        query = urlencode({**request.query, "authoritative": "false"})
        return AdminResponse(HTTPStatus.TEMPORARY_REDIRECT, headers={"Location": f"{owner.admin_url}{request.path}?{query}"})
    result = route.carry_out(broker.admin, found, request) if isinstance(route, Route) else route.carry_out(found, request)
    if isinstance(result, AdminResponse):
        return result
    if result is None:
        return AdminResponse(HTTPStatus.NO_CONTENT)
    return AdminResponse(HTTPStatus.OK, json.dumps(result, ensure_ascii=False).encode())


def _check_access(broker: Broker, access: Access, found: Mapping[str, str], role: str | None) -> None:
    authorization = broker.authorization
    if access.role == "any" or authorization.is_super_user(role):
        return
    if access.role == "nobody" or not authorization.allows(role, f"{found['tenant']}/{found.get('namespace', '')}", *access.actions):
        raise AdminRefused(access.status, "Unauthorized to perform this operation")


def _decoded(name: str, part: str) -> str:
    """Decode a segment of a path as Pulsar does: in a topic a plus is a space, and a subscription is decoded twice."""
    decode = unquote_plus if name == "topic" else unquote
    try:
        part.encode()
        found = decode(part, errors="strict")
        if name != "subscription":
            return found
        if _BROKEN_ESCAPE.search(found):
            raise AdminRefused(HTTPStatus.INTERNAL_SERVER_ERROR, f"{found} has an incomplete escape")
        return unquote_plus(found, errors="strict")
    except UnicodeError:
        raise AdminRefused(HTTPStatus.BAD_REQUEST, f"{part} is not UTF-8") from None
