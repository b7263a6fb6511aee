"""Freedoms of the admin interface: how long it takes, which codes it has, what its answers list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from conformance.mutants.model import Patches
from conformance.targets.admin import AdminClient
from conformance.variants.model import MESSAGES, variant
from refimpl.net.memory_link import MemoryLink
from refimpl.proposals.administration import AdminRequest, AdminResponse

Answer = Callable[[AdminRequest, AdminResponse], AdminResponse]
_STATS_THAT_ANY_BROKER_NEEDS = frozenset({"subscriptions", "publishers", "consumers", "msgBacklog", "subscriptionProperties"})


def on_answer(patches: Patches, change: Answer) -> None:
    """Change the answers of the admin interface."""

    def make(admin: Callable[..., AdminResponse]) -> Callable[..., AdminResponse]:
        return lambda link, request, *at: change(request, admin(link, request, *at))

    patches.wrap(MemoryLink, "admin", make)


def takes(patches: Patches, before: float, after: float) -> None:
    """Let each call of the admin interface take some seconds before it is carried out, and some after."""

    def make(send: Callable[..., Any]) -> Callable[..., Any]:
        async def changed(*args: Any) -> Any:
            await asyncio.sleep(before)
            try:
                return await send(*args)
            finally:
                await asyncio.sleep(after)

        return changed

    patches.wrap(AdminClient, "_send", make)


@variant("partition-update-time-out", late=True)
def is_slow_to_carry_out_admin_calls(patches: Patches) -> None:
    """A call of the admin interface is carried out after 4 s."""
    takes(patches, 4, 0)


@variant("partition-update-time-out", late=True)
def is_slow_to_answer_admin_calls(patches: Patches) -> None:
    """A call of the admin interface is carried out at once and answered after 4 s."""
    takes(patches, 0, 4)


@variant("partition-update-time-out")
def answers_admin_calls_after_their_effect(patches: Patches) -> None:
    """A call of the admin interface is answered 50 ms after it was carried out, so that what it causes comes first."""
    takes(patches, 0, 0.05)


@variant("partition-changes", cases=("pip145/*", "pip247/*", "pr25648/*"))
def has_other_codes_for_admin_calls(patches: Patches) -> None:
    """A call that succeeds is answered with 200 and a body; one that is refused has no body, and 409 or 400 instead of 422 or 412."""

    def change(request: AdminRequest, answer: AdminResponse) -> AdminResponse:
        if answer.status == 204:
            return replace(answer, status=200, body=b'"OK"')
        if answer.status < 400:
            return answer
        codes = {} if "/scalable/" in request.path else {422: 409, 412: 400}  # clauses name the codes of scalable topics
        return replace(answer, status=codes.get(answer.status, answer.status), body=b"")

    on_answer(patches, change)


@variant("partition-changes", cases=("pip247/*",))
def accepts_the_same_number_of_partitions(patches: Patches) -> None:
    """Setting the number of partitions that a topic has succeeds, and changes nothing."""

    def change(request: AdminRequest, answer: AdminResponse) -> AdminResponse:
        return AdminResponse(204) if answer.status == 422 and request.method == "POST" else answer

    on_answer(patches, change)


@variant("filter-counters", "filtered-accounts", cases=MESSAGES)
def shows_other_statistics(patches: Patches) -> None:
    """Statistics lack the keys that no clause speaks of, and all that is 0, false or empty, and have others."""

    def thin(value: Any) -> Any:
        if isinstance(value, dict):
            unnamed = ("type", "isDurable", "storageSize", "accessMode")
            kept = {key: thin(one) for key, one in value.items() if key not in unnamed and one not in (0, False, "", [])}
            return {**kept, "more": {"of": ["this", 1]}} if "msgBacklog" in value else kept
        return [thin(one) for one in value] if isinstance(value, list) else value

    def change(request: AdminRequest, answer: AdminResponse) -> AdminResponse:
        if answer.status != 200 or not request.path.endswith("/stats"):
            return answer
        return replace(answer, body=json.dumps(thin(json.loads(answer.body))).encode())

    on_answer(patches, change)


@variant("core.handshake.connected", cases=("pip145/compat/*", "pip247/flag/*", "pip247/timeout/*", "pr25648/flag/*"))
def lists_settings_by_their_types(patches: Patches) -> None:
    """The list of settings has numbers and booleans, where Pulsar has texts."""

    def plain(text: str) -> object:
        return {"true": True, "false": False}.get(text, int(text) if text.isdecimal() else text)

    def change(request: AdminRequest, answer: AdminResponse) -> AdminResponse:
        if answer.status != 200 or not request.path.endswith("/configuration/runtime"):
            return answer
        found = {key: plain(value) for key, value in json.loads(answer.body).items()}
        return replace(answer, body=json.dumps(found).encode())

    on_answer(patches, change)


@variant("core.handshake.connected", cases=("pip145/compat/*", "pip247/flag/*", "pip247/timeout/*", "pr25648/flag/*"))
def lists_no_settings(patches: Patches) -> None:
    """The broker does not list its settings: 404."""

    def change(request: AdminRequest, answer: AdminResponse) -> AdminResponse:
        return AdminResponse(404, b'{"reason": "not here"}') if request.path.endswith("/configuration/runtime") else answer

    on_answer(patches, change)


@variant("core.handshake.connected", cases=("pip145/compat/*", "pip247/flag/*", "pip247/timeout/*", "pr25648/flag/*"))
def lists_only_settings_that_differ(patches: Patches) -> None:
    """The list of settings has those alone that are not the usual ones: none, unless they are given."""

    def change(request: AdminRequest, answer: AdminResponse) -> AdminResponse:
        return AdminResponse(200, b"{}") if request.path.endswith("/configuration/runtime") else answer

    on_answer(patches, change)
