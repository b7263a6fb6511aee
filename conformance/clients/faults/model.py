"""What a faulty client is: the reference client with one fault, of the kind that somebody could write.

A fault is a function named by what it does, in place of a part of the client:

    @in_place_of(PartitionWatch._ours, clause="pip247.client.foreign-topic")
    def counts_topics_that_it_did_not_name(ours, watch, told):
        \"\"\"All topics of an update count, also those that the client did not name.\"\"\"
        return {one.topic: one.partition for one in told}

    @on_outgoing(CommandWatchTopicList, clause="pip145.client.watch-hash-on-reconnect")
    def watches_without_a_hash(connection, request):
        \"\"\"A watch request never has a hash.\"\"\"
        request.ClearField("topics_hash")

It has no circumstance that the clause does not speak of. It is found if a case that cites the clause fails; if one mistake breaks
several clauses, a case of each. The broker behind it lives in the same process where the tests run it: a fault changes what only the
client has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

from google.protobuf.message import Message

from conformance.mutants.model import Mutant, Patches, before_sending
from refimpl.client.attached import Attached
from refimpl.client.connection import Connection
from refimpl.wire import Frame
from refimpl.wire.commands import sub_message

M = TypeVar("M", bound=Message)
Function = TypeVar("Function", bound=Callable[..., Any])
Clauses = str | tuple[str, ...]

FAULTS: dict[str, Mutant] = {}
"""All faulty clients by name, once the modules that hold them are imported."""


def in_place_of(*originals: Any, clause: Clauses) -> Callable[[Function], Function]:
    """Register a function that takes the place of methods or properties of the client's classes; its first argument is the original.

    Args:
        originals: Such as `PartitionWatch.close`.
        clause: What it breaks, one clause or several.

    Raises:
        ValueError: Its name is taken, or it does not say what it does.
    """

    def register(fault: Function) -> Function:
        def apply(patches: Patches) -> None:
            for original in originals:
                patches.function(original, _with_original(original, fault))

        return _registered(clause, fault, apply)

    return register


def instead_of(owner: Any, name: str, *, clause: Clauses) -> Callable[[Function], Function]:
    """Register a function that takes the place of a function in one module of the client, or of a class method; see `in_place_of`.

    Args:
        owner: The module that calls it, such as `refimpl.client.consumer`; other modules, those of the broker too, keep the right one.
        name: Its name there.
        clause: What it breaks.
    """

    def register(fault: Function) -> Function:
        return _registered(clause, fault, lambda patches: patches.wrap(owner, name, lambda original: _with_original(original, fault)))

    return register


def on_outgoing(kind: type[M], *, clause: Clauses) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Register a function (connection, message) that changes every command of one kind before it is sent, or returns False to drop it."""

    def make(fault: Callable[..., object]) -> Callable[[Patches], None]:
        return lambda patches: patches.wrap(Connection, "send", before_sending(fault, kind))

    return lambda fault: _registered(clause, fault, make(fault))


def on_incoming(kind: type[M], *, clause: Clauses) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Register a function (connection, message) that changes every command of one kind before the client takes it, or returns False
    if it never does.
    """

    def make(fault: Callable[..., object]) -> Callable[[Patches], None]:
        def handle(original: Callable[..., None], connection: Connection, frame: Frame) -> None:
            message = sub_message(frame.command)
            if not isinstance(message, kind) or fault(connection, message) is not False:
                original(connection, frame)

        return lambda patches: patches.function(Connection._handle, _with_original(Connection._handle, handle))

    return lambda fault: _registered(clause, fault, make(fault))


def fault(*clauses: str) -> Callable[[Function], Function]:
    """Register a function (patches) that makes the client wrong by several patches."""
    return lambda apply: _registered(clauses, apply, apply)


def stays_away(patches: Patches, mark: str) -> None:
    """Let no producer or consumer attach any more that has an attribute of this name which is true."""

    def make(attach: Callable[[Attached], Awaitable[Connection]]) -> Callable[[Attached], Awaitable[Connection]]:
        async def changed(one: Attached) -> Connection:
            if one.__dict__.get(mark):
                await one._wait(1e9)
            return await attach(one)

        return changed

    patches.wrap(Attached, "_attach", make)


def _registered(clauses: Clauses, function: Function, apply: Callable[[Patches], None]) -> Function:
    name = function.__name__
    if name in FAULTS or not function.__doc__:
        raise ValueError(f"fault {name}: {'the name is taken' if name in FAULTS else 'it has no docstring'}")
    broken = (clauses,) if isinstance(clauses, str) else clauses
    FAULTS[name] = Mutant(name, broken, " ".join(function.__doc__.split()), apply)
    return function


def _with_original(original: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    plain: Any = original.fget if isinstance(original, property) else original

    @wraps(plain)
    def changed(*args: Any, **options: Any) -> Any:
        return function(plain, *args, **options)

    return changed
