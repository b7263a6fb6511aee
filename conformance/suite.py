"""The suite as a whole: registers, fragments and transcripts, loaded strictly and checked against each other."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from conformance import suite_cache
from conformance.engine import frames, log
from conformance.engine import model as m
from conformance.engine.actions import Action
from conformance.engine.parts import Soon
from conformance.engine.program import Program, actions_digest, cells, compile_case, fresh_names
from conformance.engine.source import Source, SourceProblem, parse, read_source
from conformance.engine.step import Place, ProgramProblem, Role, listed, walk_steps
from conformance.engine.values import ValueProblem, variables_of
from conformance.files import read_text
from conformance.names import HOME, is_selected

FRESH_KINDS = ("namespace", "missing-namespace", "name")
_DOMAIN = re.compile("((?:non-)?persistent)://")


@dataclass(frozen=True)
class Suite:
    """All clauses and cases."""

    registers: Sequence[m.Register]
    fragments: Mapping[str, m.Fragment]
    settings: Mapping[str, m.Settings]
    transcripts: Mapping[str, m.Transcript]
    digest: str

    @cached_property
    def clauses(self) -> dict[str, m.Clause]:
        """Return all clauses by id, in the order of the registers."""
        return {clause.id: clause for register in self.registers for clause in register.clauses}

    @cached_property
    def levels(self) -> dict[str, m.Level]:
        """Return the level of every clause."""
        return {clause.id: clause.level for clause in self.clauses.values()}

    @cached_property
    def soon(self) -> tuple[tuple[str, Soon], ...]:
        """Return how soon frames come, each rule with its clause."""
        return tuple((clause.id, rule) for clause in self.clauses.values() for rule in clause.soon)

    @cached_property
    def observed(self) -> frozenset[str]:
        """Return the clauses that only monitors judge."""
        return frozenset(clause.id for clause in self.clauses.values() if clause.observed_by)

    @cached_property
    def cases_of(self) -> dict[str, list[str]]:
        """Return the cases that cite each clause."""
        citing: dict[str, list[str]] = {clause: [] for clause in self.clauses}
        for transcript in self.transcripts.values():
            for clause in transcript.clauses:
                citing.setdefault(clause, []).append(transcript.id)
        return citing

    def program(self, begin: log.TrialStarted, release: str | None) -> Program:
        """Compile what a trial runs: one cell of a case, with its fresh names and its seed.

        Args:
            begin: The trial; its case is in the suite.
            release: The release of Apache Pulsar that it runs against, if it is one.
        """
        cell = {"@release": release, **begin.cell}
        return replace(compile_case(self.transcripts[begin.case], self.fragments, cell, begin.fresh, begin.seed), soon=self.soon)

    def actions_digest(self, case: str, cell: Mapping[str, Any]) -> str:
        """Return the digest of everything in a cell of a case that decides what is sent; of a cell that it no longer has: nothing."""
        return self._actions(case, cell)[0] if cell.keys() == self.transcripts[case].matrix.keys() else ""

    def rounds(self, case: str, cell: Mapping[str, Any]) -> float:
        """Return about how many answers a cell of a case waits for, one after the other."""
        return self._actions(case, cell)[1]

    def _actions(self, case: str, cell: Mapping[str, Any]) -> tuple[str, float]:
        key = case, json.dumps(cell, sort_keys=True)
        if key not in self._known_actions:
            transcript = self.transcripts[case]
            program = compile_case(transcript, self.fragments, cell, {name: f"<{name}>" for name in fresh_names(transcript)})
            self._known_actions[key] = actions_digest(program, transcript.target_config), sum(group.rounds for group in program.actions())
        return self._known_actions[key]

    @cached_property
    def _known_actions(self) -> dict[tuple[str, str], tuple[str, float]]:
        return {}

    def admin_calls(self, case: str) -> set[str]:
        """Return the names of the admin calls that cells of a case make, with each policy that they name; not what fragments leave out."""
        actions = (action for cell in cells(self.transcripts[case]) for action in self._performed(case, cell))
        return {name for action in actions for call in action.calls for name in _named(call)}

    def domains(self, case: str, cell: Mapping[str, Any]) -> set[str]:
        """Return the domains that a cell of a case names in what it does, such as `persistent`."""
        actions = self._performed(case, cell)
        said = (f"{action.spec} {[action.scope.variables.get(name) for name in variables_of(action.spec)]}" for action in actions)
        return {domain for text in said for domain in _DOMAIN.findall(text)}

    def _performed(self, case: str, cell: Mapping[str, Any]) -> Iterator[Action]:
        transcript = self.transcripts[case]
        program = compile_case(transcript, self.fragments, cell, {name: f"<{name}>" for name in fresh_names(transcript)})
        return (action for group in program.actions() for lane in group.lanes for action in lane)

    def select(
        self, patterns: Iterable[str], level: m.Level | None = None, profile: str = "default", role: Role | None = None
    ) -> list[m.Transcript]:
        """Return the cases whose id, or one of whose clauses, matches one of the globs; all without globs.

        Args:
            patterns: The globs; a leading `!` excludes matches.
            level: Only cases with a clause of this level.
            profile: Only cases of this profile.
            role: Only cases for brokers, or only those for clients; None: both.
        """
        listed = list(patterns)
        return [
            case
            for case in self.transcripts.values()
            if profile in case.profiles
            and role in (None, case.role)
            and is_selected((case.id, *case.clauses), listed)
            and (level is None or any(self.levels.get(clause) == level for clause in case.clauses))
        ]

    def select_clauses(self, patterns: Iterable[str]) -> list[m.Clause]:
        """Return the clauses whose id, or one of whose cases, matches one of the globs; see `select`."""
        listed = list(patterns)
        return [clause for clause in self.clauses.values() if is_selected((clause.id, *self.cases_of[clause.id]), listed)]


def _named(call: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of an admin call, and with it that of a policy that it names."""
    for name, given in call.items():
        yield name
        if isinstance(given, Mapping) and "policy" in given:
            yield f"{name} {given['policy']}"


def load_suite(home: Path = HOME, *, checked: bool = True, more: Sequence[Path] = ()) -> Suite:
    """Load clauses and transcripts. Those of the project itself are kept once they have been read and checked: see `suite_cache`.

    Args:
        home: A folder that holds `clauses` and `transcripts`.
        checked: Whether to check files against each other and frames against the schema, and to compile every case. Otherwise each
            file is still read strictly: enough to show a case, not to judge a target.
        more: Transcripts outside the folder.

    Raises:
        SourceProblem: There is an error in a file. All errors are named, each with file and line.
    """
    digest = _digest(home)
    suite = suite_cache.load(digest) if home == HOME else None
    if suite is None:
        suite = _load(home, digest, checked=checked)
        if home == HOME and checked:
            suite_cache.keep(digest, suite)
    return _with_more(suite, more, checked=checked) if more else suite


def _load(home: Path, digest: str, *, checked: bool) -> Suite:
    problems: list[str] = []
    registers = list(_load_all(m.Register, sorted((home / "clauses").glob("*.yaml")), home, problems))
    kinds: dict[str, type[BaseModel]] = {"lib": m.Fragment, "settings": m.Settings}
    files: dict[type[BaseModel], list[Path]] = {m.Fragment: [], m.Settings: [], m.Transcript: []}
    for path in sorted((home / "transcripts").rglob("*.yaml")):
        files[kinds.get(path.relative_to(home / "transcripts").parts[0], m.Transcript)].append(path)
    fragments, shared, cases = (list(_load_all(kind, paths, home, problems)) for kind, paths in files.items())
    suite = Suite(
        [register for register, _ in registers],
        {fragment.id: fragment for fragment, _ in fragments},
        {item.id: item for item, _ in shared},
        {},
        digest,
    )
    suite = _with_cases(suite, cases, digest, problems, checked=checked)
    if checked:
        problems += _clause_problems(registers)
        problems += (problem for fragment, source in fragments for problem in _step_problems(fragment, source))
    if problems:
        raise SourceProblem(problems)
    return suite


def _with_more(suite: Suite, paths: Sequence[Path], *, checked: bool) -> Suite:
    """Return the suite with transcripts from anywhere."""
    problems: list[str] = []
    cases = list(_load_more(paths, suite.transcripts, problems))
    digest = suite.digest if problems else _digest_with(suite.digest, paths)
    suite = _with_cases(suite, cases, digest, problems, checked=checked)
    if problems:
        raise SourceProblem(problems)
    return suite


def _with_cases(suite: Suite, cases: Sequence[tuple[m.Transcript, Source]], digest: str, problems: list[str], *, checked: bool) -> Suite:
    """Return the suite with more cases, each with its settings; add what is wrong with them to `problems`."""
    added = {}
    for case, source in cases:
        settings = suite.settings.get(case.settings) if case.settings is not None else None
        if case.settings is not None and settings is None:
            problems.append(source.problem(("settings",), f"there are no {case.settings}; known: {', '.join(suite.settings)}"))
        added[case.id] = case if settings is None else case.with_settings(settings)
    suite = replace(suite, transcripts=dict(sorted({**suite.transcripts, **added}.items())), digest=digest)
    if checked:
        problems += (problem for case, source in cases for problem in case_problems(added[case.id], source, suite))
    return suite


def _load_all(kind: type[Any], paths: Iterable[Path], home: Path, problems: list[str]) -> Iterator[tuple[Any, Source]]:
    for path in paths:
        try:
            source = read_source(path, path.relative_to(home).as_posix())
            item = parse(kind, source)
        except SourceProblem as error:
            problems += error.problems
            continue
        expected = source.name.removeprefix("transcripts/").removesuffix(".yaml")
        if getattr(item, "id", expected) != expected:
            problems.append(source.problem(("id",), f"the file is {source.name}, so the id is {expected}"))
        yield item, source


def _load_more(paths: Iterable[Path], known: Container[str], problems: list[str]) -> Iterator[tuple[m.Transcript, Source]]:
    for path in paths:
        try:
            source = read_source(path)
            case = parse(m.Transcript, source)
        except SourceProblem as error:
            problems += error.problems
            continue
        if case.id in known:
            problems.append(source.problem(("id",), f"the suite has a case {case.id}: give this one another id"))
        yield case, source


def _digest(home: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted([*(home / "clauses").glob("*.yaml"), *(home / "transcripts").rglob("*.yaml")]):
        digest.update(path.relative_to(home).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _digest_with(digest: str, paths: Iterable[Path]) -> str:
    return hashlib.sha256("\0".join([digest, *map(read_text, paths)]).encode()).hexdigest()[:16]


def _clause_problems(registers: Iterable[tuple[m.Register, Source]]) -> Iterator[str]:
    seen: dict[str, str] = {}
    listed = list(registers)
    for register, source in listed:
        for index, clause in enumerate(register.clauses):
            place: Place = ("clauses", index, "id")
            for name in (clause.id, *clause.aliases):
                if name in seen:
                    yield source.problem(place, f"the clause {name} stands already at {seen[name]}")
                seen[name] = source.at(place)
            if not clause.id.startswith(f"{register.proposal.replace('-', '')}."):
                yield source.problem(place, f"a clause of {register.proposal} begins with {register.proposal.replace('-', '')}.")
    for register, source in listed:
        for index, clause in enumerate(register.clauses):
            for name in clause.depends_on:
                if name not in seen:
                    yield source.problem(("clauses", index, "depends_on"), f"there is no clause {name}")
            if clause.soon and clause.level != "SHOULD":
                yield source.problem(("clauses", index, "soon"), "a rule about how soon frames come is a SHOULD")
            for number, rule in enumerate(clause.soon):
                for at, frame in enumerate(rule.frames):
                    place = ("clauses", index, "soon", number, "frames", at)
                    yield from (source.problem((*place, *inner), text) for inner, text in frames.problems(frame))


def case_problems(case: m.Transcript, source: Source, suite: Suite) -> Iterator[str]:
    """Check one transcript against the rest of the suite and against the schema."""
    clauses = suite.clauses
    for index, clause in enumerate(case.clauses):
        if clause not in clauses:
            yield source.problem(("clauses", index), f"there is no clause {clause}")
        elif clauses[clause].excluded:
            yield source.problem(("clauses", index), f"the clause {clause} is excluded: {clauses[clause].excluded}")
    if case.control is not None and case.control not in suite.transcripts:
        yield source.problem(("control",), f"there is no case {case.control}")
    for name, kind in fresh_names(case).items():
        if kind not in FRESH_KINDS:
            yield source.problem(("vars", name), f"unknown kind of fresh name {kind!r}; known: {', '.join(FRESH_KINDS)}")
    found = list(_step_problems(case, source))
    yield from found
    if found:
        return
    for cell in cells(case):
        try:
            suite.actions_digest(case.id, cell)  # compiles it; a run needs the digest anyway
        except (ProgramProblem, ValueProblem) as error:
            yield source.problem(("steps",), str(error))
            return


def _step_problems(item: m.Transcript | m.Fragment, source: Source) -> Iterator[str]:
    """Check every frame, admin call and clause anywhere in the steps."""
    for place, step in walk_steps(listed(item.steps, "steps")):
        for where, frame in step.frames():
            yield from (source.problem((*place, *where, *inner), text) for inner, text in frames.problems(frame))
        for where, call in step.calls():
            yield from (source.problem((*place, *where), text) for text in _admin_problems(call))
        for where, clause in step.clauses():
            if isinstance(item, m.Transcript) and clause not in item.clauses:
                yield source.problem((*place, *where), f"{clause} is not among the clauses of {item.id}: add it there")


def _admin_problems(call: Mapping[str, Any]) -> Iterator[str]:
    from conformance.targets.operations import OPERATIONS  # noqa: PLC0415  # an HTTP client comes with it

    for name, arguments in call.items():
        operation = OPERATIONS.get(name)
        if operation is None:
            yield f"unknown admin call {name!r}; known: {', '.join(OPERATIONS)}"
        elif isinstance(arguments, dict):
            unknown = set(arguments) - set(operation.arguments)
            if unknown:
                yield f"{name} takes {', '.join(operation.arguments)}; not {', '.join(sorted(unknown))}"
