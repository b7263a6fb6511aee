"""PIP-145: a filter, a hash and watchers for the list of a namespace's topics.

A client that subscribes to a pattern needs the topics that match. Before PIP-145 it asked for all topics of the namespace, once
a minute, and filtered them itself. What the proposal changes on the wire:

    GET_TOPICS_OF_NAMESPACE             topics_pattern: list what matches only; topics_hash: the list that the client has
    GET_TOPICS_OF_NAMESPACE_RESPONSE    filtered: the pattern was applied; topics_hash: of this list; changed=false: you have it
    CONNECTED                           feature flags supports_topic_watchers and supports_topic_watcher_reconcile
    WATCH_TOPIC_LIST                    tell me what matches now, and each change from now on
    WATCH_TOPIC_LIST_SUCCESS            what matches, with its hash; no topics if the client's hash is this one
    WATCH_TOPIC_UPDATE                  a topic came or went; the hash of the whole set after it
    WATCH_TOPIC_LIST_CLOSE              no more changes; answered by SUCCESS

The rules that both sides share stand in `rules`. The broker's side is `TopicListBroker`, in `broker`; the client's is
`TopicListWatch`, in `client`. Both are synchronous, without input and output. Sources: the text of PIP-145, and Apache
Pulsar 4.2.4 as observed, which settles what the text leaves open. Where the two contradict each other, a `TopicListProfile` says which is
followed.
"""

from refimpl.indexes.topics_hash import EMPTY_HASH, topics_hash, utf16_order
from refimpl.proposals.declaration import Capability, Command, Proposal
from refimpl.proposals.topic_list.broker import TopicListBroker, TopicListExtension
from refimpl.proposals.topic_list.client import (
    IGNORED,
    TRANSITIONS,
    TopicChanges,
    TopicListEvent,
    TopicListSend,
    TopicListState,
    TopicListWatch,
)
from refimpl.proposals.topic_list.rules import (
    AS_WRITTEN,
    DEFAULT,
    PATTERN_MAX_LENGTH,
    PROFILES,
    WATCHERS_PER_CONNECTION,
    TopicListProfile,
    pattern_length,
    without_domain,
)

__all__ = [
    "AS_WRITTEN",
    "DEFAULT",
    "EMPTY_HASH",
    "IGNORED",
    "PATTERN_MAX_LENGTH",
    "PROFILES",
    "PROPOSAL",
    "TRANSITIONS",
    "WATCHERS_PER_CONNECTION",
    "TopicChanges",
    "TopicListBroker",
    "TopicListEvent",
    "TopicListExtension",
    "TopicListProfile",
    "TopicListSend",
    "TopicListState",
    "TopicListWatch",
    "pattern_length",
    "topics_hash",
    "utf16_order",
    "without_domain",
]

PROPOSAL: Proposal[TopicListProfile] = Proposal(
    register="pip145",
    name="PIP-145",
    title="topic lists: filter, hash, watchers",
    address="https://github.com/apache/pulsar/issues/14505",
    capabilities=(
        Capability("topic-list-filter", "GET_TOPICS_OF_NAMESPACE with a pattern is answered with a hash"),
        Capability("topic-list-watch", "feature flag supports_topic_watchers", flag="supports_topic_watchers"),
        Capability("topic-watch-reconcile", "feature flag supports_topic_watcher_reconcile", flag="supports_topic_watcher_reconcile"),
        Capability("regex-look-around", "patterns with look-around and back-references are evaluated"),
    ),
    commands=(
        Command("watchTopicList", 64, "client", answers=("watchTopicListSuccess",)),
        Command("watchTopicListSuccess", 65, "broker"),
        Command("watchTopicUpdate", 66, "broker", addressed_by="watcher_id"),
        Command("watchTopicListClose", 67, "client", answers=("success", "watchTopicListSuccess")),  # the text has the second
    ),
    broker=TopicListExtension,
    profiles=PROFILES,
)
