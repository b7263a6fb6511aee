"""Turns the target argument of the command line into a target."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from conformance.names import MOST_BROKERS, did_you_mean
from conformance.targets.apache_cluster import ApacheCluster
from conformance.targets.apache_proxy import ProxiedPulsar
from conformance.targets.apache_pulsar import ApachePulsar
from conformance.targets.attached import AttachedTarget
from conformance.targets.inputs import check_admin_url, check_service_url, existing_pem_file, read_token
from conformance.targets.jars import RELEASES
from conformance.targets.model import Endpoint, Target, TargetError
from conformance.targets.reference import InProcessTarget, ReferenceTarget
from conformance.targets.started import StartedTarget
from conformance.targets.target_file import read_target_file
from refimpl.proposals.profiles import PROFILES, profile_name

_APACHE = "apache-pulsar"
_REFERENCES: Mapping[str, type[ReferenceTarget | InProcessTarget]] = {"reference": ReferenceTarget, "in-process": InProcessTarget}
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+")
_QUERY = {"brokers": re.compile(f"[2-{MOST_BROKERS}]"), "proxy": re.compile("true")}
_FORMS = (
    f"{', '.join(_REFERENCES)} or {_APACHE}@VERSION, each with ?brokers=N if a cluster is meant, {_APACHE}@VERSION?proxy=true, "
    "pulsar://HOST:PORT, pulsar+ssl://HOST:PORT, a file FILE.toml, or client:NAME"
)


def parse_target(
    text: str,
    *,
    admin_url: str | None = None,
    token_file: Path | None = None,
    tls_trust_certs: Path | None = None,
    tls_hostname: str | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    allow_hosts: Sequence[str] = (),
    listener: str | None = None,
    settings: Sequence[str] = (),
) -> Target:
    """Find out which target a user means.

    Args:
        text: `reference` or `in-process` (with `@as-written` for that profile), `pulsar://HOST:PORT`, `pulsar+ssl://HOST:PORT`,
            `apache-pulsar@VERSION`, or the path of a `.toml` file; with `?brokers=2` those that are started are a cluster,
            with `?proxy=true` those of Apache Pulsar are behind a proxy.
        admin_url: Its admin interface; takes the place of the one in the file.
        token_file: File with the token to authenticate with; takes the place of the one in the file.
        tls_trust_certs: PEM file of the authorities to trust; takes the place of the one in the file.
        tls_hostname: The name that the certificate has to carry; takes the place of the one in the file.
        tls_certificate: PEM file of the certificate to show; takes the place of the one in the file, with its key.
        tls_key: PEM file of the private key of that certificate; None: it is in the same file.
        allow_hosts: Further hosts to which a cluster may send the suite, on top of those in the file.
        listener: The advertised listener to ask for in look-ups; takes the place of the one in the file.
        settings: Settings that the broker has without the suite's doing, "KEY=VALUE" in Pulsar's names, on top of those in the file.

    Returns:
        The target; nothing is started or contacted yet.

    Raises:
        TargetError: It can't be understood, or a file that it names can't be used.
    """
    token = read_token(token_file) if token_file else None
    if admin_url is not None:
        check_admin_url(admin_url, "the admin URL")
    trust = existing_pem_file(tls_trust_certs, "trust") if tls_trust_certs else None
    target = _parsed(text, admin_url, token, trust)
    own = _certificate(tls_certificate, tls_key)
    has = dict(map(_setting, settings))
    if has:
        if not isinstance(target, AttachedTarget | StartedTarget):
            raise TargetError(f"{target.name} is started for the run, with the settings that each case needs", hint="leave out --setting")
        target = replace(target, endpoint=replace(target.endpoint, config={**target.endpoint.config, **has}))
    if not (allow_hosts or listener or tls_hostname or own):
        return target
    if not isinstance(target, AttachedTarget | StartedTarget):
        hint = "it is started for the run, on this machine, without TLS"
        raise TargetError(f"{target.name} takes no allowed hosts, no listener, no TLS host name and no certificate", hint=hint)
    known = target.endpoint
    endpoint = replace(
        known,
        allow_hosts=(*known.allow_hosts, *allow_hosts),
        listener=listener or known.listener,
        tls_hostname=tls_hostname or known.tls_hostname,
        **own,
    )
    return replace(target, endpoint=endpoint)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise TargetError(f"the setting {text!r} has no value", hint="write KEY=VALUE, such as acknowledgmentAtBatchIndexLevelEnabled=true")
    return key.strip(), value.strip()


def _certificate(certificate: Path | None, key: Path | None) -> dict[str, Any]:
    """Return the fields of an endpoint for a certificate of our own; none without one."""
    if certificate is None:
        if key is not None:
            raise TargetError("a TLS key has no certificate", hint="give --tls-certificate, too")
        return {}
    return {
        "tls_certificate": existing_pem_file(certificate, "certificate"),
        "tls_key": None if key is None else existing_pem_file(key, "key"),
    }


def _parsed(text: str, admin_url: str | None, token: SecretStr | None, trust: Path | None) -> Target:
    if re.split("[@?]", text, maxsplit=1)[0] in _REFERENCES:
        return _reference(text, admin_url, token, trust)
    if text == _APACHE or text.startswith(f"{_APACHE}@"):
        return _apache_pulsar(text.removeprefix(_APACHE).removeprefix("@"), admin_url, token, trust)
    if text.endswith(".toml"):
        return read_target_file(Path(text), admin_url=admin_url, token=token, tls_trust_certs=trust)
    if "://" in text:
        return _attached(text, admin_url, token, trust)
    if text.startswith("client:"):
        raise TargetError(f"{text} is a client, and a broker is wanted here", hint="`driver lint` checks the driver of a client")
    meant = did_you_mean(text, [_APACHE, *_REFERENCES, *(f"{_APACHE}@{version}" for version in RELEASES)])
    if _HOST_AND_PORT.fullmatch(text):
        meant = f"; did you mean 'pulsar://{text}'?"
    raise TargetError(f"{text!r} is not a target{meant}", hint=f"a target is {_FORMS}")


def _reference(text: str, admin_url: str | None, token: SecretStr | None, tls_trust_certs: Path | None) -> Target:
    named, asked, query = text.partition("?")
    kind, at, profile = named.partition("@")
    profile = profile_name(profile)
    if at and profile not in PROFILES:
        raise TargetError(f"{kind} has no profile {profile!r}", hint=f"known: {', '.join(f'{kind}@{known}' for known in PROFILES)}")
    _refuse_addresses(text, admin_url, tls_trust_certs)
    asked_for = _asked_for(named, query, ("brokers",)) if asked else {}
    return _REFERENCES[kind](profile or "default", token, int(asked_for.get("brokers", 1)))


def _apache_pulsar(version: str, admin_url: str | None, token: SecretStr | None, tls_trust_certs: Path | None) -> Target:
    if not version:
        raise TargetError(f"{_APACHE} needs a version", hint=f"known: {', '.join(f'{_APACHE}@{known}' for known in RELEASES)}")
    _refuse_addresses(f"{_APACHE}@{version}", admin_url, tls_trust_certs)
    release, asked, query = version.partition("?")
    single = ApachePulsar(release, token=token)
    asked_for = _asked_for(f"{_APACHE}@{release}", query, ("brokers", "proxy")) if asked else {}
    brokers = ApacheCluster(release, int(asked_for["brokers"]), token) if "brokers" in asked_for else single
    return ProxiedPulsar(brokers) if "proxy" in asked_for else brokers


def _asked_for(named: str, query: str, known: Sequence[str]) -> Mapping[str, str]:
    """Read what follows the question mark: how many brokers a cluster has, and whether a proxy stands in front."""
    found = dict(part.partition("=")[::2] for part in query.split("&"))
    if set(found) <= set(known) and all(_QUERY[key].fullmatch(value) for key, value in found.items()):
        return found
    hint = f"write ?brokers=2, at most {MOST_BROKERS}" + (", ?proxy=true, or ?brokers=2&proxy=true" if "proxy" in known else "")
    raise TargetError(f"{named}?{query}: what follows ? is not understood", hint=hint)


def _refuse_addresses(name: str, admin_url: str | None, tls_trust_certs: Path | None) -> None:
    for option, value in (("admin URL", admin_url), ("TLS trust file", tls_trust_certs)):
        if value is not None:
            raise TargetError(f"{name} takes no {option}", hint="it is started for the run, on addresses of its own")


def _attached(text: str, admin_url: str | None, token: SecretStr | None, tls_trust_certs: Path | None) -> Target:
    if urlsplit(text).scheme in ("http", "https"):
        raise TargetError(f"{text} is an admin URL, not a service URL", hint=f"write pulsar://HOST:6650 --admin-url {text}")
    check_service_url(text, "the target")
    endpoint = Endpoint(
        name=text.rstrip("/"), service_url=text.rstrip("/"), admin_url=admin_url, token=token, tls_trust_certs=tls_trust_certs
    )
    return AttachedTarget(endpoint)
