"""Apache Pulsar by version: what is told when something is missing, and the cache; with stand-ins for Java and Maven."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from conformance.files import cache_folder
from conformance.java import Java, JavaError, find_java, find_maven
from conformance.targets import RELEASES, ApachePulsar, TargetError
from conformance.targets.jars import jars
from conformance.targets.properties import properties_text

RELEASE = RELEASES["4.2.4"]
JAVA_HINT = "install a JDK 17 or newer and put it on PATH or into JAVA_HOME"

FAKE_MAVEN = """
import os, pathlib, sys
folder = pathlib.Path(next(a for a in sys.argv if a.startswith("-DoutputDirectory=")).partition("=")[2])
calls = pathlib.Path(os.environ["FAKE_CALLS"])
calls.write_text(calls.read_text() + "called\\n" if calls.exists() else "called\\n")
pom, settings = pathlib.Path("pom.xml").read_text(), pathlib.Path("settings.xml").read_text()
assert "<artifactId>pulsar-broker</artifactId><version>4.2.4</version>" in pom, pom
assert "<mirrorOf>external:*,!central</mirrorOf><url>file:///" in settings, settings
folder.mkdir()
for name in "abc":
    (folder / f"{name}.jar").write_text("")
"""


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty PATH and cache; returns the folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PULSAR_CONFORMANCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_CALLS", str(tmp_path / "calls"))
    return folder


def fill_cache(release_version: str) -> None:
    home = cache_folder() / "apache-pulsar" / release_version
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "a.jar").write_text("")
    (home / "complete.json").write_text(json.dumps({"jars": 1}))


def start(version: str, config: dict[str, str] | None = None) -> None:
    async def main() -> None:
        async with ApachePulsar(version).run(config or {}):
            raise AssertionError

    asyncio.run(main())


def test_missing_java_is_told(bare: Path) -> None:
    with pytest.raises(TargetError) as caught:
        start("4.2.4")
    assert str(caught.value) == f"Apache Pulsar needs Java, which was not found ({JAVA_HINT})"


def test_old_java_is_told(bare: Path) -> None:
    old = program(bare, "java", "import sys; print('openjdk version \"1.8.0_402\"', file=sys.stderr)")
    with pytest.raises(TargetError) as caught:
        start("4.2.4")
    assert str(caught.value) == f"Apache Pulsar needs Java 17 or newer, but {old} is Java 8 ({JAVA_HINT})"


def test_java_home_comes_first_unless_it_is_too_old(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(bare, "java", "print('openjdk version \"17.0.15\" 2025-04-15')")
    in_home = program(tmp_path / "jdk" / "bin", "java", "print('openjdk version \"25\" 2025-09-16')")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert asyncio.run(find_java()) == Java(in_home, 25)
    program(tmp_path / "jdk" / "bin", "java", "print('java version \"11.0.2\"')")
    assert asyncio.run(find_java()) == Java(on_path, 17)


def test_missing_maven_is_told(bare: Path) -> None:
    with pytest.raises(JavaError) as caught:
        find_maven()
    expected = "Maven was not found (install Maven 3.6 or newer and put mvn on PATH; it fetches Apache Pulsar once for each version)"
    assert str(caught.value) == expected
    program(bare, "java", "print('openjdk version \"17\"')")
    with pytest.raises(TargetError, match=r"^Maven was not found"):
        start("4.2.4")


def test_the_cache_is_where_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PULSAR_CONFORMANCE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pulsar-conformance"
    monkeypatch.setenv("PULSAR_CONFORMANCE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_jars_are_resolved_once_also_by_several_at_a_time(bare: Path, tmp_path: Path) -> None:
    program(bare, "mvn", FAKE_MAVEN)
    java = Java(Path(sys.executable), 17)
    lines: list[str] = []
    left_over = cache_folder() / "apache-pulsar" / ".4.2.4-killed"
    left_over.mkdir(parents=True)

    async def main() -> list[Path]:
        return await asyncio.gather(*(jars(RELEASE, java, lines.append) for _ in range(3)))

    (folder, *others) = asyncio.run(main())
    assert others == [folder, folder]
    assert sorted(path.name for path in folder.iterdir()) == ["a.jar", "b.jar", "c.jar"]
    assert (tmp_path / "calls").read_text() == "called\n"
    assert lines.count("resolving apache-pulsar 4.2.4 with Maven (about 242 MB, once)") == 1
    assert lines.count("another process is resolving apache-pulsar 4.2.4: waiting for it") == 2
    assert sorted(path.name for path in folder.parents[1].iterdir()) == ["4.2.4", "4.2.4.lock"]


def test_jars_that_are_not_all_there_are_resolved_anew(bare: Path, tmp_path: Path) -> None:
    program(bare, "mvn", FAKE_MAVEN)
    java = Java(Path(sys.executable), 17)
    folder = asyncio.run(jars(RELEASE, java))
    (folder / "b.jar").unlink()
    assert len(list(asyncio.run(jars(RELEASE, java)).iterdir())) == 3
    assert (tmp_path / "calls").read_text() == "called\n" * 2


def test_the_first_error_of_maven_is_told_and_nothing_is_kept(bare: Path) -> None:
    program(bare, "mvn", "print('[INFO] x'); print('[ERROR] Could not find artifact a:b'); print('[ERROR] more'); raise SystemExit(1)")
    with pytest.raises(TargetError) as caught:
        asyncio.run(jars(RELEASE, Java(Path(sys.executable), 17)))
    expected = "Maven could not resolve apache-pulsar 4.2.4: Could not find artifact a:b (can Maven reach Maven Central?)"
    assert str(caught.value) == expected
    assert [path.name for path in (cache_folder() / "apache-pulsar").iterdir()] == ["4.2.4.lock"]


JAVA_THAT_DIES = """
import os, sys
if sys.argv[1:] == ["-version"]:
    print('openjdk version "17"')
    sys.exit()
with open(os.environ["FAKE_CALLS"], "a") as calls:
    calls.write(os.getcwd() + "\\n")
print("WARN something\\n{words}")
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("words", "attempts"), [("java.lang.NoSuchMethodError: x", 1), ("java.net.BindException: Address already in use", 3)]
)
def test_a_broker_that_dies_gives_its_last_lines_and_other_ports_are_tried(bare: Path, tmp_path: Path, words: str, attempts: int) -> None:
    program(bare, "java", JAVA_THAT_DIES.replace("{words}", words))
    fill_cache("4.2.4")
    with pytest.raises(TargetError) as caught:
        start("4.2.4")
    assert str(caught.value) == f"apache-pulsar@4.2.4 ended while starting, exit code 3; its last lines:\n  WARN something\n  {words}"
    folders = (tmp_path / "calls").read_text().split()
    assert len(set(folders)) == attempts
    assert not any(os.path.exists(folder) for folder in folders)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"webServicePort": "1"}, "apache-pulsar@4.2.4 can't be given the setting webServicePort (each start chooses it again)"),
        ({"a b": "1"}, "apache-pulsar@4.2.4 can't be given the setting 'a b' (a key is one word, a value one line)"),
        ({"a": "1\n2"}, "apache-pulsar@4.2.4 can't be given the setting 'a' (a key is one word, a value one line)"),
    ],
)
def test_settings_that_can_not_be_given_are_named(config: dict[str, str], message: str) -> None:
    with pytest.raises(TargetError) as caught:
        start("4.2.4", config)
    assert str(caught.value) == message


def test_settings_are_escaped_as_java_reads_them() -> None:
    assert properties_text("n", {"a": " é\\😀", "b": ""}) == "a=\\ \\u00e9\\\\\\ud83d\\ude00\nb=\n"
