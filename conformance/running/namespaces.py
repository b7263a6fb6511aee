"""The namespaces of a run: created for each case, removed when the run ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from conformance.targets.admin import AdminClient, AdminResult, AdminUnreachable

NAMESPACE_PREFIX = "pc-"
_PATIENT = 6
"""Namespaces that stay in use, however often they are asked to go, before the others get one attempt each, and another one at the end: a
cluster of 5.0.0-M1 does not let go of hundreds for more than a minute."""


@dataclass(frozen=True)
class Created:
    """What came of creating the namespaces of a case.

    Attributes:
        names: "tenant/name" of each.
        refused: Why one could not be created; None if all were.
        taken: Whether that is because there is one of its name.
    """

    names: Sequence[str]
    refused: str | None = None
    taken: bool = False


async def create_namespaces(admin: AdminClient | None, names: Sequence[str], made: set[str], bundles: int | None) -> Created:
    """Create namespaces and add them to `made`, up to the first that can't be created.

    Args:
        admin: The admin interface; without one nothing is created.
        names: "tenant/name" of each.
        made: What this run has created.
        bundles: How many bundles each has; None: as the broker decides.

    Raises:
        AdminUnreachable: There was no answer.
    """
    for name in names if admin is not None else ():
        assert admin is not None
        result = await admin.call("create_namespace", {"namespace": name, "bundles": bundles})
        if not result.ok:
            refused = f"namespace {name} can't be created: {result.status} {result.reason}"
            return Created(names, refused, taken=result.status == HTTPStatus.CONFLICT)
        made.add(name)
    return Created(names)


async def remove_namespaces(admin: AdminClient, names: Iterable[str], at_once: int) -> None:
    """Remove namespaces; tell on standard error which are left over.

    Args:
        admin: The admin interface.
        names: "tenant/name" of each.
        at_once: How many are removed at the same time.
    """
    room = asyncio.Semaphore(at_once)
    left: dict[str, AdminResult] = {}

    async def remove(name: str) -> None:
        async with room:
            result = await admin.remove_namespace(name, patient=len(left) < _PATIENT)
        left.pop(name, None)
        if not result.ok and result.status != HTTPStatus.NOT_FOUND:
            left[name] = result

    try:
        await asyncio.gather(*map(remove, names))
        await asyncio.gather(*map(remove, list(left)))  # what was in use may be free by now
        for name, result in left.items():
            print(f"namespace {name} is left over: {result.status} {result.reason}; `doctor` removes it", file=sys.stderr)
    except AdminUnreachable as error:
        print(f"namespaces are left over: {error}; `doctor --clean` removes them", file=sys.stderr)
    except asyncio.CancelledError:
        print("there was no time to remove all namespaces: `doctor --clean` does it", file=sys.stderr)
        raise
