"""What notebooks about message filters say and count is what the broker does."""

from __future__ import annotations

import pytest

from conformance.notebooks.filtering import acknowledge, batch, built, cost, flow, matches, meet, produce, single, stats, subscribe
from conformance.notebooks.live import Stage
from refimpl.proposals.message_filter import MessageFilterPolicy

DIGIT = MessageFilterPolicy.regex_filter_policy("[0-9]")
ENTRIES = [single("1"), single("x"), batch(["2", "y", "3"]), batch(["4", "5"], "LZ4"), batch(["z"])]


@pytest.mark.parametrize("policy", [None, DIGIT], ids=["everything", "filtered"])
def test_the_cost_is_what_the_broker_sends(policy: MessageFilterPolicy | None) -> None:
    stage = meet(Stage(), policy)
    produce(stage, *ENTRIES)
    came = flow(stage, 100)
    counted = cost(ENTRIES, None if policy is None else built(policy))
    assert sum(len(one.messages) for one in came) == counted.messages
    assert (sum(len(one.wanted) for one in came) if policy else 0) == counted.wanted
    assert sum(one.size for one in came) == counted.size


def test_deliveries_show_what_is_open() -> None:
    stage = meet(Stage(), DIGIT)
    produce(stage, *ENTRIES)
    came = flow(stage, 100)
    assert [(one.entry, one.wanted, one.ack_set) for one in came] == [(0, ["1"], []), (2, ["2", "3"], [0b101]), (3, ["4", "5"], [])]
    acknowledge(stage, [one.entry for one in came])
    assert stats(stage, "msgBacklog", "messageFilterRejectedMsgCount", "availablePermits") == [0, 3, 95]


def test_a_refusal_is_named() -> None:
    stage = meet(Stage())
    assert subscribe(stage, DIGIT, consumer_id=2, subType="Shared") == "ConsumerBusy"
    assert subscribe(stage, MessageFilterPolicy("none"), consumer_id=2, subscription="other") == "NotAllowedError"


def test_a_payload_alone() -> None:
    assert matches(DIGIT, b"7")
    assert not matches(DIGIT, b"77")
