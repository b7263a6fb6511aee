"""Which cases accuse which legal variants of the client: each is run in process, in virtual time, and judged like any other client."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache

import conformance.clients.variants
from conformance.clients.in_process import run_clients_in_process
from conformance.clients.variants.model import CLIENT_VARIANTS
from conformance.judging.results import counts, judge_log
from conformance.names import is_selected
from conformance.suite import Suite, load_suite
from conformance.variants.model import Variant
from conformance.variants.run import Trial, is_accusation


def load_client_variants() -> Mapping[str, Variant]:
    """Import the modules that hold variants of the client, and return all by name."""
    for module in pkgutil.iter_modules(conformance.clients.variants.__path__):
        if module.name not in ("__main__", "model", "run"):
            importlib.import_module(f"{conformance.clients.variants.__name__}.{module.name}")
    return CLIENT_VARIANTS


def try_client_variant(suite: Suite, variant: Variant, select: Sequence[str] = ()) -> Trial:
    """Judge a variant by the cases for clients that can notice it.

    Args:
        suite: All cases.
        variant: The client.
        select: Globs for the cases; none: all.
    """
    chosen = [case.id for case in suite.select(select, role="client") if is_selected((case.id,), variant.cases)]
    with variant.applied():
        results = judge_log(suite, run_clients_in_process(suite, chosen)).results
    return Trial(variant.name, tuple(one for one in results if is_accusation(variant, one)), counts(results))


@cache
def _suite() -> Suite:
    return load_suite()


def try_client_by_name(name: str, select: Sequence[str] = ()) -> Trial:
    """Judge a variant by its name."""
    return try_client_variant(_suite(), load_client_variants()[name], select)
