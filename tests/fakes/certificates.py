"""A certificate of an authority that nobody else trusts."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Certificates:
    """A certificate for 127.0.0.1 and localhost, in files.

    Args:
        folder: Where the files are.
    """

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1", "localhost")
        self.trust_file, certificate, key = folder / "trusted.pem", folder / "certificate.pem", folder / "key.pem"
        authority.cert_pem.write_to_path(self.trust_file)
        issued.private_key_pem.write_to_path(key)
        for one in issued.cert_chain_pems:
            one.write_to_path(certificate, append=True)
        self.settings = {"tlsCertificateFilePath": str(certificate), "tlsKeyFilePath": str(key)}
        """The settings of a broker that has it."""

    def trusting(self) -> ssl.SSLContext:
        """Return a client's context that trusts the authority."""
        return ssl.create_default_context(cafile=self.trust_file)
