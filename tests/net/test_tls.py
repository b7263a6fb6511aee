"""The binary protocol over TLS: a stock client, the suite, a restart, and certificates that can't be used."""

from __future__ import annotations

import contextlib

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


class Certified:
    """Brokers whose certificates are good, for another name, and of the past."""

    def __init__(self, folder):
        kinds = {"good": {}, "other": {"names": ("broker.example",)}, "expired": {"expired": True}}
        self.certificates = {}
        for kind, options in kinds.items():
            (folder / kind).mkdir()
            self.certificates[kind] = Certificates(folder / kind, *options.pop("names", ()), **options)
        ports = {"brokerServicePortTls": "0", "webServicePortTls": "0"}
        self.brokers = {kind: EmbeddedBroker({**one.settings, **ports}) for kind, one in self.certificates.items()}


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    made = Certified(tmp_path_factory.mktemp("certified"))
    with contextlib.ExitStack() as stack:
        for broker in made.brokers.values():
            stack.enter_context(broker)
        yield made


TRUST = "certificate verify failed: unable to get local issuer certificate) (trust the authority that issued it with --tls-trust-certs)"
BROKEN = "the TLS handshake was broken off (does this port speak TLS? without TLS the address begins with pulsar:// or http://)"
NAME = "(use the name that the certificate carries: in the address, or with --tls-hostname)"
MISTAKES = [
    ("good", "plain as TLS", [], BROKEN),
    ("good", "TLS as plain", [], "ended the connection after CONNECT (does it need TLS (pulsar+ssl://), or a token?)"),
    ("good", "TLS", [], TRUST.replace(")", "", 1)),
    ("good", "TLS", ["--tls-trust-certs", "{trust}", "--tls-hostname", "x.example"], f"certificate is not valid for 'x.example' {NAME}"),
    ("other", "TLS", ["--tls-trust-certs", "{trust}"], f"certificate is not valid for '127.0.0.1' {NAME}"),
    ("expired", "TLS", ["--tls-trust-certs", "{trust}"], "certificate has expired (the broker needs a certificate that has not expired)"),
    ("good", "plain", ["--admin-url", "{admin_tls}"], f"no answer ({TRUST}"),
    ("good", "plain", ["--admin-url", "{admin_tls_as_plain}"], "/admin/v2/namespaces/public: the port speaks TLS (write https://127.0.0.1:"),
    ("good", "plain", ["--admin-url", "{admin_as_tls}"], f"no answer ({BROKEN.replace(' (', ') (', 1)}"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "how", "options", "words"), MISTAKES)
def test_a_mistake_about_tls_is_one_line_that_says_what_to_do(certified, tmp_path, kind, how, options, words):
    broker = certified.brokers[kind]
    urls = {
        "plain": broker.service_url,
        "TLS": broker.service_url_tls,
        "plain as TLS": broker.service_url.replace("pulsar:", "pulsar+ssl:"),
        "TLS as plain": broker.service_url_tls.replace("pulsar+ssl:", "pulsar:"),
    }
    named = {
        "trust": certified.certificates[kind].trust_file,
        "admin_tls": broker.admin_url_tls,
        "admin_tls_as_plain": broker.admin_url_tls.replace("https:", "http:"),
        "admin_as_tls": broker.admin_url.replace("http:", "https:"),
    }
    given = [one.format_map(named) for one in options]
    found = CliRunner().invoke(app, ["run", urls[how], "--report", str(tmp_path), "--select", "core/deliver/order", *given])
    assert found.exit_code == 3
    assert words in found.output
    assert len(found.output.splitlines()) == 1


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
