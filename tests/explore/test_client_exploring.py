"""Exploration plays the broker for clients: the reference client and legal variants are left alone, faulty ones are found, and what is found runs again."""

import asyncio
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.cli import app
from conformance.clients.faults.find import load_faults
from conformance.clients.in_process import MemoryDriver
from conformance.clients.known import IN_PROCESS
from conformance.clients.runner import run_clients
from conformance.clients.variants.run import load_client_variants
from conformance.explore.client_explorer import ExploredClient, explore_client
from conformance.explore.explorer import Plan
from conformance.judging.results import judge_log
from conformance.running.runner import Options, Silent
from conformance.suite import Suite, load_suite
from refimpl.net.virtual_time import VirtualTimeLoop

FOUND = {"ends_with_a_closed_producer": None, "acknowledges_what_is_still_to_come": "core.client.acks-delivered"}
"""Faults of clients, and the clauses that are named."""


def explored(suite: Suite, scenarios: int, around=nullcontext, seed: int = 7) -> ExploredClient:
    with around():
        return explore_client(suite, IN_PROCESS, Plan(scenarios=scenarios, seed=seed, shrinking=3))


@pytest.mark.parametrize("variant", [None, "gathers_acknowledgements"])
def test_right_clients_are_left_alone(suite: Suite, variant: str | None) -> None:
    found = explored(suite, 16, load_client_variants()[variant].applied if variant else nullcontext)
    assert (list(found.accused), found.unrepeated, found.silent, found.stopped) == ([], [], 0, None)
    assert found.scenarios == 16
    assert found.kinds["publish"] > 16


@pytest.mark.variants
@pytest.mark.parametrize("variant", sorted(load_client_variants()))
def test_all_variants_are_left_alone(suite: Suite, variant: str) -> None:
    found = explored(suite, 24, load_client_variants()[variant].applied)
    assert (list(found.accused), found.unrepeated) == ([], [])


@pytest.mark.parametrize("fault", FOUND)
def test_a_fault_is_found_and_its_case_finds_it_again(suite: Suite, fault: str, tmp_path: Path) -> None:
    around = load_faults()[fault].applied
    found = explored(suite, 24, around)
    assert found.accused
    clauses = {clause for one in found.accused.values() for clause in one.result.clauses}
    assert FOUND[fault] is None or FOUND[fault] in clauses
    one = next(iter(found.accused.values()))
    assert one.text.startswith("# client:in-process: ")
    path = tmp_path / "case.yaml"
    path.write_text(one.text)
    alone = load_suite(more=[path])  # it keeps the rules of cases
    with around(), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        options = Options(select=[one.name], seed=1)
        run, _ = runner.run(run_clients(alone, IN_PROCESS, options, lambda _: None, Silent(), MemoryDriver))
    assert [again.verdict for again in judge_log(alone, run).results] == [one.result.verdict]


def test_a_seed_repeats_what_is_drawn(suite: Suite) -> None:
    first, again, other = (explored(suite, 8, seed=seed).kinds for seed in (1, 1, 2))
    assert first == again != other


def test_the_command_leaves_a_case_for_each_accusation(tmp_path: Path) -> None:
    arguments = ["explore", "client:in-process", "--scenarios", "8", "--seed", "7", "--report", str(tmp_path)]
    with load_faults()["never_returns_permits"].applied():
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1, result.output
    [case, *_] = (tmp_path / "explored").glob("client-*.yaml")
    assert f"--case {case}" in result.output
    assert CliRunner().invoke(app, [*arguments, "--concurrent"]).exit_code == 2
