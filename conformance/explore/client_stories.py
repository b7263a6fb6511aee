"""Stories of clients: topics that come, go and grow under a pattern, a second namespace, filters, and a broker that refuses or repeats.

Each is a kind of action for scenarios, as those of `client_actions` are; what must come of it is told by `ClientCase`.
"""

from __future__ import annotations

from typing import Any

from conformance.explore.choices import Choice
from conformance.explore.client_actions import TYPE, action
from conformance.explore.client_case import CLOSED, LARGE, MATCHING, MATCHING_PARTITIONED, PERIOD, PLAIN, ClientCase

_COMES, _GOES = "x-4", "x-5"
"""Topics that an administrator creates and deletes."""
_ELSEWHERE = "elsewhere/"
_FILTERED = "f"
_FILTER = {"class_name": "org.apache.pulsar.broker.service.filtering.RegexFilter", "properties": {"regex_filter_pattern_key": "a.*"}}


@action("pip145", "pattern-consumers", weight=4, topics=Choice((_COMES,), (_COMES, _GOES), ("y-4", _GOES), ("nx-4", "y-4", _COMES)))
def create_topics(case: ClientCase, topics: tuple[str, ...]) -> None:
    """Create topics, some of which patterns match, and send to the last one."""
    case.create(topics)
    case.publish(topics[-1], 1, {})


@action("pip145", "pattern-consumers", weight=3, topic=Choice(_COMES, _GOES), cut=Choice(False, True), again=Choice(False, True))
def delete_topic(case: ClientCase, topic: str, cut: bool, again: bool) -> None:
    """Delete a topic that patterns match, perhaps while the client is away; perhaps it comes again."""
    case.delete(topic, cut=cut)
    if again:
        create_topics(case, (topic,))


@action("pip145", "pattern-consumers", "partition-polling", weight=3, count=Choice(2, 5), partitions=Choice(2, 3, 4))
def grow_under_pattern(case: ClientCase, count: int, partitions: int) -> None:
    """Let a partitioned topic that patterns match come into being or grow, and send to all of it, and to the newest partition."""
    case.grow(partitions, MATCHING_PARTITIONED)
    case.publish(MATCHING_PARTITIONED, count, {})
    case.publish(case.last_partition(MATCHING_PARTITIONED), 1, {})


@action("core", weight=2, over=Choice(_ELSEWHERE + PLAIN, _ELSEWHERE + MATCHING), type=TYPE, queue=Choice(LARGE, 1))
def consume_elsewhere(case: ClientCase, over: str, type: str, queue: int) -> None:
    """Open a consumer in a second namespace, where topics have the same names."""
    case.consume(over, type, queue, PERIOD)


@action("core", weight=3, topic=Choice(_ELSEWHERE + PLAIN, _ELSEWHERE + "x-1"), count=Choice(1, 3))
def publish_elsewhere(case: ClientCase, topic: str, count: int) -> None:
    """Send messages in a second namespace."""
    case.publish(topic, count, {})


@action("pr7629", "message-filters", weight=3, queue=Choice(LARGE, 1, 4))
def consume_filtered(case: ClientCase, queue: int) -> None:
    """Open a consumer that takes the messages of a topic that begin with an a."""
    own = {"own_filtering": True} if "own-filtering" in case.capabilities else {}
    case.consume(_FILTERED, "Exclusive", queue, PERIOD, "a", filter=_FILTER, **own)


@action("pr7629", "message-filters", weight=3, letters=Choice("a", "ab", "baa", "bbbbba"))
def publish_to_filter(case: ClientCase, letters: str) -> None:
    """Send messages that fit a filter, and others."""
    case.publish(_FILTERED, len(letters), {}, letters=letters)


@action("pr7629", "message-filters", "own-filtering", weight=1)
def withhold_filters(case: ClientCase) -> None:
    """Offer no filters from now on: who filters by itself goes on."""
    case.rules({"broker": {"connected": {}}}, {"change": {"feature_flags": {"supports_message_filter": False}}}, "all")


@action("core", what=Choice("subscribe", "producer"), topic=Choice(PLAIN, "x-1"), times=Choice(1, 2))
def refuse_to_attach_again(case: ClientCase, what: str, topic: str, times: int) -> None:
    """Close the producers and consumers of a topic, and say that it is not ready when the first ones come back."""
    case.disturb(first_attempts=True)
    case.clause = CLOSED
    refusal = {"request_id": "$refused", "error": "ServiceNotReady", "message": "the topic is moving"}
    case.rules({"client": {what: {"request_id": {"$bind": "refused"}}}}, {"instead": [{"error": refusal}]}, times)
    case.add(admin={"unload_topic": case.topic(topic)}, status="any")


@action("pip145", "pattern-watch", refusal=Choice(("NotAllowedError", "all"), ("MetadataError", 1), ("MetadataError", 2)))
def refuse_watches(case: ClientCase, refusal: tuple[str, Any]) -> None:
    """Refuse to watch a pattern, for a moment or for ever; who has no watcher asks for the list."""
    if not case.lose_updates():
        return
    error = {"request_id": "$watch", "error": refusal[0], "message": "no watchers here"}
    case.rules({"client": {"watchTopicList": {"request_id": {"$bind": "watch"}}}}, {"instead": [{"error": error}]}, refusal[1])


@action("core", answer=Choice("send_receipt", "lookupTopicResponse"), times=Choice(1, 3))
def repeat_answers(case: ClientCase, answer: str, times: int) -> None:
    """Answer twice."""
    case.rules({"broker": {answer: {}}}, {"twice": True}, times)
