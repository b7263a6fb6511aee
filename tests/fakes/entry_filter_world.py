"""A broker with entry filters, for tests: a filter with moods, and what is needed to look at a subscription."""

from refimpl.broker import Broker, Configuration
from refimpl.broker.broker import PROPOSALS
from refimpl.proposals.uniform_batches import BUILT_IN, EntryVerdict, UniformBatcher, allowed_values
from refimpl.store import MemoryStore
from tests.fakes.broker_peer import TOPIC, Peer
from tests.samples.uniform_batches import EXAMPLE, SETTING, encode, key_values, plain_entry

REJECT_EU = {"entry-filter.region": "us"}
LOUD = {"mood": "loud"}
"""Asks for the filter `Moody`."""


class Moody:
    """Says of each entry what its header property `verdict` says, so many times; afterwards accepts."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @classmethod
    def factory(cls, made: list["Moody"]):
        def of(properties):
            if properties.get("mood") != "loud":
                return None
            made.append(cls())
            return made[-1]

        return of

    def judge(self, context):
        header = {one.key: one.value for one in context.metadata.properties}
        name = header.get("name", "")
        self.calls.append(name)
        if self.calls.count(name) > int(header.get("times", "1000")):
            return None
        return {"reject": EntryVerdict.REJECT, "later": EntryVerdict.RESCHEDULE, "none": None, "nonsense": "yes"}.get(
            header.get("verdict"), EntryVerdict.ACCEPT
        )


class World:
    """A broker with the filter `Moody`, a producer, and what is needed to look at a subscription."""

    def __init__(self, store=None, *, proposals=PROPOSALS, log=None, **settings: str) -> None:
        self.moody: list[Moody] = []
        self.lines: list[str] = []
        self.broker = Broker(
            Configuration.from_settings(settings),
            store=store or MemoryStore(),
            proposals=proposals,
            log=self.lines.append,
            plugins={"pip191": {**BUILT_IN, "Moody": Moody.factory(self.moody)}},
        )

    def producing(self, topic=TOPIC) -> Peer:
        peer = Peer(self.broker)
        peer.producer(topic)
        return peer

    def subscribed(self, properties=None, permits=0, *, topic=TOPIC, **fields) -> Peer:
        peer = Peer(self.broker)
        peer.send(
            "subscribe",
            topic=topic,
            subscription_properties=key_values(properties or {}),
            **{"subscription": "s", "subType": "Exclusive", "consumer_id": 1, "request_id": 2, "initialPosition": "Earliest", **fields},
        )
        assert peer.answers()[0].DESCRIPTOR.name == "CommandSuccess"
        if permits:
            peer.flow(permits)
        return peer

    def stats(self, name="s", topic=TOPIC) -> dict:
        return self.broker.admin.topic_stats(topic)["subscriptions"][name]

    def counts(self, name="s", topic=TOPIC) -> tuple[int, ...]:
        """Processed, accepted, rejected, rescheduled, failed."""
        kinds = ("Processed", "Accepted", "Rejected", "Rescheduled", "Failed")
        return tuple(self.stats(name, topic)[f"filter{kind}MsgCount"] for kind in kinds)

    @property
    def asked(self) -> list[str]:
        """The entries at which the filter `Moody` of the newest subscription was asked."""
        return self.moody[-1].calls

    def wait(self, seconds: float) -> None:
        end = self.broker.now + seconds
        while (deadline := self.broker.next_deadline()) is not None and deadline <= end:
            self.broker.tick(deadline)
        self.broker.tick(end)


def send(peer: Peer, entry: bytes, messages: int = 1) -> None:
    peer.send("send", entry, producer_id=1, sequence_id=0, num_messages=messages)
    peer.frames()


def send_named(peer: Peer, *names: str, **header: str) -> None:
    for name in names:
        send(peer, plain_entry({"name": name, **header}, name.encode()))


def send_example(peer: Peer) -> None:
    """The eight messages of the text, as a producer with the setting sends them."""
    batcher: UniformBatcher = UniformBatcher(allowed_values(SETTING), delay=1.0)
    batches = [one for number, (text, of) in enumerate(EXAMPLE) for one in batcher.add((number, text, of), of, 1, 0.0)]
    for batch in [*batches, *batcher.flush()]:
        send(peer, encode(batch), len(batch.items))


def deliveries(peer: Peer) -> list[tuple[int, int]]:
    """Entry and redelivery count of each MESSAGE."""
    found = [frame.command.message for frame in peer.frames() if frame.command.HasField("message")]
    return [(one.message_id.entryId, one.redelivery_count) for one in found]


def take(peer: Peer, permits: int) -> list[int]:
    peer.send("flow", consumer_id=1, messagePermits=permits)
    return peer.entries()
