"""Turns rare rows into cases: `python -m conformance.corpus.promotion RESULT.json [NAME ..]`.

A job lists the rare pairs that it found, each the smallest of its class, under `rare` in its result: a pattern and a name on which
java.util.regex and RE2 differ, and the place of the row. A case made from it requests the topics that match the pattern, and accepts the
answer of either; the run observes which one it is. It is written to `transcripts/promoted/`, to be reviewed, run and recorded like any
other case.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from conformance.corpus.errors import CorpusError
from conformance.names import HOME
from refimpl.indexes.topic_patterns import compile_pattern
from refimpl.proposals.topic_list.rules import PATTERN_MAX_LENGTH, matched_name, visible_topics

FOLDER = HOME / "transcripts" / "promoted"
FITS, DIFFERS, REFUSED = READINGS = ("fits", "does not fit", "refused")
CLAUSE = "pip145.pattern.java-reading"
NAMESPACE = "public/pc-zzz-zzz"
"""As long as the names of namespaces of cases get: a pattern has to be short enough with it."""


@dataclass(frozen=True)
class Rare:
    """A pair on which two engines differ.

    Attributes:
        name: Of its class, such as `vertical-tab`.
        text: What is special about it, in one sentence.
        pattern: Of topics, without a domain.
        topic: A full name.
        java: What java.util.regex says: `fits`, `does not fit` or `refused`.
        corpus: The corpus in which it was found, with its options.
        row: Number of the row there.
    """

    name: str
    text: str
    pattern: str
    topic: str
    java: str
    corpus: str
    row: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Read one from a result.

        Raises:
            CorpusError: A field is missing, or is of another kind.
        """
        known = {"name": str, "text": str, "pattern": str, "topic": str, "java": str, "corpus": str, "row": int}
        wrong = [name for name, kind in known.items() if not isinstance(fields.get(name), kind)]
        if wrong or fields["java"] not in READINGS:
            raise CorpusError(f"a rare pair has no {', '.join(wrong)} that can be used: {json.dumps(fields, ensure_ascii=False)[:200]}")
        return cls(**{name: fields[name] for name in known})

    @property
    def digest(self) -> str:
        """Return the id of the pair: 16 hexadecimal digits."""
        return hashlib.sha256(f"{self.pattern}\0{self.topic}".encode()).hexdigest()[:16]


def read_rare(path: Path) -> list[Rare]:
    """Read the rare pairs of a result.

    Raises:
        CorpusError: The file is not a result of a job, or it has no rare pairs.
    """
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        found = result["counters"]["rare"]
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise CorpusError(f"{path}: no result of a job that looks for rare rows (filtering_agrees does)") from None
    if not found:
        raise CorpusError(f"{path}: the job met no rare rows")
    return [Rare.of(fields) for fields in found]


def case_of(rare: Rare) -> dict[str, Any]:
    """Make a case from a rare pair: its topic in a namespace of the case, beside one that never matches.

    Raises:
        CorpusError: The pattern does not speak of the topic's namespace, so that it can't be asked of another one; it is too long; or both
            engines say the same of the pair.
    """
    tenant, name, local = rare.topic.partition("://")[2].split("/", 2)
    namespace = f"{tenant}/{name}/"
    if namespace not in rare.pattern:
        raise CorpusError(f"{rare.name}: the pattern {rare.pattern!r} does not speak of {namespace}")
    own = f"{NAMESPACE}/" + ("" if local.strip() else "a")  # a local name can't be blank
    pattern = rare.pattern.replace(namespace, own)
    if len(pattern.encode("utf-16-le")) // 2 > PATTERN_MAX_LENGTH:
        raise CorpusError(f"{rare.name}: the pattern {rare.pattern!r} is too long for a broker with its usual settings")
    topic = f"persistent://{own}{local}"
    readings = {"java.util.regex": rare.java, "RE2": FITS if visible_topics([topic], compile_pattern(pattern)) else DIFFERS}
    if len(set(readings.values())) == 1:
        raise CorpusError(f"{rare.name}: java.util.regex and RE2 say the same of {rare.pattern!r} and {rare.topic!r}")
    request = {"request_id": 1, "namespace": "$ns", "topics_pattern": pattern.replace(NAMESPACE, "${ns}")}
    return {
        "format": 1,
        "id": f"promoted/{rare.name}",
        "title": rare.text[:1].upper() + rare.text[1:],
        "tests": ["broker"],
        "clauses": [CLAUSE],
        "origin": f"{rare.corpus}, row {rare.row}, digest {rare.digest}: pattern {rare.pattern!a}, name {matched_name(rare.topic)!a}",
        "requires": ["topic-list-filter", "admin"],
        "vars": {"ns": {"$fresh": "namespace"}, "t": topic.replace(NAMESPACE, "${ns}")},
        "steps": [
            {"use": "lib/handshake"},
            {"admin": {"create_topic": "$t"}},
            {"client": {"getTopicsOfNamespace": request}},
            {"one_of": [_branch(engine, reading) for engine, reading in readings.items()]},
        ],
    }


def _branch(engine: str, reading: str) -> dict[str, Any]:
    if reading == REFUSED:
        answer: dict[str, Any] = {"error": {"request_id": 1, "error": {"$in": ["MetadataError", "InvalidTopicName"]}}}
    else:
        fields = {"request_id": 1, "topics": ["$t"] if reading == FITS else [], "filtered": True}
        answer = {"getTopicsOfNamespaceResponse": fields}
    gap = {"level": "gap", "clause": CLAUSE} if engine == "RE2" else {}
    return {"name": f"as {engine}", **gap, "steps": [{"broker": answer}]}


def promote(rare: Iterable[Rare], folder: Path = FOLDER) -> tuple[list[Path], list[str]]:
    """Write cases.

    Args:
        rare: The pairs; if several have the same name, the first one counts.
        folder: Where to.

    Returns:
        The files, and why others could not be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    problems = []
    for one in rare:
        path = folder / f"{one.name}.yaml"
        if path in written:
            continue
        try:
            case = case_of(one)
        except CorpusError as error:
            problems.append(str(error))
            continue
        path.write_text(yaml.safe_dump(case, sort_keys=False, default_flow_style=None, width=140), encoding="utf-8")
        written.append(path)
    return written, problems


def main() -> int:
    """Promote what the command line names; return 0 if all of it could be."""
    parser = argparse.ArgumentParser(prog="python -m conformance.corpus.promotion", description="Write cases of rare rows that a job met.")
    parser.add_argument("result", type=Path, help="result of a job")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which classes; all if none is named")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write (%(default)s)")
    options = parser.parse_args()
    try:
        rare = read_rare(options.result)
    except CorpusError as error:
        print(error, file=sys.stderr)
        return 2
    known = {one.name for one in rare}
    unknown = sorted(set(options.names) - known)
    if unknown:
        print(f"{options.result}: no class {', '.join(unknown)}; there are: {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    written, problems = promote([one for one in rare if not options.names or one.name in options.names], options.folder)
    for path in written:
        print(path)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
