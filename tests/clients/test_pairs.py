"""Clients by brokers: a talk through the proxy is judged, and what goes wrong in it is told."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from conformance.clients.faults.find import load_faults
from conformance.clients.known import ClientTarget
from conformance.clients.pairs import FAILED, HELD, Pair, talked
from conformance.targets.reference import ReferenceTarget

TALKED = ("one by one", "in batches", "cut", "namespace")


def pair(client: str, names: tuple[str, ...]) -> Pair:
    async def run() -> Pair:
        async with ReferenceTarget().run() as endpoint:
            return await talked(client, "reference", endpoint, names)

    return asyncio.run(run())


def test_the_reference_client_keeps_all() -> None:
    found = pair("reference", TALKED)
    assert set(found.talks.values()) == {HELD}
    assert found.breaches == []
    assert found.judged["core.client.acks-delivered"] > 0


def test_the_python_client_keeps_all_and_does_not_offer_the_rest() -> None:
    found = pair("python", TALKED)
    assert [found.talks[name] for name in TALKED[:3]] == [HELD] * 3
    assert found.talks["namespace"] == "not offered: consumer: option namespace"
    assert found.breaches == []


def faulty(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the driver be that of the reference client with a fault."""
    assert name in load_faults()
    target = ClientTarget("client:faulty", [sys.executable, "-m", "conformance.clients.faulty", name])
    monkeypatch.setattr("conformance.clients.pairs.parse_client", lambda _: target)


def test_a_breach_of_a_client_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty(monkeypatch, "gives_all_messages_one_sequence_id")
    found = pair("reference", ("one by one", "in batches"))
    assert {one["by"] for one in found.breaches} == {"client"}


def test_a_driver_that_ends_is_a_talk_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = Path(__file__).parents[1] / "fakes" / "bad_driver.py"
    monkeypatch.setattr(
        "conformance.clients.pairs.parse_client", lambda _: ClientTarget("client:bad", [sys.executable, str(bad), "crashes"])
    )
    found = pair("reference", ("one by one", "cut"))
    assert all(came.startswith(f"{FAILED}: the driver client:bad can't be used: it has ended") for came in found.talks.values())
