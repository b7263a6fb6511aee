"""PR 25648: a watch over the scalable topics of a namespace.

A scalable topic, `topic://tenant/namespace/name`, has properties, and is stored in segments that clients produce to and consume
from. A consumer of many of them, selected by their properties, has to learn which there are. What the proposal adds to the wire:

    CONNECTED                       feature flag supports_scalable_topics
    WATCH_SCALABLE_TOPICS           tell me which topics of a namespace have these properties, and each change from now on;
                                    current_hash: that of the set that I have
    WATCH_SCALABLE_TOPICS_UPDATE    snapshot: the whole set; diff: what came and what went; or an error, which ends the watch
    WATCH_SCALABLE_TOPICS_CLOSE     no more changes; not answered

If current_hash is that of the set, nothing is sent at all: silence means that the client is up to date.

The rules that both sides share stand in `scalable_topics_rules`. The broker's side is `ScalableTopicsBroker`, below; the client's is
`ScalableTopicsWatch`, in `scalable_topics_watch`. How a client finds the segments of one topic is in `scalable_topics_layout`. All
are synchronous, without input and output. Sources: the text of PR 25648, and Apache Pulsar 5.0.0-M1 as observed, which settles
what the text leaves open. Where the two contradict each other, a `Profile` says which is followed. The text's `consumer_name`
is on no wire.
"""

from refimpl.indexes.topics_hash import EMPTY_HASH, topics_hash
from refimpl.proposals.scalable_topics.broker import ScalableTopicsBroker
from refimpl.proposals.scalable_topics.client import TRANSITIONS, Event, ScalableTopicsWatch, Send, State
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
    COALESCING_SECONDS,
    DEFAULT,
    LETTER,
    PROFILES,
    WATCHES_PER_CONNECTION,
    Profile,
    ScalableTopicChanges,
    is_namespace,
    record_path,
    retry_delay,
)
from refimpl.proposals.topic_list.rules import namespace_of

__all__ = [
    "COALESCING_SECONDS",
    "DEFAULT",
    "EMPTY_HASH",
    "LAST_HASH",
    "LETTER",
    "PROFILES",
    "TRANSITIONS",
    "WATCHES_PER_CONNECTION",
    "Event",
    "Layout",
    "LayoutBroker",
    "Profile",
    "ScalableTopicChanges",
    "ScalableTopicsBroker",
    "ScalableTopicsWatch",
    "Segment",
    "Send",
    "State",
    "active_segments",
    "first_layout",
    "is_namespace",
    "is_scalable_topic",
    "namespace_of",
    "parse_segment_topic",
    "record_path",
    "retry_delay",
    "segment_topic",
    "supersedes",
    "topics_hash",
]
