"""The sequence ids of what producers send: they grow, and an id stays with its message."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from conformance.monitors.link import Content, Link, SentContents
from conformance.monitors.model import Judged, Monitor, Seen, hears
from refimpl.wire import WireError


class SequenceIds(Monitor):
    """The sequence_ids of a producer grow; those of the chunks of a message are equal.

    One that attaches again gives no old id to another message; it may make other batches of the same messages. Who sends
    PRODUCER without an epoch, or with the first one, is another producer, which may begin anew.
    """

    name = "sequence-ids"
    side = "client"
    clauses = ("core.client.sequence-grows",)

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._last: dict[int, int] = {}
        self._asked: dict[int, tuple[int, str, bool]] = {}
        self._sent: dict[int, SentContents] = {}

    @hears("-> producer")
    def producer(self, seen: Seen) -> Iterator[Judged]:
        """Note who attaches."""
        asked = seen.command
        self._last.pop(asked.producer_id, None)
        self._sent.pop(asked.producer_id, None)
        self._asked[asked.request_id] = asked.producer_id, asked.topic, asked.epoch > 0
        return iter(())

    @hears("<- producer_success")
    def attached(self, seen: Seen) -> Iterator[Judged]:
        """Note the name, under which the ids of an earlier attachment are known."""
        asked = self._asked.pop(seen.command.request_id, None)
        if asked is not None:
            producer_id, topic, again = asked
            known = self.link.conversation.sent
            key = topic, seen.command.producer_name
            if key not in known or not again:
                known[key] = SentContents()
            self._sent[producer_id] = known[key]
        return iter(())

    @hears("-> close_producer", "<- close_producer")
    def closed_producer(self, seen: Seen) -> Iterator[Judged]:
        """Forget the last id: what has no receipt may be sent again."""
        self._last.pop(seen.command.producer_id, None)
        return iter(())

    @hears("<- send_error")
    def refused(self, seen: Seen) -> Iterator[Judged]:
        """Note that an id is free again, and that what follows may be sent again."""
        self._last.pop(seen.command.producer_id, None)
        if seen.command.producer_id in self._sent:
            self._sent[seen.command.producer_id].free(seen.command.sequence_id)
        return iter(())

    @hears("-> send")
    def send(self, seen: Seen) -> Iterator[Judged]:
        """Judge an id."""
        sent = seen.command
        last = self._last.get(sent.producer_id)
        self._last[sent.producer_id] = sent.sequence_id
        problem = None
        if last is not None and not (sent.sequence_id > last or (sent.is_chunk and sent.sequence_id == last)):
            problem = f"sequence_id {sent.sequence_id} of producer_id {sent.producer_id} after {last}"
        elif sent.HasField("highest_sequence_id") and 0 < sent.highest_sequence_id < sent.sequence_id:
            problem = f"highest_sequence_id {sent.highest_sequence_id} for sequence_id {sent.sequence_id} of producer_id {sent.producer_id}"
        elif self._had_another_message(seen):
            problem = f"sequence_id {sent.sequence_id} of producer_id {sent.producer_id} for another message than before"
        yield "core.client.sequence-grows", problem

    def _had_another_message(self, seen: Seen) -> bool:
        sent = seen.command
        contents = self._sent.get(sent.producer_id)
        if contents is None or sent.is_chunk or not self.link.conversation.whole:
            return False
        try:
            payload = seen.frame.payload()
        except WireError:
            return False
        if payload.metadata.encryption_keys:  # the same message, encrypted anew, has other bytes
            return False
        content = Content(sent.num_messages, zlib.crc32(payload.body))
        before = contents.keep(sent.sequence_id, content)
        return before is not None and before.count == content.count and before.digest != content.digest
