"""The command `proxy`: what it prints, records and judges, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.captures import check_capture
from conformance.captures.recording import Recording
from conformance.cli import app
from conformance.commands.proxying import Recorder
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_COULD_NOT_RUN, EXIT_INCONCLUSIVE, EXIT_NOT_CONFORMANT, EXIT_USAGE
from conformance.proxy import proxying
from conformance.targets import Endpoint
from refimpl.net.embedded import EmbeddedBroker
from refimpl.wire import command, encode_frame
from tests.fakes.certificates import Certificates
from tests.fakes.link_peers import DEADLINE, SocketPeer
from tests.proxy.stand import PING, PONG, TOPIC, Kept, Stand, at_stand, send
from tests.samples.captured import everything

CONNECT = encode_frame(command("connect", client_version="test", protocol_version=21))
PRODUCER = encode_frame(command("producer", topic=TOPIC, producer_id=1, request_id=1))


class Running:
    """A proxy in a process of its own.

    Attributes:
        url: What clients are given.
    """

    def __init__(self, *arguments: str) -> None:
        words = [sys.executable, "-m", "conformance.cli", "proxy", *arguments]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.ready = json.loads(self.process.stdout.readline())
        self.url = self.ready["service_url"]

    def line(self, part: str) -> str:
        """Wait for a line of the listing."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if part in line:
                return line.rstrip()
        raise AssertionError(f"{part} was not listed")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, list[str], str]:
        """End it; return exit code, the rest of the listing, and standard error."""
        self.process.send_signal(number)
        out, end = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out.splitlines(), end


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    proxy = Running(*arguments)
    try:
        yield proxy
    finally:
        proxy.process.kill()
        proxy.process.communicate()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


def talk(url: str) -> None:
    """Produce a message, and end."""
    peer = SocketPeer(url)
    with peer.socket:
        peer.send(CONNECT)
        assert peer.receive() == "connected"
        peer.send(PRODUCER)
        assert peer.receive() == "producer_success"
        peer.send(send(0))
        assert peer.receive() == "send_receipt"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_lists_records_judges_and_ends(broker, tmp_path, number):
    with running("--to", broker.service_url, "--record", str(tmp_path / "c"), "--judge") as proxy:
        assert (proxy.ready["to"], proxy.ready["pid"]) == (broker.service_url, proxy.process.pid)
        talk(proxy.url)
        proxy.line("<- ends the connection")
        open_ = SocketPeer(proxy.url)
        open_.send(CONNECT)
        assert open_.receive() == "connected"
        code, _, end = proxy.end(number)
        open_.socket.close()
    assert code == EXIT_CONFORMANT, end
    assert "2 connections: 4 frames" in end
    assert "times: 0 breaches" in end
    check_capture(str(tmp_path / "c"))
    rows = everything(tmp_path / "c")
    assert {row.corrupt for row in rows} == {None}
    assert [row.command for row in rows if row.origin.direction == "client"] == ["connect", "producer", "send", "connect"]
    assert f"recorded in {tmp_path / 'c'}: 4 files, {sum(len(row.data) for row in rows):,} bytes" in end


def test_a_filter_lists_its_commands_and_what_is_out_of_the_ordinary(broker):
    with running("--to", broker.service_url, "--filter", "SEND_RECEIPT", "--fault", "twice CONNECTED") as proxy:
        peer = SocketPeer(proxy.url)
        peer.send(b"\xff" * 8)
        assert peer.receive() is None
        peer.socket.close()
        peer = SocketPeer(proxy.url)
        with peer.socket:
            peer.send(CONNECT)
            assert [peer.receive(), peer.receive()] == ["connected"] * 2
            peer.send(PRODUCER + send(0))
            assert [peer.receive(), peer.receive()] == ["producer_success", "send_receipt"]
        code, lines, end = proxy.end()
    assert code == EXIT_CONFORMANT
    assert [line[13:].split("{")[0] for line in lines] == [
        "#1      -> no frame, passed on as it is, with all that follows: a frame of 4,294,967,299 bytes",
        "#2   <- SEND_RECEIPT",
    ]
    assert "1 line about what is out of the ordinary" in end
    assert "faults that were still switched on: twice CONNECTED" in end


def test_quiet_lists_no_frames(broker):
    with running("--to", broker.service_url, "--quiet") as proxy:
        talk(proxy.url)
        code, lines, _ = proxy.end()
    assert (code, lines) == (EXIT_CONFORMANT, [])


def test_a_breach_is_listed_and_is_the_exit_code(broker):
    with running("--to", broker.service_url, "--judge", "--quiet") as proxy:
        peer = SocketPeer(proxy.url)
        with peer.socket:
            peer.send(PRODUCER + CONNECT)
            assert peer.receive() is None
        code, lines, end = proxy.end()
    assert code == EXIT_NOT_CONFORMANT, end
    assert any("#1   -> BREACH of core." in line for line in lines)


def test_nothing_and_garbage_are_no_pass(broker):
    with running("--to", broker.service_url, "--judge") as proxy:
        code, _, end = proxy.end()
    assert (code, "inconclusive: there was nothing to judge" in end) == (EXIT_INCONCLUSIVE, True)
    with running("--to", broker.service_url, "--judge") as proxy:
        talk(proxy.url)
        peer = SocketPeer(proxy.url)
        with peer.socket:
            peer.send(b"GET / HTTP/1.1\r\n\r\n")
            assert peer.receive() is None
        code, _, end = proxy.end()
    assert (code, "inconclusive: bytes of 1 connection were not seen" in end) == (EXIT_INCONCLUSIVE, True)


def test_it_ends_when_nobody_reads(broker):
    with running("--to", broker.service_url) as proxy:
        assert proxy.process.stdout is not None
        proxy.process.stdout.close()
        peer = SocketPeer(proxy.url)
        with peer.socket:
            assert proxy.process.wait(DEADLINE) == EXIT_COULD_NOT_RUN
        assert proxy.process.stderr is not None
        assert "nobody reads the listing" in proxy.process.stderr.read()
        proxy.process.stdout = None


def test_what_it_can_not_do_says_why(tmp_path):
    (tmp_path / "x").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        used = f"127.0.0.1:{taken.getsockname()[1]}"
        to = ("--to", "pulsar://127.0.0.1:6650")
        for arguments, words in [
            (("--to", "http://a:1"), "--to 'http://a:1' is not a service URL"),
            (("--to", "pulsar+ssl://a:1", "--tls-trust-certs", "/gone"), "TLS trust file /gone does not exist"),
            ((*to, "--listen", "6650"), "--listen '6650': it has the form HOST:PORT"),
            ((*to, "--listen", "127.0.0.1:6650"), "is the address of the broker itself"),
            ((*to, "--listen", used), f"--listen: {used}: Address already in use: choose another address"),
            ((*to, "--filter", "SENT"), "--filter: no command is called 'SENT'; did you mean 'SEND'?"),
            ((*to, "--fault", "break SEND"), "--fault: 'break SEND' is no fault; there are: drop COMMAND"),
            ((*to, "--fault", "refuse SEND Bussy"), "--fault: no error is called 'Bussy'"),
            ((*to, "--record", str(tmp_path)), f"--record: {tmp_path}: is not empty"),
        ]:
            done = CliRunner().invoke(app, ["proxy", *arguments])
            assert (done.exit_code, words in done.stderr) == (EXIT_USAGE, True), (arguments, done.stderr)
            assert done.stdout == ""


def test_a_recording_that_can_not_be_written_hinders_nobody(tmp_path, capsys):
    recorders = []

    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(PING)
        assert await broker.bytes(len(PING)) == PING
        recorders[0].flush()
        (tmp_path / "c" / "00001.client").unlink()
        (tmp_path / "c" / "00001.client").mkdir()
        client.write(PING)
        assert await broker.bytes(len(PING)) == PING
        recorders[0].flush()
        assert recorders[0].problem == f"{tmp_path / 'c'}: the recording is not complete: Is a directory"
        broker.write(PONG)
        assert await client.bytes(len(PONG)) == PONG
        await asyncio.sleep(0)

    def recorder() -> list[Recorder]:
        recorders.append(Recorder(Recording(Path(tmp_path / "c"))))
        return recorders

    at_stand(test, watchers=recorder, kept=lambda: Kept(()))
    assert capsys.readouterr().err.count("the recording is not complete") == 1


STOCK_CLIENT = """
import sys
import pulsar

client = pulsar.Client(sys.argv[1], tls_trust_certs_file_path=sys.argv[2], tls_validate_hostname=True, operation_timeout_seconds=10,
                       logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
consumer = client.subscribe("tls", "s")
producer = client.create_producer("tls")
producer.send(b"over TLS")
message = consumer.receive(10000)
consumer.acknowledge(message)
print(message.data().decode())
client.close()
"""


def stock_client(url: str, trust: Path) -> subprocess.CompletedProcess[str]:
    """Let Apache Pulsar's own client for Python send itself a message."""
    return subprocess.run(
        [sys.executable, "-c", STOCK_CLIENT, url, str(trust)], check=False, capture_output=True, text=True, timeout=DEADLINE
    )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker_with_tls(certificates: Certificates) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(config={**certificates.settings, "brokerServicePortTls": "0"}) as started:
        yield started


def listening_with(certificates: Certificates) -> list[str]:
    certificate, key = certificates.settings.values()
    return ["--listen-certificate", certificate, "--listen-key", key]


def test_a_stock_client_is_seen_and_judged_with_tls_on_both_sides(
    broker_with_tls: EmbeddedBroker, certificates: Certificates, tmp_path: Path
) -> None:
    to = ["--to", str(broker_with_tls.service_url_tls), "--tls-trust-certs", str(certificates.trust_file)]
    folder = tmp_path / "capture"
    with running(*to, *listening_with(certificates), "--judge", "--record", str(folder)) as proxy:
        assert proxy.url.startswith("pulsar+ssl://127.0.0.1:")
        done = stock_client(proxy.url, certificates.trust_file)
        assert (done.stdout, done.returncode) == ("over TLS\n", 0), done.stderr
        code, lines, summary = proxy.end()
    listing = "\n".join(lines)
    assert code == EXIT_CONFORMANT, summary
    assert f'LOOKUP_RESPONSE{{brokerServiceUrlTls: "{proxy.url}"' in listing
    assert [name for name in ("CONNECT{", "SEND{", "SEND_RECEIPT{", "MESSAGE{", "ACK{") if name not in listing] == []
    read = CliRunner().invoke(app, ["read", str(folder), "--judge"])
    assert read.exit_code == EXIT_CONFORMANT, read.output
    assert "SEND_RECEIPT{" in read.output


def test_tls_on_one_side_only(broker: EmbeddedBroker, broker_with_tls: EmbeddedBroker, certificates: Certificates) -> None:
    with running("--to", broker.service_url, *listening_with(certificates)) as proxy:
        done = stock_client(proxy.url, certificates.trust_file)
        assert (done.stdout, done.returncode) == ("over TLS\n", 0), done.stderr
    to = ["--to", str(broker_with_tls.service_url_tls), "--tls-trust-certs", str(certificates.trust_file)]
    with running(*to) as proxy:
        assert proxy.url.startswith("pulsar://")
        done = stock_client(proxy.url, certificates.trust_file)
        assert (done.stdout, done.returncode) == ("over TLS\n", 0), done.stderr


def through_one_that_wants_a_certificate(
    broker: EmbeddedBroker, certificates: Certificates, *options: str
) -> tuple[subprocess.CompletedProcess[str], int, list[str], str]:
    """Let the stock client talk through the command to a broker that wants a certificate; return what came of both."""

    async def talk() -> tuple[subprocess.CompletedProcess[str], int, list[str], str]:
        to = Endpoint(name="broker", service_url=broker.service_url)
        async with proxying(to, tls=certificates.asking()) as wanting:  # a broker whose connections all come with a certificate

            def run() -> tuple[subprocess.CompletedProcess[str], int, list[str], str]:
                with running("--to", wanting.service_url, "--tls-trust-certs", str(certificates.trust_file), *options, "--judge") as proxy:
                    done = stock_client(proxy.url, certificates.trust_file)
                    return done, *proxy.end()

            return await asyncio.to_thread(run)

    return asyncio.run(talk())


@pytest.mark.parametrize("one_file", [False, True])
def test_a_stock_client_reaches_a_broker_that_wants_a_certificate(
    broker: EmbeddedBroker, certificates: Certificates, tmp_path: Path, one_file: bool
) -> None:
    certificate, key = certificates.client
    options = ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    if one_file:
        both = tmp_path / "both.pem"
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        options = ["--tls-certificate", str(both)]
    done, code, lines, summary = through_one_that_wants_a_certificate(broker, certificates, *options)
    assert (done.stdout, done.returncode) == ("over TLS\n", 0), done.stderr
    assert code == EXIT_CONFORMANT, summary
    assert [name for name in ("CONNECT{", "SEND{", "SEND_RECEIPT{", "MESSAGE{", "ACK{") if name not in "\n".join(lines)] == []


def test_without_a_certificate_a_broker_that_wants_one_is_not_reached(broker: EmbeddedBroker, certificates: Certificates) -> None:
    done, _, lines, _ = through_one_that_wants_a_certificate(broker, certificates)
    assert done.returncode != 0
    assert "SEND{" not in "\n".join(lines)
    assert any("<- ends the connection" in line for line in lines), lines


def test_a_client_that_does_not_come_through_the_handshake_is_a_line(broker: EmbeddedBroker, certificates: Certificates) -> None:
    with running("--to", broker.service_url, *listening_with(certificates), "--judge", "--quiet") as proxy:
        with SocketPeer(proxy.url.replace("+ssl", "")).socket as plain:
            plain.sendall(CONNECT)
            assert "a client did not come through the TLS handshake: " in proxy.line("handshake")
        code, _, summary = proxy.end()
    assert code == EXIT_INCONCLUSIVE
    assert summary.startswith("0 connections")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen-key", "KEY"], "name it with --listen-certificate"),
        (["--listen-certificate", "/no/such.pem"], "TLS certificate file /no/such.pem does not exist"),
        (["--listen-certificate", "KEY"], "can't be used"),
        (["--tls-hostname", "a.example"], "the --tls-* options are for TLS"),
    ],
)
def test_files_of_tls_that_can_not_be_used_are_named(certificates: Certificates, arguments: list[str], words: str) -> None:
    key = certificates.settings["tlsKeyFilePath"]
    given = [key if one == "KEY" else one for one in arguments]
    done = CliRunner().invoke(app, ["proxy", "--to", "pulsar://127.0.0.1:6650", *given])
    assert done.exit_code == EXIT_USAGE
    assert words in " ".join(done.output.split())
