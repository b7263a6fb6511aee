"""The operations of Pulsar's admin interface: a closed table, and the requests that it makes of them.

The table is data, so that transcripts can be checked before a run and the documentation can be generated.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote, urlencode

from conformance.names import did_you_mean
from conformance.targets.model import TargetError
from conformance.targets.policies import POLICIES, change_policy, read_policy

_TOPIC = re.compile(r"(persistent|non-persistent|topic)://([^/]+)/([^/]+)/(.+)", re.DOTALL)
_NAMESPACE = re.compile(r"([^/]+)/([^/]+)")
_POSITIONS = {"latest": 2**63 - 1, "earliest": -1}

Body = Literal["none", "actions", "bundles", "message_id", "partitions", "position", "properties", "tenant"]


@dataclass(frozen=True)
class Operation:
    """One operation of the admin interface.

    Attributes:
        method: The HTTP method.
        path: Below `/admin/v2`, or with a slash below the admin URL; `{topic}` and `{namespace}` stand for their path, `{scalable}` for
            that of a scalable one, `{of}` for that of a namespace or topic, behind which the policy comes, any other `{argument}` for its
            percent-encoded text.
        required: Arguments that have to be given; a bare value stands for the first.
        text: What it does, in one line.
        optional: The others, with their defaults.
        query: Parameters; `{argument}` stands for its value. A list is given one by one.
        body: What is sent.
        rare: Whether only operators need it, so that a small broker may lack it.
    """

    method: Literal["GET", "PUT", "POST", "DELETE"]
    path: str
    required: tuple[str, ...]
    text: str
    optional: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body = "none"
    rare: bool = False

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
        "create_namespace": Operation(
            "PUT", "namespaces/{namespace}", _NS, "Create a namespace with policies besides the broker's own, and a number of bundles.",
            {"bundles": None, "policies": {}}, body="bundles",
        ),
        "delete_namespace": Operation(
            "DELETE", "namespaces/{namespace}", _NS, "Delete a namespace; forced: with its topics.", _FORCE, {"force": "{force}"}
        ),
        "unload_namespace": Operation("PUT", "namespaces/{namespace}/unload", _NS, "Unload all topics of a namespace."),
        "unload_bundle": Operation(
            "PUT", "namespaces/{namespace}/{bundle}/unload", ("namespace", "bundle"),
            "Unload the topics of a bundle (`0x00000000_0x40000000`), so that the named broker gets it, if one of `brokers` is named.",
            {"destination": []}, {"destinationBroker": "{destination}"}, rare=True,
        ),
        "set_policy": Operation(
            "POST", "{of}", ("of", "policy", "value"),
            f"Set a policy of a namespace or a topic; null removes it: {', '.join(POLICIES)}.", rare=True,
        ),
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
        "create_missed_partitions": Operation(
            "POST", "{topic}/createMissedPartitions", _T, "Create the partitions of a topic that are not there.", rare=True
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
        "reset_cursor": Operation(
            "POST", "{topic}/subscription/{subscription}/resetcursor/{timestamp}", ("topic", "subscription", "timestamp"),
            "Let a subscription begin anew with what was published at a time or later, in milliseconds since 1970.",
        ),
        "reset_cursor_to": Operation(
            "POST", "{topic}/subscription/{subscription}/resetcursor", ("topic", "subscription", "message_id"),
            "Let a subscription begin anew with a message: `{ledgerId, entryId}`.", body="message_id", rare=True,
        ),
        "expire_messages": Operation(
            "POST", "{topic}/subscription/{subscription}/expireMessages/{seconds}", ("topic", "subscription", "seconds"),
            "Acknowledge for a subscription what was published so many seconds ago, or earlier.", rare=True,
        ),
        "terminate_topic": Operation("POST", "{topic}/terminate", _T, "End a topic: it takes no more messages."),
        "terminate_partitioned_topic": Operation("POST", "{topic}/terminate/partitions", _T, "End all partitions of a topic.", rare=True),
        "truncate_topic": Operation("DELETE", "{topic}/truncate", _T, "Delete all messages of a topic."),
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
        "policy": Operation("GET", "{of}", ("of", "policy"), "Read a policy of a namespace or a topic, see `set_policy`.", rare=True),
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
        "look_up": Operation("GET", "/lookup/v2/topic/{topic}", _T, "Look a topic up, as clients with an HTTP service URL do.", rare=True),
        "clusters": Operation("GET", "clusters", (), "List the clusters."),
        "brokers": Operation("GET", "brokers", (), "List the brokers of the cluster that run."),
        "broker_health": Operation("GET", "brokers/health", (), "Let the broker produce to and read from itself."),
        "runtime_configuration": Operation("GET", CONFIGURATION_PATH, (), "Read the broker's settings."),
    }
)  # fmt: skip
"""The operations by name."""


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
        The HTTP method, path and query below the admin URL, and what to send as JSON (None: nothing).

    Raises:
        TargetError: A name is not of the form that the operation needs.
    """
    operation = OPERATIONS[op]
    if "policy" in operation.required:
        return _policy_request(arguments)
    path = re.sub(r"\{(\w+)\}", lambda match: _path_of(match[1], arguments), operation.path)
    query = [(key, one) for key, value in operation.query.items() for one in _query_texts(value, arguments)]
    return operation.method, _below(path, query), _body(operation.body, arguments)


def _policy_request(arguments: Mapping[str, object]) -> tuple[str, str, object]:
    of, name = str(arguments["of"]), arguments["policy"]
    of_topic = "://" in of
    made = change_policy(name, arguments["value"], of_topic=of_topic) if "value" in arguments else read_policy(name, of_topic=of_topic)
    owner = topic_path(of, ("persistent", "non-persistent")) if of_topic else f"namespaces/{_namespace_path(of)}"
    return made.method, _below(f"{owner}/{made.path}", list(made.query.items())), made.body


def _below(path: str, query: Sequence[tuple[str, str]]) -> str:
    return full_path(path) + (f"?{urlencode(query)}" if query else "")


def full_path(path: str) -> str:
    """Return a path of an operation below the admin URL: below `/admin/v2`, unless it begins with a slash."""
    return path if path.startswith("/") else f"/admin/v2/{path}"


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
    if kind == "bundles":
        divided = {} if arguments["bundles"] is None else {"bundles": {"numBundles": arguments["bundles"]}}
        policies = arguments["policies"]
        return ({**policies, **divided} if isinstance(policies, Mapping) else divided) or None
    if kind == "message_id":
        given = arguments["message_id"]
        return {"partitionIndex": -1, **given} if isinstance(given, Mapping) else given
    if kind == "position":
        properties = arguments["properties"]
        return _position(arguments["position"]) | ({"properties": properties} if properties else {})
    return arguments[kind]


def _position(position: object) -> dict[str, object]:
    entry = _POSITIONS.get(str(position))
    if entry is None:
        raise TargetError(f"{position!r} is not a position", hint=f"it is one of: {', '.join(_POSITIONS)}")
    return {"ledgerId": entry, "entryId": entry, "partitionIndex": -1}
