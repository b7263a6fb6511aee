"""The kinds of actions: each is a function that sends something, with the parameters that are drawn for it.

What a frame holds is small on purpose: few connections, ids and names, so that actions meet. An action may come at any place:
where it has no sense it still has an answer, and that answer is compared too.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from conformance.explore.choices import Choice, Draw, Each, Some
from refimpl.names import partition_index

if TYPE_CHECKING:
    from conformance.explore.player import Player
    from conformance.explore.world import Place

CONNECTION = Choice(*"abc")
NAMESPACE = Choice(0, 0, 1, 2)
TOPIC = Each(NAMESPACE, Choice(*range(3)), Choice(None, None, None, None, None, 0, 1))
DOMAIN = Choice("persistent", "persistent", "persistent", "non-persistent")
PATTERN = Choice(*range(3))
ID = Choice(1, 1, 1, 2, 2, 0, 2**32 + 1)
"""Ids of watchers, producers and consumers."""
PARTITIONS = Choice(*(1, 2, 3, 4) * 15, 130, 600)
HASH = Choice("none", "current", "wrong")
SUBSCRIPTION = Choice("s", "r")
TYPE = Choice("Exclusive", "Shared", "Failover")


@dataclass(frozen=True)
class Kind:
    """A kind of action.

    Attributes:
        act: Carries it out.
        parameters: What is drawn for it.
        weight: How often it is drawn, compared with others.
        requires: The capabilities that a target needs.
        proposal: The register that it belongs to.
    """

    act: Callable[..., Awaitable[None]]
    parameters: Mapping[str, Draw]
    weight: int
    requires: tuple[str, ...]
    proposal: str


KINDS: dict[str, Kind] = {}
Act = Callable[..., Awaitable[None]]


def kind(proposal: str, *requires: str, weight: int = 2, **parameters: Draw) -> Callable[[Act], Act]:
    """Make a function a kind of action."""

    def register(act: Act) -> Act:
        KINDS[act.__name__] = Kind(act, parameters, weight, requires, proposal)
        return act

    return register


# Connections and topics


@kind("core", at=CONNECTION, how=Choice("fin", "rst"))
async def disconnect(player: Player, at: str, how: Literal["fin", "rst"]) -> None:
    """Close a connection; the next action on it opens it again."""
    await player.disconnect(at, how)


@kind("core", "admin", weight=6, topic=TOPIC)
async def create_topic(player: Player, topic: Place) -> None:
    """Create a topic without partitions."""
    await player.admin("create_topic", topic=player.world.topic(topic))


@kind("core", "admin", weight=4, topic=TOPIC, force=Choice(False, True))
async def delete_topic(player: Player, topic: Place, force: bool) -> None:
    """Delete a topic without partitions."""
    await player.admin("delete_topic", topic=player.world.topic(topic), force=force)


@kind("core", "admin", weight=4, topic=TOPIC, partitions=PARTITIONS)
async def create_partitioned_topic(player: Player, topic: Place, partitions: int) -> None:
    """Create a topic with partitions."""
    await player.admin("create_partitioned_topic", topic=player.world.topic(topic), partitions=partitions)


@kind("core", "admin", weight=4, topic=TOPIC, partitions=PARTITIONS)
async def update_partitioned_topic(player: Player, topic: Place, partitions: int) -> None:
    """Let the number of partitions grow."""
    await player.admin("update_partitioned_topic", topic=player.world.topic(topic), partitions=partitions)


@kind("core", "admin", weight=2, topic=TOPIC, force=Choice(False, True))
async def delete_partitioned_topic(player: Player, topic: Place, force: bool) -> None:
    """Delete a topic with partitions."""
    await player.admin("delete_partitioned_topic", topic=player.world.topic(topic), force=force)


@kind("core", "admin", weight=2, topic=TOPIC)
async def unload_topic(player: Player, topic: Place) -> None:
    """Unload a topic."""
    await player.admin("unload_topic", topic=player.world.topic(topic))


@kind("core", at=CONNECTION, topic=TOPIC, domain=DOMAIN)
async def ask_partitions(player: Player, at: str, topic: Place, domain: str) -> None:
    """Ask for the number of partitions, without creating anything."""
    fields = {"topic": player.world.topic(topic, domain), "request_id": player.request(), "metadata_auto_creation_enabled": False}
    await player.send(at, {"partitionMetadata": fields})


# Messages


@kind(
    "core", weight=4, at=CONNECTION, producer=ID, topic=TOPIC, domain=DOMAIN, named=Choice("no", "no", "no", "by user", "again"),
    access=Choice("Shared", "Shared", "Shared", "Shared", "Exclusive"), epoch=Choice(0, 1, 2),
)  # fmt: skip
async def produce(player: Player, at: str, producer: int, topic: Place, domain: str, named: str, access: str, epoch: int) -> None:
    """Open a producer, with a name that the broker makes, that the user gave, or that the broker is said to have made before."""
    name = player.world.topic(topic, domain)
    await player.look_up(at, name)
    more: dict[str, Any] = {}
    if named != "no":
        more = {"producer_name": f"named {named}", "user_provided_producer_name": named == "by user", "epoch": epoch}
    fields = {"topic": name, "producer_id": producer, "request_id": player.request(), "producer_access_mode": access, **more}
    await player.send(at, {"producer": fields})


SCHEMA = Choice("String", "Int32", "first", "second")
"""Schemas without fields, and two of records that are compatible."""


def _schema(name: str) -> dict[str, Any]:
    if name not in ("first", "second"):
        return {"name": "s", "type": name, "schema_data": ""}
    fields = [{"name": field, "type": ["null", "int"], "default": None} for field in ("a", "b")[: 1 if name == "first" else 2]]
    definition = json.dumps({"type": "record", "name": "r", "fields": fields}, separators=(",", ":"))
    return {"name": "s", "type": "Json", "schema_data": definition}


@kind("core", weight=2, at=CONNECTION, producer=ID, topic=TOPIC, schema=SCHEMA)
async def produce_with_schema(player: Player, at: str, producer: int, topic: Place, schema: str) -> None:
    """Open a producer that brings a schema."""
    name = player.world.topic(topic)
    await player.look_up(at, name)
    fields = {"topic": name, "producer_id": producer, "request_id": player.request(), "schema": _schema(schema)}
    await player.send(at, {"producer": fields})


@kind("core", weight=1, at=CONNECTION, topic=TOPIC)
async def ask_schema(player: Player, at: str, topic: Place) -> None:
    """Ask for the schema of a topic."""
    await player.send(at, {"getSchema": {"topic": player.world.topic(topic), "request_id": player.request()}})


@kind("core", at=CONNECTION, producer=ID)
async def close_producer(player: Player, at: str, producer: int) -> None:
    """Close a producer."""
    await player.send(at, {"close_producer": {"producer_id": producer, "request_id": player.request()}})


@kind("core", weight=8, number=Choice(*range(4)), start=Choice(*"ab"))
async def publish(player: Player, number: int, start: str) -> None:
    """Send a message with a body of its own, by one of the producers that are open."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        metadata = {"producer_name": "p", "sequence_id": sequence, "publish_time": 1}
        payload = {"metadata": metadata, "body": f"{start}{player.body()}"}
        await player.send(at, {"send": {"producer_id": producer_id, "sequence_id": sequence}}, payload)


@kind("core", weight=1, number=Choice(*range(4)), start=Choice(*"ab"), count=Choice(3, 130, 1100))
async def publish_many(player: Player, number: int, start: str, count: int) -> None:
    """Send many messages, by one of the producers that are open."""
    producer = player.producer(number)
    for _ in range(count if producer is not None else 0):
        await publish(player, number, start)


@kind("core", weight=2, number=Choice(*range(4)), starts=Some(Choice(*"ab"), 3, unique=False))
async def publish_batch(player: Player, number: int, starts: list[str]) -> None:
    """Send a batch, by one of the producers that are open."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        metadata = {"producer_name": "p", "sequence_id": sequence, "publish_time": 1}
        payload = {"metadata": metadata, "batch": [{"body": f"{start}{player.body()}"} for start in starts]}
        await player.send(at, {"send": {"producer_id": producer_id, "sequence_id": sequence, "num_messages": len(starts)}}, payload)


async def _subscribe(player: Player, at: str, consumer: int, topic: str, more: Mapping[str, Any]) -> None:
    await player.look_up(at, topic)
    fields = {"topic": topic, "consumer_id": consumer, "request_id": player.request(), **more}
    player.subscribes(at, fields)
    await player.send(at, {"subscribe": fields})


@kind(
    "core", weight=5, at=CONNECTION, consumer=ID, topic=TOPIC, domain=DOMAIN, subscription=SUBSCRIPTION, type=TYPE,
    position=Choice("Earliest", "Latest"), durable=Choice(True, True, True, False), priority=Choice(0, 0, 1),
)  # fmt: skip
async def subscribe(
    player: Player,
    at: str,
    consumer: int,
    topic: Place,
    domain: str,
    subscription: str,
    type: str,
    position: str,
    durable: bool,
    priority: int,
) -> None:
    """Open a consumer."""
    more = {"subscription": subscription, "subType": type, "initialPosition": position, "durable": durable, "priority_level": priority}
    await _subscribe(player, at, consumer, player.world.topic(topic, domain), more)


@kind("core", weight=6, number=Choice(*range(4)), permits=Choice(1, 2, 10))
async def flow(player: Player, number: int, permits: int) -> None:
    """Give permits to one of the consumers that are open."""
    consumer = player.consumer(number)
    if consumer is not None:
        at, consumer_id = consumer
        await player.send(at, {"flow": {"consumer_id": consumer_id, "messagePermits": permits}})


@kind("core", weight=4, number=Choice(*range(6)), type=Choice("Individual", "Cumulative"))
async def acknowledge(player: Player, number: int, type: str) -> None:
    """Acknowledge one of the messages that were delivered, by the consumer that got it last."""
    delivery = player.delivery(number)
    if delivery is not None:
        if delivery.shared:
            type = "Individual"
        await player.send(delivery.at, {"ack": {"consumer_id": delivery.consumer, "ack_type": type, "message_id": [delivery.message_id]}})


@kind("core", weight=1, number=Choice(*range(6)), kept=Choice(1, 2, 3, 6))
async def acknowledge_part(player: Player, number: int, kept: int) -> None:
    """Acknowledge some messages of one of the entries that were delivered, if it is a batch that has them.

    Args:
        player: The player.
        number: Of the entry.
        kept: The messages that are not acknowledged, as bits.
    """
    delivery = player.delivery(number)
    if delivery is not None and kept < 2**delivery.messages - 1:
        message_id = {**delivery.message_id, "ack_set": [kept]}
        await player.send(delivery.at, {"ack": {"consumer_id": delivery.consumer, "ack_type": "Individual", "message_id": [message_id]}})


@kind("core", weight=2, number=Choice(*range(4)))
async def ask_last_message(player: Player, number: int) -> None:
    """Ask for the id of the last message of a topic, by one of the consumers that are open."""
    consumer = player.consumer(number)
    if consumer is not None:
        at, consumer_id = consumer
        await player.send(at, {"getLastMessageId": {"consumer_id": consumer_id, "request_id": player.request()}})


@kind("core", number=Choice(*range(4)), named=Choice(False, True))
async def redeliver(player: Player, number: int, named: bool) -> None:
    """Ask for the messages of one of the consumers again: for all, or for those that it has got."""
    consumer = player.consumer(number)
    if consumer is not None:
        at, consumer_id = consumer
        more = {"message_ids": [one.message_id for one in player.deliveries(at, consumer_id)]} if named else {}
        await player.send(at, {"redeliverUnacknowledgedMessages": {"consumer_id": consumer_id, **more}})


@kind("core", weight=1, number=Choice(*range(4)))
async def acknowledge_all(player: Player, number: int) -> None:
    """Acknowledge all messages that one of the consumers has got, in one command."""
    consumer = player.consumer(number)
    if consumer is not None:
        at, consumer_id = consumer
        message_ids = [one.message_id for one in player.deliveries(at, consumer_id)]
        if message_ids:
            await player.send(at, {"ack": {"consumer_id": consumer_id, "ack_type": "Individual", "message_id": message_ids}})


@kind("core", number=Choice(*range(4)))
async def close_consumer(player: Player, number: int) -> None:
    """Close one of the consumers."""
    consumer = player.consumer(number)
    if consumer is not None:
        at, consumer_id = consumer
        player.leaves(at, consumer_id)
        await player.send(at, {"close_consumer": {"consumer_id": consumer_id, "request_id": player.request()}})


@kind("core", weight=1, number=Choice(*range(4)))
async def unsubscribe(player: Player, number: int) -> None:
    """Delete the subscription of one of the consumers."""
    consumer = player.consumer(number)
    if consumer is not None:
        at, consumer_id = consumer
        await player.send(at, {"unsubscribe": {"consumer_id": consumer_id, "request_id": player.request()}})


@kind("core", number=Choice(*range(4)), position=Choice(-1, 2**63 - 1))
async def seek(player: Player, number: int, position: int) -> None:
    """Move the subscription of one of the consumers to the first message, or behind the last one."""
    consumer = player.consumer(number)
    if consumer is not None:
        at, consumer_id = consumer
        edge = position % 2**64
        place = {"ledgerId": edge, "entryId": edge}
        await player.send(at, {"seek": {"consumer_id": consumer_id, "request_id": player.request(), "message_id": place}})


@kind("core", weight=1, number=Choice(*range(6)))
async def seek_message(player: Player, number: int) -> None:
    """Move a subscription to one of the messages that were delivered, by the consumer that got it last."""
    delivery = player.delivery(number)
    if delivery is not None:
        fields = {"consumer_id": delivery.consumer, "request_id": player.request(), "message_id": delivery.message_id}
        await player.send(delivery.at, {"seek": fields})


# PIP-145


def _with_hash(which: str, known: str | None, field: str = "topics_hash") -> dict[str, Any]:
    if which == "none" or (which == "current" and known is None):
        return {}
    return {field: known if which == "current" else "00000000"}


@kind(
    "pip145", "topic-list-filter", weight=4, at=CONNECTION, namespace=NAMESPACE, pattern=PATTERN, which=HASH,
    mode=Choice("PERSISTENT", "NON_PERSISTENT", "ALL"),
)  # fmt: skip
async def list_topics(player: Player, at: str, namespace: int, pattern: int, which: str, mode: str) -> None:
    """Ask for the topics that a pattern selects."""
    text = player.world.pattern(namespace, pattern)
    more = _with_hash(which, player.told.list_hash(text, mode))
    request = player.request()
    player.told.expects_list(request, text, mode)
    fields = {"request_id": request, "namespace": player.namespace(namespace), "mode": mode, "topics_pattern": text, **more}
    await player.send(at, {"getTopicsOfNamespace": fields})


@kind("pip145", "topic-list-watch", weight=7, at=CONNECTION, watcher=ID, namespace=NAMESPACE, pattern=PATTERN, which=HASH)
async def watch_topics(player: Player, at: str, watcher: int, namespace: int, pattern: int, which: str) -> None:
    """Watch the topics that a pattern selects."""
    text = player.world.pattern(namespace, pattern)
    more = _with_hash(which, player.told.watch_hash(at, watcher))
    full = f"persistent://{text}"
    fields = {
        "request_id": player.request(),
        "watcher_id": watcher,
        "namespace": player.namespace(namespace),
        "topics_pattern": full,
        **more,
    }
    await player.send(at, {"watchTopicList": fields})


@kind("pip145", "topic-list-watch", weight=3, at=CONNECTION, watcher=ID)
async def close_topic_watch(player: Player, at: str, watcher: int) -> None:
    """Close a watcher of topics."""
    await player.send(at, {"watchTopicListClose": {"request_id": player.request(), "watcher_id": watcher}})


# PIP-247


@kind(
    "pip247", "partition-watch", weight=6, at=CONNECTION, watcher=ID, topics=Some(TOPIC, 2), domain=DOMAIN,
    valid=Choice(True, True, True, True, True, False),
)  # fmt: skip
async def watch_partitions(player: Player, at: str, watcher: int, topics: list[Place], domain: str, valid: bool) -> None:
    """Watch the partition counts of topics, of which one may have a name that none can have."""
    names = [*(player.world.topic(topic, domain) for topic in topics), *(() if valid else ("persistent://none",))]
    await player.send(at, {"watchPartitionUpdate": {"request_id": player.request(), "watcher_id": watcher, "topics": names}})


@kind(
    "pip247", "partition-watch", weight=6, number=Choice(*range(3)), of=Choice(0, 0, 0, -1, 1), success=Choice(True, True, False),
)  # fmt: skip
async def answer_partition_update(player: Player, number: int, of: int, success: bool) -> None:
    """Answer the last update of partition counts that one of the watchers got, or an older or later one."""
    update = player.told.partition_update(number)
    if update is not None:
        at, watcher, version = update
        if version + of >= 0:
            await player.send(at, {"partitionUpdateResult": {"version": version + of, "success": success, "watcher_id": watcher}})


@kind("pip247", "partition-watch", weight=3, at=CONNECTION, watcher=ID)
async def close_partition_watch(player: Player, at: str, watcher: int) -> None:
    """Close a watcher of partition counts."""
    await player.send(at, {"watchPartitionUpdateClose": {"request_id": player.request(), "watcher_id": watcher}})


@kind("pip247", "partition-watch", weight=2, seconds=Choice(11, 31))
async def wait(player: Player, seconds: int) -> None:
    """Let time pass, after which updates without a result are sent again."""
    await player.wait(seconds)


# PR 25648

PROPERTIES = Choice(
    {}, {"k": "v"}, {}, {"k": "v"}, {"k": "w"}, {"k": "v", "l": "v"}, {"k": "v", "l": "v", "m": "v", "n": "v", "o": "v"},
    {"k": "\u00fc"}, {"k": "u\u0308"},
)  # fmt: skip


SCALABLE = Each(NAMESPACE, Choice(*range(3)), Choice(None))


async def _for_scalable(player: Player, operation: str, topic: Place, **more: Any) -> None:
    """Call the admin interface for a scalable topic, but for the name of a partition, which 5.0.0-M1 refuses and keeps.

    docs/findings/scalable-partition-name.md
    """
    name = player.world.topic(topic, "topic")
    if partition_index(name) < 0:
        await player.admin(operation, topic=name, **more)


@kind("pr25648", "scalable-topics", "admin", weight=6, topic=SCALABLE, properties=PROPERTIES, segments=Choice(1, 1, 1, 2, 2, 12))
async def create_scalable_topic(player: Player, topic: Place, properties: dict[str, str], segments: int) -> None:
    """Create a scalable topic."""
    await _for_scalable(player, "create_scalable_topic", topic, properties=properties, segments=segments)


@kind("pr25648", "scalable-topics", "scalable-topic-properties", "admin", weight=3, topic=SCALABLE, properties=PROPERTIES)
async def change_scalable_topic(player: Player, topic: Place, properties: dict[str, str]) -> None:
    """Give a scalable topic other properties."""
    await _for_scalable(player, "set_scalable_topic_properties", topic, properties=properties)


@kind("pr25648", "scalable-topics", "admin", weight=4, topic=SCALABLE)
async def delete_scalable_topic(player: Player, topic: Place) -> None:
    """Delete a scalable topic."""
    await _for_scalable(player, "delete_scalable_topic", topic, force=True)


@kind("pr25648", "scalable-topics", weight=6, at=CONNECTION, watch=ID, namespace=NAMESPACE, filters=PROPERTIES, which=HASH)
async def watch_scalable_topics(player: Player, at: str, watch: int, namespace: int, filters: dict[str, str], which: str) -> None:
    """Watch the scalable topics that filters select."""
    known = player.told.watch_hash(at, watch, "scalable")
    more = _with_hash(which, known, "current_hash")
    pairs = [{"key": key, "value": value} for key, value in filters.items()]
    fields = {"watch_id": watch, "namespace": player.namespace(namespace), "property_filters": pairs, **more}
    await player.send(at, {"watchScalableTopics": fields})


@kind("pr25648", "scalable-topics", weight=3, at=CONNECTION, watch=ID)
async def close_scalable_watch(player: Player, at: str, watch: int) -> None:
    """Close a watch over scalable topics."""
    await player.send(at, {"watchScalableTopicsClose": {"watch_id": watch}})


@kind("pr25648", "scalable-topics", "scalable-layout", weight=5, at=CONNECTION, session=ID, topic=SCALABLE)
async def look_up_scalable_topic(player: Player, at: str, session: int, topic: Place) -> None:
    """Look the layout of a scalable topic up, and watch it."""
    await player.send(at, {"scalableTopicLookup": {"session_id": session, "topic": player.world.topic(topic, "topic")}})


@kind("pr25648", "scalable-topics", "scalable-layout", weight=2, at=CONNECTION, session=ID)
async def close_scalable_look_up(player: Player, at: str, session: int) -> None:
    """Close a look-up of a scalable topic."""
    await player.send(at, {"scalableTopicClose": {"session_id": session}})


# PR 7629


@kind(
    "pr7629", "message-filter", weight=5, at=CONNECTION, consumer=ID, topic=TOPIC, subscription=SUBSCRIPTION, type=TYPE,
    pattern=Choice("a.*", "b.*", ".*", "x"),
)  # fmt: skip
async def subscribe_with_filter(player: Player, at: str, consumer: int, topic: Place, subscription: str, type: str, pattern: str) -> None:
    """Open a consumer with a message filter."""
    properties = [{"key": "regex_filter_pattern_key", "value": pattern}]
    meta = {"filter_class_name": "org.apache.pulsar.broker.service.filtering.RegexFilter", "filter_properties": properties}
    more = {"subscription": subscription, "subType": type, "initialPosition": "Earliest", "filter_meta": meta}
    await _subscribe(player, at, consumer, player.world.topic(topic), more)


# PIP-191

REGION = Choice("eu", "us")


@kind(
    "pip191",
    "property-entry-filter",
    weight=4,
    at=CONNECTION,
    consumer=ID,
    topic=TOPIC,
    subscription=SUBSCRIPTION,
    type=TYPE,
    region=REGION,
)
async def subscribe_with_properties(
    player: Player, at: str, consumer: int, topic: Place, subscription: str, type: str, region: str
) -> None:
    """Open a consumer of a subscription with properties, by which entries are filtered."""
    properties = [{"key": "entry-filter.region", "value": region}]
    more = {"subscription": subscription, "subType": type, "initialPosition": "Earliest", "subscription_properties": properties}
    await _subscribe(player, at, consumer, player.world.topic(topic), more)


@kind("pip191", "property-entry-filter", weight=4, number=Choice(*range(4)), region=REGION, count=Choice(*range(1, 4)))
async def publish_uniform_batch(player: Player, number: int, region: str, count: int) -> None:
    """Send a batch whose header has the properties that its messages share."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        properties = [{"key": "region", "value": region}]
        metadata = {"producer_name": "p", "sequence_id": sequence, "publish_time": 1, "properties": properties}
        batch = [{"body": f"a{player.body()}", "metadata": {"properties": properties}} for _ in range(count)]
        fields = {"producer_id": producer_id, "sequence_id": sequence, "num_messages": count}
        await player.send(at, {"send": fields}, {"metadata": metadata, "batch": batch})
