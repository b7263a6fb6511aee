"""The command `transcribe`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from conformance.console import err, stop
from conformance.exit_codes import EXIT_USAGE
from conformance.transcribing import TranscribeProblem, read_conversation, transcribe

_ID = re.compile(r"[a-z0-9]+(/[a-z0-9-]+)+")


def print_transcript(capture: Path, connections: Sequence[int], name: str | None, title: str | None, out: Path | None) -> None:
    """Write the transcript of a capture into a file, or to standard output."""
    name = name or f"transcribed/{re.sub('[^a-z0-9]+', '-', capture.name.partition('.')[0].lower()).strip('-') or 'capture'}"
    if _ID.fullmatch(name) is None:
        stop(
            EXIT_USAGE,
            f"--id: {name!r} is no id of a case: it is a path of small letters, digits and hyphens, such as transcribed/producer",
        )
    try:
        text = transcribe(read_conversation(capture, connections), name, title)
    except TranscribeProblem as error:
        prefix = "" if str(error).startswith(str(capture)) else f"{capture}: "
        stop(EXIT_USAGE, f"{prefix}{error}")
    if out is None:
        print(text, end="")
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        stop(EXIT_USAGE, f"{out}: {error.strerror}: choose another file with -o")
    err.print(f"wrote {out}: `run TARGET --case {out}` runs it", highlight=False, markup=False, soft_wrap=True)
