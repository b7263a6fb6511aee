"""Which cases accuse which legal variants: each variant is run in process, in virtual time, and judged like any other broker."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

import conformance.variants
from conformance.engine import log
from conformance.engine.verdict import Verdict
from conformance.judging.results import counts, judge_log
from conformance.names import is_selected
from conformance.running.in_process import run_in_process
from conformance.suite import Suite, load_suite
from conformance.variants.model import MESSAGES, VARIANTS, Variant, together


@dataclass(frozen=True)
class Trial:
    """What the suite said of one variant.

    Attributes:
        accusations: Results that a right broker must not get.
        counts: How many results there are of each verdict.
    """

    variant: str
    accusations: tuple[log.Result, ...]
    counts: Mapping[str, int]


def load_variants() -> Mapping[str, Variant]:
    """Import the modules that hold variants, and return all by name."""
    for module in pkgutil.iter_modules(conformance.variants.__path__):
        if module.name not in ("__main__", "model", "run"):
            importlib.import_module(f"{conformance.variants.__name__}.{module.name}")
    return VARIANTS


def try_variant(suite: Suite, variant: Variant, select: Sequence[str] = ()) -> Trial:
    """Judge a variant by the cases that can notice it, in both profiles as far as the second one has cases of its own.

    Args:
        suite: All cases.
        variant: The broker.
        select: Globs for the cases; none: all.
    """
    chosen = [
        case
        for case in suite.transcripts.values()
        if "broker" in case.tests and is_selected((case.id,), select) and is_selected((case.id,), variant.cases)
    ]
    results: list[log.Result] = []
    with variant.applied():
        for profile in ("default", "as-written"):
            names = [case.id for case in chosen if profile == case.profiles[0]]
            if names:
                results += judge_log(suite, run_in_process(suite, names, profile)).results
    return Trial(variant.name, tuple(one for one in results if is_accusation(variant, one)), counts(results))


def is_accusation(variant: Variant, result: log.Result) -> bool:
    """Tell whether a result says that a variant is wrong, or says nothing although the variant gave no reason for that."""
    if result.verdict in (Verdict.FAIL, Verdict.ERROR):
        return True
    if result.verdict == Verdict.WARN:
        warned = {clause for clause, verdict in result.clauses.items() if verdict == Verdict.WARN}
        return not warned <= variant.not_kept
    if result.verdict == Verdict.SPEC_GAP:  # a branch that is left open is no accusation; a failure that is charged to another MAY is one
        open_ = {clause for clause, verdict in result.clauses.items() if verdict == Verdict.SPEC_GAP}
        return not result.branches and not open_ <= {*variant.left_free_by}
    return result.verdict == Verdict.INCONCLUSIVE and not variant.late


@cache
def _suite() -> Suite:
    return load_suite()


def try_by_name(name: str, select: Sequence[str] = ()) -> Trial:
    """Judge a variant by its name, or several at once by their names with ` + ` between them."""
    return try_variant(_suite(), together([load_variants()[one] for one in name.split(" + ")]), select)


def in_groups(variants: Mapping[str, Variant], size: int) -> list[str]:
    """Return groups of variants for `try_all`: of those that all cases can notice, or all with messages. The rest cost little alone.

    Args:
        variants: All variants by name, in the order of the modules that hold them: neighbours change the same, so they are kept apart.
        size: How many a group has at most.
    """
    dear: dict[tuple[str, ...], list[str]] = {(): [], MESSAGES: []}
    groups: list[str] = []
    for name, one in variants.items():
        dear.get(one.cases, groups).append(name)
    for names in dear.values():
        number = -(-len(names) // size)
        groups += [" + ".join(names[first::number]) for first in range(number)]
    return groups


def try_all(
    names: Iterable[str], select: Sequence[str] = (), *, judge: Callable[..., Trial] = try_by_name, processes: int = 2
) -> Iterator[Trial]:
    """Judge variants, several at a time; yield what was said of each, in their order.

    Args:
        names: The variants.
        select: Globs for the cases; none: all.
        judge: Gets a name and the globs, in another process; variants of clients have their own.
        processes: How many are judged at a time.
    """
    chosen = list(names)
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(judge, chosen, [tuple(select)] * len(chosen))
