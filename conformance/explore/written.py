"""A difference as a transcript that `run --case` takes: what the reference said is what is expected."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from conformance.engine.step import listed, walk_steps
from conformance.explore.actions import KINDS
from conformance.explore.difference import Difference
from conformance.explore.lines import Line, is_free
from conformance.explore.player import LOOKUP_REQUEST
from conformance.explore.world import NAMESPACES
from conformance.suite import Suite
from conformance.writing import HASHES, Patterns, dumped, hash_of, written_steps
from refimpl.wire import Frame, command_name, decode_batch, is_batch, parse_payload, sub_message, type_name

_NO_ENTRY = 2**64 - 1


def name_of(difference: Difference) -> str:
    """Return the id of the transcript: what was done, and a digest of what differs."""
    kind, _, rest = difference.signature.partition(":")
    return f"explored/{kind.replace('_', '-')}-{hashlib.sha256(rest.encode()).hexdigest()[:8]}"


def transcript(difference: Difference, target: str, suite: Suite) -> str:
    """Write a difference as a transcript, with the differing frames marked and the clauses that speak of their commands."""
    written = _Written(difference)
    clauses = _clauses(difference, suite)
    requires = sorted({"admin", "auto-creation"}.union(*(KINDS[action.kind].requires for action in difference.scenario.actions)))
    head: dict[str, Any] = {"format": 1, "id": name_of(difference), "title": difference.signature, "tests": ["broker"]}
    head |= {"clauses": clauses, "requires": requires, "profiles": ["default"], "vars": written.variables()}
    lines = [f"# What the reference says is expected. {target} differs after the last action:"]
    lines += [f"#   it does not say   {line}" for line in difference.missing]
    lines += [f"#   it says as well   {line}" for line in difference.extra]
    lines += ["# The clauses are those that speak of these commands: keep the one that decides.", dumped(head), "steps:"]
    for comment, steps in written.steps():
        lines.append(f"  # {comment}")
        lines += written_steps(steps)
    return "\n".join(lines) + "\n"


def _clauses(difference: Difference, suite: Suite) -> list[str]:
    """Return the clauses of what was said, or else of what was sent; a transcript cites at least one."""
    said = [line.name for line in (*difference.missing, *difference.extra)]
    sent = [name for one in reversed(difference.steps) for step in one.steps for name in step.get("client", ())]
    for names in (said, *([name] for name in sent)):
        if found := sorted({clause for name in names for clause in clauses_of(suite, name)}):
            return found
    return [next(iter(suite.clauses))]


def clauses_of(suite: Suite, command: str) -> list[str]:
    """Return the clauses that cases test with a command, those with most steps first."""
    found: Counter[str] = Counter()
    for case in suite.transcripts.values():
        for _, step in walk_steps(listed(case.steps, "steps")):
            if any(command in frame for _, frame in step.frames()):
                found.update(clause for _, clause in step.clauses())
    return [clause for clause, _ in found.most_common(12)]


class _Written:
    """Turns what the reference's player did and heard into steps."""

    def __init__(self, difference: Difference) -> None:
        self._difference = difference
        self._told = difference.told
        self._names = {name: f"${{{variable}}}" for variable, name in self._told.concrete.items()}
        self._sets = {key: [self._symbolic(topic) for topic in sorted(topics)] for key, topics in self._told.sets.items()}
        self._positions: dict[tuple[int, int], int] = {}
        self._patterns = Patterns(self._symbolic, self._sets, is_free, self._bound)
        self._missing = Counter(difference.missing)
        text = json.dumps([self._plain(step) for one in difference.steps[1:] for step in one.steps])
        self._namespaces = [name for name in NAMESPACES if re.search(re.escape(name) + r"(?![\w-])", text)] or [NAMESPACES[0]]
        self._alone = all(name.startswith("${a}") for name in self._namespaces)

    def variables(self) -> dict[str, Any]:
        """Return the variables: fresh names."""
        return {"n": {"$fresh": "namespace"}} if self._alone else {"a": {"$fresh": "name"}, "b": "${a}b"}

    def steps(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Yield what each action became, with a comment that names it."""
        calls: list[dict[str, Any]] = []
        if not self._alone:
            calls = [{"create_tenant": "$a"}, {"create_tenant": "$b"}]
        calls += [{"create_namespace": name} for name in self._namespaces if not (self._alone and name == NAMESPACES[0])]
        if calls:
            yield "the namespaces", [self._place({"admin": calls})]
        last = self._difference.steps[0].frames
        for step in self._difference.steps[1 : self._difference.place + 1]:
            done = [self._place(self._plain(self._refused(one))) for one in step.steps]
            heard = [self._place(one) for one in self._expected(self._told.frames[last : step.frames])]
            last = step.frames
            yield str(step.action), [*done, *(heard if len(heard) < 2 else [{"any_order": [[one] for one in heard]}])]

    def _refused(self, step: dict[str, Any]) -> dict[str, Any]:
        """Leave open with which status an admin call is refused, but for the one that differs."""
        differs = any(line.lane == "admin" for line in (*self._difference.missing, *self._difference.extra))
        return step if "status" not in step or differs else {**step, "status": "any"}

    def _place(self, value: Any) -> Any:
        """Write the namespace that is made for each run in place of one in a tenant of its own."""
        if isinstance(value, str):
            return value.replace(NAMESPACES[0], "${n}") if self._alone else value
        if isinstance(value, dict):
            return {key: self._place(one) for key, one in value.items()}
        return [self._place(one) for one in value] if isinstance(value, list) else value

    def _plain(self, value: Any) -> Any:
        """Write what was sent: hashes as those of sets, positions as those of messages."""
        if isinstance(value, dict):
            return {key: self._known(key, one) for key, one in value.items()}
        return [self._plain(one) for one in value] if isinstance(value, list | tuple) else self._symbolic(value)

    def _known(self, key: str, value: Any) -> Any:
        if key in HASHES and (known := hash_of(value, self._sets)) is not None:
            return known
        if key == "message_id" and isinstance(value, list):
            return [self._position(one) for one in value]
        return self._plain(value)

    def _position(self, value: Mapping[str, int]) -> Any:
        number = self._positions.get((value["ledgerId"], value["entryId"]))
        return value if number is None else {**value, "ledgerId": f"$l{number}", "entryId": f"$e{number}"}

    def _symbolic(self, value: Any) -> Any:
        if isinstance(value, str):
            for name, variable in self._names.items():
                value = value.replace(name, variable)
        return value

    def _expected(self, heard: Iterable[tuple[str, Frame | None, Line]]) -> Iterator[dict[str, Any]]:
        for at, frame, line in heard:
            if frame is not None and frame.command.lookupTopicResponse.request_id == LOOKUP_REQUEST:
                continue  # the fragment expects it
            step: dict[str, Any] = {"at": at}
            if frame is None:
                step["closed"] = {"at": at}
            else:
                message = sub_message(frame.command)
                step["broker"] = {command_name(frame.command): self._patterns.of(message, type_name(frame.command))}
                if line.name == "message":
                    step |= {"payload": _payload(frame)}
            if self._missing[line]:
                self._missing[line] -= 1
                step["label"] = "differs"
            yield step

    def _bound(self, path: str, value: Any) -> dict[str, Any] | None:
        """Bind the ids of messages; of the last one, tell whether there is one. Elsewhere they are left free."""
        if path.endswith(".last_message_id"):
            return {"entryId": _NO_ENTRY if value.entryId == _NO_ENTRY else {"$not": _NO_ENTRY}, "batch_index": value.batch_index}
        if path != "MESSAGE.message_id":
            return None
        number = self._positions.setdefault((value.ledgerId, value.entryId), len(self._positions) + 1)
        return {"ledgerId": {"$bind": f"l{number}"}, "entryId": {"$bind": f"e{number}"}}


def _payload(frame: Frame) -> dict[str, Any]:
    assert frame.payload_bytes is not None
    payload = parse_payload(frame.payload_bytes)
    if is_batch(payload.metadata):
        singles = decode_batch(payload.body, payload.metadata.num_messages_in_batch)
        return {"batch": [{"body": one.body.decode(errors="replace")} for one in singles]}
    return {"body": payload.body.decode(errors="replace")}
