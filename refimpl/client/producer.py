"""A producer of one topic, or of one partition.

send() --> batch --> entry --> SEND --> SEND_RECEIPT        an entry is kept until its receipt, and resent after a reconnect
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from google.protobuf.message import Message as Command

from refimpl.client.attached import Attached
from refimpl.client.connection import Connection
from refimpl.client.entry import Entry, Queued, encode_entry
from refimpl.client.errors import BrokerRefused, ClientError, ConnectionLost, InvalidMessage, ProtocolError, QueueFull, TimedOut
from refimpl.client.messages import MessageId, OutgoingMessage
from refimpl.client.options import ProducerOptions
from refimpl.client.producer_stats import ProducerStats
from refimpl.client.scheduler import Pending
from refimpl.names import partition_index
from refimpl.proposals.uniform_batches import PROPOSAL, Batch, UniformBatcher, UniformBatchesProfile, allowed_values
from refimpl.timers import Timer
from refimpl.wire import DEFAULT_MAX_MESSAGE_SIZE, Frame
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    ChecksumError,
    CommandCloseProducer,
    CommandProducer,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    KeyValue,
    TopicTerminatedError,
)

if TYPE_CHECKING:
    from refimpl.client.client import ClientCore

_HEADER = 256
"""Bytes that the header of an entry may take besides what `Queued.size` counts."""


class Producer(Attached):
    """A producer of one topic.

    Args:
        core: The client.
        topic: Full name; not that of a partitioned topic.
        options: The options.
        on_end: Called when it has ended permanently.

    Attributes:
        stats: Counts of what it has sent.
    """

    kind = "producer_id"

    def __init__(self, core: ClientCore, topic: str, options: ProducerOptions, on_end: Callable[[Producer, ClientError], None]) -> None:
        super().__init__(core, topic, core.new_id("producer"))
        self.options = options
        self.name = options.name or ""
        self.last_sequence_id = -1
        self._report_end = on_end
        self._partition = partition_index(topic)
        self._epoch = 0
        self._topic_epoch: int | None = None
        self._asked: CommandProducer | None = None
        self._schema_version = b""
        self._max_message_size = DEFAULT_MAX_MESSAGE_SIZE
        self._batcher: UniformBatcher[Queued] = UniformBatcher(
            allowed_values(options.restrict_same_values_in_batch_properties),
            max_messages=options.batch_messages,
            max_bytes=min(options.batch_bytes, self._max_message_size),
            delay=options.batch_delay,
            profile=core.profiles[PROPOSAL] if options.batch_of_one is None else UniformBatchesProfile(batch_of_one=options.batch_of_one),
        )
        self.stats = ProducerStats()
        self._batch_timer: Timer | None = None
        self._unconfirmed: dict[int, Entry] = {}
        self._waiting = 0
        self._room: list[Pending[None]] = []
        self._expiry_timer: Timer | None = None

    # For the application

    def send(self, message: OutgoingMessage) -> Pending[MessageId]:
        """Accept a message.

        Returns:
            The message id, with the receipt.

        Raises:
            InvalidMessage: Its sequence id is not above that of the message before it.
            QueueFull: Too many messages wait for their receipts.
            ClientError: The producer has ended.
        """
        if self.error is not None:
            raise self.error.with_traceback(None)
        if not self.has_room:
            raise QueueFull(
                f"{self._waiting} messages to {self.topic} wait for their receipts: wait for room(), or raise max_pending_messages"
            )
        number = self.last_sequence_id + 1 if message.sequence_id is None else message.sequence_id
        if number <= self.last_sequence_id:
            raise InvalidMessage(f"sequence_id {number} is not above {self.last_sequence_id}, which a message to {self.topic} had before")
        self.last_sequence_id = number
        expires = self._scheduler.now + self.options.send_timeout if self.options.send_timeout else math.inf
        queued = Queued(message, self.last_sequence_id, Pending(self._scheduler), expires)
        queued.receipt.on_done(self._settled)
        self._waiting += 1
        alone = message.deliver_at is not None or not self.options.batching
        large = self.options.chunking and queued.size + _HEADER > self._max_message_size
        kind = message.schema_version, message.transaction
        batches = self._batcher.add(
            queued, message.properties, queued.size, self._scheduler.now, has_delivery_time=alone, is_chunked=large, kind=kind
        )
        self._put_all(batches)
        return queued.receipt

    @property
    def has_room(self) -> bool:
        """Return whether `send` would accept a message now."""
        return self._waiting < self.options.max_pending_messages or self.error is not None

    def room(self) -> Pending[None]:
        """Return a result that comes as soon as `send` may accept a message; another caller may be first."""
        pending: Pending[None] = Pending(self._scheduler)
        self._room = [one for one in self._room if not one.done] + [pending]
        self._make_room()
        return pending

    async def flush(self) -> None:
        """Send the open batch, and wait until every message so far has its receipt or has failed."""
        self._close_batch()
        for receipt in [one.receipt for entry in self._unconfirmed.values() for one in entry.queued]:
            try:
                await receipt
            except ClientError:
                continue  # the sender of the message gets the error

    # Commands of the broker

    def received(self, frame: Frame) -> None:
        """Handle a command for this producer."""
        command = frame.command
        if command.type == BaseCommand.SEND_RECEIPT:
            self._confirmed(command.send_receipt)
        elif command.type == BaseCommand.SEND_ERROR:
            self._refused(command.send_error)
        elif command.type == BaseCommand.CLOSE_PRODUCER:
            if self._place is not None and self._asked is not None:  # core.client.waits-on
                closed = ConnectionLost(f"the broker closed the producer of {self.topic} while it waited for its turn")
                self._place.give_up(self._asked.request_id, closed)
            self.lose()

    def _confirmed(self, receipt: CommandSendReceipt) -> None:
        """Handle a receipt, ignoring its highest_sequence_id: core.client.highest-sequence-optional."""
        oldest = next(iter(self._unconfirmed), None)
        if receipt.sequence_id in self._unconfirmed and receipt.sequence_id == oldest:
            if self._unconfirmed[oldest].confirm(MessageId.from_wire(receipt.message_id, self._partition)):
                del self._unconfirmed[oldest]
        elif receipt.sequence_id in self._unconfirmed or receipt.sequence_id > self.last_sequence_id:
            self._broken(f"a receipt for {receipt.sequence_id} while {oldest} is the oldest without one")

    def _refused(self, refusal: CommandSendError) -> None:
        error = BrokerRefused(refusal.error, refusal.message)
        if refusal.error == TopicTerminatedError:
            self.end(error)
        elif refusal.error == ChecksumError or error.retriable:
            place = self._place
            self.lose()
            self._scheduler.spawn(self._send_close_request(place))
        elif refusal.sequence_id in self._unconfirmed:
            self._unconfirmed.pop(refusal.sequence_id).fail(error)

    def _broken(self, what: str) -> None:
        if self.connection is not None:
            self.connection.end(ProtocolError(f"{self.connection.target} sent {what} ({self.topic})"))

    # Attachment

    async def _register(self, connection: Connection) -> None:
        request = CommandProducer(
            topic=self.topic,
            producer_id=self.number,
            encrypted=False,
            epoch=self._epoch,
            user_provided_producer_name=self.options.name is not None,
            producer_access_mode=self.options.access_mode,  # type: ignore[arg-type]
            metadata=[KeyValue(key=key, value=value) for key, value in self.options.properties.items()],
        )
        if self.options.schema is not None:
            request.schema.CopyFrom(self.options.schema)
        if self.name:
            request.producer_name = self.name
        if self._topic_epoch is not None:
            request.topic_epoch = self._topic_epoch
        self._epoch += 1
        self._asked = request
        try:
            answer = (await connection.request(request)).producer_success
        finally:
            self.patient = self.patient or connection.is_deferred(request.request_id)
        self._schema_version = answer.schema_version if self.options.schema is not None else b""
        if not self._was_attached:
            self.last_sequence_id = max(answer.last_sequence_id, -1) if self.options.name is not None else -1
            self.name = answer.producer_name
        if answer.HasField("topic_epoch"):
            self._topic_epoch = answer.topic_epoch

    def _on_attached(self, connection: Connection) -> None:
        self._max_message_size = connection.max_message_size
        self._batcher.max_bytes = min(self.options.batch_bytes, self._max_message_size)
        for entry in list(self._unconfirmed.values()):
            if self._fits(entry):
                self._transmit(entry)
            else:
                del self._unconfirmed[entry.sequence_id]

    def _close_request(self) -> Command:
        return CommandCloseProducer(producer_id=self.number)

    def _on_end(self, error: ClientError) -> None:
        for timer in (self._batch_timer, self._expiry_timer):
            if timer is not None:
                timer.cancel()
        unconfirmed, self._unconfirmed = self._unconfirmed, {}
        batch = [queued for one in self._batcher.flush() for queued in one.items]
        for entry in unconfirmed.values():
            entry.fail(error)
        for queued in batch:
            queued.receipt.fail(error)
        self._make_room()
        self._report_end(self, error)

    # Batches and entries

    def _close_batch(self) -> None:
        self._put_all(self._batcher.flush())

    def _delay_is_over(self) -> None:
        self._batch_timer = None
        self._put_all(self._batcher.tick(self._scheduler.now))

    def _put_all(self, batches: list[Batch[Queued]]) -> None:
        for batch in batches:
            self._put(batch)
        if self._batch_timer is not None and (batches or self._batcher.next_deadline() is None):
            self._batch_timer.cancel()
            self._batch_timer = None
        deadline = self._batcher.next_deadline()
        if deadline is not None and self._batch_timer is None:
            self._batch_timer = self._scheduler.call_at(deadline, self._delay_is_over)

    def _put(self, batch: Batch[Queued]) -> None:
        chunk_bytes = self._max_message_size if self.options.chunking else None
        entry = encode_entry(batch, self.name, self._core.wall_clock_ms(), self.options.compression, self._schema_version, chunk_bytes)
        if entry.size > self._max_message_size and len(batch.items) > 1:  # the batcher does not count the header
            for half in self._batcher.split(batch):
                self._put(half)
        elif self._fits(entry):
            self.stats = self.stats.with_entry(entry, batch)
            self._unconfirmed[entry.sequence_id] = entry
            self._transmit(entry)
            self._await_expiry()

    def _fits(self, entry: Entry) -> bool:
        if entry.size <= self._max_message_size:
            return True
        entry.fail(InvalidMessage(f"the message has {entry.size} bytes with headers, and the broker accepts {self._max_message_size}"))
        return False

    def _transmit(self, entry: Entry) -> None:
        if self.connection is not None:
            send = CommandSend(producer_id=self.number, sequence_id=entry.sequence_id, num_messages=len(entry.queued))
            if len(entry.queued) > 1:
                send.highest_sequence_id = entry.queued[-1].sequence_id
            if (transaction := entry.queued[0].message.transaction) is not None:
                send.txnid_most_bits, send.txnid_least_bits = transaction
            if entry.further:
                send.is_chunk = True
            entry.stored.clear()
            for payload in entry.payloads:
                self.connection.send(send, payload)

    def _settled(self, _: Pending[MessageId]) -> None:
        self._waiting -= 1
        self._make_room()

    def _make_room(self) -> None:
        if self._room and self.has_room:
            room, self._room = self._room, []
            for pending in room:
                pending.succeed(None)

    # Time

    def _await_expiry(self) -> None:
        oldest = next(iter(self._unconfirmed.values()), None)
        if self._expiry_timer is None and oldest is not None and oldest.queued[0].expires < math.inf:
            self._expiry_timer = self._scheduler.call_at(oldest.queued[0].expires, self._expire)

    def _expire(self) -> None:
        self._expiry_timer = None
        now = self._scheduler.now
        for entry in [entry for entry in self._unconfirmed.values() if entry.queued[0].expires <= now]:
            del self._unconfirmed[entry.sequence_id]
            entry.fail(TimedOut(f"{self.topic} gave no receipt within {self.options.send_timeout:g} s"))
        self._await_expiry()
