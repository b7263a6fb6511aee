"""Answers of the admin interface that leave out what is 0, false or empty."""

import pytest

from conformance.engine.verdict import Verdict


def reading(expect):
    return f"""
steps:
  - read: {{topic_stats: x}}
    expect: {expect}
    clause: test.two
"""


@pytest.mark.parametrize(
    ("expect", "body"),
    [
        ("{backlog: 0}", {}),
        ("{publishers: []}", {"more": 1}),
        ("{subscriptions: {s: {backlog: 0, blocked: false}}}", {"subscriptions": {"s": {}}}),
        ("{subscriptions: {s: {$absent: true}}}", {}),
        ("{subscriptions: {s: {backlog: {$in: [1, 0]}}}}", {"subscriptions": {"s": {}}}),
        ("{publishers: [{count: 0}, {count: 2}]}", {"publishers": [{}, {"count": 2}]}),
    ],
)
def test_what_is_empty_may_be_left_out(play, expect, body):
    assert play(reading(expect), [("read", body)]).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("expect", "body"),
    [
        ("{backlog: 1}", {}),
        ("{subscriptions: {s: {backlog: 0}}}", {}),  # the subscription itself is missing
        ("{subscriptions: {s: {backlog: 0}}}", {"subscriptions": {}}),
        ("{backlog: {$any: true}}", {}),
        ("{backlog: {$in: [1, 2]}}", {}),
        ("{publishers: []}", {"publishers": [{}]}),
    ],
)
def test_nothing_else_may_be(play, expect, body):
    assert play(reading(expect), [("read", body)]).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "body",
    [
        {"brokerUrl": "pulsar://b:1", "brokerUrlTls": "pulsar+ssl://b:2"},
        {"brokerUrl": "pulsar://b:1", "brokerUrlTls": None},
        {"brokerUrl": None, "brokerUrlTls": "pulsar://b:1"},
        {"brokerUrlTls": "pulsar://b:1"},
    ],
)
def test_a_look_up_names_the_address_with_tls_if_there_is_no_other(play, body):
    steps = """
steps:
  - read: {look_up: "persistent://public/default/t"}
    expect: {brokerUrl: "pulsar://b:1"}
    clause: test.two
"""
    assert play(steps, [("read", body)]).verdict is Verdict.PASS
