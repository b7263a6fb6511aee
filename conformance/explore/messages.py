"""The kinds of actions of producers and consumers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from conformance.explore.choices import Choice, Some
from conformance.explore.kinds import CONNECTION, DOMAIN, ID, SUBSCRIPTION, TOPIC, TYPE, kind
from conformance.explore.lines import number_of

if TYPE_CHECKING:
    from conformance.explore.player import Player
    from conformance.explore.world import Place


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


@kind(
    "core", "waiting-producers", weight=1, at=CONNECTION, producer=ID, topic=TOPIC,
    access=Choice("WaitForExclusive", "WaitForExclusive", "Exclusive", "ExclusiveWithFencing"), epoch=Choice(None, None, None, 0, 1, 2),
)  # fmt: skip
async def produce_alone(player: Player, at: str, producer: int, topic: Place, access: str, epoch: int | None) -> None:
    """Open a producer that wants a topic alone: at once, in its turn, or in place of others; it may bring an epoch of the topic."""
    name = player.world.topic(topic)
    await player.look_up(at, name)
    fields = {"topic": name, "producer_id": producer, "request_id": player.request(), "producer_access_mode": access}
    await player.send(at, {"producer": fields | ({} if epoch is None else {"topic_epoch": epoch})})


SCHEMA = Choice("String", "Int32", "first", "second")
"""Schemas without fields, and two of records that are compatible."""


def _schema(name: str) -> dict[str, Any]:
    if name not in ("first", "second"):
        return {"name": "s", "type": name, "schema_data": ""}
    fields = [{"name": field, "type": ["null", "int"], "default": None} for field in ("a", "b")[: 1 if name == "first" else 2]]
    definition = json.dumps({"type": "record", "name": "r", "fields": fields}, separators=(",", ":"))
    return {"name": "s", "type": "Json", "schema_data": definition, "properties": [{"key": "k", "value": name}]}


@kind("core", weight=2, at=CONNECTION, producer=ID, topic=TOPIC, schema=SCHEMA)
async def produce_with_schema(player: Player, at: str, producer: int, topic: Place, schema: str) -> None:
    """Open a producer that brings a schema."""
    name = player.world.topic(topic)
    await player.look_up(at, name)
    fields = {"topic": name, "producer_id": producer, "request_id": player.request(), "schema": _schema(schema)}
    await player.send(at, {"producer": fields})


@kind("core", weight=1, at=CONNECTION, topic=TOPIC, version=Choice(None, None, 0, 1, 2))
async def ask_schema(player: Player, at: str, topic: Place, version: int | None) -> None:
    """Ask for a schema of a topic: the newest, or one by its version."""
    more = {} if version is None else {"schema_version": {"hex": version.to_bytes(8, "big").hex()}}
    await player.send(at, {"getSchema": {"topic": player.world.topic(topic), "request_id": player.request(), **more}})


@kind("core", weight=1, number=Choice(*range(4)), schema=SCHEMA)
async def bring_schema(player: Player, number: int, schema: str) -> None:
    """Ask for the version of a schema, which is added if it is new, on the connection of one of the producers that are open."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, _ = producer
        fields = {"topic": player.told.open_producers[at, producer_id], "request_id": player.request(), "schema": _schema(schema)}
        await player.send(at, {"getOrCreateSchema": fields})


@kind("core", at=CONNECTION, producer=ID)
async def close_producer(player: Player, at: str, producer: int) -> None:
    """Close a producer."""
    await player.send(at, {"close_producer": {"producer_id": producer, "request_id": player.request()}})


def metadata(sequence: int, body: int, **more: Any) -> dict[str, Any]:
    """Return the header of an entry: each has a publish time of its own, by the number of its last body."""
    return {"producer_name": "p", "sequence_id": sequence, "publish_time": body, **more}


@kind("core", weight=8, number=Choice(*range(4)), start=Choice(*"ab"))
async def publish(player: Player, number: int, start: str) -> None:
    """Send a message with a body of its own, by one of the producers that are open."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        body = player.body()
        payload = {"metadata": metadata(sequence, body), "body": f"{start}{body}"}
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
        batch = [{"body": f"{start}{player.body()}"} for start in starts]
        fields = {"producer_id": producer_id, "sequence_id": sequence, "num_messages": len(starts)}
        await player.send(at, {"send": fields}, {"metadata": metadata(sequence, player.bodies), "batch": batch})


@kind("core", weight=1, number=Choice(*range(4)))
async def publish_late(player: Player, number: int) -> None:
    """Send a message by a producer that the broker has closed, as a client does that has not heard of it."""
    known = player.told.closed_producers
    if known:
        at, producer_id = known[number % len(known)]
        body = player.body()
        payload = {"metadata": metadata(body, body), "body": f"a{body}"}
        await player.send(at, {"send": {"producer_id": producer_id, "sequence_id": body}}, payload)


@kind("core", weight=1, number=Choice(*range(4)), count=Choice(2, 3))
async def publish_chunks(player: Player, number: int, count: int) -> None:
    """Send a message in chunks, of which each is an entry."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        for chunk in range(count):
            body = player.body()
            more = {"uuid": f"p-{sequence}", "chunk_id": chunk, "num_chunks_from_msg": count, "total_chunk_msg_size": 100}
            fields = {"producer_id": producer_id, "sequence_id": sequence, "num_messages": 1, "is_chunk": True}
            await player.send(at, {"send": fields}, {"metadata": metadata(sequence, body, **more), "body": f"a{body}"})


@kind("core", weight=1, number=Choice(*range(4)), count=Choice(1, 2, 3), named=Choice(False, True))
async def publish_encrypted(player: Player, number: int, count: int, named: bool) -> None:
    """Send a batch whose header says that it is encrypted; the broker has to take its word for it."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        more: dict[str, Any] = {"encryption_keys": [{"key": "k", "value": {"hex": "00"}}]} | ({"encryption_algo": "a"} if named else {})
        batch = [{"body": f"b{player.body()}"} for _ in range(count)]
        fields = {"producer_id": producer_id, "sequence_id": sequence, "num_messages": count}
        await player.send(at, {"send": fields}, {"metadata": metadata(sequence, player.bodies, **more), "batch": batch})


KEY = Choice("k", "l", "m", "n", "o", "p")


@kind("core", "key-shared", weight=3, number=Choice(*range(4)), key=KEY, form=Choice("text", "text", "text", "ordering", "binary"))
async def publish_by_key(player: Player, number: int, key: str, form: str) -> None:
    """Send a message with a key: as text, as bytes, or with another one for its order."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        more: dict[str, Any] = {"partition_key": key}
        if form == "ordering":
            more["ordering_key"] = {"text": f"{key}{key}"}
        elif form == "binary":
            more = {"partition_key": base64.b64encode(key.encode()).decode(), "partition_key_b64_encoded": True}
        body = player.body()
        fields = {"producer_id": producer_id, "sequence_id": sequence}
        await player.send(at, {"send": fields}, {"metadata": metadata(sequence, body, **more), "body": f"a{body}"})


DELAY, LONGER = 8, 10
"""Seconds until a message may be delivered, and seconds after which it must have been."""


@kind("core", "delayed-delivery", weight=1, number=Choice(*range(4)), soon=Choice(True, False))
async def publish_delayed(player: Player, number: int, soon: bool) -> None:
    """Send a message that shared consumers get after some seconds, or in many years."""
    producer = player.producer(number)
    if producer is not None:
        at, producer_id, sequence = producer
        body = player.body()
        until = round((player.time_of_day() + (DELAY if soon else 10**9)) * 1000)
        player.delayed = player.delayed or soon
        payload = {"metadata": metadata(sequence, body, deliver_at_time=until), "body": f"a{body}"}
        await player.send(at, {"send": {"producer_id": producer_id, "sequence_id": sequence}}, payload)


@kind("core", "delayed-delivery", weight=1)
async def wait_for_delayed(player: Player) -> None:
    """Let the time come of what is to be delivered after some seconds."""
    if player.delayed:
        player.delayed = False
        await player.wait(LONGER)


async def open_consumer(player: Player, at: str, consumer: int, topic: str, more: Mapping[str, Any]) -> None:
    """Look a topic up, and open a consumer of it."""
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
    await open_consumer(player, at, consumer, player.world.topic(topic, domain), more)


@kind(
    "core", weight=1, at=CONNECTION, consumer=ID, topic=TOPIC, subscription=SUBSCRIPTION,
    schema=Choice("String", "Int32", "first", "second", "any"), type=Choice("Shared", "Exclusive"),
)  # fmt: skip
async def subscribe_with_schema(player: Player, at: str, consumer: int, topic: Place, subscription: str, schema: str, type: str) -> None:
    """Open a consumer that brings a schema, or takes any."""
    brought = {"name": "s", "type": "AutoConsume", "schema_data": ""} if schema == "any" else _schema(schema)
    more = {"subscription": subscription, "subType": type, "initialPosition": "Earliest", "schema": brought}
    await open_consumer(player, at, consumer, player.world.topic(topic), more)


RANGES = {
    "auto": (),
    "lower": ((0, 32767),),
    "upper": ((32768, 65535),),
    "ends": ((0, 9), (60000, 65535)),
    "all": ((0, 65535),),
    "touching": ((0, 9), (9, 20)),
}


@kind(
    "core", "key-shared", weight=3, at=CONNECTION, consumer=ID, topic=TOPIC, domain=DOMAIN, subscription=SUBSCRIPTION,
    ranges=Choice("auto", "auto", *RANGES), unordered=Choice(False, False, False, True),
)  # fmt: skip
async def subscribe_by_key(
    player: Player, at: str, consumer: int, topic: Place, domain: str, subscription: str, ranges: str, unordered: bool
) -> None:
    """Open a consumer that gets the messages of some keys: of those that the broker chooses, or whose hashes it names."""
    meta: dict[str, Any] = {"keySharedMode": "AUTO_SPLIT" if ranges == "auto" else "STICKY", "allowOutOfOrderDelivery": unordered}
    if RANGES[ranges]:
        meta["hashRanges"] = [{"start": start, "end": end} for start, end in RANGES[ranges]]
    more = {"subscription": subscription, "subType": "Key_Shared", "initialPosition": "Earliest", "keySharedMeta": meta}
    await open_consumer(player, at, consumer, player.world.topic(topic, domain), more)


@kind("core", weight=1, at=CONNECTION, consumer=ID, number=Choice(*range(6)), durable=Choice(False, False, True))
async def read_from(player: Player, at: str, consumer: int, number: int, durable: bool) -> None:
    """Open a consumer that begins at a message that was delivered to another one; only without a durable subscription that counts."""
    delivery = player.delivery(number)
    if delivery is not None:
        more = {"subscription": "from", "subType": "Exclusive", "durable": durable, "start_message_id": delivery.message_id}
        await open_consumer(player, at, consumer, delivery.order[0], more)


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


@kind(
    "core", weight=1, numbers=Some(Choice(*range(6)), 3), kept=Some(Choice(0, 1, 2, 3, 5, 6), 3, unique=False),
    type=Choice("Individual", "Individual", "Cumulative"),
)  # fmt: skip
async def acknowledge_some(player: Player, numbers: list[int], kept: list[int], type: str) -> None:
    """Acknowledge some of the messages of one consumer in one command, and of batches only a part.

    Args:
        player: The player.
        numbers: Of the entries; the first one says whose they are.
        kept: For each entry the messages that are not acknowledged, as bits; 0: the whole entry is.
        type: Of the acknowledgement; a cumulative one has one entry.
    """
    first = player.delivery(numbers[0])
    if first is None:
        return
    known = player.deliveries(first.at, first.consumer)
    named = {known[number % len(known)].order: known[number % len(known)] for number in numbers}
    entries = [first] if type == "Cumulative" and not first.shared else list(named.values())
    message_ids = []
    for place, one in enumerate(entries):
        part = kept[place % len(kept)] & (2**one.messages - 1)
        in_part = part and part != 2**one.messages - 1
        message_ids.append({**one.message_id, "ack_set": [part]} if in_part else dict(one.message_id))
    kind_of_ack = "Cumulative" if type == "Cumulative" and not first.shared else "Individual"
    await player.send(first.at, {"ack": {"consumer_id": first.consumer, "ack_type": kind_of_ack, "message_id": message_ids}})


@kind("core", weight=1, number=Choice(*range(4)))
async def ask_statistics(player: Player, number: int) -> None:
    """Ask for the counters of a consumer that is alone on its subscription, so that they do not depend on who got what."""
    consumer = player.consumer(number)
    if consumer is not None and player.told.alone(*consumer):
        at, consumer_id = consumer
        await player.send(at, {"consumerStats": {"consumer_id": consumer_id, "request_id": player.request()}})


@kind("core", weight=2, number=Choice(*range(4)))
async def ask_last_message(player: Player, number: int) -> None:
    """Ask for the id of the last message of a topic, by one of the consumers that are open."""
    consumer = player.consumer(number)
    if consumer is not None:
        at, consumer_id = consumer
        await player.send(at, {"getLastMessageId": {"consumer_id": consumer_id, "request_id": player.request()}})


@kind("core", weight=1, number=Choice(*range(4)), other=Choice(*range(4)))
async def redeliver_of_another(player: Player, number: int, other: int) -> None:
    """Ask by one of the consumers for messages that another one has got."""
    consumer, holder = player.consumer(number), player.consumer(other)
    if consumer is not None and holder is not None:
        message_ids = [one.message_id for one in player.deliveries(*holder)]
        if message_ids and player.told.subscription_of(*consumer) == player.told.subscription_of(*holder):
            await player.send(consumer[0], {"redeliverUnacknowledgedMessages": {"consumer_id": consumer[1], "message_ids": message_ids}})


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


@kind("core", weight=1, number=Choice(*range(4)), force=Choice(False, False, True))
async def unsubscribe(player: Player, number: int, force: bool) -> None:
    """Delete the subscription of one of the consumers, by force also beside others."""
    consumer = player.consumer(number)
    if consumer is not None:
        at, consumer_id = consumer
        more = {"force": True} if force else {}
        await player.send(at, {"unsubscribe": {"consumer_id": consumer_id, "request_id": player.request(), **more}})


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


@kind("core", weight=1, number=Choice(*range(6)), kept=Choice(1, 2, 3, 4, 6))
async def seek_part(player: Player, number: int, kept: int) -> None:
    """Move a subscription into a batch that was delivered: its messages that are named come again.

    Args:
        player: The player.
        number: Of the batch.
        kept: The messages that come again, as bits.
    """
    delivery = player.delivery(number)
    if delivery is not None and kept < 2**delivery.messages - 1:
        place = {**delivery.message_id, "ack_set": [kept]}
        await player.send(delivery.at, {"seek": {"consumer_id": delivery.consumer, "request_id": player.request(), "message_id": place}})


@kind("core", weight=1, number=Choice(*range(6)), later=Choice(0, 1))
async def seek_time(player: Player, number: int, later: int) -> None:
    """Move a subscription to the time when one of its messages was published, or right after it."""
    delivery = player.delivery(number)
    if delivery is not None:
        time = number_of(delivery.order[2]) + later
        await player.send(
            delivery.at, {"seek": {"consumer_id": delivery.consumer, "request_id": player.request(), "message_publish_time": time}}
        )


# By the admin interface


@kind("core", "admin", weight=1, topic=TOPIC)
async def terminate_topic(player: Player, topic: Place) -> None:
    """End a topic: it takes no more messages."""
    await player.admin("terminate_topic", topic=player.world.topic(topic))


@kind("core", "admin", weight=1, topic=TOPIC, subscription=SUBSCRIPTION, position=Choice("earliest", "latest"))
async def create_subscription(player: Player, topic: Place, subscription: str, position: str) -> None:
    """Create a subscription that nobody uses yet."""
    await player.admin("create_subscription", topic=player.world.topic(topic), subscription=subscription, position=position)


@kind("core", "admin", weight=1, topic=TOPIC, subscription=SUBSCRIPTION, force=Choice(False, True))
async def delete_subscription(player: Player, topic: Place, subscription: str, force: bool) -> None:
    """Delete a subscription, if it is durable: another one may be gone with its last consumer, or be refused."""
    name = player.world.topic(topic)
    if player.told.durable(player.concrete(name), subscription):
        await player.admin("delete_subscription", topic=name, subscription=subscription, force=force)


@kind("core", "admin", weight=1, topic=TOPIC, subscription=SUBSCRIPTION)
async def skip_all_messages(player: Player, topic: Place, subscription: str) -> None:
    """Let a subscription skip all its messages, if it is durable."""
    name = player.world.topic(topic)
    if player.told.durable(player.concrete(name), subscription):
        await player.admin("skip_all_messages", topic=name, subscription=subscription)


@kind("core", "admin", weight=1, topic=TOPIC, subscription=SUBSCRIPTION, time=Choice(0, 2, 4))
async def reset_cursor(player: Player, topic: Place, subscription: str, time: int) -> None:
    """Let a subscription begin anew with what was published at a time, if it is durable."""
    name = player.world.topic(topic)
    if player.told.durable(player.concrete(name), subscription):
        await player.admin("reset_cursor", topic=name, subscription=subscription, timestamp=time)
