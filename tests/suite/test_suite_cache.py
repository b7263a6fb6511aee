"""The suite is read and checked once, until a file of it or of the code that reads it changes."""

import os

import pytest

import conformance.suite
from conformance import suite_cache
from conformance.suite import HOME, load_suite


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PULSAR_CONFORMANCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "suites"


@pytest.fixture
def never_read(monkeypatch):
    """Reading the files of the suite fails, so that what `load_suite` returns was kept."""

    def read(*_, **__):
        raise AssertionError("it was kept")

    monkeypatch.setattr(conformance.suite, "_load", read)


def test_what_is_kept_is_the_suite(folder, suite, never_read):
    suite_cache.keep(suite.digest, suite)
    kept = load_suite()
    assert kept is not suite
    assert kept == suite
    cell = {"first": ""}
    assert kept.actions_digest("core/producer/repeated", cell) == suite.actions_digest("core/producer/repeated", cell)


def test_a_case_from_outside_joins_the_suite_that_was_kept(folder, suite, never_read, tmp_path):
    suite_cache.keep(suite.digest, suite)
    text = (HOME / "transcripts" / "core" / "handshake" / "connected.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("core/handshake/connected", "my/case"), encoding="utf-8")
    joined = load_suite(more=[path])
    assert set(joined.transcripts) - set(suite.transcripts) == {"my/case"}
    assert joined.digest != suite.digest


@pytest.mark.parametrize("part", [0.0, 0.5, 0.999])
def test_a_file_that_was_cut_is_not_used(folder, suite, part):
    suite_cache.keep(suite.digest, suite)
    (path,) = folder.iterdir()
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    assert suite_cache.load(suite.digest) is None


def test_another_case_or_other_code_makes_it_void(folder, suite, tmp_path, monkeypatch):
    code = tmp_path / "code.py"
    code.write_text("before", encoding="utf-8")
    monkeypatch.setattr(suite_cache, "_SOURCES", (tmp_path,))
    suite_cache.keep(suite.digest, suite)
    assert suite_cache.load(suite.digest) == suite
    assert suite_cache.load("another digest") is None
    before = code.stat()
    code.write_text("behind", encoding="utf-8")
    os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert suite_cache.load(suite.digest) is None


def test_only_the_newest_few_are_kept(folder, suite):
    folder.mkdir(parents=True)
    for number in range(7):
        (folder / str(number)).write_bytes(b"")
        os.utime(folder / str(number), (number, number))
    suite_cache.keep(suite.digest, suite)
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".pickle") == ["4", "5", "6"]
    assert suite_cache.load(suite.digest) == suite


def test_without_a_folder_to_write_to_nothing_is_kept(suite, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_bytes(b"")
    monkeypatch.setenv("PULSAR_CONFORMANCE_CACHE", str(file))
    suite_cache.keep(suite.digest, suite)
    assert suite_cache.load(suite.digest) is None
    assert file.read_bytes() == b""
