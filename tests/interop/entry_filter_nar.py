"""Builds the entry filter in `java/conformance` for a real broker: a NAR, which is a zip file with the class and a description."""

from __future__ import annotations

import asyncio
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from conformance.java import Java, JavaError, find_java, find_maven
from conformance.targets.jars import RELEASES, jars
from tests.conftest import skip_for

_SOURCE = Path(__file__).with_name("java") / "conformance" / "PropertyFilter.java"
_NAME = "property"
_DESCRIPTION = f"name: {_NAME}\ndescription: compares properties\nentryFilterClass: conformance.PropertyFilter\n"
_COMPILE_SECONDS = 300


def tools() -> tuple[Java, Path]:
    """Give Java and its compiler; skip the test without them or Maven, in CI let it fail."""
    try:
        java = asyncio.run(find_java())
        find_maven()
        compiler = java.program.resolve().with_name("javac")
        if not compiler.exists():
            raise JavaError(f"{java.program} comes without a compiler", hint="install a JDK, not only a Java runtime")
    except JavaError as error:
        skip_for(str(error))
    return java, compiler


def build(version: str, folder: Path) -> Mapping[str, str]:
    """Build it with the jars of a release.

    Args:
        version: Of Apache Pulsar.
        folder: Gets the NAR, and what the broker unpacks.

    Returns:
        The broker's settings that make it use the filter.
    """
    java, compiler = tools()
    lib = asyncio.run(jars(RELEASES[version], java))
    classes, filters, unpacked = (folder / name for name in ("classes", "filters", "unpacked"))
    for one in (classes, filters, unpacked):
        one.mkdir()
    # `-proc:none`: some of the jars bring annotation processors, which are not asked for
    command = [compiler, "-proc:none", "--release", "17", "-cp", f"{lib}/*", "-d", classes, _SOURCE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(filters / "property-filter.nar", "w") as nar:
        nar.writestr("META-INF/services/entry_filter.yml", _DESCRIPTION)
        nar.write(classes / "conformance" / "PropertyFilter.class", "conformance/PropertyFilter.class")
    return {"entryFilterNames": _NAME, "entryFiltersDirectory": str(filters), "narExtractionDirectory": str(unpacked)}
