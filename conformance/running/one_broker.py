"""Sees before a run that the service URL and the admin URL lead to one broker, or one cluster, and that topics can be created there.

A run on two brokers would accuse both of what neither did.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from conformance.running.exchange import Exchange
from conformance.running.namespaces import NAMESPACE_PREFIX
from conformance.targets.admin import NO_SUCH_PATH, AdminClient, AdminResult
from conformance.targets.model import Endpoint, TargetError, WrongUsage, admin_hint
from refimpl.wire.pulsar_api_pb2 import CommandGetTopicsOfNamespaceResponse, CommandPartitionedTopicMetadataResponse

_PARTITIONS = 3
_SECONDS, _PAUSE = 10.0, 0.25
"""How long the topic is looked for: brokers of a cluster hear of each other's topics a moment later."""


@dataclass
class Checked:
    """What came of the check.

    Attributes:
        namespace: The one that was made for this, "tenant/name", for the caller to remove; None if there is none.
        missing: What the admin interface does not create, by the name of the call: its status, and the reason that it gives.
    """

    namespace: str | None = None
    missing: dict[str, str] = field(default_factory=dict)

    async def create(self, admin: AdminClient, call: str, arguments: Any) -> AdminResult:
        """Call the admin interface, and note if it does not have this call."""
        answer = await admin.call(call, arguments)
        if answer.status in NO_SUCH_PATH:
            self.missing[call] = f"{answer.status} {answer.reason}".strip()
        return answer


async def check_one_broker(endpoint: Endpoint, admin: AdminClient) -> Checked:
    """Create a topic with partitions by the admin interface, and see over the wire that the broker knows it.

    One answer that shows it is enough, and one that does not come proves nothing: a broker with a fault is judged, not refused.

    Args:
        endpoint: The broker, as `behind` gives it.
        admin: The admin interface.

    Raises:
        WrongUsage: The broker says in both ways that it has no such topic, for seconds.
        TargetError: The admin interface lets the user create no namespaces.
    """
    namespace = f"public/{NAMESPACE_PREFIX}{secrets.token_hex(4)}"
    topic = f"persistent://{namespace}/one-broker"
    checked = Checked()
    made = await checked.create(admin, "create_namespace", namespace)
    if made.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        what = f"the admin URL {endpoint.admin_url} refuses to create namespace {namespace} with {made.status} {made.reason}"
        raise TargetError(what, hint=admin_hint(endpoint))
    if not made.ok:
        return checked
    checked.namespace = namespace
    await checked.create(admin, "create_topic", f"persistent://{namespace}/whole")
    made = await checked.create(admin, "create_partitioned_topic", {"topic": topic, "partitions": _PARTITIONS})
    until = asyncio.get_running_loop().time() + _SECONDS
    while made.ok and await _unknown(endpoint, namespace, topic):
        if asyncio.get_running_loop().time() > until:
            await admin.remove_namespace(namespace)
            raise WrongUsage(
                f"{endpoint.service_url} and {endpoint.admin_url} are two brokers: "
                f"{_SECONDS:g} s after a topic was created at the second address, the first one does not know it",
                hint="give --admin-url of the same broker, or cluster",
            )
        await asyncio.sleep(_PAUSE)
    return checked


async def see_one_broker(endpoint: Endpoint) -> None:
    """Check the same, where nothing is created yet, and leave nothing behind.

    Args:
        endpoint: The broker, with an admin URL.

    Raises:
        WrongUsage: As above.
        TargetError: Likewise.
    """
    async with AdminClient(endpoint) as admin:
        checked = await check_one_broker(endpoint, admin)
        if checked.namespace is not None:
            await admin.remove_namespace(checked.namespace)


async def _unknown(endpoint: Endpoint, namespace: str, topic: str) -> bool:
    """Tell whether the broker says that there is no such topic: of its partitions, and in the list of topics."""
    partitions = {"topic": topic, "request_id": 1, "metadata_auto_creation_enabled": False}
    listed = {"namespace": namespace, "request_id": 2, "mode": "PERSISTENT"}
    async with Exchange(endpoint) as exchange:
        await exchange.connect()
        first = _answer(await exchange.ask({"partitionMetadata": partitions}, _SECONDS))
        if not isinstance(first, CommandPartitionedTopicMetadataResponse) or first.partitions == _PARTITIONS:
            return False
    async with Exchange(endpoint) as exchange:
        await exchange.connect()
        second = _answer(await exchange.ask({"getTopicsOfNamespace": listed}, _SECONDS))
    if isinstance(second, CommandGetTopicsOfNamespaceResponse):
        return not any(name.startswith(topic) for name in second.topics)
    return second is not None  # an error


def _answer(found: tuple[str, Any] | None) -> Any:
    return None if found is None else found[1]
