"""PR 25648, the rules that both sides share: the profiles, which topics match, how changes are merged into a diff, and when to retry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote, unquote

from refimpl.backoff import delay
from refimpl.wire.pulsar_api_pb2 import KeyValue

COALESCING_SECONDS = 0.05
"""Length of the window whose changes are sent as one diff, from its first change on (text: 50 ms)."""

WATCHES_PER_CONNECTION = 20_000
"""Maximum number of watches per connection."""

_RECORDS = "/topics/"


@dataclass(frozen=True)
class ScalableTopicsProfile:
    """Which reading of PR 25648 a peer speaks, where real peers differ from the text."""

    coalescing: Literal["last_wins", "cancels_out"]
    """What a diff says about a topic that changed more than once within a window. `last_wins`: only the last change, even if the
    client knows it already. `cancels_out`, as the text says: nothing about a topic that was added and removed, and both changes
    of a topic that was removed and added."""

    loss_before_first_set: Literal["fails", "retries"]
    """What happens if the connection is lost, or can't be opened, before the first set arrives. `fails`: `start()` fails.
    `retries`: the client reconnects, and `start()` keeps waiting; the text mentions a client that reconnects without a set."""


DEFAULT = ScalableTopicsProfile(coalescing="last_wins", loss_before_first_set="fails")
"""What real peers speak: Apache Pulsar 5.0.0-M1."""

AS_WRITTEN = ScalableTopicsProfile(coalescing="cancels_out", loss_before_first_set="retries")
"""What the text says."""

PROFILES: Mapping[str, ScalableTopicsProfile] = MappingProxyType({"default": DEFAULT, "as-written": AS_WRITTEN})
"""Both profiles, by name."""


def fits(properties: Mapping[str, str], filters: Mapping[str, str]) -> bool:
    """Return whether a topic has all properties that the filters ask for.

    All filters have to match (pr25648.filter.all-hold), values have to be equal (pr25648.filter.exact, .empty-value), and
    without filters every topic matches (pr25648.filter.none).
    """
    return all(properties.get(key) == value for key, value in filters.items())


def filters_of(pairs: Iterable[KeyValue]) -> dict[str, str]:
    """Return the filters of a request; the last value of a repeated key counts: pr25648.filter.repeated-key."""
    return {pair.key: pair.value for pair in pairs}


def record_path(topic: str) -> str:
    """Return the path of a scalable topic's record in the metadata store.

    Args:
        topic: Full name, `topic://tenant/namespace/local-name`; the local name may contain slashes.
    """
    tenant, namespace, local = topic.removeprefix("topic://").split("/", 2)
    return f"{_RECORDS}{tenant}/{namespace}/{quote(local, safe='')}"


def topic_of_path(path: str) -> str | None:
    """Return the scalable topic whose record is at a path of the metadata store.

    Return None for any other path. The nodes below a record, such as its subscriptions and the lock of its controller, are
    not topics (pr25648.diff.direct-children).
    """
    parts = path.removeprefix(_RECORDS).split("/")
    if not path.startswith(_RECORDS) or len(parts) != 3 or not all(parts):
        return None
    return f"topic://{parts[0]}/{parts[1]}/{unquote(parts[2])}"


@dataclass(frozen=True)
class ScalableTopicChanges:
    """A change of a set of topics.

    Attributes:
        added: Full names. Remove the topics in `removed` first, then add these.
        removed: Full names. A name in both was deleted and created again.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]


class FoldedChanges:
    """The changes of a set since the last diff, merged into one.

    Args:
        rule: How to merge several changes of one topic, see `ScalableTopicsProfile.coalescing`.
    """

    __slots__ = ("_added", "_removed", "_rule")

    def __init__(self, rule: Literal["last_wins", "cancels_out"]) -> None:
        self._rule = rule
        self._added: dict[str, None] = {}
        self._removed: dict[str, None] = {}

    def add(self, topic: str) -> None:
        """Record that a topic joined the set."""
        if self._rule == "last_wins":  # pr25648.diff.last-wins
            self._removed.pop(topic, None)
        self._added[topic] = None  # pr25648.diff.both: a removal within the window stays

    def remove(self, topic: str) -> None:
        """Record that a topic left the set."""
        came_within = topic in self._added
        self._added.pop(topic, None)
        if self._rule == "last_wins" or not came_within:  # else pr25648.diff.cancels-out
            self._removed[topic] = None

    def take(self) -> ScalableTopicChanges | None:
        """Return the merged changes in their order, and clear them; None: there are none (pr25648.diff.never-empty)."""
        changes = ScalableTopicChanges(tuple(self._added), tuple(self._removed))
        self._added.clear()
        self._removed.clear()
        return changes if changes.added or changes.removed else None


def retry_delay(failures: int, random: Random) -> float:
    """Return the number of seconds before a client reconnects: pr25648.client.backoff, .backoff-jitter.

    Args:
        failures: Number of failures since the last success, without this one.
        random: Source of the jitter: the delay is shortened by up to a tenth, so that many clients do not reconnect at once.
    """
    return delay(failures + 1, random=random)  # text: 100 ms, doubled with each failure up to 30 s, shortened by up to a tenth
