"""A certificate of an authority that nobody else trusts."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


class Certificates:
    """A certificate of a server, and one of a client, in files.

    Args:
        folder: Where the files are.
        names: The names of the server: 127.0.0.1 and localhost unless others are given.
        expired: Whether the certificate of the server counts no longer.
    """

    def __init__(self, folder: Path, *names: str, expired: bool = False) -> None:
        authority = trustme.CA()
        self.trust_file = folder / "trusted.pem"
        authority.cert_pem.write_to_path(self.trust_file)
        until = datetime(2021, 1, 1, tzinfo=UTC) if expired else None
        issued = authority.issue_cert(*names or ("127.0.0.1", "localhost"), key_type=trustme.KeyType.RSA, not_after=until)
        server = _written(folder / "server", issued)
        self.client = _written(folder / "client", authority.issue_cert("client.example", key_type=trustme.KeyType.RSA))
        """The certificate and the key of a client."""
        self.settings = {"tlsCertificateFilePath": str(server[0]), "tlsKeyFilePath": str(server[1])}
        """The settings of a broker that has it."""

    def trusting(self) -> ssl.SSLContext:
        """Return a client's context that trusts the authority."""
        return ssl.create_default_context(cafile=self.trust_file)

    def asking(self) -> ssl.SSLContext:
        """Return a server's context that wants a certificate of the same authority from its clients."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.trust_file)
        context.load_cert_chain(*self.settings.values())
        context.verify_mode = ssl.CERT_REQUIRED
        return context


def _written(folder: Path, issued: trustme.LeafCert) -> tuple[Path, Path]:
    folder.mkdir()
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    private = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
    plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()  # all that Apache Pulsar reads
    key.write_bytes(private.private_bytes(*plain))
    for one in issued.cert_chain_pems:
        one.write_to_path(certificate, append=True)
    return certificate, key
