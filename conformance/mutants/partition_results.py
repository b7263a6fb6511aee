"""Brokers that take the results of partition updates wrongly, or send updates again too early, too late, too seldom or for ever."""

from collections import Counter
from typing import Any

from conformance.mutants.model import Patches, mutant
from conformance.mutants.parts import partition_watches
from refimpl.broker import Broker, Session
from refimpl.proposals import partition_watch
from refimpl.proposals.partition_watch import Delivery, News, PartitionWatchBroker
from refimpl.proposals.partition_watch.rules import DEFAULT, PartitionWatchProfile, resend_delay
from refimpl.proposals.refused import ProtocolViolation
from refimpl.wire.pulsar_api_pb2 import CommandPartitionUpdate, CommandPartitionUpdateResult, CommandSuccess, CommandWatchPartitionUpdate

Result = CommandPartitionUpdateResult
Update = CommandPartitionUpdate


@mutant("pip247.result.no-answer")
def confirms_results_of_large_watchers(patches: Patches) -> None:
    """A successful result of a watcher with more than three topics is answered by SUCCESS with its version as request_id."""

    def change(session: Session, result: Result) -> None:
        watcher = partition_watches(session.broker)._watchers.get(session, {}).get(result.watcher_id)
        if watcher is not None and len(watcher.names) > 3 and result.success:
            session.send(CommandSuccess(request_id=result.version))

    patches.incoming(Result, change)


def _result(patches: Patches, ignored: Any) -> None:
    """Ignore the results of which a function tells so, by the watcher, the result and the time."""
    result = PartitionWatchBroker.result

    def changed(watches: PartitionWatchBroker, session: Session, told: Result, now: float) -> Update | None:
        watcher = watches._watchers.get(session, {}).get(told.watcher_id)
        return None if watcher is not None and ignored(watcher, told, now) else result(watches, session, told, now)

    patches.replace(PartitionWatchBroker, "result", changed)


@mutant("pip247.result.success")
def overlooks_a_success_that_took_a_while(patches: Patches) -> None:
    """A success that comes more than 4 s after the update was sent is ignored."""
    update = PartitionWatchBroker._update
    sent: dict[object, float] = {}

    def note(watches: PartitionWatchBroker, watcher: Any, now: float) -> Update | None:
        sent[watcher] = now
        return update(watches, watcher, now)

    patches.replace(PartitionWatchBroker, "_update", note)
    _result(patches, lambda watcher, told, now: told.success and watcher.in_flight is not None and now > sent[watcher] + 4.0)


@mutant("pip247.result.success-resets")
def never_forgets_a_failure(patches: Patches) -> None:
    """A success does not let the delays after failures start again."""
    result = PartitionWatchBroker.result

    def changed(watches: PartitionWatchBroker, session: Session, told: Result, now: float) -> Update | None:
        watcher = watches._watchers.get(session, {}).get(told.watcher_id)
        failures = watcher.failures if watcher is not None else 0
        answer = result(watches, session, told, now)
        if watcher is not None:
            watcher.failures = max(watcher.failures, failures)
        return answer

    patches.replace(PartitionWatchBroker, "result", changed)


@mutant("pip247.result.lower")
def repeats_the_newer_update_for_an_older_failure(patches: Patches) -> None:
    """A failure of an update that was replaced lets the newer one be sent again."""
    result = PartitionWatchBroker.result

    def changed(watches: PartitionWatchBroker, session: Session, told: Result, now: float) -> Update | None:
        watcher = watches._watchers.get(session, {}).get(told.watcher_id)
        if watcher is not None and watcher.in_flight is not None and 0 < told.version < watcher.in_flight:
            told.version = watcher.in_flight
        return result(watches, session, told, now)

    patches.replace(PartitionWatchBroker, "result", changed)


@mutant("pip247.result.failure")
def waits_for_missing_topics(patches: Patches) -> None:
    """A failed update is sent again at the time-out only, as long as one of its topics does not exist."""
    _result(patches, lambda watcher, told, _: not told.success and 0 in watcher.counts.values())


@mutant("pip247.result.failure-backoff")
def is_impatient_after_failures(patches: Patches) -> None:
    """The delays after failures are half as long as they should be."""
    patches.replace(partition_watch, "resend_delay", lambda failures, longest, profile: resend_delay(failures, longest, profile) / 2)


@mutant("pip247.result.failure-at-once")
def lets_failures_wait_in_spite_of_the_letter(patches: Patches) -> None:
    """Further failures are answered after delays that double."""

    def changed(failures: int, longest: float, profile: PartitionWatchProfile) -> float:  # noqa: ARG001
        return resend_delay(failures, longest, DEFAULT)

    patches.replace(partition_watch, "resend_delay", changed)


@mutant("pip247.result.higher")
def takes_a_higher_version_for_a_newer_result(patches: Patches) -> None:
    """A success of a version that was never sent settles what is in flight."""
    result = PartitionWatchBroker.result

    def changed(watches: PartitionWatchBroker, session: Session, told: Result, now: float) -> Update | None:
        watcher = watches._watchers.get(session, {}).get(told.watcher_id)
        if watcher is not None and watcher.in_flight is not None and told.success and told.version > watcher.in_flight:
            told.version = watcher.in_flight
        return result(watches, session, told, now)

    patches.replace(PartitionWatchBroker, "result", changed)


@mutant("pip247.result.nothing-in-flight")
def believes_a_failure_after_a_success(patches: Patches) -> None:
    """A failure of an update that was applied before lets it be sent again."""
    result = PartitionWatchBroker.result
    applied: set[tuple[object, int]] = set()

    def changed(watches: PartitionWatchBroker, session: Session, told: Result, now: float) -> Update | None:
        watcher = watches._watchers.get(session, {}).get(told.watcher_id)
        if watcher is not None and told.success:
            applied.add((watcher, told.version))
        elif watcher is not None and (watcher, told.version) in applied and watcher.delivery is Delivery.SETTLED:
            watcher.delivery = Delivery.IN_FLIGHT
        return result(watches, session, told, now)

    patches.replace(PartitionWatchBroker, "result", changed)


@mutant("pip247.result.unknown-watcher")
def ends_connections_for_results_of_strangers(patches: Patches) -> None:
    """A result for a watcher_id that was never registered on the connection ends it."""
    known: set[tuple[Session, int]] = set()

    def change(session: Session, result: Result) -> None:
        if (session, result.watcher_id) not in known:
            raise ProtocolViolation(f"there is no watcher {result.watcher_id}")

    patches.incoming(CommandWatchPartitionUpdate, lambda session, request: known.add((session, request.watcher_id)))
    patches.incoming(Result, change)


@mutant("pip247.timeout.resend")
def has_one_timer_for_a_connection(patches: Patches) -> None:
    """An update takes the timer of its connection, so that others of the connection are not sent again."""
    update = PartitionWatchBroker._update

    def changed(watches: PartitionWatchBroker, watcher: Any, now: float) -> Update | None:
        for other in watches._watchers[watcher.connection].values():
            other.deadline = None
        return update(watches, watcher, now)

    patches.replace(PartitionWatchBroker, "_update", changed)


@mutant("pip247.timeout.default")
def waits_a_little_longer(patches: Patches) -> None:
    """The time-out is 11.4 s unless it is set."""
    make_broker = Broker.__init__

    def changed(broker: Broker, *args: Any, **settings: Any) -> None:
        make_broker(broker, *args, **settings)
        if broker.configuration.notification_for_partition_update_timeout_seconds == 10:
            partition_watches(broker)._result_timeout = 11.4

    patches.replace(Broker, "__init__", changed)


def _resendings(patches: Patches) -> Counter[object]:
    """Count how often the update in flight of each watcher was sent again because its time was up."""
    happened = PartitionWatchBroker._happened
    counted: Counter[object] = Counter()

    def changed(watches: PartitionWatchBroker, watcher: Any, news: News, now: float) -> Update | None:
        counted[watcher] = counted[watcher] + 1 if news is News.DUE and watcher.in_flight is not None else 0
        return happened(watches, watcher, news, now)

    patches.replace(PartitionWatchBroker, "_happened", changed)
    return counted


@mutant("pip247.timeout.until-connection-ends")
def gives_up_after_eight_resendings(patches: Patches) -> None:
    """An update is sent again eight times."""
    counted, update = _resendings(patches), PartitionWatchBroker._update

    def changed(watches: PartitionWatchBroker, watcher: Any, now: float) -> Update | None:
        return update(watches, watcher, now) if counted[watcher] <= 8 else None

    patches.replace(PartitionWatchBroker, "_update", changed)


@mutant("pip247.version.same-counts")
def numbers_the_third_resending_anew(patches: Patches) -> None:
    """The third resending of an update after a time-out has the next version."""
    counted, update = _resendings(patches), PartitionWatchBroker._update

    def changed(watches: PartitionWatchBroker, watcher: Any, now: float) -> Update | None:
        watcher.version += counted[watcher] == 3
        return update(watches, watcher, now)

    patches.replace(PartitionWatchBroker, "_update", changed)


@mutant("pip247.timeout.late-success")
def accepts_no_success_after_two_resendings(patches: Patches) -> None:
    """A success is ignored once its update was sent again twice."""
    counted = _resendings(patches)
    _result(patches, lambda watcher, told, _: told.success and counted[watcher] > 1)
