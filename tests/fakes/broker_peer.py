"""A peer of a broker in the same process, for tests: sends commands, shows what came back."""

from google.protobuf.message import Message

from refimpl.broker import Broker, Configuration, Member
from refimpl.wire import FrameDecoder, command, encode_batch, encode_frame, encode_payload, sub_message
from refimpl.wire.batch import SingleMessage
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata

TOPIC = "persistent://public/default/t"


def make_broker(store=None, **settings: str) -> Broker:
    return Broker(Configuration.from_settings(settings), store=store)


class Peer:
    def __init__(self, broker: Broker, *, connect: bool = True, version: int = 21, member: Member | None = None) -> None:
        self.broker = broker
        self.session = broker.connect(broker.now, member=member)
        self._decoder = FrameDecoder(max_frame_size=2**31)
        if connect:
            self.send("connect", client_version="test", protocol_version=version)
            self.frames()

    def send(self, name: str, payload: bytes | None = None, **fields: object) -> None:
        self.session.receive(encode_frame(command(name, **fields), payload), self.broker.now)

    def frames(self) -> list[Frame]:
        found = []
        while data := self.session.data_to_send():
            found += self._decoder.receive(data)
        return found

    def answers(self) -> list[Message]:
        return [sub_message(frame.command) for frame in self.frames()]

    def ask(self, name: str, payload: bytes | None = None, **fields: object) -> Message:
        self.send(name, payload, **fields)
        (answer,) = self.answers()
        return answer

    # Shorthand

    def producer(self, topic: str = TOPIC, producer_id: int = 1, **fields: object) -> Message:
        return self.ask("producer", topic=topic, producer_id=producer_id, request_id=1, **fields)

    def publish(self, *texts: str, producer_id: int = 1, at: int = 0) -> None:
        for number, text in enumerate(texts):
            metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=at)
            self.send("send", encode_payload(metadata, text.encode()), producer_id=producer_id, sequence_id=number)

    def publish_batch(self, *texts: str) -> None:
        body = encode_batch(SingleMessage(SingleMessageMetadata(), text.encode()) for text in texts)
        metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, num_messages_in_batch=len(texts))
        self.send("send", encode_payload(metadata, body), producer_id=1, sequence_id=0, num_messages=len(texts))

    def subscribe(self, topic: str = TOPIC, consumer_id: int = 1, kind: str = "Exclusive", name: str = "s", **fields: object) -> Message:
        fields = {"initialPosition": "Earliest", **fields}
        return self.ask("subscribe", topic=topic, subscription=name, subType=kind, consumer_id=consumer_id, request_id=2, **fields)

    def flow(self, permits: int, consumer_id: int = 1) -> list[str]:
        self.send("flow", consumer_id=consumer_id, messagePermits=permits)
        return self.texts()

    def texts(self) -> list[str]:
        return [frame.payload().body.decode() for frame in self.frames() if frame.command.HasField("message")]

    def entries(self) -> list[int]:
        return [frame.command.message.message_id.entryId for frame in self.frames() if frame.command.HasField("message")]

    def acknowledge(self, *entries: int, kind: str = "Individual", consumer_id: int = 1, ledger: int = 1) -> None:
        ids = [{"ledgerId": ledger, "entryId": entry} for entry in entries]
        self.send("ack", consumer_id=consumer_id, ack_type=kind, message_id=ids)
