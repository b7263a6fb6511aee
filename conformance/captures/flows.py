"""The index of a folder that `tcpflow` wrote: one file for each connection and direction, named after both ends.

192.168.000.007.51000-192.168.000.001.06650        from port 51000 to port 6650: sent by the client
192.168.000.001.06650-192.168.000.007.51000        sent by the broker
192.168.000.007.51000-192.168.000.001.06650c1      the second connection between the same two ports
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from conformance.captures.errors import CaptureError
from conformance.captures.raw import INDEX, Entry

_END = r"((?:\d{3}\.){3}\d{3})\.(\d{5})"
_NAME = re.compile(rf"{_END}-{_END}(c\d+)?")


def index_flows(folder: Path, port: int = 6650) -> int:
    """Write the index of a folder.

    Args:
        folder: Folder with the files; other files are ignored.
        port: The broker's.

    Returns:
        Number of files in the index.

    Raises:
        CaptureError: No file belongs to a connection to or from that port.
    """
    if not folder.is_dir():
        raise CaptureError(f"{folder}: there is no such folder")
    entries = [entry for path in sorted(folder.iterdir()) if (entry := _entry(path.name, port)) is not None]
    if not entries:
        raise CaptureError(
            f"{folder}: no file of a connection to port {port}; names are such as 010.000.000.007.51000-010.000.000.001.06650"
        )
    text = "".join(json.dumps(entry.model_dump(exclude_none=True)) + "\n" for entry in entries)
    (folder / INDEX).write_text(text, encoding="utf-8")
    return len(entries)


def _entry(name: str, port: int) -> Entry | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    source, source_port, target, target_port, again = match.groups()
    if int(target_port) == port:
        return Entry(connection=f"{source}:{int(source_port)}{again or ''}", direction="client", file=name)
    if int(source_port) == port:
        return Entry(connection=f"{target}:{int(target_port)}{again or ''}", direction="broker", file=name)
    return None
