"""The reference broker in virtual time, without sockets: a notebook says what clients do, and gets what was said as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from google.protobuf.message import Message

from conformance.report.rows import Row, notation
from conformance.report.wording import plain_value
from refimpl.broker import PROPOSALS, AdminRefused, Broker, Configuration, Session
from refimpl.proposals.profiles import PROFILES, profile_name
from refimpl.proposals.watch_machine import WatchMachine
from refimpl.wire import FrameDecoder, command, decode_frame, encode_frame, sub_message, wrap
from refimpl.wire.pulsar_api_pb2 import CommandConnected, FeatureFlags

OnNews = Callable[[float], object]
"""Is called with the time, in seconds, when something has happened to a client's side of a proposal."""


def applies(_: object) -> bool:
    """Succeed, as a listener of partition updates that can apply whatever it is told."""
    return True


class Stage:
    """One broker, its clients, and the time between them.

    Args:
        settings: The broker's, by Pulsar's keys.
        profile: `default` or `as-written`: which reading of the proposals the broker speaks.
        proposals: What it knows; none for a broker from before all of them.

    Attributes:
        broker: The broker.
        now: The virtual time, in seconds from 0.
        rows: Everything that was said so far, for `sequence`.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        profile: str = "default",
        proposals: frozenset[str] = PROPOSALS,
    ) -> None:
        self.broker = Broker(Configuration.from_settings(settings or {}), profiles=PROFILES[profile_name(profile)], proposals=proposals)
        self.broker.server_version = "reference"  # the same in every version of this project
        self.now = 0.0
        self.rows: list[Row] = []
        self._peers: dict[str, _Peer] = {}

    def connect(self, at: str = "", watch: WatchMachine | None = None, on_news: OnNews = lambda _: None) -> FeatureFlags:
        """Open a connection, and shake hands.

        Args:
            at: Its name.
            watch: A client's side of a proposal, which from now on sees what the broker says and says what it has to.
            on_news: Is called before it says something, such as `PartitionWatch.tell` with a listener.

        Returns:
            The flags of CONNECTED.
        """
        self._peers[at] = peer = _Peer(self.broker.connect(self.now), on_news)
        self.rows.append(Row("out", "opens a connection", at=at, t=self.now))
        (connected,) = self.say("connect", at, client_version="reference", protocol_version=21)
        assert isinstance(connected, CommandConnected)
        if watch is not None:
            peer.watch = watch
            watch.connected(connected.feature_flags if connected.HasField("feature_flags") else None, self.now)
            self._settle()
        return connected.feature_flags

    def say(self, name: str, at: str = "", **fields: Any) -> list[Message]:
        """Let a client send a command, and return what the broker says on its connection at once.

        Args:
            name: The command's field in BaseCommand, such as `watchTopicList`.
            at: The connection.
            fields: Of the command.
        """
        return self.send(encode_frame(command(name, **fields)), at)

    def send(self, data: bytes, at: str = "") -> list[Message]:
        """Let a client send bytes, frames or not, and return what the broker says on its connection at once."""
        self.rows.append(Row("out", *notation(data), at, t=self.now, data=data))
        self._peers[at].session.receive(data, self.now)
        return self._settle().get(at, [])

    def admin(self, operation: str, *arguments: Any, **options: Any) -> Any:
        """Call the broker's admin interface.

        Args:
            operation: A method of `Admin`, or of the `admin` of an extension, such as `create_topic`.
            arguments: Its arguments.
            options: Its options.

        Returns:
            What it returned, or the reason if it refused.
        """
        shown = ", ".join(plain_value(one) for one in (*arguments, *options.values()))
        self.rows.append(Row("ask", operation, shown, t=self.now))
        try:
            result, answer = self._operation(operation)(*arguments, **options), "done"
        except AdminRefused as refused:
            result, answer = refused.reason, f"{refused.status}"
        self.rows.append(Row("reply", answer, "" if result is None or answer == "done" else str(result), t=self.now))
        self._settle()
        return result

    def _operation(self, name: str) -> Callable[..., Any]:
        for side in (self.broker.admin, *(extension.admin for extension in self.broker.extensions.values())):
            if hasattr(side, name):
                return cast("Callable[..., Any]", getattr(side, name))
        raise AdminRefused(404, f"this broker has no {name}")

    def wait(self, seconds: float) -> float:
        """Let time pass; what is due meanwhile happens in its order.

        Returns:
            The time then.
        """
        end = self.now + seconds
        while True:
            due = [one for one in (self.broker.next_deadline(), *self._deadlines()) if one is not None and one <= end]
            self.now = max(self.now, min(due, default=end))
            self.broker.tick(self.now)
            for peer in self._peers.values():
                if peer.watch is not None:
                    peer.watch.tick(self.now)
            self._settle()
            if not due:
                return self.now

    def announced(self, operation: str, *arguments: Any, wait: float = 0.0) -> list[Any]:
        """Call the broker's admin interface, let time pass, and return what the broker said meanwhile.

        Args:
            operation: See `admin`.
            arguments: Its arguments.
            wait: Seconds that pass.
        """
        before = len(self.rows)
        self.admin(operation, *arguments)
        self.wait(wait)
        return [sub_message(decode_frame(row.data).command) for row in self.rows[before:] if row.way == "in" and row.data]

    def lose(self, at: str = "") -> None:
        """Cut a connection."""
        peer = self._peers.pop(at)
        self.rows.append(Row("note", f"the connection {at} is lost".replace("  ", " "), t=self.now))
        peer.session.eof(self.now)
        if peer.watch is not None:
            peer.watch.disconnected(self.now)

    def heard(self, *names: str) -> list[Row]:
        """Return the rows without the exchanges of keep-alive and, if names are given, only those of their connections."""
        kept = [row for row in self.rows if row.head not in ("PING", "PONG")]
        return [row for row in kept if not names or row.at in names or row.way in ("ask", "reply", "note")]

    def _deadlines(self) -> list[float | None]:
        return [peer.watch.next_deadline() for peer in self._peers.values() if peer.watch is not None]

    def _settle(self) -> dict[str, list[Message]]:
        """Carry bytes to and fro until nobody has anything to say."""
        said: dict[str, list[Message]] = {}
        busy = True
        while busy:
            busy = False
            for at, peer in list(self._peers.items()):
                heard = peer.read()
                for data, message in heard:
                    self.rows.append(Row("in", *notation(data), at, t=self.now, data=data))
                    said.setdefault(at, []).append(message)
                answers = peer.answers([message for _, message in heard], self.now)
                for data in answers:
                    self.rows.append(Row("out", *notation(data), at, t=self.now, data=data))
                    peer.session.receive(data, self.now)
                busy = busy or bool(heard or answers)
                if peer.session.closing:
                    self.rows.append(Row("in", "closes the connection", at=at, t=self.now))
                    del self._peers[at]
        return said


class _Peer:
    """One connection, as its client sees it."""

    def __init__(self, session: Session, on_news: OnNews) -> None:
        self.session = session
        self.watch: WatchMachine | None = None
        self._on_news = on_news
        self._decoder = FrameDecoder()
        self._last_request = 0

    def read(self) -> list[tuple[bytes, Message]]:
        found = []
        while data := self.session.data_to_send():
            found += [(frame.data, sub_message(frame.command)) for frame in self._decoder.receive(data)]
        return found

    def answers(self, messages: list[Message], now: float) -> list[bytes]:
        """Return what a client says by itself: PONG, and what its watch wants."""
        made = [command("pong") for message in messages if message.DESCRIPTOR.name == "CommandPing"]
        if self.watch is not None:
            for message in messages:
                self.watch.received(wrap(message), now)
            self._on_news(now)
            made += [wrap(message) for message in self.watch.commands_to_send(self._new_request_id, now)]
        return [encode_frame(one) for one in made]

    def _new_request_id(self) -> int:
        self._last_request += 1
        return self._last_request
