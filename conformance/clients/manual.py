"""A client without a driver: a person lets it do what a case asks, and the wire, or the person, tells how it went.

The suite prints where to connect and what to do. A step has begun when the client sends what belongs to it, and is done when the backdrop
has answered all that the client asked since with success. What only the client's user can know is asked from the person where the case
waits for it anyway; a case that needs what the user sees is UNTESTABLE. docs/manual-clients.md describes it for those who use it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

from conformance.clients.backdrop import Backdrop, Listener
from conformance.clients.driver import PROTOCOL, Answer, Driver, DriverError, Hello, LeftOut
from conformance.engine import model as m
from conformance.engine.client_steps import DRIVER
from conformance.engine.node import USER, walk
from conformance.engine.program import Program
from conformance.engine.verdict import Outcome
from refimpl.wire import Frame, WireError, decode_frame
from refimpl.wire.commands import command_name, sub_message

DEFAULT_PATIENCE: Final = 300.0
"""Seconds that a person has for a step."""
Side: TypeAlias = Literal["client", "broker"]
_QUIET_SECONDS: Final = 0.3
"""Seconds without a frame after which the wire shows what was done: a client may ask for one partition after the other."""
_DONE: Final = {"ok": True}
"""The result that the wire can show."""
_LISTS: Final = frozenset({"getTopicsOfNamespace", "watchTopicList", "watchScalableTopics"})
_BEFORE: Final = frozenset({"connect", "partitionMetadata", "lookupTopic", "scalableTopicLookup", "getSchema", "getOrCreateSchema"})
"""What a client may send before it opens a producer or consumer."""
_BEGINS: Final[Mapping[str, frozenset[str]]] = {
    "producer": _BEFORE | {"producer"},
    "consumer": _BEFORE | _LISTS | {"subscribe"},
    "reader": _BEFORE | {"subscribe"},
    "send": frozenset({"send"}),
    "acknowledge": frozenset({"ack"}),
    "negative_acknowledge": frozenset({"redeliverUnacknowledgedMessages"}),
    "seek": frozenset({"seek"}),
    "unsubscribe": frozenset({"unsubscribe"}),
    "close": frozenset({"close_producer", "close_consumer"}),
}
"""By verb: the commands of the client that show that it has begun. Other verbs only the person can tell."""
_WANTS: Final = {"producer": frozenset({"producer"}), "consumer": _LISTS | {"subscribe"}, "reader": frozenset({"subscribe"})}
"""By verb: the commands of which one has to be answered, if those that begin it are more."""
_UNANSWERED: Final = ("ack", "redeliverUnacknowledgedMessages")
_SEND_ANSWERS: Final = ("send_receipt", "send_error")
_REFUSALS: Final = ("error", "send_error")
_HELP: Final = "[Enter: it is done; f REASON: it failed; n: my client has no such thing; s: skip this case]"


class Person(Protocol):
    """Who lets the client do what is asked."""

    def say(self, text: str) -> None:
        """Show them a line."""

    async def line(self) -> str:
        """Return the next line that they write."""


class Terminal:
    """A person at the terminal that this process has as its standard input and output."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._begun = b""

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, flush=True)

    async def line(self) -> str:
        """Return the next line that is typed.

        Raises:
            DriverError: The terminal is gone.
        """
        loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
        if self._lines.empty():
            loop.add_reader(number, self._read, number)
        try:
            line = await self._lines.get()
        finally:
            loop.remove_reader(number)
        if line is None:
            raise DriverError("the person at the terminal is gone: its input has ended")
        return line

    def _read(self, number: int) -> None:
        try:
            data = os.read(number, 4096)
        except OSError:
            data = b""
        *whole, self._begun = (self._begun + data).split(b"\n")
        for line in whole:
            self._lines.put_nowait(line.decode(errors="replace").strip())
        if not data:
            self._lines.put_nowait(None)


class ManualDriver(Driver):
    """A person in the place of a driver; use it as an asynchronous context manager.

    Args:
        name: What reports call the client.
        person: Who is asked.
        capabilities: What the client can do, by the names of `requires`.
        patience: Seconds that the person has for a step.
        titles: By case, its title.
    """

    def __init__(self, name: str, person: Person, capabilities: Collection[str], patience: float, titles: Mapping[str, str]) -> None:
        super().__init__(name, [], Path())
        self.hello = Hello(protocol=PROTOCOL, client=name, capabilities=sorted(capabilities), verbs=[])
        self._person = person
        self._patience = patience
        self._titles = titles
        self._port = 0
        self._backdrop: Backdrop
        self._doing: _Doing | None = None
        self._program: Program
        self._for_person: frozenset[str] = frozenset()

    async def __aenter__(self) -> Self:
        """Begin: a person needs no start."""
        return self

    async def kill(self) -> None:
        """End: the client is the person's."""

    @property
    def lost(self) -> str | None:
        """Return None: a person who is gone ends the run."""
        return None

    def backdrop(self, listener: Listener, config: Mapping[str, str]) -> Backdrop:
        """Return a backdrop at the address of all cases of this run: the person gives it to the client once."""
        if not self._port:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._port = free.getsockname()[1]
        self._backdrop = Backdrop(_Overheard(listener, self._overheard), config, self._port)
        return self._backdrop

    def untestable(self, program: Program) -> str | None:
        """Tell why a case can't be judged without a driver, and note what of it the person is asked; None: it can be judged."""
        self._program = program
        told = [(node, *one) for node in walk(program.nodes) for one in node.news()]
        events = {what for _, at, what, _ in told if at == USER}
        if events:
            return f"it needs a driver: it judges what the user of the client sees ({', '.join(sorted(events))})"
        results = [(node, detail) for node, at, _, detail in told if at == DRIVER]
        judged = [(node, detail) for node, detail in results if node.clause is not None or {**detail, "of": ""} != {**_DONE, "of": ""}]
        if any(not node.path.endswith(".result") for node, _ in judged):
            return "it needs a driver: it judges how something ends for the user of the client while the case goes on"
        self._for_person = frozenset(str(detail["of"]) for _, detail in judged)
        return None

    async def request(self, do: str, arguments: Mapping[str, Any], seconds: float) -> Answer:  # noqa: ARG002
        """Show the person that a case begins, or let them end what their client does."""
        if do == "begin":
            self._person.say(f"\n{self._program.case}: {self._titles.get(self._program.case, '')}")
            self._person.say(f"  connect your client to {arguments['service_url']}")
        elif do == "end":
            await self._cleared()
        return Answer(id=0, ok=True)

    async def carry_out(self, verb: str, arguments: Mapping[str, Any], name: str) -> asyncio.Future[Answer]:
        """Tell the person what to do, and wait until it has begun; see `Driver.carry_out`."""
        by_person = name in self._for_person or verb not in _BEGINS
        words = in_words(verb, arguments)
        self._person.say(f"  > {words}\n    {'say how it went' if by_person else 'waiting for the wire to show it'}  {_HELP}")
        doing = self._doing = _Doing(verb, len(arguments.get("texts", ".")), by_person, self._backdrop)
        line = asyncio.ensure_future(self._word(doing, words))
        try:
            await asyncio.wait({line, doing.begun}, timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not line.done():
                line.cancel()
                await asyncio.gather(line, return_exceptions=True)
        if doing.begun.done():
            self._person.say("    the wire shows it")
        elif line.cancelled():
            raise LeftOut("UNTESTABLE", f"within {self._patience:g} s nobody let the client do this: {words}")
        else:
            line.result()
        return doing.answer

    async def _word(self, doing: _Doing, words: str) -> None:
        """Take the person's word for how it went."""
        while True:
            word, _, rest = (await self._person.line()).partition(" ")
            if word == "":
                doing.settle(Answer(id=0, ok=True))
            elif word == "f":
                doing.settle(Answer(id=0, error=rest.strip() or "it failed"))
            elif word == "n":
                raise LeftOut("NOT-APPLICABLE", f"the client does not offer this: {words}")
            elif word == "s":
                raise LeftOut("UNTESTABLE", "the person left it out")
            else:
                self._person.say(f"    {_HELP}")
                continue
            return

    async def _cleared(self) -> None:
        """Wait until the client has closed its connections, or the person does not want to wait."""
        self._doing = None
        if not self._backdrop.links:
            return
        self._person.say("  that is all: end your client  [Enter: go on without]")
        waits = [asyncio.ensure_future(self._backdrop.alone.wait()), asyncio.ensure_future(self._person.line())]
        try:
            done, _ = await asyncio.wait(waits, timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        for one in done:
            one.result()

    def _overheard(self, link: int, side: Side, frame: Frame) -> None:
        if self._doing is not None:
            self._doing.take(link, side, frame)


class _Doing:
    """One thing that the client is to do, and how far the wire shows it.

    Args:
        verb: The verb.
        count: How many of its commands have to be answered.
        by_person: Whether only the person can tell.
        backdrop: What answers.
    """

    def __init__(self, verb: str, count: int, by_person: bool, backdrop: Backdrop) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.answer: asyncio.Future[Answer] = loop.create_future()
        self._begins = frozenset() if by_person else _BEGINS[verb]
        self._wants = _WANTS.get(verb, self._begins)
        self._missing = count
        self._backdrop = backdrop
        self._open: dict[tuple[int, str, int], int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def settle(self, answer: Answer) -> None:
        """Note how it went."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def take(self, link: int, side: Side, frame: Frame) -> None:
        """Follow a frame that passes since it was asked for."""
        name, message = command_name(frame.command), sub_message(frame.command)
        if side == "client":
            if name in self._begins and not self.begun.done():
                self.begun.set_result(None)
            if self.begun.done():
                self._asked(link, name, message)
        elif name in _SEND_ANSWERS or "request_id" in message.DESCRIPTOR.fields_by_name:
            self._answered(_request(link, name, message), name, message)
        if self._timer is not None:
            self._timer.cancel()
        if self.begun.done() and not self.answer.done():
            self._timer = asyncio.get_running_loop().call_later(_QUIET_SECONDS, self._look)

    def _asked(self, link: int, name: str, message: Any) -> None:
        worth = max(1, message.num_messages) if name == "send" else int(name in self._wants)
        if name not in ("send", *_UNANSWERED) and "request_id" not in message.DESCRIPTOR.fields_by_name:
            return
        if name not in _UNANSWERED:
            self._open[_request(link, name, message)] = worth
        self._missing -= worth

    def _answered(self, request: tuple[int, str, int], name: str, message: Any) -> None:
        if name == "producer_success" and not message.producer_ready:
            return
        worth = self._open.pop(request, None)
        if worth is not None and name in _REFUSALS:  # the client may ask again
            self._missing += worth

    def _look(self) -> None:
        """See whether all was answered, now that the wire is quiet."""
        for request in [one for one in self._open if one[0] not in self._backdrop.links]:
            self._missing += self._open.pop(request)
        if self._missing <= 0 and not self._open:
            self.settle(Answer(id=0, ok=True))


def _request(link: int, name: str, message: Any) -> tuple[int, str, int]:
    """Return what a request and its answer have in common."""
    if name == "send" or name in _SEND_ANSWERS:
        return link, f"send of {message.producer_id}", message.sequence_id
    return link, "request", message.request_id


class _Overheard:
    """A listener that lets somebody else hear what passes, too."""

    def __init__(self, listener: Listener, hear: Callable[[int, Side, Frame], None]) -> None:
        self._listener = listener
        self._hear = hear

    def opened(self, link: int) -> None:
        """Hear that the client has opened a connection."""
        self._listener.opened(link)

    def frame(self, link: int, frame: Frame) -> None:
        """Hear of a frame of the client."""
        self._listener.frame(link, frame)
        self._hear(link, "client", frame)

    def passed(self, link: int, data: bytes, rule: int | None) -> None:
        """Hear of a frame for the client."""
        self._listener.passed(link, data, rule)
        with suppress(WireError):  # a case may send what is none
            self._hear(link, "broker", decode_frame(data))

    def garbage(self, link: int, data: bytes, reason: str) -> None:
        """Hear of bytes of the client that are no frame."""
        self._listener.garbage(link, data, reason)

    def closed(self, link: int, how: Literal["fin", "rst"]) -> None:
        """Hear that the client has ended a connection."""
        self._listener.closed(link, how)


class ManualWatcher:
    """Tells the person how each case went."""

    def __init__(self, person: Person) -> None:
        self._person = person

    def note(self, text: str) -> None:
        """Do nothing: nothing is slow."""

    def total(self, conversations: int) -> None:
        """Say how many cases there are."""
        self._person.say(
            f"{conversations} conversations, without those that turn out to need a driver; Ctrl-C ends the run and keeps the report"
        )

    def ended(self, case: m.Transcript, outcome: Outcome) -> None:  # noqa: ARG002
        """Say the verdict of a case."""
        self._person.say(f"  {outcome.verdict}")


def in_words(verb: str, arguments: Mapping[str, Any]) -> str:
    """Return what a person has to let their client do, such as "subscribe to the topic T with subscription s (Exclusive)".

    Args:
        verb: The verb of a step `drive`.
        arguments: Its arguments.
    """
    given = dict(arguments)
    name = given.pop("name", None) if verb != "close" else None
    called = f" (this is {name!r} from now on)" if name else ""
    say: Callable[[dict[str, Any]], str] | None = _WORDS.get(verb)
    text = verb if say is None else say(given)
    options = "; ".join(f"{key} {_value(value)}" for key, value in given.items())
    return f"{text}{called}{f'; with {options}' if options else ''}"


def _consumer(given: dict[str, Any]) -> str:
    kind, subscription = given.pop("type", "Exclusive"), given.pop("subscription")
    start = given.pop("position", "Latest")
    whats = {"pattern": "the pattern", "namespace": "the scalable topics of the namespace", "topic": "the topic"}
    what = next(f"{words} {given.pop(key)}" for key, words in whats.items() if key in given)
    where = "" if start == "Latest" else f", from {start}"
    return f"subscribe to {what} with subscription {subscription} ({kind}{where})"


def _send(given: dict[str, Any]) -> str:
    texts = given.pop("texts")
    flush = given.pop("flush", True)
    what = f"the message {texts[0]!r}" if len(texts) == 1 else f"{len(texts)} messages, {_value(texts)}"
    return f"send {what} with the producer {given.pop('producer')!r}{', and flush' if flush else ', without a flush'}"


_WORDS: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
    "start": lambda _: "create the client",
    "refresh": lambda given: f"let the client show the token {given.pop('token')!r} from now on",
    "producer": lambda given: f"create a producer for the topic {given.pop('topic')}, {_batches(given)}",
    "send": _send,
    "consumer": _consumer,
    "reader": lambda given: f"create a reader for the topic {given.pop('topic')} from {given.pop('position', 'Latest')}",
    "take": lambda given: f"take messages as they come with {given.pop('consumer')!r}, from now on",
    "acknowledge": lambda given: f"acknowledge message {given.pop('message')} with the consumer {given.pop('consumer')!r}",
    "negative_acknowledge": lambda given: f"negatively acknowledge message {given.pop('message')} with {given.pop('consumer')!r}",
    "seek": lambda given: f"seek to {given.pop('to')} with the consumer {given.pop('consumer')!r}",
    "unsubscribe": lambda given: f"unsubscribe the consumer {given.pop('consumer')!r}",
    "close": lambda given: f"close {given.pop('name')!r}",
}


def _batches(given: dict[str, Any]) -> str:
    batch = given.pop("batch", None)
    if batch is None:
        return "without batches"
    limits = {"messages": 1000, "delay_ms": 60_000, **batch}
    parts = [f"{limits.pop('messages')} messages", f"{limits.pop('delay_ms')} ms"]
    if "bytes" in limits:
        parts.append(f"{limits.pop('bytes')} bytes")
    return f"with {'key-based ' if limits.get('key_based') else ''}batches of at most {', '.join(parts)}"


def _value(value: Any) -> str:
    return ", ".join(map(_value, value)) if isinstance(value, list) else repr(value)
