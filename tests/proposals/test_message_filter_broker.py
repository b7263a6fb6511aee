import pytest

from refimpl.proposals.message_filter import (
    AS_WRITTEN,
    BASIC_AVRO_FILTER,
    BUILT_IN,
    REGEX_FILTER,
    REGEX_KEY,
    EntryJudgement,
    EntryOutcome,
    FilterCounters,
    FilterRegistry,
    MessageFilterBroker,
    SchemaAccess,
)
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import ZLIB, ConsumerBusy, EncryptionKeys, FeatureFlags, NotAllowedError
from tests.samples.message_filter import RECORD, Subscription, avro, avro_payload, batch, entry, meta, subscribe

OTHER = meta(REGEX_FILTER, (REGEX_KEY, ".*"))


def numbers(subscription, consumer):
    return [index for index, _ in subscription.sent[consumer]]


def test_it_sets_its_flag_and_no_other():
    flags = FeatureFlags()
    MessageFilterBroker().advertise(flags)
    assert flags == FeatureFlags(supports_message_filter=True)


# The example of the text: 0 to 100, [3-5][0-9]


def example(**arguments):
    subscription = Subscription(**arguments)
    subscription.subscribe("c", subscribe(meta()))
    for number in range(101):
        subscription.publish(entry(str(number).encode()))
    return subscription


@pytest.mark.parametrize("profile", [{}, {"profile": AS_WRITTEN}])
def test_the_example_gives_30_to_59_and_then_nothing(profile):
    subscription = example(**profile)
    assert subscription.backlog == list(range(101))
    subscription.flow("c", 1000)
    assert numbers(subscription, "c") == list(range(30, 60))
    assert subscription.permits["c"] == 970
    assert subscription.backlog == list(range(30, 60))
    for index in range(30, 60):
        subscription.acknowledge(index)
    assert subscription.backlog == []
    assert subscription.cursor.mark_delete == 101
    assert subscription.filter.counters == FilterCounters(processed=101, accepted=30, rejected=71)


def test_the_example_tells_a_full_match_from_a_find():
    subscription = example()
    for text in ("130", "x30", "30x", "30"):
        subscription.publish(entry(text.encode()))
    subscription.flow("c", 1000)
    assert numbers(subscription, "c") == [*range(30, 60), 104]


def test_the_example_with_30_permits_leaves_41_unjudged():
    subscription = example()
    subscription.flow("c", 30)
    assert numbers(subscription, "c") == list(range(30, 60))
    for index in range(30, 60):
        subscription.acknowledge(index)
    assert subscription.backlog == list(range(60, 101))
    assert subscription.filter.counters.processed == 60
    subscription.flow("c", 1)
    assert subscription.backlog == []
    assert subscription.permits["c"] == 1


def test_the_example_in_batches():
    subscription = Subscription()
    subscription.subscribe("c", subscribe(meta()))
    for start in range(0, 101, 7):
        subscription.publish(batch(*(str(number).encode() for number in range(start, min(start + 7, 101))), compression=ZLIB))
    subscription.flow("c", 1000)
    sent = subscription.sent["c"]
    # 28..34 and 56..62 in part, 35..55 as they are
    assert sent == [(4, frozenset(range(2, 7))), (5, None), (6, None), (7, None), (8, frozenset(range(4)))]
    assert subscription.permits["c"] == 970
    assert subscription.filter.counters == FilterCounters(processed=101, accepted=30, rejected=71)


# SUBSCRIBE


def refusal(request, schemas=None, **arguments):
    with pytest.raises(Refused) as caught:
        MessageFilterBroker(**arguments).requested(request, *() if schemas is None else (schemas,))
    return caught.value


def test_without_a_filter_nothing_is_built():
    assert MessageFilterBroker().requested(subscribe()) is None


def test_a_bad_filter_is_refused():
    for filter_meta, word in (
        (meta("x.Y"), "x.Y"),
        (meta(REGEX_FILTER, ("k", "v")), "'k'"),
        (meta(REGEX_FILTER, (REGEX_KEY, "(")), REGEX_KEY),
    ):
        refused = refusal(subscribe(filter_meta))
        assert refused.code == NotAllowedError
        assert word in refused.message


def test_the_schema_comes_from_subscribe_or_from_the_topic():
    by_state = meta(BASIC_AVRO_FILTER, ("state", "paid"))
    payload = entry(avro_payload({"state": "paid", "amount": 1, "note": None, "kind": "BUY", "items": []}))
    broker = MessageFilterBroker()
    assert refusal(subscribe(by_state)).code == NotAllowedError
    assert refusal(subscribe(by_state), SchemaAccess()).code == NotAllowedError
    numbers_only = avro({"type": "record", "name": "R", "fields": [{"name": "state", "type": "int"}]})
    for request, schemas, expected in (
        (subscribe(by_state, avro()), SchemaAccess(), EntryOutcome.ACCEPT),
        (subscribe(by_state), SchemaAccess(avro()), EntryOutcome.ACCEPT),
        (subscribe(by_state, avro()), SchemaAccess(numbers_only), EntryOutcome.ACCEPT),
        (subscribe(by_state, numbers_only), SchemaAccess(avro()), EntryOutcome.REJECT),
    ):
        subscription = broker.subscription()
        subscription.joined("c", broker.requested(request, schemas))
        assert subscription.judge("c", payload).outcome is expected
    recursive = RECORD | {"fields": [{"name": "state", "type": "string"}, {"name": "next", "type": ["null", "shop.Order"]}]}
    assert "recursive" in refusal(subscribe(by_state, avro(recursive))).message


def test_versions_of_the_topic_count_also_with_a_schema_in_subscribe():
    broker = MessageFilterBroker()
    asked = []
    request = subscribe(meta(BASIC_AVRO_FILTER, ("state", "paid")), avro())
    subscription = broker.subscription()
    subscription.joined("c", broker.requested(request, SchemaAccess(None, asked.append)))
    assert subscription.judge("c", entry(b"", schema_version=b"\0")).undecidable == 1
    assert asked == [b"\0"]


# One filter per subscription, or per consumer


def joins(subscription, consumer, filter_meta):
    """Tell whether a consumer may join; the only other answer is ConsumerBusy."""
    codes = []
    try:
        subscription.subscribe(consumer, subscribe(filter_meta))
    except Refused as refused:
        codes.append(refused.code)
    assert codes in ([], [ConsumerBusy])
    return not codes


def test_all_consumers_carry_the_same_filter():
    subscription = Subscription()
    assert joins(subscription, "a", meta())
    assert joins(subscription, "b", meta())
    assert not joins(subscription, "c", OTHER)
    assert not joins(subscription, "c", None)
    subscription.leave("a")
    assert not joins(subscription, "c", OTHER)
    subscription.leave("b")
    assert joins(subscription, "c", OTHER)
    assert not joins(subscription, "a", meta())


def test_a_subscription_without_a_filter_takes_none():
    subscription = Subscription()
    assert joins(subscription, "a", None)
    assert joins(subscription, "b", None)
    assert not joins(subscription, "c", meta())
    subscription.leave("a")
    subscription.leave("b")
    assert joins(subscription, "c", meta())


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
        assert joins(subscription, consumer, meta("x.Counting"))
    subscription.leave("a")
    subscription.flow("b", 5)
    subscription.publish(entry(b"x"))
    assert [one.asked for one in built] == [1, 0]


def test_a_changed_filter_judges_what_is_left():
    subscription = example()
    subscription.flow("c", 30)
    subscription.leave("c")
    assert joins(subscription, "c", meta(REGEX_FILTER, (REGEX_KEY, "59|7.")))
    subscription.flow("c", 1000)
    assert numbers(subscription, "c") == [59, *range(70, 80)]
    assert subscription.filter.counters.processed == 60 + 71


def test_letter_each_consumer_has_its_own():
    subscription = Subscription(profile=AS_WRITTEN)
    for consumer, filter_meta in (("a", meta()), ("b", meta(REGEX_FILTER, (REGEX_KEY, "9."))), ("c", None)):
        assert joins(subscription, consumer, filter_meta)
    for data, expected in ((entry(b"30"), "ac"), (entry(b"99"), "bc"), (entry(b"x"), "c")):
        judged = {consumer: subscription.filter.judge(consumer, data).outcome for consumer in "abc"}
        assert "".join(consumer for consumer, found in judged.items() if found is EntryOutcome.ACCEPT) == expected
    subscription.flow("a", 10)  # who has permits decides, and what it rejects is gone for the others
    subscription.publish(entry(b"99"))
    subscription.flow("b", 10)
    assert subscription.sent["b"] == []
    assert subscription.backlog == []


# What is counted


def test_a_consumer_without_a_filter_is_counted_nowhere():
    subscription = MessageFilterBroker().subscription()
    subscription.joined("c", None)
    open_messages = frozenset({1})
    assert subscription.judge("c", batch(b"a", b"b"), open_messages) == EntryJudgement(EntryOutcome.ACCEPT, open_messages)
    assert subscription.judge("unknown", entry(b"a")) == EntryJudgement(EntryOutcome.ACCEPT)
    assert subscription.counters == FilterCounters()


def test_what_cannot_be_judged_costs_permits_and_is_counted():
    subscription = Subscription()
    subscription.subscribe("c", subscribe(meta()))
    subscription.flow("c", 10)
    subscription.publish(batch(b"a", b"b", encryption_keys=[EncryptionKeys(key="k", value=b"v")]))
    subscription.publish(entry(b"a", num_chunks_from_msg=3))
    assert numbers(subscription, "c") == [0, 1]
    assert subscription.permits["c"] == 7
    assert subscription.filter.counters == FilterCounters(processed=3, undecidable=3)


def test_a_redelivered_entry_is_judged_again_without_what_was_rejected():
    subscription = Subscription()
    subscription.subscribe("a", subscribe(meta()))
    subscription.subscribe("b", subscribe(meta()))
    subscription.flow("a", 10)
    subscription.publish(batch(b"30", b"no", b"31"))
    subscription.flow("b", 10)
    subscription.leave("a")
    assert subscription.sent["b"] == [(0, frozenset({0, 2}))]
    assert subscription.filter.counters == FilterCounters(processed=5, accepted=4, rejected=1)


def test_size_limit_is_the_brokers():
    broker = MessageFilterBroker(max_message_size=10)
    subscription = broker.subscription()
    subscription.joined("c", broker.requested(subscribe(meta())))
    assert subscription.judge("c", entry(b"0" * 11, ZLIB)).undecidable == 1
    assert subscription.judge("c", entry(b"0" * 10, ZLIB)).rejected == 1
