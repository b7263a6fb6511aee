"""Who may produce to a topic: the access modes of producers (PIP-68).

Shared producers share a topic. The other modes want it alone: Exclusive if nobody is there, ExclusiveWithFencing instead of those that are
there, WaitForExclusive after them. Each that gets it alone gets a higher epoch. A client that connects again brings the epoch that it had,
and is refused if another one had the topic in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import ProducerAccessMode, ProducerBusy, ProducerFenced

if TYPE_CHECKING:
    from refimpl.broker.topic import Producer, Topic


class ProducerAccess:
    """The producers that have a topic alone, or wait for that."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.waiting: list[Producer] = []

    def check(self, producer: Producer) -> None:
        """Check whether a producer may come; one that waits or fences always may.

        Raises:
            Refused: ProducerFenced, or ProducerBusy for a shared one: core.producer.exclusive-access, core.access.waiting-keeps-out.
        """
        owner = next((one for one in self._topic.producers.values() if one.access_mode != ProducerAccessMode.Shared), None)
        alone = f"Topic has an existing exclusive producer: {owner.name if owner else 'null'}"
        if producer.access_mode == ProducerAccessMode.Shared:
            if owner or self.waiting:
                raise Refused(ProducerBusy, alone)
        elif producer.access_mode == ProducerAccessMode.Exclusive:
            if owner or self.waiting:
                raise Refused(ProducerFenced, alone)
            if self._topic.producers:  # core.access.exclusive-refused
                raise Refused(ProducerFenced, "Topic has existing shared producers")

    def enter(self, producer: Producer) -> bool:
        """Let a producer in that `check` has accepted.

        Returns:
            Whether it is its turn; otherwise it waits.

        Raises:
            Refused: ProducerFenced: it had the topic before another one.
        """
        if producer.access_mode == ProducerAccessMode.WaitForExclusive and (self._topic.producers or self.waiting):
            self.waiting.append(producer)
            return False
        if producer.access_mode == ProducerAccessMode.ExclusiveWithFencing:
            self._fence()
        if producer.access_mode != ProducerAccessMode.Shared:
            self._take_epoch(producer)
        return True

    def _fence(self) -> None:
        """Throw out whoever is there or waits. Only those that wait are told; others lose their connection when they send."""
        self.turn_away(Refused(ProducerFenced, "Fenced out"))  # core.access.waiting-fenced
        for one in list(self._topic.producers.values()):
            one.session.drop_producer(one)

    def turn_away(self, reason: Refused) -> None:
        """Throw out whoever waits, and tell why."""
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one.session.drop_producer(one)
            one.turned_away(reason)

    def _take_epoch(self, producer: Producer) -> None:
        current = self._topic.stored.epoch
        if producer.topic_epoch is None:
            self._topic.stored.epoch = 0 if current is None else current + 1
        elif current is not None and producer.topic_epoch < current:  # core.access.epoch
            detail = f"Current epoch: {current}, Producer epoch: {producer.topic_epoch}"
            raise Refused(ProducerFenced, f"Topic epoch has already moved. {detail}")
        else:
            self._topic.stored.epoch = producer.topic_epoch

    def left(self, producer: Producer) -> Producer | None:
        """Handle that a producer has left, and return the one whose turn it is now."""
        if producer in self.waiting:
            self.waiting.remove(producer)
        while self.waiting and not self._topic.producers:
            following = self.waiting.pop(0)
            try:
                self._take_epoch(following)
            except Refused as refused:
                following.session.producers.pop(following.producer_id, None)
                following.turned_away(refused)
            else:
                return following
        return None
