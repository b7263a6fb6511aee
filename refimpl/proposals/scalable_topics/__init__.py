"""PR 25648: a watch over the scalable topics of a namespace.

A scalable topic, `topic://tenant/namespace/name`, has properties and consists of segments. Clients produce to and consume from the
segments. A consumer that selects scalable topics by their properties has to discover which topics exist. The proposal adds a watch:

    CONNECTED (3)                        broker   feature_flags 8: supports_scalable_topics
    WATCH_SCALABLE_TOPICS (76)           client   opens a watch: the topics with these properties now, and each change from now on
    WATCH_SCALABLE_TOPICS_UPDATE (77)    broker   the whole set, or a change of it, or an error; an error ends the watch
    WATCH_SCALABLE_TOPICS_CLOSE (78)     client   closes the watch; not answered

    command                         field                 type        meaning
    WATCH_SCALABLE_TOPICS           1 watch_id            uint64      chosen by the client, unique on its connection
                                    2 namespace           string      tenant/namespace
                                    3 property_filters    KeyValue*   a topic must have all of them
                                    4 current_hash        string      hash of the set that the client has; optional
    WATCH_SCALABLE_TOPICS_UPDATE    1 watch_id            uint64
                                    2 snapshot            message     1 topics: the whole set
                                    3 diff                message     1 added, 2 removed: what has changed
                                    4 error               enum        `ServerError`
                                    5 message             string      the reason for the error
    WATCH_SCALABLE_TOPICS_CLOSE     1 watch_id            uint64

If current_hash is the hash of the set, the broker sends nothing: silence means that the client is up to date.

`rules` has the rules that both sides share, `broker` the broker's side (`ScalableTopicsBroker`) and `client` the client's side
(`ScalableTopicsWatch`). `layout` shows how a client finds the segments of one topic; `admin` has the admin calls. All are synchronous
and do no I/O. Sources: the text of PR 25648, and Apache Pulsar 5.0.0-M1 as observed, which settles what the text leaves open. Where
the two contradict each other, a `ScalableTopicsProfile` selects one. The text also names a `consumer_name`, which no command carries.
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
        Capability("scalable-topics", "feature flag supports_scalable_topics", flag="supports_scalable_topics", part="watches"),
        Capability("scalable-layout", "SCALABLE_TOPIC_LOOKUP is answered with SCALABLE_TOPIC_UPDATE", part="layouts"),
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
