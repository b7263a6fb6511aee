"""The Maven clients: their jars, in the cache of the suite's own drivers, and the command that starts `Client.java` with them.

`java` is the client for ordinary topics, `java_v5` the one for scalable topics; each folder has what it needs.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from conformance.clients.known import JAVA, JAVA_V5

CLIENTS = {client.name: client for client in (JAVA, JAVA_V5)}
VERSIONS = {name: client.version for name, client in CLIENTS.items()}
_FOLDER = Path(__file__).parent


def java_command(client: str) -> list[str]:
    """Give the command that runs the Java side.

    Args:
        client: "java" or "java_v5".

    Raises:
        JavaError: Java or Maven is missing.
        TargetError: Maven could not fetch the jars; with its words.
    """
    java, lib = asyncio.run(CLIENTS[client].jars())
    options = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [str(java.program), *options, "-cp", f"{lib}/*", str(_FOLDER / client / "Client.java")]
