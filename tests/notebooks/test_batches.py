"""Batches as notebooks make and read them."""

from __future__ import annotations

from conformance.notebooks.batches import meet, produced, received, send
from conformance.notebooks.live import Stage
from refimpl.proposals.uniform_batches import UniformBatchesProfile
from refimpl.wire import parse_payload

MESSAGES = [("m1", {"region": "eu"}), ("m2", {"region": "eu", "tag": "a"}), ("m3", {"region": "us"})]
SETTING = {"region": ["eu", "us"]}


def test_messages_are_put_together_and_accounted_for() -> None:
    made, stats = produced(MESSAGES, SETTING)
    assert [len(entry.queued) for entry in made] == [2, 1]
    assert (stats.messages, stats.entries) == (3, 2)
    assert stats.entry_bytes == sum(len(entry.payload) for entry in made)
    header = parse_payload(made[0].payload).metadata
    assert (header.num_messages_in_batch, [(one.key, one.value) for one in header.properties]) == (2, [("region", "eu")])


def test_without_a_setting_batches_are_as_ever() -> None:
    assert [len(entry.queued) for entry in produced(MESSAGES, {})[0]] == [3]
    assert [entry.is_batch for entry in produced(MESSAGES, {}, max_messages=1)[0]] == [False] * 3
    assert [entry.is_batch for entry in produced(MESSAGES, SETTING, profile=UniformBatchesProfile("java_single"))[0]] == [True, False]


def test_what_arrives_is_read_as_a_client_reads_it() -> None:
    stage = meet(Stage(), {})
    stage.say("flow", "c", consumer_id=1, messagePermits=10)
    send(stage, produced(MESSAGES, SETTING)[0])
    assert [(one.payload.decode(), dict(one.properties)) for one in received(stage.rows, "c")] == MESSAGES
    assert received(stage.rows, "p") == []


def test_the_subscription_has_the_properties_that_were_given() -> None:
    stage = meet(Stage(), {"entry-filter.region": "us"})
    send(stage, produced(MESSAGES, SETTING)[0])
    stage.say("flow", "c", consumer_id=1, messagePermits=10)
    assert [one.payload for one in received(stage.rows, "c")] == [b"m3"]
