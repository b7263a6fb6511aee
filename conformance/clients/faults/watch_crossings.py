"""Clients with a fault where a watch crosses something: a check, a refusal, a close, a second update, a partition that is away."""

from dataclasses import replace

from conformance.clients.faults.model import fault, in_place_of
from refimpl.client.attached import Attached
from refimpl.client.consumer import Consumer
from refimpl.client.errors import ClientError
from refimpl.client.messages import EARLIEST
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.partitioned_producer import PartitionedProducer
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.client.scalable_consumer import NamespaceConsumer
from refimpl.proposals.partition_watch.client import PartitionWatch, PartitionWatchState
from refimpl.proposals.topic_list.client import TopicListSend, TopicListState, TopicListWatch
from refimpl.proposals.watch_machine import Registration
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, TopicNotFound

# Closing


@in_place_of(Attached._send_close_request, clause="core.client.close-ends")
async def awaits_the_answer_to_its_close(send_close_request, attached, place):
    """CLOSE_PRODUCER and CLOSE_CONSUMER have no time-out."""
    if place is not None and not place.closing:
        request = attached._close_request()
        request.request_id = place.new_request_id()
        await place.exchange(request)


# New partitions


@in_place_of(MultiTopicsConsumer.grow, clause="pip247.client.attaches-once")
async def counts_its_consumers_as_partitions(grow, group, topics):
    """After a growth of which one partition failed, a consumer takes the number of its consumers for that of the first partitions."""
    options = replace(group.options, initial_position=CommandSubscribe.Earliest, start_message_id=EARLIEST)
    added = [Consumer(group._core, topic, options, group.inbox, group._ended) for topic in topics[len(group.members) :]]
    group.members.update({consumer.topic: consumer for consumer in added})
    failure = None
    for attaching in [consumer.start() for consumer in added]:
        try:
            await attaching
        except ClientError as error:
            failure = error
    if failure is not None:
        raise failure


@in_place_of(PartitionedProducer.grow, clause="pip247.client.attaches-once")
async def keeps_what_it_has_not_counted(grow, producer, topics):
    """After a growth of which one partition failed, the producers of the others stay at the broker, and are created again."""
    try:
        await grow(producer, topics)
    except ClientError:
        for topic in topics[len(producer.members) + 1 :]:
            await type(producer.members[0])(producer._core, topic, producer.options, producer._ended).start()
        raise


@in_place_of(MultiTopicsConsumer.grow, PartitionedProducer.grow, clause="pip247.client.attaches-meanwhile")
async def has_all_old_partitions_before_new_ones(grow, group, topics):
    """New partitions are attached to when all old ones are attached."""
    for member in list(group.members.values() if isinstance(group.members, dict) else group.members):
        member.retry_now()
        await member.attached()
    await grow(group, topics)


@in_place_of(PartitionedProducer.grow, clause=("pip191.header.extracted-set", "pip191.batch.same-set"))
async def mixes_batches_of_new_partitions(grow, producer, topics):
    """The producers of new partitions do not have the setting for uniform batches."""
    options = producer.options
    producer.options = replace(options, restrict_same_values_in_batch_properties={})
    try:
        await grow(producer, topics)
    finally:
        producer.options = options


# Updates of partitions


@in_place_of(PartitionWatch.called, clause="pip247.client.update-calls")
def forgets_what_waits_when_its_listener_fails(called, watch, success, now):
    """When the listener fails, a newer update that waits for it is dropped."""
    if not success:
        watch._next = None
    called(watch, success, now)


@in_place_of(PartitionWatch._updated, clause="pip247.client.update-calls")
def hears_nothing_while_it_asks_again(updated, watch, update):
    """An update that comes while a repeated watch request has no answer is dropped."""
    if watch.state is not PartitionWatchState.CHECKING:
        updated(watch, update)


@in_place_of(PartitionWatch._forget_registration, clause="pip247.client.versions-restart")
def keeps_its_versions_on_one_connection(forget_registration, watch):
    """After the success of a repeated watch request the versions of before count."""
    newest = watch._update
    forget_registration(watch)
    if watch.state is PartitionWatchState.CHECKING:
        watch._update = newest


# Topics of a pattern


@in_place_of(TopicListWatch._updated, clause="pip145.client.watch-applies-update")
def takes_the_answer_of_its_check_for_newer(updated, watch, update, now):
    """An update that comes while a check has no answer is dropped."""
    if watch.state is not TopicListState.CHECKING:
        updated(watch, update, now)


@in_place_of(TopicListWatch._error, clause=("pip145.client.watch-applies-update", "pip145.client.watch-close"))
def takes_its_watcher_for_gone_when_a_check_is_refused(error, watch, refusal, now):
    """After ERROR for a repeated watch request the first watcher counts as gone."""
    asked = watch.asked
    if asked is not None and asked.send is TopicListSend.WATCH and asked.request_id == refusal.request_id:
        watch.registration = Registration.ASKED
    error(watch, refusal, now)


@in_place_of(TopicListWatch.close, clause="pip145.client.watch-close")
def awaits_its_watcher_before_it_closes_it(close, watch):
    """A watcher is closed when its watch request is answered, and never if that does not happen."""
    close(watch)
    if watch.state is TopicListState.CLOSING:
        watch._deadline = None


@fault("pip145.client.watch-applies-update")
def tries_a_deleted_topic_again(patches):
    """A topic of a pattern that could not be attached is tried again, also if an update has deleted it."""
    _retries_all(patches, PatternConsumer, "_ended", PatternConsumer._attach)


@fault("pip145.client.watch-creates")
def goes_back_to_the_broker_of_its_watcher(patches):
    """After a lost connection the watcher of a pattern is asked for at the broker that had it first, without a look-up."""

    def make(locate):
        async def changed(group):
            place = group.__dict__.get("first_place")
            if place is not None:
                return await group._core.pool.connection(place)
            connection = await locate(group)
            group.first_place = connection.target
            return connection

        return changed

    patches.wrap(PatternConsumer, "_locate", make)


# Topics of a namespace


@fault("pr25648.client.attaches-again")
def tries_a_removed_topic_again(patches):
    """A topic of a namespace that could not be attached is tried again, also if it has left the set."""
    _retries_all(patches, NamespaceConsumer, "_lost", NamespaceConsumer._add)


# Both


@in_place_of(
    PatternConsumer._unless_gone,
    NamespaceConsumer._unless_gone,
    clause=("pip145.client.deleted-while-starting", "pr25648.client.removed-while-attaching"),
)
async def fails_with_what_was_removed(unless_gone, group, topic, attaching):
    """A consumer of many topics can't be created if a topic of its first set leaves the set while the client attaches to it."""
    try:
        await attaching
    except ClientError as error:
        if error.code != TopicNotFound:
            raise


def _retries_all(patches, group, losing, add):
    """Let a group of consumers try all again that it could not attach, whatever it has been told since."""

    def of_lost(lost):
        def changed(one, what, error):
            one.__dict__.setdefault("to_retry", set()).add(what if isinstance(what, str) else what.topic)
            lost(one, what, error)

        return changed

    def attach_missing(one):
        for topic in sorted(one.__dict__.pop("to_retry", set())):
            add(one, topic)

    patches.wrap(group, losing, of_lost)
    patches.replace(group, "_attach_missing", attach_missing)
