"""The broker's side of TLS."""

from __future__ import annotations

import ssl

from refimpl.configuration import Configuration


def server_context(configuration: Configuration) -> ssl.SSLContext:
    """Return the TLS context of a broker.

    Raises:
        ValueError: Certificate or key are not named, or can't be used.
    """
    paths = {"tlsCertificateFilePath": configuration.tls_certificate_file_path, "tlsKeyFilePath": configuration.tls_key_file_path}
    for key, path in paths.items():
        if not path:
            raise ValueError(f"TLS needs {key}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(*paths.values())
    except OSError as error:  # that of ssl is one, too
        raise ValueError(f"{' and '.join(paths)} can't be used: {error.strerror or error}") from None
    return context
