"""Faults of time: brokers that are right in all they say, and say it too late when something else happens as well."""

from collections import Counter

from conformance.mutants.model import in_place_of, mutant, on_request
from refimpl.broker import Session
from refimpl.proposals.scalable_topics.broker import ScalableTopicsBroker
from refimpl.wire.pulsar_api_pb2 import (
    CommandPartitionUpdate,
    CommandScalableTopicUpdate,
    CommandWatchScalableTopicsUpdate,
    CommandWatchTopicUpdate,
)

_IDS = {
    CommandWatchTopicUpdate: "watcher_id",
    CommandPartitionUpdate: "watcher_id",
    CommandWatchScalableTopicsUpdate: "watch_id",
    CommandScalableTopicUpdate: "session_id",
}
"""Every announcement, and the field that says whom it is for."""


def _later(session, seconds, call):
    session.broker.timers.at(session.broker.now + seconds, lambda: None if session.closing else call())


@in_place_of(Session.send, clause=("pip145.update.soon", "pip247.update.soon", "pr25648.diff.soon", "pr25648.layout.soon"))
def tells_the_first_watch_of_a_connection_first(send, session, message, payload=None):
    """What is told to all watches of a connection but the first one comes 2 s later."""
    own = getattr(message, _IDS.get(type(message), "none"), None)
    if own == session.__dict__.setdefault("first_by_faults", {}).setdefault(type(message), own):
        send(session, message, payload)
    else:
        _later(session, 2, lambda: send(session, message, payload))


@mutant("pip145.update.soon", "pip247.update.soon", "pr25648.diff.soon")
def keeps_those_waiting_who_come_back(patches):
    """Watches of connections that begin after one was lost are told 2 s later."""
    lost, late = set(), {}

    def end(original):
        return lambda session, reason: (lost.add(session.broker), original(session, reason))[1]

    def send(original):
        def changed(session, message, payload=None):
            if late.setdefault(session, session.broker in lost) and type(message) in _IDS:
                _later(session, 2, lambda: original(session, message, payload))
            else:
                original(session, message, payload)

        return changed

    patches.wrap(Session, "end", end)
    patches.wrap(Session, "send", send)


@in_place_of(Session.send, clause=("pip145.update.soon", "pip247.update.soon"))
def waits_until_nothing_changes(send, session, message, payload=None):
    """Updates go out when there was none for 0.1 s."""
    waiting = session.__dict__.setdefault("waiting_by_faults", [])
    if type(message) not in _IDS:
        send(session, message, payload)
        return
    waiting.append(message)
    count = len(waiting)

    def go_on():
        if len(waiting) == count:
            for one in waiting:
                send(session, one)
            waiting.clear()

    _later(session, 0.1, go_on)


@on_request("flow", clause="core.deliver.soon")
def looks_at_new_permits_every_two_seconds(carry_out, session, request):
    """Messages that had to wait for permits go out 2 s after the permits came."""
    _later(session, 2 if request.messagePermits else 0, carry_out)


@in_place_of(ScalableTopicsBroker.notified, clause="pr25648.diff.window-short")
def opens_a_longer_window_each_time(notified, watches, path, now):
    """Each window of a watch is 10 ms longer than its last one."""
    windows = watches.__dict__.setdefault("windows_by_faults", Counter())
    before = set(watches._armed)
    notified(watches, path, now)
    for session in watches._armed.keys() - before:
        watches._armed[session] += 0.01 * windows[session]
        windows[session] += 1


@in_place_of(Session.send, clause=("pip145.update.on-create", "pip247.update.on-change", "pr25648.diff.on-create", "pr25648.layout.pushed"))
def tells_nothing_to_a_client_that_does_not_read(send, session, message, payload=None):
    """Announcements for a connection whose client leaves much unread are dropped."""
    if type(message) not in _IDS or session.takes_messages:
        send(session, message, payload)
