"""What an installed package has: every file that the code reads, and what an index shows of it."""

import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from conformance import __version__

HOME = Path(__file__).parents[2]
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())


def data_files(package):
    """Return the files of a package that are no modules, as far as they are part of the project."""
    done = subprocess.run(["git", "ls-files", package], cwd=HOME, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("this is no clone of the repository")
    return [path.removeprefix(f"{package}/") for path in done.stdout.splitlines() if not path.endswith(".py")]


@pytest.mark.parametrize("package", ["conformance", "refimpl"])
def test_every_file_is_part_of_the_package(package):
    patterns = PROJECT["tool"]["setuptools"]["package-data"][package]
    files = data_files(package)
    assert files
    assert [path for path in files if not any(fnmatchcase(path, one.replace("**/", "*")) for one in patterns)] == []


def test_every_pattern_finds_a_file():
    for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items():
        assert [one for one in patterns if not any((HOME / package).glob(one))] == []


def test_the_version_is_that_of_the_package():
    assert PROJECT["project"]["version"] == __version__


def test_everything_in_the_container_is_there():
    words = (HOME / "Containerfile").read_text().split()
    assert (HOME / "requirements.txt").is_file()
    assert "requirements.txt" in words
    assert PROJECT["project"]["scripts"].keys() == {"pulsar-conformance"}
    assert '["pulsar-conformance"]' in words
