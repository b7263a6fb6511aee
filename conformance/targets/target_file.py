"""A target described in a TOML file: a broker that is already running, or one that a command starts for the run."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StrictBool, StrictStr, ValidationError

from conformance.engine.capabilities import CAPABILITIES
from conformance.files import read_text
from conformance.names import did_you_mean
from conformance.targets.attached import AttachedTarget
from conformance.targets.inputs import check_admin_url, check_service_url, existing_pem_file, read_token
from conformance.targets.model import Endpoint, Target, TargetError, as_settings
from conformance.targets.started import PLACEHOLDERS, StartedTarget, split_command

EXAMPLE = """\
name = "my-broker"
service_url = "pulsar://127.0.0.1:6650"
admin_url = "http://127.0.0.1:8080"
release = "4.2.4"                    # optional: the release of Apache Pulsar that it is

[start]                              # optional; then the addresses default to 127.0.0.1 and the free ports below
command = "bin/broker --port {service_port} --admin-port {admin_port} --settings {config_file}"
ready_timeout_seconds = 60

[capabilities]                       # optional: declared, not probed; the same as --claim
topic-list-watch = true

[settings]                           # optional: settings that it has already; the same as --setting
acknowledgmentAtBatchIndexLevelEnabled = true

[auth]                               # optional; paths are relative to this file
token_file = "token.txt"
tls_trust_certs = "ca.pem"
tls_hostname = "broker.example"
tls_certificate = "client.pem"
tls_key = "client.key"
"""
"""A file with every key."""

_Name = Annotated[StrictStr, Field(min_length=1)]
_KINDS = {
    "string_type": "has to be a text", "bool_type": "has to be true or false", "list_type": "has to be a list", "missing": "is missing",
    "dict_type": "has to be a table", "model_type": "has to be a table", "model_attributes_type": "has to be a table",
    "float_type": "has to be a number", "greater_than": "has to be more than 0", "string_too_short": "is empty",
}  # fmt: skip


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StartTable(_Table):
    """The table `[start]`: how the suite starts the broker."""

    command: Annotated[StrictStr, Field(min_length=1)] | Annotated[list[StrictStr], Field(min_length=1)] = Field(
        description="program and arguments; {service_port}, {admin_port}, {config_file} and {work_dir} are filled in"
    )
    ready_timeout_seconds: Annotated[float, Field(strict=True, gt=0, description="how long it may take until it accepts connections")] = (
        60.0
    )


class AuthTable(_Table):
    """The table `[auth]`; paths are relative to the file."""

    token_file: Annotated[_Name | None, Field(description="file with a token for CONNECT and the admin interface")] = None
    tls_trust_certs: Annotated[_Name | None, Field(description="PEM file of the authorities to trust")] = None
    tls_hostname: Annotated[_Name | None, Field(description="the name in the certificate, if it is not the host of the address")] = None
    tls_certificate: Annotated[_Name | None, Field(description="PEM file of the certificate that the suite shows")] = None
    tls_key: Annotated[_Name | None, Field(description="PEM file of its key")] = None


class ClusterTable(_Table):
    """The table `[cluster]`."""

    allow_hosts: Annotated[list[_Name], Field(description="further hosts to which a look-up may lead the suite")] = []
    listener: Annotated[_Name | None, Field(description="the advertised listener to ask for")] = None


class TargetFile(_Table):
    """A broker to judge: one that runs already, or one that the suite starts."""

    name: _Name = Field(description="what reports call it")
    service_url: Annotated[_Name | None, Field(description="pulsar://host:port or pulsar+ssl://host:port")] = None
    admin_url: Annotated[_Name | None, Field(description="base URL of the admin interface")] = None
    release: Annotated[_Name | None, Field(description="the release of Apache Pulsar that it is")] = None
    start: Annotated[StartTable | None, Field(description="how to start it; without it, it runs already")] = None
    capabilities: Annotated[dict[str, StrictBool], Field(description="what it can do and no feature flag tells, as with --claim")] = {}
    settings: Annotated[
        dict[str, StrictStr | StrictBool | int],
        Field(description="settings that it has already, in Pulsar's names, as with --setting"),
    ] = {}
    auth: Annotated[AuthTable, Field(description="token and certificates")] = AuthTable()
    cluster: Annotated[ClusterTable, Field(description="if it has several brokers")] = ClusterTable()


def read_target_file(
    path: Path, *, admin_url: str | None = None, token: SecretStr | None = None, tls_trust_certs: Path | None = None
) -> Target:
    """Read a target from a TOML file.

    Args:
        path: The file.
        admin_url: Takes the place of the one in the file.
        token: Takes the place of the one in the file.
        tls_trust_certs: Takes the place of the one in the file.

    Returns:
        The target.

    Raises:
        TargetError: The file can't be read or is wrong; with file, line and key.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"{path} can't be read: {error.strerror if isinstance(error, OSError) else 'it is not UTF-8'}") from None
    try:
        table = TargetFile.model_validate(tomllib.loads(text))
    except RecursionError:
        raise TargetError(f"{path}: nested too deep") from None
    except ValidationError as error:
        raise TargetError(_first_problem(path, text, error)) from None
    except ValueError as error:
        raise TargetError(f"{path}: {error}", hint="it has to be a TOML file") from None
    for name in table.capabilities:
        if name not in CAPABILITIES:
            line = line_of(text, ["capabilities", name])
            known = f"(known: {', '.join(CAPABILITIES)})"
            raise TargetError(f"{path}:{line}: unknown capability {name!r}{did_you_mean(name, CAPABILITIES)} {known}")
    try:
        return _target(path, table, admin_url, token, tls_trust_certs)
    except TargetError as error:
        raise TargetError(f"{path}: {error.message}", hint=error.hint) from None


def _first_problem(path: Path, text: str, error: ValidationError) -> str:
    details = error.errors(include_url=False, include_input=False)
    first = next((each for each in details if each["type"] == "extra_forbidden"), details[0])  # a misspelt key is missing as well
    keys = [str(part) for part in first["loc"][:2]]  # what is deeper counts forms and items, not keys
    key = ".".join(keys)
    line = line_of(text, keys)
    where = f"{path}:{line}" if line else str(path)
    if first["type"] == "extra_forbidden":
        known = _known_keys(keys[:-1])
        return f"{where}: unknown key {key!r}{did_you_mean(keys[-1], known)} (known here: {', '.join(known)})"
    if len(first["loc"]) > 2:
        return f"{where}: {key!r} has to be a text or a list of texts, and not empty"
    return f"{where}: {key!r} {_KINDS.get(first['type'], first['msg'])}"


def _known_keys(tables: list[str]) -> list[str]:
    model: type[BaseModel] = TargetFile
    for table in tables:
        inner = model.model_fields[table].annotation
        model = next(each for each in (inner, *get_args(inner)) if isinstance(each, type) and issubclass(each, BaseModel))
    return list(model.model_fields)


def line_of(text: str, keys: list[str]) -> int | None:
    """Find the line of a key in TOML as people write it: tables in brackets, one key on a line.

    Args:
        text: The file.
        keys: The tables, then the key; the key may be a table itself.

    Returns:
        The line, from 1; that of the innermost table when the key is not there; None when neither is.
    """
    table, found = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            table = header[1].replace('"', "")
            if keys == table.split(".") or keys[:-1] == table.split("."):
                found = number
        elif key := re.match(r"""\s*["']?([^"'=]+?)["']?\s*=""", line):
            path = [*filter(None, table.split(".")), *key[1].split(".")]
            if path == keys:
                return number
    return found


def _target(path: Path, table: TargetFile, admin_url: str | None, token: SecretStr | None, tls_trust_certs: Path | None) -> Target:
    folder = path.resolve().parent
    auth = table.auth
    if token is None and auth.token_file:
        token = read_token(folder / auth.token_file)
    if tls_trust_certs is None and auth.tls_trust_certs:
        tls_trust_certs = existing_pem_file(folder / auth.tls_trust_certs, "trust")
    if auth.tls_key and not auth.tls_certificate:
        raise TargetError("'auth.tls_key' has no certificate", hint="give tls_certificate, too")
    endpoint = Endpoint(
        name=table.name,
        service_url=table.service_url or "pulsar://127.0.0.1:{service_port}",
        admin_url=admin_url or table.admin_url,
        release=table.release,
        token=token,
        tls_trust_certs=tls_trust_certs,
        tls_hostname=auth.tls_hostname,
        tls_certificate=existing_pem_file(folder / auth.tls_certificate, "certificate") if auth.tls_certificate else None,
        tls_key=existing_pem_file(folder / auth.tls_key, "key") if auth.tls_key else None,
        capabilities=table.capabilities,
        config=as_settings(table.settings),
        allow_hosts=tuple(table.cluster.allow_hosts),
        listener=table.cluster.listener,
    )
    if table.start is None:
        if table.service_url is None:
            raise TargetError("'service_url' is missing", hint="or a table [start] that says how to start it")
        _check_addresses(endpoint)
        return AttachedTarget(endpoint)
    return _started(folder, table.start, endpoint)


def _started(folder: Path, start: StartTable, endpoint: Endpoint) -> Target:
    command = split_command(start.command)
    used = {name for name in PLACEHOLDERS if any("{" + name + "}" in word for word in command)}
    admin_url = endpoint.admin_url
    if admin_url is None and "admin_port" in used:
        admin_url = "http://127.0.0.1:{admin_port}"
    for port, key, url in (("service_port", "service_url", endpoint.service_url), ("admin_port", "admin_url", admin_url or "")):
        placeholder = "{" + port + "}"
        if (port in used) != (placeholder in url) and url:
            hint = f"write {placeholder} in both or in neither of them"
            raise TargetError(f"the command and {key!r} disagree about the port", hint=hint)
    target = StartedTarget(
        endpoint=replace(endpoint, admin_url=admin_url),
        command=tuple(command),
        folder=folder,
        ready_seconds=start.ready_timeout_seconds,
    )
    _check_addresses(target.at_ports(6650, 8080))
    return target


def _check_addresses(endpoint: Endpoint) -> None:
    check_service_url(endpoint.service_url, "'service_url'")
    if endpoint.admin_url is not None:
        check_admin_url(endpoint.admin_url, "'admin_url'")
