"""PIP-247: notifications when the number of partitions of a topic changes.

A client that produces to or consumes from a partitioned topic has to discover new partitions. Without PIP-247 it asks for the
partition count of each topic once a minute. The proposal changes this on the wire:

    CONNECTED (3)                           broker   feature_flags 247: supports_partition_update_watchers
    WATCH_PARTITION_UPDATE (2471)           client   opens a watcher: the counts of these topics now, and each change from now on
    WATCH_PARTITION_UPDATE_SUCCESS (2472)   broker   the counts now; always the first command of a watcher
    PARTITION_UPDATE (2473)                 broker   a count has changed: all counts of the watcher, with a version
    PARTITION_UPDATE_RESULT (2474)          client   the client has applied that version, or failed to
    WATCH_PARTITION_UPDATE_CLOSE (2475)     client   closes the watcher; the broker answers with SUCCESS

    command                           field                     type                 meaning
    WATCH_PARTITION_UPDATE            1 request_id              uint64
                                      2 watcher_id              uint64               chosen by the client, unique on its connection
                                      3 topics                  string*
    WATCH_PARTITION_UPDATE_SUCCESS    1 request_id              uint64
                                      2 watcher_id              uint64
                                      3 topic_with_partition    TopicWithPartition*
    PARTITION_UPDATE                  1 version                 uint64               from 1, for each watcher
                                      2 watcher_id              uint64
                                      3 topic_with_partition    TopicWithPartition*
    PARTITION_UPDATE_RESULT           1 version                 uint64               of the update
                                      2 success                 bool
                                      3 watcher_id              uint64
    WATCH_PARTITION_UPDATE_CLOSE      1 request_id              uint64
                                      2 watcher_id              uint64
    TopicWithPartition                1 topic                   string
                                      2 partition               uint32               number of partitions, not an index; 0: the topic
                                                                                     is not partitioned, or does not exist

At most one update of a watcher is in flight. The broker resends it when the client reports a failure, or does not answer in time. A
newer update replaces it:

    SETTLED --changed--> IN_FLIGHT --success--> SETTLED
                         IN_FLIGHT --failure--> WAITING --time--> IN_FLIGHT
                         IN_FLIGHT --time-----> IN_FLIGHT         (the same update, or one with newer counts)
                         any       --changed--> IN_FLIGHT         (the next version)

`rules` has the rules behind both sides, `broker` the broker's side (`PartitionWatchBroker`) and `client` the client's side
(`PartitionWatch`). All are synchronous and do no I/O. The proposal was never merged: this project chose the numbers of the commands
and of the flag, and settles what the text leaves open. Where the text as written differs, a `PartitionWatchProfile` selects a reading.
"""

from refimpl.proposals.declaration import Capability, Command, Proposal
from refimpl.proposals.partition_watch.broker import DELIVERIES, IMPOSSIBLE, Delivery, News, PartitionWatchBroker, PartitionWatchExtension
from refimpl.proposals.partition_watch.client import (
    IGNORED,
    TRANSITIONS,
    PartitionCounts,
    PartitionWatch,
    PartitionWatchEvent,
    PartitionWatchSend,
    PartitionWatchState,
)
from refimpl.proposals.partition_watch.rules import (
    AS_WRITTEN,
    DEFAULT,
    PROFILES,
    RESULT_TIMEOUT,
    TOPICS_PER_CONNECTION,
    WATCHERS_PER_CONNECTION,
    PartitionWatchProfile,
    ResultJudgement,
)

__all__ = [
    "AS_WRITTEN",
    "DEFAULT",
    "DELIVERIES",
    "IGNORED",
    "IMPOSSIBLE",
    "PROFILES",
    "PROPOSAL",
    "RESULT_TIMEOUT",
    "TOPICS_PER_CONNECTION",
    "TRANSITIONS",
    "WATCHERS_PER_CONNECTION",
    "Delivery",
    "News",
    "PartitionCounts",
    "PartitionWatch",
    "PartitionWatchBroker",
    "PartitionWatchEvent",
    "PartitionWatchExtension",
    "PartitionWatchProfile",
    "PartitionWatchSend",
    "PartitionWatchState",
    "ResultJudgement",
]

PROPOSAL: Proposal[PartitionWatchProfile] = Proposal(
    register="pip247",
    name="PIP-247",
    title="notifications for partition updates",
    address="https://github.com/apache/pulsar/issues/19596",
    capabilities=(
        Capability(
            "partition-watch", "feature flag supports_partition_update_watchers", flag="supports_partition_update_watchers", part="watchers"
        ),
    ),
    commands=(
        Command("watchPartitionUpdate", 2471, "client", answers=("watchPartitionUpdateSuccess",)),
        Command("watchPartitionUpdateSuccess", 2472, "broker"),
        Command("partitionUpdate", 2473, "broker", addressed_by="watcher_id"),
        Command("partitionUpdateResult", 2474, "client"),
        Command("watchPartitionUpdateClose", 2475, "client", answers=("success",)),
    ),
    broker=PartitionWatchExtension,
    profiles=PROFILES,
)
