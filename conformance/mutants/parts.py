"""Parts of a broker that mutants reach for: the state machines of proposals, and what judges the entries of a subscription."""

from __future__ import annotations

from refimpl.broker import Broker
from refimpl.broker.filtering import SubscriptionFilters
from refimpl.proposals.message_filter import MessageFilterBroker, MessageFilterExtension, SubscriptionMessageFilter
from refimpl.proposals.message_filter.broker import PayloadJudge
from refimpl.proposals.partition_watch import PartitionWatchBroker, PartitionWatchExtension
from refimpl.proposals.scalable_topics import ScalableTopicsExtension
from refimpl.proposals.topic_list import TopicListBroker, TopicListExtension
from refimpl.proposals.uniform_batches import SubscriptionEntryFilters
from refimpl.proposals.uniform_batches.broker import HeaderJudge


def topic_lists(broker: Broker) -> TopicListBroker:
    """Return the watchers of topic lists."""
    return broker.extension(TopicListExtension).lists


def partition_watches(broker: Broker) -> PartitionWatchBroker:
    """Return the watchers of numbers of partitions."""
    return broker.extension(PartitionWatchExtension).watches


def scalable_of(broker: Broker) -> ScalableTopicsExtension:
    """Return the scalable topics, and who watches them."""
    return broker.extension(ScalableTopicsExtension)


def message_filters(broker: Broker) -> MessageFilterBroker:
    """Return what builds message filters."""
    return broker.extension(MessageFilterExtension).filters


def entry_filters(filters: SubscriptionFilters) -> SubscriptionEntryFilters:
    """Return the entry filters of a subscription."""
    return next(judge.filters for judge in filters.judges.values() if isinstance(judge, HeaderJudge))


def message_filter_of(filters: SubscriptionFilters) -> SubscriptionMessageFilter:
    """Return the message filters of a subscription."""
    return next(judge.message_filter for judge in filters.judges.values() if isinstance(judge, PayloadJudge))
