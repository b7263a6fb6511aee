"""What consumers get, and what they acknowledge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.monitors.link import DEFAULT_QUEUE, NO_ENTRY, Link
from conformance.monitors.model import Judged, Monitor, Seen, hears
from conformance.monitors.sending import metadata_of
from refimpl.wire import checksum_matches
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import CommandAck

_WORD = 1 << 64


class _Permits:
    """The permits of one consumer.

    A broker that has begun to send entries for its permits may send one for each permit, also if the messages in them are more.

    Attributes:
        left: Permits less messages: below 0 after a batch with more messages than there were permits.
        entries: So many entries may still come.
    """

    def __init__(self) -> None:
        self.left = 0
        self.entries = 0

    def grant(self, permits: int) -> None:
        self.left += permits
        self.entries = max(self.entries, self.left)

    def use(self, messages: int) -> bool:
        """Take an entry with messages; return whether there was a permit for it."""
        good = self.entries > 0
        self.left -= messages
        self.entries -= 1
        return good


class Permits(Monitor):
    """A broker sends only to consumers of the connection, and no message without a permit."""

    name = "permits"
    side = "broker"
    clauses = ("core.deliver.needs-permits", "core.deliver.consumer-id-unchanged")

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._permits: dict[int, _Permits] = {}

    @hears("-> subscribe")
    def subscribe(self, seen: Seen) -> Iterator[Judged]:
        """Note a consumer. One that subscribes again keeps its permits here, since what is on its way may still use them."""
        self._permits.setdefault(seen.command.consumer_id, _Permits())
        return iter(())

    @hears("-> flow")
    def flow(self, seen: Seen) -> Iterator[Judged]:
        """Note permits."""
        if seen.command.consumer_id in self._permits:
            self._permits[seen.command.consumer_id].grant(seen.command.messagePermits)
        return iter(())

    @hears("<- message")
    def message(self, seen: Seen) -> Iterator[Judged]:
        """Judge an entry."""
        number = seen.command.consumer_id
        permits = self._permits.get(number)
        if permits is not None:
            problem = f"a message for consumer_id {number}, which has no permits left"
            yield "core.deliver.consumer-id-unchanged", None
            yield "core.deliver.needs-permits", None if permits.use(permits_used(seen.frame)) else problem
        elif self.link.whole:
            yield "core.deliver.consumer-id-unchanged", f"a message for consumer_id {number}, which no SUBSCRIBE of this connection has"


def permits_used(frame: Frame) -> int:
    """Return how many permits a MESSAGE uses: its messages, without those that its ack_set calls acknowledged."""
    metadata = metadata_of(frame)
    count: int = 1 if metadata is None else max(1, metadata.num_messages_in_batch)
    ack_set = frame.command.message.ack_set
    if ack_set:
        bits = sum((word % _WORD).bit_count() for word in ack_set)
        count = min(count, max(1, bits))
    return count


class GrantedPermits(Monitor):
    """A consumer never has more unused permits than its receiver queue holds: what it granted before its first message or, if that is more,
    what its user asked for. It may grant them in parts, and its queue may grow.
    """

    name = "granted-permits"
    side = "client"
    clauses = ("core.client.permits-bounded",)

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._queue: dict[int, int] = {}
        self._unused: dict[int, int] = {}

    @hears("-> subscribe", "<- close_consumer", "-> close_consumer")
    def attached(self, seen: Seen) -> Iterator[Judged]:
        """Forget the permits of an earlier attachment."""
        self._queue.pop(seen.command.consumer_id, None)
        self._unused.pop(seen.command.consumer_id, None)
        if seen.name == "subscribe":
            self._unused[seen.command.consumer_id] = 0
        return iter(())

    @hears("<- message")
    def message(self, seen: Seen) -> Iterator[Judged]:
        """Note permits that are used; with the first message it is known how many the queue has."""
        number = seen.command.consumer_id
        if number in self._unused:
            self._queue.setdefault(number, self._unused[number])
            self._unused[number] -= permits_used(seen.frame)
        return iter(())

    @hears("-> flow")
    def flow(self, seen: Seen) -> Iterator[Judged]:
        """Judge permits that are granted."""
        number = seen.command.consumer_id
        if number in self._unused:
            self._unused[number] += seen.command.messagePermits
            if number in self._queue:
                asked = self.link.conversation.queue
                queue = max(self._queue[number], DEFAULT_QUEUE if asked is None else asked)
                problem = f"consumer_id {number} has {self._unused[number]} unused permits, and its queue has room for {queue} messages"
                yield "core.client.permits-bounded", problem if self._unused[number] > queue else None


class DeliveredChecksums(Monitor):
    """The checksum of a MESSAGE, if it has one, is that of its metadata and payload."""

    name = "delivered-checksums"
    side = "broker"
    clauses = ("core.deliver.content",)

    @hears("<- message")
    def message(self, seen: Seen) -> Iterator[Judged]:
        """Judge the checksum."""
        right = checksum_matches(seen.frame.payload_bytes or b"")
        if right is not None:
            one = seen.command.message_id
            yield "core.deliver.content", None if right else f"the checksum of entry {one.ledgerId}:{one.entryId} is wrong"


class DeliveredFirst(Monitor):
    """A client acknowledges entries that the broker has named to it, and no others.

    Connections of a conversation count together: a client may acknowledge on a new one what came on an old one.
    """

    name = "delivered-first"
    side = "client"
    clauses = ("core.client.acks-delivered",)
    of_all_connections = True

    @hears("<- message", "<- send_receipt")
    def named(self, seen: Seen) -> Iterator[Judged]:
        """Note an entry."""
        self._add(seen.command.message_id)
        return iter(())

    @hears("<- getLastMessageIdResponse")
    def last(self, seen: Seen) -> Iterator[Judged]:
        """Note the entries that an answer names."""
        self._add(seen.command.last_message_id)
        if seen.command.HasField("consumer_mark_delete_position"):
            self._add(seen.command.consumer_mark_delete_position)
        return iter(())

    @hears("-> seek", "-> subscribe")
    def position(self, seen: Seen) -> Iterator[Judged]:
        """Note an entry that the client knows from elsewhere."""
        field = "message_id" if seen.name == "seek" else "start_message_id"
        if seen.command.HasField(field):
            self._add(getattr(seen.command, field))
        return iter(())

    @hears("-> ack")
    def ack(self, seen: Seen) -> Iterator[Judged]:
        """Judge the entries of an ACK."""
        if not self.link.conversation.whole or not self.link.whole:
            return
        known = self.link.conversation.entries
        cumulative = seen.command.ack_type == CommandAck.Cumulative
        wrong = [
            f"{one.ledgerId}:{one.entryId}"
            for one in seen.command.message_id
            if max(one.ledgerId, one.entryId) < NO_ENTRY
            and not (known.reach(one.ledgerId, one.entryId) if cumulative else known.has(one.ledgerId, one.entryId))
        ]
        yield "core.client.acks-delivered", f"ACK of {', '.join(wrong)}, which the broker has not delivered" if wrong else None

    def _add(self, one: Any) -> None:
        if max(one.ledgerId, one.entryId) < NO_ENTRY:
            self.link.conversation.entries.add(one.ledgerId, one.entryId)
