"""Batches of equal property values (PIP-191), by what producers write into the headers of their batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from conformance.monitors.link import Link
from conformance.monitors.model import Judged, Monitor, Seen, hears
from conformance.monitors.sending import singles
from refimpl.wire import WireError, is_batch

_Pair = tuple[str, str]


class UniformBatches(Monitor):
    """All messages of a batch have the pairs of its header; and the pairs that a producer has once extracted, it always extracts.

    The setting of a producer is not on the wire. Pairs in the header of one of its batches are pairs that the setting lists.
    """

    name = "uniform-batches"
    side = "client"
    clauses = ("pip191.batch.same-set", "pip191.header.extracted-set")

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._extracted: dict[int, set[_Pair]] = {}

    @hears("-> producer")
    def producer(self, seen: Seen) -> Iterator[Judged]:
        """Forget the producer before it: the setting of this one may be another."""
        self._extracted.pop(seen.command.producer_id, None)
        return iter(())

    @hears("-> send")
    def send(self, seen: Seen) -> Iterator[Judged]:
        """Judge a batch of a producer that extracts properties."""
        try:
            payload = seen.frame.payload()
            header = [(pair.key, pair.value) for pair in payload.metadata.properties]
            known = self._extracted.get(seen.command.producer_id)
            if not is_batch(payload.metadata) or not (header or known):
                return
            messages = [{pair.key: pair.value for pair in one.metadata.properties} for one in singles(payload)]
        except WireError:
            return
        if not messages:
            return
        allowed = self._extracted.setdefault(seen.command.producer_id, set())
        allowed.update(header)
        where = f"the batch with sequence_id {seen.command.sequence_id} of producer_id {seen.command.producer_id}"
        mixed = next((pair for pair in sorted(allowed) if len({_has(one, pair) for one in messages}) > 1), None)
        problem = None if mixed is None else f"{where}: some of its messages have {mixed[0]}={mixed[1]}, and some have not"
        yield "pip191.batch.same-set", problem
        yield "pip191.header.extracted-set", _header_problem(where, header, messages[0], allowed)


def _header_problem(where: str, header: list[_Pair], message: Mapping[str, str], allowed: set[_Pair]) -> str | None:
    if len(set(header)) < len(header):
        return f"{where}: its header has a pair twice"
    for pair in sorted(allowed):
        if _has(message, pair) != (pair in header):
            there = "lacks" if pair not in header else "has"
            return f"{where}: its header {there} {pair[0]}={pair[1]}, unlike its first message"
    return None


def _has(message: Mapping[str, str], pair: _Pair) -> bool:
    return message.get(pair[0]) == pair[1]
