"""A consumer of one topic, or of one partition.

MESSAGE --> unpack --> chunks --> inbox --> application --> acknowledge, or refuse --> ACK, REDELIVER
The consumer sends FLOW as the application receives messages: core.client.permits-returned
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from google.protobuf.message import Message as Command

from refimpl.client.attached import Attached
from refimpl.client.batch_acks import BatchAcks, Position
from refimpl.client.chunks import LARGEST, Chunks
from refimpl.client.connection import Connection
from refimpl.client.errors import ClientError, Closed, ConnectionLost, ProtocolError
from refimpl.client.filtering import ConsumerFiltering
from refimpl.client.inbox import Inbox
from refimpl.client.messages import Message, MessageId
from refimpl.client.options import ConsumerOptions
from refimpl.client.scheduler import Pending
from refimpl.client.unpack import Corrupt, decompressed, is_chunk, open_messages, unpack
from refimpl.names import partition_index
from refimpl.proposals.message_filter import EntryJudgement, EntryOutcome
from refimpl.timers import Timer
from refimpl.wire import Frame
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandGetLastMessageId,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    KeyValue,
)

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore

_NAME_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_OVERDRAFT = 1000
"""Number of entries without permits that the client tolerates."""


@dataclass
class _Permits:
    """Permits since the consumer was attached.

    Attributes:
        granted: Permits granted by FLOW.
        returned: Permits of messages that the application has received or that were dropped, not granted again yet.
        entries: Number of received entries; each uses at least one permit.
    """

    granted: int = 0
    returned: int = 0
    entries: int = 0

    @property
    def overdrawn(self) -> bool:
        """Return whether the broker ignores permits, with some tolerance."""
        return self.entries > 2 * self.granted + _OVERDRAFT


class Consumer(Attached):
    """A consumer of one topic.

    Args:
        core: The client.
        topic: Full name; not that of a partitioned topic.
        options: The options.
        inbox: The queue for its messages.
        on_end: Called when it has ended permanently.
    """

    kind = "consumer_id"

    def __init__(
        self,
        core: ClientCore,
        topic: str,
        options: ConsumerOptions,
        inbox: Inbox,
        on_end: Callable[[Consumer, ClientError], None],
    ) -> None:
        super().__init__(core, topic, core.new_id("consumer"))
        self.options = options
        self.name = options.name or "".join(core.random.choices(_NAME_LETTERS, k=5))
        self._inbox = inbox
        self._report_end = on_end
        self._partition = partition_index(topic)
        self._stored = not topic.startswith("non-persistent://")  # otherwise all messages have the same id, and there is no redelivery
        self._acks = BatchAcks()
        self._unsent_acks: list[CommandAck] = []
        self._refused: dict[Position, float] = {}
        self._refused_timer: Timer | None = None
        self._permits = _Permits()
        self._epoch = 0
        self._start = options.start_message_id
        self._wanted: MessageId | None = _after(options.start_message_id)
        self._seeking: Pending[None] | None = None
        self._filtering = self._filtering_of(options)
        self._held: deque[Frame] = deque()  # entries that wait for a schema
        self._chunks = Chunks(partial(self._acknowledge, CommandAck.Individual))

    # For the application

    def taken(self, message: Message) -> None:
        """Handle that the application has received a message."""
        if not self.options.durable:
            self._start = message.id
            self._wanted = _after(message.id)
        self._return(1)

    def acknowledge(self, message_id: MessageId) -> None:
        """Acknowledge one message."""
        if self._acks.individual(message_id):
            for entry in message_id.entries:
                self._refused.pop(entry.position, None)
            self._acknowledge(CommandAck.Individual, message_id)

    def acknowledge_cumulative(self, message_id: MessageId) -> None:
        """Acknowledge one message and all before it."""
        self._acknowledge(CommandAck.Cumulative, self._acks.cumulative(message_id))

    def negative_acknowledge(self, message_id: MessageId) -> None:
        """Request redelivery of a message's entries after a delay."""
        self._acks.refused(message_id.position, message_id.batch_size)
        for entry in message_id.entries:
            self._refused.setdefault(entry.position, self._scheduler.now + self.options.negative_ack_delay)
        self._await_refused()

    def redeliver(self, positions: list[Position] | None = None) -> None:
        """Request redelivery: of the named entries on a shared subscription, otherwise of all unacknowledged entries."""
        if self.connection is None:
            return  # the broker redelivers all of them anyway
        command = CommandRedeliverUnacknowledgedMessages(consumer_id=self.number)
        if self.options.ordered or positions is None:
            self._refused.clear()
            if self.options.ordered:
                self._epoch += 1
                command.consumer_epoch = self._epoch
            self.connection.send(command)
            self._return(self._dropped())
            return
        command.message_ids.extend(MessageId(*position, partition=self._partition).to_wire() for position in positions)
        self.connection.send(command)

    async def seek(self, position: MessageId | int) -> None:
        """Seek to a message, inclusive, or to the first message published at or after a time.

        Args:
            position: The message id, or milliseconds since 1970.

        Raises:
            ClientError: The broker refused, or did not answer.
        """
        request = CommandSeek(consumer_id=self.number)
        if isinstance(position, MessageId):
            position = position.entries[0]
            request.message_id.CopyFrom(position.to_wire(batch_index=False))
        else:
            request.message_publish_time = position
        await self._core.with_retries(lambda: self._seek(request, position), only=ConnectionLost)
        await self.attached()

    async def _seek(self, request: CommandSeek, position: MessageId | int) -> None:
        connection = await self.attached()
        seeking = self._seeking = Pending(self._scheduler)
        try:
            await connection.request(request)
            self._moved(position)
        finally:
            self._seeking = None
            seeking.succeed(None)
        if self.connection is not None:  # this broker has not closed the consumer: core.seek.sequence
            self._return(self._dropped())

    async def last_message_id(self) -> MessageId:
        """Return the id of the last message of the topic; entry_id -1: there is none."""
        answer = await self._ask(CommandGetLastMessageId(consumer_id=self.number))
        return MessageId.from_wire(answer.getLastMessageIdResponse.last_message_id, self._partition)

    async def unsubscribe(self) -> None:
        """Delete the subscription, and with it the consumer."""
        await self._ask(CommandUnsubscribe(consumer_id=self.number))
        self.end(Closed("the subscription was deleted"))

    # Commands of the broker

    def received(self, frame: Frame) -> None:
        """Handle a command for this consumer; whether it is active, and the end of the topic, change nothing for it."""
        command = frame.command
        if command.type == BaseCommand.MESSAGE:
            self._message(frame)
        elif command.type == BaseCommand.CLOSE_CONSUMER:
            self._closed_by_broker()

    def _message(self, frame: Frame) -> None:
        if self.connection is None or self._lost.done:
            return
        self._permits.entries += 1
        if self._permits.overdrawn:
            self.connection.end(ProtocolError(f"{self.connection.target} sends messages without permits"))
            return
        if self._held or (self._filtering is not None and self._filtering.missing(frame) is not None):
            self._hold(frame)
        else:
            self._unpack(frame)

    def _hold(self, frame: Frame) -> None:
        self._held.append(frame)
        if len(self._held) == 1:
            self._scheduler.spawn(self._judge_held(self.connection))

    async def _judge_held(self, connection: Connection | None) -> None:
        while connection is not None and connection is self.connection and self._held and self._filtering is not None:
            version = self._filtering.missing(self._held[0])
            if version is None:
                self._unpack(self._held.popleft())
                continue
            try:
                await self._filtering.learn(connection, version)
            except ClientError as error:
                self._core.note(f"{self.topic}: the client could not get schema version {version.hex()}: {error}")
                if connection is self.connection:  # the broker redelivers the held entries
                    self.lose()
                    self._scheduler.spawn(self._send_close_request(connection))

    def _unpack(self, frame: Frame) -> None:
        if self.connection is None:
            return
        entry = MessageId.from_wire(frame.command.message.message_id, self._partition)
        try:
            messages = unpack(frame, self.topic, self._partition, self.connection.max_message_size)
        except Corrupt as error:
            self._core.note(f"{self.topic} {entry} is dropped: {error}")
            self._acknowledge(CommandAck.Individual, entry, error.validation_error)
            self._return(1)
            return
        cost = _cost(frame, messages)
        if self._stale(frame):
            self._return(cost)
            return
        judgement = self._filtering.judge(frame, len(messages)) if self._filtering is not None else None
        if judgement is not None and judgement.outcome is EntryOutcome.REJECT:  # pr7629.client.own-acks
            self._acknowledge(CommandAck.Individual, entry)
            self._return(cost)
            return
        wanted = self._whole(self._still_open(frame, messages, judgement))
        for message in wanted:
            self._inbox.put(self, message)
        self._return(cost - len(wanted))

    def _whole(self, messages: list[Message]) -> list[Message]:
        """Return the messages; instead of a chunk, the message that it completes, if it does."""
        if not messages or not is_chunk(messages[0].metadata):
            return messages
        whole = self._chunks.add(messages[0], self._scheduler.now)
        if whole is None:
            return []
        try:
            return [replace(whole, payload=decompressed(whole.payload, whole.metadata, LARGEST))]
        except Corrupt as error:
            self._core.note(f"{self.topic} {whole.id} is dropped: {error}")
            self._acknowledge(CommandAck.Individual, whole.id, error.validation_error)
            return []

    def _stale(self, frame: Frame) -> bool:
        command = frame.command.message
        return command.HasField("consumer_epoch") and command.consumer_epoch < self._epoch

    def _still_open(self, frame: Frame, messages: list[Message], judgement: EntryJudgement | None = None) -> list[Message]:
        ids = [message.id for message in messages]
        if not ids:
            self._acknowledge(CommandAck.Individual, MessageId.from_wire(frame.command.message.message_id, self._partition))
            return []
        if ids[0].batch_index < 0:
            return [] if self._before_start(ids[0]) else messages
        bits = open_messages(frame.command.message.ack_set, len(ids))
        if judgement is not None and judgement.open_messages is not None:
            bits &= sum(1 << index for index in judgement.open_messages)
        for message_id in ids:
            if self._before_start(message_id):
                bits &= ~(1 << message_id.batch_index)
        if self._stored:
            bits = self._acks.delivered(ids[0].position, len(ids), bits)
        if not bits:  # its acknowledgement was lost
            self._acks.individual(ids[0])
            self._acknowledge(CommandAck.Individual, ids[0])
        return [message for index, message in enumerate(messages) if bits >> index & 1]

    def _before_start(self, message_id: MessageId) -> bool:
        """Return whether a message is before the start position, and was sent only because it shares an entry with the first one."""
        wanted = self._wanted
        return wanted is not None and wanted.position == message_id.position and message_id.batch_index < wanted.batch_index

    def _closed_by_broker(self) -> None:
        seeking = self._seeking
        if seeking is None:
            self.lose()
        else:
            self._leave()
            seeking.on_done(lambda _: self._lost.succeed(True))

    # Attachment

    async def _register(self, connection: Connection) -> None:
        options = self.options
        request = CommandSubscribe(
            topic=self.topic,
            subscription=options.subscription,
            subType=options.type,  # type: ignore[arg-type]
            consumer_id=self.number,
            consumer_name=self.name,
            priority_level=options.priority,
            durable=options.durable,
            read_compacted=options.read_compacted,
            initialPosition=options.initial_position,  # type: ignore[arg-type]
            force_topic_creation=options.force_topic_creation,
            metadata=[KeyValue(key=key, value=value) for key, value in options.properties.items()],
            subscription_properties=[KeyValue(key=key, value=value) for key, value in options.subscription_properties.items()],
        )
        if options.ordered:
            request.consumer_epoch = self._epoch
        if not options.durable:
            request.start_message_id.CopyFrom(self._start.to_wire())
        if options.schema is not None:
            request.schema.CopyFrom(options.schema)
        if self._filtering is not None:
            await self._filtering.prepare(connection, request)
        await connection.request(request)

    def _on_attached(self, connection: Connection) -> None:
        self._dropped()
        self._held.clear()
        self._refused.clear()
        self._permits = _Permits(granted=self.options.queue_size)
        acks, self._unsent_acks = self._unsent_acks, []
        for ack in acks:
            connection.send(ack)
        connection.send(CommandFlow(consumer_id=self.number, messagePermits=self.options.queue_size))

    def _close_request(self) -> Command:
        return CommandCloseConsumer(consumer_id=self.number)

    def _on_end(self, error: ClientError) -> None:
        self._inbox.drop(self)
        if self._refused_timer is not None:
            self._refused_timer.cancel()
        self._report_end(self, error)

    # Helpers

    def _dropped(self) -> int:
        """Forget what the application has not received; return the number of messages, whose permits were not returned."""
        self._chunks.clear()
        return self._inbox.drop(self)

    def _filtering_of(self, options: ConsumerOptions) -> ConsumerFiltering | None:
        policy = options.message_filter_policy
        if policy is None:
            return None
        registry = self._core.message_filters
        without = options.without_message_filters
        return ConsumerFiltering(self.topic, policy, without_support=without, registry=registry, schema=options.schema)

    def _moved(self, position: MessageId | int) -> None:
        """Handle a new position of the subscription."""
        self._acks.clear()
        self._unsent_acks.clear()
        self._refused.clear()
        self._wanted = None
        if isinstance(position, MessageId):
            self._wanted = position
            self._start = position if position.entry_id < 0 else replace(position, entry_id=position.entry_id - 1, batch_index=-1)

    def _acknowledge(self, kind: int, message_id: MessageId, validation_error: int | None = None) -> None:
        entries = message_id.entries if kind == CommandAck.Individual else (message_id,)
        ids = [entry.to_wire(batch_index=False) for entry in entries]
        ack = CommandAck(consumer_id=self.number, ack_type=kind, message_id=ids)  # type: ignore[arg-type]
        if validation_error is not None:
            ack.validation_error = validation_error  # type: ignore[assignment]
        if self.connection is not None:
            self.connection.send(ack)
        else:
            self._unsent_acks.append(ack)

    def _return(self, count: int) -> None:
        """Return permits to the broker once there are enough for a FLOW."""
        self._permits.returned += count
        if self.connection is not None and self._permits.returned >= max(1, self.options.queue_size // 2):
            self.connection.send(CommandFlow(consumer_id=self.number, messagePermits=self._permits.returned))
            self._permits.granted += self._permits.returned
            self._permits.returned = 0

    def _await_refused(self) -> None:
        if self._refused_timer is None and self._refused:
            self._refused_timer = self._scheduler.call_at(min(self._refused.values()), self._ask_refused)

    def _ask_refused(self) -> None:
        self._refused_timer = None
        due = [position for position, when in self._refused.items() if when <= self._scheduler.now]
        for position in due:
            del self._refused[position]
        if due:
            self.redeliver(due)
        self._await_refused()


def _cost(frame: Frame, messages: list[Message]) -> int:
    """Return the permits that an entry used: one for each open message, even in an encrypted batch, which is one message here."""
    size = max(len(messages), messages[0].metadata.num_messages_in_batch) if messages else 0
    return open_messages(frame.command.message.ack_set, size).bit_count()  # pr7629.permits.open-messages


def _after(message_id: MessageId) -> MessageId:
    """Return the next id in the same entry; there may be no message with that id."""
    return replace(message_id, batch_index=message_id.batch_index + 1)
