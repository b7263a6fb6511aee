"""What a producer sends to a scripted broker, and the receipts that it gets."""

from refimpl.client import MessageId, OutgoingMessage, PartitionedProducer, Pending
from tests.fakes.scripted_broker import ScriptedBroker


def send(broker: ScriptedBroker, group: PartitionedProducer, payload: bytes = b"x", **fields: object) -> Pending[MessageId]:
    return broker.begin(group.send, OutgoingMessage(payload, **fields))  # type: ignore[arg-type, no-any-return]


def receipt(broker: ScriptedBroker, sequence_id: int, entry: int = 5, **fields: object) -> None:
    broker.send("send_receipt", producer_id=0, sequence_id=sequence_id, message_id={"ledgerId": 3, "entryId": entry}, **fields)
