"""The kinds of actions: each is a function that sends something, with the parameters that are drawn for it.

What a frame holds is small on purpose: few connections, ids and names, so that actions meet. An action may come at any place:
where it has no sense it still has an answer, and that answer is compared too. The actions of producers and consumers are in messages.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from conformance.explore.choices import Choice, Each, Some
from conformance.explore.kinds import CONNECTION, DOMAIN, HASH, ID, KINDS, NAMESPACE, PARTITIONS, PATTERN, SUBSCRIPTION, TOPIC, TYPE, kind
from conformance.explore.messages import metadata, open_consumer
from refimpl.names import partition_index

if TYPE_CHECKING:
    from conformance.explore.player import Player
    from conformance.explore.world import Place

__all__ = ["KINDS"]

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


@kind("pip247", "partition-watch", weight=2, seconds=Choice(1, 11, 31))
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

_FILTERS = "org.apache.pulsar.broker.service.filtering"
FILTER = Choice(
    ("Regex", "regex_filter_pattern_key", "a.*"),
    ("Regex", "regex_filter_pattern_key", "b.*"),
    ("Regex", "regex_filter_pattern_key", ".*"),
    ("Regex", "regex_filter_pattern_key", "x"),
    ("BytesPrefix", "bytes_prefix_filter_prefix", "a"),
    ("BytesPrefix", "bytes_prefix_filter_prefix", ""),
    ("BytesPrefix", "bytes_prefix_filter_prefix_base64", "Yg=="),
)
"""The class of a filter, and its property."""


@kind(
    "pr7629", "message-filter", weight=5, at=CONNECTION, consumer=ID, topic=TOPIC, domain=DOMAIN, subscription=SUBSCRIPTION, type=TYPE,
    filter=FILTER,
)  # fmt: skip
async def subscribe_with_filter(
    player: Player, at: str, consumer: int, topic: Place, domain: str, subscription: str, type: str, filter: tuple[str, str, str]
) -> None:
    """Open a consumer with a message filter."""
    name, key, value = filter
    meta = {"filter_class_name": f"{_FILTERS}.{name}Filter", "filter_properties": [{"key": key, "value": value}]}
    more = {"subscription": subscription, "subType": type, "initialPosition": "Earliest", "filter_meta": meta}
    await open_consumer(player, at, consumer, player.world.topic(topic, domain), more)


RECORD = '{"type":"record","name":"r","fields":[{"name":"f","type":"string"}]}'
LONGER = '{"type":"record","name":"r","fields":[{"name":"g","type":"string","default":"g"},{"name":"f","type":"string"}]}'
"""Two versions of a schema."""


@kind(
    "pr7629", "message-filter", weight=2, at=CONNECTION, consumer=ID, topic=TOPIC, subscription=SUBSCRIPTION, text=Choice("a", "b"),
    schema=Choice("of the topic", "any", "its own"),
)  # fmt: skip
async def subscribe_with_field(player: Player, at: str, consumer: int, topic: Place, subscription: str, text: str, schema: str) -> None:
    """Open a consumer that filters by a field of a record, with the schema of the topic, or with one that it brings."""
    meta = {"filter_class_name": f"{_FILTERS}.BasicAvroFilter", "filter_properties": [{"key": "f", "value": text}]}
    more: dict[str, Any] = {"subscription": subscription, "subType": "Exclusive", "initialPosition": "Earliest", "filter_meta": meta}
    if schema != "of the topic":
        kinds = {"any": ("AutoConsume", ""), "its own": ("Avro", RECORD)}
        more["schema"] = {"name": "s", "type": kinds[schema][0], "schema_data": kinds[schema][1]}
    await open_consumer(player, at, consumer, player.world.topic(topic), more)


@kind("pr7629", "message-filter", weight=2, at=CONNECTION, producer=ID, topic=TOPIC, schema=Choice(RECORD, LONGER))
async def produce_records(player: Player, at: str, producer: int, topic: Place, schema: str) -> None:
    """Open a producer of records."""
    name = player.world.topic(topic)
    await player.look_up(at, name)
    brought = {"name": "s", "type": "Avro", "schema_data": schema}
    await player.send(at, {"producer": {"topic": name, "producer_id": producer, "request_id": player.request(), "schema": brought}})


@kind("pr7629", "message-filter", weight=2, number=Choice(*range(4)), version=Choice(None, 0, 1, 2), text=Choice("a", "b"))
async def publish_record(player: Player, number: int, version: int | None, text: str) -> None:
    """Send a record of one of the versions of its schema, by one of the producers that are open."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        body = player.body()
        more = {} if version is None else {"schema_version": {"hex": version.to_bytes(8, "big").hex()}}
        record = f"\2{text}" * (2 if version == 1 else 1)
        payload = {"metadata": metadata(sequence, body, **more), "body": f"{record}{body}"}  # what follows a record is not looked at
        await player.send(at, {"send": {"producer_id": producer_id, "sequence_id": sequence}}, payload)


# PIP-191

REGION = Choice("eu", "us", "", None)
SELECTED = Choice(
    {"region": "eu"}, {"region": "us"}, {"region": "eu,us"}, {"region": "eu", "tier": "x"}, {"tier": "x"}, {"region": ""},
)  # fmt: skip


@kind(
    "pip191", "property-entry-filter", weight=4, at=CONNECTION, consumer=ID, topic=TOPIC, domain=DOMAIN, subscription=SUBSCRIPTION,
    type=TYPE, selected=SELECTED, missing=Choice("accept", "reject"),
)  # fmt: skip
async def subscribe_with_properties(
    player: Player, at: str, consumer: int, topic: Place, domain: str, subscription: str, type: str, selected: dict[str, str], missing: str
) -> None:
    """Open a consumer of a subscription with properties, by which entries are filtered."""
    properties = [{"key": f"entry-filter.{name}", "value": value} for name, value in selected.items()]
    if missing == "reject":
        properties.append({"key": "entry-filter-missing", "value": missing})
    more = {"subscription": subscription, "subType": type, "initialPosition": "Earliest", "subscription_properties": properties}
    await open_consumer(player, at, consumer, player.world.topic(topic, domain), more)


@kind(
    "pip191", "property-entry-filter", weight=4, number=Choice(*range(4)), region=REGION, tier=Choice(None, "x", "y"),
    count=Choice(*range(1, 4)),
)  # fmt: skip
async def publish_uniform_batch(player: Player, number: int, region: str | None, tier: str | None, count: int) -> None:
    """Send a batch whose header has the properties that its messages share."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        properties = [{"key": key, "value": value} for key, value in (("region", region), ("tier", tier)) if value is not None]
        batch = [{"body": f"a{player.body()}", "metadata": {"properties": properties}} for _ in range(count)]
        fields = {"producer_id": producer_id, "sequence_id": sequence, "num_messages": count}
        header = metadata(sequence, player.bodies, properties=properties)
        await player.send(at, {"send": fields}, {"metadata": header, "batch": batch})
