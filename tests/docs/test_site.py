"""The site as a reader gets it. `make docs` does the same; without mkdocs it is skipped.

Never with `--quiet`: mkdocs counts the warnings that it prints, so a quiet build is not strict.
"""

import importlib.util
import os
import subprocess
import sys

import pytest

from conformance.site.check import problems
from conformance.site.sources import REPOSITORY


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed: `make docs` installs it")
def test_the_site_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    assert problems(tmp_path / "site") == []
