"""A real pulsar-proxy in front of a real broker, with TLS, certificates of clients and tokens from one end to the other."""

import asyncio
import base64
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from conformance.targets import ApachePulsar
from conformance.targets.apache_proxy import proxy
from conformance.targets.process import free_ports
from tests.fakes.certificates import Certificates
from tests.samples.tokens import TOKEN_SECRET_KEY, tokens

pytestmark = pytest.mark.real
ROLES = tokens("admin", "proxy")
AUTHENTICATED = {
    "authenticationEnabled": "true",
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "tokenSecretKey": TOKEN_SECRET_KEY,
    "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
}
BROKER = {
    **AUTHENTICATED,
    "authorizationEnabled": "true",
    "superUserRoles": "admin,proxy",
    "proxyRoles": "proxy",
    "authenticateOriginalAuthData": "true",
    "brokerClientAuthenticationParameters": f"token:{ROLES['admin']}",
}
PROXY = {**AUTHENTICATED, "forwardAuthorizationCredentials": "true", "brokerClientAuthenticationParameters": f"token:{ROLES['proxy']}"}
CASES = ["core/handshake/connected", "core/deliver/order", "core/lookup/existing", "pip145/watch/create-then-delete"]
HOST = "broker.example"


def test_tls_certificates_and_tokens_reach_the_broker_behind_a_proxy(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path, HOST)
    token_file = tmp_path / "token"
    token_file.write_text(ROLES["admin"])
    service, admin = free_ports(2)
    tls = {
        **certificates.settings,
        "servicePortTls": str(service),
        "webServicePortTls": str(admin),
        "tlsTrustCertsFilePath": str(certificates.trust_file),
        "tlsRequireTrustedClientCertOnConnect": "true",
    }
    select = [argument for case in CASES for argument in ("--select", case)]
    address = ["run", f"pulsar+ssl://127.0.0.1:{service}", "--admin-url", f"https://127.0.0.1:{admin}", *select]
    trust = ["--tls-trust-certs", str(certificates.trust_file), "--tls-hostname", HOST]
    own = ["--tls-certificate", str(certificates.client[0]), "--tls-key", str(certificates.client[1])]
    token = ["--token-file", str(token_file)]

    async def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "conformance.cli", *arguments, "--report", str(tmp_path / "report")]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=300, env=os.environ, check=False)
        return done.returncode, done.stdout + done.stderr

    async def main() -> list[tuple[int, str]]:
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(ApachePulsar("2.11.0").run(BROKER))
            await stack.enter_async_context(proxy(broker, {**PROXY, **tls}))
            return [await run(*address, *options) for options in ([*trust, *own, *token], [*trust, *token], [*trust, *own], [*own, *token])]

    whole, without_certificate, without_token, without_trust = asyncio.run(main())
    assert whole[0] == 0, whole[1]
    assert f"cases    {len(CASES)}: {len(CASES)} passed" in whole[1]
    assert [code for code, _ in (without_certificate, without_token, without_trust)] == [3, 3, 3]
    assert "ended the connection" in without_certificate[1] or "alert certificate required" in without_certificate[1]
    assert "refused CONNECT" in without_token[1] or "ended the connection" in without_token[1]
    assert "certificate verify failed" in without_trust[1]
    assert base64.b64encode(ROLES["admin"].encode()).decode() not in (tmp_path / "report" / "events.jsonl").read_text()
