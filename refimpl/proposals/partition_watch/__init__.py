"""PIP-247: notifications when the number of partitions of a topic changes.

A client that produces to a partitioned topic, or consumes from one, has to learn of new partitions. Without PIP-247 it asks for
the number of each topic once a minute. What the proposal changes on the wire:

    CONNECTED                        feature flag supports_partition_update_watchers
    WATCH_PARTITION_UPDATE           tell me how many partitions these topics have, and each change from now on
    WATCH_PARTITION_UPDATE_SUCCESS   the counts now; the first that is told of a watcher
    PARTITION_UPDATE                 some count has changed: all counts of the watcher, and their version
    PARTITION_UPDATE_RESULT          the client has applied that version, or could not
    WATCH_PARTITION_UPDATE_CLOSE     no more changes; answered by SUCCESS

The field `partition` is a number of partitions; 0: the topic is not partitioned, or does not exist (pip247.watch.count). At most
one update of a watcher waits for its result. It is sent again when the result is a failure, or does not come in time, and a
newer one takes its place:

    SETTLED --changed--> IN_FLIGHT --success--> SETTLED
                         IN_FLIGHT --failure--> WAITING --time--> IN_FLIGHT
                         IN_FLIGHT --time-----> IN_FLIGHT         (as it is, or with newer counts)
                         any       --changed--> IN_FLIGHT         (the next version)

The rules behind both sides stand in `rules`. The broker's side is `PartitionWatchBroker`, in `broker`; the client's is
`PartitionWatch`, in `client`. Both are synchronous, without input and output. The proposal was never merged:
the numbers of its commands and of its flag are this project's, and what its text leaves open is settled here. Where the text
as written is another reading, a `PartitionWatchProfile` says which is followed.
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
        Capability("partition-watch", "feature flag supports_partition_update_watchers", flag="supports_partition_update_watchers"),
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
