"""A scenario played on the reference, and then on a target beside what the reference said."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from conformance.explore.conditions import entry_for
from conformance.explore.difference import Difference
from conformance.explore.freedoms import FreeDifference, KnownProblem
from conformance.explore.lines import Line
from conformance.explore.player import Player, clean
from conformance.explore.world import Scenario
from conformance.targets import AdminClient, Endpoint, InProcessTarget

QUIET = 0.1
"""Virtual seconds in which the reference says all that it will after an action."""
PATIENCE = 3.0
"""Seconds of silence after which a target has not said what the reference said."""
AT_LAST = 60.0
"""Seconds after which it has not said it either if it says something else all the time."""
LONGER = 4
"""Factor on these times, and on the next, where silence would be a new difference: a machine may be busy."""
OTHERWISE = 0.25
"""Seconds that a target has to say what the reference said once it has said something else."""
AFTERWARDS = 0.02
"""Seconds in which a target may say too much, after the last action and a fence."""


@dataclass
class Met:
    """What was met and is no difference.

    Attributes:
        free: How often each freedom or known defect, by its entry in the list.
        late: How often something was said only after the usual time.
    """

    free: Counter[FreeDifference | KnownProblem] = field(default_factory=Counter)
    late: int = 0


@dataclass(frozen=True)
class Said:
    """What the reference said.

    Attributes:
        player: Its player.
        after: All lines so far, each time that its player waited until all was said.
    """

    player: Player
    after: Sequence[Counter[Line]]


async def on_reference(scenario: Scenario, names: Mapping[str, str]) -> Said:
    """Play a scenario on the reference, in virtual time."""
    after: list[Counter[Line]] = []

    async def settle(player: Player) -> None:
        await asyncio.sleep(QUIET)
        player.drain()
        after.append(Counter(player.told.lines))

    async def between(_: Player) -> bool:
        return True

    async with InProcessTarget().run() as endpoint, AdminClient(endpoint) as admin:
        player = Player(endpoint, admin, scenario.world, names, settle)
        await player.play(scenario, between)
        await player.end()
    return Said(player, after)


async def on_target(
    endpoint: Endpoint, scenario: Scenario, names: Mapping[str, str], said: Said, met: Met, slow: float = 1.0, *, patient: bool = True
) -> Difference | None:
    """Play a scenario on a target, as far as it says the same as the reference; return the first difference.

    Args:
        endpoint: Where the target is.
        scenario: What to play.
        names: The names of this time.
        said: What the reference said.
        met: Gets what was met and is no difference.
        slow: Factor on the time that the target has.
        patient: Whether it is given more time before silence counts as a difference.
    """
    difference: list[Difference] = []
    place = -1

    async def settle(player: Player) -> None:
        nonlocal place
        place += 1
        await _until_said(player, said.after[min(place, len(said.after) - 1)], slow)  # a message that `_ends` publishes comes later
        await player.fence()  # what gets no answer has arrived all the same, before another connection acts

    def differing(player: Player) -> Difference | None:
        missing, extra = said.after[place] - player.told.lines, player.told.lines - said.after[place]
        if not missing and not extra:
            return None
        reference = said.player
        return Difference(scenario, len(player.steps) - 1, _sorted(missing), _sorted(extra), reference.steps, reference.told, player.told)

    async def between(player: Player) -> bool:
        found = differing(player)
        if found is not None and found.missing and patient and entry_for(found, endpoint.release) is None:
            await _until_said(player, said.after[place], slow * LONGER)
            found = differing(player)
            met.late += found is None
        if found is None:
            return True
        entry = entry_for(found, endpoint.release)
        if entry is not None and entry.goes_on:
            met.free[entry] += 1
            player.told.lines = Counter(said.after[place])
            return True
        difference.append(replace(found, entry=entry))
        return False

    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(AdminClient(endpoint)) if endpoint.admin_url is not None else None
        player = Player(endpoint, admin, scenario.world, names, settle)
        try:
            await player.play(scenario, between)
            if not difference:
                await player.fence(all_of_them=True)
                await asyncio.sleep(AFTERWARDS)
                player.drain()
                await between(player)
            elif _should_end(difference[0]) and not await _ends(player, difference[0], said.after[place], slow):
                difference = [replace(difference[0], entry=None)]
        finally:
            await player.end()
            if admin is not None and not endpoint.thrown_away:
                await clean(admin, names)
    return difference[0] if difference else None


def _should_end(difference: Difference) -> bool:
    return difference.entry is not None and difference.entry.until_publish


async def _ends(player: Player, difference: Difference, expected: Counter[Line], slow: float) -> bool:
    """Publish to the topics of what is missing, and tell whether all of it comes then."""
    place_of = {(line.lane, line.value("consumer_id")) for line in difference.missing}
    for topic in {str(player.told.consumers[key]["topic"]) for key in place_of}:
        await player.publish(topic)
    await _until_said(player, expected, slow)
    return not expected - player.told.lines


async def _until_said(player: Player, expected: Counter[Line], slow: float) -> None:
    """Wait until a target has said what is expected; not much longer once it has said something else."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE * slow
    at_last = loop.time() + AT_LAST * slow
    other_until = None
    heard = 0
    while True:
        player.changed.clear()
        player.drain()
        if len(player.told.frames) > heard:
            heard, until = len(player.told.frames), loop.time() + PATIENCE * slow
        if player.told.lines == expected:
            return
        if player.told.lines - expected:
            other_until = other_until or loop.time() + OTHERWISE * slow
        left = min(until, other_until or until, at_last) - loop.time()
        if left <= 0:
            return
        try:
            async with asyncio.timeout(left):
                await player.changed.wait()
        except TimeoutError:
            continue


def _sorted(lines: Counter[Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines.elements()))
