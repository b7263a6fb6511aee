"""Short ways to write requests and answers of PIP-145 in tests."""

from itertools import count

from refimpl.proposals.topic_list import TopicListBroker, topics_hash
from refimpl.wire import wrap
from refimpl.wire.pulsar_api_pb2 import (
    CommandError,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    FeatureFlags,
)

NS = "public/ns"
WATCHERS = FeatureFlags(supports_topic_watchers=True, supports_topic_watcher_reconcile=True)
NO_RECONCILE = FeatureFlags(supports_topic_watchers=True)


def full(*names, namespace=NS):
    return [f"persistent://{namespace}/{name}" for name in names]


class Store:
    """A broker's side with the topics that it is told of."""

    def __init__(self, *names, **arguments):
        self.topics = dict.fromkeys(full(*names))
        self.side = TopicListBroker(self.of, **arguments)

    def of(self, namespace):
        return [topic for topic in self.topics if topic.startswith(f"persistent://{namespace}/")]

    def create(self, *names, namespace=NS):
        updates = []
        for topic in full(*names, namespace=namespace):
            self.topics[topic] = None
            updates += self.side.created(topic)
        return updates

    def delete(self, *names, namespace=NS):
        updates = []
        for topic in full(*names, namespace=namespace):
            del self.topics[topic]
            updates += self.side.deleted(topic)
        return updates

    def get(self, pattern=None, topics_hash=None, request_id=1, topics=None):
        request = CommandGetTopicsOfNamespace(request_id=request_id, namespace=NS, topics_pattern=pattern, topics_hash=topics_hash)
        return self.side.get_topics(request, self.of(NS) if topics is None else topics)

    def watch(self, pattern="public/ns/t-.*", topics_hash=None, watcher_id=7, request_id=1, connection="a", namespace=NS):
        return self.side.watch(
            connection,
            CommandWatchTopicList(
                request_id=request_id, watcher_id=watcher_id, namespace=namespace, topics_pattern=pattern, topics_hash=topics_hash
            ),
        )

    def close(self, watcher_id=7, request_id=1, connection="a"):
        return self.side.close(connection, CommandWatchTopicListClose(request_id=request_id, watcher_id=watcher_id))


def new(name, *known, watcher_id=7, connection="a"):
    """Return the update for a topic that came; known: the whole set after it."""
    topics = full(*known)
    return connection, CommandWatchTopicUpdate(watcher_id=watcher_id, new_topics=full(name), topics_hash=topics_hash(topics))


def gone(name, *left, watcher_id=7, connection="a"):
    """Return the update for a topic that went."""
    topics = full(*left)
    return connection, CommandWatchTopicUpdate(watcher_id=watcher_id, deleted_topics=full(name), topics_hash=topics_hash(topics))


class Peer:
    """The test as the broker of one `TopicListWatch`."""

    def __init__(self, watch):
        self.watch = watch
        self.now = 0.0
        self.ids = count(1)
        self.request_id = 0

    def connect(self, flags=WATCHERS):
        self.watch.connected(flags, self.now)
        return self.sent()

    def sent(self):
        """Return what is sent; its kind, pattern and hash for a request."""
        found = []
        for message in self.watch.commands_to_send(lambda: next(self.ids), self.now):
            self.request_id = message.request_id
            if isinstance(message, CommandWatchTopicListClose):
                found.append(("close", message.watcher_id))
            else:
                kind = "watch" if isinstance(message, CommandWatchTopicList) else "list"
                found.append((kind, message.topics_hash if message.HasField("topics_hash") else None))
        return found

    def give(self, message):
        """Give a command; return how the topics have changed."""
        self.watch.received(wrap(message), self.now)
        return self.watch.take_changes()

    def list(self, *topics, changed=True, filtered=True, topics_hash_=..., request_id=None):
        stated = topics_hash(topics) if topics_hash_ is ... else topics_hash_
        return self.give(
            CommandGetTopicsOfNamespaceResponse(
                request_id=self.request_id if request_id is None else request_id,
                topics=topics,
                changed=changed,
                filtered=filtered,
                topics_hash=stated,
            )
        )

    def old_list(self, *topics):
        return self.give(CommandGetTopicsOfNamespaceResponse(request_id=self.request_id, topics=topics))

    def success(self, *topics, topics_hash_=None, request_id=None, watcher_id=7):
        return self.give(
            CommandWatchTopicListSuccess(
                request_id=self.request_id if request_id is None else request_id,
                watcher_id=watcher_id,
                topic=topics,
                topics_hash=topics_hash_ or topics_hash(topics),
            )
        )

    def update(self, new_topics=(), deleted_topics=(), after=(), topics_hash_=None, watcher_id=7):
        return self.give(
            CommandWatchTopicUpdate(
                watcher_id=watcher_id, new_topics=new_topics, deleted_topics=deleted_topics, topics_hash=topics_hash_ or topics_hash(after)
            )
        )

    def error(self, code, message="no", request_id=None):
        return self.give(CommandError(request_id=self.request_id if request_id is None else request_id, error=code, message=message))

    def wait(self, until=None):
        """Let time pass until the next deadline; return how long, and what is sent then."""
        deadline = self.watch.next_deadline()
        elapsed = deadline - self.now
        self.now = deadline
        self.watch.tick(self.now)
        return round(elapsed, 6), self.sent()
