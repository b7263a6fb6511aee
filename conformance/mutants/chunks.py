"""Brokers that go wrong with chunks, with encrypted and compressed messages, with transactions, and with messages that are sent again."""

from dataclasses import replace

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_outgoing
from refimpl.broker import Broker
from refimpl.broker.chunks import ChunkOwners
from refimpl.broker.deduplication import is_duplicate, last_sequence_id
from refimpl.broker.topic import Topic
from refimpl.store import Entry, MemoryStore
from refimpl.wire import checksum_matches, parse_payload
from refimpl.wire.pulsar_api_pb2 import CommandProducerSuccess, CommandSend, CommandSendError, UnknownError


@in_place_of(ChunkOwners.owner, clause="core.deliver.chunks-together")
def gives_chunks_to_any_consumer(owner, owners, chunk, consumer):
    """A shared subscription divides chunks as it divides messages."""
    return consumer


@in_place_of(ChunkOwners.sent, clause="core.deliver.chunks-together")
def knows_one_owner_of_chunks_at_a_time(sent, owners, chunk, owner):
    """With the first chunk of a message it is forgotten who gets those of others."""
    if chunk is not None and not chunk.number:
        owners._owners.clear()
    sent(owners, chunk, owner)


@in_place_of(ChunkOwners.wait, clause="core.deliver.chunks-together")
def gives_chunks_that_wait_to_others(wait, owners, index, owner):
    """A chunk whose consumer has no permits is offered to all."""
    wait(owners, index, owner)
    owners._owners.clear()


@in_place_of(Topic.append, clause="core.deliver.encrypted")
def takes_an_encrypted_batch_for_one_message(append, topic, producer, entry):
    """What is encrypted can't be a batch."""
    encrypted = bool(parse_payload(entry.data).metadata.encryption_keys)
    return append(topic, producer, replace(entry, messages=1, batch=False) if encrypted else entry)


@in_place_of(is_duplicate, clause="core.dedup.stored-once")
def counts_sequence_ids_for_a_topic(duplicate, producer, request, metadata):
    """All producers of a topic have one row of sequence ids."""
    return duplicate(replace(producer, name="everybody"), request, metadata)


@in_place_of(is_duplicate, clause="core.dedup.stored-once")
def counts_a_batch_by_its_first_id(duplicate, producer, request, metadata):
    """After a batch, a message with an id of the batch is new."""
    return duplicate(producer, CommandSend(sequence_id=request.sequence_id), metadata)


@in_place_of(is_duplicate, clause="core.dedup.stored-once")
def knows_only_the_last_sequence_id(duplicate, producer, request, metadata):
    """Only a message with the very id of the last one is a duplicate."""
    last = last_sequence_id(producer.topic, producer.name)
    if 0 <= request.sequence_id < last:
        producer.topic.stored.sequences[producer.name] = request.sequence_id
        return False
    return duplicate(producer, request, metadata)


@mutant("core.dedup.stored-once")
def counts_ids_of_damaged_messages(patches):
    """The sequence id of a message that is refused for its checksum is known from then on."""

    def make(send):
        def changed(session, request, frame):
            found = session.producers.get(request.producer_id)
            if found is not None and checksum_matches(frame.payload_bytes or b"") is False:
                found.topic.stored.sequences[found.name] = request.sequence_id
            send(session, request, frame)

        return changed

    patches.request("send", make)


@in_place_of(Broker.unload, clause=("core.dedup.stored-once", "core.dedup.last-sequence"))
def forgets_sequence_ids_when_a_topic_is_unloaded(unload, broker, name):
    """The sequence ids are kept as long as the topic is loaded."""
    if (topic := broker.loaded(name.full)) is not None:
        topic.stored.sequences.clear()
    unload(broker, name)


@in_place_of(Topic.remove_producer, clause=("core.dedup.stored-once", "core.dedup.last-sequence"))
def forgets_the_sequence_ids_of_producers_that_leave(remove, topic, producer):
    """The sequence ids are kept as long as the producer is there."""
    topic.stored.sequences.pop(producer.name, None)
    remove(topic, producer)


@in_place_of(last_sequence_id, clause="core.dedup.last-sequence")
def tells_half_of_a_sequence_id(told, topic, name):
    """PRODUCER_SUCCESS has the lower 32 bits of the last sequence id."""
    return (told(topic, name) + 2**31) % 2**32 - 2**31


@mutant("core.dedup.last-sequence")
def keeps_the_sequence_ids_of_a_deleted_topic(patches):
    """A topic that is created again knows the sequence ids of the one that was deleted."""
    kept = {}

    def create(original):
        def changed(store, namespace, topic):
            stored = original(store, namespace, topic)
            stored.sequences = kept.setdefault(topic, stored.sequences)
            return stored

        return changed

    patches.wrap(MemoryStore, "create_topic", create)


@on_outgoing(CommandProducerSuccess, clause="core.dedup.last-sequence")
def tells_those_that_waited_an_old_sequence_id(session, answer):
    """A producer whose turn comes is told the last sequence id of the time when it began to wait."""
    told = vars(session).setdefault("told", {})
    if not answer.producer_ready:
        told[answer.request_id] = answer.last_sequence_id
    answer.last_sequence_id = told.get(answer.request_id, answer.last_sequence_id)


@in_place_of(is_duplicate, clause="core.dedup.chunks")
def takes_chunks_for_duplicates(duplicate, producer, request, metadata):
    """Each chunk but the first has a sequence id that is known."""
    metadata.ClearField("num_chunks_from_msg")
    return duplicate(producer, request, metadata)


@in_place_of(is_duplicate, clause="core.dedup.chunks")
def does_not_count_chunks(duplicate, producer, request, metadata):
    """A message with the sequence id of a message in chunks is new."""
    return not request.is_chunk and duplicate(producer, request, metadata)


@mutant("core.send.size-as-sent")
def measures_messages_before_their_compression(patches):
    """A message is too large if it was before it was compressed."""

    def make(send):
        def changed(session, request, frame):
            size = frame.payload().metadata.uncompressed_size if frame.payload_bytes else 0
            if size <= session.broker.configuration.max_message_size:
                send(session, request, frame)
            else:
                session.send(
                    CommandSendError(producer_id=request.producer_id, sequence_id=request.sequence_id, error=UnknownError, message="")
                )

        return changed

    patches.request("send", make)


@on_incoming(CommandSend, clause="core.send.unknown-transaction")
def takes_messages_of_transactions_for_others(_, request):
    """SEND in a transaction is like any other."""
    request.ClearField("txnid_most_bits")
    request.ClearField("txnid_least_bits")


@mutant("core.send.unknown-transaction")
def delivers_messages_of_a_refused_transaction(patches):
    """SEND in a transaction is refused, and its message is stored and delivered all the same."""

    def make(send):
        def changed(session, request, frame):
            send(session, request, frame)
            if request.HasField("txnid_most_bits"):
                producer = session.producers[request.producer_id]
                entry = Entry(frame.payload_bytes, max(request.num_messages, 1), batch=request.num_messages > 1, publish_time=1)
                producer.topic.append(producer, entry)
                producer.topic.dispatch(entry)

        return changed

    patches.request("send", make)
