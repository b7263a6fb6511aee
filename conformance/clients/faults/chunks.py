"""Clients with a fault in messages that come or go in chunks."""

import dataclasses

import refimpl.client.entry
from conformance.clients.faults.model import in_place_of, instead_of
from refimpl.client.chunks import Chunks
from refimpl.client.consumer import Consumer
from refimpl.client.entry import Entry
from refimpl.client.producer import Producer

# Receiving


@in_place_of(Chunks.add, clause="core.client.chunks-together")
def puts_one_message_together_at_a_time(add, chunks, chunk, now):
    """A chunk of another message ends the one that is incomplete."""
    others = [uuid for uuid in chunks._incomplete if uuid != chunk.metadata.uuid]
    for uuid in others:
        del chunks._incomplete[uuid]
    return add(chunks, chunk, now)


@in_place_of(Chunks.add, clause="core.client.chunks-together")
def takes_any_chunk_for_the_first(add, chunks, chunk, now):
    """What begins with a later chunk is shown once its last one comes."""
    if chunk.metadata.uuid in chunks._incomplete or chunk.metadata.chunk_id == 0:
        return add(chunks, chunk, now)
    return chunk if chunk.metadata.chunk_id == chunk.metadata.num_chunks_from_msg - 1 else None


@in_place_of(Chunks.add, clause="core.client.chunks-anew")
def does_not_begin_anew(add, chunks, chunk, now):
    """The first chunk of a message that is incomplete is one chunk more."""
    known = chunks._incomplete.get(chunk.metadata.uuid)
    if known is not None and chunk.metadata.chunk_id == 0:
        known.chunks.append(chunk)
        return None
    return add(chunks, chunk, now)


@in_place_of(Chunks.add, clause="core.client.chunks-whole")
def goes_on_with_chunks_of_the_old_connection(add, chunks, chunk, now):
    """After a reconnect the chunks that come again are put behind those that came before."""
    kept = chunks.__dict__.setdefault("kept", {})
    whole = add(chunks, chunk, now)
    kept.setdefault(chunk.metadata.uuid, []).append(chunk)
    if whole is None:
        return None
    return dataclasses.replace(whole, payload=b"".join(one.payload for one in kept.pop(chunk.metadata.uuid)))


@in_place_of(Consumer.acknowledge, clause="core.client.chunks-acked")
def acknowledges_the_last_chunk(acknowledge, consumer, message_id):
    """Of a message in chunks only the last one is acknowledged."""
    acknowledge(consumer, dataclasses.replace(message_id, chunks=()))


@in_place_of(Consumer.negative_acknowledge, clause="core.client.chunks-given-back")
def gives_the_last_chunk_back(give_back, consumer, message_id):
    """Of a message in chunks only the last one is given back."""
    give_back(consumer, dataclasses.replace(message_id, chunks=()))


@in_place_of(Consumer._whole, clause="core.client.chunks-permits")
def keeps_the_permits_of_chunks(whole, consumer, messages):
    """A chunk that completes nothing keeps its permit until the message is whole."""
    found = whole(consumer, messages)
    if messages and messages[0].metadata.num_chunks_from_msg > 1 and not found:
        consumer._permits.returned -= 1
    return found


# Sending


@instead_of(refimpl.client.entry, "_chunks", clause="core.client.chunks-sent")
def names_each_chunk_anew(split, metadata, body, size):
    """Each chunk has a uuid of its own."""
    for number, _ in enumerate(split(metadata, body, size)):
        metadata.uuid = f"{metadata.producer_name}-{metadata.sequence_id}-{number}"
        start = number * (size - 200)
        yield refimpl.client.entry.encode_payload(metadata, body[start : start + size - 200])


@in_place_of(Entry.confirm, clause="core.client.chunks-sent-again")
def takes_the_first_receipt_for_all(confirm, entry, message_id):
    """A message in chunks is stored once its first chunk has a receipt."""
    for _ in entry.payloads[len(entry.stored) :]:
        confirmed = confirm(entry, message_id)
    return confirmed


@in_place_of(Producer._transmit, clause="core.client.chunks-sent-again")
def sends_the_first_chunk_again(transmit, producer, entry):
    """When a producer attaches again, it sends the first chunk of a message once more, and not those behind it."""
    again = entry.__dict__.get("sent", False)
    object.__setattr__(entry, "sent", True)
    further = entry.further
    if again:
        object.__setattr__(entry, "further", ())
    transmit(producer, entry)
    object.__setattr__(entry, "further", further)
