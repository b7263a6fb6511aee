"""Two runs side by side, case by case: what fails that did not, what no longer fails, what is otherwise different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from conformance.engine.verdict import Verdict
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_COULD_NOT_RUN, EXIT_NOT_CONFORMANT
from conformance.report.pages import page
from conformance.report.wording import VERDICT_MEANING, VERDICT_WORDS, counted, number_of, one_line, short

FORMAT: Final = 1
Kind: TypeAlias = Literal["new", "fixed", "changed", "gone", "added", "same"]
KINDS: Final[Mapping[Kind, str]] = {
    "new": "fails or warns in B, and did not in A",
    "fixed": "failed or warned in A, and holds in B",
    "changed": "has another verdict, or fails in another way",
    "gone": "is in A only",
    "added": "is in B only, and does not fail there",
    "same": "has the same verdict in both",
}
"""What can have come of a case. Each case is counted once."""
_BROKEN: Final = frozenset({"FAIL", "WARN"})
_HOLDS: Final = frozenset({"PASS", "SPEC-GAP", "XPASS"})
_UNKNOWN: Final = frozenset({"ERROR", "INCONCLUSIVE"})
SENTENCE: Final = 400
"""Characters of a conclusion."""
_MOST: Final = 40
"""Cases of a kind that a terminal shows."""
_MOST_GONE: Final = 10


@dataclass(frozen=True)
class Side:
    """One of the runs.

    Attributes:
        name: Where it was read.
        target: What was judged, and how: target, version, profile.
        suite: Version of the suite, and digest of its transcripts and clauses.
        started: Date and time, ISO 8601.
        complete: Whether it reached its end.
        sentence: What it came to.
        cases: Results by the names of their cases, with the keys of `results.json`.
        clauses: Verdicts of clauses by their ids.
        levels: Their levels, as far as they are known.
        exit_code: How it ended; None: its log does not say.
        stale: Entries of its baseline that are stale.
    """

    name: str
    target: tuple[str, str, str]
    suite: tuple[str, str]
    started: str
    complete: bool
    sentence: str
    cases: Mapping[str, Mapping[str, Any]] = field(repr=False)
    clauses: Mapping[str, str] = field(repr=False)
    levels: Mapping[str, str] = field(repr=False)
    exit_code: int | None = None
    stale: Sequence[str] = ()

    def failed(self, *, strict: bool = False) -> list[str]:
        """Return the ids of the cases of which a cell failed or could not be judged; if `strict`, also of those that warn."""
        wanted = _UNKNOWN | (_BROKEN if strict else {Verdict.FAIL})
        names = (name for name, one in self.cases.items() if one["verdict"] in wanted)
        return list(dict.fromkeys(name.partition("[")[0] for name in names))


@dataclass(frozen=True)
class Difference:
    """What came of one case; a verdict is empty if the run does not have the case."""

    case: str
    kind: Kind
    before: str
    after: str
    clauses: Sequence[str]
    summary: str

    @property
    def is_lost(self) -> bool:
        """Tell whether the case may fail in B, where it could not be judged, and did not in A."""
        if self.after == Verdict.UNTESTABLE:
            return self.before in _HOLDS | {Verdict.WARN}
        return self.after in _UNKNOWN and self.before not in _UNKNOWN


@dataclass(frozen=True)
class Comparison:
    """Two runs, what came of each case in the order of names, and of each clause."""

    sides: tuple[Side, Side]
    cases: Sequence[Difference]
    clauses: Mapping[str, Kind]

    @property
    def counts(self) -> Counter[Kind]:
        """Count cases by what came of them."""
        return Counter(one.kind for one in self.cases)

    @property
    def clause_counts(self) -> Counter[Kind]:
        """Count clauses by what came of them."""
        return Counter(self.clauses.values())

    def of(self, kind: Kind) -> list[Difference]:
        """Return the cases of which this came, those that fail before those that warn."""
        return sorted((one for one in self.cases if one.kind == kind), key=lambda one: one.after != Verdict.FAIL)

    def failing(self, *, strict: bool = False) -> int:
        """Count the cases that fail in B and did not in A; if `strict`, those that warn, too."""
        return sum(one.after == Verdict.FAIL or strict for one in self.of("new"))

    def unsure(self) -> list[str]:
        """Say why cases may fail in B of which nothing is known."""
        second = self.sides[1]
        unknown = [one.case for one in self.cases if one.is_lost]
        found = [] if second.complete else ["B did not reach its end"]
        return found + ([f"{number_of(len(unknown), 'case')} could not be judged in B, such as {unknown[0]}"] if unknown else [])

    def exit_code(self, *, strict: bool = False) -> int:
        """Return 1 if something fails that did not, 3 if that is not known, otherwise 0."""
        if self.failing(strict=strict):
            return EXIT_NOT_CONFORMANT
        return EXIT_COULD_NOT_RUN if self.unsure() else EXIT_CONFORMANT


def side_of(name: str, results: Mapping[str, Any]) -> Side:
    """Read one run.

    Args:
        name: Where it was read.
        results: What `badge.to_json` makes.

    Raises:
        ValueError: It is something else; names the key.
    """
    try:
        clauses = {one["id"]: (str(one["verdict"]), str(one.get("level", ""))) for one in results["clauses"]}
        return Side(
            name=name,
            target=(str(results["target"]), str(results["server_version"]), str(results["profile"])),
            suite=(str(results["suite"]), str(results["transcripts"])),
            started=str(results["started"]),
            complete=bool(results["complete"]),
            sentence=str(results["sentence"]),
            cases={str(one["name"]): {**one, "verdict": str(one["verdict"]), "clauses": dict(one["clauses"])} for one in results["cases"]},
            clauses={clause: verdict for clause, (verdict, _) in clauses.items()},
            levels={clause: level for clause, (_, level) in clauses.items()},
            exit_code=results.get("exit_code"),
            stale=tuple(map(str, results.get("stale", ()))),
        )
    except KeyError as error:
        raise ValueError(f"{name}: the key {error} is missing: these are no results of a run") from None
    except (TypeError, AttributeError):
        raise ValueError(f"{name}: these are no results of a run") from None


def compare(first: Side, second: Side) -> Comparison:
    """Compare two runs. Cases are the same if their names are, also if the runs are of different suites."""
    names = sorted({*first.cases, *second.cases})
    clauses = list(dict.fromkeys([*second.clauses, *first.clauses]))
    return Comparison(
        (first, second),
        [_difference(name, first.cases.get(name), second.cases.get(name)) for name in names],
        {name: _kind(first.clauses.get(name, ""), second.clauses.get(name, "")) for name in clauses},
    )


def _kind(before: str, after: str) -> Kind:
    if not after:
        return "gone"
    if after in _BROKEN and (before not in _BROKEN or (before, after) == ("WARN", "FAIL")):
        return "new"
    if not before:
        return "added"
    if before in _BROKEN and after in _HOLDS:
        return "fixed"
    return "same" if before == after else "changed"


def _difference(name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Difference:
    verdicts = ("" if before is None else before["verdict"], "" if after is None else after["verdict"])
    kind = _kind(*verdicts)
    if kind == "same" and before is not None and after is not None and _broken(before) != _broken(after):
        kind = "changed"
    told = after if after is not None and kind != "fixed" else before
    assert told is not None
    return Difference(name, kind, *verdicts, _broken(told) or list(told["clauses"])[:1], str(told.get("summary", "")))


def _broken(result: Mapping[str, Any]) -> list[str]:
    return [clause for clause, verdict in result["clauses"].items() if verdict in _BROKEN]


def remarks(comparison: Comparison) -> list[str]:
    """Say in what else the two runs differ, so that differences may come from there."""
    first, second = comparison.sides
    said = []
    if first.suite != second.suite:
        versions = " and ".join(one_line(f"{side.suite[0]} ({side.suite[1][:12]})") for side in comparison.sides)
        said.append(f"the runs are of different suites, {versions}: cases are compared by name, and may demand something else")
    for what, before, after in zip(("targets", "versions of the target", "profiles"), first.target, second.target, strict=True):
        if before != after:
            said.append(f"the runs are of different {what}: {one_line(before) or 'none'} and {one_line(after) or 'none'}")
    if not first.complete:
        said.append("A did not reach its end: what it does not have looks new")
    return said


def conclusion(comparison: Comparison, *, strict: bool = False) -> str:
    """Sum up a comparison in one sentence."""
    failing = comparison.failing(strict=strict)
    if failing:
        verb = "fails" if failing == 1 else "fail"
        return f"{number_of(failing, 'case')} {verb} in B and did not in A" + (" (warnings count)" if strict else "")
    unsure = comparison.unsure()
    return "nothing fails in B that did not in A" + (f", as far as is known: {'; '.join(unsure)}" if unsure else "")


def render_text(comparison: Comparison, *, strict: bool = False) -> str:
    """Write a comparison for a terminal: the runs, what is new, fixed, changed and gone, the numbers, the conclusion."""
    return "\n".join(_lines(comparison, strict))


def _lines(comparison: Comparison, strict: bool) -> Iterator[str]:
    for letter, side in zip("AB", comparison.sides, strict=True):
        yield f"{letter}  {one_line(side.name)}: {one_line(side.target[0])}, {one_line(side.started)}: {short(side.sentence) or 'complete'}"
    yield from (f"   {remark}" for remark in remarks(comparison))
    for kind in get_args(Kind)[:4]:
        found = comparison.of(kind)
        if found:
            yield from ("", f"{kind}: {KINDS[kind]}")
            most = _MOST_GONE if kind == "gone" else _MOST
            for one in found[:most]:
                yield from _case_lines(one, comparison)
            if len(found) > most:
                yield f"  … and {len(found) - most} more: --report writes them all"
    yield ""
    for what, counts in (("cases", comparison.counts), ("clauses", comparison.clause_counts)):
        first, second = totals(comparison, what)
        yield f"{what:<8} " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS) + f"; {first} in A, {second} in B"
    yield conclusion(comparison, strict=strict)


def _case_lines(one: Difference, comparison: Comparison) -> Iterator[str]:
    yield f"  {one.before or '-'} -> {one.after or '-'}  {one_line(one.case)}"
    if one.kind == "gone":
        return
    levels = {**comparison.sides[0].levels, **comparison.sides[1].levels}
    for clause in one.clauses:
        yield f"      {one_line(clause)}" + (f" ({levels[clause]})" if levels.get(clause) else "")
    if one.summary:
        yield f"      {'was: ' if one.kind == 'fixed' else ''}{short(one.summary)}"


def totals(comparison: Comparison, what: str) -> tuple[int, int]:
    """Return how many cases, or clauses, each of the runs has."""
    first, second = comparison.sides
    return (len(first.cases), len(second.cases)) if what == "cases" else (len(first.clauses), len(second.clauses))


def render_html(comparison: Comparison, *, strict: bool = False) -> str:
    """Write a comparison as one page that needs nothing else."""
    counts = [counted(Counter(one["verdict"] for one in side.cases.values())) for side in comparison.sides]
    return page(
        "compare.html.j2",
        comparison=comparison,
        kinds=KINDS,
        counts=list(zip("AB", comparison.sides, counts, strict=True)),
        remarks=remarks(comparison),
        conclusion=conclusion(comparison, strict=strict),
        code=comparison.exit_code(strict=strict),
        totals={what: totals(comparison, what) for what in ("cases", "clauses")},
        numbers={"cases": comparison.counts, "clauses": comparison.clause_counts},
        words=VERDICT_WORDS,
        meaning=VERDICT_MEANING,
    )


def to_json(comparison: Comparison, *, strict: bool = False) -> dict[str, Any]:
    """Return a comparison, ready for `json.dumps`; the keys are a public contract."""
    return {
        "format": FORMAT,
        "conclusion": conclusion(comparison, strict=strict),
        "exit_code": comparison.exit_code(strict=strict),
        "remarks": remarks(comparison),
        "counts": {
            "cases": {kind: comparison.counts[kind] for kind in KINDS},
            "clauses": {kind: comparison.clause_counts[kind] for kind in KINDS},
        },
        "cases": [
            {
                "name": one.case,
                "kind": one.kind,
                "before": one.before,
                "after": one.after,
                "clauses": list(one.clauses),
                "summary": one.summary,
            }
            for one in comparison.cases
            if one.kind != "same"
        ],
        "clauses": {clause: kind for clause, kind in comparison.clauses.items() if kind != "same"},
    }
