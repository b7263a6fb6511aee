"""A case that was not run, as rows: what would be sent, with examples where the run chooses, and what would have to come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.engine import frames
from conformance.engine.matching import sent_bindings
from conformance.engine.program import Action, Actions, Choice, Collect, Expect, Interleave, Node, Observe, Program, Scope, Silence
from conformance.engine.values import Value, ValueProblem, resolve
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
    return list(_Plan().nodes(program.nodes, 0))


def pattern_text(frame: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of a frame's command, and its fields as the transcript writes them."""
    ((name, fields),) = frame.items()
    number = TYPE_BY_FIELD.get(name)
    head = name if number is None else BaseCommand.Type.Name(number)
    return head, plain_value(fields)


class _Plan:
    """Walks a program; remembers what sends and expectations bind, as far as there are examples."""

    def __init__(self) -> None:
        self.bound: dict[str, Value] = {}

    def nodes(self, nodes: Sequence[Node], depth: int) -> Iterator[Row]:
        for node in nodes:
            for row in self.node(node, depth):
                yield replace(row, path=row.path or node.path)

    def node(self, node: Node, depth: int) -> Iterator[Row]:
        if isinstance(node, Actions):
            for index, lane in enumerate(node.lanes):
                if len(node.lanes) > 1:
                    yield Row("note", f"at the same time, {index + 1} of {len(node.lanes)}:", depth=depth)
                for action in lane:
                    inner = depth + (len(node.lanes) > 1)
                    yield from (replace(row, path=action.path, clause=action.clause, depth=inner) for row in self.action(action))
        elif isinstance(node, Expect):
            yield replace(self.expectation(node), depth=depth)
        elif isinstance(node, Collect):
            frame = self.known(node.spec.frame, node.scope)
            until = plain_value(self.known(node.spec.until, node.scope))
            remark = f"any number of them, until {until}"
            yield Row("in", *pattern_text(frame), at=node.at, clause=node.clause, remark=remark, depth=depth)
        elif isinstance(node, Choice):
            for one in node.alternatives:
                level = "" if one.level == "conforms" else f" ({one.level})"
                yield Row("note", f"either, {one.name}{level}:" if one is node.alternatives[0] else f"or, {one.name}{level}:", depth=depth)
                yield from self.nodes(one.nodes, depth + 1)
        elif isinstance(node, Interleave):
            yield Row("note", "in any order:", depth=depth)
            for sequence in node.sequences:
                yield from self.nodes(sequence, depth + 1)
        elif isinstance(node, Silence):
            texts = ["".join(pattern_text(self.known(frame, node.scope))) for frame in node.frames]
            yield Row("note", f"silence: no {' and no '.join(texts)} until:", at=node.at, clause=node.clause, depth=depth)
            yield from self.nodes(node.until, depth + 1)
        elif isinstance(node, Observe):
            yield Row("note", "noted for the census:", ", ".join(node.facts), depth=depth)

    def action(self, action: Action) -> Iterator[Row]:
        at = action.at or ""
        if action.what == "send":
            yield from self.sent(action, at)
        elif action.what == "open":
            yield Row("out", "opens a connection", at=at)
        elif action.what == "close":
            how = {"rst": " with a reset", "half": ", its own half"}.get(str(action.spec), "")
            yield Row("out", f"closes the connection{how}", at=at)
        elif action.what == "advance":
            seconds = self.known(action.spec, action.scope)
            yield Row("note", f"lets {seconds:g} s pass" if isinstance(seconds, int | float) else f"lets {plain_value(seconds)} s pass")
        elif action.what == "admin":
            yield Row("ask", *call_text({"calls": self.known(action.spec["calls"], action.scope)}))
        else:
            fits = plain_value(self.known(action.spec["expect"], action.scope))
            yield Row("ask", *call_text(self.known(action.spec["call"], action.scope)), remark=f"read until it fits {fits}")

    def sent(self, action: Action, at: str) -> Iterator[Row]:
        spec = action.spec
        self.bound |= sent_bindings(spec, {**action.scope.variables, **self.bound})
        try:
            if "bytes" in spec:
                raw = spec["bytes"]
                names = ("of", "payload", "command", "hex", "text", "append")
                data = frames.build_bytes(raw, {name: self.exact(getattr(raw, name), action.scope) for name in names})
            elif "frames" in spec:
                data = b"".join(frames.build_frame(self.exact(frame, action.scope)) for frame in spec["frames"])
            else:
                data = frames.build_frame(self.exact(spec["frame"], action.scope), self.exact(spec["payload"], action.scope))
        except _PROBLEMS:
            wanted = spec.get("frames") or ([spec["frame"]] if "frame" in spec else [])
            for frame in wanted:
                yield Row("out", *pattern_text(self.known(frame, action.scope)), at)
            if not wanted:
                yield Row("out", "bytes:", plain_value(self.known(spec["bytes"].model_dump(exclude_none=True), action.scope)), at)
            return
        for index, piece in enumerate(split_frames(data)):
            yield Row("out", *notation(piece), at, data=piece, remark="in the same write" if index else "")

    def expectation(self, node: Expect) -> Row:
        if node.frame is None:
            return Row("in", "closes the connection", at=node.at, clause=node.clause)
        self.bound |= sent_bindings(node.frame, {**node.scope.variables, **self.bound})
        window = f"{node.window.min:g} to {node.window.max:g} s after {node.window.since}" if node.window else ""
        payload = f"with a payload that fits {plain_value(self.known(node.payload, node.scope))}" if node.payload else ""
        remark = ", ".join(text for text in (window, payload) if text)
        head, rest = pattern_text(self.known(node.frame, node.scope))
        data = None
        if node.payload is None:
            try:
                data = frames.build_frame(self.exact(node.frame, node.scope))
            except _PROBLEMS:
                data = None
        return Row("in", head, rest, node.at, data=data, clause=node.clause, remark=remark, example=data is not None)

    def exact(self, value: Value, scope: Scope) -> Value:
        return resolve(value, {**scope.variables, **self.bound})

    def known(self, value: Value, scope: Scope) -> Any:
        """Replace what is known, and leave the rest as the transcript writes it."""
        try:
            return self.exact(value, scope)
        except ValueProblem:
            if isinstance(value, dict):
                return {key: self.known(item, scope) for key, item in value.items()}
            return [self.known(item, scope) for item in value] if isinstance(value, list) else value
