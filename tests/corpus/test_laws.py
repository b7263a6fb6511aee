"""Every law can break: each law of each job is broken by a planted fault, and no fault names a law that does not exist."""

import importlib

import pytest

from conformance.corpus import jobs
from conformance.corpus.jobs.__main__ import RUNS
from tests.corpus import (
    test_batching_faults,
    test_delivering_faults,
    test_filtering_faults,
    test_hashes_faults,
    test_replay_faults,
    test_round_trip_faults,
)

FAULTS = {
    "round_trip": test_round_trip_faults.ALL_FAULTS,
    "filtering_agrees": (*test_filtering_faults.ALL_FAULTS, *test_delivering_faults.ALL_FAULTS),
    "hashes_agree": test_hashes_faults.ALL_FAULTS,
    "batches_agree": test_batching_faults.ALL_FAULTS,
    "replay_watches": test_replay_faults.ALL_FAULTS,
}
"""By job. Each of these modules plants its faults and shows that they break just the laws that they name."""


def job(name):
    return importlib.import_module(f"{jobs.__name__}.{name}").JOB


@pytest.mark.parametrize("name", FAULTS)
def test_each_law_is_broken_by_a_fault(name):
    assert {law for one in FAULTS[name] for law in one.laws} == {law.name for law in job(name).laws}


@pytest.mark.parametrize("name", FAULTS)
def test_laws_and_faults_have_names_of_their_own(name):
    laws, faults = [law.name for law in job(name).laws], [one.name for one in FAULTS[name]]
    assert len(set(laws)) == len(laws)
    assert [one for one in faults if faults.count(one) > 1 and one != "nothing is wrong"] == []


def test_all_jobs_are_there():
    assert set(FAULTS) == {run.partition("-")[0] for run in RUNS}
