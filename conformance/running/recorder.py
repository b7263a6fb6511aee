"""Recordings: conversations with real implementations, kept with the suite and judged again without a network.

`recordings/TARGET/REGISTER.jsonl.gz` is an event log with the conversations of one register, in the order of their names;
`client_recordings/client-NAME/` has those of clients.
Of trials, the failures, second attempts and the first ten are kept, with the verdict of all of them.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from conformance import files
from conformance.engine import log
from conformance.engine.capabilities import FLAGS
from conformance.engine.verdict import TrialLog, Verdict
from conformance.judging.applicability import capabilities_of, completed
from conformance.judging.baseline import case_name
from conformance.judging.results import Judged, RunLog, judge_log, read_log
from conformance.names import file_name, is_file_name
from conformance.suite import Suite

HOME = Path(__file__).parents[1] / "recordings"
CLIENT_HOME = HOME.with_name("client_recordings")
SHOWN_TARGET = "apache-pulsar@4.2.4"
"""Whose conversations illustrate the cases; another target stands in where this one has none."""
_TRIALS_KEPT = 10
_MOST_RECORDS = 2_000_000
"""Records of a log that are read: a whole run writes a hundred thousand, and each takes a kilobyte of memory."""


def save(run: RunLog, judged: Judged, home: Path | None = None) -> list[Path]:
    """Write the conversations of a run and their verdicts, one file for each register.

    Conversations of cases that were not part of this run stay in the file.

    Args:
        run: The run.
        judged: What it came to.
        home: Has a folder for each target; None: that of the suite for targets of this kind.

    Returns:
        The files written.
    """
    folder = file_name(run.header.target)
    if not is_file_name(folder):
        raise ValueError(f"{run.header.target!r} can't name a folder of recordings")
    where = (home or (CLIENT_HOME if run.header.role == "client" else HOME)) / folder
    touched = {trial.begin.case for trial in run.trial_logs.values()} | {one.case for one in run.skipped}
    written = []
    for register in sorted({case.partition("/")[0] for case in touched}):
        path = where / f"{register}.jsonl.gz"
        kept = without(load(path), touched) if path.is_file() else RunLog(run.header, {})
        trial_logs = {
            key: trial_log
            for key, trial_log in run.trial_logs.items()
            if _is_of(register, trial_log.begin.case) and _is_kept(trial_log, judged)
        }
        new = RunLog(
            run.header.model_copy(update={"arguments": [], "service_url": ""}),
            dict(sorted({**kept.trial_logs, **trial_logs}.items())),
            sorted([*kept.skipped, *(one for one in run.skipped if _is_of(register, one.case))], key=lambda one: one.case),
            sorted([*kept.results, *(one for one in judged.results if _is_of(register, one.case))], key=case_name),
        )
        _write(path, new)
        written.append(path)
    return written


def accept(suite: Suite, path: Path) -> None:
    """Judge a recording again and store the new verdicts in it: for expectations that were changed on purpose."""
    run = load(path)
    _write(path, replace(run, results=judge_log(suite, run).results))


def _is_of(register: str, case: str) -> bool:
    return case.startswith(f"{register}/")


def _is_kept(trial_log: TrialLog, judged: Judged) -> bool:
    outcome = judged.outcomes.get(trial_log.begin.key)
    passed = outcome is not None and outcome.verdict is Verdict.PASS
    return trial_log.finished is not None and (not passed or trial_log.begin.trial < _TRIALS_KEPT or trial_log.begin.attempt > 0)


def _write(path: Path, run: RunLog) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    trial_logs = (
        record
        for trial_log in run.trial_logs.values()
        for record in (trial_log.begin, *trial_log.events, trial_log.finished or log.Finished(key=trial_log.begin.key, t=0))
    )
    text = "".join(log.dump(record) + "\n" for record in (run.header, *trial_logs, *run.skipped, *run.results, log.Footer(complete=True)))
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def load(path: Path, only: Collection[str] | None = None) -> RunLog:
    """Read a recording or an event log, compressed or not.

    Args:
        path: The file.
        only: Cases; records of other cases are skipped without being parsed. None: all.

    Raises:
        LogError: It can't be read; names file and line. Not if only its last line is cut: whatever wrote it was ended then.
    """
    try:
        data = files.read_log(path)
    except (OSError, zlib.error) as error:
        hint = f" (the log of a run is {path / 'events.jsonl'})" if path.is_dir() else ""
        raise log.LogError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}{hint}") from None
    if data.count(b"\n") > _MOST_RECORDS:
        raise log.LogError(f"{path}: more than {_MOST_RECORDS} records")
    whole, cut = _without_cut_line(data)
    lines: Iterable[bytes] = io.BytesIO(whole)
    return read_log([*log.load(lines if only is None else _lines_of(lines, only), str(path)), *cut], str(path))


def _without_cut_line(data: bytes) -> tuple[bytes, list[log.Footer]]:
    """Return a log without its last line if that is cut, and a footer that says so."""
    begin = data.rfind(b"\n") + 1
    try:
        list(log.load([data[begin:]], ""))
    except log.LogError:
        number = data.count(b"\n") + 1
        return data[:begin], [log.Footer(complete=False, stopped=f"the log is cut in the middle of line {number}")]
    return data, []


def _lines_of(lines: Iterable[bytes], cases: Collection[str]) -> list[bytes]:
    """Return the lines that are about some cases, or about no case."""
    named = re.compile(rb'^\{"record":"\w+","(?:key|case)":"([^"#\[]*)')
    wanted = {case.encode() for case in cases}
    return [line for line in lines if (match := named.match(line)) is None or match[1] in wanted]


def load_target(target: str, home: Path = HOME, only: Collection[str] | None = None) -> RunLog | None:
    """Read all recordings of one target as one log, or only their records of some cases; None if there are none."""
    registers = None if only is None else {case.partition("/")[0] for case in only}
    paths = sorted((home / target).glob("*.jsonl.gz"))
    if not paths:
        return None
    wanted = [path for path in paths if registers is None or path.name.removesuffix(".jsonl.gz") in registers]
    runs = [load(path, only) for path in wanted or paths[:1]]
    capabilities = {name: has for run in runs for name, has in run.header.capabilities.items()}
    if only is not None and {FLAGS[name] for name in FLAGS if name in capabilities} < {*FLAGS.values()}:
        capabilities = capabilities_of(load(paths[0])) | capabilities
    return RunLog(
        runs[0].header.model_copy(update={"capabilities": capabilities}),
        {key: trial_log for run in runs for key, trial_log in run.trial_logs.items()},
        [one for run in runs for one in run.skipped],
        [one for run in runs for one in run.results],
        log.Footer(complete=True),
    )


def load_results(target: str, home: Path = HOME) -> list[log.Result]:
    """Read the verdicts that stand in the recordings of one target, without the conversations; empty if there are none."""
    begin = b'{"record":"result",'
    found = []
    for path in sorted((home / target).glob("*.jsonl.gz")):
        lines = (line for line in files.read_log(path).splitlines(keepends=True) if line.startswith(begin))
        found += [record for record in log.load(lines, str(path)) if isinstance(record, log.Result)]
    return found


def load_completed(suite: Suite, home: Path = HOME) -> list[RunLog]:
    """Read the recordings of each target, completed with the cases that need no recording: see `applicability.completed`."""
    runs = (load_target(target, home) for target in targets(home))
    return [completed(suite, run) for run in runs if run is not None]


def targets(home: Path = HOME) -> list[str]:
    """Return the names of all targets that were recorded."""
    return sorted(path.name for path in home.iterdir() if any(path.glob("*.jsonl.gz"))) if home.is_dir() else []


def files_of(target: str) -> list[Path]:
    """Return the recordings of a broker or a client in the suite; empty if there are none."""
    name = file_name(target)
    return [path for home in (HOME, CLIENT_HOME) if name in targets(home) for path in sorted((home / name).glob("*.jsonl.gz"))]


def stale(suite: Suite, run: RunLog) -> list[str]:
    """Return the cases whose actions have changed since a completed recording was made, and those that it lacks or should not have."""
    recorded = {trial.begin.case for trial in run.trial_logs.values()} | {one.case for one in run.skipped}
    old = {
        trial.begin.case
        for trial in run.trial_logs.values()
        if trial.begin.case not in suite.transcripts or trial.begin.actions != suite.actions_digest(trial.begin.case, trial.begin.cell)
    }
    return sorted(old | {case.id for case in suite.select([], profile=run.header.profile, role=run.header.role) if case.id not in recorded})


def without(run: RunLog, cases: Iterable[str]) -> RunLog:
    """Return the log without some cases."""
    gone = set(cases)
    kept = {key: trial for key, trial in run.trial_logs.items() if trial.begin.case not in gone}
    skipped = [one for one in run.skipped if one.case not in gone]
    return RunLog(run.header, kept, skipped, [one for one in run.results if one.case not in gone], run.footer)
