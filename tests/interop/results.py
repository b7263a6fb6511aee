"""Writes what the flows of stock clients gave, for the table on the site: `pytest tests/interop --results`.

A run replaces the results of the flows, clients and brokers that it has run, and forgets flows that are no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.interop.stock_clients import NOT_OFFERED

FILE = Path(__file__).parents[2] / "conformance" / "interop.json"
_RANK = ("passed", "not offered", "skipped", "failed")
Results = dict[str, dict[str, dict[str, str]]]
"""By flow, `FILE::NAME`, then by client and broker: one of `_RANK`, of all but the first with the reason."""


def flow(item: pytest.Item) -> tuple[str, str, str] | None:
    """Return flow, client and broker of a test; None: it is no flow of a stock client."""
    chosen = getattr(item, "callspec", None)
    if chosen is None or item.get_closest_marker("flows") is None or not {"client", "broker"} <= chosen.params.keys():
        return None
    function = getattr(item, "originalname", item.name)
    return f"{item.path.name}::{function}", chosen.params["client"], chosen.params["broker"]


def result(report: pytest.TestReport) -> str:
    """Return the result of a part of a test."""
    if report.failed:
        return "failed"
    if not report.skipped:
        return "passed"
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    return reason if reason.startswith(NOT_OFFERED) else f"skipped: {reason}"


def load() -> Results:
    """Return what is written."""
    found: Results = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


class Recorder:
    """Gathers results of a run of pytest, and writes them at its end."""

    def __init__(self) -> None:
        self._found: Results = {}
        self._collected: set[str] = set()

    def pytest_collection_modifyitems(self, items: Iterable[pytest.Item]) -> None:
        """Note the flows that there are."""
        self._collected = {found[0] for item in items if (found := flow(item))}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a result; of several of one flow, the worst."""
        of = dict(report.user_properties).get("flow")
        if not isinstance(of, list | tuple) or (report.when != "call" and report.passed):
            return
        name, client, broker = of
        results = self._found.setdefault(name, {}).setdefault(client, {})
        results[broker] = max(results.get(broker, _RANK[0]), result(report), key=lambda one: _RANK.index(one.partition(":")[0]))

    def pytest_sessionfinish(self) -> None:
        """Write what was found over what was written, for flows that are still there."""
        files = {name.partition("::")[0] for name in self._collected}
        kept = {name: clients for name, clients in load().items() if name in self._collected or name.partition("::")[0] not in files}
        for name, clients in self._found.items():
            for client, brokers in clients.items():
                kept.setdefault(name, {}).setdefault(client, {}).update(brokers)
        FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
