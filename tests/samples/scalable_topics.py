"""Short ways to write requests and updates of PR 25648 in tests."""

from random import Random

from refimpl.proposals.scalable_topics import ScalableTopicsBroker, ScalableTopicsWatch, record_path
from refimpl.wire import wrap
from refimpl.wire.pulsar_api_pb2 import (
    CommandWatchScalableTopics,
    CommandWatchScalableTopicsClose,
    CommandWatchScalableTopicsUpdate,
    FeatureFlags,
    KeyValue,
    ScalableTopicsDiff,
    ScalableTopicsSnapshot,
)

NS = "public/ns"
SUPPORTED = FeatureFlags(supports_scalable_topics=True)


def full(*names, namespace=NS):
    return [f"topic://{namespace}/{name}" for name in names]


def pairs(filters):
    return [KeyValue(key=key, value=value) for key, value in filters]


def snapshot(*names, watch_id=7):
    return CommandWatchScalableTopicsUpdate(watch_id=watch_id, snapshot=ScalableTopicsSnapshot(topics=full(*names)))


def diff(added=(), removed=(), watch_id=7):
    return CommandWatchScalableTopicsUpdate(watch_id=watch_id, diff=ScalableTopicsDiff(added=full(*added), removed=full(*removed)))


def error(code, message="no", watch_id=7):
    return CommandWatchScalableTopicsUpdate(watch_id=watch_id, error=code, message=message)


class Store:
    """A broker's side with the topics that it is told of."""

    def __init__(self, *names, **arguments):
        self.topics = {topic: {} for topic in full(*names)}
        self.now = 0.0
        self.side = ScalableTopicsBroker(self.of, self.topics.get, **arguments)

    def of(self, namespace):
        return [topic for topic in self.topics if topic.startswith(f"topic://{namespace}/")]

    def create(self, name, namespace=NS, **properties):
        (topic,) = full(name, namespace=namespace)
        self.topics[topic] = properties
        self.side.notified(record_path(topic), self.now)

    def delete(self, name, namespace=NS):
        (topic,) = full(name, namespace=namespace)
        del self.topics[topic]
        self.side.notified(record_path(topic), self.now)

    modify = create

    def watch(self, *filters, current_hash=None, watch_id=7, connection="a", namespace=NS):
        request = CommandWatchScalableTopics(
            watch_id=watch_id, namespace=namespace, property_filters=pairs(filters), current_hash=current_hash
        )
        return self.side.watch(connection, request)

    def close(self, watch_id=7, connection="a"):
        return self.side.close(connection, CommandWatchScalableTopicsClose(watch_id=watch_id))

    def wait(self, seconds):
        """Let time pass; return what is sent then."""
        self.now += seconds
        return self.side.tick(self.now)

    def flush(self):
        """Let time pass until the last window that is open now has ended; return what is sent, without the connections."""
        updates = []
        while (deadline := self.side.next_deadline()) is not None:
            updates += self.wait(max(deadline - self.now, 0.0))
        return [update for _, update in updates]


class Peer:
    """The test as the broker of one `ScalableTopicsWatch`."""

    def __init__(self, **arguments):
        self.watch = ScalableTopicsWatch(NS, 7, arguments.pop("random", Random(1)), **arguments)
        self.now = 0.0

    def connect(self, flags=SUPPORTED):
        assert self.watch.wants_connection
        self.watch.connected(flags, self.now)
        return self.sent()

    def lose(self):
        self.watch.disconnected(self.now)

    def sent(self):
        """Return what is sent: "close", or the hash of a request."""
        found = []
        for message in self.watch.commands_to_send(lambda: 0, self.now):
            if isinstance(message, CommandWatchScalableTopicsClose):
                found.append("close")
            else:
                found.append(message.current_hash if message.HasField("current_hash") else None)
        return found

    def give(self, message):
        """Let the client get an update; return how the topics have changed, by their local names."""
        self.watch.received(wrap(message), self.now)
        return self.changes()

    def changes(self):
        changes = self.watch.take_changes()
        return changes and (local(changes.added), local(changes.removed))

    def wait(self):
        """Let time pass until the next deadline; return how long."""
        elapsed = self.watch.next_deadline() - self.now
        self.now = self.watch.next_deadline()
        self.watch.tick(self.now)
        return elapsed


def local(topics):
    return [topic.rsplit("/", 1)[1] for topic in topics]
