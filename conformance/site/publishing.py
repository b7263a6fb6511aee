"""What a site says of itself: its version, the day it was built, when a page was changed, and where its sources are."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from conformance import __version__
from conformance.site.sources import REPOSITORY

SETTING: Final = "REPOSITORY_URL"
"""The environment variable with the address of the repository, for one build: a fork publishes a site of its own."""
UNKNOWN: Final = "OWNER/pulsar-conformance"
"""How pages name the repository as long as its address is not known."""
LICENCE: Final = "https://www.apache.org/licenses/LICENSE-2.0"
DEPLOYED: Final = "MIKE_DOCS_VERSION"
"""The environment variable that mike sets to the name of the version that it deploys."""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


def repository_address(home: Path = REPOSITORY) -> str | None:
    """Return the public address of the repository; None if it is not known.

    It is one setting: `Repository` in the table `[project.urls]` of `pyproject.toml`, or for one build `REPOSITORY_URL`.

    Args:
        home: The repository.
    """
    project = tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return os.environ.get(SETTING) or project.get("urls", {}).get("Repository")


def repository_name(address: str | None) -> str:
    """Return owner and name of a repository, as workflows name it.

    Args:
        address: Its address, if that is known.
    """
    return "/".join(address.rstrip("/").split("/")[-2:]) if address else UNKNOWN


def extra_settings(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings `extra` of a build: without a list of versions, unless the site is one version of several.

    Args:
        extra: From `mkdocs.yml`.
    """
    return {name: value for name, value in extra.items() if name != "version" or DEPLOYED in os.environ}


def version_line() -> str:
    """Return the line that every page has: version, day, licence."""
    return f'Version {__version__}, built on {build_day()}. <a href="{LICENCE}">Apache License 2.0</a>'


def build_day() -> str:
    """Return the day of the build; `SOURCE_DATE_EPOCH` sets it, so that two builds are equal."""
    moment = os.environ.get("SOURCE_DATE_EPOCH")
    return (datetime.fromtimestamp(int(moment), UTC) if moment else datetime.now(UTC)).date().isoformat()


def days_of_change(home: Path = REPOSITORY) -> dict[str, str]:
    """Return the day of the last change of each file under `docs`, by path; empty where there is no history.

    Args:
        home: The repository.
    """
    command = ["git", "log", "--format=%cs", "--name-only", "--no-renames", "--", "docs"]
    try:
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return {}
    days: dict[str, str] = {}
    day = ""
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        if _DAY.fullmatch(line):
            day = line
        elif line:
            days.setdefault(line, day)
    return days
