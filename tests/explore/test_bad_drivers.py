"""Exploration with a driver that is of no use: a refusal or an accusation, never a hang, and never conformant."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.cli import app
from conformance.commands import loading
from conformance.exit_codes import EXIT_COULD_NOT_RUN, EXIT_INCONCLUSIVE, EXIT_NOT_CONFORMANT
from conformance.suite import Suite

BAD_DRIVER = Path(__file__).parents[1] / "fakes" / "bad_driver.py"


@pytest.mark.parametrize(
    ("way", "codes", "words"),
    [
        ("lies", {EXIT_NOT_CONFORMANT, EXIT_COULD_NOT_RUN}, ""),
        ("crashes", {EXIT_COULD_NOT_RUN}, "it has ended with exit code 3"),
        ("garbage", {EXIT_COULD_NOT_RUN}, "it printed a line that is not JSON"),
        ("closes its output", {EXIT_COULD_NOT_RUN}, "it has closed its standard output"),
        ("refuses", {EXIT_NOT_CONFORMANT}, ""),
        ("unsupported", {EXIT_INCONCLUSIVE}, "nothing was judged"),
        ("newer hello", {EXIT_COULD_NOT_RUN}, "speaks protocol 2"),
    ],
)
def test_a_bad_driver_is_never_conformant(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, codes: set[int], words: str
) -> None:
    monkeypatch.setattr(loading, "load_suite", lambda **_: suite)  # it is loaded once for all ways
    monkeypatch.setattr("conformance.explore.client_explorer.shrink", lambda scenario, still, _: still(scenario) and scenario)
    driver = tmp_path / "driver"
    kind, verb = ("newer", "hello") if way == "newer hello" else (way, "consumer")
    driver.write_text(f'#!/bin/sh\nexec {sys.executable} {BAD_DRIVER} "{kind}" {verb}\n')
    driver.chmod(0o755)
    asked = [
        "explore",
        f"client:{driver}",
        "--scenarios",
        "2",
        "--seed",
        "1",
        "--slow",
        "0.2",
        "--minutes",
        "0.05",
        "--report",
        str(tmp_path / "r"),
    ]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code in codes, done.output
    assert words in " ".join(done.output.split()), done.output
    assert "is in the right state" not in done.output
