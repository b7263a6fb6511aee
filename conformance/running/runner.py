"""Runs cases against a target: chooses the cases that apply, starts the target, runs conversations in parallel, writes the log."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from pydantic import BaseModel

from conformance import __version__
from conformance.engine import log
from conformance.engine import model as m
from conformance.engine.program import cells, fresh_names
from conformance.engine.values import Value
from conformance.engine.verdict import RUNS, SAYS_NOTHING, Outcome, TrialLog, always_late
from conformance.judging.applicability import Lack, lack
from conformance.judging.results import RunLog
from conformance.running.beside import BrokenOff, beside
from conformance.running.connection import Allowance
from conformance.running.conversation import NoConnection, Surroundings, TargetLost, TrialRunner, loop_time, watch_lag
from conformance.running.loss import MAY_BE_GONE, Gone, Loss, first_gone, loss
from conformance.running.namespaces import NAMESPACE_PREFIX, Created, create_namespaces, remove_namespaces
from conformance.running.one_broker import Checked, check_one_broker
from conformance.running.owners import behind, owners
from conformance.running.probe import Probed, claimed, is_served, probe, with_declared
from conformance.running.units import Span, Unit, divided, is_slow, stood_still, with_controls
from conformance.running.usual import creates_by_itself, switched_off, unusual, with_usual_policies
from conformance.suite import Suite
from conformance.targets.admin import ADMIN_SECONDS, AdminClient, AdminUnreachable, missing_operations
from conformance.targets.model import Endpoint, SettingsRefused, Target, TargetError
from conformance.targets.operations import CONFIGURATION_PATH
from refimpl.net.virtual_time import VirtualTimeLoop

LONG_ROUNDS = 50
"""A conversation of more answers than this, one after the other, begins first, so that it is not left alone at the end."""
_PLUGIN_KEYS = ("token", "brokerClient")
"""Settings that a broker hands to its plugins and does not list as its own."""
_IN_A_RUN, _MORE_FOR_A_TRIAL = 136 << 20, 1 << 20
"""Bytes for what a target sends in a run, and how many come back with each trial. Trials need 0.4 MB on average."""
_LOTS = 46656
"""How many beginnings of names there are for seeds."""
_LOTS_TRIED = 3
_NAMES_APART = 1 << 16
"""Fresh names of cases that run in another process are counted from here, so that no name is in the log twice."""


@dataclass(frozen=True)
class Options:
    """The user's options."""

    select: Sequence[str] = ()
    level: m.Level | None = None
    profile: str = "default"
    slow: float = 1.0
    trials: int | None = None
    repeat: int = 1
    seed: int = 0
    jobs: int | None = None
    """Conversations at a time; None: as many as suit the target."""
    arguments: Sequence[str] = ()
    claims: Sequence[str] = ()
    """Capabilities that the user declares for the target."""
    like: RunLog | None = None
    """An earlier run whose names and seeds are used again, so that conversations can be compared byte for byte."""


class Watcher(Protocol):
    """Is notified of the progress of a run, for instance to show it on the terminal."""

    def note(self, text: str) -> None:
        """Report that something slow has begun."""

    def total(self, conversations: int) -> None:
        """Report how many conversations there will be."""

    def ended(self, case: m.Transcript, outcome: Outcome) -> None:
        """Report that a conversation has ended."""


class Silent:
    """A watcher that does nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def total(self, conversations: int) -> None:
        """Do nothing."""

    def ended(self, case: m.Transcript, outcome: Outcome) -> None:
        """Do nothing."""


@dataclass
class _Part:
    """Cases that run on one target in one event loop, and what came of them."""

    suite: Suite
    target: Target
    options: Options
    write: Callable[[BaseModel], None]
    watcher: Watcher
    header: log.Header | None = None
    names: int = 0
    expected: int = 0
    apart: int = 0
    """Of these, how many another process holds."""
    started: float = 0.0
    missing: frozenset[str] | None = None
    allowance: Allowance = field(default_factory=lambda: Allowance(_IN_A_RUN))
    in_use: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    trial_logs: dict[str, TrialLog] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    skipped: list[log.Skipped] = field(default_factory=list)
    served: set[str] = field(default_factory=set)
    """Conversations that failed, and behind which the target still took a connection."""
    lot: str = ""
    """What the names of this run begin with, behind their prefix."""
    known_late: set[str] = field(default_factory=set)
    never_came: set[str] = field(default_factory=set)
    checked: Checked = field(default_factory=Checked)
    """What came of the look whether both addresses of the target belong together."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """The brokers of a cluster to which cases without a namespace of their own were sent: they are held there when they are repeated."""

    def skip(self, case: m.Transcript, why: Lack, only: Mapping[str, Value] | None = None) -> None:
        skipped = cells(case) if only is None else [only]
        self.expected -= self._trials(case) * len(skipped)
        self.watcher.total(self.expected)
        for cell in skipped:
            record = log.Skipped(case=case.id, cell=dict(cell), verdict=why[0], reason=why[1])
            self.skipped.append(record)
            self.write(record)

    def add(self, played: _Played) -> str | None:
        """Add what ran in another process; return why it ended early, None if it did not."""
        for record in played.records:
            self.write(record)
        self.trial_logs |= played.trial_logs
        self.outcomes |= played.outcomes
        self.skipped += played.skipped
        self.expected += sum("~" not in key for key in played.outcomes) - self.apart
        self.watcher.total(self.expected)
        for key, outcome in played.outcomes.items():
            self.watcher.ended(self.suite.transcripts[played.trial_logs[key].begin.case], outcome)
        return played.stopped

    def __post_init__(self) -> None:
        self.lot = f"{self.options.seed % _LOTS:x}"

    async def run(self, cases: list[m.Transcript]) -> None:
        self.started = loop_time()
        self.allowance.room = _IN_A_RUN * self.options.repeat
        probed = asyncio.Event()
        groups: dict[tuple[tuple[str, str], ...], list[m.Transcript]] = {(): []}
        for case in cases:
            groups.setdefault(tuple(sorted(case.target_config.items())), []).append(case)
        self.expected += self.planned(cases)
        self.watcher.total(self.expected)
        room = asyncio.Semaphore(self.target.starts_at_once)

        async def serve(config: dict[str, str], members: list[m.Transcript]) -> None:
            if config:
                await probed.wait()
                members = [case for case in members if self._is_applicable(case)]
            if config and not members:
                return
            try:
                async with room, self._serving(config, probed) as (endpoint, admin):
                    await self._group(endpoint, admin, members)
            except SettingsRefused as error:
                for case in members:
                    self.skip(case, ("UNTESTABLE", str(error)))

        await _all(serve(dict(config), members) for config, members in groups.items())

    @contextlib.asynccontextmanager
    async def _serving(self, config: dict[str, str], probed: asyncio.Event) -> AsyncIterator[tuple[Endpoint, AdminClient | None]]:
        """Start the target. Its capabilities are probed once, with its usual settings, which come first."""
        if self.target.startable:
            named = [*list(config)[:2], *(["more"] if len(config) > 2 else [])]
            self.watcher.note(f"starting {self.target.name}" + (f" with its own {', '.join(named)}" if config else ""))
        async with self.target.run(config, progress=self.watcher.note) as reached, contextlib.AsyncExitStack() as stack:
            found = None if config else await probe(replace(reached, capabilities={}))  # before anything else: it sees the first connection
            endpoint = await with_usual_policies(claimed(await behind(reached), self.options.claims), config)
            if found is not None:
                if endpoint.proxy_to is None:
                    found = replace(found, capabilities=with_declared(endpoint, found.capabilities))
                else:  # what was found out is what the proxy itself can do
                    found = await probe(endpoint)
                if found.capabilities["admin"] and not self.target.startable:
                    async with AdminClient(endpoint) as client:
                        self.checked = await check_one_broker(endpoint, client)
                self.header = self._header(endpoint, found)
                self.write(self.header)
                probed.set()
            await probed.wait()
            assert self.header is not None
            patience = ADMIN_SECONDS * max(self.options.slow, 1.0)
            asks = self.header.capabilities["admin"]
            admin = await stack.enter_async_context(AdminClient(endpoint, seconds=patience)) if asks else None
            if admin is not None and self.missing is None:
                self.missing = await missing_operations(admin)
            yield endpoint, admin

    def _header(self, endpoint: Endpoint, probed: Probed) -> log.Header:
        return log.Header(
            suite=__version__,
            transcripts=self.suite.digest,
            target=endpoint.name,
            release=endpoint.release,
            service_url=endpoint.service_url,
            server_version=probed.server_version,
            capabilities={**probed.capabilities, "config": self.target.startable},
            namespace_policies=dict(endpoint.namespace_policies),
            profile=self.options.profile,
            arguments=list(self.options.arguments),
            seed=self.options.seed,
            slow=self.options.slow,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    async def _group(self, endpoint: Endpoint, admin: AdminClient | None, members: list[m.Transcript]) -> None:
        units, off = [], switched_off(endpoint.listed_config)
        for case in members:
            reason = self._cannot_run(case, endpoint)
            if reason is not None:
                self.skip(case, reason)
                continue
            for cell in cells(case):
                if off and (keys := [off[domain] for domain in sorted(off.keys() & self.suite.domains(case.id, cell))]):
                    self.skip(case, ("UNTESTABLE", f"the target has {keys[0]}=false, and the case names such topics"), cell)
                    continue
                units += [Unit(case, cell, trial) for trial in range(self._trials(case))]
        found, made = await owners(endpoint, admin), set() if self.checked.namespace is None else {self.checked.namespace}
        around = Surroundings(endpoint, admin, self.write, self.allowance, self.started, self.options.slow, found, made)
        active: set[TrialRunner] = set()
        room = asyncio.Semaphore(self.options.jobs or self.target.conversations_at_once)
        outcomes: list[tuple[Unit, Outcome]] = []
        spans: dict[str, Span] = {}

        async def converse(unit: Unit) -> None:
            async with contextlib.nullcontext() if is_slow(unit.case) else room:
                begun = around.now()
                outcomes.append((unit, await self._converse(unit, around, active)))
                spans[unit.key] = begun, around.now()

        lag = asyncio.create_task(watch_lag(active))
        try:
            stalls: list[Span] = []
            lacking: list[Unit] = []
            await _all(converse(unit) for unit in sorted(units, key=lambda unit: not (is_slow(unit.case) or self._is_long(unit))))
            for unit, outcome in outcomes:
                runs = [outcome]
                while len(runs) < RUNS and self._is_open(unit, runs[-1]):
                    runs.append(await self._converse(replace(unit, attempt=len(runs)), around, active))
                self.known_late |= always_late(runs).keys()
                if len(runs) > 1 and (missing := runs[-1].missing) is not None:
                    self.never_came.add(missing)
                if outcome.missing is not None and runs[-1].missing is None:
                    stalls.append(spans[unit.key])
                elif outcome.got_nothing and len(runs) == 1:
                    lacking.append(unit)
            for unit in lacking:
                if stood_still(spans[unit.key], stalls):
                    await self._converse(replace(unit, attempt=1), around, active)
        except Gone:
            if made:
                print("namespaces are left over: `doctor --clean` removes them when the broker is back", file=sys.stderr)
            made.clear()
            raise
        finally:
            lag.cancel()
            if admin is not None and not endpoint.thrown_away:  # not earlier: a deletion can fail the first producer of another
                await remove_namespaces(admin, made, self.target.conversations_at_once)

    def _is_open(self, unit: Unit, outcome: Outcome) -> bool:
        """Tell whether a conversation is to be repeated: it says nothing, or what came late, or not at all, is not known for that."""
        late = set(outcome.late) - (self.known_late - set(unit.case.clauses))
        return outcome.verdict in SAYS_NOTHING or bool(late) or outcome.missing not in {None, *self.never_came}

    async def _converse(self, unit: Unit, around: Surroundings, active: set[TrialRunner]) -> Outcome:
        endpoint, earlier = around.endpoint, self.options.like.trial_logs.get(unit.key) if self.options.like else None
        self.allowance.room = min(self.allowance.room + _MORE_FOR_A_TRIAL, _IN_A_RUN * self.options.repeat)
        async with contextlib.AsyncExitStack() as alone:
            if earlier is not None and around.admin is not None:  # recordings of several runs have names in common
                for name in sorted(set(earlier.begin.fresh.values())):
                    await alone.enter_async_context(self.in_use[name])
            begun = around.now()
            try:
                fresh, created = await self._own_names(unit, around, earlier)
            except AdminUnreachable as error:
                problem = await is_served(endpoint)
                raise Gone(unit.key, problem or error, "the broker" if problem else "the admin interface") from None
            conversation = self._conversation(unit, around, fresh, begun, earlier)
            active.add(conversation)
            try:
                refused, broken = created.refused, None
                if around.owners is not None and not refused:
                    try:
                        # not a race, which looks at once
                        beside = bool(created.names) and conversation.at_any_broker and unit.case.trials is None
                        named = beside or "cluster" in unit.case.requires
                        owner = await around.owners.of(created.names, self.elsewhere.get(unit.case.id), named=named)
                        broker = await around.owners.other(owner) if beside else owner
                        conversation.hold_at(broker, owner, may_move=not created.names)
                    except TargetError as error:
                        refused, broken = str(error), error.clause
                if refused:
                    conversation.give_up(refused, broken)
                else:
                    await conversation.run()
            except NoConnection as error:
                raise await first_gone(unit.key, conversation.brokers, endpoint) or error from None
            finally:
                active.discard(conversation)
        if conversation.look_ups.elsewhere is not None:
            self.elsewhere[unit.case.id] = conversation.look_ups.elsewhere
        outcome = self.outcomes[unit.key] = conversation.outcome(self.suite.levels)
        if outcome.diagnosis is not None and outcome.diagnosis.kind in MAY_BE_GONE:
            gone = await first_gone(unit.key, conversation.brokers, endpoint)
            if gone is not None:
                raise gone
            self.served.add(unit.key)
        self.watcher.ended(unit.case, outcome)
        return outcome

    def _conversation(self, unit: Unit, around: Surroundings, fresh: dict[str, str], begun: float, earlier: TrialLog | None) -> TrialRunner:
        begin = log.TrialStarted(
            key=unit.key,
            case=unit.case.id,
            cell=dict(unit.cell),
            trial=unit.trial,
            attempt=unit.attempt,
            actions=self.suite.actions_digest(unit.case.id, unit.cell),
            fresh=fresh,
            seed=random.Random(f"{self.options.seed} {unit.key}").randrange(1 << 31) if earlier is None else earlier.begin.seed,
            virtual=self.target.virtual_time,
            broker=None if around.endpoint.proxy_to is None else around.endpoint.broker,
            t=begun,
        )
        conversation = TrialRunner(self.suite.program(begin, around.endpoint.release), begin, around)
        self.trial_logs[unit.key] = conversation.trial_log
        return conversation

    async def _own_names(self, unit: Unit, around: Surroundings, earlier: TrialLog | None) -> tuple[dict[str, str], Created]:
        """Choose the names of a conversation and create its namespaces.

        If another run has them, the names of this run begin otherwise from now on.
        """
        kinds = fresh_names(unit.case)
        bundles = None if around.owners is None else 1
        for _ in range(_LOTS_TRIED):
            lot = self.lot
            fresh = dict(earlier.begin.fresh) if earlier is not None else {name: self._fresh_name(kind) for name, kind in kinds.items()}
            namespaces = [fresh[name] for name, kind in kinds.items() if kind == "namespace"]
            if earlier is not None and around.admin is not None:
                await remove_namespaces(around.admin, around.created & set(namespaces), 1)
            try:
                created = await create_namespaces(around.admin, namespaces, around.created, bundles=bundles)
            except AdminUnreachable:  # once it may be too busy
                if await is_served(around.endpoint) is not None:
                    raise
                created = await create_namespaces(around.admin, namespaces, around.created, bundles=bundles)
            if not created.taken or earlier is not None:
                break
            if self.lot == lot:
                self.lot = f"{self.options.seed % _LOTS:x}{secrets.token_hex(2)}"
        return fresh, created

    def _is_long(self, unit: Unit) -> bool:
        return self.suite.rounds(unit.case.id, unit.cell) > LONG_ROUNDS

    def planned(self, cases: Iterable[m.Transcript]) -> int:
        """Count the conversations of cases, without repetitions."""
        return sum(self._trials(case) * len(cells(case)) for case in cases)

    def _trials(self, case: m.Transcript) -> int:
        count = 1 if case.trials is None else max(case.trials.count, self.options.trials or 0)
        return count * self.options.repeat

    def _fresh_name(self, kind: str) -> str:
        self.names += 1
        number = f"{self.lot}-{self.names:x}"
        return f"n{number}" if kind == "name" else f"public/{NAMESPACE_PREFIX}{number}"

    def _is_applicable(self, case: m.Transcript) -> bool:
        """Skip a case that does not apply to this target before a target is started with its settings."""
        assert self.header is not None
        lacking = lack(case, self.header.capabilities)
        if lacking is None or lacking[0] != "NOT-APPLICABLE":
            return True
        self.skip(case, lacking)
        return False

    def _cannot_run(self, case: m.Transcript, endpoint: Endpoint) -> Lack | None:
        assert self.header is not None
        has = self.header.capabilities
        kinds = set(fresh_names(case).values())
        settled = {"config": True} if case.target_config else {}  # what is served here has its settings
        if "namespace" in kinds and creates_by_itself(endpoint.listed_config, endpoint.namespace_policies):
            settled["auto-creation"] = True
        lacking = lack(case, {**has, **settled})
        if lacking is not None:
            return lacking
        if (setting := unusual(case, endpoint.listed_config)) is not None:
            return "UNTESTABLE", setting
        if "namespace" in kinds and not has["admin"]:
            return "UNTESTABLE", "needs a namespace of its own: give an admin URL"
        creates = {"create_namespace"} if "namespace" in kinds else set()
        refused = self.checked.missing
        unknown = refused.keys() | (self.missing or set())
        missing = (self.suite.admin_calls(case.id) | creates) & unknown if unknown else set()
        if missing:
            named = (f"{name}: it answers {refused[name]}" if name in refused else name for name in sorted(missing))
            return "UNTESTABLE", f"the admin interface of the target has no {', '.join(named)}"
        unconfirmed = {key for key in endpoint.unconfirmed_config & set(case.target_config) if not key.startswith(_PLUGIN_KEYS)}
        if unconfirmed:
            names = ", ".join(sorted(unconfirmed))
            return (
                "NOT-APPLICABLE",
                f"the target has no setting {names}; if it has, its admin interface must list it in {CONFIGURATION_PATH}",
            )
        return None


async def run_suite(
    suite: Suite, target: Target, options: Options, write: Callable[[BaseModel], None], watcher: Watcher
) -> tuple[RunLog, str | None]:
    """Run the selected cases.

    Args:
        suite: All cases.
        target: The target; it is started for every group of settings that cases ask for, and always stopped.
        options: The user's options.
        write: Called with each record of the log as it is made.
        watcher: Is notified of the progress.

    Returns:
        The log so far, and why the run ended early (None if it did not).

    Raises:
        TargetError: The target can't be used at all.
    """
    cases = with_controls(suite, suite.select(options.select, options.level, options.profile, "broker"))
    at_once, apart = divided(cases, target)
    part = _Part(suite, target, options, write, watcher)
    stopped: str | None = None
    lost = Loss()
    try:
        async with contextlib.AsyncExitStack() as stack:
            rest = None
            if apart:
                watcher.note(f"{len(apart)} transcripts run on the same broker inside a second process, in virtual time")
                rest = await stack.enter_async_context(beside(lambda: _in_virtual_time(part, apart)))
                part.expected = part.apart = part.planned(apart)
            await part.run(at_once)
            if rest is not None:
                stopped = part.add(await rest())
    except Gone as error:
        lost = loss(part.trial_logs, part.outcomes, part.served, error)
        stopped = lost.text
    except TargetLost as error:
        stopped = f"the target is lost: {error}"
    except asyncio.CancelledError:
        stopped = "interrupted"
    except (TargetError, BrokenOff) as error:
        if part.header is None:
            raise
        stopped = str(error)
    if part.header is None:
        raise TargetError(stopped or "the target was never ready")
    footer = log.Footer(complete=stopped is None, stopped=stopped, in_flight=list(lost.in_flight))
    counted = {key: one for key, one in part.trial_logs.items() if key not in lost.in_flight}
    return RunLog(part.header, counted, part.skipped, footer=footer, outcomes=part.outcomes), stopped


@dataclass(frozen=True)
class _Played:
    """What came of cases that ran in another process."""

    records: list[BaseModel]
    trial_logs: dict[str, TrialLog]
    outcomes: dict[str, Outcome]
    skipped: list[log.Skipped]
    stopped: str | None


def _in_virtual_time(original: _Part, cases: list[m.Transcript]) -> _Played:
    """Run cases on the same broker inside this process, in virtual time."""
    assert original.target.in_virtual_time is not None
    records: list[BaseModel] = []
    part = _Part(original.suite, original.target.in_virtual_time, original.options, records.append, Silent(), names=_NAMES_APART)
    stopped = None
    try:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(part.run(cases))
    except (TargetLost, TargetError) as error:
        stopped = f"in virtual time: {error}"
    records = [record for record in records if not isinstance(record, log.Header)]
    return _Played(records, part.trial_logs, part.outcomes, part.skipped, stopped)


async def _all(work: Iterable[Coroutine[object, object, None]]) -> None:
    """Run all at the same time; the first error stops the others."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for one in work:
                tasks.create_task(one)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
