"""Brokers that announce topics which the pattern does not match, or miss some that it does."""

import re
from collections.abc import Hashable
from urllib.parse import quote

import re2

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session
from refimpl.indexes.topic_patterns import PatternIndex, TopicsPattern, compile_pattern
from refimpl.names import namespace_of
from refimpl.proposals import topic_list
from refimpl.proposals.topic_list import TopicListBroker
from refimpl.proposals.topic_list.rules import matched_name
from refimpl.wire.pulsar_api_pb2 import CommandWatchTopicList, CommandWatchTopicUpdate

Updates = list[tuple[Hashable, CommandWatchTopicUpdate]]


@mutant("pip145.watch.namespace-only")
def looks_beyond_the_namespace(patches: Patches) -> None:
    """A pattern that begins with a tenant is told of topics of all namespaces that it matches."""
    announce = TopicListBroker._announce

    def changed(lists: TopicListBroker, topic: str, *, is_new: bool) -> Updates:
        updates = announce(lists, topic, is_new=is_new)
        name = matched_name(topic)
        for namespace, index in lists._indexes.items():
            for text in index.matching(name) if namespace != namespace_of(topic) and topic.startswith("persistent") else ():
                if text.startswith(name.split("/")[0]):
                    selection = lists._selections[namespace][text]
                    for connection, watcher_id in selection.watchers:
                        update = CommandWatchTopicUpdate(watcher_id=watcher_id, topics_hash=selection.topics.hash)
                        (update.new_topics if is_new else update.deleted_topics).append(topic)
                        updates.append((connection, update))
        return updates

    patches.replace(TopicListBroker, "_announce", changed)


@mutant("pip145.watch.scheme-in-pattern")
def finds_a_domain_at_the_very_beginning_only(patches: Patches) -> None:
    r"""A topic domain that stands behind `^` or `\Q` is taken for a part of the name."""
    watched_pattern = TopicListBroker._watched_pattern

    def changed(lists: TopicListBroker, request: CommandWatchTopicList) -> TopicsPattern:
        pattern = watched_pattern(lists, request)
        hidden = "://" in request.topics_pattern and not request.topics_pattern.startswith(("persistent://", "non-persistent://"))
        return compile_pattern(request.topics_pattern) if hidden else pattern

    patches.replace(TopicListBroker, "_watched_pattern", changed)


@mutant("pip145.watch.partition-suffix")
def takes_a_word_for_the_number_of_a_partition(patches: Patches) -> None:
    """A new topic that is called x-partition-WORD is matched as if it were called x."""
    patches.replace(topic_list, "matched_name", lambda topic: re.sub(r"-partition-\w+$", "", topic).partition("://")[2])


@mutant("pip145.watch.system-topics")
def takes_two_underscores_for_a_system_topic(patches: Patches) -> None:
    """No topic whose name begins with two underscores is announced."""
    patches.replace(topic_list, "is_system_topic", lambda topic: topic.rsplit("/", 1)[-1].startswith("__"))


@mutant("pip145.watch.unicode")
def announces_names_as_the_store_spells_them(patches: Patches) -> None:
    """New topics are announced in percent encoding."""

    def change(_: Session, update: CommandWatchTopicUpdate) -> None:
        update.new_topics[:] = [quote(topic, safe="/:") for topic in update.new_topics]

    patches.outgoing(CommandWatchTopicUpdate, change)


@mutant("pip145.update.only-matching")
def announces_what_a_pattern_fits_at_the_beginning(patches: Patches) -> None:
    """A pattern that is more than a name or the beginning of names is told of longer names, too."""
    matching = PatternIndex.matching

    def changed(index: PatternIndex, name: str) -> list[str]:
        others = [text for text, pattern in index._patterns.items() if not pattern.whole and not pattern.open_end]
        return list({*matching(index, name), *(text for text in others if re2.match(text, name))})

    patches.replace(PatternIndex, "matching", changed)
