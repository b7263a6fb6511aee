"""PIP-145: a filter, a hash and watchers for the list of a namespace's topics.

A consumer that subscribes to a pattern needs the list of the topics that match. Before PIP-145, the client asked for all topics of
the namespace once a minute and filtered the list itself. The proposal changes this on the wire:

    CONNECTED (3)                           broker   feature_flags 4 and 7: supports_topic_watchers, supports_topic_watcher_reconcile
    GET_TOPICS_OF_NAMESPACE (32)            client   asks for a list; two fields are new
    GET_TOPICS_OF_NAMESPACE_RESPONSE (33)   broker   returns the list; three fields are new
    WATCH_TOPIC_LIST (64)                   client   opens a watcher: the matching topics now, and each change from now on
    WATCH_TOPIC_LIST_SUCCESS (65)           broker   the matching topics; no topics if the client's hash is the current one
    WATCH_TOPIC_UPDATE (66)                 broker   a topic was created or deleted
    WATCH_TOPIC_LIST_CLOSE (67)             client   closes the watcher; the broker answers with SUCCESS

    command                             field                type      meaning
    GET_TOPICS_OF_NAMESPACE             4 topics_pattern     string    list only the topics that match
                                        5 topics_hash        string    hash of the list that the client has
    GET_TOPICS_OF_NAMESPACE_RESPONSE    3 filtered           bool      the broker applied the pattern
                                        4 topics_hash        string    hash of this list
                                        5 changed            bool      false: the client has this list, `topics` is empty
    WATCH_TOPIC_LIST                    1 request_id         uint64
                                        2 watcher_id         uint64    chosen by the client, unique on its connection
                                        3 namespace          string    tenant/namespace
                                        4 topics_pattern     string
                                        5 topics_hash        string    hash of the list that the client has; optional
    WATCH_TOPIC_LIST_SUCCESS            1 request_id         uint64
                                        2 watcher_id         uint64
                                        3 topic              string*   full names
                                        4 topics_hash        string    hash of the matching topics
    WATCH_TOPIC_UPDATE                  1 watcher_id         uint64    there is no request_id: the broker pushes it
                                        2 new_topics         string*
                                        3 deleted_topics     string*
                                        4 topics_hash        string    hash of the matching topics after the change
    WATCH_TOPIC_LIST_CLOSE              1 request_id         uint64
                                        2 watcher_id         uint64

`rules` has the rules that both sides share, `broker` the broker's side (`TopicListBroker`) and `client` the client's side
(`TopicListWatch`). All are synchronous and do no I/O. Sources: the text of PIP-145, and Apache Pulsar 4.2.4 as observed, which
settles what the text leaves open. Where the two contradict each other, a `TopicListProfile` selects one.
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
        Capability("topic-list-filter", "GET_TOPICS_OF_NAMESPACE with a pattern is answered with a hash", part="lists"),
        Capability("topic-list-watch", "feature flag supports_topic_watchers", flag="supports_topic_watchers", part="watchers"),
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
