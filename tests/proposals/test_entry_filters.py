"""The broker's side of PIP-191: filters that see the header of an entry and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.proposals.refused import Refused
from refimpl.proposals.uniform_batches import (
    BUILT_IN,
    EntryVerdict,
    SubscriptionEntryFilters,
    filters_of,
)
from refimpl.wire.pulsar_api_pb2 import NotAllowedError
from tests.samples.uniform_batches import asked, plain_entry

ACCEPT, REJECT, RESCHEDULE = EntryVerdict.ACCEPT, EntryVerdict.REJECT, EntryVerdict.RESCHEDULE
EU = {"entry-filter.region": "eu"}
STRICT = {"entry-filter-missing": "reject"}


class Says:
    """A filter that answers in turn, and raises what is an exception."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    def judge(self, context):
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


def judged(properties, data, messages=1):
    return asked(SubscriptionEntryFilters(filters_of(properties)), 0, data, messages, 0.0)


# Subscription properties


@pytest.mark.parametrize("properties", [STRICT, {"entry-filters.region": "eu"}, {"Entry-Filter.region": "eu"}])
def test_without_its_properties_there_is_no_filter(properties):
    assert filters_of(properties) == {}


def test_a_stored_subscription_with_unusable_properties_delivers_everything():
    log = []
    one = SubscriptionEntryFilters.restored({"entry-filter.": "eu"}, log=log.append)
    assert one.active
    assert [asked(one, index, plain_entry(), 2, 0.0) for index in range(3)] == [ACCEPT] * 3
    assert (one.counts.processed, one.counts.accepted, one.counts.failed) == (6, 6, 6)
    assert len(log) == 1
    assert "lacks the name" in log[0]


def test_a_stored_subscription_with_good_properties_is_filtered():
    assert asked(SubscriptionEntryFilters.restored(EU), 0, plain_entry({"region": "us"}), 1, 0.0) is REJECT
    assert not SubscriptionEntryFilters.restored({}).active


# Properties of the header


# Any filters


def test_filters_of_others_are_asked_in_their_order_until_one_does_not_accept():
    first, second, third = Says(ACCEPT), Says(REJECT), Says(RESCHEDULE)
    one = SubscriptionEntryFilters({"a": first, "b": second, "c": third})
    assert asked(one, 0, plain_entry(), 1, 0.0) is REJECT
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)


def test_a_factory_sees_the_properties_once_and_may_decline():
    seen = []
    other = Says(None)

    def factory(properties):
        seen.append(dict(properties))
        return other if "other" in properties else None

    factories = {**BUILT_IN, "Other": factory}
    assert list(filters_of(EU | {"other": ""}, factories)) == ["PropertyEntryFilter", "Other"]
    assert list(filters_of(EU, factories)) == ["PropertyEntryFilter"]
    one = SubscriptionEntryFilters(filters_of({"other": ""}, factories))
    assert asked(one, 0, plain_entry(), 1, 0.0) is ACCEPT
    assert asked(one, 0, plain_entry(), 1, 0.0) is ACCEPT
    assert (other.asked, len(seen)) == (2, 3)


def test_a_factory_that_raises_refuses_the_subscription():
    def factory(properties):
        raise KeyError("colour")

    with pytest.raises(Refused, match="Entry filter Paint: 'colour'") as refused:
        filters_of({}, {"Paint": factory})
    assert refused.value.code == NotAllowedError


@pytest.mark.parametrize("answer", [RuntimeError("no"), KeyError(), AssertionError(), "REJECT", False])
def test_a_filter_that_fails_delivers_counts_and_goes_on(answer):
    log = []
    last = Says(REJECT)
    one = SubscriptionEntryFilters({"first": Says(answer, answer, REJECT), "last": last}, log=log.append)
    assert asked(one, 0, plain_entry(), 3, 0.0) is ACCEPT
    assert asked(one, 1, plain_entry(), 1, 0.0) is ACCEPT
    assert asked(one, 2, plain_entry(), 5, 0.0) is REJECT
    assert last.asked == 0
    assert one.counts.stats() == {
        "filterProcessedMsgCount": 9,
        "filterAcceptedMsgCount": 4,
        "filterRejectedMsgCount": 5,
        "filterRescheduledMsgCount": 0,
        "filterFailedMsgCount": 4,
    }
    assert len(log) == 1
    assert "first" in log[0]
    assert "\n" not in log[0]


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x09", plain_entry()[:12], b"\x00\x00\x00\x01\x07"])
def test_an_entry_whose_header_cannot_be_read_is_delivered(data):
    log = []
    one = SubscriptionEntryFilters(filters_of(EU | STRICT), log=log.append)
    assert asked(one, 0, data, 1, 0.0) is ACCEPT
    assert one.counts.failed == one.counts.accepted == 1
    assert len(log) == 1


def test_a_filter_that_edits_the_header_spoils_nothing():
    class Edits:
        def judge(self, context):
            context.metadata.properties.clear()

    data = plain_entry({"region": "us"})
    assert asked(SubscriptionEntryFilters({"edits": Edits(), **filters_of(EU)}), 0, data, 1, 0.0) is ACCEPT
    assert judged(EU, data) is REJECT


# RESCHEDULE


def test_an_entry_that_is_put_off_is_due_after_a_second_again_and_again():
    one = SubscriptionEntryFilters({"slow": Says(RESCHEDULE, RESCHEDULE, RESCHEDULE, ACCEPT)})
    now = 5.0
    for _ in range(3):
        assert asked(one, 7, plain_entry(), 2, now) is RESCHEDULE
        assert one.next_deadline() == now + 1.0
        assert one.due(now + 0.999) == []
        now += 1.0
        assert one.due(now) == [7]
        assert one.due(now) == []
        assert one.next_deadline() is None
    assert asked(one, 7, plain_entry(), 2, now) is ACCEPT
    assert (one.counts.processed, one.counts.accepted, one.counts.rescheduled) == (8, 2, 6)


def test_each_entry_waits_for_itself():
    one = SubscriptionEntryFilters({"slow": Says(RESCHEDULE)}, delay=0.25)
    for index, now in ((9, 0.0), (1, 0.1), (4, 0.2)):
        asked(one, index, plain_entry(), 1, now)
    assert one.next_deadline() == 0.25
    assert one.due(0.36) == [9, 1]
    asked(one, 9, plain_entry(), 1, 0.4)
    assert one.next_deadline() == 0.45
    assert one.due(10.0) == [4, 9]


def test_an_entry_that_is_put_off_while_it_waits_waits_once_and_anew():
    one = SubscriptionEntryFilters({"slow": Says(RESCHEDULE)})
    for index, now in ((0, 0.0), (1, 0.1), (0, 0.2)):
        asked(one, index, plain_entry(), 1, now)
    assert one.next_deadline() == 1.1
    assert one.due(1.15) == [1]
    assert one.due(1.2) == [0]


def test_reset_forgets_what_waits():
    one = SubscriptionEntryFilters({"slow": Says(RESCHEDULE)})
    asked(one, 0, plain_entry(), 1, 0.0)
    one.reset()
    assert one.next_deadline() is None
    assert one.due(10.0) == []
    assert one.counts.rescheduled == 1


# Whatever comes


HEADERS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2", "3", ""]), max_size=3)
WANTED = st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from(["1", "2", ""]), min_size=1, max_size=3), max_size=3)


@given(WANTED, HEADERS, st.booleans())
def test_the_rule_in_one_line(wanted, header, strict):
    properties = {f"entry-filter.{name}": ",".join(values) for name, values in wanted.items()}
    verdict = judged(properties | (STRICT if strict else {}), plain_entry(header))
    fits = all(header[name] in values if name in header else not strict for name, values in wanted.items())
    assert verdict is (ACCEPT if fits else REJECT)


@given(st.lists(st.tuples(st.sampled_from([*EntryVerdict, None, RuntimeError("x")]), st.integers(1, 9)), min_size=1))
def test_every_message_is_counted_once(rows):
    one = SubscriptionEntryFilters({"says": Says(*(answer for answer, _ in rows))})
    for index, (_, messages) in enumerate(rows):
        asked(one, index, plain_entry(), messages, 0.0)
    counts = one.counts
    assert counts.processed == sum(messages for _, messages in rows) == counts.accepted + counts.rejected + counts.rescheduled
    assert counts.failed == sum(messages for answer, messages in rows if isinstance(answer, Exception))
    assert len(one.due(1.0)) == sum(answer is RESCHEDULE for answer, _ in rows)
