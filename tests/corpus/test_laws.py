"""Every law can break: each law of each job is broken by a planted fault, and no fault names a law that does not exist."""

import importlib

import pytest

from conformance.corpus import jobs
from conformance.corpus.jobs.__main__ import RUNS

MODULES = {
    "round_trip": ["round_trip"],
    "conversations_hold": ["conversations"],
    "filtering_agrees": ["filtering", "delivering", "slices", "counted"],
    "hashes_agree": ["hashes", "counted"],
    "batches_agree": ["batching", "slices", "counted"],
    "replay_watches": ["replay"],
}
"""By job: which test modules plant faults, and show that they break just the laws that they name."""


def faults(name):
    modules = (importlib.import_module(f"tests.corpus.test_{one}_faults") for one in MODULES[name])
    return [fault for module in modules for fault in module.ALL_FAULTS]


def job(name):
    return importlib.import_module(f"{jobs.__name__}.{name}").JOB


@pytest.mark.parametrize("name", MODULES)
def test_each_law_is_broken_by_a_fault(name):
    assert {law for one in faults(name) for law in one.laws} == {law.name for law in job(name).laws}


@pytest.mark.parametrize("name", MODULES)
def test_laws_and_faults_have_names_of_their_own(name):
    laws, names = [law.name for law in job(name).laws], [one.name for one in faults(name)]
    assert len(set(laws)) == len(laws)
    assert [one for one in names if names.count(one) > 1 and one != "nothing is wrong"] == []


def test_all_jobs_are_there():
    assert set(MODULES) == {run.partition("-")[0] for run in RUNS}
