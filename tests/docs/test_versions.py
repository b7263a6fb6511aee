"""The site in versions: the steps of its workflow, run on a small site and a repository beside it, without a network."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.site.publishing import DEPLOYED, extra_settings
from conformance.site.sources import REPOSITORY

EXTRA = yaml.load((REPOSITORY / "mkdocs.yml").read_text(), yaml.BaseLoader)["extra"]
FLOW = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "site.yml").read_text())
STEPS = FLOW["jobs"]["publish"]["steps"]


def test_only_a_deployed_site_lists_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEPLOYED, raising=False)
    assert extra_settings(EXTRA).keys() == EXTRA.keys() - {"version"}
    monkeypatch.setenv(DEPLOYED, "main")
    assert extra_settings(EXTRA) == EXTRA


def test_the_workflow_installs_what_the_site_needs_and_knows_where_it_leads() -> None:
    assert [step["run"] for step in STEPS if step.get("run", "").startswith("make")] == ["make .venv/docs.stamp"]
    assert "\n$(VENV)/docs.stamp: requirements-docs.txt" in (REPOSITORY / "Makefile").read_text()
    assert "mike==" in (REPOSITORY / "requirements-docs.txt").read_text()
    assert STEPS[-1]["env"].keys() == {"NAME", "TYPE", "REPOSITORY_URL"}
    assert FLOW["permissions"] == {"contents": "write"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a repository with a site of one page, whose remote is a folder."""
    if importlib.util.find_spec("mike") is None:
        pytest.skip("mike is not installed: `make docs` installs it")
    copy = tmp_path / "copy"
    (copy / "docs").mkdir(parents=True)
    (copy / "docs" / "index.md").write_text("# Home")
    (copy / "mkdocs.yml").write_text(yaml.safe_dump({"site_name": "x", "theme": {"name": "material", "font": False}, "extra": EXTRA}))
    (copy / ".venv").mkdir()
    (copy / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    git(tmp_path, "init", "--quiet", "--bare", "remote")
    git(copy, "init", "--quiet", "--initial-branch=main")
    git(copy, "remote", "add", "origin", str(tmp_path / "remote"))
    git(copy, "-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "--quiet", "--allow-empty", "--message=x")
    return copy


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout


def deploy(copy: Path, name: str, kind: str) -> None:
    environment = {**os.environ, "NAME": name, "TYPE": kind, "NO_MKDOCS_2_WARNING": "1"}
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[-1]["run"]]
    done = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def published(copy: Path, path: str) -> str:
    return git(copy.parent / "remote", "show", f"gh-pages:{path}")


def test_a_branch_and_a_tag_are_versions_beside_each_other(copy: Path) -> None:
    deploy(copy, "main", "branch")
    assert "main/" in published(copy, "index.html")
    deploy(copy, "v1.2.0", "tag")
    deploy(copy, "main", "branch")
    versions: list[dict[str, Any]] = json.loads(published(copy, "versions.json"))
    assert {one["version"]: one["aliases"] for one in versions} == {"main": [], "1.2.0": ["latest"]}
    assert all(re.fullmatch(r"(main|1\.2\.0) \(\d{4}-\d\d-\d\d\)", one["title"]) for one in versions)
    assert "latest/" in published(copy, "index.html")
    assert "1.2.0" in published(copy, "latest/index.html")
    assert '"provider": "mike"' in published(copy, "1.2.0/index.html")
