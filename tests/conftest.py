"""The suite that is shipped, loaded once; and what tests marked `real` need: without Java or Maven they are skipped with the reason, in CI they fail."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import NoReturn

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from conformance.java import JavaError, find_java, find_maven
from conformance.suite import Suite, load_suite

hypothesis.settings.register_profile("project", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("project")


class Together(LoadFileScheduling):
    """Keeps the tests of a file on one worker, and all of tests/docs: the pages of the site take a minute to make."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "tests/docs" if file.startswith("tests/docs/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together | None:
    """Schedule for `--dist loadfile`; other ways stay as they are."""
    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def suite() -> Suite:
    """Load the clauses and cases that are shipped; no test changes them."""
    return load_suite()


@pytest.fixture(autouse=True)
def hangup_ends_processes() -> Iterator[None]:
    """Let SIGHUP end the processes that a test starts, also if these tests run under nohup, which has them ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def require_java() -> None:
    """Skip the test without Java or Maven; in CI let it fail."""
    try:
        asyncio.run(find_java())
        find_maven()
    except JavaError as error:
        skip_for(str(error))


def skip_for(lack: str) -> NoReturn:
    """Skip the test for what the machine lacks; in CI let it fail."""
    if os.environ.get("CI"):
        pytest.fail(f"this machine lacks what the test needs: {lack}")
    pytest.skip(lack)


@pytest.fixture(autouse=True)
def _tools_of_real_tests(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("real") is None:
        return
    require_java()
