"""The kinds of actions of a scenario for a client: what its user does, and what the broker does out of the ordinary.

A scenario becomes a case for clients, step by step: `ClientCase` holds the steps, and knows what must come of them. Stories about topics
that come and go, namespaces and filters are in `client_stories`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.explore.choices import Choice, Draw
from conformance.explore.client_case import CLOSED, LARGE, MATCHING, OTHER, PARTITIONED, PERIOD, PLAIN, ClientCase
from conformance.explore.kinds import CLIENT_KINDS, ActT, kind

TOPIC = Choice(PLAIN, "x-1", PARTITIONED, "x-2", "x-3", OTHER)
ANSWER = Choice(
    *("success", "producer_success", "send_receipt", "lookupTopicResponse", "message"),
    *("watchTopicUpdate", "watchTopicListSuccess", "getTopicsOfNamespaceResponse"),
)


def action(proposal: str, *requires: str, weight: int = 2, **parameters: Draw) -> Callable[[ActT], ActT]:
    """Make a function a kind of action for clients."""
    return kind(proposal, *requires, weight=weight, kinds=CLIENT_KINDS, **parameters)


CONSUMED = Choice(PLAIN, MATCHING, MATCHING, PARTITIONED, OTHER)
TYPE = Choice("Exclusive", "Shared", "Failover")


@action("core", weight=3, over=CONSUMED, type=TYPE, queue=Choice(LARGE, LARGE, 1, 4), period=Choice(PERIOD, 60 * PERIOD))
def consume(case: ClientCase, over: str, type: str, queue: int, period: int) -> None:
    """Open a consumer of a topic, or of the topics that match a pattern."""
    case.consume(over, type, queue, period)


@action("core", over=CONSUMED, type=TYPE)
def consume_and_give_back(case: ClientCase, over: str, type: str) -> None:
    """Open a consumer that gives messages back."""
    case.consume(over, type, LARGE, PERIOD, nack_delay_ms=100)


@action("core", weight=4, consumer=Choice(0, 1, 2), which=Choice(0, 1, 5))
def give_back(case: ClientCase, consumer: int, which: int) -> None:
    """Give a message back."""
    case.give_back(consumer, which)


@action("core", consumer=Choice(0, 1, 2))
def seek_back(case: ClientCase, consumer: int) -> None:
    """Go back to the first message."""
    case.seek_back(consumer)


@action("core", consumer=Choice(0, 1, 2))
def reopen(case: ClientCase, consumer: int) -> None:
    """Close a consumer, and open another one of its subscription."""
    case.reopen(consumer)


@action("core", weight=1, consumer=Choice(0, 1, 2))
def unsubscribe(case: ClientCase, consumer: int) -> None:
    """Unsubscribe."""
    case.unsubscribe(consumer)


@action("core", weight=8, topic=TOPIC, count=Choice(1, 3, 12))
def publish(case: ClientCase, topic: str, count: int) -> None:
    """Send messages, each by itself."""
    case.publish(topic, count, {})


@action("core", weight=3, topic=TOPIC, count=Choice(2, 5), compression=Choice("NONE", "LZ4", "ZLIB"))
def publish_batch(case: ClientCase, topic: str, count: int, compression: str) -> None:
    """Send messages in a batch."""
    case.publish(topic, count, {"batch": {"messages": count}, "compression": compression})


@action("core", weight=1, topic=TOPIC)
def close_producers(case: ClientCase, topic: str) -> None:
    """Close the producers of a topic."""
    case.close_producers(topic)


_SETTING = {"region": ["us", "eu"], "version": ["1"]}
_PROPERTIES = Choice(
    {"region": "us"},
    {"region": "eu", "version": "1"},
    {"version": "1", "region": "eu"},
    {"region": "us", "other": "x"},
    {"region": "us", "version": "2"},
    {"region": "EU", "version": "1"},
)
"""From each of them something is extracted; what becomes of the others is a question of its own."""
_IN_A_BATCH = 3


@action("pip191", "uniform-batches", weight=5, topic=Choice(PLAIN, "x-1"), first=_PROPERTIES, second=_PROPERTIES, third=_PROPERTIES)
def publish_uniform(case: ClientCase, topic: str, first: dict[str, str], second: dict[str, str], third: dict[str, str]) -> None:
    """Send messages in batches of equal property values."""
    each = [first, second, third, first]
    case.cites |= {"pip191.batch.same-set", "pip191.header.extracted-set"}
    options = {"batch": {"messages": _IN_A_BATCH}, "uniform": _SETTING}
    case.publish(topic, 4, options, first_steps=lambda texts: _batches(texts, each), properties=each)


def _batches(texts: list[str], each: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the batches that must be sent: consecutive messages with the same pairs of the setting, at most three of them."""
    batches: list[tuple[list[dict[str, str]], list[tuple[str, dict[str, str]]]]] = []
    for text, properties in zip(texts, each, strict=True):
        pairs = [{"key": key, "value": properties[key]} for key in sorted(_SETTING) if properties.get(key) in _SETTING[key]]
        if not batches or batches[-1][0] != pairs or len(batches[-1][1]) == _IN_A_BATCH:
            batches.append((pairs, []))
        batches[-1][1].append((text, properties))
    return [_batch(pairs, messages) for pairs, messages in batches]


def _batch(pairs: list[dict[str, str]], messages: list[tuple[str, dict[str, str]]]) -> dict[str, Any]:
    owns = [[{"key": key, "value": value} for key, value in properties.items()] for _, properties in messages]
    if len(messages) == 1:
        return {"use": "lib/client-batch-of-one", "with": {"properties": pairs, "own": owns[0], "text": messages[0][0]}}
    singles = [{"metadata": {"properties": {"$bag": own}}, "body": text} for own, (text, _) in zip(owns, messages, strict=True)]
    return {"use": "lib/client-batch", "with": {"properties": pairs, "singles": singles}}


@action("pr7629", weight=4, topic=Choice(PLAIN, "x-1", OTHER), open=Choice(0, 1, 2))
def publish_partly_acknowledged(case: ClientCase, topic: str, open: int) -> None:
    """Send a batch that comes with the bit of a single message in its ack_set."""
    case.publish_part(topic, 3, open)


@action("pip247", "partition-polling", weight=2, partitions=Choice(3, 4))
def grow(case: ClientCase, partitions: int) -> None:
    """Let the partitioned topic grow, and send to the newest partition."""
    case.grow(partitions)
    case.publish(case.last_partition(), 2, {})


@action("core", weight=4, consumer=Choice(0, 1, 2), which=Choice(0, 1, 5), cumulative=Choice(False, True))
def acknowledge(case: ClientCase, consumer: int, which: int, cumulative: bool) -> None:
    """Acknowledge a message."""
    case.acknowledge(consumer, which, cumulative=cumulative)


@action("core", how=Choice("fin", "rst"))
def cut(case: ClientCase, how: str) -> None:
    """End all connections."""
    case.disturb(first_attempts=True)
    case.add(close={"how": how})


@action("core", answer=ANSWER, how=Choice("fin", "rst"))
def cut_instead(case: ClientCase, answer: str, how: str) -> None:
    """End a connection in place of an answer."""
    case.disturb(first_attempts=True)
    case.rules({"broker": {answer: {}}}, {"cut": how})


@action("core", answer=ANSWER, seconds=Choice(0.1, 0.7))
def delay(case: ClientCase, answer: str, seconds: float) -> None:
    """Delay an answer."""
    case.rules({"broker": {answer: {}}}, {"delay": seconds})


@action("core", weight=3, topic=Choice(PLAIN, "x-1", "x-2", f"{PARTITIONED}-partition-0"))
def unload(case: ClientCase, topic: str) -> None:
    """Close the producers and consumers of a topic, and send to it."""
    case.producer(topic, {})
    case.disturb(first_attempts=False)
    case.clause = CLOSED
    case.add(admin={"unload_topic": case.topic(topic)}, status="any")
    case.publish(topic, 1, {})


@action("core", topic=Choice(PLAIN, "x-1"), times=Choice(1, 2))
def refuse_look_ups(case: ClientCase, topic: str, times: int) -> None:
    """Refuse to look a topic up while it moves, after its producers and consumers were closed."""
    case.disturb(first_attempts=True)
    case.clause = CLOSED
    refusal = {"request_id": "$refused", "response": "Failed", "error": "ServiceNotReady", "message": "the topic is moving"}
    case.rules({"client": {"lookupTopic": {"request_id": {"$bind": "refused"}}}}, {"instead": [{"lookupTopicResponse": refusal}]}, times)
    case.add(admin={"unload_topic": case.topic(topic)}, status="any")


@action("core", times=Choice(1, 3))
def redirect(case: ClientCase, times: int) -> None:
    """Let a look-up be asked once more."""
    case.rules({"broker": {"lookupTopicResponse": {}}}, {"change": {"response": "Redirect", "authoritative": True}}, times)


@action("core", highest=Choice(0, (1 << 64) - 1, {"$absent": True}))
def answer_without_highest(case: ClientCase, highest: Any) -> None:
    """Put what some brokers put into the highest sequence id of receipts for single messages."""
    single = {"highest_sequence_id": {"$in": [0, (1 << 64) - 1, {"$absent": True}]}}
    case.rules({"broker": {"send_receipt": single}}, {"change": {"highest_sequence_id": highest}}, "all")


FLAGS = Choice(
    {"supports_message_filter": True},
    {"supports_scalable_topics": True},
    {"supports_topic_watchers": False},
    {"supports_topic_watcher_reconcile": False},
    {"supports_partition_update_watchers": False},
)


@action("core", weight=1, which=FLAGS)
def announce(case: ClientCase, which: dict[str, bool]) -> None:
    """Announce other features from now on."""
    if "supports_topic_watchers" in which and not case.lose_updates():
        return
    case.rules({"broker": {"connected": {}}}, {"change": {"feature_flags": which}}, "all")


@action("core", weight=2)
def ping(case: ClientCase) -> None:
    """Send a PING to the connection of a producer."""
    producer = case.producer(PLAIN, {}) if case.calm else None
    if producer is not None:
        case.add(drive={"send": {"producer": producer, "texts": ["before the ping"]}}, aside="pinged")
        case.add(client={"send": {}})
        case.add(seen={"result": {"of": "pinged", "ok": True}})
        for _ in range(2):
            case.add(broker={"ping": {}})
            case.add(client={"pong": {}}, clause="core.client.answers-ping")


@action("pip145", "pattern-watch", weight=3, what=Choice("twice", "drop"), times=Choice(1, 2))
def harm_update(case: ClientCase, what: str, times: int) -> None:
    """Repeat an update of the topics of a pattern, or lose it."""
    if what == "drop" and not case.lose_updates():
        return
    case.rules({"broker": {"watchTopicUpdate": {}}}, {what: True}, times)


@action("pip145", "pattern-consumers", weight=3, changed=Choice({"topics_hash": {"$absent": True}, "filtered": False}, {"filtered": False}))
def list_everything(case: ClientCase, changed: dict[str, Any]) -> None:
    """Answer requests for the list of a pattern with all topics, as brokers do that do not filter."""
    case.rules(
        {"client": {"getTopicsOfNamespace": {}}}, {"change": {"topics_pattern": {"$absent": True}, "topics_hash": {"$absent": True}}}, "all"
    )
    case.rules({"broker": {"getTopicsOfNamespaceResponse": {}}}, {"change": changed}, "all")
