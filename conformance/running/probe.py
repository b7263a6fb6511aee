"""Finds out what a target can do before anything is judged, or says in one line why it can't be tested at all."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from conformance.engine.capabilities import CAPABILITIES, DECLARED, FLAGS
from conformance.names import did_you_mean
from conformance.running.exchange import Exchange
from conformance.running.usual import creates_by_itself
from conformance.targets.admin import AdminClient, AdminResult, AdminUnreachable, another, is_cluster, listed_settings
from conformance.targets.model import Endpoint, TargetError, admin_hint, as_settings
from refimpl.wire.pulsar_api_pb2 import ServerError

_SECONDS_UNSURE = 5.0
"""For a request that a target may leave unanswered."""
_SHOWN = 120
"""Characters of the answer of another web server that are shown."""
_REFUSALS = frozenset({ServerError.UnsupportedVersionError, ServerError.NotAllowedError})
"""Errors by which a broker says that it does not do something at all."""
TENANT = "public"
"""In which a run creates its namespaces."""
_NO_NAMESPACE = f"{TENANT}/pulsar-conformance-no-such-namespace"
_NOWHERE = {"topic": f"persistent://{_NO_NAMESPACE}/t", "request_id": 1}
"""A topic that nobody can create."""
_NO_BROKER = "pulsar-conformance-no-such-broker.invalid:6650"
"""What only a proxy minds: a broker without one also says that there is one if it calls its host by a name that the suite does not know."""


@dataclass(frozen=True)
class Probed:
    """What a target announced, and what it can do."""

    server_version: str
    protocol_version: int
    capabilities: Mapping[str, bool]


async def probe(endpoint: Endpoint) -> Probed:
    """Find out what a target can do. A feature flag counts if one of several connections tells it, as the cases judge whether all do.

    Raises:
        TargetError: It is not reachable, speaks another protocol, or contradicts the declarations in its file.
    """
    async with Exchange(endpoint) as exchange:
        connected: Any = await exchange.connect()
        found = dict.fromkeys(DECLARED, False)
        told = [connected.feature_flags]
        answer = await exchange.ask(_list_topics("public/default/.*"))
        found["topic-list-filter"] = answer is not None and answer[0].startswith("getTopics") and answer[1].HasField("topics_hash")
    async with Exchange(endpoint) as exchange:
        second: Any = await exchange.connect(FLAGS.values())
        told.append(second.feature_flags)
        found |= {name: any(getattr(flags, flag) for flags in told) for name, flag in FLAGS.items()}
        found["connected-flags"] = connected.HasField("feature_flags")
        answer = await exchange.ask(_list_topics("public/default/(?!x).*"))
        found["regex-look-around"] = answer is not None and answer[0].startswith("getTopics") and found["topic-list-filter"]
    found["scalable-layout"] = found["scalable-topics"] and await _looks_up_layouts(endpoint)
    found |= await _admin_answers(endpoint)
    found["without-credentials"] = endpoint.credentials is None
    found["direct"] = endpoint.proxy_to is None or await is_served(replace(endpoint, proxy_to=_NO_BROKER)) is None
    found["config"] = False
    settings = {**as_settings(await listed_settings(endpoint)), **endpoint.config}
    found["auto-creation"] = creates_by_itself(settings)
    found["delayed-delivery"] = settings.get("delayedDeliveryEnabled") == "true"
    key_shared = {"subscribe": {**_NOWHERE, "subscription": "s", "subType": "Key_Shared", "consumer_id": 1}}
    waiting = {"producer": {**_NOWHERE, "producer_id": 1, "producer_access_mode": "WaitForExclusive"}}
    done = await asyncio.gather(_does(endpoint, key_shared), _does(endpoint, waiting))  # a target may leave both unanswered
    found["key-shared"], found["waiting-producers"] = done
    found["key-shared"] = found["key-shared"] and "Key_Shared" in settings.get("subscriptionTypesEnabled", "Key_Shared")
    return Probed(connected.server_version, connected.protocol_version, with_declared(endpoint, found))


async def is_served(endpoint: Endpoint) -> TargetError | None:
    """Tell why a new connection is not served; None if it is."""
    try:
        async with Exchange(endpoint) as exchange:
            await exchange.connect()
    except TargetError as error:
        return error
    return None


async def _looks_up_layouts(endpoint: Endpoint) -> bool:
    """Ask for the layout of a scalable topic that does not exist: a broker that only has the watch does not answer, or refuses."""
    async with Exchange(endpoint) as exchange:
        await exchange.connect()
        request = {"session_id": 1, "topic": "topic://public/default/pulsar-conformance-no-such-topic", "create_if_missing": False}
        answer = await exchange.ask({"scalableTopicLookup": request}, _SECONDS_UNSURE)
        if answer is None or answer[0] != "scalableTopicUpdate":
            return False
        update: Any = answer[1]
        return not update.HasField("error") or update.error not in _REFUSALS


async def _does(endpoint: Endpoint, request: dict[str, Any]) -> bool:
    """Ask for something that a broker need not do, where there is no topic: it does it, unless it says that it does not."""
    async with Exchange(endpoint) as exchange:
        await exchange.connect()
        answer = await exchange.ask(request, _SECONDS_UNSURE)
        refused: Any = answer[1] if answer is not None and answer[0] == "error" else None
        return refused is None or refused.error not in _REFUSALS


def _list_topics(pattern: str) -> dict[str, Any]:
    return {"getTopicsOfNamespace": {"request_id": 1, "namespace": "public/default", "topics_pattern": pattern}}


async def _admin_answers(endpoint: Endpoint) -> dict[str, bool]:
    """Tell whether the admin interface answers, whether it is that of a cluster, and whether that of another broker answers, too."""
    if endpoint.admin_url is None:
        return dict.fromkeys(("admin", "cluster", "admin-elsewhere"), False)
    try:
        async with AdminClient(endpoint) as admin:
            await _check_admin_interface(endpoint, admin)
            return {"admin": True, "cluster": await is_cluster(admin) is True, "admin-elsewhere": await another(admin) is not None}
    except AdminUnreachable as error:
        hint = error.hint if error.hint else "leave it out, or correct it"
        raise TargetError(f"the admin URL {endpoint.admin_url} does not answer: {error.message}", hint=hint) from None


async def _check_admin_interface(endpoint: Endpoint, admin: AdminClient) -> None:
    """Ask for a list, whose answer is that of a broker, or of something else that the user has to know of before the run.

    Raises:
        TargetError: It refuses, is down, or is no admin interface.
    """
    listed = await admin.call("namespaces", TENANT)
    asked = f"GET /admin/v2/namespaces/{TENANT}"
    if listed.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise TargetError(f"the admin URL {endpoint.admin_url} refuses {asked} with {said(listed)}", hint=admin_hint(endpoint))
    if listed.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        hint = "is the broker up, and no proxy in between? correct the admin URL, or leave it out"
        raise TargetError(f"the admin URL {endpoint.admin_url} answers {asked} with {said(listed)}", hint=hint)
    if listed.body == []:
        asked, listed = f"GET /admin/v2/namespaces/{_NO_NAMESPACE}", await admin.call("namespace_exists", _NO_NAMESPACE)
        good = not listed.ok  # else it answers everything alike
    elif listed.ok:
        good = _is_list_of_names(listed.body, f"{TENANT}/")
    else:
        good = (isinstance(listed.body, dict) and "reason" in listed.body) or _is_list_of_names((await admin.call("clusters")).body)
    if not good:
        hint = "is it another web server? correct the admin URL, or leave it out"
        raise TargetError(f"{endpoint.admin_url} is no admin interface of a broker: it answers {asked} with {said(listed)}", hint=hint)


def _is_list_of_names(body: object, prefix: str = "") -> bool:
    return isinstance(body, list) and all(isinstance(name, str) and name.startswith(prefix) for name in body)


def said(answer: AdminResult) -> str:
    """Return the status of an answer and its first words, without the marks of HTML."""
    said = answer.reason or (answer.body if isinstance(answer.body, str) else "" if answer.body is None else json.dumps(answer.body))
    words = " ".join(re.sub(r"(?s)<(style|script).*?</\1>|<[^>]*>", " ", said).split())
    return f"{answer.status}, {words[:_SHOWN]!r}" if words else f"{answer.status}"


def claimed(endpoint: Endpoint, claims: Iterable[str]) -> Endpoint:
    """Return an endpoint that declares further capabilities, as its file could."""
    return replace(endpoint, capabilities={**endpoint.capabilities, **dict.fromkeys(claims, True)})


def with_declared(endpoint: Endpoint, found: Mapping[str, bool]) -> dict[str, bool]:
    """Return what a target can do, by what was found out and by what is declared.

    Raises:
        TargetError: The declarations name something unknown, or contradict CONNECTED.
    """
    for name, declared in endpoint.capabilities.items():
        if name not in CAPABILITIES:
            meant = did_you_mean(name, CAPABILITIES)
            raise TargetError(f"{endpoint.name} declares an unknown capability {name}{meant}", hint=f"known: {', '.join(CAPABILITIES)}")
        if name in FLAGS and name not in DECLARED and declared and not found[name]:
            raise TargetError(
                f"{endpoint.name} declares {name}, but its CONNECTED does not set {FLAGS[name]}",
                hint="correct the declaration or the broker",
            )
    known = {**found, **endpoint.capabilities}
    return {name: known[name] for name in CAPABILITIES}
