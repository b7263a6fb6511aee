"""After which action each frame of the broker comes, and what the administration must have done.

An answer follows its request, a receipt the SEND, a message whatever it waited for: its SEND, the permit for it, the request to have it
again. The order between what different connections and streams get is the broker's, so that this order, and not that of times, is
what every broker keeps to. What no action explains was done by the administration: topics came and went, ended or were unloaded.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.transcribing.administration import Administration, Event
from conformance.transcribing.recorded import Conversation, Said, TranscribeProblem
from conformance.transcribing.requests import PUSHED, check_commands, requests_of, without_retries
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, TopicTerminatedError

Subscription = tuple[str, str]
"""Topic and name."""
MessageId = tuple[int, int]
"""Ledger and entry."""
SEVERAL = frozenset({CommandSubscribe.Shared, CommandSubscribe.Key_Shared})
"""Types of subscriptions of which the broker chooses the consumer of each message."""
_BETWEEN = 0.5


@dataclass
class Action:
    """What the client sent, or what the administration did, and what came of it.

    Attributes:
        place: Where it stands: the number of the client's frame, or between two of them.
        said: The client's frame; None: the administration acts.
        calls: What it does.
        heard: What the broker sent for it, in the order in which it came.
    """

    place: float
    said: Said | None
    calls: list[dict[str, Any]] = field(default_factory=list)
    heard: list[Said] = field(default_factory=list)


@dataclass
class Consumer:
    """A consumer from SUBSCRIBE on.

    Attributes:
        place: Of its SUBSCRIBE.
        of: Its connection and id.
        subscription: What it consumes.
        kind: The type of its subscription.
        messages: How many it got.
        last: The place of the cause of the last one.
    """

    place: int
    of: tuple[int, int]
    subscription: Subscription
    kind: int
    messages: int = 0
    last: float = -1.0


def actions_of(conversation: Conversation) -> list[Action]:
    """Return what was done, in order, each action with what it caused.

    Raises:
        TranscribeProblem: A frame belongs to something that began before the capture, or can't be transcribed.
    """
    check_commands(conversation.said)
    return _Causes(replace(conversation, said=without_retries(conversation.said))).actions()


class _Causes:
    def __init__(self, conversation: Conversation) -> None:
        self._timed = conversation.timed
        self._said = conversation.said
        self._numbers: dict[int, int] = {}  # of the client's frames, by their place in the conversation
        self._sent: list[Said] = []
        for place, one in enumerate(self._said):
            if one.by_client:
                self._numbers[place] = len(self._sent)
                self._sent.append(one)
        self._requests = {place: self._numbers[asked] for place, asked in requests_of(self._said).items()}
        self._ids = self._receipts()
        self._consumers: dict[tuple[int, int], Consumer] = {}
        self._producers: dict[tuple[int, int], str] = {}
        self._delivered: defaultdict[Subscription, dict[MessageId, tuple[Consumer, float]]] = defaultdict(dict)
        self._sought: set[tuple[int, tuple[int, int]]] = set()
        self._answered: set[int] = set()

    def actions(self) -> list[Action]:
        administration = Administration(self._created())
        heard: list[tuple[int, float | Event]] = []
        before = -1.0
        latest = -1
        for place, one in enumerate(self._said):
            if one.by_client:
                latest = self._numbers[place]
                continue
            if one.name == "active_consumer_change":  # it may come at any time
                continue
            cause = self._cause(place, one, before, administration)
            if isinstance(cause, float):
                if self._timed:
                    cause = min(cause, float(latest))
                before = max(before, cause)
            heard.append((place, cause))
        found = {float(number): Action(float(number), one) for number, one in enumerate(self._sent)}
        self._place_events(heard, administration)
        for event in administration.events:
            found.setdefault(event.place, Action(event.place, None)).calls += event.calls
        for place, cause in heard:
            found[cause.place if isinstance(cause, Event) else cause].heard.append(self._said[place])
        return [found[place] for place in sorted(found)]

    def _place_events(self, heard: Sequence[tuple[int, float | Event]], administration: Administration) -> None:
        """Place what the administration did: as late as what follows allows, or where it was seen."""
        for index, (place, event) in enumerate(heard):
            if not isinstance(event, Event) or event.placed:
                continue
            event.placed = True
            if self._timed:
                event.place = max((self._numbers[one] for one in self._numbers if one < place), default=-1) + _BETWEEN
                continue
            before = max((cause for _, cause in heard[:index] if isinstance(cause, float)), default=-1.0)
            after = next((cause for _, cause in heard[index:] if isinstance(cause, float) and cause > before), float(len(self._sent)))
            event.place = after - _BETWEEN
        administration.settle()

    def _created(self) -> Mapping[str, int]:
        """Return the topics that producers and consumers made, or found, with the number of the first that was served."""
        found: dict[str, int] = {}
        for place, number in sorted(self._requests.items()):
            request, answer = self._sent[number], self._said[place]
            forced = request.name == "producer" or (request.name == "subscribe" and request.message.force_topic_creation)
            if forced and answer.name in ("success", "producer_success"):
                found.setdefault(request.message.topic, number)
        return found

    def _receipts(self) -> dict[MessageId, int]:
        """Find the SEND of each message that got an id."""
        sends: defaultdict[tuple[int, int, int], deque[int]] = defaultdict(deque)
        for number, one in enumerate(self._sent):
            if one.name == "send":
                sends[one.connection, one.message.producer_id, one.message.sequence_id].append(number)
        self._acknowledged: dict[int, int] = {}  # SENDs by the place of what answers them
        found = {}
        for place, one in enumerate(self._said):
            if not one.by_client and one.name in ("send_receipt", "send_error"):
                key = one.connection, one.message.producer_id, one.message.sequence_id
                if not sends[key]:
                    raise TranscribeProblem(f"connection {one.connection}: {one.name} {key[2]} answers a SEND that is not in the capture")
                number = self._acknowledged[place] = sends[key].popleft()
                if one.name == "send_receipt":
                    found[one.message.message_id.ledgerId, one.message.message_id.entryId] = number
        return found

    def _cause(self, place: int, one: Said, before: float, administration: Administration) -> float | Event:
        if one.name not in PUSHED:
            number = self._requests[place]
            waited = self._turn(number) if one.name == "producer_success" and number in self._answered else None
            self._answered.add(number)
            return self._answer(number, one, administration) if waited is None else waited
        if place in self._acknowledged:
            return float(self._acknowledged[place])
        message = one.message
        if one.name == "message":
            return self._delivery(one, before)
        if one.name == "watchTopicUpdate":
            return administration.update(message)
        if one.name == "close_producer":
            return administration.closed(self._producers.get((one.connection, message.producer_id)))
        consumer = self._consumers.get((one.connection, message.consumer_id))
        if consumer is None:
            raise TranscribeProblem(f"connection {one.connection}: {one.name} is for consumer {message.consumer_id}, which nobody opened")
        if one.name == "reachedEndOfTopic":
            return administration.ended(consumer.subscription[0])
        return self._seek(consumer) or administration.closed(consumer.subscription[0])

    def _turn(self, number: int) -> float | None:
        """Return what gave a producer its turn: the next one of its topic that left."""
        topics: dict[tuple[int, int], str] = {}
        for place, one in enumerate(self._sent):
            key = one.connection, getattr(one.message, "producer_id", -1)
            if one.name == "producer":
                topics[key] = one.message.topic
            elif one.name == "close_producer" and place > number and topics.get(key) == self._sent[number].message.topic:
                return float(place)
        return None

    def _seek(self, consumer: Consumer) -> float | None:
        for number, one in enumerate(self._sent):
            sought = self._consumers.get((one.connection, getattr(one.message, "consumer_id", -1))) if one.name == "seek" else None
            if (
                sought is not None
                and sought.subscription == consumer.subscription
                and (number, consumer.of) not in self._sought
                and number > consumer.place
            ):
                self._sought.add((number, consumer.of))
                return float(number)
        return None

    def _answer(self, number: int, one: Said, administration: Administration) -> float:
        request = self._sent[number]
        asked = request.message
        if request.name == "subscribe" and one.name == "success":
            key = request.connection, asked.consumer_id
            self._consumers[key] = Consumer(number, key, (asked.topic, asked.subscription), asked.subType)
            administration.served(asked.topic)
        elif one.name == "producer_success":
            self._producers[request.connection, asked.producer_id] = asked.topic
            administration.served(asked.topic)
        elif one.name == "partitionMetadataResponse":
            administration.partitions(asked.topic, one.message.partitions, number)
        elif one.name == "getTopicsOfNamespaceResponse":
            administration.listed(asked.namespace, one.message.topics, number)
        elif one.name == "watchTopicListSuccess":
            administration.listed(asked.namespace, one.message.topic, number)
        elif one.name == "error" and request.name == "producer" and one.message.error == TopicTerminatedError:
            administration.terminated(asked.topic, number)
        return float(number)

    def _delivery(self, one: Said, before: float) -> float:
        message = one.message
        consumer = self._consumers.get((one.connection, message.consumer_id))
        if consumer is None:
            raise TranscribeProblem(f"connection {one.connection}: a message is for consumer {message.consumer_id}, which nobody opened")
        key = message.message_id.ledgerId, message.message_id.entryId
        if key not in self._ids:
            raise TranscribeProblem(
                f"connection {one.connection}: message {key[0]}:{key[1]} of {consumer.subscription[0]} was not sent on these connections: "
                "capture its producer as well, from its beginning"
            )
        payload = one.frame.payload()
        assert payload is not None
        causes = [float(self._ids[key]), consumer.last, self._permit(consumer)]
        delivered = self._delivered[consumer.subscription]
        if key in delivered:
            causes.append(self._again(key, *delivered[key]))
        if payload.metadata.HasField("deliver_at_time"):
            causes.append(before)
        consumer.last = max(causes)
        consumer.messages += payload.metadata.num_messages_in_batch
        delivered[key] = consumer, consumer.last
        return consumer.last

    def _permit(self, consumer: Consumer) -> float:
        """Return the FLOW that allowed the next message of a consumer."""
        left = consumer.messages
        last = consumer.place
        for number in range(consumer.place + 1, len(self._sent)):
            one = self._sent[number]
            if (one.connection, getattr(one.message, "consumer_id", -1)) != consumer.of:
                continue
            if one.name == "subscribe":
                break
            if one.name == "flow":
                last = number
                left -= one.message.messagePermits
                if left < 0:
                    break
        return float(last)

    def _again(self, key: MessageId, earlier: Consumer, place: float) -> float:
        """Return what made a message come again: a request, or the end of the consumer that had it."""
        for number in range(int(place) + 1, len(self._sent)):
            one = self._sent[number]
            if (one.connection, getattr(one.message, "consumer_id", -1)) != earlier.of:
                continue
            if one.name == "subscribe":
                break
            named = one.name == "redeliverUnacknowledgedMessages" and [(each.ledgerId, each.entryId) for each in one.message.message_ids]
            if one.name in ("close_consumer", "unsubscribe") or named == [] or (named and key in named):
                return float(number)
        return place


def several(kind: int) -> bool:
    """Tell whether the broker chooses the consumer of each message."""
    return kind in SEVERAL
