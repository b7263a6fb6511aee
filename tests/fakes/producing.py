"""A producer at a scripted broker: what it sends, and the receipts that it gets."""

from refimpl.client import MessageId, OutgoingMessage, PartitionedProducer, Pending, ProducerOptions
from tests.fakes.scripted_broker import TOPIC, ScriptedBroker

SINGLE = ProducerOptions(batching=False)


def producing(options: ProducerOptions = SINGLE, **answer: object) -> tuple[ScriptedBroker, PartitionedProducer]:
    broker = ScriptedBroker()
    creating = broker.begin(broker.core.create_producer, "t", options)
    broker.accept(**({"max_message_size": answer.pop("max_message_size")} if "max_message_size" in answer else {}))
    broker.answer_partitions()
    assert broker.answer_lookup() == TOPIC
    request = broker.answer_producer(**answer)
    assert (request.topic, request.producer_id, request.epoch) == (TOPIC, 0, 0)
    return broker, creating.value()


def send(broker: ScriptedBroker, group: PartitionedProducer, payload: bytes = b"x", **fields: object) -> Pending[MessageId]:
    return broker.begin(group.send, OutgoingMessage(payload, **fields))  # type: ignore[arg-type, no-any-return]


def receipt(broker: ScriptedBroker, sequence_id: int, entry: int = 5, **fields: object) -> None:
    broker.send("send_receipt", producer_id=0, sequence_id=sequence_id, message_id={"ledgerId": 3, "entryId": entry}, **fields)
