"""A target: something that speaks the protocol at an address, already running or started for the run."""

import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol
from urllib.parse import urlsplit

from pydantic import SecretStr

from refimpl.net.memory_link import MemoryLink

NOTHING: Mapping[str, str] = MappingProxyType({})
_DEFAULT_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}
_SECRET_WORDS = ("secret", "password", "token", "credential", "privatekey", "authenticationparameters")

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine that mean the same."""

TOKEN_REFUSED = "has the token expired, and was it made with the key of this broker?"
"""What to do about a broker that does not take the token."""

Progress = Callable[[str], None]
"""Gets one line for the terminal when something takes long."""


class TargetError(Exception):
    """A target that can't be used: what is wrong in one line, and what to do about it.

    Args:
        message: What is wrong; further lines, if any, quote a log.
        hint: What the user can do.
        clause: The clause that the target breaks by it, where one speaks of it.
    """

    def __init__(self, message: str, *, hint: str = "", clause: str | None = None) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint
        self.clause = clause


class ConnectRefused(TargetError):
    """A broker that answers CONNECT by ERROR."""


class WrongUsage(TargetError):
    """Addresses or names that can't be what the user meant: the command has to be corrected, not the target."""


class SettingsRefused(TargetError):
    """A target that can't get the settings that a case asks for. It can be used without them."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The addresses of a running broker, and how to connect to it.

    Attributes:
        name: What reports call it: "apache-pulsar@4.2.4", "my-broker".
        service_url: "pulsar://127.0.0.1:6650" or "pulsar+ssl://...".
        admin_url: Base of the admin HTTP interface, "http://127.0.0.1:8080"; None: there is none.
        release: The release of Apache Pulsar that it is, "4.2.4"; None: unknown or not Apache Pulsar.
        token: Sent with CONNECT and each admin call.
        tls_trust_certs: PEM file of the authorities to trust; None: those of the system.
        tls_hostname: The name that the certificate has to carry; None: the host of the address.
        tls_certificate: PEM file of the certificate that is shown to the broker, and its admin interface; None: none.
        tls_key: PEM file of its private key; None: it is in the same file.
        config: The settings asked for when it was started, on top of the usual ones; before a start, those that it is said to have.
        unconfirmed_config: Keys of `config` that the broker's own listing of its settings does not show (a misspelt one, or one that the
            release does not know yet; those of plugins and of the storage below are not listed either).
        capabilities: What the target's author declares that it can and can't do.
        log_file: Its log while it runs; None when it was not started here.
        thrown_away: It was started for this run, and its data are deleted afterwards.
        in_process: The broker inside this process to use instead of the addresses; None: use the addresses.
        allow_hosts: Hosts besides those of its addresses to which it may send the suite.
        listener: The advertised listener to ask for in look-ups; None: the usual one.
        listed_config: The settings that its admin interface lists, and those that it is said to have; empty until they were read.
        namespace_policies: What namespaces are created with, besides the broker's usual policies, as Pulsar has it in JSON.
        proxy_to: The broker behind a proxy at the service URL, "host:port", which CONNECT names; None: there is no proxy.
    """

    name: str
    service_url: str
    admin_url: str | None = None
    release: str | None = None
    token: SecretStr | None = None
    tls_trust_certs: Path | None = None
    tls_hostname: str | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    unconfirmed_config: frozenset[str] = frozenset()
    capabilities: Mapping[str, bool] = field(default_factory=dict)
    log_file: Path | None = None
    thrown_away: bool = False
    in_process: MemoryLink | None = None
    allow_hosts: tuple[str, ...] = ()
    listener: str | None = None
    proxy_to: str | None = None
    listed_config: Mapping[str, str] = field(default_factory=dict, repr=False)
    namespace_policies: Mapping[str, object] = field(default_factory=dict)

    @property
    def broker(self) -> str:
        """Return the address of the broker, for logs: the service URL, or the address behind the proxy that is there."""
        return self.service_url if self.proxy_to is None else f"pulsar://{self.proxy_to}"

    def allows(self, url: str) -> bool:
        """Tell whether the suite may go to an address: its host is one of the addresses that the user named, or allowed.

        Args:
            url: A service URL or an admin URL.
        """
        named = (self.service_url, self.admin_url or self.service_url)
        hosts = {*map(_host, named), *self.allow_hosts}
        host = _host(url)
        return host in hosts or (host in LOOPBACK and bool(hosts & LOOPBACK))

    @property
    def host(self) -> str:
        """Return the host of the service."""
        return urlsplit(self.service_url).hostname or ""

    @property
    def port(self) -> int:
        """Return the TCP port of the service."""
        parts = urlsplit(self.service_url)
        return parts.port or _DEFAULT_PORTS[parts.scheme]

    @property
    def tls(self) -> bool:
        """Tell whether the service speaks TLS."""
        return urlsplit(self.service_url).scheme == "pulsar+ssl"

    @property
    def credentials(self) -> tuple[str, str] | None:
        """Return the authentication method and data for CONNECT: the token, or the certificate, which TLS has shown; else None."""
        if self.token is not None:
            return "token", self.token.get_secret_value()
        return None if self.tls_certificate is None else ("tls", "")

    def ssl_context(self) -> ssl.SSLContext:
        """Make the context that trusts what this endpoint's certificate needs, and shows our own certificate if there is one.

        Returns:
            A client context that checks certificate and name.

        Raises:
            TargetError: A file can't be used.
        """
        try:
            context = ssl.create_default_context(cafile=self.tls_trust_certs)
        except OSError as error:
            raise TargetError(f"trust file {self.tls_trust_certs}: {error.strerror or error}", hint="it has to be a PEM file") from None
        if self.tls_certificate is not None:
            try:
                context.load_cert_chain(self.tls_certificate, self.tls_key, password="")
            except OSError as error:
                files = " and ".join(str(one) for one in (self.tls_certificate, self.tls_key) if one is not None)
                hint = "a certificate and its private key in PEM, the key without a password"
                raise TargetError(f"TLS certificate {files}: {error.strerror or error}", hint=hint) from None
        return context


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


class Target(Protocol):
    """Something that can be tested."""

    @property
    def name(self) -> str:
        """Return the name for reports and baselines."""

    @property
    def release(self) -> str | None:
        """Return the release of Apache Pulsar that it is; None: unknown or another broker."""

    @property
    def startable(self) -> bool:
        """Tell whether `run` starts it, and can therefore give it the settings of a case."""

    @property
    def profile(self) -> str:
        """Return the profile that it is judged by unless the user names one."""

    @property
    def virtual_time(self) -> bool:
        """Tell whether it runs on an event loop in virtual time, where waiting takes no time."""

    @property
    def starts_at_once(self) -> int:
        """Return how many of it may run at the same time, each with its own settings."""

    @property
    def conversations_at_once(self) -> int:
        """Return how many conversations it has at the same time unless the user says otherwise."""

    @property
    def in_virtual_time(self) -> "Target | None":
        """Return the same broker inside this process, for cases that wait for minutes; None: there is none."""

    def run(self, config: Mapping[str, str] = NOTHING, *, progress: Progress | None = None) -> AbstractAsyncContextManager[Endpoint]:
        """Make it ready for the length of a block; afterwards it is stopped if it was started.

        Args:
            config: Settings on top of the usual ones, Pulsar's own keys; see `as_settings`.
            progress: Gets a line when the start takes long.

        Returns:
            A context manager that yields where it is reached.

        Raises:
            TargetError: It can't be started, or can't be given these settings.
        """


def lacking(config: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a case that a target is not known to have."""
    return {key: value for key, value in config.items() if known.get(key) != value}


def refuse_settings(name: str, config: Mapping[str, str], *, hint: str) -> None:
    """Raise an error if a target is asked for settings that it can't get.

    Args:
        name: The target.
        config: The settings asked for.
        hint: What to do.

    Raises:
        SettingsRefused: There are some.
    """
    if config:
        raise SettingsRefused(f"{name} can't be given the settings {', '.join(sorted(config))}", hint=hint)


def own_token(config: Mapping[str, str]) -> SecretStr | None:
    """Return the token that settings give to the broker itself.

    Args:
        config: Settings by key.

    Returns:
        What `brokerClientAuthenticationParameters: "token:..."` holds; None when there is none.
    """
    parameters = config.get("brokerClientAuthenticationParameters", "")
    return SecretStr(parameters.removeprefix("token:")) if parameters.startswith("token:") else None


def as_settings(values: Mapping[str, object]) -> dict[str, str]:
    """Write values as Pulsar's configuration files do.

    Args:
        values: Texts, numbers and booleans by key.

    Returns:
        Texts by key; booleans in lower case.
    """
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}


def redacted(config: Mapping[str, str]) -> dict[str, str]:
    """Hide the secrets among settings, for reports.

    Args:
        config: Settings by key.

    Returns:
        The same keys; "***" where the key says that the value is a secret.
    """
    return {key: "***" if any(word in key.lower() for word in _SECRET_WORDS) else value for key, value in config.items()}


def admin_hint(endpoint: Endpoint) -> str:
    """Return what to do about an admin interface that answers 401 or 403: without a token, and with one."""
    if endpoint.token is None:
        return "give the token of an administrator with --token-file, or leave the admin URL out"
    return f"its role has to be a superuser, or an administrator of the tenant public; or {TOKEN_REFUSED}"
