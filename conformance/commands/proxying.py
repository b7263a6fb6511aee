"""The command `proxy`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time

import typer

from conformance.captures.errors import CaptureError
from conformance.captures.recording import Recording
from conformance.captures.rows import Direction
from conformance.commands.overhearing import Judge
from conformance.console import err, stop
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_COULD_NOT_RUN, EXIT_USAGE
from conformance.monitors import Breach
from conformance.options import Tls
from conformance.proxy import Passed, Proxy, Watcher, proxying
from conformance.report.listing import breach_text, frame_text, line
from conformance.report.wording import number_of
from conformance.targets.inputs import check_service_url, existing_pem_file
from conformance.targets.model import Endpoint, TargetError
from refimpl.broker import Configuration
from refimpl.net.faults import Switch, field_of, read_switch
from refimpl.net.tls import server_context

FLUSH_SECONDS = 0.5
"""Seconds after which what was recorded is written."""


@dataclass(frozen=True)
class TlsOptions(Tls):
    """What TLS needs, on the side of the broker and on that of the clients; None: nothing.

    Attributes:
        listen_certificate: PEM file of the certificate that clients are shown.
        listen_key: PEM file of its key.
    """

    listen_certificate: Path | None = None
    listen_key: Path | None = None


@dataclass(frozen=True)
class Asked:
    """What the user asked for.

    Attributes:
        to: The broker.
        host: The host to listen on.
        port: The port; 0: a free one.
        commands: The commands that are listed, as fields of `BaseCommand`; None: all; empty: none.
        faults: Harm that is done.
        record: Folder of the recording.
        judged: Whether the monitors judge what passes.
        tls: The TLS context for clients; None: they come with plain TCP.
    """

    to: Endpoint
    host: str
    port: int
    commands: Collection[str] | None
    faults: Sequence[Switch]
    record: Path | None
    judged: bool
    tls: ssl.SSLContext | None = None


def asked_or_stop(
    to: str,
    listen: str,
    commands: Sequence[str],
    faults: Sequence[str],
    record: Path | None,
    *,
    allow_hosts: Sequence[str],
    tls_options: TlsOptions,
    quiet: bool,
    judged: bool,
) -> Asked:
    """Check what was asked for; what can't be is one line and the end."""
    try:
        check_service_url(to, "--to")
        endpoint = _endpoint(to, tls_options, allow_hosts)
        tls = _for_clients(tls_options)
    except TargetError as error:
        stop(EXIT_USAGE, str(error))
    host, port = _address(listen)
    if port and (host, port) == (endpoint.host, endpoint.port):
        stop(EXIT_USAGE, f"--listen {listen} is the address of the broker itself: choose another port, or 0 for a free one")
    shown = () if quiet else commands_or_stop(commands)
    return Asked(endpoint, host, port, shown, [_fault(text) for text in faults], record, judged, tls)


def _endpoint(to: str, options: TlsOptions, allow_hosts: Sequence[str]) -> Endpoint:
    """Return the broker; TargetError if it can't be reached with these options."""
    endpoint = Endpoint(
        name=to,
        service_url=to.rstrip("/"),
        tls_trust_certs=existing_pem_file(options.tls_trust_certs, "trust") if options.tls_trust_certs else None,
        tls_hostname=options.tls_hostname,
        tls_certificate=existing_pem_file(options.tls_certificate, "certificate") if options.tls_certificate else None,
        tls_key=existing_pem_file(options.tls_key, "key") if options.tls_key else None,
        allow_hosts=tuple(allow_hosts),
    )
    if endpoint.tls:
        endpoint.ssl_context()
    elif any((options.tls_trust_certs, options.tls_hostname, options.tls_certificate, options.tls_key)):
        raise TargetError(f"--to {to} is plain TCP, and the --tls-* options are for TLS", hint="TLS is pulsar+ssl://HOST:PORT")
    if options.tls_key and not options.tls_certificate:
        raise TargetError("--tls-key is the key of a certificate", hint="name it with --tls-certificate")
    return endpoint


def _for_clients(options: TlsOptions) -> ssl.SSLContext | None:
    """Return the TLS context for clients; TargetError if certificate and key can't be used."""
    if options.listen_certificate is None:
        if options.listen_key is not None:
            raise TargetError("--listen-key is the key of a certificate", hint="name it with --listen-certificate")
        return None
    certificate, key = existing_pem_file(options.listen_certificate, "certificate"), options.listen_key
    settings = {"tlsCertificateFilePath": str(certificate), "tlsKeyFilePath": str(existing_pem_file(key, "key") if key else certificate)}
    try:
        return server_context(Configuration.from_settings(settings))
    except ValueError:
        names = " and ".join(str(one) for one in (certificate, key) if one is not None)
        hint = "a certificate and its private key in PEM, the key without a password"
        raise TargetError(f"--listen-certificate: {names} can't be used", hint=hint) from None


def commands_or_stop(names: Sequence[str]) -> frozenset[str] | None:
    """Return the commands that --filter names, as fields of `BaseCommand`; None: all."""
    try:
        return frozenset(map(field_of, names)) or None
    except ValueError as error:
        stop(EXIT_USAGE, f"--filter: {error}")


def _fault(text: str) -> Switch:
    try:
        return read_switch(text)
    except ValueError as error:
        stop(EXIT_USAGE, f"--fault: {error}")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        stop(EXIT_USAGE, f"--listen {text!r}: it has the form HOST:PORT; port 0 is a free one")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


class Listing(Watcher):
    """Prints what passes, many lines at a time.

    Args:
        commands: Those that are listed; None: all. Only then connections are, too.
    """

    def __init__(self, commands: Collection[str] | None) -> None:
        self.commands = commands
        self.broken = asyncio.Event()
        self._lines: list[str] = []

    def opened(self, connection: int, time: float, client: str, broker: str) -> None:
        """List a connection."""
        if self.commands is None:
            self._print(line(time, connection, None, f"opened by {client}, leads to {broker}"))

    def frame(self, passed: Passed) -> None:
        """List a frame."""
        self._print(line(passed.time, passed.connection, passed.direction, frame_text(passed.frame, passed.payload, passed.remark)))

    def note(self, connection: int | None, time: float, text: str) -> None:
        """List what is out of the ordinary, whatever is asked for."""
        self._print(line(time, connection, None, text))

    def breach(self, breach: Breach) -> None:
        """List a breach, whatever is asked for."""
        self._print(line(breach.time, int(breach.connection), breach.side, breach_text(breach.clause, breach.text)))

    def ended(self, connection: int, direction: Direction, time: float) -> None:
        """List the end of one side."""
        if self.commands is None:
            self._print(line(time, connection, direction, "ends the connection"))

    def flush(self) -> None:
        """Print what waits."""
        lines, self._lines = self._lines, []
        if not lines or self.broken.is_set():
            return
        try:
            print("\n".join(lines), flush=True)
        except OSError:  # nobody reads any more
            self.broken.set()

    def _print(self, text: str) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_soon(self.flush)
        self._lines.append(text)


class Recorder(Watcher):
    """Records what passes as a raw capture. When that is no longer possible, it says so once, and the conversations go on.

    Args:
        recording: The capture.

    Attributes:
        problem: Why it is not complete.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.problem: str | None = None
        self._since = time() - asyncio.get_running_loop().time()
        self._timer: asyncio.TimerHandle | None = None

    def opened(self, connection: int, time: float, client: str, broker: str) -> None:  # noqa: ARG002
        """Note when a connection was opened."""
        self.recording.opened(connection, self._now())

    def data(self, connection: int, direction: Direction, data: bytes | memoryview, time: float) -> None:  # noqa: ARG002
        """Keep bytes."""
        if self.problem is None:
            try:
                self.recording.add(connection, direction, data, self._now())
            except OSError as error:
                self._failed(error)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    def closed(self, connection: int, time: float) -> None:  # noqa: ARG002
        """Write what is there of a connection."""
        if self.problem is None:
            try:
                self.recording.ended(connection)
            except OSError as error:
                self._failed(error)

    def flush(self) -> None:
        """Write what waits."""
        self._timer = None
        if self.problem is None:
            try:
                self.recording.flush()
            except OSError as error:
                self._failed(error)

    def _now(self) -> float:
        return self._since + asyncio.get_running_loop().time()

    def _failed(self, error: OSError) -> None:
        self.problem = f"{self.recording.folder}: the recording is not complete: {error.strerror or error}"
        err.print(self.problem, style="bold red", highlight=False, markup=False, soft_wrap=True)


class Judging(Watcher):
    """Judges what passes, as the client lives through it.

    Args:
        listing: Shows what is found.
    """

    commands = None
    whole = True

    def __init__(self, listing: Listing) -> None:
        self.judge = Judge(lambda _, found: listing.breach(found))

    def opened(self, connection: int, time: float, client: str, broker: str) -> None:  # noqa: ARG002
        """Take note of a connection."""
        self.judge.opened("", str(connection))

    def frame(self, passed: Passed) -> None:
        """Judge a frame, unless it is one of the broker that the client does not get."""
        if passed.direction == "client" or not passed.dropped:
            self.judge.frame("", str(passed.connection), passed.direction, passed.frame, passed.time)

    def unseen(self, connection: int) -> None:
        """Take note of a gap."""
        self.judge.gap("", str(connection))

    def closed(self, connection: int, time: float) -> None:
        """Judge what the end of a connection leaves open."""
        self.judge.closed("", str(connection), time)


class Counting(Watcher):
    """Counts what was out of the ordinary, for the end."""

    def __init__(self) -> None:
        self.notes: Counter[int | None] = Counter()

    def note(self, connection: int | None, time: float, text: str) -> None:  # noqa: ARG002
        """Count it."""
        self.notes[connection] += 1


def proxy(asked: Asked) -> None:
    """Stand between clients and a broker until SIGINT, SIGTERM or SIGHUP; the address is printed as one line of JSON when it is ready."""
    try:
        problem, code = asyncio.run(_proxy(asked))
    except CaptureError as error:
        stop(EXIT_USAGE, f"--record: {error}")
    except OSError as error:
        stop(EXIT_USAGE, f"--listen: {error.filename}: {error.strerror}: choose another address, or port 0 for a free one")
    if problem is not None:
        stop(EXIT_COULD_NOT_RUN, problem)
    raise typer.Exit(code)


async def _proxy(asked: Asked) -> tuple[str | None, int]:
    """Run it; return why it could not be carried out as it was asked for, and the exit code if it could."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, ended.set)  # as which the others come, too
    listing, counting = Listing(asked.commands), Counting()
    recorder = Recorder(Recording(asked.record, asked.to.service_url)) if asked.record is not None else None
    judging = Judging(listing) if asked.judged else None
    watchers = [listing, counting, *(one for one in (recorder, judging) if one is not None)]
    async with proxying(asked.to, watchers, asked.faults, host=asked.host, port=asked.port, tls=asked.tls) as running:
        print(json.dumps({"service_url": running.service_url, "to": asked.to.service_url, "pid": os.getpid()}), flush=True)
        waiting = {asyncio.ensure_future(one.wait()) for one in (ended, listing.broken)}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
    if judging is not None:
        judging.judge.ended()
    listing.flush()
    if recorder is not None:
        recorder.flush()
    print(_summary(running, counting, recorder), file=sys.stderr, flush=True)
    if judging is not None:
        print(judging.judge.summary(), file=sys.stderr, flush=True)
    problem = "nobody reads the listing: the proxy ends" if listing.broken.is_set() else recorder.problem if recorder is not None else None
    return problem, judging.judge.code() if judging is not None else EXIT_CONFORMANT


def _summary(proxy: Proxy, counting: Counting, recorder: Recorder | None) -> str:
    """Say in a few words what passed."""
    sides: tuple[Direction, Direction] = ("client", "broker")
    passed = ", ".join(f"{number_of(proxy.frames[side], 'frame')} ({proxy.size[side]:,} bytes) from {_PEERS[side]}" for side in sides)
    parts = [f"{number_of(proxy.connections, 'connection')}: {passed}"]
    if counting.notes:
        parts.append(f"{number_of(sum(counting.notes.values()), 'line')} about what is out of the ordinary")
    if armed := proxy.faults.armed:
        parts.append(f"faults that were still switched on: {'; '.join(armed)}")
    if recorder is not None:
        parts.append(
            f"recorded in {recorder.recording.folder}: {number_of(recorder.recording.files, 'file')}, {recorder.recording.size:,} bytes"
        )
    return "\n".join(parts)


_PEERS: dict[Direction, str] = {"client": "clients", "broker": "brokers"}
