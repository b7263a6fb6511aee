"""What the page over PR 25648 shows: bytes of lists and watches, and clients and brokers of the reference in virtual time."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any
from unittest.mock import patch

from conformance.notebooks.live import Stage
from refimpl.broker import PROPOSALS
from refimpl.proposals.refused import Refused
from refimpl.proposals.scalable_topics import ScalableTopicsBroker, ScalableTopicsWatch, record_path
from refimpl.proposals.scalable_topics import broker as broker_side
from refimpl.proposals.scalable_topics.rules import DEFAULT, FoldedChanges, ScalableTopicsProfile, filters_of, fits
from refimpl.wire import command, encode_frame
from refimpl.wire.pulsar_api_pb2 import AuthorizationError, BaseCommand, CommandWatchScalableTopics, FeatureFlags, KeyValue, ServerError

NAMESPACE = "shop/eu"
_FLAG = FeatureFlags(supports_scalable_topics=True)


def topic(number: int) -> str:
    """Return the name of a scalable topic."""
    return f"topic://shop/eu/order-{number:05}"


def sizes(topics: int) -> dict[str, int]:
    """Return the bytes of each frame of a watch that selects so many topics."""
    alice = [{"key": "owner", "value": "alice"}]
    asked = {"watch_id": 1, "namespace": NAMESPACE, "property_filters": alice}
    return {
        "request": _size(command("watchScalableTopics", **asked)),
        "with hash": _size(command("watchScalableTopics", **asked, current_hash="0" * 8)),
        "close": _size(command("watchScalableTopicsClose", watch_id=1)),
        "diff of one": _size(update(diff={"added": [topic(0)]})),
        "snapshot": _size(update(snapshot={"topics": map(topic, range(topics))})),
    }


def an_hour(topics: int, *, created: int, losses: int) -> dict[str, int]:
    """Return how many bytes an hour costs, in both directions, by the way in which a client learns of topics.

    Args:
        topics: That are selected.
        created: How many are created in the hour, one at a time.
        losses: How often the watch loses its connection.
    """
    of = sizes(topics)
    return {
        "list once a minute": 60 * (of["request"] + of["snapshot"] + of["close"]),
        "list with the hash": 60 * (of["with hash"] + of["close"]) + created * of["snapshot"],
        "watch": of["request"] + of["snapshot"] + created * of["diff of one"] + losses * of["with hash"],
    }


def frames_of_burst(creations: int, *, every: int, window: int) -> int:
    """Return how many diffs a broker sends while topics are created.

    Args:
        creations: How many.
        every: Milliseconds between two of them.
        window: Milliseconds that a change waits for others.
    """
    watches = ScalableTopicsBroker(lambda _: [], lambda _: {})  # takes times in any unit
    watches.watch("c", CommandWatchScalableTopics(watch_id=1, namespace=NAMESPACE))
    frames = 0
    with patch.object(broker_side, "COALESCING_SECONDS", window):
        for number in range(creations):
            frames += len(watches.tick(number * every))
            watches.notified(record_path(topic(number)), number * every)
        return frames + len(watches.tick(creations * every + window))


def selects(filters: str, properties: str) -> bool:
    """Return whether filters select a topic with these properties; both are texts such as `owner=alice env=prod`."""
    pairs = [one.partition("=") for one in filters.split()]
    asked = filters_of(KeyValue(key=key, value=value) for key, _, value in pairs)
    return fits(dict(one.split("=") for one in properties.split()), asked)


def three_topics(profile: str = "default") -> Stage:
    """Return a broker with `shop/eu/a` and `shop/us/a`, which are alice's, and `shop/eu/b`, which is bob's."""
    stage = Stage(profile=profile)
    for name, owner in (("eu/a", "alice"), ("eu/b", "bob"), ("us/a", "alice")):
        stage.admin("create_scalable_topic", f"topic://shop/{name}", {"owner": owner})
    return stage


def folded(steps: str, profile: ScalableTopicsProfile) -> str:
    """Return what is sent for several changes of one topic in a window.

    Args:
        steps: Such as `add remove`.
        profile: Which reading of the text.
    """
    changes = FoldedChanges(profile.coalescing)
    for step in steps.split():
        changes.add("t") if step == "add" else changes.remove("t")
    told = changes.take()
    return " ".join(f"{kind}={list(names)}" for kind, names in vars(told).items() if names) if told else ""


def answers(requests: Iterable[tuple[int, str]], *, enabled: bool) -> list[list[object]]:
    """Return how a broker with room for one watch, and without permission for `secret/ns`, answers requests of one connection.

    Args:
        requests: Watch id and namespace.
        enabled: Whether the feature is on.

    Returns:
        For each request the code of its error, or `served`, and how many watches the connection has then.
    """
    broker = ScalableTopicsBroker(lambda _: [], lambda _: None, max_watches=1, may_watch=_may_watch, enabled=enabled)
    found: list[list[object]] = []
    for number, namespace in requests:
        said = broker.watch("c", CommandWatchScalableTopics(watch_id=number, namespace=namespace))
        refused = said is not None and said.HasField("error")
        found.append([ServerError.Name(said.error) if said is not None and refused else "served", broker.watch_count("c")])
    return found


def update(watch_id: int = 1, **fields: Any) -> BaseCommand:
    """Return an update: with `snapshot`, with `diff`, with `error`, or with none of them."""
    return command("watchScalableTopicsUpdate", watch_id=watch_id, **fields)


def started(*updates: Mapping[str, Any], profile: ScalableTopicsProfile = DEFAULT, seed: int = 0) -> ScalableTopicsWatch:
    """Return a client that has sent the request of watch 1, and received these updates.

    Args:
        updates: Their fields, see `update`.
        profile: Which reading of the text.
        seed: Of its delays.
    """
    client = ScalableTopicsWatch(NAMESPACE, 1, random.Random(seed), profile=profile)
    client.start()
    client.connected(_FLAG, 0.0)
    for fields in updates:
        client.received(update(**fields), 0.0)
    return client


def pauses(seconds: float, *, seed: int) -> list[float]:
    """Return how long a client that has lost its broker waits before each attempt to reach it.

    Args:
        seconds: How long the broker can't be reached.
        seed: Of the random part.
    """
    client, now, found = started({"snapshot": {}}, seed=seed), 0.0, []
    while now < seconds:
        client.disconnected(now)
        found.append((client.next_deadline() or now) - now)
        now += found[-1]
        client.tick(now)
    return found


def met(client: str, broker: str) -> tuple[object, ...]:
    """Let a client and a broker meet, and a scalable topic be created.

    Args:
        client: `old` or `new`: whether it knows the proposal. An old one asks for the topics of the namespace.
        broker: The same of the broker.

    Returns:
        The flag, the number of frames of watches, the topics that the client found, and what it says in the end.
    """
    stage = Stage(proposals=PROPOSALS - {"pr25648"} if broker == "old" else PROPOSALS)
    watch = ScalableTopicsWatch("public/default", 1, random.Random(0))
    watch.start()
    flags = stage.connect("c", watch if client == "new" else None)
    if client == "old":
        stage.say("getTopicsOfNamespace", "c", request_id=1, namespace="public/default")
    stage.admin("create_scalable_topic", "topic://public/default/t", {"owner": "alice"})
    stage.wait(1)
    frames = sum("WATCH_SCALABLE" in row.head for row in stage.rows)
    said = f"{watch.state.name} {watch.failure.message if watch.failure else ''}".strip()
    says = said if client == "new" else "has never heard of them"
    return flags.supports_scalable_topics, frames, ", ".join(watch.topics) or "none", says


def _may_watch(_: object, namespace: str) -> bool:
    if namespace == "secret/ns":
        raise Refused(AuthorizationError, "not allowed")
    return True


def _size(message: BaseCommand) -> int:
    return len(encode_frame(message))
