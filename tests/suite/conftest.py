"""A small suite in a folder, for tests of loading, running and recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from conformance.cli import app
from conformance.suite import Suite

CLAUSES = """\
format: 1
proposal: test
source: {title: Test}
clauses:
  - {id: test.pong, level: MUST, basis: indicative, side: broker, text: PING is answered}
  - {id: test.warn, level: SHOULD, basis: indicative, side: broker, text: another}
  - {id: test.out, level: MUST, basis: indicative, side: broker, text: never, excluded: no way}
"""

PING = """\
format: 1
id: test/ping
title: PING is answered
tests: [broker]
clauses: [test.pong]
ambient: []
steps:
  - open: c
  - client: {ping: {}}
  - broker: {pong: {}}
    within: 20
end: none
"""

LIB = Path(__file__).parents[2] / "conformance" / "transcripts" / "lib"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("fence", "fence-ping", "handshake", "still-served"):
        target = tmp_path / "transcripts" / "lib" / f"{name}.yaml"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((LIB / f"{name}.yaml").read_text())
    (tmp_path / "clauses").mkdir()
    (tmp_path / "clauses" / "test.yaml").write_text(CLAUSES)
    return tmp_path


@pytest.fixture
def add(home: Path) -> Callable[..., Path]:
    def write(text: str = PING, name: str = "test/ping") -> Path:
        path = home / "transcripts" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return home

    return write


@pytest.fixture
def ping() -> str:
    return PING


@pytest.fixture
def run(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr("conformance.commands.loading.load_suite", lambda **_: suite)

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(one) for one in arguments])

    return call
