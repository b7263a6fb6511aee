"""Freedoms of the broker: ids, names, texts, orders and portions that it chooses."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from conformance.mutants.model import Patches
from conformance.variants.link import Send, later, on_send
from conformance.variants.model import MESSAGES, variant
from refimpl.broker import Broker, Configuration, Session
from refimpl.broker.admin import Admin
from refimpl.broker.policies import DEDUPLICATION
from refimpl.broker.requests import Handler
from refimpl.broker.subscription import Subscription
from refimpl.proposals.scalable_topics import broker as scalable_broker
from refimpl.proposals.scalable_topics.layout import LAST_HASH, Layout, Segment, first_layout
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import (
    CommandConnected,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandProducerSuccess,
    CommandSendReceipt,
    CommandWatchScalableTopicsUpdate,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    MessageIdData,
    NotAllowedError,
)

_IN_A_LEDGER = 3
_NO_ID = 2**64 - 1
_FROM = 7
_NARROW = 5


def message_ids(message: Message) -> Iterator[MessageIdData]:
    """Yield all message ids in a command."""
    for field, value in message.ListFields():
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        for one in value if field.label == FieldDescriptor.LABEL_REPEATED else (value,):
            if isinstance(one, MessageIdData):
                yield one
            else:
                yield from message_ids(one)


@variant("core.send.receipt", "core.position.last-message", cases=(*MESSAGES, "!core/key-shared/join-batches"))
def rolls_ledgers_over(patches: Patches) -> None:
    """A ledger has three entries, after which the next one begins; numbers of ledgers are large and leave gaps."""

    def outward(one: MessageIdData) -> None:
        if one.entryId < 2**40 and one.ledgerId < 2**40:
            one.ledgerId, one.entryId = (one.ledgerId << 40) + 7 * (one.entryId // _IN_A_LEDGER) + 2**39, one.entryId % _IN_A_LEDGER

    def inward(one: MessageIdData) -> None:
        if 2**39 <= one.ledgerId < 2**63 - 1 and one.entryId < 2**40:
            ledger, number = divmod(one.ledgerId - 2**39, 1 << 40)
            one.ledgerId, one.entryId = ledger, number // 7 * _IN_A_LEDGER + one.entryId

    def make(send: Send) -> Send:
        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            copy = type(message)()
            copy.CopyFrom(message)
            for one in message_ids(copy):
                outward(one)
            send(session, copy, payload)

        return changed

    def handlers(_: str, handler: Handler) -> Handler:
        def changed(session: Session, request: Any, frame: Frame) -> None:
            for one in message_ids(request):
                inward(one)
            handler(session, request, frame)

        return changed

    def reset(original: Callable[..., None]) -> Callable[..., None]:
        def changed(admin: Admin, topic: str, subscription: str, position: tuple[int, int], **options: bool) -> None:
            place = MessageIdData(ledgerId=position[0], entryId=position[1]) if min(position) >= 0 else None
            if place is not None:
                inward(place)
            original(admin, topic, subscription, position if place is None else (place.ledgerId, place.entryId), **options)

        return changed

    on_send(patches, make)
    patches.handlers(handlers)
    patches.function(Admin.reset_cursor, reset(Admin.reset_cursor))


@variant("core.producer.name-generated", cases=MESSAGES)
def names_producers_otherwise(patches: Patches) -> None:
    """Generated names of producers are long, and not ASCII."""
    patches.wrap(Broker, "new_producer_name", lambda name: lambda broker: f"продюсер/{name(broker)}?{'x' * 40}")


@variant("error-codes", "filter-refusals")
def words_errors_otherwise(patches: Patches) -> None:
    """Messages of errors have other texts; those of NotAllowedError still name what is wrong, as some clauses ask for."""

    def make(send: Send) -> Send:
        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            fields = message.DESCRIPTOR.fields_by_name
            if "error" in fields and "message" in fields and message.HasField("error"):
                copy: Any = type(message)()
                copy.CopyFrom(message)
                copy.message = f"Nein, «{copy.message}»\n\tat Broker" if copy.error == NotAllowedError else ""
                message = copy
            send(session, message, payload)

        return changed

    on_send(patches, make)


def shuffle(names: Any) -> None:
    """Put names into an order of the broker's own."""
    names[:] = sorted(names, key=lambda name: zlib.crc32(name.encode()))


@variant(
    "pip145.list.order", "pip145.list.mode-all-order", "partitions", "scalable-window",
    cases=("core/*", "pip145/*", "pr25648/*", "promoted/*"),
)  # fmt: skip
def lists_topics_in_another_order(patches: Patches) -> None:
    """Topics come in an order of the broker's own: in lists, snapshots and updates."""
    patches.outgoing(CommandGetTopicsOfNamespaceResponse, lambda _, one: shuffle(one.topics))
    patches.outgoing(CommandWatchTopicListSuccess, lambda _, one: shuffle(one.topic))

    def update(_: Session, one: CommandWatchScalableTopicsUpdate) -> None:
        if one.HasField("snapshot"):
            shuffle(one.snapshot.topics)
        if one.HasField("diff"):
            shuffle(one.diff.added)
            shuffle(one.diff.removed)

    patches.outgoing(CommandWatchScalableTopicsUpdate, update)


@variant(
    "pr25648.layout.covers-hashes", "scalable-layout", not_kept=("pr25648.layout.equal-ranges",),
    cases=("pr25648/*", "pip191/filter/*", "pip247/combine/*", "pr7629/subscribe/*", "promoted/*"),
)  # fmt: skip
def numbers_segments_from_seven(patches: Patches) -> None:
    """Segments have numbers from 7, the last one first; all but the last one have few hashes, and the first epoch is 12."""

    def make(first: Callable[..., Layout]) -> Callable[..., Layout]:
        def changed(topic: str, segments: int = 1, created_at_ms: int = 0) -> Layout:
            layout = first(topic, segments, created_at_ms)
            starts = [_NARROW * place for place in range(segments)]
            ends = [start - 1 for start in starts[1:]] + [LAST_HASH]
            parts = (Segment(_FROM + segments - 1 - place, start, ends[place], created_at_ms) for place, start in enumerate(starts))
            return replace(layout, segments=tuple(parts)[::-1], epoch=12)

        return changed

    patches.function(first_layout, make(first_layout))


@variant("core.send.receipt", cases=MESSAGES)
def deduplicates(patches: Patches) -> None:
    """Deduplication is on: without a higher sequence id than the producer's last one, a message is not stored; its receipt has no id."""
    last: dict[tuple[int, str, str], int] = {}

    def make(handler: Handler) -> Handler:
        def send(session: Session, request: Any, frame: Frame) -> None:
            producer = session.producers.get(request.producer_id)
            policy = producer and session.broker.policies.of(producer.topic.name, DEDUPLICATION)
            if producer is None or policy is not None or request.is_chunk:  # the chunks of a message have one sequence id
                handler(session, request, frame)
                return
            key = id(producer.topic.stored), producer.topic.name.full, producer.name
            if request.sequence_id <= last.get(key, -1):
                nothing = MessageIdData(ledgerId=_NO_ID, entryId=_NO_ID)
                session.send(CommandSendReceipt(producer_id=request.producer_id, sequence_id=request.sequence_id, message_id=nothing))
                return
            before = producer.topic.messages_in
            handler(session, request, frame)
            if producer.topic.messages_in > before:
                last[key] = max(request.sequence_id, request.highest_sequence_id)

        return send

    patches.request("send", make)


@variant("core.lookup.connect")
def redirects_before_it_serves(patches: Patches) -> None:
    """A look-up is answered with a redirect to this broker; asked again, with what the redirect says, the broker serves the topic."""
    asked: dict[Session, bool] = {}

    def note(session: Session, request: CommandLookupTopic) -> None:
        asked[session] = request.authoritative

    def redirect(session: Session, answer: CommandLookupTopicResponse) -> None:
        if answer.response == CommandLookupTopicResponse.Connect and not asked.get(session):
            answer.response = CommandLookupTopicResponse.Redirect

    patches.incoming(CommandLookupTopic, note)
    patches.outgoing(CommandLookupTopicResponse, redirect)


@variant("core.handshake.max-message-size", cases=("core/*", "pip247/*"))
def takes_smaller_messages(patches: Patches) -> None:
    """The largest message has 2 MiB, unless the settings say otherwise."""
    configured(patches, max_message_size=2 * 1024 * 1024)


def configured(patches: Patches, **settings: Any) -> None:
    """Give each broker other settings where it has the usual ones."""
    usual = Configuration()

    def make(init: Callable[..., None]) -> Callable[..., None]:
        def changed(broker: Broker, configuration: Configuration | None = None, **options: Any) -> None:
            given = configuration or usual
            changes = {name: value for name, value in settings.items() if getattr(given, name) == getattr(usual, name)}
            init(broker, replace(given, **changes), **options)

        return changed

    patches.wrap(Broker, "__init__", make)


@variant("core.deliver.needs-permits", cases=MESSAGES)
def gives_bursts_to_shared_consumers(patches: Patches) -> None:
    """A consumer of a shared subscription gets all that it has permits for before the next one gets a message."""

    def make(deliver: Callable[..., None]) -> Callable[..., None]:
        def changed(subscription: Any, consumer: Any, index: int) -> None:
            deliver(subscription, consumer, index)
            subscription._turn = subscription.consumers.index(consumer)

        return changed

    patches.wrap(Subscription, "_deliver", make)


@variant("names-per-update", not_kept=("pip145.update.one-name",), cases=("pip145/*", "promoted/*"))
def tells_watchers_several_changes_at_once(patches: Patches) -> None:
    """Changes within 20 ms come as one update with several names in any order, and the hash after all of them; each name once."""

    def make(send: Send) -> Send:
        waiting: dict[tuple[Session, int], CommandWatchTopicUpdate] = {}

        def flush(session: Session, watcher: int | None = None) -> None:
            for key in [key for key in waiting if key[0] is session and watcher in (None, key[1])]:
                update = waiting.pop(key)
                shuffle(update.new_topics)
                shuffle(update.deleted_topics)
                send(session, update)

        def add(session: Session, update: CommandWatchTopicUpdate) -> None:
            key = session, update.watcher_id
            if key in waiting and {*update.new_topics, *update.deleted_topics} & {*waiting[key].new_topics, *waiting[key].deleted_topics}:
                flush(*key)
            if key not in waiting:
                waiting[key] = CommandWatchTopicUpdate(watcher_id=update.watcher_id)
                later(session, 0.02, lambda: flush(*key))
            one = waiting[key]
            one.new_topics.extend(update.new_topics)
            one.deleted_topics.extend(update.deleted_topics)
            one.topics_hash = update.topics_hash

        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            if isinstance(message, CommandWatchTopicUpdate):
                add(session, message)
                return
            flush(session)
            send(session, message, payload)

        return changed

    on_send(patches, make)


@variant("scalable-window", "pr25648.diff.window", cases=("pr25648/*",))
def collects_changes_for_100_ms(patches: Patches) -> None:
    """The coalescing window of scalable topics has 100 ms instead of 50."""
    patches.replace(scalable_broker, "COALESCING_SECONDS", 0.1)


@variant("scalable-window", "pr25648.diff.window", not_kept=("pr25648.diff.window-short",), cases=("pr25648/*",))
def collects_changes_for_300_ms(patches: Patches) -> None:
    """The coalescing window of scalable topics has 300 ms instead of 50."""
    patches.replace(scalable_broker, "COALESCING_SECONDS", 0.3)


@variant("scalable-window", "pr25648.diff.window", not_kept=("pr25648.diff.window",), cases=("pr25648/*",))
def tells_each_change_at_once(patches: Patches) -> None:
    """There is no coalescing window: each change is a diff of its own."""
    patches.replace(scalable_broker, "COALESCING_SECONDS", 0.0)


@variant("core.producer.success", cases=MESSAGES)
def writes_defaults(patches: Patches) -> None:
    """Optional fields whose absence means the same as their default are written."""

    def change(message: Any) -> None:
        for one in message_ids(message):
            for name, value in (("partition", -1), ("batch_index", -1)):
                if not one.HasField(name):
                    setattr(one, name, value)
        if isinstance(message, CommandProducerSuccess) and not message.HasField("topic_epoch"):
            message.topic_epoch = 0
        if isinstance(message, CommandLookupTopicResponse):
            message.proxy_through_service_url = message.proxy_through_service_url
        if isinstance(message, CommandConnected):
            message.max_message_size = message.max_message_size

    def make(send: Send) -> Send:
        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            copy = type(message)()
            copy.CopyFrom(message)
            change(copy)
            send(session, copy, payload)

        return changed

    on_send(patches, make)
