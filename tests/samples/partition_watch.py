"""Short ways to write requests and answers of PIP-247 in tests."""

from itertools import count

from refimpl.proposals.partition_watch import PartitionWatchBroker
from refimpl.proposals.refused import Refused
from refimpl.wire import wrap
from refimpl.wire.pulsar_api_pb2 import (
    CommandError,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandPartitionUpdate,
    CommandPartitionUpdateResult,
    CommandWatchPartitionUpdate,
    CommandWatchPartitionUpdateClose,
    CommandWatchPartitionUpdateSuccess,
    FeatureFlags,
    InvalidTopicName,
    TopicNotFound,
)

WATCHERS = FeatureFlags(supports_partition_update_watchers=True)
NO_WATCHERS = FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
A, B, C = (f"persistent://public/default/{name}" for name in "abc")


def full_name(topic):
    if not topic or topic.startswith("bad"):
        raise Refused(InvalidTopicName, f"Invalid topic name: {topic}")
    return topic if "://" in topic else f"persistent://public/default/{topic}"


def told(command):
    """Return what a success or an update tells, as pairs."""
    return [(one.topic, one.partition) for one in command.topic_with_partition]


class Store:
    """A broker's side with the counts that it is told of."""

    def __init__(self, counts=None, **arguments):
        self.counts = dict(counts or {})
        self.now = 0.0
        self.side = PartitionWatchBroker(lambda topic: self.counts.get(topic, 0), full_name, **arguments)

    def set(self, topic, partitions):
        self.counts[topic] = partitions
        return self.shown(self.side.changed(topic, self.now))

    def watch(self, *topics, watcher_id=7, request_id=1, connection="a"):
        return self.side.watch(connection, CommandWatchPartitionUpdate(request_id=request_id, watcher_id=watcher_id, topics=topics))

    def result(self, version, success=True, watcher_id=7, connection="a"):
        result = CommandPartitionUpdateResult(version=version, success=success, watcher_id=watcher_id)
        update = self.side.result(connection, result, self.now)
        return None if update is None else (update.version, told(update))

    def close(self, watcher_id=7, request_id=1, connection="a"):
        return self.side.close(connection, CommandWatchPartitionUpdateClose(request_id=request_id, watcher_id=watcher_id))

    def wait(self):
        """Let time pass until the next deadline; return how long, and what is sent then."""
        deadline = self.side.next_deadline()
        elapsed, self.now = deadline - self.now, deadline
        return round(elapsed, 6), self.shown(self.side.tick(self.now))

    @staticmethod
    def shown(updates):
        return [(connection, update.watcher_id, update.version, told(update)) for connection, update in updates]


class Peer:
    """The test as the broker and the application of one `PartitionWatch`."""

    def __init__(self, watch):
        self.watch = watch
        self.now = 0.0
        self.ids = count(1)
        self.request_id = None
        self.asked = {}

    def connect(self, flags=WATCHERS):
        self.watch.connected(flags, self.now)
        return self.sent()

    def sent(self):
        """Return what is sent: kind, and what is particular about it."""
        found = []
        for message in self.watch.commands_to_send(lambda: next(self.ids), self.now):
            wrap(message).SerializeToString()
            if isinstance(message, CommandPartitionUpdateResult):
                assert message.watcher_id == self.watch.watcher_id
                found.append(("result", message.version, message.success))
            elif isinstance(message, CommandPartitionedTopicMetadata):
                assert not message.metadata_auto_creation_enabled
                self.asked[message.topic] = message.request_id
                found.append(("poll", message.topic))
            elif isinstance(message, CommandWatchPartitionUpdateClose):
                found.append(("close", message.watcher_id))
            else:
                self.request_id = message.request_id
                found.append(("watch", *message.topics))
        return found

    def give(self, message):
        """Give a command; return what the listener is called with then."""
        self.watch.received(wrap(message), self.now)
        return self.call()

    def call(self):
        call = self.watch.next_call()
        return None if call is None else list(zip(call.topics, call.counts, strict=True))

    def finish(self, success=True):
        """Let the listener finish; return what it is called with next."""
        self.watch.called(success, self.now)
        return self.call()

    def success(self, *counts, request_id=None, watcher_id=7):
        pairs = [{"topic": topic, "partition": partitions} for topic, partitions in counts]
        request_id = self.request_id if request_id is None else request_id
        return self.give(CommandWatchPartitionUpdateSuccess(request_id=request_id, watcher_id=watcher_id, topic_with_partition=pairs))

    def update(self, version, *counts, watcher_id=7):
        pairs = [{"topic": topic, "partition": partitions} for topic, partitions in counts]
        return self.give(CommandPartitionUpdate(version=version, watcher_id=watcher_id, topic_with_partition=pairs))

    def metadata(self, topic, partitions, request_id=None):
        request_id = self.asked[topic] if request_id is None else request_id
        return self.give(
            CommandPartitionedTopicMetadataResponse(
                request_id=request_id, response=CommandPartitionedTopicMetadataResponse.Success, partitions=partitions
            )
        )

    def no_metadata(self, topic):
        failed = CommandPartitionedTopicMetadataResponse.Failed
        return self.give(
            CommandPartitionedTopicMetadataResponse(request_id=self.asked[topic], response=failed, error=TopicNotFound, message="no")
        )

    def error(self, code, request_id=None):
        return self.give(CommandError(request_id=self.request_id if request_id is None else request_id, error=code, message="no"))

    def wait(self):
        """Let time pass until the next deadline; return how long, and what is sent then."""
        deadline = max(self.watch.next_deadline(), self.now)
        elapsed, self.now = deadline - self.now, deadline
        self.watch.tick(self.now)
        return round(elapsed, 6), self.sent()
