"""Options that several commands share: a command has a parameter for all of them, and `shared` offers each as an option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

TargetArgument = Annotated[
    str,
    typer.Argument(
        help="reference, in-process, apache-pulsar@VERSION, pulsar://host:port, a target file (.toml); "
        "client:NAME, client:./PROGRAM; for `run` also client:manual"
    ),
]
ClaimOption = Annotated[
    list[str] | None, typer.Option("--claim", help="a capability that the target has and no feature flag tells; may be repeated")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="every failure in full, with the last frames, and what was observed")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]
SelectOption = Annotated[list[str] | None, typer.Option("--select", help="glob on case or clause ids; !GLOB leaves out; may be repeated")]
FilterOption = Annotated[
    list[str] | None, typer.Option("--filter", help="list only this command, such as SEND or watchTopicUpdate; may be repeated")
]
JudgeOption = Annotated[bool, typer.Option("--judge", help="judge what both sides say, by the monitors; exit 1 if they break a clause")]


@dataclass(frozen=True)
class Reach:
    """How a broker is reached, besides its address and TLS. None: not at all, or as a target file says."""

    admin_url: Annotated[str | None, typer.Option(help="base URL of the admin HTTP interface")] = None
    token_file: Annotated[Path | None, typer.Option(help="file with a token for CONNECT and the admin interface")] = None
    allow_hosts: Annotated[
        list[str] | None, typer.Option("--allow-host", help="a host to which a cluster may send the suite; may be repeated")
    ] = None
    listener: Annotated[str | None, typer.Option(help="the advertised listener of a cluster to ask for")] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--setting", help="KEY=VALUE, a setting of a broker that runs already; may be repeated"),
    ] = None


@dataclass(frozen=True)
class Tls:
    """What TLS to a broker needs. None: nothing, or what a target file says."""

    tls_trust_certs: Annotated[Path | None, typer.Option(help="PEM file of the authorities to trust")] = None
    tls_hostname: Annotated[str | None, typer.Option(help="the name that its certificate has to carry")] = None
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM file of the certificate to show to it")] = None
    tls_key: Annotated[Path | None, typer.Option(help="PEM file of the key of that certificate, if it is another file")] = None


def given(*groups: Reach | Tls) -> dict[str, Any]:
    """Return the options that the user gave, by their names: parameters of `parse_target`."""
    return {name: value for group in groups for name, value in vars(group).items() if value not in (None, [])}


def shared(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has an option for each field of the dataclasses among its parameters."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            types = get_type_hints(groups[name], include_extras=True)
            options += [parameter.replace(name=one.name, default=one.default, annotation=types[one.name]) for one in fields(groups[name])]
        else:
            options.append(parameter.replace(annotation=hints[name]))

    @wraps(command)
    def with_options(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        command(**values)

    with_options.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in options}
    return with_options
