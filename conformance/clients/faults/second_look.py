"""Clients with a fault that shows where two things cross: what comes too late, what was under way, what is asked of another broker."""

from typing import Any

from conformance.clients.faults.model import fault, in_place_of
from conformance.mutants.model import before_sending
from refimpl.client import consumer as consumer_module
from refimpl.client import filtering as filtering_module
from refimpl.client import unpack as unpack_module
from refimpl.client.attached import Attached
from refimpl.client.connection import Connection
from refimpl.client.consumer import Consumer
from refimpl.client.errors import BrokerRefused, ConnectionLost
from refimpl.client.filtering import ConsumerFiltering
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.pool import Pool
from refimpl.client.producer import Producer
from refimpl.client.requests import refusal_of
from refimpl.proposals.scalable_topics.client import ScalableTopicsState, ScalableTopicsWatch
from refimpl.proposals.watch_machine import Registration
from refimpl.wire.pulsar_api_pb2 import CommandLookupTopic, CommandPong, CommandSubscribe, CommandWatchScalableTopics

# What comes too late


@fault("core.client.receipt-confirms")
def ends_its_connection_for_a_late_receipt(patches):
    """A receipt for a message that has run into the send time-out ends the connection."""

    def expiring(original):
        def expire(producer):
            waiting = set(producer._unconfirmed)
            original(producer)
            producer.__dict__.setdefault("late", set()).update(waiting - set(producer._unconfirmed))

        return expire

    def confirming(original):
        def confirmed(producer, receipt):
            if receipt.sequence_id in producer.__dict__.get("late", ()):
                producer._broken("a receipt that nothing waits for")
            else:
                original(producer, receipt)

        return confirmed

    patches.wrap(Producer, "_expire", expiring)
    patches.wrap(Producer, "_confirmed", confirming)


@fault("core.client.failed-for-good")
def sends_what_has_timed_out_without_a_connection(patches):
    """What has run into the send time-out while there was no connection is sent on the next one."""

    def expiring(original):
        def expire(producer):
            waiting = dict(producer._unconfirmed)
            original(producer)
            if producer.connection is None:
                gone = {number: entry for number, entry in waiting.items() if number not in producer._unconfirmed}
                producer.__dict__.setdefault("timed_out", {}).update(gone)

        return expire

    def attaching(original):
        def attached(producer, connection):
            for entry in producer.__dict__.pop("timed_out", {}).values():
                producer._transmit(entry)
            original(producer, connection)

        return attached

    patches.wrap(Producer, "_expire", expiring)
    patches.wrap(Producer, "_on_attached", attaching)


@in_place_of(Consumer._stale, clause="core.client.permits-returned")
def keeps_the_permits_of_an_earlier_epoch(is_stale, consumer, frame):
    """What is dropped because it was under way when the consumer asked for a redelivery keeps its permits."""
    stale = is_stale(consumer, frame)
    if stale:
        consumer._permits.returned -= 1
    return stale


# Producers that lose their connection


@in_place_of(Producer._on_attached, clause="core.client.sends-again")
def loses_an_open_batch(on_attached, producer, connection):
    """A batch that is not full when the connection ends is forgotten."""
    if producer._epoch > 1:
        producer._batcher.flush()
    on_attached(producer, connection)


@fault("core.client.sequence-grows")
def sends_what_is_new_first(patches):
    """What is sent while there is no connection goes before what is sent again."""

    def sending(original):
        def transmit(producer, entry):
            if producer.connection is None:
                producer.__dict__.setdefault("is_new", set()).add(entry.sequence_id)
            original(producer, entry)

        return transmit

    def attaching(original):
        def attached(producer, connection):
            waiting, new = producer._unconfirmed, producer.__dict__.pop("is_new", set())
            producer._unconfirmed = dict(sorted(waiting.items(), key=lambda one: one[0] not in new))
            original(producer, connection)
            producer._unconfirmed = waiting

        return attached

    patches.wrap(Producer, "_transmit", sending)
    patches.wrap(Producer, "_on_attached", attaching)


# Coming back


@in_place_of(Attached.close, clause="core.client.closed-stays")
def forgets_what_is_attaching(close, one):
    """Who is closed while SUBSCRIBE or PRODUCER has no answer is not closed at the broker."""
    if one.connection is None and one._place is not None:
        one._place.detach(one.kind, one.number, one)
        one._place = None
    return close(one)


@in_place_of(Pool.locate, clause="core.client.reattaches-after-close")
async def tries_a_dead_broker_for_ever(locate, pool, topic):
    """A broker that can't be reached is tried again without another LOOKUP."""
    dead = pool.__dict__.setdefault("dead", {})
    if topic in dead:
        return await pool.connection(dead[topic])
    find, found = pool._target, []

    def noted(answer):
        found.append(find(answer))
        return found[-1]

    pool._target = noted
    try:
        return await locate(pool, topic)
    except ConnectionLost:
        if found:
            dead[topic] = found[-1]
        raise
    finally:
        del pool._target


@fault("core.client.reattaches-after-loss")
def is_refused_with_its_connection_for_good(patches):
    """If CONNECT is answered with an ERROR, what would come back on that connection has ended."""

    def connecting(original):
        async def connection(pool, target=None):
            try:
                return await original(pool, target)
            except BrokerRefused as error:
                error.is_final = True
                raise

        return connection

    def refused(original):
        return lambda one, error, give_up_at: getattr(error, "is_final", False) or original(one, error, give_up_at)

    patches.wrap(Pool, "connection", connecting)
    patches.wrap(Attached, "_gives_up", refused)


async def _without_a_limit(connection: Connection, message: Any) -> Any:
    message.request_id = connection.new_request_id()
    answer = await connection.exchange(message)
    if (refusal := refusal_of(answer)) is not None:
        raise refusal
    return answer


@in_place_of(Connection.request, clause="core.client.reattaches-after-loss")
async def waits_for_a_look_up_without_a_limit(request, connection, message):
    """LOOKUP has no time-out."""
    return await (_without_a_limit(connection, message) if isinstance(message, CommandLookupTopic) else request(connection, message))


@fault("core.client.reattaches-after-loss")
def comes_back_without_a_limit(patches):
    """SUBSCRIBE of a consumer that comes back has no time-out."""

    def registering(original):
        async def register(consumer, connection):
            connection.comes_back = consumer._was_attached
            await original(consumer, connection)

        return register

    def requesting(original):
        async def request(connection, message):
            unlimited = isinstance(message, CommandSubscribe) and connection.comes_back
            return await (_without_a_limit(connection, message) if unlimited else original(connection, message))

        return request

    patches.wrap(Consumer, "_register", registering)
    patches.wrap(Connection, "request", requesting)


@in_place_of(Connection.send, clause="core.client.answers-ping")
def answers_pings_on_its_first_connection(send, connection, message, payload=None):
    """After a reconnect PING is not answered any more."""
    first = connection._scheduler.__dict__.setdefault("first_connection", connection)  # of this client
    if not isinstance(message, CommandPong) or connection is first:
        send(connection, message, payload)


# Several partitions and brokers


@in_place_of(MultiTopicsConsumer.negative_acknowledge, clause=("core.client.ids-meant", "core.client.negative-all"))
def gives_back_on_the_first_partition(negative_acknowledge, consumer, message):
    """What the user gives back is asked for on the first partition, wherever it came from."""
    next(iter(consumer.members.values())).negative_acknowledge(message.id)


@fault("pr7629.client.each-connection")
def reads_the_flag_of_the_broker_that_it_asks(patches):
    """The flag of the broker behind the service URL counts, also for a topic of another one."""

    def connecting(original):
        async def connection(pool, target=None):
            found = await original(pool, target)
            pool._scheduler.__dict__.setdefault("flags_at", {})[target or pool._service] = found.flags
            found.asked = pool._service
            return found

        return connection

    def preparing(original):
        async def prepare(filtering, connection, request):
            own, connection.flags = connection.flags, connection._scheduler.flags_at.get(connection.asked, connection.flags)
            try:
                await original(filtering, connection, request)
            finally:
                connection.flags = own

        return prepare

    patches.wrap(Pool, "connection", connecting)
    patches.wrap(ConsumerFiltering, "prepare", preparing)


# Scalable topics


@fault("pr25648.client.hash-on-reconnect")
def counts_its_topics_before_it_hashes_them(patches):
    """After a diff that leaves as many topics as there were the next request has the hash from before."""

    def applying(original):
        def apply(watch, diff):
            before = len(watch.topics), watch.topics_hash
            original(watch, diff)
            watch.old_hash = before[1] if len(watch.topics) == before[0] else None

        return apply

    def asking(original):
        def messages(watch, *arguments):
            for message in original(watch, *arguments):
                if isinstance(message, CommandWatchScalableTopics) and (old := getattr(watch, "old_hash", None)):
                    message.current_hash = old
                yield message

        return messages

    patches.wrap(ScalableTopicsWatch, "_apply", applying)
    patches.wrap(ScalableTopicsWatch, "_messages", asking)


@in_place_of(ScalableTopicsWatch._due, clause="pr25648.client.start-times-out")
def leaves_a_watch_that_has_no_answer(due, watch, now):
    """When the first set does not come in time, the watch stays open at the broker."""
    if watch.state is ScalableTopicsState.OPENING:
        watch.registration = Registration.NONE
    due(watch, now)


# What is kept, or counted, beyond its time


@fault("core.client.epoch-grows")
def begins_with_epoch_zero_when_the_broker_closes(patches):
    """A producer that the broker has closed attaches with epoch 0 again."""

    def receiving(original):
        def received(producer, frame):
            if frame.command.HasField("close_producer"):
                producer._epoch = 0
            original(producer, frame)

        return received

    patches.wrap(Producer, "received", receiving)


@fault("core.client.permits-afresh")
def grants_what_it_drops_on_return(patches):
    """A consumer that attaches again grants its whole queue, and on top what it has dropped from the queue."""

    def attaching(original):
        def attached(consumer, connection):
            dropped = consumer._inbox.drop(consumer)
            original(consumer, connection)
            consumer._return(dropped)

        return attached

    patches.wrap(Consumer, "_on_attached", attaching)


@fault("pr7629.client.ack-set")
def shifts_the_bits_of_an_ack_set_by_32(patches):
    """A bit of a number of ack_set is looked up modulo 32."""

    def reading(original):
        def read(ack_set, batch_size):
            if not ack_set:
                return original(ack_set, batch_size)
            words = [*ack_set, *[0] * (batch_size // 64 + 1)]
            return sum(1 << index for index in range(batch_size) if words[index // 64] >> index % 32 & 1)

        return read

    for module in (consumer_module, filtering_module):
        patches.wrap(module, "open_messages", reading)


@fault("core.client.checksum-verified")
def takes_the_brokers_metadata_for_no_checksum(patches):
    """A checksum behind BrokerEntryMetadata is not looked at."""

    def matching(original):
        return lambda data: None if data.startswith(b"\x0e\x02") else original(data)

    patches.wrap(unpack_module, "checksum_matches", matching)


@fault("pr25648.client.hash-on-reconnect")
def keeps_its_hash_when_topics_go(patches):
    """A diff that only removes topics does not change the hash that the next request has."""

    def applying(original):
        def apply(watch, diff):
            hash_before = watch.__dict__.get("kept_hash") or watch._topics.hash
            original(watch, diff)
            watch.__dict__["kept_hash"] = hash_before if diff.removed and not diff.added else None

        return apply

    def asking(original):
        def messages(watch, *rest):
            for message in original(watch, *rest):
                if isinstance(message, CommandWatchScalableTopics) and watch.__dict__.get("kept_hash"):
                    message.current_hash = watch.__dict__["kept_hash"]
                yield message

        return messages

    patches.wrap(ScalableTopicsWatch, "_apply", applying)
    patches.wrap(ScalableTopicsWatch, "_messages", asking)


@fault("pr25648.client.hash-on-reconnect")
def asks_again_with_the_filters_of_the_last_watch(patches):
    """A watch that is asked for again has the filters of the last watch of its namespace."""
    newest = {}

    def asking(_, request):
        if request.HasField("current_hash"):
            request.ClearField("property_filters")
            request.property_filters.extend(newest[request.namespace])
        else:
            newest[request.namespace] = list(request.property_filters)

    patches.wrap(Connection, "send", before_sending(asking, CommandWatchScalableTopics))
