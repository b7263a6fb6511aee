import re

import pytest

from refimpl.proposals.message_filter import (
    BASIC_AVRO_FILTER,
    BYTES_PREFIX_FILTER,
    PREFIX_BASE64_KEY,
    PREFIX_KEY,
    REGEX_FILTER,
    REGEX_KEY,
    ConsumerFilter,
    EntryOutcome,
    FilterCounters,
    MessageFilterBroker,
    MessageFilterPolicy,
    MessageFilterState,
    SchemaAccess,
)
from refimpl.proposals.refused import Refused
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, FeatureFlags, NotAllowedError
from tests.samples.message_filter import EXAMPLE, avro, avro_payload, batch, entry, subscribe

OFFERED = FeatureFlags(supports_message_filter=True)
POLICY = MessageFilterPolicy.regex_filter_policy(EXAMPLE)
WITHOUT = [None, FeatureFlags(), FeatureFlags(supports_message_filter=False), FeatureFlags(supports_topic_watchers=True)]


def pairs(policy):
    meta = policy.filter_meta()
    return meta.filter_class_name, {pair.key: pair.value for pair in meta.filter_properties}


def test_policies():
    assert pairs(POLICY) == (REGEX_FILTER, {REGEX_KEY: EXAMPLE})
    assert MessageFilterPolicy.regex_filter_policy(re.compile(EXAMPLE)) == POLICY
    assert pairs(MessageFilterPolicy.bytes_prefix_filter_policy("é")) == (BYTES_PREFIX_FILTER, {PREFIX_KEY: "é"})
    assert pairs(MessageFilterPolicy.bytes_prefix_filter_policy("é".encode())) == (BYTES_PREFIX_FILTER, {PREFIX_KEY: "é"})
    assert pairs(MessageFilterPolicy.bytes_prefix_filter_policy(b"\xff\0")) == (BYTES_PREFIX_FILTER, {PREFIX_BASE64_KEY: "/wA="})
    assert pairs(MessageFilterPolicy.basic_avro_filter_policy({"a": "1", "b": "2"})) == (BASIC_AVRO_FILTER, {"a": "1", "b": "2"})
    assert pairs(MessageFilterPolicy("org.example.Other", {"k": "v"})) == ("org.example.Other", {"k": "v"})
    assert pairs(MessageFilterPolicy("org.example.Other")) == ("org.example.Other", {})


def test_a_policy_is_a_value():
    given = {"k": "v"}
    policy = MessageFilterPolicy("x", given)
    given["k"] = "w"
    assert policy == MessageFilterPolicy("x", {"k": "v"})
    with pytest.raises(ValueError, match="class name"):
        MessageFilterPolicy("")


@pytest.mark.parametrize("flags", [re.IGNORECASE, re.DOTALL, re.ASCII, re.VERBOSE])
def test_flags_of_a_pattern_are_not_dropped_silently(flags):
    with pytest.raises(ValueError, match="flags"):
        MessageFilterPolicy.regex_filter_policy(re.compile("a", flags))
    with pytest.raises(ValueError, match="flags"):
        MessageFilterPolicy.regex_filter_policy(re.compile("(?i)a"))


def test_private_numbers():
    request = subscribe()
    consumer = ConsumerFilter(POLICY)
    consumer.connected(OFFERED)
    consumer.prepare(request)
    meta = request.filter_meta.SerializeToString()
    assert meta.startswith(b"\x0a" + bytes([len(REGEX_FILTER)]) + REGEX_FILTER.encode() + b"\x12")
    assert request.SerializeToString().endswith(b"\xea\xdc\x03" + bytes([len(meta)]) + meta)  # 7629 << 3 | 2
    assert OFFERED.SerializeToString() == b"\xe8\xdc\x03\x01"  # 7629 << 3
    assert not request.subscription_properties


@pytest.mark.parametrize("flags", WITHOUT)
def test_without_the_flag_it_refuses_to_subscribe(flags):
    consumer = ConsumerFilter(POLICY)
    consumer.connected(flags)
    assert consumer.state is MessageFilterState.REFUSED
    with pytest.raises(Refused, match="no message filters") as caught:
        consumer.prepare(subscribe())
    assert caught.value.code == NotAllowedError
    assert consumer.judge(entry(b"no")) is None


@pytest.mark.parametrize("flags", WITHOUT)
def test_without_the_flag_it_filters_if_asked_to(flags):
    consumer = ConsumerFilter(POLICY, without_support="filter")
    consumer.connected(flags)
    request = subscribe()
    consumer.prepare(request)
    assert request == subscribe()
    assert consumer.judge(entry(b"30")).outcome is EntryOutcome.ACCEPT
    assert consumer.judge(entry(b"130")).outcome is EntryOutcome.REJECT
    judgement = consumer.judge(batch(b"30", b"no", b"31"), frozenset({1, 2}))
    assert (judgement.outcome, judgement.open_messages) == (EntryOutcome.PARTIAL, frozenset({2}))
    assert consumer.counters == FilterCounters(4, 2, 2, 0)


@pytest.mark.parametrize("without_support", ["refuse", "filter"])
def test_with_the_flag_the_broker_filters(without_support):
    consumer = ConsumerFilter(POLICY, without_support=without_support)
    consumer.connected(OFFERED)
    request = CommandSubscribe()
    consumer.prepare(request)
    assert request.filter_meta == POLICY.filter_meta()
    assert consumer.judge(entry(b"no")) is None
    assert consumer.counters == FilterCounters()


def test_each_connection_decides_anew():
    consumer = ConsumerFilter(POLICY, without_support="filter")
    states = [consumer.state]
    for flags in (OFFERED, None, OFFERED):
        consumer.connected(flags)
        states.append(consumer.state)
    consumer.disconnected()
    states.append(consumer.state)
    assert states == [
        MessageFilterState.OFFLINE,
        MessageFilterState.BROKER,
        MessageFilterState.CLIENT,
        MessageFilterState.BROKER,
        MessageFilterState.OFFLINE,
    ]
    with pytest.raises(Refused):
        consumer.prepare(subscribe())


def test_a_client_that_is_to_step_in_has_to_be_able_to():
    other = MessageFilterPolicy("org.example.Other")
    for policy in (other, MessageFilterPolicy.regex_filter_policy("["), MessageFilterPolicy.basic_avro_filter_policy({"state": "paid"})):
        consumer = ConsumerFilter(policy, without_support="filter")
        consumer.connected(OFFERED)
        consumer.prepare(subscribe())
        consumer.connected(None)
        with pytest.raises(Refused):
            consumer.prepare(subscribe())


def test_it_steps_in_for_avro():
    policy = MessageFilterPolicy.basic_avro_filter_policy({"state": "paid"})
    consumer = ConsumerFilter(policy, without_support="filter")
    consumer.connected(None)
    assert consumer.judge(entry(b"")) is None
    consumer.prepare(subscribe(), SchemaAccess(avro()))
    order = {"state": "paid", "amount": 1, "note": None, "kind": "BUY", "items": []}
    outcomes = [consumer.judge(entry(avro_payload(order | {"state": state}))).outcome for state in ("paid", "open")]
    assert outcomes == [EntryOutcome.ACCEPT, EntryOutcome.REJECT]


def test_what_a_client_sends_a_broker_takes():
    for policy in (POLICY, *map(MessageFilterPolicy.bytes_prefix_filter_policy, (b"", b"\xff", "é")), None):
        request = subscribe()
        if policy is not None:
            consumer = ConsumerFilter(policy)
            consumer.connected(OFFERED)
            consumer.prepare(request)
        requested = MessageFilterBroker().requested(request)
        assert requested is None if policy is None else dict(requested.properties) == dict(policy.properties)
