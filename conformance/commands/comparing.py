"""The command `compare`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import typer

from conformance import files
from conformance.commands.loading import alone_or_stop
from conformance.console import out, stop
from conformance.engine import log
from conformance.engine.verdict import clause_verdicts
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_COULD_NOT_RUN, EXIT_USAGE
from conformance.judging.baseline import case_name
from conformance.report import compare
from conformance.report.wording import cut
from conformance.running import recorder

RESULTS, EVENTS = "results.json", "events.jsonl"
PAGE = "compare.html"
_NEEDED = (b'{"record":"header"', b'{"record":"result"', b'{"record":"footer"')


def compare_runs(first: Path, second: Path, folder: Path | None, *, strict: bool, as_json: bool) -> NoReturn:
    """Compare two runs, print the differences, leave a page in a folder if there is one, and end with the exit code.

    Args:
        first: The folder of a report, its `results.json`, a log, or the name of a recorded target.
        second: Likewise.
        folder: For the page.
        strict: Whether warnings count as failures.
        as_json: Whether to print JSON.
    """
    made = compare.compare(side_or_stop(first), side_or_stop(second))
    if folder is not None:
        with alone_or_stop(folder):
            try:
                (folder / PAGE).write_text(compare.render_html(made, strict=strict), encoding="utf-8")
            except OSError as error:
                stop(EXIT_COULD_NOT_RUN, f"{folder / PAGE}: {error.strerror or error}: choose another --report folder")
    if as_json:
        print(json.dumps(compare.to_json(made, strict=strict), indent=2))
    else:
        out.print(compare.render_text(made, strict=strict), highlight=False, markup=False, soft_wrap=True)
        if folder is not None:
            out.print(f"the page is {folder / PAGE}", highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(made.exit_code(strict=strict))


def side_or_stop(path: Path) -> compare.Side:
    """Read a run. Of a folder, its results; if an older suite has written none, those in its log. A recorded target goes by its name."""
    file = path
    recorded = [] if path.exists() else recorder.files_of(str(path))
    if path.is_dir():
        file = path / RESULTS if (path / RESULTS).exists() else path / EVENTS
        if not file.exists():
            stop(EXIT_USAGE, f"{path} is no report of a run: it has neither {RESULTS} nor {EVENTS}")
    try:
        data = b"".join(map(files.read_log, recorded or [file]))
        results = json.loads(data) if file.suffix == ".json" else _of_log(data, str(file))
        return compare.side_of(str(path), results)
    except OSError as error:
        stop(EXIT_USAGE, f"{file} can't be read: {error.strerror or error}")
    except (log.LogError, ValueError) as error:
        text = f"{file}: it is no JSON ({error})" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else str(error)
        stop(EXIT_USAGE, text)


def failed_or_stop(path: Path, *, strict: bool) -> list[str]:
    """Return the cases that failed in a run, or could not be judged; if `strict`, also those that warn.

    A run that ended early, or because of its baseline, ends the command: these cases are not all that is wrong. A run without such cases
    ends it with the exit code of that run.
    """
    side = side_or_stop(path)
    if not side.complete:
        stop(EXIT_USAGE, f"--failed-in: {side.name} did not reach its end: run all cases again")
    if side.stale:
        stop(EXIT_USAGE, f"--failed-in: the baseline of {side.name} is stale: {side.stale[0]}; correct it, and run all cases again")
    failed = side.failed(strict=strict)
    if not failed:
        out.print(f"no case failed in {side.name}: there is nothing to run again", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(side.exit_code or EXIT_CONFORMANT)
    return failed


def _of_log(data: bytes, name: str) -> Mapping[str, Any]:
    """Return the results in a log, as they were when it was written: another suite may judge it otherwise today."""
    records = list(log.load((line for line in data.splitlines() if line.startswith(_NEEDED)), name))
    header = next((one for one in records if isinstance(one, log.Header)), None)
    footer = next((one for one in records if isinstance(one, log.Footer)), None)
    results = [one for one in records if isinstance(one, log.Result)]
    if header is None:
        raise log.LogError(f"{name} is no log of a run: give a report folder, its {RESULTS}, or its {EVENTS}")
    if not results:
        hint = f"`pulsar-conformance report {name} --format json` judges what it has: keep that as {RESULTS}"
        raise log.LogError(f"{name} is a log without results: {hint}")
    complete = footer is not None and footer.complete
    return {
        **header.model_dump(include={"target", "server_version", "profile", "suite", "transcripts", "started"}),
        "complete": complete,
        "sentence": cut("" if complete else f"incomplete: {footer.stopped if footer else 'the log ends early'}", compare.SENTENCE),
        "clauses": [{"id": clause, "verdict": str(verdict)} for clause, verdict in clause_verdicts(results).items()],
        "cases": [{"name": case_name(one), **one.model_dump(include={"verdict", "summary", "clauses"})} for one in results],
    }
