"""PR 25648: a watch over the scalable topics of a namespace.

A scalable topic, `topic://tenant/namespace/name`, has properties, and is stored in segments that clients produce to and consume
from. A consumer of many of them, selected by their properties, has to learn which there are. What the proposal adds to the wire:

    CONNECTED                       feature flag supports_scalable_topics
    WATCH_SCALABLE_TOPICS           tell me which topics of a namespace have these properties, and each change from now on;
                                    current_hash: that of the set that I have
    WATCH_SCALABLE_TOPICS_UPDATE    snapshot: the whole set; diff: what came and what went; or an error, which ends the watch
    WATCH_SCALABLE_TOPICS_CLOSE     no more changes; not answered

If current_hash is that of the set, nothing is sent at all: silence means that the client is up to date.

The rules that both sides share stand in `rules`. The broker's side is `ScalableTopicsBroker`, in `broker`; the client's is
`ScalableTopicsWatch`, in `client`. How a client finds the segments of one topic is in `layout`. All
are synchronous, without input and output. Sources: the text of PR 25648, and Apache Pulsar 5.0.0-M1 as observed, which settles
what the text leaves open. Where the two contradict each other, a `ScalableTopicsProfile` says which is followed. The text's `consumer_name`
is on no wire.
"""

from refimpl.indexes.topics_hash import EMPTY_HASH, topics_hash
from refimpl.proposals.declaration import Capability, Command, Proposal
from refimpl.proposals.scalable_topics.broker import ScalableTopicsBroker, ScalableTopicsExtension
from refimpl.proposals.scalable_topics.client import (
    IGNORED,
    TRANSITIONS,
    ScalableTopicsEvent,
    ScalableTopicsSend,
    ScalableTopicsState,
    ScalableTopicsWatch,
)
from refimpl.proposals.scalable_topics.layout import (
    LAST_HASH,
    Layout,
    LayoutBroker,
    Segment,
    active_segments,
    first_layout,
    is_scalable_topic,
    parse_segment_topic,
    segment_topic,
    supersedes,
)
from refimpl.proposals.scalable_topics.rules import (
    AS_WRITTEN,
    COALESCING_SECONDS,
    DEFAULT,
    PROFILES,
    WATCHES_PER_CONNECTION,
    ScalableTopicChanges,
    ScalableTopicsProfile,
    record_path,
    retry_delay,
)

__all__ = [
    "AS_WRITTEN",
    "COALESCING_SECONDS",
    "DEFAULT",
    "EMPTY_HASH",
    "IGNORED",
    "LAST_HASH",
    "PROFILES",
    "PROPOSAL",
    "TRANSITIONS",
    "WATCHES_PER_CONNECTION",
    "Layout",
    "LayoutBroker",
    "ScalableTopicChanges",
    "ScalableTopicsBroker",
    "ScalableTopicsEvent",
    "ScalableTopicsExtension",
    "ScalableTopicsProfile",
    "ScalableTopicsSend",
    "ScalableTopicsState",
    "ScalableTopicsWatch",
    "Segment",
    "active_segments",
    "first_layout",
    "is_scalable_topic",
    "parse_segment_topic",
    "record_path",
    "retry_delay",
    "segment_topic",
    "supersedes",
    "topics_hash",
]

PROPOSAL: Proposal[ScalableTopicsProfile] = Proposal(
    register="pr25648",
    name="PR 25648",
    title="watches over the scalable topics of a namespace",
    address="https://github.com/apache/pulsar/pull/25648",
    capabilities=(
        Capability("scalable-topics", "feature flag supports_scalable_topics", flag="supports_scalable_topics"),
        Capability("scalable-topic-properties", "the admin interface changes the properties of a scalable topic", declared=True),
    ),
    commands=(
        Command("scalableTopicLookup", 70, "client"),
        Command("scalableTopicUpdate", 71, "broker", addressed_by="session_id"),
        Command("scalableTopicClose", 72, "client"),
        Command("scalableTopicSubscribe", 73, "client", answers=("scalableTopicSubscribeResponse",)),
        Command("watchScalableTopics", 76, "client"),
        Command("watchScalableTopicsUpdate", 77, "broker", addressed_by="watch_id"),
        Command("watchScalableTopicsClose", 78, "client"),
    ),
    broker=ScalableTopicsExtension,
    profiles=PROFILES,
)
