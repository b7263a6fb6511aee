"""The rules of PIP-247 that both sides use."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.backoff import delay
from refimpl.proposals.partition_watch import AS_WRITTEN, DEFAULT, PROFILES, ResultJudgement
from refimpl.proposals.partition_watch.rules import count_in_force, judge_result, largest_frame, next_version, resend_delay
from refimpl.wire import encode_frame, wrap
from refimpl.wire.pulsar_api_pb2 import CommandPartitionUpdate, CommandWatchPartitionUpdateSuccess

U64 = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("in_flight", "version", "success", "judgement"),
    [
        pytest.param(5, 4, True, ResultJudgement.LATE, id="pip247.result.lower"),
        pytest.param(5, 4, False, ResultJudgement.LATE, id="pip247.result.lower-failure"),
        pytest.param(5, 0, True, ResultJudgement.LATE, id="pip247.result.lower-zero"),
        pytest.param(5, 5, True, ResultJudgement.DONE, id="pip247.result.success"),
        pytest.param(5, 5, False, ResultJudgement.FAILED, id="pip247.result.failure"),
        pytest.param(5, 6, True, ResultJudgement.UNEXPECTED, id="pip247.result.higher"),
        pytest.param(5, 2**64 - 1, False, ResultJudgement.UNEXPECTED, id="pip247.result.higher-failure"),
        pytest.param(None, 5, True, ResultJudgement.UNEXPECTED, id="pip247.result.nothing-in-flight"),
        pytest.param(None, 0, False, ResultJudgement.UNEXPECTED, id="pip247.result.nothing-in-flight-zero"),
    ],
)
def test_judgement(in_flight, version, success, judgement):
    assert judge_result(in_flight, version, success=success) is judgement


@given(st.none() | U64, U64, st.booleans())
def test_only_the_version_in_flight_has_consequences(in_flight, version, success):
    matters = judge_result(in_flight, version, success=success) in (ResultJudgement.DONE, ResultJudgement.FAILED)
    assert matters == (version == in_flight)


def test_delays_pip247_result_failure_backoff():
    assert [resend_delay(n, 10.0) for n in range(1, 10)] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]
    assert {resend_delay(n, 10.0, AS_WRITTEN) for n in range(1, 100)} == {0.0}  # pip247.result.failure-at-once


@given(st.integers(1, 10_000), st.floats(0.001, 1e6))
def test_delays_grow_up_to_the_longest(attempts, longest):
    assert 0 < delay(attempts, longest=longest) <= delay(attempts + 1, longest=longest) <= longest
    assert resend_delay(attempts, longest) <= resend_delay(attempts + 1, longest) <= longest


def test_versions():
    each = replace(DEFAULT, resend_version="each")
    assert next_version(0, is_different=True) == 1  # pip247.version.from-one
    assert [next_version(4, is_different=True, profile=profile) for profile in (DEFAULT, AS_WRITTEN, each)] == [5, 5, 5]
    assert [next_version(4, is_different=False, profile=profile) for profile in (DEFAULT, AS_WRITTEN, each)] == [4, 4, 5]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_counts_never_shrink_pip247_client_shrinking(known, told):
    assert count_in_force(known, told) >= known
    assert count_in_force(known, told) in (known, told)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=200) | st.just("x" * 20_000), max_size=5))
def test_no_frame_is_larger_than_foreseen_pip247_watch_too_large(topics):
    pairs = [{"topic": topic, "partition": 2**32 - 1} for topic in topics]
    largest = 2**64 - 1
    update = CommandPartitionUpdate(version=largest, watcher_id=largest, topic_with_partition=pairs)
    success = CommandWatchPartitionUpdateSuccess(request_id=largest, watcher_id=largest, topic_with_partition=pairs)
    sizes = [len(encode_frame(wrap(message))) for message in (update, success)]
    assert largest_frame(topics) - 64 <= max(sizes) <= largest_frame(topics)


def test_profiles():
    assert dict(PROFILES) == {"default": DEFAULT, "as-written": AS_WRITTEN}
    assert {field.name for field in fields(DEFAULT) if getattr(DEFAULT, field.name) != getattr(AS_WRITTEN, field.name)} == {
        "failed_result",
        "reconciles",
    }
