"""The nodes of a program: a node knows its children, the frames that it takes, the variables that it binds, and how it is shown.

A kind of node overrides the methods that differ for it. Code that walks a program calls these methods and checks no class, so that
a new kind is a class and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias

from conformance.engine.matchers import Match
from conformance.engine.matching import Clock, Seen
from conformance.engine.values import Environment, Value, resolve

if TYPE_CHECKING:
    from conformance.engine.actions import Actions, Running, Send

DEFAULT_WITHIN: Final = 10.0
"""Seconds to wait for a frame after the last action, before --slow."""
USER: Final = "user"
"""Stands for a connection: what the user of a client sees, in an order of its own."""


@dataclass(frozen=True)
class Scope:
    """What the nodes of one part of a transcript share: variables and the default connection."""

    variables: Environment
    at: str

    def with_variables(self, more: Mapping[str, Value]) -> Scope:
        """Return the scope with more variables set."""
        return Scope({**self.variables, **more}, self.at)

    def resolve(self, value: Value, bindings: Mapping[str, Value]) -> Value:
        """Replace variables by their values. Variables bound during the run take precedence."""
        return resolve(value, {**self.variables, **bindings})


class Plan(Protocol):
    """A case that was not run, as a person sees it. Nodes write themselves into it, line by line."""

    def note(self, head: str, rest: str = "", *, at: str = "") -> None:
        """Write a remark."""

    def does(self, head: str, at: str | None) -> None:
        """Write what the harness does on a connection."""

    def sends(self, action: Send) -> None:
        """Write what the harness sends: frames as far as their values are known, and the bytes."""

    def asks(self, detail: Mapping[str, Any], scope: Scope, remark: str = "", *, at: str = "") -> None:
        """Write a call of the admin interface, or several; or, if `at` says so, what the driver is asked to do."""

    def awaits(self, node: Expectation, remark: str = "", *, example: bool = False) -> None:
        """Write what is expected, with an example of its bytes if requested."""

    def learns(self, pattern: Any, scope: Scope) -> None:
        """Remember the examples of what a pattern binds."""

    def inside(self, nodes: Sequence[Node], *, deeper: bool = True) -> None:
        """Write the nodes inside another one."""

    def text(self, value: Value, scope: Scope) -> str:
        """Return a value on one line, with the variables that are known."""

    def known(self, value: Value, scope: Scope) -> Any:
        """Replace the known variables, and leave the others as in the transcript."""

    def frame_text(self, frame: Mapping[str, Any], scope: Scope) -> str:
        """Return the name of a frame and its fields on one line, with the variables that are known."""


@dataclass(frozen=True)
class Branch:
    """A branch that was taken."""

    path: str
    name: str
    level: str
    clause: str | None


@dataclass(frozen=True)
class Opening:
    """What replaces a node that needs no event to continue."""

    nodes: tuple[Node, ...]
    branches: tuple[Branch, ...] = ()
    observed: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True)
class Node:
    """A part of a program, identified by its path in the file. The defaults are those of a node without children."""

    waits: ClassVar[bool] = True
    """Whether something is still to come before what stands behind it."""
    single: ClassVar[bool] = False
    """Whether it is one expectation, with nothing in it that could open or act."""

    @property
    def timed(self) -> bool:
        """Tell whether the node lets time pass or asks when something comes."""
        return False

    path: str
    clause: str | None = field(default=None, compare=False, kw_only=True)

    def children(self) -> Iterable[Node]:
        """Return the children of the node, in the order of the file."""
        return ()

    def show(self, plan: Plan) -> None:
        """Write the node into a plan of the case."""
        raise NotImplementedError

    def numbered(self, _: Iterator[int]) -> Node:
        """Return the node with numbered groups of actions."""
        return self

    def binds(self) -> set[str]:
        """Return the variables that are bound in the node."""
        return set().union(*(node.binds() for node in self.children()))

    def news(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield what a driver may tell of which the node itself speaks: where, what, and with which detail."""
        yield from ()

    def connections(self) -> set[str]:
        """Return the connections on which the node expects something."""
        return set().union(*(node.connections() for node in self.children()))

    def certain(self) -> Iterator[Expectation]:
        """Yield the frames that the node expects in any case, including those that can't arrive yet."""
        for node in self.children():
            yield from node.certain()

    def opened(self, bindings: Mapping[str, Value], first: bool) -> list[Opening] | None:  # noqa: ARG002
        """Return what may replace the node now that only expectations precede it; None for the node itself.

        Args:
            bindings: The variables that are bound.
            first: Whether no expectation precedes it.
        """
        return None

    def takes(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[Taking]:  # noqa: ARG002
        """Yield every way in which the node can take an event: the rest of the node, the bound variables, the step."""
        return iter(())

    def expected(self, at: str | None) -> Iterator[Expectation]:  # noqa: ARG002
        """Yield the expectations in the node that can be met now, on one connection or on all."""
        return iter(())

    def broken_by(self, seen: Seen, bindings: Mapping[str, Value]) -> Node | None:  # noqa: ARG002
        """Return the silence, the node itself or one in it, that an event breaks."""
        return None

    def first_actions(self) -> Actions | None:
        """Return the next group of actions in the node, if nothing before it is still open."""
        return None

    def begun(self) -> tuple[Node, ...]:
        """Return the rest of the node after the next group of actions has begun."""
        return (self,)

    def running(self) -> Iterator[Running]:
        """Yield the groups of actions in the node that have begun and not ended."""
        return iter(())

    def ended(self, number: int) -> tuple[Node, ...]:  # noqa: ARG002
        """Return the rest of the node after one action of a running group has ended."""
        return (self,)


@dataclass(frozen=True)
class Expectation(Node):
    """What the role under test must do on one connection."""

    single: ClassVar[bool] = True
    at: str = field(compare=False)
    scope: Scope = field(compare=False)
    within: float = field(default=DEFAULT_WITHIN, compare=False)

    def awaited(self) -> Mapping[str, Any] | None:
        """Return the expected frame; None for the end of the connection."""
        raise NotImplementedError

    def compare(self, seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Match:
        """Compare an event with it."""
        raise NotImplementedError

    @property
    def has_own_limit(self) -> bool:
        """Tell whether the case says by itself when it must come."""
        return self.within != DEFAULT_WITHIN

    def deadline(self, bindings: Mapping[str, Value], last_action: float, slow: float) -> float:  # noqa: ARG002
        """Return the time at which it gives up."""
        return last_action + self.within * slow

    def connections(self) -> set[str]:
        """Return its connection."""
        return {self.at}

    def expected(self, at: str | None) -> Iterator[Expectation]:
        """Yield itself."""
        if at in (None, self.at):
            yield self


Taking: TypeAlias = tuple[tuple[Node, ...], Match, Expectation]
"""One way to take an event: what is left, what was bound, the step."""


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes and all their descendants, in the order of the file."""
    for node in nodes:
        yield node
        yield from walk(node.children())


def numbered(nodes: Iterable[Node], numbers: Iterator[int]) -> tuple[Node, ...]:
    """Return nodes with numbers on their groups of actions."""
    return tuple(node.numbered(numbers) for node in nodes)


def reached(nodes: Iterable[Node]) -> Iterator[tuple[Node, frozenset[str]]]:
    """Yield the nodes that an event can meet now, each with the connections that earlier nodes block."""
    blocked: frozenset[str] = frozenset()
    for node in nodes:
        yield node, blocked
        if node.first_actions() is not None:
            return
        blocked |= node.connections()


def take(nodes: Sequence[Node], seen: Seen, bindings: Mapping[str, Value], clock: Clock) -> Iterator[Taking]:
    """Yield every way in which nodes can take an event."""
    for index, (node, blocked) in enumerate(reached(nodes)):
        if seen.event.at in blocked:
            return
        for rest, found, step in node.takes(seen, bindings, clock):
            yield (*nodes[:index], *rest, *nodes[index + 1 :]), found, step


def expected(nodes: Sequence[Node], at: str | None = None) -> Iterator[Expectation]:
    """Yield the expectations that can be met now, on one connection or on all."""
    for node, blocked in reached(nodes):
        yield from (one for one in node.expected(at) if one.at not in blocked)


def broken(nodes: Sequence[Node], seen: Seen, bindings: Mapping[str, Value]) -> Node | None:
    """Return the silence that has begun on the connection of an event, and that the event breaks."""
    at = seen.event.at
    return next(filter(None, (node.broken_by(seen, bindings) for node, blocked in reached(nodes) if at not in blocked)), None)


def opened(nodes: tuple[Node, ...], bindings: Mapping[str, Value]) -> Iterator[Opening]:
    """Yield the possible forms of the nodes now: with choices opened, empty nodes dropped and observations made."""
    first = True
    for index, node in enumerate(nodes):
        if node.single:
            first = False
            continue
        found = node.opened(bindings, first)
        for one in found or ():
            for rest in opened((*nodes[:index], *one.nodes, *nodes[index + 1 :]), bindings):
                yield Opening(rest.nodes, (*one.branches, *rest.branches), (*one.observed, *rest.observed))
        if found is not None:
            return
        if node.first_actions() is not None:
            break
        first = first and not node.waits
    yield Opening(nodes)


def first_actions(nodes: Sequence[Node]) -> Actions | None:
    """Return the group of actions that is next, if nothing before it is still open."""
    return nodes[0].first_actions() if nodes else None


def begun(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return nodes after the group of actions that is next has begun."""
    first, *rest = nodes
    return (*first.begun(), *rest)


def running(nodes: Iterable[Node]) -> Iterator[Running]:
    """Yield the groups of actions that have begun and not ended."""
    for node in nodes:
        if node.first_actions() is not None:  # nothing behind a group that is pending has begun
            return
        yield from node.running()


def ended(nodes: Iterable[Node], number: int) -> tuple[Node, ...]:
    """Return nodes after one action of a running group has ended."""
    left: list[Node] = []
    rest = iter(nodes)
    for node in rest:
        if node.single:
            left.append(node)
        elif node.first_actions() is not None:
            return (*left, node, *rest)
        else:
            left += node.ended(number)
    return tuple(left)
