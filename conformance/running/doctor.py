"""Checks a target for problems that would spoil a run, and removes what interrupted runs left behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.engine.capabilities import CAPABILITIES
from conformance.running.namespaces import NAMESPACE_PREFIX
from conformance.running.one_broker import see_one_broker
from conformance.running.probe import TENANT, claimed, probe, said
from conformance.running.usual import given
from conformance.targets import AdminClient, Target, as_settings
from conformance.targets.operations import CONFIGURATION_PATH

_SPOILERS = {
    "forceDeleteNamespaceAllowed": ("true", "namespaces are cleaned topic by topic, which takes longer"),
    "subscriptionPatternMaxLength": ("50", "cases about the longest pattern are UNTESTABLE; if it is shorter, most cases about PIP-145"),
    "enableBrokerSideSubscriptionPatternEvaluation": (
        "true",
        "cases about PIP-145 are UNTESTABLE: the broker filters no list and refuses watches",
    ),
    "enableNonPersistentTopics": ("true", "cases that name non-persistent topics are UNTESTABLE"),
}
"""Settings that can spoil a run: the value that suits it, and what another one does."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked.

    Attributes:
        good: Whether it suits a run; None: it is neither good nor bad.
        text: What was found.
    """

    good: bool | None
    text: str


async def examine(target: Target, *, claims: Iterable[str] = (), clean: bool = False) -> list[Finding]:
    """Check a target.

    Args:
        target: The target; it is started if it can be.
        claims: Capabilities that the user declares for the target.
        clean: Remove the namespaces of interrupted runs.

    Raises:
        TargetError: The target can't be reached, does not speak Pulsar, or has the admin URL of another broker.
    """
    async with target.run() as endpoint:
        probed = await probe(claimed(endpoint, claims))
        findings = [
            Finding(True, f"{endpoint.service_url} speaks Pulsar: {probed.server_version}, protocol version {probed.protocol_version}")
        ]
        findings += [
            Finding(True if has else None, f"{name}: {'yes (' if has else 'no (needed: '}{CAPABILITIES[name]})")
            for name, has in probed.capabilities.items()
            if name not in ("config", "admin")
        ]
        if not probed.capabilities["admin"]:
            findings.append(Finding(False, "no admin URL: cases that create topics or namespaces are UNTESTABLE; give --admin-url"))
            return findings
        if not target.startable:
            await see_one_broker(endpoint)
        async with AdminClient(endpoint) as admin:
            listed = await admin.call("runtime_configuration")
            settings = listed.body if listed.ok and isinstance(listed.body, dict) else {}
            if not settings:
                text = f"the admin interface lists no settings: {CONFIGURATION_PATH} is answered with {said(listed)}"
                findings.append(Finding(None, text))
            for key, (wanted, effect) in _SPOILERS.items() if settings else ():
                value = settings.get(key)
                if value is None:
                    findings.append(Finding(True, f"{key}: not listed"))
                else:
                    findings.append(Finding(value == wanted, f"{key}={value}" + ("" if value == wanted else f": {effect}")))
            for key, policy in given(as_settings(settings)).items():
                findings.append(Finding(None, f"{key}={settings[key]}: the namespaces of a run get {policy} of their own"))
            findings += await _leftovers(admin, clean=clean)
        return findings


async def _leftovers(admin: AdminClient, *, clean: bool) -> list[Finding]:
    listed = await admin.call("namespaces", TENANT)
    if not listed.ok or not isinstance(listed.body, list):
        return [Finding(False, f"the namespaces of the tenant {TENANT} can't be listed: the admin interface answers {said(listed)}")]
    left = [name for name in listed.body if name.startswith(f"{TENANT}/{NAMESPACE_PREFIX}")]
    if not left:
        return [Finding(True, "no namespaces of interrupted runs")]
    if not clean:
        return [Finding(False, f"{len(left)} namespaces of interrupted runs: --clean removes them")]
    failed = [name for name in left if not (await admin.remove_namespace(name)).ok]
    return [
        Finding(not failed, f"{len(left) - len(failed)} namespaces of interrupted runs removed" + (f", not: {failed}" if failed else ""))
    ]
