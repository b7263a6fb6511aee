"""The command line."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import BaseModel
from rich.console import Console

from conformance import __version__
from conformance.engine import log
from conformance.engine import model as m
from conformance.engine.source import SourceProblem
from conformance.judging.baseline import HOME as BASELINES
from conformance.judging.baseline import load_baseline, unknown_cases
from conformance.judging.results import EXIT_COULD_NOT_RUN, EXIT_USAGE, RunLog, judge_log
from conformance.report import badge, html, junit, matrix, show, terminal
from conformance.report.model import Report, build_report
from conformance.running import recorder
from conformance.running.doctor import examine
from conformance.running.runner import Options, run_suite
from conformance.suite import Suite, load_suite
from conformance.targets import TargetError, parse_target
from conformance.targets.serve import broker
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals.profiles import profile_name

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help="Conformance suite for the Apache Pulsar wire protocol.")
baseline_app = typer.Typer(no_args_is_help=True, help="Known failures of a target.")
app.add_typer(baseline_app, name="baseline")
app.command()(broker)

TargetArgument = Annotated[
    str, typer.Argument(help="reference, in-process, apache-pulsar@VERSION, pulsar://host:port, or a target file (.toml)")
]
AdminOption = Annotated[str | None, typer.Option("--admin-url", help="base URL of the admin HTTP interface")]
TokenOption = Annotated[Path | None, typer.Option(help="file with a token for CONNECT and the admin interface")]
TrustOption = Annotated[Path | None, typer.Option(help="PEM file of the authorities to trust")]
JsonOption = Annotated[bool, typer.Option("--json", help="print JSON")]
SelectOption = Annotated[list[str] | None, typer.Option("--select", help="glob on case or clause ids; !GLOB leaves out; may be repeated")]

DEFAULT_TARGET = "reference"
SHOWN_TARGET = "apache-pulsar@4.2.4"
out = Console()
err = Console(stderr=True)


def _stop(code: int, text: str) -> NoReturn:
    err.print(text, style="bold red", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(code)


def _suite() -> Suite:
    try:
        return load_suite()
    except SourceProblem as error:
        _stop(EXIT_USAGE, str(error))


@app.command()
def run(
    target: TargetArgument = DEFAULT_TARGET,
    admin_url: AdminOption = None,
    token_file: TokenOption = None,
    tls_trust_certs: TrustOption = None,
    select: SelectOption = None,
    level: Annotated[str | None, typer.Option(help="only cases with a clause of this level: MUST, SHOULD or MAY")] = None,
    profile: Annotated[
        str | None, typer.Option(help="default (what real peers speak) or as-written (the texts); what the target speaks by default")
    ] = None,
    baseline: Annotated[Path | None, typer.Option(help="known failures; the one of the target by default")] = None,
    strict: Annotated[bool, typer.Option(help="warnings count as failures")] = False,
    slow: Annotated[float, typer.Option(min=0.1, help="factor on all deadlines")] = 1.0,
    trials: Annotated[int | None, typer.Option(min=1, help="at least so many trials of a case that has trials")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="run every case so many times: measures a flake rate")] = 1,
    seed: Annotated[int | None, typer.Option(help="for random delays and fresh names; from the clock by default")] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="conversations at a time")] = 6,
    record: Annotated[bool, typer.Option(help="keep the conversations as the recordings of this target")] = False,
    report: Annotated[Path, typer.Option(help="folder for events.jsonl, report.html, junit.xml and badge.json")] = Path("reports"),
) -> None:
    """Judge a target: run the cases, leave events and reports, exit 0 if it conforms."""
    suite = _suite()
    try:
        chosen = parse_target(target, admin_url=admin_url, token_file=token_file, tls_trust_certs=tls_trust_certs)
        known = load_baseline(chosen.name, baseline)
    except (TargetError, SourceProblem) as error:
        _stop(EXIT_USAGE, str(error))
    options = Options(
        select=select or (),
        level=_level(level),
        profile=_one_of("--profile", profile_name(profile or chosen.profile), ("default", "as-written")),
        slow=slow,
        trials=trials,
        repeat=repeat,
        seed=seed if seed is not None else int(time.time()) % (1 << 31),
        jobs=jobs,
        arguments=sys.argv[1:],
    )
    if not suite.select(options.select, options.level, options.profile):
        _stop(EXIT_USAGE, f"nothing is selected by {' '.join(options.select) or 'these options'}: `list` shows the cases")
    progress = terminal.Progress(out)
    with _events(report) as write:
        try:
            with progress, asyncio.Runner(loop_factory=VirtualTimeLoop if chosen.virtual_time else None) as runner:
                finished, stopped = runner.run(_interruptible(run_suite(suite, chosen, options, write, progress)))
        except TargetError as error:
            _stop(EXIT_COULD_NOT_RUN, str(error))
        judged = build_report(suite, finished, known, date.today(), strict=strict)
        for result in judged.results:
            write(result)
        seconds = max((trial_log.finished.t for trial_log in finished.trial_logs.values() if trial_log.finished), default=0.0)
        write(log.Footer(complete=stopped is None, stopped=stopped, seconds=seconds, counts=dict(judged.case_counts)))
    _write_reports(judged, report)
    if record:
        for path in recorder.save(finished, judge_log(suite, finished)):
            out.print(f"recorded {path.name} of {finished.header.target}", highlight=False)
    terminal.render_text(judged, out, report)
    raise typer.Exit(judged.exit_code)


async def _interruptible(work: Any) -> Any:
    """Run to the end, or to the first SIGINT or SIGTERM: then what was measured is kept and everything is stopped."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


@contextmanager
def _events(folder: Path) -> Iterator[Any]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "events.jsonl").open("w", encoding="utf-8") as file:

            def write(record: BaseModel) -> None:
                file.write(log.dump(record) + "\n")
                file.flush()

            yield write
    except OSError as error:
        _stop(
            EXIT_COULD_NOT_RUN, f"{folder / 'events.jsonl'}: {error.strerror or error}: free some space or choose another --report folder"
        )


def _write_reports(report: Report, folder: Path) -> None:
    try:
        (folder / "report.html").write_text(html.render_html(report), encoding="utf-8")
        (folder / "junit.xml").write_text(junit.render_junit(report), encoding="utf-8")
        (folder / "badge.json").write_text(json.dumps(badge.badge(report)), encoding="utf-8")
    except OSError as error:
        _stop(EXIT_COULD_NOT_RUN, f"{folder}: {error.strerror or error}: the events are kept, `report` makes the rest again")


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        _stop(EXIT_USAGE, f"{option} is one of {', '.join(allowed)}; not {value!r}")
    return value


def _level(value: str | None) -> m.Level | None:
    return None if value is None else _one_of("--level", value, ("MUST", "SHOULD", "MAY"))  # type: ignore[return-value]


@app.command("list")
def list_(
    select: SelectOption = None,
    clauses: Annotated[bool, typer.Option(help="list clauses instead of cases")] = False,
    as_json: JsonOption = False,
) -> None:
    """List cases, or clauses with the cases that test them."""
    suite = _suite()
    if clauses:
        rows = [
            {"clause": name, "level": clause.level, "state": _state(clause), "cases": suite.cases_of[name], "text": clause.text}
            for name, clause in suite.clauses.items()
        ]
    else:
        rows = [{"case": case.id, "title": case.title, "clauses": case.clauses} for case in suite.select(select or ())]
    if as_json:
        out.print_json(json.dumps(rows))
        return
    for row in rows:
        name, text = row.get("case") or row["clause"], row.get("title") or f"{row['level']} {row['state']}: {row['text']}"
        out.print(f"{name}  [dim]{text}[/dim]", highlight=False, soft_wrap=True)
    out.print(f"{len(rows)} {'clauses' if clauses else 'cases'}", highlight=False)


def _state(clause: m.Clause) -> str:
    return "excluded" if clause.excluded else "observed" if clause.observed_by else "tested"


@app.command("show")
def show_(
    case: Annotated[str, typer.Argument(help="case id, with its cell in brackets if it has cells")],
    form: Annotated[str, typer.Option("--as", help="line, hex or sequence")] = "line",
    target: Annotated[str | None, typer.Option(help="whose recording to show")] = None,
) -> None:
    """Show a case: as line notation, annotated hexadecimal or sequence diagram; recorded if there is a recording."""
    _one_of("--as", form, ("line", "hex", "sequence"))
    suite = _suite()
    if case.partition("[")[0] not in suite.transcripts:
        _stop(EXIT_USAGE, f"there is no case {case}: `list` shows them")
    names = [target] if target else sorted(recorder.targets(), key=lambda name: name != SHOWN_TARGET)
    recorded = next(filter(None, map(recorder.load_target, names)), None)
    try:
        print(show.show_case(suite, case, form, recorded))
    except KeyError as error:
        _stop(EXIT_USAGE, str(error.args[0]))


@app.command()
def explain(clause: Annotated[str, typer.Argument(help="clause id")]) -> None:
    """Explain a clause: what must hold, why, where it comes from, which cases test it, who keeps it."""
    suite = _suite()
    if clause not in suite.clauses:
        _stop(EXIT_USAGE, f"there is no clause {clause}: `list --clauses` shows them")
    reports = [_report_of(suite, run) for run in recorder.load_completed(suite)]
    print(show.explain_clause(suite, clause, reports))


def _report_of(suite: Suite, run: RunLog, baseline: Path | None = None, *, strict: bool = False) -> Report:
    return build_report(suite, run, load_baseline(run.header.target, baseline), date.today(), strict=strict)


def _load(path: Path) -> RunLog:
    try:
        return recorder.load(path)
    except log.LogError as error:
        _stop(EXIT_USAGE, str(error))


@app.command()
def judge(
    recordings: Annotated[
        list[Path] | None, typer.Argument(help="recordings or event logs; all recordings of the suite by default")
    ] = None,
    accept: Annotated[bool, typer.Option(help="keep the new verdicts in the recordings")] = False,
    as_json: JsonOption = False,
) -> None:
    """Judge recordings again, without a network."""
    suite = _suite()
    for path in sorted(recorder.HOME.glob("*/*.jsonl.gz")) if accept else ():
        recorder.accept(suite, path)
    runs = [_load(path) for path in recordings or ()] or recorder.load_completed(suite)
    if not runs:
        _stop(EXIT_USAGE, "there is nothing to judge: no recordings")
    reports = []
    for run in runs:
        old = [] if recordings else recorder.stale(suite, run)
        for name in old:
            err.print(f"stale: {name} on {run.header.target}: make recordings TARGET={run.header.target}", highlight=False, markup=False)
        reports.append(_report_of(suite, recorder.without(run, old)))
    if as_json:
        out.print_json(json.dumps([badge.to_json(report) for report in reports]))
    else:
        for report in reports:
            terminal.render_text(report, out)
    raise typer.Exit(max(report.exit_code for report in reports))


@app.command()
def report(
    events: Annotated[Path, typer.Argument(help="events.jsonl of a run, or a recording")],
    form: Annotated[str, typer.Option("--format", help="text, junit, html, json or badge")] = "text",
    baseline: Annotated[Path | None, typer.Option(help="known failures; the one of the target by default")] = None,
) -> None:
    """Render a log again; a truncated one is judged as far as it goes."""
    _one_of("--format", form, ("text", "junit", "html", "json", "badge"))
    suite = _suite()
    made = _report_of(suite, _load(events), baseline)
    if form == "text":
        terminal.render_text(made, out)
    else:
        renderers: dict[str, Callable[[Report], str]] = {
            "junit": junit.render_junit,
            "html": html.render_html,
            "json": lambda one: json.dumps(badge.to_json(one), indent=2),
            "badge": lambda one: json.dumps(badge.badge(one)),
        }
        print(renderers[form](made))
    raise typer.Exit(made.exit_code)


@app.command("matrix")
def matrix_(
    events: Annotated[list[Path] | None, typer.Argument(help="event logs; all recordings of the suite by default")] = None,
    form: Annotated[str, typer.Option("--format", help="text, html or json")] = "text",
) -> None:
    """Set several implementations side by side, clause by clause."""
    _one_of("--format", form, ("text", "html", "json"))
    suite = _suite()
    runs = [_load(path) for path in events or ()] or recorder.load_completed(suite)
    reports = [_report_of(suite, run) for run in runs]
    if form == "text":
        print(matrix.render_matrix_text(reports))
    elif form == "html":
        print(matrix.render_matrix_html(reports))
    else:
        print(json.dumps(matrix.matrix_json(reports), indent=2))


@baseline_app.command("write")
def baseline_write(events: Annotated[Path, typer.Argument(help="events.jsonl of a run")], reason: Annotated[str, typer.Option()]) -> None:
    """Write the failures of a run as a new baseline, all with the same reason: edit the reasons afterwards."""
    suite = _suite()
    made = build_report(suite, _load(events), m.Baseline(format=1, target="none"), date.today())
    print(show.baseline_text(made, reason, datetime.now(UTC).date()))


@baseline_app.command("check")
def baseline_check() -> None:
    """Check every baseline of the suite against its cases and its recordings."""
    suite = _suite()
    problems = []
    for path in sorted(BASELINES.glob("*.yaml")):
        try:
            known = load_baseline(path.stem, path)
        except SourceProblem as error:
            problems += error.problems
            continue
        problems += [f"{path.name}: there is no case {name}" for name in unknown_cases(known, suite.transcripts)]
        recorded = recorder.load_target(path.stem)
        if recorded is not None:
            problems += [f"{path.name}: {line}" for line in _report_of(suite, recorded).stale]
    if problems:
        _stop(EXIT_USAGE, "\n".join(problems))
    out.print("every entry of every baseline explains a failure")


@app.command()
def doctor(
    target: TargetArgument,
    admin_url: AdminOption = None,
    token_file: TokenOption = None,
    tls_trust_certs: TrustOption = None,
    clean: Annotated[bool, typer.Option(help="remove namespaces that interrupted runs left over")] = False,
) -> None:
    """Check a target for what would spoil a run, and remove leftovers."""
    try:
        chosen = parse_target(target, admin_url=admin_url, token_file=token_file, tls_trust_certs=tls_trust_certs)
        findings = asyncio.run(examine(chosen, clean=clean))
    except TargetError as error:
        _stop(EXIT_COULD_NOT_RUN, str(error))
    for finding in findings:
        out.print(f"{'ok  ' if finding.good else 'look'}  {finding.text}", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(0 if all(finding.good for finding in findings) else 1)


@app.command()
def schema(kind: Annotated[str, typer.Argument(help="transcript, fragment, register, baseline or log")]) -> None:
    """Print the JSON Schema of a file format."""
    kinds: dict[str, Any] = {"transcript": m.Transcript, "fragment": m.Fragment, "register": m.Register, "baseline": m.Baseline}
    _one_of("KIND", kind, (*kinds, "log"))
    print(json.dumps(log.json_schema() if kind == "log" else kinds[kind].model_json_schema(), indent=2))


@app.command()
def version() -> None:
    """Print the version of the suite."""
    print(__version__)


if __name__ == "__main__":
    app()
