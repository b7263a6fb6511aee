"""What an exploration found, as lines and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from conformance.console import out
from conformance.explore.client_explorer import ExploredClient
from conformance.explore.explorer import Explored, Plan
from conformance.report.pages import page
from conformance.report.wording import number_of


def progress(explored: Explored) -> str:
    """Write how far an exploration is, in one line."""
    pace = explored.actions / explored.seconds if explored.seconds else 0.0
    return (
        f"{explored.seconds:.0f} s: {number_of(explored.scenarios, 'scenario')}, {explored.actions:,} actions ({pace:.0f} a second), "
        + (f"{number_of(len(explored.coverage.met), 'situation')}, " if explored.coverage.met else "")
        + number_of(len(explored.found()), "difference")
    )


def print_summary(explored: Explored, target: str, written: Mapping[str, Path], page_path: Path, *, concurrent: bool = False) -> None:
    """Print what was found, the conclusion last."""

    def line(text: str) -> None:
        out.print(text, highlight=False, markup=False, soft_wrap=True)

    line(progress(explored))
    for signature in explored.differences:
        line(f"\ndiffers: {signature}\n  {written[signature]}")
    for seed, problems in explored.broken.items():
        line(f"\ndoes not hold, seed {seed}:")
        for problem in problems:
            line(f"  {problem}")
    for signature in explored.unrepeated:
        line(f"\nseen once, not again: {signature}")
    for problem in explored.unanswered:
        line(f"\nseen once, not again: {problem}")
    for finding, times in sorted(_findings(explored).items()):
        line(f"known: finding {finding}, {number_of(times, 'time')}")
    if explored.met.late:
        line(f"late, but the same: {number_of(explored.met.late, 'time')}")
    line(f"\nReport\n  {page_path}")
    if explored.stopped is not None:
        line(f"\nnot complete: {explored.stopped}")
    count = len(explored.differences) + len(explored.broken)
    if concurrent and count:
        line(f"\n{target}: something does not hold after {number_of(count, 'scenario')}")
    elif count:
        line(f"\n{target}: {number_of(count, 'difference')} from the reference")
        line("Each is a defect of one of the two, or a freedom that is not listed yet.")
    elif explored.stopped is None:
        line(f"\n{target}: {'all that must hold did, after each scenario' if concurrent else 'says what the reference says'}")


def client_progress(explored: ExploredClient) -> str:
    """Write how far an exploration of a client is, in one line."""
    pace = explored.actions / explored.seconds if explored.seconds else 0.0
    return (
        f"{explored.seconds:.0f} s: {number_of(explored.scenarios, 'scenario')}, {explored.actions:,} actions ({pace:.0f} a second), "
        f"{number_of(len(explored.accused), 'accusation')}"
    )


def print_client_summary(explored: ExploredClient, client: str, written: Mapping[str, Path]) -> None:
    """Print what was found of a client, the conclusion last."""

    def line(text: str) -> None:
        out.print(text, highlight=False, markup=False, soft_wrap=True)

    line(client_progress(explored))
    for wrong, path in written.items():
        line(f"\nwrong: {wrong}\n  {path}\n  run it again: pulsar-conformance run {client} --case {path}")
    for wrong in explored.unrepeated:
        line(f"\nseen once, not again: {wrong}")
    if explored.silent > explored.failed:
        line(f"{number_of(explored.silent - explored.failed, 'scenario')} said nothing: not offered by the client, or too late")
    if explored.failed:
        line(f"{number_of(explored.failed, 'scenario')} did not come to an end: {explored.failure}")
    if explored.stopped is not None:
        line(f"\nnot complete: {explored.stopped}")
    if explored.accused:
        line(f"\n{client}: {number_of(len(explored.accused), 'accusation')}")
    elif explored.stopped is None and explored.silent == explored.scenarios:
        line(f"\n{client}: nothing was judged")
    elif explored.stopped is None and not explored.failed:
        line(f"\n{client}: is in the right state after each scenario")


def _findings(explored: Explored) -> Counter[str]:
    found: Counter[str] = Counter()
    for entry, times in explored.met.free.items():
        if entry.finding is not None:
            found[entry.finding] += times
    return found


def page_of(explored: Explored, target: str, plan: Plan, written: Mapping[str, Path]) -> str:
    """Return the page."""
    met: dict[str, Counter[str]] = {}
    for (_, kind, answer), count in explored.coverage.met.items():
        met.setdefault(kind, Counter())[answer] += count
    ways = Counter(kind for _, kind, _ in explored.coverage.met)
    return page(
        "explore.html.j2",
        target=target,
        explored=explored,
        plan=plan,
        progress=progress(explored),
        written={signature: (path, path.read_text(encoding="utf-8")) for signature, path in written.items()},
        met=sorted(met.items()),
        ways=ways,
        free=explored.met.free.most_common(),
    )
