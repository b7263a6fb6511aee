"""The command line: commands and their options. Arguments are checked here, before anything heavy is imported or loaded."""

from __future__ import annotations

import errno
import gc
import json
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conformance import __version__, names
from conformance.commands.arguments import check_claims, check_globs, check_id, check_manual, check_profile, client_of, target_of
from conformance.commands.group import Commands
from conformance.console import check_choice, out, stop
from conformance.exit_codes import EXIT_COULD_NOT_RUN, EXIT_USAGE
from conformance.interruption import ending_soon
from conformance.options import (
    ClaimOption,
    FilterOption,
    JsonOption,
    JudgeOption,
    Reach,
    SelectOption,
    TargetArgument,
    Tls,
    VerboseOption,
    given,
    shared,
)

if TYPE_CHECKING:
    from conformance.running.doctor import Finding


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Conformance suite for the Apache Pulsar wire protocol.",
)
baseline_app = typer.Typer(no_args_is_help=True, help="Write and check baselines: known failures of a target.")
app.add_typer(baseline_app, name="baseline")
driver_app = typer.Typer(no_args_is_help=True, help="Check drivers: programs by which the suite uses a client.")
app.add_typer(driver_app, name="driver")

DEFAULT_TARGET = "reference"
LEVELS = ("MUST", "SHOULD", "MAY")
_NEW_OBJECTS = 50_000
"""Between two collections of garbage: commands keep the suite, and a run its log, so that many collections find nothing."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def main(
    wanted: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")] = False,  # noqa: ARG001
) -> None:
    """Conformance suite for the Apache Pulsar wire protocol."""
    gc.set_threshold(_NEW_OBJECTS)


@app.command()
@shared
def run(
    reach: Reach,
    tls: Tls,
    target: TargetArgument = DEFAULT_TARGET,
    claim: ClaimOption = None,
    select: SelectOption = None,
    case: Annotated[list[Path] | None, typer.Option(help="a transcript outside the suite, run alone; may be repeated")] = None,
    failed_in: Annotated[
        Path | None, typer.Option(help="report folder of a run: only the cases that failed there, or could not be judged")
    ] = None,
    level: Annotated[str | None, typer.Option(help="only cases with a clause of this level: MUST, SHOULD or MAY")] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="default: what real peers speak; as-written: what the texts say; if not given, what the target speaks"),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="file of known failures, or the target whose file in the suite it is; if not given, the one of this target"),
    ] = None,
    strict: Annotated[bool, typer.Option(help="warnings count as failures")] = False,
    slow: Annotated[float, typer.Option(min=0.1, help="multiply all deadlines by this, for a slow machine")] = 1.0,
    trials: Annotated[int | None, typer.Option(min=1, help="try each case that depends on timing at least so many times")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="run every case so many times, to see how often its result changes")] = 1,
    seed: Annotated[
        int | None, typer.Option(help="number that random delays and fresh names are made from; if not given, a new one")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "-j", "--jobs", min=1, help="conversations at a time; if not given, 6, 24 on the reference and with the driver of a client"
        ),
    ] = None,
    patience: Annotated[
        float | None, typer.Option(min=0.1, help="seconds that a person has for each step of client:manual; 300 by default")
    ] = None,
    record: Annotated[bool, typer.Option(help="keep the conversations as the recordings of this target")] = False,
    report: Annotated[Path, typer.Option(help="folder for report.html, results.json, junit.xml, badge.json and events.jsonl")] = Path(
        "reports"
    ),
    verbose: VerboseOption = False,
) -> None:
    """Judge a broker or a client: run the cases, leave events and reports, exit 0 if it conforms."""
    if level is not None:
        check_choice("--level", level, LEVELS)
    profile = None if profile is None else check_profile(profile)
    if failed_in is not None and select:
        stop(EXIT_USAGE, "--failed-in selects the cases: leave out --select")
    check_globs(select or ())
    of_client = target.startswith("client:")
    manual = target == "client:manual"
    if patience is not None and not manual:
        stop(EXIT_USAGE, "--patience is for client:manual: a driver needs none")
    if manual:
        check_manual(claim or (), jobs, record=record)
    else:
        check_claims(claim or ())
    for_brokers = bool(given(reach, tls) or (claim and not manual))
    chosen = client_of(target, for_brokers=for_brokers) if of_client else target_of(target, reach, tls)

    from conformance.commands.comparing import failed_or_stop
    from conformance.commands.loading import baseline_or_stop
    from conformance.commands.running import run_and_report
    from conformance.running.runner import Options

    options = Options(
        select=(select or ()) if failed_in is None else failed_or_stop(failed_in, strict=strict),
        level=level,  # type: ignore[arg-type]  # one of LEVELS
        profile=profile or check_profile(chosen.profile),
        slow=slow,
        trials=trials,
        repeat=repeat,
        seed=seed if seed is not None else secrets.randbelow(1 << 31),
        jobs=jobs,
        arguments=sys.argv[1:],
        claims=claim or (),
    )
    run_and_report(
        chosen,
        options,
        baseline_or_stop(chosen.name, baseline),
        report,
        strict=strict,
        record=record,
        verbose=verbose,
        more=case or (),
        patience=patience,
    )


@app.command()
@shared
def explore(
    reach: Reach,
    tls: Tls,
    target: TargetArgument = DEFAULT_TARGET,
    minutes: Annotated[float, typer.Option(min=0, help="for how long new scenarios are drawn")] = 10.0,
    scenarios: Annotated[int | None, typer.Option(min=1, help="how many scenarios at most")] = None,
    seed: Annotated[
        int | None, typer.Option(help="number that the scenarios are made from, to repeat an exploration; if not given, a new one")
    ] = None,
    proposal: Annotated[list[str] | None, typer.Option(help="actions of this proposal and of the core only; may be repeated")] = None,
    concurrent: Annotated[bool, typer.Option(help="several actors at the same time, judged by what must hold afterwards")] = False,
    slow: Annotated[float, typer.Option(min=0.1, help="factor on the time that the target has to answer")] = 1.0,
    claim: ClaimOption = None,
    report: Annotated[Path, typer.Option(help="folder for explore.html and the transcripts of what differs")] = Path("reports"),
) -> None:
    """Play scenarios that nobody wrote on a broker and on the reference, and show where the two differ; or play the broker for a client."""
    for name in proposal or ():
        check_choice("--proposal", name, names.registers())
    check_claims(claim or ())
    of_client = target.startswith("client:")
    if of_client and concurrent:
        stop(EXIT_USAGE, "--concurrent is for brokers")
    for_brokers = bool(given(reach, tls) or claim)
    chosen = client_of(target, for_brokers=for_brokers, in_process=True) if of_client else target_of(target, reach, tls)

    from conformance.commands.exploring import explore_and_report
    from conformance.explore.explorer import Plan

    plan = Plan(
        seconds=minutes * 60,
        scenarios=scenarios,
        seed=seed if seed is not None else secrets.randbelow(1 << 31),
        proposals=proposal or (),
        slow=slow,
        concurrent=concurrent,
        claims=claim or (),
    )
    explore_and_report(chosen, plan, report)


@app.command()
def transcribe(
    capture: Annotated[Path, typer.Argument(help="a raw capture (folder), a capture of packets (.pcap, .pcapng) or an event log (.jsonl)")],
    connection: Annotated[
        list[int] | None, typer.Option(help="number of a connection in the capture; all by default; may be repeated")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="id of the case; transcribed/ and the capture's name by default")] = None,
    title: Annotated[str | None, typer.Option(help="one sentence; what the client sends by default")] = None,
    out_: Annotated[Path | None, typer.Option("-o", "--out", help="file; standard output by default")] = None,
) -> None:
    """Make a transcript of a recorded conversation, which `run --case` plays against any broker."""
    from conformance.commands.transcribing import print_transcript

    print_transcript(capture, connection or (), id_, title, out_)


@app.command("list")
def list_(
    select: SelectOption = None,
    clauses: Annotated[bool, typer.Option(help="list clauses instead of cases")] = False,
    as_json: JsonOption = False,
) -> None:
    """List cases, or clauses with the cases that test them."""
    check_globs(select or ())

    from conformance.commands.showing import print_list

    print_list(select or (), clauses=clauses, as_json=as_json)


@app.command("show")
def show_(
    case: Annotated[str, typer.Argument(help="case id, with its cell in brackets if it has cells; a clause id leads to its cases")],
    form: Annotated[str, typer.Option("--as", help="line, hex or sequence")] = "line",
    target: Annotated[str | None, typer.Option(help="whose recording to show")] = None,
) -> None:
    """Show a case: as line notation, annotated hexadecimal or sequence diagram; recorded if there is a recording."""
    check_choice("--as", form, ("line", "hex", "sequence"))
    if case not in names.clause_ids():
        check_id("case", case.partition("[")[0], names.case_ids(), "list")

    from conformance.commands.showing import print_show

    print_show(case, form, target)


@app.command()
def explain(clause: Annotated[str, typer.Argument(help="clause id")]) -> None:
    """Explain a clause: what must hold, why, where it comes from, which cases test it, which targets satisfy it."""
    case = clause.partition("[")[0]
    if case in names.case_ids():
        stop(EXIT_USAGE, f"{case} is a case, not a clause: `show {clause}` shows it and its clauses")
    check_id("clause", clause, names.clause_ids(), "list --clauses")

    from conformance.commands.showing import print_clause

    print_clause(clause)


@app.command()
def judge(
    recordings: Annotated[
        list[Path] | None, typer.Argument(help="recordings or event logs; all recordings of the suite by default")
    ] = None,
    accept: Annotated[bool, typer.Option(help="keep the new verdicts in the recordings")] = False,
    as_json: JsonOption = False,
) -> None:
    """Judge recordings again, without a network."""
    from conformance.commands.judging import judge_again

    judge_again(recordings or (), accept=accept, as_json=as_json)


@app.command()
def report(
    events: Annotated[Path, typer.Argument(help="events.jsonl of a run, or a recording")],
    form: Annotated[str, typer.Option("--format", help="text, junit, html, json or badge")] = "text",
    baseline: Annotated[
        Path | None,
        typer.Option(help="file of known failures, or the target whose file in the suite it is; if not given, the one of this target"),
    ] = None,
    verbose: VerboseOption = False,
) -> None:
    """Make a report from a log again. A log that was cut short is judged as far as it goes."""
    check_choice("--format", form, ("text", "junit", "html", "json", "badge"))

    from conformance.commands.judging import print_report

    print_report(events, form, baseline, verbose=verbose)


@app.command("matrix")
def matrix_(
    events: Annotated[list[Path] | None, typer.Argument(help="event logs; all recordings of brokers in the suite by default")] = None,
    form: Annotated[str, typer.Option("--format", help="text, html, csv or json")] = "text",
    clients: Annotated[bool, typer.Option(help="the recorded clients instead of the recorded brokers")] = False,
) -> None:
    """Set several implementations side by side, clause by clause."""
    check_choice("--format", form, ("text", "html", "csv", "json"))

    from conformance.commands.judging import print_matrix

    print_matrix(events or (), form, clients=clients)


@app.command()
def compare(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="report folder of the earlier run, its results.json, a log, or a recorded target such as apache-pulsar@4.0.0"
        ),
    ],
    second: Annotated[Path, typer.Argument(metavar="B", help="likewise of the later run")],
    strict: Annotated[bool, typer.Option(help="warnings count as failures")] = False,
    report: Annotated[Path | None, typer.Option(help="folder for compare.html")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs: what is new, fixed, changed, gone. Exit 0 if nothing fails that did not, 1 if something does."""
    from conformance.commands.comparing import compare_runs

    compare_runs(first, second, report, strict=strict, as_json=as_json)


@baseline_app.command("write")
def baseline_write(
    events: Annotated[Path, typer.Argument(help="events.jsonl of a run")],
    reason: Annotated[str, typer.Option(help="why these failures are known")],
) -> None:
    """Write the failures of a run as a new baseline, all with the same reason: edit the reasons afterwards."""
    from conformance.commands.judging import print_baseline

    print_baseline(events, reason)


@baseline_app.command("check")
def baseline_check() -> None:
    """Check every baseline of the suite against its cases and its recordings."""
    from conformance.commands.judging import check_baselines

    check_baselines()


@app.command()
@shared
def doctor(
    target: TargetArgument,
    reach: Reach,
    tls: Tls,
    claim: ClaimOption = None,
    clean: Annotated[
        bool,
        typer.Option(help="remove all namespaces public/pc-*, which interrupted runs left over; also those of a run that still goes on"),
    ] = False,
) -> None:
    """Check a target for problems that would spoil a run, and remove leftovers."""
    import asyncio

    from conformance.commands.ending import stop_by
    from conformance.running.doctor import examine
    from conformance.targets import TargetError

    check_claims(claim or ())
    chosen = target_of(target, reach, tls)
    try:
        findings = asyncio.run(ending_soon(examine(chosen, claims=claim or (), clean=clean)))
    except TargetError as error:
        stop_by(error)
    _print_findings(findings, "a run can judge it")


def _print_findings(findings: Sequence[Finding], good: str) -> None:
    """Print what was found and what it comes to, and end: with 1 if there is something to look at."""
    for finding in findings:
        mark = "" if finding.good is None else "ok" if finding.good else "look"
        out.print(f"{mark:<4}  {finding.text}", highlight=False, markup=False, soft_wrap=True)
    looks = sum(finding.good is False for finding in findings)
    told = f"{looks} {'line begins' if looks == 1 else 'lines begin'} with `look`" if looks else good
    out.print(f"\n{told}", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(1 if looks else 0)


@driver_app.command("lint")
def driver_lint(
    client: Annotated[str, typer.Argument(help="the program, or client:NAME")],
) -> None:
    """Check that a driver keeps to its protocol; the suite's own broker is all that it needs."""
    import asyncio

    from conformance.clients.known import PREFIX
    from conformance.clients.lint import lint
    from conformance.targets import TargetError

    chosen = client_of(client if client.startswith(PREFIX) else f"{PREFIX}{client if '/' in client else f'./{client}'}")
    try:
        findings = asyncio.run(ending_soon(lint(chosen, lambda text: print(text, file=sys.stderr))))
    except TargetError as error:
        stop(EXIT_COULD_NOT_RUN, str(error))
    _print_findings(findings, "the driver keeps to its protocol")


@app.command()
def broker(
    port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port of the binary protocol; 0: a free one")] = 0,
    admin_port: Annotated[int, typer.Option(min=0, max=65535, help="TCP port of the admin interface; 0: a free one")] = 0,
    host: Annotated[
        str, typer.Option(help="IPv4 address to listen on; 0.0.0.0: all. Whoever reaches it may do anything, unless authentication is on")
    ] = "127.0.0.1",
    config: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE, one of Pulsar's own settings, no secret: others see command lines; may be repeated")
    ] = None,
    config_file: Annotated[Path | None, typer.Option(help="file of KEY=VALUE lines, as broker.conf has them")] = None,
    profile: Annotated[str, typer.Option(help="default: what real peers speak; as-written: what the texts say")] = "default",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="FIELD=VALUE, one field of the profile; VALUE may name a profile; may be repeated")
    ] = None,
    brokers: Annotated[
        int,
        typer.Option(min=1, max=names.MOST_BROKERS, help="of how many brokers the cluster is; those after the first one are on free ports"),
    ] = 1,
    verbose: Annotated[bool, typer.Option(help="log to standard error")] = False,
) -> None:
    """Serve the reference broker until SIGINT or SIGTERM; its addresses are printed as one line of JSON when it is ready."""
    from conformance.targets import TargetError
    from conformance.targets.serve import serve

    try:
        serve((port, admin_port), config or (), config_file, profile, set_ or (), host=host, brokers=brokers, verbose=verbose)
    except (TargetError, ValueError) as error:
        stop(EXIT_USAGE, str(error))
    except OSError as error:
        hint = "" if error.errno == errno.EADDRNOTAVAIL else ": choose another port, or 0 for a free one"
        stop(EXIT_USAGE, f"{error.filename}: {error.strerror}{hint}")


@app.command()
@shared
def proxy(
    to: Annotated[str, typer.Option(help="the broker: pulsar://HOST:PORT or pulsar+ssl://HOST:PORT")],
    tls: Tls,
    listen: Annotated[str, typer.Option(help="HOST:PORT that clients are given; port 0: a free one")] = "127.0.0.1:0",
    filter_: FilterOption = None,
    record: Annotated[Path | None, typer.Option(help="folder for a raw capture of what passes, a new one")] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(help="harm: 'drop COMMAND', 'twice COMMAND', 'delay TIME COMMAND', 'refuse COMMAND CODE', 'cut after N COMMAND'"),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="a host besides that of the broker to which the proxy may go; may be repeated")
    ] = None,
    listen_certificate: Annotated[
        Path | None, typer.Option(help="PEM file of a certificate: clients come with TLS, and are shown it")
    ] = None,
    listen_key: Annotated[Path | None, typer.Option(help="PEM file of the key of that certificate, if it is another file")] = None,
    judge: JudgeOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="list no frames")] = False,
) -> None:
    """Stand between clients and a broker until SIGINT, SIGTERM or SIGHUP; the address is printed as one line of JSON when it is ready."""
    from conformance.commands import proxying

    certificates = proxying.TlsOptions(**vars(tls), listen_certificate=listen_certificate, listen_key=listen_key)
    asked = proxying.asked_or_stop(
        to, listen, filter_ or (), fault or (), record, allow_hosts=allow_host or (), tls_options=certificates, quiet=quiet, judged=judge
    )
    proxying.proxy(asked)


@app.command()
def read(
    file: Annotated[Path, typer.Argument(help="a capture of packets, a raw capture, an event log, or a folder with some")],
    filter_: FilterOption = None,
    judge: JudgeOption = False,
) -> None:
    """List the frames of a capture, as far as there are any."""
    from conformance.commands import reading

    reading.read(file, filter_ or (), judged=judge)


@app.command()
def schema(kind: Annotated[str, typer.Argument(help="transcript, fragment, register, baseline, target, log or driver")]) -> None:
    """Print the JSON Schema of a file format."""
    from conformance.clients import driver
    from conformance.engine import log
    from conformance.engine import model as m
    from conformance.targets.target_file import TargetFile

    kinds: dict[str, Any] = {
        "transcript": m.Transcript,
        "fragment": m.Fragment,
        "register": m.Register,
        "baseline": m.Baseline,
        "target": TargetFile,
    }
    lines = {"log": log.json_schema, "driver": driver.json_schema}
    check_choice("KIND", kind, (*kinds, *lines))
    print(json.dumps(lines[kind]() if kind in lines else kinds[kind].model_json_schema(), indent=2))


@app.command()
def version() -> None:
    """Print the version of the suite."""
    print(__version__)


if __name__ == "__main__":
    app()
