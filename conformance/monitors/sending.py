"""What producers send, and the receipts for it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from conformance.monitors.link import Link
from conformance.monitors.model import Judged, Monitor, Seen, hears
from refimpl.wire import Frame, Payload, SingleMessage, WireError, checksum_matches, decode_batch, decompress, is_batch
from refimpl.wire.pulsar_api_pb2 import NONE, CompressionType, MessageMetadata


class SentChecksums(Monitor):
    """The checksum of a SEND, if it has one, is that of its metadata and payload."""

    name = "sent-checksums"
    side = "client"
    clauses = ("core.client.checksum-right",)

    @hears("-> send")
    def send(self, seen: Seen) -> Iterator[Judged]:
        """Judge the checksum."""
        right = checksum_matches(seen.frame.payload_bytes or b"")
        if right is not None:
            problem = f"the checksum of sequence_id {seen.command.sequence_id} of producer_id {seen.command.producer_id} is wrong"
            yield "core.client.checksum-right", None if right else problem


class WellFormedBatches(Monitor):
    """A payload can be read as its metadata say: header, compression, and the messages of a batch, as many as announced."""

    name = "well-formed-batches"
    side = "client"
    clauses = ("core.client.batch-well-formed",)

    @hears("-> send")
    def send(self, seen: Seen) -> Iterator[Judged]:
        """Judge the payload."""
        if checksum_matches(seen.frame.payload_bytes or b"") is not False:  # damage is another matter
            yield "core.client.batch-well-formed", _problem(seen)


def _problem(seen: Seen) -> str | None:
    sent = seen.command
    where = f"sequence_id {sent.sequence_id} of producer_id {sent.producer_id}"
    try:
        payload = seen.frame.payload()
        metadata = payload.metadata
        if sent.num_messages != metadata.num_messages_in_batch:
            return f"{where}: SEND announces {sent.num_messages} messages, the metadata {metadata.num_messages_in_batch}"
        singles(payload)
    except WireError as error:
        return f"{where}: {error}"
    return None


def singles(payload: Payload) -> list[SingleMessage]:
    """Return the messages of a batch; none of what is no batch, or can't be opened by anybody but its consumers.

    Raises:
        WireError: The payload is not what its metadata say.
    """
    metadata = payload.metadata
    if metadata.encryption_keys or metadata.HasField("chunk_id") or metadata.compression not in CompressionType.values():
        return []
    limit = max(metadata.uncompressed_size, 0)
    body = payload.body if metadata.compression == NONE else decompress(payload.body, metadata.compression, limit, limit=limit)
    return decode_batch(body, metadata.num_messages_in_batch) if is_batch(metadata) else []


def metadata_of(frame: Frame) -> MessageMetadata | None:
    """Return the metadata behind a SEND or MESSAGE; None if they can't be read."""
    try:
        return frame.payload().metadata
    except WireError:
        return None


class Receipts(Monitor):
    """Each receipt is for a SEND that has none yet, in the order of the SENDs."""

    name = "receipts"
    side = "broker"
    clauses = ("core.send.ids-unchanged", "core.send.receipts-in-order")

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._waiting: dict[int, deque[int]] = {}
        self._passed_over: dict[int, Counter[int]] = {}
        self._of_before: dict[int, Counter[int]] = {}

    @hears("-> send")
    def send(self, seen: Seen) -> Iterator[Judged]:
        """Note what waits for a receipt."""
        self._waiting.setdefault(seen.command.producer_id, deque()).append(seen.command.sequence_id)
        return iter(())

    @hears("-> producer")
    def producer(self, seen: Seen) -> Iterator[Judged]:
        """Note that what has no receipt may get none any more, or a late one."""
        number = seen.command.producer_id
        self._of_before.setdefault(number, Counter()).update(self._waiting.pop(number, ()))
        return iter(())

    @hears("<- send_error")
    def refused(self, seen: Seen) -> Iterator[Judged]:
        """Note that a SEND gets no receipt."""
        waiting = self._waiting.get(seen.command.producer_id, deque())
        if seen.command.sequence_id in waiting:
            waiting.remove(seen.command.sequence_id)
        return iter(())

    @hears("<- send_receipt")
    def receipt(self, seen: Seen) -> Iterator[Judged]:
        """Judge a receipt."""
        number, sequence_id = seen.command.producer_id, seen.command.sequence_id
        waiting = self._waiting.setdefault(number, deque())
        over, before = self._passed_over.setdefault(number, Counter()), self._of_before.setdefault(number, Counter())
        if sequence_id in waiting:
            while (passed := waiting.popleft()) != sequence_id:
                over[passed] += 1
            yield "core.send.ids-unchanged", None
            yield "core.send.receipts-in-order", None
        elif before[sequence_id] > 0:
            before[sequence_id] -= 1
        elif over[sequence_id] > 0:
            over[sequence_id] -= 1
            problem = f"a receipt for sequence_id {sequence_id} of producer_id {number} after that of a later SEND"
            yield "core.send.receipts-in-order", problem
        elif self.link.whole:
            yield "core.send.ids-unchanged", f"a receipt for sequence_id {sequence_id} of producer_id {number}, which waits for none"
