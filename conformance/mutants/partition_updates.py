"""Faults of PIP-247: updates with their versions, results and time-outs."""

from collections import Counter

from conformance.mutants.model import in_place_of, mutant, on_incoming, on_request
from conformance.mutants.partitions import Update, drop
from refimpl.broker import Broker
from refimpl.proposals.partition_watch.broker import Delivery, News, PartitionWatchBroker, PartitionWatchExtension
from refimpl.proposals.partition_watch.rules import DEFAULT, judge_result, next_version, resend_delay
from refimpl.proposals.refused import ProtocolViolation
from refimpl.wire.pulsar_api_pb2 import (
    CommandPartitionUpdateResult,
)


@mutant("pip247.version.per-watcher")
def numbers_the_updates_of_all_watchers(patches):
    """Versions count the updates of the broker."""
    count = iter(range(1, 1_000_000))
    patches.function(next_version, lambda version, *, is_different, profile: next(count))


@on_request("watchTopicListClose", clause="pip247.update.beside-topic-list")
def closes_both_kinds_of_watchers(carry_out, session, request):
    """WATCH_TOPIC_LIST_CLOSE ends the watcher of partition counts with its watcher_id, too."""
    drop(session.broker.extension(PartitionWatchExtension).watches, session, request.watcher_id)
    carry_out()


# Results and time


@on_incoming(CommandPartitionUpdateResult, clause="pip247.result.success")
def overlooks_results(_, result):
    """A successful result is not looked at."""
    return not result.success


@in_place_of(PartitionWatchBroker.changed, clause="pip247.watch.independent")
def keeps_news_back_while_another_watcher_fails(changed, watches, topic, now):
    """A watcher is not told of a change while an update of another one on its connection has failed."""
    return [
        (connection, update)
        for connection, update in changed(watches, topic, now)
        if not any(one.failures for one in watches._watchers[connection].values() if one.watcher_id != update.watcher_id)
    ]


@in_place_of(PartitionWatchBroker.result, clause="pip247.result.success-resets")
def never_forgets_a_failure(result, watches, session, told, now):
    """A success does not let the delays after failures start again."""
    watcher = watches._watchers.get(session, {}).get(told.watcher_id)
    failures = watcher.failures if watcher is not None else 0
    answer = result(watches, session, told, now)
    if watcher is not None:
        watcher.failures = max(watcher.failures, failures)
    return answer


@in_place_of(judge_result, clause="pip247.result.lower")
def takes_a_lower_version_for_the_current_one(judge, in_flight, version, *, success):
    """A result of an update that was replaced counts for the newer one."""
    return judge(in_flight, version if in_flight is None else max(version, in_flight), success=success)


@in_place_of(judge_result, clause="pip247.result.higher")
def takes_a_higher_version_for_the_current_one(judge, in_flight, version, *, success):
    """A result of a version that was never sent counts for what is in flight."""
    return judge(in_flight, version if in_flight is None else min(version, in_flight), success=success)


@in_place_of(resend_delay, clause="pip247.result.failure-backoff")
def waits_equally_long_after_each_failure(delay, failures, longest, profile):
    """The delays after failures do not grow."""
    return delay(min(failures, 2), longest, profile)


@in_place_of(resend_delay, clause="pip247.result.failure-at-once")
def lets_failures_wait_in_spite_of_the_text(delay, failures, longest, profile):
    """Further failures are answered after delays that double."""
    return delay(failures, longest, DEFAULT)


@in_place_of(PartitionWatchBroker.result, clause="pip247.result.nothing-in-flight")
def believes_a_failure_after_a_success(result, watches, session, told, now):
    """A failure of an update that was applied before lets it be sent again."""
    watcher = watches._watchers.get(session, {}).get(told.watcher_id)
    if watcher is not None and watcher.in_flight is None and not told.success and watcher.version:
        return Update(version=watcher.version, watcher_id=told.watcher_id, topic_with_partition=watcher.topics_with_partitions())
    return result(watches, session, told, now)


@in_place_of(PartitionWatchBroker.result, clause="pip247.result.unknown-watcher")
def ends_connections_for_results_of_no_watcher(result, watches, session, told, now):
    """A result for a watcher_id that is not registered on the connection ends it."""
    if told.watcher_id not in watches._watchers.get(session, {}):
        raise ProtocolViolation(f"there is no watcher {told.watcher_id}")
    return result(watches, session, told, now)


@mutant("pip247.timeout.late-success")
def accepts_no_success_after_a_resending(patches):
    """A success is ignored once its update was sent again."""
    sent = Counter()
    patches.outgoing(Update, lambda session, update: sent.update([(session, update.watcher_id, update.version)]))

    def change(session, result):
        return not result.success or sent[session, result.watcher_id, result.version] < 2

    patches.incoming(CommandPartitionUpdateResult, change)


@in_place_of(PartitionWatchBroker.result, clause="pip247.result.lower")
def takes_any_result_after_a_failure(result, watches, session, told, now):
    """After a failure any result of the watcher counts, whichever version it names."""
    watcher = watches._watchers.get(session, {}).get(told.watcher_id)
    if watcher is not None and watcher.failures and watcher.in_flight is not None and told.version:
        told.version = watcher.in_flight
    return result(watches, session, told, now)


# Changes


@in_place_of(PartitionWatchBroker.changed, clause="pip247.update.all-topics")
def tells_only_what_has_changed(changed, watches, topic, now):
    """An update has the topic that has changed, and no other."""
    updates = changed(watches, topic, now)
    for connection, update in updates:
        names = watches._watchers[connection][update.watcher_id].names
        mine = [one for one in update.topic_with_partition if one.topic == names[topic]]
        del update.topic_with_partition[:]
        update.topic_with_partition.extend(mine)
    return updates


@mutant("pip247.update.only-changes")
def tells_of_everything_that_happens_to_a_topic(patches):
    """That a topic comes into being or is unloaded is told without a look at its partitions."""
    changed = PartitionWatchBroker.changed

    def tell(watches, topic, now):
        for watcher in watches._by_topic.get(topic, ()):
            watcher.counts[topic] = -1
        return changed(watches, topic, now)

    def also(original):
        def act(broker, name):
            original(broker, name)
            broker.partitions_changed(name.full)

        return act

    patches.replace(PartitionWatchBroker, "changed", tell)
    patches.wrap(Broker, "create_topic", also)
    patches.wrap(Broker, "unload", also)


@in_place_of(PartitionWatchBroker.changed, clause="pip247.update.every-watcher")
def tells_one_watcher_of_partitions(changed, watches, topic, now):
    """A change is told to one of the watchers that it concerns."""
    return changed(watches, topic, now)[:1]


@in_place_of(PartitionWatchBroker.changed, clause="pip247.update.replaces")
def lets_changes_wait_for_a_result(changed, watches, topic, now):
    """A change while an update waits for its result is told with the next sending of it."""
    waiting = {watcher.watcher_id for watcher in watches._by_topic.get(topic, ()) if watcher.in_flight is not None}
    return [] if waiting else changed(watches, topic, now)


@in_place_of(PartitionWatchBroker.changed, clause="pip247.update.replaces-waiting")
def lets_a_change_wait_for_the_retry(changed, watches, topic, now):
    """A change while an update waits to be sent again is told when that is due."""
    failed = [watcher for watcher in watches._by_topic.get(topic, ()) if watcher.failures and watcher.in_flight is None]
    return [] if any(watcher.deadline is not None for watcher in failed) else changed(watches, topic, now)


@in_place_of(PartitionWatchBroker.changed, clause="pip247.update.one-in-flight")
def repeats_updates_that_were_replaced(changed, watches, topic, now):
    """Each update is sent once more when the time-out is over, also if it was replaced."""
    updates = changed(watches, topic, now)
    for connection, update in updates:
        connection.broker.timers.at(now + 10.0, lambda to=connection, what=update: to.send(what))
    return updates


@mutant("pip247.timeout.until-connection-ends")
def gives_up_after_five_sendings(patches):
    """An update is sent five times."""
    sent = Counter()

    def change(session, update):
        sent[session, update.watcher_id, update.version] += 1
        return sent[session, update.watcher_id, update.version] <= 5

    patches.outgoing(Update, change)


@in_place_of(PartitionWatchBroker._happened, clause="pip247.timeout.resend")
def keeps_the_deadline_of_the_update_before(happened, watches, watcher, news, now):
    """An update that takes the place of another one without a success is sent again when the other one was due."""
    delivery, deadline = watcher.delivery, watcher.deadline
    update = happened(watches, watcher, news, now)
    if news is News.CHANGED and delivery is not Delivery.SETTLED and update is not None and deadline is not None:
        watcher.deadline = deadline
    return update
