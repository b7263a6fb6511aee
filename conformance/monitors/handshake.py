"""How a connection begins, what it offers, and how it is kept alive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from conformance.monitors.link import Link
from conformance.monitors.model import Judged, Monitor, Seen, Side, hears
from refimpl.wire.pulsar_api_pb2 import FeatureFlags

ANSWER_TIME: Final = 30.0
"""Seconds after which a PING without PONG counts as not answered: the usual interval of keep-alive, after which brokers give up, too."""
_BEFORE_CONNECT: Final = frozenset({"connect", "ping", "pong"})
_SCALABLE: Final = ("supports_scalable_topics", "pr25648.client.needs-flag")
GATED: Final[Mapping[str, tuple[str, str]]] = {
    "watchTopicList": ("supports_topic_watchers", "pip145.client.watch-needs-flag"),
    "watchTopicListClose": ("supports_topic_watchers", "pip145.client.watch-needs-flag"),
    "watchPartitionUpdate": ("supports_partition_update_watchers", "pip247.client.needs-flag"),
    "partitionUpdateResult": ("supports_partition_update_watchers", "pip247.client.needs-flag"),
    "watchPartitionUpdateClose": ("supports_partition_update_watchers", "pip247.client.needs-flag"),
    "scalableTopicLookup": _SCALABLE,
    "scalableTopicClose": _SCALABLE,
    "scalableTopicSubscribe": _SCALABLE,
    "scalableTopicUnsubscribe": _SCALABLE,
    "watchScalableTopics": _SCALABLE,
    "watchScalableTopicsClose": _SCALABLE,
    "watchTcAssignments": ("supports_tc_metadata_discovery", "core.client.flag-before-command"),
    "watchTcAssignmentsClose": ("supports_tc_metadata_discovery", "core.client.flag-before-command"),
}
"""Commands that need a feature flag of the broker: the flag, and the clause that says so."""


class ConnectFirst(Monitor):
    """The first command of a client is CONNECT, and it sends no other one."""

    name = "connect-first"
    side = "client"
    clauses = ("core.client.connect-first",)

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._connected = not link.whole

    @hears("-> *")
    def sent(self, seen: Seen) -> Iterator[Judged]:
        """Judge the first command, and each CONNECT."""
        if self._connected and (seen.name != "connect" or not self.link.whole):
            return
        problem = None
        if self._connected:
            problem = "a second CONNECT"
        elif seen.name not in _BEFORE_CONNECT:
            problem = f"{seen.name} before CONNECT"
        self._connected = self._connected or seen.name not in ("ping", "pong")
        yield "core.client.connect-first", problem


class FlagsOffered(Monitor):
    """A client sends a command that a feature flag gates only where CONNECTED set the flag."""

    name = "flags-offered"
    side = "client"
    clauses = (*dict.fromkeys(clause for _, clause in GATED.values()), "pr7629.client.needs-flag")

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._offered: FeatureFlags | None = FeatureFlags() if link.whole else None

    @hears("<- connected")
    def connected(self, seen: Seen) -> Iterator[Judged]:
        """Note what the broker offers."""
        self._offered = seen.command.feature_flags
        return iter(())

    @hears(*(f"-> {name}" for name in GATED))
    def gated(self, seen: Seen) -> Iterator[Judged]:
        """Judge a command that needs a flag."""
        flag, clause = GATED[seen.name]
        yield from self._judge(clause, flag, seen.name)

    @hears("-> subscribe")
    def subscribe(self, seen: Seen) -> Iterator[Judged]:
        """Judge a SUBSCRIBE that has a filter."""
        if seen.command.HasField("filter_meta"):
            yield from self._judge("pr7629.client.needs-flag", "supports_message_filter", "subscribe with filter_meta")

    def _judge(self, clause: str, flag: str, what: str) -> Iterator[Judged]:
        if self._offered is not None:
            yield clause, None if getattr(self._offered, flag) else f"{what} on a connection whose CONNECTED did not set {flag}"


class _KeepAlive(Monitor):
    """Each PING is answered by PONG."""

    clause: ClassVar[str]

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._pings: deque[float] = deque()

    def _ping(self, seen: Seen) -> Iterator[Judged]:
        self._pings.append(seen.time)
        return iter(())

    def _pong(self) -> Iterator[Judged]:
        if self._pings:
            self._pings.popleft()
            yield self.clause, None

    def closed(self, time: float) -> Iterator[Judged]:
        """Judge PINGs that were never answered."""
        if self._pings and time > self._pings[0] + ANSWER_TIME:
            asked = self._pings.popleft()
            yield self.clause, f"no PONG within {time - asked:.1f} s of a PING"


class ClientKeepsAlive(_KeepAlive):
    """The client answers each PING with PONG."""

    name = "client-keeps-alive"
    side: ClassVar[Side] = "client"
    clause = "core.client.answers-ping"
    clauses = (clause,)

    @hears("<- ping")
    def ping(self, seen: Seen) -> Iterator[Judged]:
        """Hear a PING; one before it must have been answered."""
        yield from self.closed(seen.time)
        yield from self._ping(seen)

    @hears("-> *")
    def sent(self, seen: Seen) -> Iterator[Judged]:
        """Hear a PONG, or something else that comes too late for one."""
        yield from self._pong() if seen.name == "pong" else self.closed(seen.time)


class BrokerKeepsAlive(_KeepAlive):
    """The broker answers each PING with PONG."""

    name = "broker-keeps-alive"
    side: ClassVar[Side] = "broker"
    clause = "core.keepalive.ping-answered"
    clauses = (clause,)

    @hears("-> ping")
    def ping(self, seen: Seen) -> Iterator[Judged]:
        """Hear a PING; one before it must have been answered."""
        yield from self.closed(seen.time)
        yield from self._ping(seen)

    @hears("<- *")
    def sent(self, seen: Seen) -> Iterator[Judged]:
        """Hear a PONG, or something else that comes too late for one."""
        if seen.name == "pong" and not self._pings and self.link.whole:
            yield self.clause, "a PONG without a PING"
        else:
            yield from self._pong() if seen.name == "pong" else self.closed(seen.time)
