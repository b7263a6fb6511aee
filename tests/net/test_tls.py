"""The binary protocol over TLS: a stock client, the suite, a restart, and certificates that can't be used."""

from __future__ import annotations

import pulsar
import pytest
from typer.testing import CliRunner

from conformance.cli import app
from refimpl.net.embedded import EmbeddedBroker
from tests.fakes.certificates import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def broker(certificates):
    with EmbeddedBroker({**certificates.settings, "brokerServicePortTls": "0"}) as running:
        yield running


def test_the_stock_python_client(broker, certificates):
    client = pulsar.Client(broker.service_url_tls, tls_trust_certs_file_path=str(certificates.trust_file), tls_validate_hostname=True)
    consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
    producer.send(b"secret")
    assert consumer.receive(20_000).data() == b"secret"
    broker.stop()
    broker.start()  # at the same port
    producer.send(b"again")
    assert [consumer.receive(20_000).data() for _ in range(2)] == [b"secret", b"again"]
    client.close()
    plain = pulsar.Client(broker.service_url)
    plain.create_producer("t").send(b"the other port is as it was")
    plain.close()


def test_the_stock_python_client_that_does_not_trust_the_certificate(broker):
    client = pulsar.Client(broker.service_url_tls, operation_timeout_seconds=2)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("t")
    client.close()


def test_the_suite(broker, certificates, tmp_path):
    where = ["run", broker.service_url_tls, "--admin-url", broker.admin_url, "--report", str(tmp_path), "--select", "core/deliver/order"]
    trusting = CliRunner().invoke(app, [*where, "--tls-trust-certs", str(certificates.trust_file)])
    assert (trusting.exit_code, "cases    1: 1 passed" in trusting.output) == (0, True), trusting.output
    strange = CliRunner().invoke(app, where)
    assert strange.exit_code == 3
    assert "certificate verify failed" in strange.output


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"brokerServicePortTls": "0"}, "TLS needs tlsCertificateFilePath"),
        (
            {"brokerServicePortTls": "0", "tlsCertificateFilePath": "no/c.pem", "tlsKeyFilePath": "k"},
            "tlsCertificateFilePath and tlsKeyFilePath can't be used: No such file",
        ),
        ({"brokerServicePortTls": "99999"}, "brokerServicePortTls is a port, or nothing, not '99999'"),
    ],
)
def test_certificates_that_cannot_be_used(settings, said):
    with pytest.raises(ValueError, match=said), EmbeddedBroker(settings):
        pass
