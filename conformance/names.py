"""Ids of cases and clauses, from the names and lines of files: so that user input is checked before anything is loaded."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable
from pathlib import Path

HOME = Path(__file__).parent
_CLAUSE = re.compile(r"^ *- \{?id: *([\w.-]+)", re.MULTILINE)
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}")
_NO_CASES = ("lib", "settings")


MOST_BROKERS = 5
"""Brokers of a cluster that the suite starts."""


def case_ids(home: Path = HOME) -> list[str]:
    """Return the ids of all cases, by the names of their files."""
    folder = home / "transcripts"
    names = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return sorted(name.as_posix() for name in names if name.parts[0] not in _NO_CASES)


def clause_ids(home: Path = HOME) -> list[str]:
    """Return the ids of all clauses, in the order of the registers."""
    return [name for path in sorted((home / "clauses").glob("*.yaml")) for name in _CLAUSE.findall(path.read_text(encoding="utf-8"))]


def registers(home: Path = HOME) -> list[str]:
    """Return the names of the clause registers without their parts: `core`, `pip145`, .."""
    return sorted({path.stem.partition("_")[0] for path in (home / "clauses").glob("*.yaml")})


def is_selected(ids: Iterable[str], patterns: Iterable[str]) -> bool:
    """Tell whether one of the ids matches one of the globs (without globs: any id does), and none matches a glob after `!`."""
    listed, known = list(patterns), list(ids)
    wanted = [pattern for pattern in listed if not pattern.startswith("!")] or ["*"]
    return _fits(known, wanted) and not _fits(known, [pattern[1:] for pattern in listed if pattern.startswith("!")])


def _fits(ids: list[str], patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in ids for pattern in patterns)


def file_name(target: str) -> str:
    """Return what the files and folders of a target are called: "client-python" for "client:python"."""
    return target.replace(":", "-", 1) if target.startswith("client:") else target


def target_name(file: str) -> str:
    """Return the target whose files and folders have a name; see `file_name`."""
    return file.replace("-", ":", 1) if file.startswith("client-") else file


def is_file_name(target: str) -> bool:
    """Tell whether a target's name can be that of a file or folder, and of nothing outside of it."""
    return _FILE_NAME.fullmatch(target) is not None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for what is closest to a mistyped word; nothing if nothing is close."""
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def glob_meant(word: str, ids: Iterable[str]) -> str | None:
    """Return the glob or id that a mistyped glob probably stands for; None if nothing is close.

    Args:
        word: What the user wrote, such as `core`, `core.frame` or `pip-145/**`.
        ids: Ids of cases and clauses.
    """
    known: dict[str, str] = {}
    for name in ids:
        known.setdefault(name, name)
        for split in (match.start() for match in re.finditer(r"[/.]", name)):
            known.setdefault(name[:split], f"{name[:split]}/**" if name[split] == "/" else f"{name[:split]}.*")
    plain = word.partition("[")[0].rstrip("*/.").lower()
    close = [plain] if plain in known else difflib.get_close_matches(plain, known, 1, cutoff=0.75)
    return known[close[0]] if close else None


def glob_problem(patterns: Iterable[str], home: Path = HOME) -> str | None:
    """Say which glob matches no case and no clause, with a suggestion; None if each matches something.

    Args:
        patterns: Globs as `--select` takes them; a leading `!` excludes matches.
        home: A folder that holds `clauses` and `transcripts`.
    """
    listed = list(patterns)
    ids = [*case_ids(home), *clause_ids(home)] if listed else []
    for pattern in listed:
        mark, plain = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
        if not _fits(ids, [plain]):
            meant = glob_meant(plain, ids)
            return f"nothing is selected by {pattern}" + (f"; did you mean '{mark}{meant}'?" if meant else ": `list` shows the cases")
    return None
