"""Checks of user input: addresses, and files with secrets and trusted certificates."""

import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from conformance.files import read_text
from conformance.targets.model import TargetError

_ADMIN_PATH = re.compile(r"/admin(/v\d+)?/*$")


def check_service_url(url: str, what: str) -> None:
    """Check the address of a service.

    Args:
        url: "pulsar://HOST:PORT" or "pulsar+ssl://HOST:PORT"; without a port: 6650 and 6651.
        what: What it is, for the message.

    Raises:
        TargetError: It is not of that form.
    """
    hint = "it has the form pulsar://HOST:PORT or pulsar+ssl://HOST:PORT"
    if "," in url:
        raise TargetError(f"{what} {url!r} names several hosts", hint="one broker is tested at a time")
    parts = _split(url, what, hint)
    if parts.scheme not in ("pulsar", "pulsar+ssl") or parts.path.strip("/"):
        raise TargetError(f"{what} {url!r} is not a service URL", hint=hint)


def check_admin_url(url: str, what: str) -> None:
    """Check the address of an admin interface.

    Args:
        url: "http://HOST:PORT" or "https://HOST:PORT"; a path in front of `/admin` is allowed.
        what: What it is, for the message.

    Raises:
        TargetError: It is not of that form.
    """
    hint = "it has the form http://HOST:PORT or https://HOST:PORT"
    parts = _split(url, what, hint)
    if parts.scheme not in ("http", "https"):
        raise TargetError(f"{what} {url!r} is not an HTTP URL", hint=hint)
    if _ADMIN_PATH.search(parts.path):
        raise TargetError(f"{what} {url!r} ends with the path of the admin interface", hint="leave out /admin and what follows it")


def _split(url: str, what: str, hint: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise TargetError(f"{what} {url!r}: {error}", hint=hint) from None
    if "@" in parts.netloc:
        raise TargetError(f"{what} names a user or password", hint="give a token with --token-file instead")
    if not parts.hostname or port == 0 or parts.query or parts.fragment:
        raise TargetError(f"{what} {url!r} is not the address of a host", hint=hint)
    return parts


def read_token(path: Path) -> SecretStr:
    """Read a token from a file.

    Args:
        path: A file that holds nothing else.

    Returns:
        The token, which is not shown when printed.

    Raises:
        TargetError: The file can't be read or is empty.
    """
    try:
        token = read_text(path).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise TargetError(f"token file {path} can't be read: {reason}") from None
    if not token:
        raise TargetError(f"token file {path} is empty")
    return SecretStr(token)


def existing_pem_file(path: Path, what: str) -> Path:
    """Check that a file of TLS is there.

    Args:
        path: The file.
        what: What it holds, for the message: "trust", "certificate" or "key".

    Returns:
        The same path.

    Raises:
        TargetError: There is no such file.
    """
    if not path.is_file():
        raise TargetError(f"TLS {what} file {path} does not exist")
    return path
