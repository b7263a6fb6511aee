"""A case that was not run, as rows: what would be sent, with examples where the run chooses, and what would be expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.engine import frames
from conformance.engine.actions import Send
from conformance.engine.matching import sent_bindings
from conformance.engine.node import Expectation, Node, Scope
from conformance.engine.program import Program
from conformance.engine.values import Later, Value, ValueProblem, resolve_known
from conformance.report.rows import Row, call_text, notation, split_frames
from conformance.report.wording import plain_value
from refimpl.wire import TYPE_BY_FIELD, WireError
from refimpl.wire.pulsar_api_pb2 import BaseCommand

_PROBLEMS = (ValueProblem, frames.FrameProblem, WireError, ValueError, TypeError, KeyError)


def program_rows(program: Program) -> list[Row]:
    """Turn the steps of a compiled case into rows.

    Args:
        program: The case; its fresh names may be any.
    """
    plan = _Plan()
    plan.inside(program.nodes, deeper=False)
    return plan.rows


def _pattern_text(frame: Mapping[str, Any]) -> tuple[str, str]:
    ((name, fields),) = frame.items()
    number = TYPE_BY_FIELD.get(name)
    head = name if number is None else BaseCommand.Type.Name(number)
    return head, plain_value(fields)


class _Plan:
    """Collects the rows of nodes; remembers the variables that sends and expectations bind, as far as there are examples."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._depth = 0
        self._bound: dict[str, Value] = {}

    def inside(self, nodes: Sequence[Node], *, deeper: bool = True) -> None:
        self._depth += deeper
        for node in nodes:
            start = len(self.rows)
            node.show(self)
            own = [row if row.path else replace(row, path=node.path, clause=node.clause) for row in self.rows[start:]]
            self.rows[start:] = own
        self._depth -= deeper

    def note(self, head: str, rest: str = "", *, at: str = "") -> None:
        self.rows.append(Row("note", head, rest, at, depth=self._depth))

    def does(self, head: str, at: str | None) -> None:
        self.rows.append(Row("out", head, at=at or "", depth=self._depth))

    def asks(self, detail: Mapping[str, Any], scope: Scope, remark: str = "", *, at: str = "") -> None:
        self.rows.append(Row("ask", *call_text(self.known(detail, scope)), at, remark=remark, depth=self._depth))

    def sends(self, action: Send) -> None:
        scope, at = action.scope, action.at or ""
        self._bound |= action.bound(self._bound)
        try:
            pieces = split_frames(action.data(lambda value: scope.resolve(value, self._bound)))
        except _PROBLEMS:
            payload = action.spec.get("payload")
            remark = f"with the payload {self.text(payload, scope)}" if payload else ""
            self.rows += [Row("out", *text, at, remark=remark, depth=self._depth) for text in self._unknown(action)]
            return
        for index, piece in enumerate(pieces):
            remark = "in the same write" if index else ""
            self.rows.append(Row("out", *notation(piece), at, data=piece, remark=remark, depth=self._depth))

    def _unknown(self, action: Send) -> list[tuple[str, str]]:
        spec = action.spec
        if "bytes" in spec:
            return [("bytes:", self.text(spec["bytes"].model_dump(exclude_none=True), action.scope))]
        return [_pattern_text(self.known(frame, action.scope)) for frame in spec.get("frames") or [spec["frame"]]]

    def awaits(self, node: Expectation, remark: str = "", *, example: bool = False) -> None:
        frame = node.awaited()
        if frame is None:
            self.rows.append(Row("in", "closes the connection", at=node.at, depth=self._depth))
            return
        data = self._example(frame, node.scope) if example else None
        head, rest = _pattern_text(self.known(frame, node.scope))
        self.rows.append(
            Row(
                "in",
                head.removeprefix(f"{node.at}: "),
                rest,
                node.at,
                data=data,
                remark=remark,
                example=data is not None,
                depth=self._depth,
            )
        )

    def _example(self, frame: Mapping[str, Any], scope: Scope) -> bytes | None:
        try:
            return frames.build_frame(scope.resolve(frame, self._bound))
        except _PROBLEMS:
            return None

    def learns(self, pattern: Any, scope: Scope) -> None:
        self._bound |= sent_bindings(pattern, {**scope.variables, **self._bound})

    def text(self, value: Value, scope: Scope) -> str:
        return plain_value(self.known(value, scope))

    def frame_text(self, frame: Mapping[str, Any], scope: Scope) -> str:
        return "".join(_pattern_text(self.known(frame, scope)))

    def known(self, value: Value, scope: Scope) -> Any:
        """Replace the known variables, and leave the others as in the transcript."""
        try:
            return scope.resolve(value, self._bound)
        except ValueProblem:
            if isinstance(value, dict):
                return {key: self.known(item, scope) for key, item in value.items()}
            if isinstance(value, list):
                return [self.known(item, scope) for item in value]
            found = resolve_known(value, {**scope.variables, **self._bound})
            return found.value if isinstance(found, Later) else found
