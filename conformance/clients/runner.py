"""Runs cases for clients: starts drivers, gives each trial a backdrop of its own, writes the log."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel

from conformance import __version__
from conformance.clients.driver import Driver, DriverError, Hello
from conformance.clients.known import ClientTarget
from conformance.clients.trial import ClientTrial
from conformance.engine import log
from conformance.engine import model as m
from conformance.engine.capabilities import CLIENT_CAPABILITIES
from conformance.engine.program import Program, cells, fresh_names
from conformance.engine.verdict import RUNS, SAYS_NOTHING, Outcome, TrialLog
from conformance.judging.applicability import lack
from conformance.judging.results import RunLog
from conformance.running.connection import Allowance
from conformance.running.conversation import Surroundings, loop_time, watch_lag
from conformance.running.runner import Options, Watcher
from conformance.running.units import Unit
from conformance.suite import Suite
from conformance.targets.model import Endpoint, TargetError

MakeDriver: TypeAlias = Callable[[str, Sequence[str], Path], Driver]
"""What makes a driver of the name of a client, the command that starts it, and a file for its log; `Driver` does."""
_IN_A_RUN: Final = 512 << 20
"""Bytes that the log of a run may hold."""
_LOST_DRIVERS: Final = 5
"""Drivers that may be lost, one after the other, before a run gives up."""


@dataclass
class _Run:
    """The state of one run."""

    suite: Suite
    client: ClientTarget
    options: Options
    write: Callable[[BaseModel], None]
    watcher: Watcher
    folder: Path
    header: log.Header
    driver: MakeDriver
    started: float = field(default_factory=loop_time)
    allowance: Allowance = field(default_factory=lambda: Allowance(_IN_A_RUN))
    trial_logs: dict[str, TrialLog] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    skipped: list[log.Skipped] = field(default_factory=list)
    active: set[ClientTrial] = field(default_factory=set)
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    lost: int = 0

    def units(self, cases: list[m.Transcript]) -> deque[Unit]:
        """Return the trials to run; what does not apply to the client is skipped."""
        units: deque[Unit] = deque()
        for case in cases:
            lacking = lack(case, self.header.capabilities)
            if lacking is not None:
                for cell in cells(case):
                    self.skip(log.Skipped(case=case.id, cell=cell, verdict=lacking[0], reason=lacking[1]))
                continue
            count = (1 if case.trials is None else max(case.trials.count, self.options.trials or 0)) * self.options.repeat
            units += [Unit(case, cell, trial) for cell in cells(case) for trial in range(count)]
        self.watcher.total(len(units))
        return units

    def skip(self, record: log.Skipped) -> None:
        """Note what is not run."""
        self.skipped.append(record)
        self.write(record)

    async def work(self, units: deque[Unit]) -> None:
        """Run trials with a driver, and with another one if that is lost, until none is left.

        Drivers start one after the other. So a slow start keeps no trial waiting, and there are no more of them than the trials need.
        """
        while units:
            async with AsyncExitStack() as stack:
                async with self.starting:
                    if not units:
                        return
                    driver = await stack.enter_async_context(self._driver())
                while units and driver.lost is None:
                    await self._trial(units.popleft(), driver)
            self.lost += driver.lost is not None
            if self.lost > _LOST_DRIVERS:
                raise TargetError(f"{driver.lost} (and {_LOST_DRIVERS} others before it)")

    def _driver(self) -> Driver:
        return self.driver(self.client.name, self.client.command, self.folder / "driver.log")

    async def _trial(self, unit: Unit, driver: Driver) -> None:
        for attempt in range(RUNS):
            again = replace(unit, attempt=attempt)
            begin = self._begin(again)
            program = self.suite.program(begin, None)
            untestable = driver.untestable(program)
            if untestable is not None:
                self._leave_out(unit, "UNTESTABLE", untestable)
                return
            trial = self._prepared(again, begin, program, driver)
            self.active.add(trial)
            try:
                names = fresh_names(unit.case)
                await trial.hold([trial.trial_log.begin.fresh[name] for name, kind in names.items() if kind == "namespace"])
            finally:
                self.active.discard(trial)
            if trial.left_out is not None:
                del self.trial_logs[again.key]
                self._leave_out(unit, trial.left_out.verdict, str(trial.left_out))
                return
            outcome = self.outcomes[again.key] = trial.outcome(self.suite.levels)
            self.watcher.ended(unit.case, outcome)
            if trial.trial_log.finished is not None and trial.trial_log.finished.problem is None:
                self.lost = 0
            if (outcome.verdict not in SAYS_NOTHING and outcome.missing is None) or driver.lost is not None:
                return

    def _leave_out(self, unit: Unit, verdict: Literal["NOT-APPLICABLE", "UNTESTABLE"], reason: str) -> None:
        self.skip(log.Skipped(case=unit.case.id, cell=dict(unit.cell), verdict=verdict, reason=reason))

    def _begin(self, unit: Unit) -> log.TrialStarted:
        number = len(self.trial_logs) + 1
        fresh: dict[str, str] = {}
        for name, kind in fresh_names(unit.case).items():
            fresh[name] = _another(f"n{number}" if kind == "name" else f"public/pc-{number}", fresh.values())
        return log.TrialStarted(
            key=unit.key,
            case=unit.case.id,
            cell=dict(unit.cell),
            trial=unit.trial,
            attempt=unit.attempt,
            actions=self.suite.actions_digest(unit.case.id, unit.cell),
            fresh=fresh,
            seed=random.Random(f"{self.options.seed} {unit.key}").randrange(1 << 31),
            t=round(loop_time() - self.started, 6),
        )

    def _prepared(self, unit: Unit, begin: log.TrialStarted, program: Program, driver: Driver) -> ClientTrial:
        around = Surroundings(
            Endpoint(name=self.client.name, service_url="pulsar://127.0.0.1"),
            None,
            self.write,
            self.allowance,
            self.started,
            self.options.slow,
        )
        trial = ClientTrial(program, begin, around, driver, unit.case.target_config)
        self.trial_logs[unit.key] = trial.trial_log
        return trial


async def run_clients(
    suite: Suite,
    client: ClientTarget,
    options: Options,
    write: Callable[[BaseModel], None],
    watcher: Watcher,
    driver: MakeDriver = Driver,
) -> tuple[RunLog, str | None]:
    """Run the selected cases with a client.

    Args:
        suite: All cases.
        client: The client.
        options: The user's options.
        write: Called with each record of the log as it is made.
        watcher: Is notified of the progress.
        driver: How the driver is reached.

    Returns:
        The log so far, and why the run ended early (None if it did not).

    Raises:
        TargetError: The driver can't be built, or not be used at all.
    """
    cases = suite.select(options.select, options.level, options.profile, "client")
    stopped = None
    with tempfile.TemporaryDirectory(prefix="pulsar-conformance-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        client = await client.ready(watcher.note)
        watcher.note(f"starting the driver of {client.name}")
        async with driver(client.name, client.command, folder / "driver.log") as first:
            header = _header(suite, client, options, first.hello)
        run = _Run(suite, client, options, write, watcher, folder, header, driver)
        write(header)
        try:
            units = run.units(cases)
            async with AsyncExitStack() as stack:
                lag = asyncio.create_task(watch_lag(run.active))
                stack.callback(lag.cancel)
                try:
                    async with asyncio.TaskGroup() as tasks:
                        for _ in range(min(options.jobs or client.at_once, len(units))):
                            tasks.create_task(run.work(units))
                except BaseExceptionGroup as errors:
                    raise errors.exceptions[0] from None
        except asyncio.CancelledError:
            stopped = "interrupted"
        except (TargetError, DriverError) as error:
            stopped = str(error)
    in_flight = [key for key in run.trial_logs if key not in run.outcomes]  # the end of its driver is not what a client does by itself
    footer = log.Footer(complete=stopped is None, stopped=stopped, in_flight=in_flight)
    counted = {key: one for key, one in run.trial_logs.items() if key not in in_flight}
    return RunLog(header, counted, run.skipped, footer=footer, outcomes=run.outcomes), stopped


def _another(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: this one, or one that begins with it."""
    return name if name not in taken else next(one for one in (f"{name}-{number}" for number in count(2)) if one not in taken)


def _header(suite: Suite, client: ClientTarget, options: Options, hello: Hello) -> log.Header:
    return log.Header(
        suite=__version__,
        transcripts=suite.digest,
        target=client.name,
        server_version=" ".join(part for part in (hello.client, hello.version) if part),
        capabilities=_capabilities(hello),
        profile=options.profile,
        role="client",
        arguments=list(options.arguments),
        seed=options.seed,
        slow=options.slow,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _capabilities(hello: Hello) -> dict[str, bool]:
    unknown = sorted(set(hello.capabilities) - set(CLIENT_CAPABILITIES))
    if unknown:
        raise DriverError(
            f"the driver of {hello.client} names unknown capabilities: {', '.join(unknown)}; known: {', '.join(CLIENT_CAPABILITIES)}"
        )
    return {name: name in hello.capabilities for name in CLIENT_CAPABILITIES}
