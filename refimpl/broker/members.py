"""The brokers of a cluster, and which of them owns a bundle.

One `Broker` serves all of them over one store, each at addresses of its own. What only the owner of a topic's bundle does is refused or
redirected elsewhere; all the rest any of them does. A single broker is a cluster of one. As observed on Apache Pulsar 4.2.4:

    a look-up        the bundle has an owner: any broker names it
                     it has none: the leader chooses one, other brokers send the client to the leader
                     it has none, and the client was told that the look-up is authoritative: the broker takes it
    an unload        the bundle has no owner any more; unlike in Pulsar, it is always another broker's turn
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from refimpl.broker.bundles import bundle_of, ranges
from refimpl.store import MemoryStore


@dataclass(frozen=True)
class Member:
    """One broker of a cluster.

    Attributes:
        service_url: Its service URL for clients.
        admin_url: The URL of its admin interface.
        service_url_tls: The service URL over TLS; None: there is none.
    """

    service_url: str = "pulsar://127.0.0.1:6650"
    admin_url: str = "http://127.0.0.1:8080"
    service_url_tls: str | None = None

    @property
    def broker_id(self) -> str:
        """Return its name in the admin interface: the host and port of that."""
        return urlsplit(self.admin_url).netloc


class Directions(NamedTuple):
    """Where a look-up leads.

    Attributes:
        member: The broker to go to.
        redirect: Whether the client is to ask there again; otherwise the broker owns the topic.
        authoritative: What the client has to say when it asks there: whether the broker may take the bundle.
    """

    member: Member
    redirect: bool
    authoritative: bool


class Members:
    """The brokers of a cluster.

    Args:
        members: All of them; the first one is the leader.
        store: Where the bundles of namespaces are.

    Attributes:
        running: Those that are not stopped.
    """

    def __init__(self, members: Sequence[Member], store: MemoryStore) -> None:
        self.running = list(members)
        self._store = store
        self._owners: defaultdict[str, dict[str, Member]] = defaultdict(dict)  # by namespace and bundle
        self._turns: Counter[tuple[str, str]] = Counter()  # how often a bundle was unloaded

    @property
    def leader(self) -> Member:
        """Return the broker that chooses owners."""
        return self.running[0]

    def owner(self, namespace: str, bundle: str) -> Member:
        """Return the owner of a bundle; if it has none, the one that its hash chooses takes it."""
        if len(self.running) == 1:
            return self.leader
        return self._owners[namespace].setdefault(bundle, self._candidate(namespace, bundle))

    def owner_of_named(self, namespace: str, bundle: str) -> Member | None:
        """Return the owner of a bundle that a caller names; None: there is no such bundle."""
        stored = self._store.namespaces.get(namespace)
        return self.owner(namespace, bundle) if stored is not None and bundle in ranges(stored.bundles) else None

    def owner_of(self, namespace: str, topic: str) -> Member | None:
        """Return the owner of a topic, given by namespace and full name; None: the namespace does not exist."""
        stored = self._store.namespaces.get(namespace)
        if stored is None:
            return None
        if len(self.running) == 1:
            return self.leader
        return self.owner(namespace, bundle_of(topic, stored.bundles))

    def look_up(self, asked: Member, namespace: str, topic: str, *, authoritative: bool) -> Directions:
        """Answer a look-up of a topic in a namespace that exists.

        Args:
            asked: The broker that is asked.
            namespace: The namespace.
            topic: Full name of the topic.
            authoritative: Whether the client was told that this broker may take the bundle.
        """
        bundle = bundle_of(topic, self._store.namespaces[namespace].bundles)
        owners = self._owners[namespace]
        if bundle not in owners and not authoritative and asked != self.leader:
            return Directions(self.leader, redirect=True, authoritative=False)
        if bundle not in owners:
            chosen = asked if authoritative else self._candidate(namespace, bundle)
            if chosen != asked:
                return Directions(chosen, redirect=True, authoritative=True)
            owners[bundle] = asked
        return Directions(owners[bundle], redirect=False, authoritative=True)

    def release(self, namespace: str, bundle: str) -> Member:
        """Take a bundle from its owner, and return whose turn it is."""
        self._owners[namespace].pop(bundle, None)
        self._turns[namespace, bundle] += 1
        return self._candidate(namespace, bundle)

    def give(self, namespace: str, bundle: str, member: Member) -> None:
        """Make a broker the owner of a bundle."""
        self._owners[namespace][bundle] = member

    def forget(self, namespace: str) -> None:
        """Forget the bundles of a namespace that is deleted."""
        for bundle in self._owners.pop(namespace, {}):
            self._turns.pop((namespace, bundle), None)

    def stop(self, member: Member) -> list[tuple[str, str]]:
        """Remove a broker, and return the bundles that it owned, which have no owner any more.

        Raises:
            ValueError: It is the last one, or does not run.
        """
        if len(self.running) == 1:
            raise ValueError("the last broker can't be stopped alone")
        self.running.remove(member)
        lost = [(namespace, one) for namespace, found in self._owners.items() for one, owner in found.items() if owner == member]
        for namespace, bundle in lost:
            del self._owners[namespace][bundle]
        return lost

    def _candidate(self, namespace: str, bundle: str) -> Member:
        turn = zlib.crc32(f"{namespace}/{bundle}".encode()) + self._turns[namespace, bundle]
        return self.running[turn % len(self.running)]
