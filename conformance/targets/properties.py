"""Settings as a Java properties file, the form of Pulsar's own configuration files."""

import re
from collections.abc import Mapping

from conformance.targets.model import TargetError

_KEY = re.compile(r"[A-Za-z0-9_.-]+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def properties_text(name: str, config: Mapping[str, str]) -> str:
    """Write settings.

    Args:
        name: The target, for the message.
        config: Values by key.

    Returns:
        One `KEY=VALUE` on a line, ASCII only.

    Raises:
        TargetError: A key is not one word, or a value not one line.
    """
    for key, value in config.items():
        if not _KEY.fullmatch(key) or "\n" in value or "\r" in value:
            raise TargetError(f"{name} can't be given the setting {key!r}", hint="a key is one word, a value one line")
    return "".join(f"{key}={_escaped(value)}\n" for key, value in config.items())


def _escaped(value: str) -> str:
    """Write a value as Java reads it: a backslash begins an escape, leading spaces are dropped, bytes are ISO 8859-1."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    numbers = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    text = "".join(chr(number) if 0x20 <= number < 0x7F else f"\\u{number:04x}" for number in numbers)
    return f"\\{text}" if text.startswith(" ") else text


def read_properties(name: str, text: str) -> dict[str, str]:
    """Read settings, as `properties_text` and people write them.

    Args:
        name: The file, for the message.
        text: One `KEY=VALUE` on a line; a backslash at its end continues the line; `#` and `!` begin a comment.

    Returns:
        Values by key; if a key is given twice, the last one.

    Raises:
        TargetError: A line is not a setting; with file and line.
    """
    found = {}
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        begun, first = begun + line.lstrip(), first or number
        if re.search(r"(?<!\\)(\\\\)*\\$", begun):
            begun = begun[:-1]
            continue
        key, separator, value = begun.partition("=")
        if begun and begun[0] not in "#!":
            if not separator or not _KEY.fullmatch(key.strip()):
                raise TargetError(f"{name}:{first}: this is not a setting", hint="a line is KEY=VALUE")  # it may hold a secret
            found[key.strip()] = _unescaped(value.lstrip())
        begun, first = "", 0
    return found


def _unescaped(text: str) -> str:
    units = _ESCAPE.sub(lambda match: chr(int(match[1][1:], 16)) if match[1][0] == "u" and match[1][1:] else _control(match[1]), text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _control(letter: str) -> str:
    return _ESCAPED_CONTROLS.get(letter, letter)
