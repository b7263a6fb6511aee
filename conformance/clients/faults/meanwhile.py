"""Clients with a fault in what comes while something else is under way: a challenge, a removal, a refusal, an end."""

from conformance.clients.faults.model import fault, in_place_of
from refimpl.client.attached import Attached
from refimpl.client.connection import Connection
from refimpl.client.errors import Closed, ProtocolError
from refimpl.client.partition_watcher import PartitionUpdateWatcher
from refimpl.client.partitioned_producer import PartitionedProducer
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.client.scalable_consumer import NamespaceConsumer, ScalableConsumer
from refimpl.client.segment_lookup import SegmentLookup
from refimpl.client.watch_driver import WatchDriver

# Tokens


@fault("core.client.answers-challenge")
def takes_a_challenge_for_a_new_handshake(patches):
    """AUTH_CHALLENGE starts the time limit of the handshake again, although no second CONNECTED comes."""

    def challenging(original):
        def challenged(connection, command):
            original(connection, command)
            connection._timer.cancel()
            connection._timer = connection._later(connection._options.connection_timeout, connection._too_late)

        return challenged

    patches.wrap(Connection, "_challenged", challenging)


@fault("core.client.answers-challenge", "core.client.shows-token")
def keeps_its_first_token(patches):
    """The token is read once, when the client is made."""

    def reading(original):
        def credential(connection):
            if "first_token" not in connection._options.__dict__:
                connection._options.__dict__["first_token"] = original(connection)
            return connection._options.__dict__["first_token"]

        return credential

    patches.wrap(Connection, "_credential", reading)


@in_place_of(Connection._challenged, clause="core.client.answers-challenge")
def answers_one_challenge(challenged, connection, command):
    """Only the first AUTH_CHALLENGE of a connection is answered."""
    if "challenged" not in connection.__dict__:
        connection.__dict__["challenged"] = True
        challenged(connection, command)


@in_place_of(Connection._challenged, clause="core.client.answers-challenge")
def fails_requests_when_it_is_challenged(challenged, connection, command):
    """AUTH_CHALLENGE ends the requests that have no answer."""
    connection._requests.fail_all(ProtocolError("AUTH_CHALLENGE is no answer"))
    challenged(connection, command)


@in_place_of(Connection._credential, clause="core.client.shows-token")
def leaves_the_method_of_its_token_out(credential, connection):
    """A token is sent with the method none."""
    shown = credential(connection)
    if shown is not None:
        shown.auth_method_name = "none"
    return shown


# What was refused, and what has ended


@fault("pip247.client.result")
def takes_a_repeated_update_for_applied(patches):
    """An update that comes again is confirmed, although its new partitions could not be attached the first time."""

    def attaching(original):
        async def attach(watcher, call):
            known = watcher.__dict__.setdefault("counts_seen", set())
            if call.counts not in known:
                known.add(call.counts)
                await original(watcher, call)

        return attach

    patches.wrap(PartitionUpdateWatcher, "_attach", attaching)


@in_place_of(PartitionedProducer._end, clause="pip247.client.ended-closes")
def watches_on_for_a_fenced_producer(end, producer, error):
    """Only the user's close ends the watcher of a producer."""
    watcher = producer._watcher
    if not isinstance(error, Closed):
        producer._watcher = None
    end(producer, error)
    producer._watcher = watcher


@fault("pip247.client.ended-closes")
def watches_before_it_attaches(patches):
    """A producer watches before its partitions are attached, and keeps the watcher when they can't be."""

    def adding(original):
        async def add(producer, topics):
            if len(topics) > 1:
                producer.follow(len(topics))
            watcher, producer._watcher = producer._watcher, None
            await original(producer, topics)
            producer._watcher = watcher

        return add

    def following(original):
        def follow(producer, count):
            if producer._watcher is None:
                original(producer, count)

        return follow

    patches.wrap(PartitionedProducer, "add", adding)
    patches.wrap(PartitionedProducer, "follow", following)


@fault("pip145.client.watch-close")
def keeps_the_watcher_of_a_pattern_that_failed(patches):
    """If a topic of the first list can't be attached, the user is told, and the watcher stays."""

    def opening(original):
        async def start(consumer):
            consumer._driver.close = lambda: None
            await original(consumer)
            del consumer._driver.close

        return start

    patches.wrap(PatternConsumer, "open", opening)


# What leaves


@fault("pr25648.client.removed-while-attaching", "pr25648.layout.client-closes")
def forgets_only_topics_that_are_attached(patches):
    """A topic that leaves the set while it is looked up is consumed all the same."""

    def removing(original):
        def remove(consumer, topic):
            lookup = consumer.lookups.get(topic)
            if lookup is None or lookup.connection is not None:
                original(consumer, topic)

        return remove

    patches.wrap(ScalableConsumer, "_remove", removing)


@in_place_of(Attached.close, clause=("pip145.client.watch-applies-update", "core.client.closed-stays"))
def leaves_what_has_no_answer_alone(close, attached):
    """What is closed before its first answer goes on attaching."""
    if attached.connection is None and not attached._was_attached and not isinstance(attached, SegmentLookup):
        attached._was_attached = True
        return attached._scheduler.spawn(_nothing())
    return close(attached)


async def _nothing():
    """Do nothing."""


@fault("pip247.client.shrinking")
def leaves_a_partition_that_is_taken_back(patches):
    """A smaller count ends the consumers of the partitions above it that are not attached yet."""

    def updating(original):
        def take(driver, command):
            if command.HasField("partitionUpdate"):
                count = command.partitionUpdate.topic_with_partition[0].partition
                for kind, number in list(driver._connection._peers):
                    peer = driver._connection._peers[kind, number]
                    place = getattr(peer, "topic", "").rpartition("-partition-")[2]
                    if kind == "consumer_id" and peer.connection is None and place.isdigit() and int(place) >= count:
                        peer.close()
            original(driver, command)

        return take

    patches.wrap(WatchDriver, "_take", updating)


@in_place_of(NamespaceConsumer.close, clause="pr25648.layout.client-closes")
def closes_only_look_ups_with_an_answer(close, consumer):
    """Who closes a consumer while a topic is looked up leaves that look-up open."""
    for topic in [topic for topic, lookup in consumer.lookups.items() if lookup.connection is None]:
        del consumer.lookups[topic]
    return close(consumer)
