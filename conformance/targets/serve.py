"""Serves the reference broker until it is stopped: the command `broker`."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import gc
import json
import os
import signal
import sys
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from conformance.files import read_text
from conformance.targets.model import TargetError
from conformance.targets.properties import read_properties
from refimpl.broker import Configuration
from refimpl.net.serving import serving
from refimpl.proposals import PROPOSALS
from refimpl.proposals.declaration import Proposal
from refimpl.proposals.profiles import PROFILES, Profiles, choices, profile_name


def serve(
    ports: tuple[int, int],
    config: Sequence[str],
    config_file: Path | None,
    profile: str,
    fields: Sequence[str],
    *,
    host: str = "127.0.0.1",
    brokers: int = 1,
    verbose: bool,
) -> None:
    """Serve the reference broker until SIGINT or SIGTERM; its addresses are printed as one line of JSON when it is ready.

    Args:
        ports: TCP ports of the binary protocol and of the admin interface; 0: a free one.
        config: Each `KEY=VALUE`, one of Pulsar's own settings.
        config_file: File of `KEY=VALUE` lines.
        profile: One of `PROFILES`.
        fields: Each `FIELD=VALUE`; see `profiles_with`.
        host: The IPv4 address to listen on.
        brokers: Of how many brokers the cluster is; the ports are those of the first one.
        verbose: Whether it logs to standard error.

    Raises:
        ValueError: An argument does not fit.
        TargetError: The file can't be used.
        OSError: A port can't be listened on.
    """
    profile = profile_name(profile)
    profiles = profiles_with(profile, fields)
    host = _address(host)
    configuration = Configuration.from_settings(_settings(config, config_file))
    asyncio.run(_serve(configuration, profiles, profile, (host, *ports), brokers, verbose=verbose))


def _address(host: str) -> str:
    try:
        return str(IPv4Address(host))
    except ValueError:
        raise ValueError(f"--host is an IPv4 address of this machine, or 0.0.0.0 for all of them, not {host!r}") from None


def _settings(pairs: Sequence[str], path: Path | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if path is not None:
        try:
            found = read_properties(str(path), read_text(path))
        except (OSError, UnicodeDecodeError) as error:
            raise TargetError(f"{path} can't be read: {error.strerror if isinstance(error, OSError) else 'it is not UTF-8'}") from None
    return found | dict(_pair("--config KEY=VALUE", pair) for pair in pairs)


def _pair(option: str, text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"{option}: what is given has no '='")  # which may be a secret
    return key.strip(), value


def profiles_with(name: str, pairs: Sequence[str]) -> Profiles:
    """Return the profiles of all proposals, with some fields set.

    Args:
        name: One of `PROFILES`.
        pairs: Each `FIELD=VALUE`, no two proposals have a field of the same name; a value may be the name of a profile, whose value is
            taken.

    Raises:
        ValueError: There is no such profile or field, or the value does not fit.
    """
    if name not in PROFILES:
        raise ValueError(f"--profile is {' or '.join(PROFILES)}, not {name!r}")
    profiles = PROFILES[name]
    fields = {field.name: proposal for proposal in PROPOSALS for field in dataclasses.fields(profiles[proposal])}
    for key, text in (_pair("--set FIELD=VALUE", pair) for pair in pairs):
        if key not in fields:
            close = difflib.get_close_matches(key, fields, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(fields))}"
            raise ValueError(f"--set: a profile has no field {key!r}; {hint}")
        profile = profiles[fields[key]]
        value: Any = _field_value(fields[key], key, text, choices(type(profile), key))
        profiles = profiles.replacing(fields[key], dataclasses.replace(profile, **{key: value}))
    return profiles


def _field_value(proposal: Proposal[Any], key: str, text: str, known: Sequence[object]) -> object:
    if text in PROFILES:
        return getattr(PROFILES[text][proposal], key)
    values = {str(one).lower(): one for one in known}
    if text not in values:
        raise ValueError(f"--set {key}: {', '.join(values)}, or one of the profiles {' and '.join(PROFILES)}, not {text!r}")
    return values[text]


async def _serve(
    configuration: Configuration, profiles: Profiles, name: str, at: tuple[str, int, int], brokers: int, *, verbose: bool
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    log = (lambda line: print(line, file=sys.stderr, flush=True)) if verbose else None
    host, port, admin_port = at
    async with serving(configuration, profiles=profiles, host=host, port=port, admin_port=admin_port, log=log, brokers=brokers) as served:
        ready: dict[str, Any] = {"service_url": served.service_url, "admin_url": served.admin_url, "profile": name, "pid": os.getpid()}
        if served.service_url_tls is not None:
            ready["service_url_tls"] = served.service_url_tls
        if served.admin_url_tls is not None:
            ready["admin_url_tls"] = served.admin_url_tls
        if brokers > 1:
            ready["brokers"] = [{"service_url": one.service_url, "admin_url": one.admin_url} for one in served.members]
        print(json.dumps(ready), flush=True)
        _collect_seldom()
        await stop.wait()


def _collect_seldom() -> None:
    """Look through all objects twenty times less often: it takes half a second with 100,000 topics, for which nobody is served.

    Nearly everything that the broker drops is freed without it, and what was imported never is.
    """
    gc.freeze()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, 20 * old)
