"""Which broker of a cluster serves a case: the owner of its namespaces, found by look-ups as a client does.

Each namespace of a run on a cluster has one bundle, so that one broker owns all of its topics. If a case has several namespaces, one that
another broker owns is unloaded until the same one takes it. A case is held at that broker. One that sends nothing but what any broker
answers, such as watches, is held at another broker than the one that owns its topics and gets the admin calls, so that what brokers tell
each other is judged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from conformance.running.exchange import Exchange
from conformance.targets.admin import AdminClient, is_cluster
from conformance.targets.model import LOOPBACK, Endpoint, TargetError
from refimpl.wire.pulsar_api_pb2 import CommandLookupTopicResponse, ServerError

_TOPIC = "pulsar-conformance-look-up"
_HOPS = 8
"""Redirects that are followed."""
OWNER_NAMED = "core.cluster.owner-named"
"""The clause about where look-ups lead."""
_TRIES, _PAUSE = 40, 0.25
"""How often a look-up is made again that is answered with ServiceNotReady, and the seconds between."""
_SCRATCH, _BUNDLES = "public/pc-brokers", 16
"""A namespace in which brokers are looked for, and how many bundles it has."""
_PASSING = (ServerError.ServiceNotReady, ServerError.MetadataError)
"""Errors of a look-up that may pass: the second one comes from a broker that has not heard yet that another one took the bundle."""
_SECONDS_UNSURE = 5.0
"""For the one look-up that tells whether there is a proxy."""
_UNLOADS, _UNNAMED = 12, 4
"""How often a namespace is unloaded so that the broker of the others takes it, and how many of these name no destination."""
_WHOLE = "0x00000000_0xffffffff"
"""The bundle of a namespace that has one."""


@dataclass
class Owners:
    """Finds the owners of namespaces in a cluster.

    Args:
        endpoint: The broker that the user named.
        admin: Its admin interface.
    """

    endpoint: Endpoint
    admin: AdminClient
    _met: list[Endpoint] = field(default_factory=list, init=False)
    _named: Endpoint | None = field(default=None, init=False)
    _search: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def of(self, namespaces: Sequence[str], sent_to: str | None = None, *, named: bool = False) -> Endpoint:
        """Return the broker that owns namespaces; without namespaces, the one that the user named.

        Args:
            namespaces: "tenant/name", in the order of the case.
            sent_to: Where the broker that the user named has sent a case that has no namespaces.
            named: Whether the broker that the user named, whose admin interface is called, is to own them, if it takes the first one.

        Raises:
            TargetError: There is none, it is on a host that the user did not allow, or the namespaces can't be brought together.
        """
        if not namespaces:
            return await self._home() if sent_to is None else _allowed(self.endpoint, sent_to)
        owner = await look_up(self.endpoint, namespaces[0], authoritative=named)
        if self._met_besides(owner) is None:
            self._met.append(owner)
        for namespace in namespaces[1:]:
            await self.bring(namespace, owner)
        return owner

    async def _home(self) -> Endpoint:
        """Return the broker that the user named; of an address that leads to several, as that of a load balancer does, one of these."""
        async with self._search:
            if self._named is None:
                self._named = await self._broker_named()
        return self._named

    async def _broker_named(self) -> Endpoint:
        with contextlib.suppress(TargetError):  # where look-ups lead nowhere, cases are held where the user said
            found = await look_up(self.endpoint, "public/default")
            if _same(found, self.endpoint):
                return self.endpoint
            listed = await self.admin.call("brokers")
            self._met.append(found)
            await self._look_around()
            if listed.ok and isinstance(listed.body, list) and len(self._others()) >= len(listed.body):
                return found
        return self.endpoint

    def _others(self) -> list[Endpoint]:
        """Return the brokers that were met, each once, without the one that the user named."""
        found: list[Endpoint] = []
        for one in self._met:
            if not any(_same(one, other) for other in (self.endpoint, *found)):
                found.append(one)
        return found

    async def bring(self, namespace: str, owner: Endpoint) -> None:
        """Let a broker own a namespace: it is asked first, and where another one has the namespace, that is unloaded.

        Raises:
            TargetError: The namespace stays elsewhere.
        """
        for number in range(_UNLOADS):
            if _same(await look_up(owner, namespace, authoritative=True), owner):
                return
            await self._unload(namespace, number - _UNNAMED)
        raise TargetError(f"{namespace} stays at another broker than {owner.service_url}, however often it is unloaded")

    async def _unload(self, namespace: str, number: int) -> None:
        """Unload a namespace. From number 0 on, name a broker that is to get it, each in turn: not each cluster asks the client."""
        if number >= 0:
            listed = await self.admin.call("brokers")
            if listed.ok and isinstance(listed.body, list) and listed.body:
                destination = listed.body[number % len(listed.body)]
                call = {"namespace": namespace, "bundle": _WHOLE, "destination": destination}
                if (await self.admin.call("unload_bundle", call)).ok:
                    return
        await self.admin.call("unload_namespace", namespace)

    async def other(self, broker: Endpoint) -> Endpoint:
        """Return a broker of the cluster other than one: one that was met, or one that takes bundles of a namespace that is made for this.

        Raises:
            TargetError: All bundles go to the same broker.
        """
        async with self._search:
            found = self._met_besides(broker)
            if found is None:
                await self._look_around(broker)
                found = self._met_besides(broker)
        if found is None:
            raise TargetError(f"no other broker of the cluster than {broker.service_url} takes bundles")
        return found

    async def _look_around(self, besides: Endpoint | None = None) -> None:
        """Meet the brokers that take bundles of a namespace that is made for this, or, if a broker takes all, that say so over HTTP."""
        await self.admin.call("create_namespace", {"namespace": _SCRATCH, "bundles": _BUNDLES})
        for number in range(4 * _BUNDLES):
            self._met.append(await look_up(self.endpoint, _SCRATCH, f"t-{number}"))
        if besides is not None and self._met_besides(besides) is None:
            self._met += await self._named_over_http()
        await self.admin.remove_namespace(_SCRATCH)

    async def _named_over_http(self) -> list[Endpoint]:
        """Ask each broker of the cluster over HTTP for a topic that nobody has: in some clusters the one that is asked takes it."""
        await self.admin.call("unload_namespace", _SCRATCH)
        found = []
        listed = await self.admin.call("brokers")
        for broker in listed.body if listed.ok and isinstance(listed.body, list) else []:
            url = f"{urlsplit(self.endpoint.admin_url or '').scheme}://{broker}"
            if self.endpoint.listener is not None or not self.endpoint.allows(url):
                continue
            with contextlib.suppress(TargetError):  # what is wrong with a look-up over HTTP, a case shows
                async with AdminClient(replace(self.endpoint, admin_url=url)) as admin:
                    answer = await admin.call("look_up", f"persistent://{_SCRATCH}/{broker}")
                named = answer.body.get("brokerUrlTls" if self.endpoint.tls else "brokerUrl") if isinstance(answer.body, dict) else None
                if isinstance(named, str) and named:
                    found.append(_there(self.endpoint, named, proxied=self.endpoint.proxy_to is not None))
        return found

    def _met_besides(self, broker: Endpoint) -> Endpoint | None:
        return next((one for one in self._met if not _same(one, broker)), None)


async def owners(endpoint: Endpoint, admin: AdminClient | None) -> Owners | None:
    """Return what finds the owners, if the target is a cluster or may be one; None if it is a single broker.

    A user who is no superuser is not told how many brokers there are. Look-ups lead to the owner, whether there are others or not.

    Args:
        endpoint: The broker that the user named, as `behind` gives it.
        admin: Its admin interface.
    """
    return Owners(endpoint, admin) if admin is not None and await is_cluster(admin) is not False else None


async def behind(endpoint: Endpoint) -> Endpoint:
    """Return a broker behind the proxy at the service URL, as a look-up names it; without a proxy the endpoint as it is.

    Raises:
        TargetError: It is not reachable, or does not speak Pulsar.
    """
    request = {"topic": f"persistent://public/default/{_TOPIC}", "authoritative": False, "request_id": 1}
    async with Exchange(endpoint) as exchange:
        await exchange.connect()
        with contextlib.suppress(TargetError, ValueError):  # such as an address that is none; what is no answer, cases show
            found = await exchange.ask({"lookupTopic": request}, _SECONDS_UNSURE)
            if found is not None and isinstance(found[1], CommandLookupTopicResponse) and found[1].proxy_through_service_url:
                there = _there(endpoint, _url(endpoint, found[1]), proxied=True)
                return endpoint if there.proxy_to is None else there
    return endpoint


async def look_up(endpoint: Endpoint, namespace: str, topic: str = _TOPIC, *, authoritative: bool = False) -> Endpoint:
    """Find the broker that serves a topic of a namespace: LOOKUP, redirects, and once more where it is not ready.

    Args:
        endpoint: Where to begin.
        namespace: "tenant/name".
        topic: Its local name. Where the namespace has one bundle, all others have the same broker.
        authoritative: Whether the first broker is told that it may take the namespace.

    Raises:
        TargetError: No broker serves it, or it is on a host that the user did not allow.
    """
    at = endpoint
    for _ in range(_HOPS):
        answer = await _answer(at, f"persistent://{namespace}/{topic}", authoritative)
        there = _there(at, _url(at, answer), proxied=answer.proxy_through_service_url)
        stays = _same(at, there)
        at = at if stays else there
        if answer.response == CommandLookupTopicResponse.Connect:
            return at
        if stays:
            raise TargetError(f"{at.service_url} redirects a look-up to itself", clause=OWNER_NAMED)
        authoritative = answer.authoritative
    raise TargetError(f"a look-up is redirected more than {_HOPS} times", clause=OWNER_NAMED)


def named_elsewhere(at: Endpoint, answer: CommandLookupTopicResponse) -> str | None:
    """Return the address of another broker that a look-up names; None: it is the one that was asked, or behind the same proxy."""
    url = _url(at, answer)
    return None if answer.proxy_through_service_url or _same(at, replace(at, service_url=url)) else url


async def _answer(endpoint: Endpoint, topic: str, authoritative: bool) -> CommandLookupTopicResponse:
    """Return what a look-up comes to, asked again while the broker is not ready."""
    request: dict[str, Any] = {"topic": topic, "authoritative": authoritative}
    if endpoint.listener is not None:
        request["advertised_listener_name"] = endpoint.listener
    async with Exchange(endpoint) as exchange:
        await exchange.connect()
        for number in range(1, _TRIES + 1):
            found = await exchange.ask({"lookupTopic": {**request, "request_id": number}})
            if found is None or not isinstance(found[1], CommandLookupTopicResponse):
                break
            answer = found[1]
            if answer.response != CommandLookupTopicResponse.Failed:
                return answer
            if answer.error not in _PASSING or number == _TRIES:
                raise TargetError(f"the look-up of {topic} fails: {ServerError.Name(answer.error)} {answer.message}")
            await asyncio.sleep(_PAUSE)
    raise TargetError(f"{endpoint.service_url} does not answer the look-up of {topic}")


def _url(at: Endpoint, answer: CommandLookupTopicResponse) -> str:
    """Return the address that a look-up names: the one with TLS, or without, as the connection is; else where the question was put."""
    return (answer.brokerServiceUrlTls if at.tls else answer.brokerServiceUrl) or at.service_url


def _allowed(endpoint: Endpoint, url: str) -> Endpoint:
    """Return another broker of the cluster, if it is on a host to which the user lets the suite go."""
    if not endpoint.allows(url):
        hint = f"allow it: --allow-host {urlsplit(url).hostname}"
        raise TargetError(f"a look-up leads to {url}, which is not on a host of the target", hint=hint)
    return replace(endpoint, service_url=url)


def _there(at: Endpoint, url: str, *, proxied: bool) -> Endpoint:
    """Return the broker that a look-up names: behind the same proxy, if there is one. A standalone broker says so of itself."""
    there = replace(at, service_url=url)
    if at.proxy_to is None and (not proxied or _same(at, there)):
        return _allowed(at, url)
    host = f"[{there.host}]" if ":" in there.host else there.host
    return replace(at, proxy_to=f"{host}:{there.port}")


def _same(one: Endpoint, other: Endpoint) -> bool:
    """Tell whether two addresses are of one broker, which may call its own host by another name."""
    if one.proxy_to is not None or other.proxy_to is not None:
        return one.proxy_to == other.proxy_to
    return one.port == other.port and (one.host == other.host or {one.host, other.host} <= LOOPBACK)
