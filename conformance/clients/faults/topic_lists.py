"""Clients with a fault in PIP-145: lists of topics, their hashes, and watchers of them."""

import refimpl.proposals.topic_list.client
from conformance.clients.faults.model import fault, in_place_of, instead_of, on_incoming, on_outgoing
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.indexes.topics_hash import EMPTY_HASH
from refimpl.proposals.topic_list.client import TopicListEvent, TopicListOffer, TopicListState, TopicListWatch
from refimpl.proposals.watch_machine import Registration
from refimpl.wire.pulsar_api_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    FeatureFlags,
    NotAllowedError,
)

# Requests


@on_outgoing(CommandGetTopicsOfNamespace, clause="pip145.client.list-first-without-hash")
def begins_with_the_empty_hash(connection, request):
    """The first request has the hash of no topics."""
    if not request.HasField("topics_hash"):
        request.topics_hash = EMPTY_HASH


@on_outgoing(CommandGetTopicsOfNamespace, clause="pip145.client.list-sends-pattern")
def sends_the_pattern_without_its_domain(connection, request):
    """The client takes persistent:// off the pattern before it sends it."""
    request.topics_pattern = request.topics_pattern.removeprefix("persistent://")


@on_outgoing(CommandGetTopicsOfNamespace, clause=("pip145.client.list-sends-pattern", "pip145.client.list-returns-hash"))
def sends_no_pattern(connection, request):
    """The client sends no pattern, and filters by itself."""
    request.ClearField("topics_pattern")
    request.ClearField("topics_hash")


@on_outgoing(CommandGetTopicsOfNamespace, clause="pip145.client.list-mode")
def asks_for_all_kinds_of_topics(connection, request):
    """The client asks for non-persistent topics, too."""
    request.mode = CommandGetTopicsOfNamespace.ALL


@on_outgoing(CommandGetTopicsOfNamespace, clause="pip145.client.list-returns-hash")
def sends_the_hash_in_upper_case(connection, request):
    """The client sends the hash back in upper-case digits."""
    request.topics_hash = request.topics_hash.upper()
    if request.topics_hash == "":
        request.ClearField("topics_hash")


@on_outgoing(CommandGetTopicsOfNamespace, clause="pip145.client.list-returns-hash")
def never_sends_a_hash(connection, request):
    """No request for a list has a hash."""
    request.ClearField("topics_hash")


@in_place_of(TopicListWatch._new_deadline, clause="pip145.client.list-polls-without-watch")
def asks_for_the_list_once(new_deadline, watch, event, now):
    """Without a watcher the client asks for the list once, and never again."""
    return None if watch.state is TopicListState.POLLING else new_deadline(watch, event, now)


# Answers


@on_incoming(CommandGetTopicsOfNamespaceResponse, clause="pip145.client.list-unchanged")
def takes_an_unchanged_list_for_an_empty_one(connection, answer):
    """An answer with changed=false is taken for a list without topics."""
    answer.changed = True


@in_place_of(TopicListWatch._replace, clause="pip145.client.list-whole-set")
def keeps_topics_that_are_missing(replace, watch, topics):
    """Topics that are missing in a list stay."""
    replace(watch, [*topics, *(watch._topics or ())])


@in_place_of(TopicListWatch._replace, clause="pip145.client.list-whole-set")
def takes_the_first_list_only(replace, watch, topics):
    """Once the client has a list, no other list changes it."""
    if watch._topics is None:
        replace(watch, topics)


@on_incoming(CommandGetTopicsOfNamespaceResponse, clause=("pip145.client.list-no-hash-filters", "pip145.client.list-unfiltered-filters"))
def trusts_every_list(connection, answer):
    """The client takes each list for one of its pattern."""
    answer.filtered = True


@on_incoming(CommandGetTopicsOfNamespaceResponse, clause="pip145.client.list-unfiltered-filters")
def trusts_a_list_with_a_hash(connection, answer):
    """The client takes a list that has a hash for filtered, whatever its flag says."""
    answer.filtered = answer.HasField("topics_hash")


@on_incoming(CommandGetTopicsOfNamespaceResponse, clause="pip145.client.list-no-hash-filters")
def trusts_a_list_without_a_hash(connection, answer):
    """The client takes a list that has no hash for filtered."""
    answer.filtered = not answer.HasField("topics_hash")


@fault("pip145.client.list-no-hash-filters", "pip145.client.list-unfiltered-filters")
def matches_parts_of_names(patches):
    """The client's own filter is content if the pattern matches the end of a name."""
    patches.wrap(
        TopicListWatch,
        "_listed",
        lambda listed: lambda watch, answer, now: listed(watch, _with_ends(watch, answer), now),
    )


def _with_ends(watch, answer):
    copy = CommandGetTopicsOfNamespaceResponse()
    copy.CopyFrom(answer)
    end = watch.topics_pattern.rpartition("/")[2].rstrip(".*")
    if not copy.filtered:
        copy.topics[:] = [topic for topic in answer.topics if end in topic]
        copy.filtered = True
    return copy


@in_place_of(PatternConsumer._attach, clause="pip145.client.list-groups-partitions")
def attaches_to_partitions_twice(attach, consumer, topic):
    """The client attaches to each partition of a list twice, some time apart."""
    attach(consumer, topic)
    if "-partition-" in topic:
        scheduler = consumer._core.scheduler
        scheduler.call_at(scheduler.now + 0.2, lambda: consumer.error is None and consumer._start(topic))


# Watchers: when


@on_outgoing(CommandWatchTopicList, clause="pip145.client.watch-creates")
def never_watches(connection, request):
    """The client sends no watch request."""
    return False


@in_place_of(TopicListWatch._offer_of, clause=("pip145.client.watch-needs-flag", "core.client.flag-before-command"))
def watches_at_any_broker(offer_of, watch, flags):
    """The client watches without asking for the feature flag."""
    return offer_of(watch, FeatureFlags(supports_topic_watchers=True, supports_topic_watcher_reconcile=True))


@in_place_of(TopicListWatch._happened, clause="pip145.client.watch-refused")
def gives_up_when_refused(happened, watch, event, now):
    """After a refused watch request the client does nothing more."""
    if event is not TopicListEvent.REFUSED:
        happened(watch, event, now)


@on_outgoing(CommandWatchTopicListClose, clause="pip145.client.watch-close")
def leaves_its_watcher_open(connection, request):
    """The client never closes a watcher while its connection is open."""
    return False


@in_place_of(TopicListWatch._new_deadline, clause="pip145.client.watch-periodic")
def trusts_its_watcher(new_deadline, watch, event, now):
    """The client does not check its list while it has a watcher."""
    return None if watch.state is TopicListState.WATCHING else new_deadline(watch, event, now)


@on_outgoing(CommandWatchTopicList, clause=("pip145.client.watch-hash-on-reconnect", "pip145.client.watch-periodic"))
def watches_without_a_hash(connection, request):
    """A watch request never has a hash."""
    request.ClearField("topics_hash")


@in_place_of(TopicListWatch.connected, clause="pip145.client.watch-hash-on-reconnect")
def forgets_its_hash_with_the_connection(connected, watch, flags, now):
    """After a reconnect the client watches with the hash of no topics."""
    if watch._topics is not None:
        watch._replace(())
    connected(watch, flags, now)


# Watchers: what they say


@on_incoming(CommandWatchTopicListSuccess, clause="pip145.client.watch-applies-list")
def ignores_the_list_of_a_watcher(connection, answer):
    """The list in the answer to a watch request changes nothing."""
    del answer.topic[:]
    answer.topics_hash = EMPTY_HASH if not connection else "00000000"


@fault("pip145.client.watch-unknown-id")
def sends_updates_to_the_only_watcher(patches):
    """An update for a watcher that the client does not know goes to the one that it has."""

    def handle(original):
        def handled(connection, frame):
            if frame.command.HasField("watchTopicUpdate"):
                for kind, number in connection._peers:
                    if kind == "watcher_id":
                        frame.command.watchTopicUpdate.watcher_id = number
            original(connection, frame)

        return handled

    from refimpl.client.connection import Connection

    patches.wrap(Connection, "_handle", handle)


@on_incoming(CommandWatchTopicUpdate, clause="pip145.client.watch-applies-update")
def ignores_new_topics(connection, update):
    """New topics of an update are not attached to."""
    del update.new_topics[:]


@on_incoming(CommandWatchTopicUpdate, clause="pip145.client.watch-applies-update")
def ignores_deleted_topics(connection, update):
    """The client stays with topics that an update deletes."""
    del update.deleted_topics[:]


@on_incoming(CommandWatchTopicUpdate, clause="pip145.client.watch-applies-update")
def takes_one_topic_of_an_update(connection, update):
    """The client takes the last topic of each list of an update."""
    update.new_topics[:] = update.new_topics[-1:]
    update.deleted_topics[:] = update.deleted_topics[-1:]


@in_place_of(PatternConsumer._attach, clause="pip145.client.watch-applies-update")
def attaches_once_in_its_life(attach, consumer, topic):
    """A topic that was deleted is never attached to again."""
    consumer.had = getattr(consumer, "had", set())
    if topic not in consumer.had:
        consumer.had.add(topic)
        attach(consumer, topic)


@in_place_of(TopicListWatch._updated, clause="pip145.client.watch-applies-update")
def attaches_anew_when_announced_again(updated, watch, update, now):
    """A topic that is announced a second time is left and attached to again."""
    known = [topic for topic in update.new_topics if topic in watch.topics]
    updated(watch, update, now)
    watch._changed(known, known)


@in_place_of(TopicListWatch._happened, clause="pip145.client.watch-mismatch")
def ignores_a_wrong_hash(happened, watch, event, now):
    """The client does not compare the hash of an update with that of its topics."""
    if event is not TopicListEvent.DIFFERED:
        happened(watch, event, now)


assert TopicListOffer.LISTS  # used in docs


@on_incoming(CommandWatchTopicUpdate, clause="pip145.client.watch-applies-update")
def adds_before_it_removes(connection, update):
    """What an update both adds and deletes is gone."""
    kept = [topic for topic in update.new_topics if topic not in update.deleted_topics]
    update.new_topics[:] = kept


@in_place_of(TopicListWatch._new_deadline, clause="pip145.client.watch-periodic")
def checks_its_list_once(new_deadline, watch, event, now):
    """The list is checked once, and then never again."""
    if watch.state is TopicListState.WATCHING:
        watch.settled = getattr(watch, "settled", 0) + 1
        if watch.settled > 1:
            return None
    return new_deadline(watch, event, now)


@in_place_of(TopicListWatch.close, clause="pip145.client.watch-close")
def leaves_a_watcher_that_is_not_confirmed(close, watch):
    """Closing while the watch request is open closes nothing at the broker."""
    if watch.asked is not None:
        watch.asked = None
        watch.registration = Registration.NONE
    close(watch)


@in_place_of(PatternConsumer._attach_missing, clause="pip145.client.attaches-again")
def gives_topics_up(attach, consumer):
    """A topic that can't be attached the first time is never tried again."""


@in_place_of(PatternConsumer._attach_missing, clause="pip145.client.attaches-again")
def tries_topics_twice(attach, consumer):
    """A topic that can't be attached the first time is tried a second time, and never again."""
    consumer.tried = getattr(consumer, "tried", 0) + 1
    if consumer.tried == 1:
        attach(consumer)


# What fails, and what comes without topics


@in_place_of(TopicListWatch._error, clause="pip145.client.watch-retries")
def takes_every_error_for_a_refusal(failed, watch, error, now):
    """Whatever the error of a watch request, the client polls for as long as the connection lives."""
    error.error = NotAllowedError
    failed(watch, error, now)


@in_place_of(TopicListWatch._error, clause="pip145.client.watch-retries")
def watches_anew_once(failed, watch, error, now):
    """The second error of a watch request is the last one: then the client polls."""
    watch.failed_before = getattr(watch, "failed_before", 0) + 1
    if watch.failed_before > 1:
        error.error = NotAllowedError
    failed(watch, error, now)


@in_place_of(TopicListWatch._error, clause="pip145.client.watch-each-connection")
def is_refused_by_all_brokers_at_once(failed, watch, error, now):
    """Once one broker has refused its watch request, the client asks no other broker for a watcher."""
    failed(watch, error, now)
    watch._polling_only = watch._polling_only or (error.error == NotAllowedError and watch.offer is TopicListOffer.LISTS)


@in_place_of(TopicListWatch._watched, clause="pip145.client.watch-doubts")
def takes_no_topics_for_an_empty_set(watched, watch, answer, now):
    """An answer without topics empties the set, whatever its hash, unless that is the hash of the client."""
    if not answer.topic and answer.topics_hash != watch.topics_hash:
        answer.topics_hash = EMPTY_HASH
    watched(watch, answer, now)


@in_place_of(TopicListWatch._watched, clause="pip145.client.watch-applies-list")
def empties_its_set_with_each_answer_without_topics(watched, watch, answer, now):
    """An answer without topics empties the set, also if its hash says that nothing has changed."""
    watched(watch, answer, now)
    if not answer.topic:
        watch._replace(())


@in_place_of(TopicListWatch._watched, clause="pip145.client.watch-applies-list")
def ignores_the_first_list_of_its_watcher(watched, watch, answer, now):
    """The list that comes with the first watcher is ignored, since the client has just got one."""
    if watch.registration is Registration.ASKED and watch.registrations == 0:
        answer.topics_hash = watch.topics_hash
    watched(watch, answer, now)


@instead_of(refimpl.proposals.topic_list.client, "visible_topics", clause="pip145.client.list-filters-partitions")
def compares_names_of_partitions(visible, topics, pattern=None):
    """The client's own filter compares the pattern with the names of partitions."""
    return [topic for topic in visible(topics) if pattern is None or pattern.matches(topic.partition("://")[2])]


@in_place_of(TopicListWatch._new_deadline, clause="pip145.client.list-polls-without-watch")
def stops_polling_when_a_poll_fails(new_deadline, watch, event, now):
    """A poll that fails is the last one."""
    ends = event is TopicListEvent.FAILED and watch.offer is TopicListOffer.LISTS
    return None if ends else new_deadline(watch, event, now)


@in_place_of(TopicListWatch._new_deadline, clause="pip145.client.watch-periodic")
def stops_checking_when_a_check_fails(new_deadline, watch, event, now):
    """A check that fails is the last one."""
    ends = event is TopicListEvent.FAILED and watch.registration is Registration.CONFIRMED
    return None if ends else new_deadline(watch, event, now)


@on_outgoing(CommandGetTopicsOfNamespace, clause="pip145.client.list-returns-hash")
def asks_without_the_hash_of_no_topics(connection, request):
    """The hash of no topics is taken for no hash when the client asks for the list."""
    if request.topics_hash == EMPTY_HASH:
        request.ClearField("topics_hash")


@on_outgoing(CommandWatchTopicList, clause="pip145.client.watch-hash-on-reconnect")
def watches_without_the_hash_of_no_topics(connection, request):
    """The hash of no topics is taken for no hash when the client watches."""
    if request.topics_hash == EMPTY_HASH:
        request.ClearField("topics_hash")
