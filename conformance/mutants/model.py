"""What a mutant is: the reference broker with one fault, of the kind that somebody could write.

A fault is a function named by what it does, in place of a part of the broker:

    @in_place_of(PartitionWatchBroker.close, clause="pip247.close.silence")
    def answers_a_close_and_does_nothing(close, watches, connection, request):
        \"\"\"A close is answered, and the watcher stays.\"\"\"
        return CommandSuccess(request_id=request.request_id)

    @on_outgoing(CommandConnected, clause="core.handshake.version-minimum")
    def states_its_own_version(session, answer):
        \"\"\"CONNECTED carries the broker's version, whatever the client's is.\"\"\"
        answer.protocol_version = 21

It has no circumstance that the clause does not speak of, so that a case finds it by what the clause says. It is killed if a case that
cites the clause fails; if one mistake breaks several clauses, a case of each. Other cases may fail too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from google.protobuf.message import Message

from refimpl.broker import Broker, Session, rest
from refimpl.broker.requests import Handler
from refimpl.wire import FrameDecoder, WireError
from refimpl.wire.frames import Frame

M = TypeVar("M", bound=Message)
Function = TypeVar("Function", bound=Callable[..., Any])


def before_sending(change: Callable[[Any, Any], object], *kinds: type[Message]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what makes of the `send` of a session, or of a client's connection, one that changes some commands first.

    Args:
        change: Gets the session or connection, and a copy of the command to change in place; returns False if it is not to be sent.
        kinds: The sub-messages, such as `CommandConnected`; none: all of them.
    """

    def make(send: Callable[..., None]) -> Callable[..., None]:
        def changed(sender: Any, message: Message, payload: bytes | None = None) -> None:
            if not kinds or isinstance(message, kinds):
                copy = type(message)()
                copy.CopyFrom(message)
                if change(sender, copy) is False:
                    return
                message = copy
            send(sender, message, payload)

        return changed

    return make


class Patches:
    """Replaces parts of the broker, and puts them back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a class or module."""
        original = owner.__dict__[name]
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, original))

    def _exchange(self, held: list[Any], place: int, value: Any) -> None:
        original, held[place] = held[place], value
        self._undo.append(lambda: held.__setitem__(place, original))

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a method or function by what `make` makes of it."""
        self.replace(owner, name, make(owner.__dict__[name]))

    def function(self, original: Any, value: Any) -> None:
        """Replace a method of a class, or a function in every module of the reference that has it under its name.

        Args:
            original: Such as `TopicListBroker.close` or `refimpl.names.is_system_topic`.
            value: What takes its place.
        """
        function = _function(original)
        owner, _, name = function.__qualname__.rpartition(".")
        if owner:
            self.replace(getattr(sys.modules[function.__module__], owner), name, property(value) if function is not original else value)
            self.operation(original, value)
            return
        for module in [one for key, one in sys.modules.items() if key.startswith("refimpl.")]:
            if module.__dict__.get(name) is original:
                self.replace(module, name, value)

    def handlers(self, make: Callable[[str, Handler], Handler]) -> None:
        """Replace what carries out commands: `make` gets the field of a command in BaseCommand and what carries it out."""

        def changed(find: Callable[..., Handler | None]) -> Callable[..., Handler | None]:
            def handler(broker: Broker, command: str) -> Handler | None:
                found = find(broker, command)
                return None if found is None else make(command, found)

            return handler

        self.wrap(Broker, "handler", changed)

    def request(self, name: str, make: Callable[[Handler], Handler]) -> None:
        """Replace the function that carries out a command by what `make` makes of it.

        Args:
            name: The field of the command in BaseCommand, such as `lookupTopic`.
            make: Gets the function: (session, request, frame) -> None.
        """
        self.handlers(lambda command, handler: make(handler) if command == name else handler)

    def operation(self, operation: Callable[..., object], changed: Callable[..., object]) -> None:
        """Replace a method of `Admin` where the admin interface calls it."""
        for routes in rest.KNOWN.values():
            for place, route in enumerate(routes):
                if isinstance(route, rest.Route) and route.operation is operation:
                    self._exchange(routes, place, replace(route, operation=changed))

    def outgoing(self, kind: type[M], change: Callable[[Session, M], object]) -> None:
        """Change every command of one kind before a session sends it.

        Args:
            kind: The sub-message, such as `CommandConnected`.
            change: Changes the message in place; returns False if it is not to be sent.
        """
        self.wrap(Session, "send", before_sending(change, kind))

    def incoming(self, kind: type[M], change: Callable[[Session, M], object]) -> None:
        """Change every command of one kind after CONNECT, before a session carries it out.

        Args:
            kind: The sub-message, such as `CommandFlow`.
            change: Changes the message in place; returns False if it is not to be carried out.
        """

        def make(_: str, handler: Handler) -> Handler:
            def changed(session: Session, request: Any, frame: Frame) -> None:
                if not isinstance(request, kind) or change(session, request) is not False:
                    handler(session, request, frame)

            return changed

        self.handlers(make)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()


@contextmanager
def patched(apply: Callable[[Patches], None]) -> Iterator[None]:
    """Change the broker of this process for the length of a block."""
    patches = Patches()
    try:
        apply(patches)
        yield
    finally:
        patches.undo()


@dataclass(frozen=True)
class Mutant:
    """A broker with one fault.

    Attributes:
        name: Named by its fault.
        clauses: Ids of the clauses that it breaks: several, if one mistake does.
        fault: What it does instead, in one line.
        apply: Makes the broker wrong.
    """

    name: str
    clauses: tuple[str, ...]
    fault: str
    apply: Callable[[Patches], None]

    def applied(self) -> AbstractContextManager[None]:
        """Make the broker of this process wrong for the length of a block."""
        return patched(self.apply)


Clauses = str | tuple[str, ...]

MUTANTS: dict[str, Mutant] = {}
"""All mutants by name, once the modules that hold them are imported."""


def mutant(*clauses: str) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """Register a function as the mutant of some clauses: it makes the broker wrong by several patches.

    Raises:
        ValueError: Its name is taken, or it does not say what it does.
    """

    def register(apply: Callable[[Patches], None]) -> Callable[[Patches], None]:
        _register(clauses, apply, apply)
        return apply

    return register


def _register(clauses: Clauses, fault: Callable[..., Any], apply: Callable[[Patches], None]) -> None:
    name = fault.__name__
    if name in MUTANTS or not fault.__doc__:
        raise ValueError(f"mutant {name}: {'the name is taken' if name in MUTANTS else 'it has no docstring'}")
    MUTANTS[name] = Mutant(name, (clauses,) if isinstance(clauses, str) else clauses, " ".join(fault.__doc__.split()), apply)


def in_place_of(*originals: Any, clause: Clauses) -> Callable[[Function], Function]:
    """Register a function that takes the place of methods, properties or functions; its first argument is the original.

    Args:
        originals: Such as `TopicListBroker.close`; of a function every module that imports it gets the new one.
        clause: What it breaks, one clause or several.

    Raises:
        TypeError: The function does not take the arguments of an original, so that it would fail for a reason that is not its fault.
    """

    def register(fault: Function) -> Function:
        for original in originals:
            _check_arguments(_function(original), fault)

        def apply(patches: Patches) -> None:
            for original in originals:
                patches.function(original, _with_original(original, fault))

        _register(clause, fault, apply)
        return fault

    return register


def _check_arguments(original: Callable[..., Any], fault: Callable[..., Any]) -> None:
    parameters = signature(original).parameters.values()
    positional = [one for one in parameters if one.kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)]
    options = {one.name: one for one in parameters if one.kind is Parameter.KEYWORD_ONLY}
    try:
        signature(fault, follow_wrapped=False).bind(original, *positional, **options)
    except TypeError as error:
        raise TypeError(f"{fault.__name__} does not take the arguments of {original.__qualname__}: {error}") from None


def _function(original: Any) -> Any:
    return original.fget if isinstance(original, property) else original


def _with_original(original: Any, fault: Callable[..., Any]) -> Callable[..., Any]:
    function = _function(original)

    @wraps(function)
    def changed(*args: Any, **options: Any) -> Any:
        return fault(function, *args, **options)

    return changed


def on_outgoing(kind: type[M], *, clause: Clauses) -> Callable[[Callable[[Session, M], object]], Callable[[Session, M], object]]:
    """Register a function that changes every command of one kind before it is sent, or returns False to keep it back."""

    def register(fault: Callable[[Session, M], object]) -> Callable[[Session, M], object]:
        _register(clause, fault, lambda patches: patches.outgoing(kind, fault))
        return fault

    return register


def on_incoming(kind: type[M], *, clause: Clauses) -> Callable[[Callable[[Session, M], object]], Callable[[Session, M], object]]:
    """Register a function that changes every command of one kind before it is carried out, or returns False to ignore it."""

    def register(fault: Callable[[Session, M], object]) -> Callable[[Session, M], object]:
        _register(clause, fault, lambda patches: patches.incoming(kind, fault))
        return fault

    return register


def on_request(name: str, *, clause: Clauses) -> Callable[[Function], Function]:
    """Register a function that carries out a command: (carry_out, session, request), where `carry_out()` does what the broker does.

    Args:
        name: The field of the command in BaseCommand, such as `lookupTopic`.
        clause: What it breaks.
    """

    def register(fault: Function) -> Function:
        def make(handler: Handler) -> Handler:
            return lambda session, request, frame: fault(lambda: handler(session, request, frame), session, request)

        _register(clause, fault, lambda patches: patches.request(name, make))
        return fault

    return register


def tolerating(defect: str, *, clause: Clauses) -> Callable[[Function], Function]:
    """Register a function as what happens to frames with one defect: it gets their bytes, and returns the frames that are carried out.

    Args:
        defect: Part of what is wrong with them, in the words of the decoder.
        clause: What it breaks.
    """

    def register(instead: Function) -> Function:
        def receive(original: Callable[..., list[Frame]], decoder: FrameDecoder, data: bytes) -> list[Frame]:
            frames: list[Frame] = []
            while True:
                try:
                    frames += original(decoder, data)
                    if decoder.error is None:
                        return frames
                    data = b""
                except WireError as error:
                    if defect not in error.reason:
                        if frames:
                            return frames
                        raise
                    unread = decoder.unread
                    end = 4 + int.from_bytes(unread[:4], "big")
                    frames += instead(unread[:end])
                    decoder.__init__(decoder.max_frame_size)  # type: ignore[misc]
                    data = unread[end:]

        in_place_of(FrameDecoder.receive, clause=clause)(wraps(instead)(receive))
        return instead

    return register
