"""PIP-191, the producer's side: only messages with the same extracted set share a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from refimpl.proposals.uniform_batches.rules import DEFAULT, Allowed, Extracted, UniformBatchesProfile, extracted_set, header_bytes
from refimpl.wire.pulsar_api_pb2 import KeyValue, MessageMetadata

T = TypeVar("T")


class Reason(Enum):
    """Why a batch is sent."""

    OTHER_SET = "the next message has another extracted set"
    OTHER_KIND = "the next message has another schema, or belongs to another transaction"
    UNBATCHABLE = "the next message can't be batched, or this is that message"
    MESSAGES = "it has the maximum number of messages"
    OCTETS = "it has the maximum size, or would exceed it with the next message"
    DELAY = "its first message has waited for the maximum delay"
    FLUSH = "the application flushes or closes the producer"


@dataclass(frozen=True)
class Batch(Generic[T]):
    """Messages that are sent as one entry.

    Attributes:
        items: The messages, in the order of sending; at least one.
        header: The extracted set, for the properties of the header; None: write the header as without the proposal.
        reason: Why the batch is sent.
    """

    items: tuple[T, ...]
    header: Extracted | None
    reason: Reason

    @property
    def is_batch(self) -> bool:
        """Return whether to write it as a batch, even if it has one message: pip191.header.batch-of-one."""
        return self.header is not None or len(self.items) > 1


def write_header(metadata: MessageMetadata, batch: Batch[T]) -> None:
    """Write the header of a batch: pip191.header.extracted-set.

    Args:
        metadata: The header, without properties and message count; other fields do not change.
        batch: A batch for which `is_batch` is true.
    """
    metadata.num_messages_in_batch = len(batch.items)
    metadata.properties.extend(KeyValue(key=name, value=value) for name, value in batch.header or ())


@dataclass
class BatchCounts:
    """The cost of the setting: more and smaller entries, and headers that repeat properties.

    Attributes:
        messages: Number of messages sent.
        entries: Number of entries sent.
        header_bytes: Bytes of extracted sets in headers.
        reasons: Number of entries for each reason.
    """

    messages: int = 0
    entries: int = 0
    header_bytes: int = 0
    reasons: Counter[Reason] = field(default_factory=Counter)


class UniformBatcher(Generic[T]):
    """Batches the messages of a producer, strictly in their order: pip191.batch.order, pip191.batch.consecutive.

    The caller sends the returned batches at once and in order. Only one batch is open at any time. A container with an open batch for
    each extracted set would make larger batches, but send messages out of order, which the text rejects.

    Args:
        allowed: The setting, from `allowed_values`; empty: properties do not matter.
        max_messages: Maximum number of messages in a batch.
        max_bytes: Maximum size of a batch: the sum of the sizes given to `add`.
        delay: Maximum time in seconds that the first message of a batch waits for others.
        profile: Which reading the producer speaks.

    Attributes:
        max_bytes: May change at any time, for example when a broker has a lower limit; applies from the next message on.
        counts: Counts of what was sent.

    Raises:
        ValueError: A limit is below 1, or the delay below 0.
    """

    def __init__(
        self,
        allowed: Allowed,
        *,
        max_messages: int = 1000,
        max_bytes: int = 128 * 1024,
        delay: float = 0.001,
        profile: UniformBatchesProfile = DEFAULT,
    ) -> None:
        if min(max_messages, max_bytes) < 1 or not delay >= 0:
            raise ValueError(f"a batch has at least 1 message and 1 byte, and waits 0 s or more, not {max_messages}, {max_bytes}, {delay}")
        self.max_bytes = max_bytes
        self.counts = BatchCounts()
        self._allowed = allowed
        self._max_messages = max_messages
        self._delay = delay
        self._profile = profile
        self._items: list[T] = []
        self._extracted: Extracted = ()
        self._kind: Hashable = None
        self._bytes = 0
        self._deadline: float | None = None

    def __len__(self) -> int:
        return len(self._items)

    def add(
        self,
        item: T,
        properties: Mapping[str, str] | Iterable[tuple[str, str]],
        size: int,
        now: float,
        *,
        has_delivery_time: bool = False,
        is_chunked: bool = False,
        kind: Hashable = None,
    ) -> list[Batch[T]]:
        """Add a message.

        Args:
            item: The message, in the caller's representation.
            properties: The properties of the message.
            size: The size of the message, in bytes.
            now: Seconds. A batch whose delay is over still accepts messages until `tick` is called.
            has_delivery_time: Whether the message has a delivery time.
            is_chunked: Whether it is a chunk of a message.
            kind: Other values that all messages of a batch share: schema version, transaction.

        Returns:
            The batches to send now: the open batch, possibly with this message, and this message alone if it can't be batched.
        """
        if has_delivery_time or is_chunked:  # pip191.batch.delivery-time, pip191.batch.chunks
            return [*self.flush(Reason.UNBATCHABLE), self._sent((item,), None, Reason.UNBATCHABLE)]
        extracted = extracted_set(properties, self._allowed)
        sent = self.flush(reason) if (reason := self._against(extracted, size, kind)) is not None else []
        if not self._items:
            self._extracted, self._kind, self._deadline = extracted, kind, now + self._delay
        self._items.append(item)
        self._bytes += size
        if len(self._items) >= self._max_messages:  # pip191.trigger.messages
            sent += self.flush(Reason.MESSAGES)
        elif self._bytes >= self.max_bytes:  # pip191.trigger.octets
            sent += self.flush(Reason.OCTETS)
        return sent

    def _against(self, extracted: Extracted, size: int, kind: Hashable) -> Reason | None:
        """Return why a message can't join the open batch; None if it can, or if no batch is open."""
        if not self._items:
            return None
        if extracted != self._extracted:  # pip191.batch.same-set, pip191.batch.none-extracted
            return Reason.OTHER_SET
        if kind != self._kind:  # pip191.batch.kind
            return Reason.OTHER_KIND
        return Reason.OCTETS if self._bytes + size > self.max_bytes else None

    def flush(self, reason: Reason = Reason.FLUSH) -> list[Batch[T]]:
        """Close the open batch: pip191.trigger.flush.

        Returns:
            The batch; empty if none is open.
        """
        if not self._items:
            return []
        items, self._items, self._bytes, self._deadline = tuple(self._items), [], 0, None
        return [self._sent(items, self._header(items, self._extracted if self._allowed else None), reason)]

    def split(self, batch: Batch[T]) -> list[Batch[T]]:
        """Split a batch that is too large once its header is added: pip191.trigger.octets.

        Args:
            batch: The last returned batch, with at least two messages.

        Returns:
            Two batches to send instead; each has its own header.
        """
        self._count(batch, -1)
        middle = len(batch.items) // 2
        halves = batch.items[:middle], batch.items[middle:]
        return [self._sent(items, self._header(items, batch.header), Reason.OCTETS) for items in halves]

    def next_deadline(self) -> float | None:
        """Return when to call `tick` next, in seconds; None: no batch is open."""
        return self._deadline

    def tick(self, now: float) -> list[Batch[T]]:
        """Close the open batch if its delay is over, like `flush`: pip191.trigger.delay."""
        return self.flush(Reason.DELAY) if self._deadline is not None and self._deadline <= now else []

    def _header(self, items: tuple[T, ...], extracted: Extracted | None) -> Extracted | None:
        return None if len(items) == 1 and self._profile.batch_of_one == "java_single" else extracted  # pip191.header.java-single

    def _sent(self, items: tuple[T, ...], header: Extracted | None, reason: Reason) -> Batch[T]:
        batch = Batch(items, header, reason)
        self._count(batch, 1)
        return batch

    def _count(self, batch: Batch[T], times: int) -> None:
        self.counts.messages += times * len(batch.items)
        self.counts.entries += times
        self.counts.header_bytes += times * header_bytes(batch.header)
        self.counts.reasons[batch.reason] += times
