"""Which consumer of a shared subscription gets the chunks of a message, besides what cases show: core.deliver.chunks-together."""

from __future__ import annotations

from refimpl.broker import chunks
from refimpl.broker.chunks import ChunkOwners
from refimpl.store import Chunk


def test_messages_that_are_never_complete_are_forgotten_at_last(monkeypatch):
    monkeypatch.setattr(chunks, "REMEMBERED", 3)
    owners: ChunkOwners[str] = ChunkOwners()
    for number in range(5):
        owners.sent(Chunk(str(number), 0, last=False), "first")
    assert [owners.owner(Chunk(str(number), 1, last=True), "another") for number in range(5)] == ["another"] * 2 + ["first"] * 3


def test_the_last_chunk_and_the_end_of_a_consumer_settle_a_message():
    owners: ChunkOwners[str] = ChunkOwners()
    first, second, last = (Chunk("a", number, number == 2) for number in range(3))
    owners.sent(first, "one")
    assert (owners.owner(second, "two"), owners.owner(first, "two"), owners.owner(None, "two")) == ("one", "two", "two")
    owners.wait(7, "one")
    assert owners.served(lambda _: False) == []
    assert owners.left("one") == [7]
    assert owners.owner(second, "two") == "two"
    owners.sent(first, "two")
    owners.sent(last, "two")
    assert owners.owner(second, "three") == "three"
