"""What a mutant is: the reference broker, wrong in exactly one rule.

A mutant is a function of 5 to 15 lines, named by its lie, that replaces one rule of the broker:

    @mutant("core.handshake.version-minimum")
    def states_its_own_version(patches: Patches) -> None:
        \"\"\"CONNECTED carries the broker's version, whatever the client's is.\"\"\"
        patches.outgoing(CommandConnected, lambda _, answer: answer.MergeFrom(CommandConnected(protocol_version=21)))

Its clause is killed if a case that cites the clause fails for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from refimpl.broker import Broker, Session, rest
from refimpl.broker.requests import Handler
from refimpl.wire.frames import Frame

M = TypeVar("M", bound=Message)


class Patches:
    """Replaces parts of the broker, and puts them back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute of a class or module."""
        original = owner.__dict__[name]
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, original))

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a method or function by what `make` makes of it."""
        self.replace(owner, name, make(owner.__dict__[name]))

    def request(self, name: str, make: Callable[[Handler], Handler]) -> None:
        """Replace the function that carries out a command by what `make` makes of it.

        Args:
            name: The field of the command in BaseCommand, such as `lookupTopic`.
            make: Gets the function: (session, request, frame) -> None.
        """
        find = Broker.handler
        made: dict[Broker, Handler] = {}

        def changed(broker: Broker, command: str) -> Handler | None:
            if command != name:
                return find(broker, command)
            if broker not in made:
                made[broker] = make(cast(Handler, find(broker, name)))
            return made[broker]

        self.replace(Broker, "handler", changed)

    def operation(self, operation: Callable[..., object], changed: Callable[..., object]) -> None:
        """Replace a method of `Admin` where the admin interface calls it."""
        routes = tuple(replace(route, operation=changed) if route.operation is operation else route for route in rest.ROUTES)
        self.replace(rest, "ROUTES", routes)

    def outgoing(self, kind: type[M], change: Callable[[Session, M], object]) -> None:
        """Change every command of one kind before a session sends it.

        Args:
            kind: The sub-message, such as `CommandConnected`.
            change: Changes the message in place; returns False if it is not to be sent.
        """

        def make(send: Callable[..., None]) -> Callable[..., None]:
            def changed(session: Session, message: Message, payload: bytes | None = None) -> None:
                if isinstance(message, kind):
                    copy = kind()
                    copy.CopyFrom(message)
                    if change(session, copy) is False:
                        return
                    message = copy
                send(session, message, payload)

            return changed

        self.wrap(Session, "send", make)

    def incoming(self, kind: type[M], change: Callable[[Session, M], object]) -> None:
        """Change every command of one kind after CONNECT, before a session carries it out.

        Args:
            kind: The sub-message, such as `CommandFlow`.
            change: Changes the message in place; returns False if it is not to be carried out.
        """

        def make(carry_out: Callable[..., None]) -> Callable[..., None]:
            def changed(session: Session, name: str, request: Message, frame: Frame) -> None:
                if isinstance(request, kind) and change(session, request) is False:
                    return
                carry_out(session, name, request, frame)

            return changed

        self.wrap(Session, "_carry_out_request", make)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()


@dataclass(frozen=True)
class Mutant:
    """A broker that is wrong in one rule.

    Attributes:
        name: Named by its lie.
        clause: The id of the clause that it breaks.
        lie: What it does instead, in one line.
        apply: Makes the broker wrong.
    """

    name: str
    clause: str
    lie: str
    apply: Callable[[Patches], None]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Make the broker of this process wrong for the length of a block."""
        patches = Patches()
        try:
            self.apply(patches)
            yield
        finally:
            patches.undo()


MUTANTS: dict[str, Mutant] = {}
"""All mutants by name, once the modules that hold them are imported."""


def mutant(clause: str) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """Register a function as the mutant of a clause.

    Raises:
        ValueError: Its name is taken, or it does not say what it does.
    """

    def register(apply: Callable[[Patches], None]) -> Callable[[Patches], None]:
        name = apply.__name__
        if name in MUTANTS or not apply.__doc__:
            raise ValueError(f"mutant {name}: {'the name is taken' if name in MUTANTS else 'it has no docstring'}")
        MUTANTS[name] = Mutant(name, clause, apply.__doc__.strip().splitlines()[0], apply)
        return apply

    return register
