"""Settings as a Java properties file, the form of Pulsar's own configuration files."""

import re
from collections.abc import Mapping

from conformance.targets.model import TargetError

_KEY = re.compile(r"[A-Za-z0-9_.-]+")


def properties_text(name: str, config: Mapping[str, str]) -> str:
    """Write settings.

    Args:
        name: the target, for the message.
        config: values by key.

    Returns:
        One `KEY=VALUE` on a line, ASCII only.

    Raises:
        TargetError: a key is not one word, or a value not one line.
    """
    for key, value in config.items():
        if not _KEY.fullmatch(key) or "\n" in value or "\r" in value:
            raise TargetError(f"{name} can't be given the setting {key!r}", hint="a key is one word, a value one line")
    return "".join(f"{key}={_escaped(value)}\n" for key, value in config.items())


def _escaped(value: str) -> str:
    """Write a value as Java reads it: a backslash begins an escape, leading spaces are dropped, octets are ISO 8859-1."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    numbers = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    text = "".join(chr(number) if 0x20 <= number < 0x7F else f"\\u{number:04x}" for number in numbers)
    return f"\\{text}" if text.startswith(" ") else text
