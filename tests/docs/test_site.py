"""The site as a reader gets it. `make docs` does the same; without mkdocs it is skipped.

Never with `--quiet`: mkdocs counts the warnings that it prints, so a quiet build is not strict.
"""

import importlib
import importlib.util
import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conformance.site.check import problems
from conformance.site.sources import REPOSITORY

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed: `make docs` installs it")


def test_the_site_is_built_strictly_with_whole_drawings_and_loads_nothing_from_elsewhere(tmp_path, generated):
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
    for name, page in generated.items():
        drawings = [line.strip() for line in page.text.splitlines() if line.strip().startswith("<svg")]
        html = (tmp_path / "site" / name).with_suffix(".html").read_text() if drawings else ""
        assert [one for one in drawings if one not in html] == [], name


def test_a_foreign_element_in_a_drawing_fails_the_build(tmp_path, caplog):
    hooks = importlib.import_module("conformance.site.hooks")
    config = SimpleNamespace(site_dir=tmp_path)
    page = tmp_path / "cases.html"
    page.write_text("<p><em>text</em></p><svg><text>persistent://t/n/a</text></svg>")
    with caplog.at_level(logging.WARNING, "mkdocs"):
        hooks.on_post_build(config)
        assert caplog.messages == []
        page.write_text("<p><em>text</em></p><svg><text>persistent://t/n/<em>a</em></text></svg>")
        hooks.on_post_build(config)
    assert caplog.messages == ["cases.html: <em> inside 1 drawing"]
    assert [one.levelname for one in caplog.records] == ["WARNING"]  # of which one is enough for a strict build to fail
