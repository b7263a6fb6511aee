"""What is wrong with a TLS connection, in words, and what to do about it."""

from __future__ import annotations

import asyncio
import ssl

BROKEN_OFF = "the TLS handshake was broken off"
_NAMES = frozenset({62, 64})
"""What OpenSSL calls a host or an address that the certificate does not carry."""
_NOT_YET, _EXPIRED = 9, 10
_SECONDS = 5.0


def tls_problem(error: BaseException) -> tuple[str, str] | None:
    """Say why a TLS connection failed, and what to do.

    Args:
        error: What opening it raised, as it is or wrapped by the HTTP client.

    Returns:
        The reason and a hint; None if TLS is not the reason.
    """
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {inner.verify_message.rstrip('.')}", _of_certificate(inner.verify_code)
    if not isinstance(inner, ssl.SSLError):
        return None
    reason = getattr(inner, "reason", None) or str(inner.args[-1])  # one that this suite raises has none
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", BROKEN_OFF):
        return BROKEN_OFF, "does this port speak TLS? without TLS the address begins with pulsar:// or http://"
    return (
        f"the TLS handshake failed: {reason.replace('_', ' ').lower()}",
        "if the broker wants to see a certificate, give it with --tls-certificate",
    )


async def speaks_tls(host: str, port: int) -> bool:
    """Tell whether a port answers the beginning of a TLS handshake, whatever its certificate.

    Args:
        host: Its host.
        port: The TCP port.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # nothing is sent to it, so it need not be trusted
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (OSError, TimeoutError) as error:
        return isinstance(error, ssl.SSLError) and error.reason not in (None, "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
    writer.transport.abort()
    return True


def _of_certificate(code: int) -> str:
    if code in _NAMES:
        return "use the name that the certificate carries: in the address, or with --tls-hostname"
    if code == _EXPIRED:
        return "the broker needs a certificate that has not expired"
    if code == _NOT_YET:
        return "the certificate counts from later on: is the clock right?"
    return "trust the authority that issued it with --tls-trust-certs"
