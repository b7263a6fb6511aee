"""The steps of the language: what every kind of step knows about itself, and the one place where kinds are registered.

A kind of step is a class that says which keys of a file it reads, which steps it contains and what it compiles to. `step_kind`
makes it a part of the language: files are read with it, and the published schema holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import PlainValidator, WithJsonSchema
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticCustomError

from conformance.engine.node import Node, Scope
from conformance.engine.parts import FrameSpec, Strict
from conformance.engine.values import Environment, Later, resolve, variables_of

if TYPE_CHECKING:
    from conformance.engine.model import Fragment

Role: TypeAlias = Literal["broker", "client"]
Place: TypeAlias = tuple[str | int, ...]
"""Where something stands in a file: keys and indices."""


class ProgramProblem(ValueError):
    """A transcript that can't be turned into a program; the message starts with the step."""


class StepKind(Strict):
    """One step. The defaults are those of a step that contains no others."""

    def compile(self, compiler: Compiler, scope: Scope, path: str) -> list[Node]:
        """Return the nodes that the step compiles to.

        Args:
            compiler: Compiles the steps inside it.
            scope: The variables and the default connection at its place.
            path: Its path in the file.

        Raises:
            ProgramProblem: It is not allowed in this place.
        """
        raise NotImplementedError

    def children(self) -> Iterable[tuple[Place, StepKind]]:
        """Return the steps inside it, each with its place in it."""
        return ()

    def frames(self) -> Iterable[tuple[Place, FrameSpec]]:
        """Return the frames that it names itself, each with its place in it."""
        return ()

    def calls(self) -> Iterable[tuple[Place, Mapping[str, Any]]]:
        """Return the calls of the admin interface that it makes, each with its place in it."""
        return ()

    def clauses(self) -> Iterable[tuple[Place, str]]:
        """Return the clauses that it names, each with its place in it."""
        return ()

    def seconds(self) -> float:
        """Return the time that the step waits for."""
        return 0.0


KINDS: dict[str, type[StepKind]] = {}
"""Every kind of step, by the keys that a file knows it by."""
K = TypeVar("K", bound=type[StepKind])


def step_kind(*keys: str) -> Callable[[K], K]:
    """Make a class a kind of step.

    Args:
        keys: A step of a file that has one of these keys is read by the class.
    """

    def register(kind: K) -> K:
        KINDS.update(dict.fromkeys(keys, kind))
        return kind

    return register


def read_step(value: Any) -> StepKind:
    """Read one step of a file by the class that its key names.

    Raises:
        PydanticCustomError: None of its keys names a kind of step.
    """
    if isinstance(value, StepKind):
        return value
    kind = next((KINDS[key] for key in value if key in KINDS), None) if isinstance(value, dict) else None
    if kind is None:
        raise PydanticCustomError("step_kind", "not a step: it needs one of {keys}", {"keys": ", ".join(KINDS)})
    return kind.model_validate(value)


_PLACEHOLDER = {"$comment": "a step"}
Step: TypeAlias = Annotated[StepKind, PlainValidator(read_step), WithJsonSchema(_PLACEHOLDER)]
"""One step of a file, of any kind."""


class HoldsSteps(Strict):
    """A file with steps in it."""

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the JSON Schema, with every kind of step among its definitions."""
        schema = super().model_json_schema(*args, **options)
        kinds = list(dict.fromkeys(KINDS.values()))
        _, found = models_json_schema([(kind, "validation") for kind in kinds])
        step = {"oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds]}
        schema["$defs"] = dict(sorted({**schema.get("$defs", {}), **found["$defs"], "Step": step}.items()))
        whole: dict[str, Any] = _with_steps(schema)
        return whole


def _with_steps(schema: Any) -> Any:
    if schema == _PLACEHOLDER:
        return {"$ref": "#/$defs/Step"}
    if isinstance(schema, dict):
        return {key: _with_steps(value) for key, value in schema.items()}
    return [_with_steps(value) for value in schema] if isinstance(schema, list) else schema


def listed(steps: Sequence[StepKind] | None, *place: str | int) -> Iterator[tuple[Place, StepKind]]:
    """Yield the steps of a list, each with its place."""
    for index, step in enumerate(steps or ()):
        yield (*place, index), step


def walk_steps(steps: Iterable[tuple[Place, StepKind]]) -> Iterator[tuple[Place, StepKind]]:
    """Yield steps and all steps inside them, each with its place; start it with `listed(steps, "steps")`."""
    for place, step in steps:
        yield place, step
        yield from walk_steps(((*place, *inner), child) for inner, child in step.children())


class Compiler:
    """Walks the steps once; remembers which connections can still be fenced at the end.

    Attributes:
        fragments: All fragments by id.
        role: The role under test: `broker` or `client`; the harness plays the other one.
        open: The connections that were opened, in order.
        connected: Those on which CONNECTED was expected.
        gone: Those that were closed.
        counts: The next number of each `$next`.
        later: The variables that others need and that frames are still to bind, each with the path of what needs it first.
    """

    def __init__(self, fragments: Mapping[str, Fragment], role: Role = "broker") -> None:
        self.fragments = fragments
        self.role = role
        self.open: list[str] = []
        self.connected: set[str] = set()
        self.gone: set[str] = set()
        self.counts: dict[str, int] = {}
        self.later: dict[str, str] = {}

    def steps(self, steps: Sequence[StepKind], scope: Scope, path: str) -> list[Node]:
        """Compile a list of steps."""
        return [node for index, step in enumerate(steps) for node in step.compile(self, scope, f"{path}[{index}]")]

    def awaits(self, variables: Environment, path: str) -> None:
        """Remember what frames have to bind for some variables, which stand at a path."""
        names = variables_of([value.value for value in variables.values() if isinstance(value, Later)])
        self.later = dict.fromkeys(names, path) | self.later

    def numbered(self, spec: Any) -> Any:
        """Return what a step sends or expects, with the next number in place of each `{$next: name}`: within a step the same one."""
        used: dict[str, int] = {}

        def replaced(value: Any) -> Any:
            if isinstance(value, dict):
                if "$next" in value:
                    return used.setdefault(value["$next"], self.counts.get(value["$next"], 0))
                return {key: replaced(item) for key, item in value.items()}
            return [replaced(item) for item in value] if isinstance(value, list) else value

        found = replaced(spec)
        self.counts |= {name: number + 1 for name, number in used.items()}
        return found


def counts(value: Any) -> bool:
    """Tell whether there is a `$next` in what a step sends or expects."""
    if isinstance(value, dict):
        return "$next" in value or any(map(counts, value.values()))
    return isinstance(value, list) and any(map(counts, value))


def connection(at: str | None, scope: Scope) -> str:
    """Return the connection that a step names, or the one of its scope."""
    return scope.at if at is None else str(resolve(at, scope.variables))
