"""The broker's side of PR 7629, where no case can look: filters of others, and consumers without one."""

from refimpl.proposals.message_filter import (
    BUILT_IN,
    EntryJudgement,
    EntryOutcome,
    FilterCounters,
    FilterRegistry,
    MessageFilterBroker,
)
from tests.samples.message_filter import Subscription, batch, entry, meta, subscribe


def test_the_filter_in_force_is_the_first_one_built():
    built = []

    class Counting:
        def __init__(self, properties, schemas):
            built.append(self)
            self.asked = 0

        def matches(self, message):
            self.asked += 1
            return True

    subscription = Subscription(registry=FilterRegistry({**BUILT_IN, "x.Counting": Counting}))
    for consumer in "ab":
        subscription.subscribe(consumer, subscribe(meta("x.Counting")))
    subscription.leave("a")
    subscription.flow("b", 5)
    subscription.publish(entry(b"x"))
    assert [one.asked for one in built] == [1, 0]


def test_a_consumer_without_a_filter_is_counted_nowhere():
    subscription = MessageFilterBroker().subscription()
    subscription.joined("c", None)
    open_messages = frozenset({1})
    assert subscription.judge("c", batch(b"a", b"b"), open_messages) == EntryJudgement(EntryOutcome.ACCEPT, open_messages)
    assert subscription.judge("unknown", entry(b"a")) == EntryJudgement(EntryOutcome.ACCEPT)
    assert subscription.counters == FilterCounters()
