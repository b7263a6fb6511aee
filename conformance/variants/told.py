"""Freedoms of what is told: where versions begin, in which order topics come, which optional fields and refusals a broker uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from google.protobuf.message import Message

from conformance.mutants.model import Patches
from conformance.variants.choices import configured
from conformance.variants.link import Send, later, on_send
from conformance.variants.model import MESSAGES, variant
from refimpl.broker import Broker, Session
from refimpl.broker.requests import Handler
from refimpl.broker.topic import Topic
from refimpl.names import is_system_topic
from refimpl.proposals.partition_watch.broker import PartitionWatchBroker
from refimpl.proposals.partition_watch.rules import DEFAULT
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.proposals.topic_list.broker import TopicListBroker
from refimpl.proposals.topic_list.rules import visible_topics
from refimpl.wire import WireError, crc32c, is_batch, parse_payload
from refimpl.wire.ack_set import ack_set
from refimpl.wire.frames import Frame
from refimpl.wire.payload import CHECKSUM_MAGIC
from refimpl.wire.pulsar_api_pb2 import (
    CommandActiveConsumerChange,
    CommandGetLastMessageIdResponse,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandMessage,
    CommandPartitionUpdate,
    CommandPartitionUpdateResult,
    CommandWatchPartitionUpdateSuccess,
    CommandWatchScalableTopicsUpdate,
    ConsumerBusy,
    InvalidTopicName,
)

_FIRST, _STEP = 5000, 3


@variant(
    "pip247.version.grows",
    not_kept=("pip247.version.from-one", "pip247.version.by-one", "pip247.version.per-watcher"), cases=("pip247/*",),
)  # fmt: skip
def counts_versions_otherwise(patches: Patches) -> None:
    """Versions of partition updates begin above 5000 and grow by 3."""

    def outward(_: Session, update: CommandPartitionUpdate) -> None:
        update.version = _FIRST + _STEP * update.version

    def inward(_: Session, result: CommandPartitionUpdateResult) -> None:
        # Between two versions lies one that was never sent: it counts as the higher of both.
        result.version = max(0, -((_FIRST - result.version) // _STEP))

    patches.outgoing(CommandPartitionUpdate, outward)
    patches.incoming(CommandPartitionUpdateResult, inward)


@variant("pip247.update.all-topics", not_kept=("pip247.watch.order",), cases=("pip247/*",))
def lists_counts_backwards(patches: Patches) -> None:
    """Topics with their counts come in another order than in the request."""

    def backwards(_: Session, one: Any) -> None:
        listed = list(one.topic_with_partition)[::-1]
        del one.topic_with_partition[:]
        one.topic_with_partition.extend(listed)

    patches.outgoing(CommandPartitionUpdate, backwards)
    patches.outgoing(CommandWatchPartitionUpdateSuccess, backwards)


@variant("core.position.mark-delete", cases=MESSAGES)
def keeps_the_acknowledged_position_to_itself(patches: Patches) -> None:
    """GET_LAST_MESSAGE_ID_RESPONSE has no consumer_mark_delete_position."""
    patches.outgoing(CommandGetLastMessageIdResponse, lambda _, one: one.ClearField("consumer_mark_delete_position"))


@variant("core.deliver.content", not_kept=("core.deliver.checksum-version",), cases=MESSAGES)
def adds_checksums(patches: Patches) -> None:
    """A message that was sent without a checksum is delivered with one."""

    def make(send: Send) -> Send:
        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            if isinstance(message, CommandMessage) and payload is not None and not payload.startswith(CHECKSUM_MAGIC):
                payload = CHECKSUM_MAGIC + crc32c(payload).to_bytes(4, "big") + payload
            send(session, message, payload)

        return changed

    on_send(patches, make)


@variant("core.ack.batch-index", cases=MESSAGES)
def names_open_messages_always(patches: Patches) -> None:
    """A MESSAGE with a batch of which all messages are open has an ack_set, with all bits set."""

    def make(send: Send) -> Send:
        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            if isinstance(message, CommandMessage) and payload is not None and not message.ack_set:
                with suppress(WireError):
                    metadata = parse_payload(payload).metadata
                    if is_batch(metadata):
                        message.ack_set.extend(ack_set(range(metadata.num_messages_in_batch)))
            send(session, message, payload)

        return changed

    on_send(patches, make)


@variant("pip145.hash.filtered", not_kept=("pip145.hash.without-pattern",), cases=("pip145/*", "promoted/*"))
def hashes_filtered_lists_only(patches: Patches) -> None:
    """The answer to GET_TOPICS_OF_NAMESPACE without a pattern has all topics, and no hash, whatever hash the request has."""

    def make(get_topics: Callable[..., CommandGetTopicsOfNamespaceResponse]) -> Callable[..., CommandGetTopicsOfNamespaceResponse]:
        def changed(
            broker: TopicListBroker, request: CommandGetTopicsOfNamespace, topics: Iterable[str]
        ) -> CommandGetTopicsOfNamespaceResponse:
            if request.HasField("topics_pattern"):
                return get_topics(broker, request, topics)
            everything = visible_topics(topics)
            return CommandGetTopicsOfNamespaceResponse(request_id=request.request_id, topics=everything, filtered=False, changed=True)

        return changed

    patches.wrap(TopicListBroker, "get_topics", make)


@variant(
    "pip247.version.each-sending",
    not_kept=("pip247.version.same-counts", "pip247.version.by-one", "pip247.update.soon"),
    cases=("pip247/*",),
)
def counts_each_sending_of_an_update(patches: Patches) -> None:
    """An update that is sent again has a greater version, also with the same counts."""

    def make(init: Callable[..., None]) -> Callable[..., None]:
        return lambda broker, *args, profile=DEFAULT, **options: init(
            broker, *args, profile=replace(profile, resend_version="each"), **options
        )

    patches.wrap(PartitionWatchBroker, "__init__", make)


@variant("core.keepalive.ping-after-interval", cases=("core/keepalive/*", "core/subscribe/*"))
def pings_sooner(patches: Patches) -> None:
    """The broker asks after 22 s whether its peer is there, unless the settings say otherwise."""
    configured(patches, keep_alive_interval_seconds=22)


@variant("core.deliver.failover", cases=MESSAGES)
def tells_of_active_consumers_late(patches: Patches) -> None:
    """ACTIVE_CONSUMER_CHANGE comes 5 ms after the change, so that messages may come before it."""

    def make(send: Send) -> Send:
        def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
            if isinstance(message, CommandActiveConsumerChange):
                later(session, 0.005, lambda: send(session, message))
            else:
                send(session, message, payload)

        return changed

    on_send(patches, make)


@variant("core.consumer.unsubscribe-refused", cases=("core/*",))
def calls_shared_subscriptions_busy(patches: Patches) -> None:
    """UNSUBSCRIBE of a consumer that shares its subscription is refused with ConsumerBusy."""

    def make(handler: Handler) -> Handler:
        def changed(session: Session, request: Any, frame: Frame) -> None:
            is_open = request.consumer_id in session.consumers
            try:
                handler(session, request, frame)
            except Refused as refused:
                raise Refused(ConsumerBusy, refused.message) if is_open else refused from None

        return changed

    patches.request("unsubscribe", make)


@variant("core.subscribe.dead-owner-replaced", not_kept=("core.subscribe.dead-owner-replaced",), cases=MESSAGES)
def leaves_dead_owners_to_the_keep_alive(patches: Patches) -> None:
    """Who subscribes to an exclusive subscription is refused as long as the connection of its owner stands."""
    patches.wrap(Session, "check_liveness", lambda _: lambda session, then: then(True))


@variant("pr25648.diff.net-effect", "pr25648.diff.last-wins", cases=("pr25648/*", "!pr25648/diff/replaced-letter"))
def lets_changes_cancel_out(patches: Patches) -> None:
    """A topic that is deleted and created again within a window, or the reverse, is in no diff.

    One case, of the profile as-written, asks for both lists, since the text says in which order they apply.
    """
    known: dict[tuple[Session, int], set[str]] = {}

    def net(session: Session, update: CommandWatchScalableTopicsUpdate) -> bool | None:
        key = session, update.watch_id
        if update.HasField("snapshot"):
            known[key] = set(update.snapshot.topics)
        if not update.HasField("diff") or key not in known:
            return None
        told = known[key]
        added, removed = {*update.diff.added} - told, ({*update.diff.removed} & told) - {*update.diff.added}
        told |= added
        told -= removed
        update.diff.added[:] = sorted(added)
        update.diff.removed[:] = sorted(removed)
        return None if added or removed else False

    patches.outgoing(CommandWatchScalableTopicsUpdate, net)


@variant("core.command.broker-type-closes", not_kept=("core.command.broker-type-closes",), cases=("core/*",))
def ignores_what_only_brokers_send(patches: Patches) -> None:
    """A command that only brokers send is ignored."""

    def make(find: Callable[[Broker, str], Handler | None]) -> Callable[[Broker, str], Handler]:
        return lambda broker, command: find(broker, command) or (lambda *_: None)

    patches.wrap(Broker, "handler", make)


@variant("pip145.list.malformed-namespace", "pip145.watch.malformed-namespace", cases=("pip145/*",))
def refuses_malformed_namespaces(patches: Patches) -> None:
    """A request about a namespace of another form is refused, and the connection stays."""

    def make(check: Callable[[Broker, str], None]) -> Callable[[Broker, str], None]:
        def changed(broker: Broker, namespace: str) -> None:
            try:
                check(broker, namespace)
            except ProtocolViolation as violation:
                raise Refused(InvalidTopicName, str(violation)) from None

        return changed

    patches.wrap(Broker, "check_listing", make)


@variant(
    "pip145.list.system-hidden", "pip145.watch.system-topics", not_kept=("pip145.list.system-hidden", "pip145.watch.system-topics"),
    cases=("pip145/list/*", "pip145/update/*"),
)  # fmt: skip
def knows_no_system_topics(patches: Patches) -> None:
    """A topic with the name of one of Pulsar's system topics is one like any other."""
    patches.function(is_system_topic, lambda _: False)


@variant("core.access.waiting-unloaded", cases=("core/access/*", "core/cluster/*"))
def gives_turns_with_an_unload(patches: Patches) -> None:
    """Each producer that waits gets its turn when the topic is unloaded, and is closed."""

    def close(broker: Broker, topic: Topic) -> None:
        while topic.producers:
            for producer in list(topic.producers.values()):
                producer.session.close_producer(producer)

    patches.replace(Broker, "close_producers", close)


@variant("core.access.waiting-sends", cases=("core/access/*",))
def drops_what_comes_before_its_turn(patches: Patches) -> None:
    """What a producer sends while it waits is dropped."""

    def make(handler: Handler) -> Handler:
        def changed(session: Session, request: Any, frame: Frame) -> None:
            found = session.producers.get(request.producer_id)
            if found is None or found.ready:
                handler(session, request, frame)

        return changed

    patches.request("send", make)


@variant("core.terminate.end-told", cases=("core/terminate/*", "core/cluster/*", "transcribed/*", "pip191/combined/*", "pr7629/combined/*"))
def tells_of_the_end_at_once(patches: Patches) -> None:
    """A consumer with nothing left of a terminated topic is told so right behind the answer to SUBSCRIBE."""

    def make(handler: Handler) -> Handler:
        def changed(session: Session, request: Any, frame: Frame) -> None:
            handler(session, request, frame)
            found = session.consumers.get(request.consumer_id)
            if found is not None and found.subscription.topic.name.persistent:
                found.subscription.tell_end()

        return changed

    patches.request("subscribe", make)
