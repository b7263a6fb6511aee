"""For other programs: a badge in the format of shields.io, and a summary of the whole report as JSON."""

from __future__ import annotations

from typing import Any, Final

from conformance.judging.baseline import case_name
from conformance.report.conclusion import conclude
from conformance.report.model import Report
from conformance.report.views import census, clause_reason, results_by_clause, seconds_of, untested
from conformance.report.wording import paragraph, short

FORMAT: Final = 1
LABEL: Final = "Pulsar conformance"
_COLORS: Final = {
    "conformant": "brightgreen",
    "not conformant": "red",
    "stale": "orange",
    "inconclusive": "yellow",
    "incomplete": "lightgrey",
    "nothing claimed": "lightgrey",
    "nothing tested": "lightgrey",
}


def badge(report: Report) -> dict[str, Any]:
    """Return a badge; bright green only for a complete run in which nothing failed, green if failures are known.

    It says what every other report says in its headline.
    """
    conclusion, counts = conclude(report), report.clause_counts
    color = _COLORS[conclusion.kind]
    if conclusion.kind == "conformant" and (counts["XFAIL"] or counts["WARN"] or report.claims.unannounced):
        color = "green"
    return {"schemaVersion": 1, "label": LABEL, "message": conclusion.sentence, "color": color}


def to_json(report: Report) -> dict[str, Any]:
    """Return the whole report without its conversations, ready for `json.dumps`; the keys are a public contract."""
    header, footer = report.run.header, report.run.footer
    citing = results_by_clause(report)
    conclusion = conclude(report)
    return {
        "format": FORMAT,
        "target": header.target,
        "release": header.release,
        "server_version": header.server_version,
        "profile": header.profile,
        "suite": header.suite,
        "transcripts": header.transcripts,
        "started": header.started,
        "seed": header.seed,
        "complete": report.run.complete,
        "stopped": None if footer is None else footer.stopped,
        "strict": report.strict,
        "conclusion": conclusion.kind,
        "sentence": conclusion.sentence,
        "judged": list(report.claims.judged),
        "not_claimed": list(report.claims.not_claimed),
        "claimed_but_not_judged": list(report.claims.unjudged),
        "served_but_not_announced": list(report.claims.unannounced),
        "claimed_but_not_served": {way: list(names) for way, names in report.claims.unserved.items()},
        "exit_code": report.exit_code,
        "counts": {
            "clauses": dict(sorted(report.clause_counts.items())),
            "cases": dict(sorted(report.case_counts.items())),
            "transcripts": report.transcripts,
            "conversations": report.conversations,
            "repetitions": report.repetitions,
        },
        "clauses": [
            {
                "id": name,
                "level": report.suite.clauses[name].level,
                "verdict": str(verdict),
                "reason": clause_reason(report, name, citing.get(name, ())),
                "cases": {case_name(result): result.clauses[name] for result in citing.get(name, ())},
            }
            for name, verdict in report.clauses.items()
        ],
        "excluded": [{"id": clause.id, "reason": clause.excluded} for clause in report.excluded],
        "cases": [
            {
                "name": case_name(result),
                "verdict": str(result.verdict),
                "summary": short(result.summary),
                "clauses": dict(result.clauses),
                "trials": result.trials,
                "failed_trials": result.failed_trials,
                "seconds": seconds_of(report, result),
                "baseline": result.baseline,
                "diagnosis": "\n".join(paragraph(result.diagnosis)),
            }
            for result in report.results
        ],
        "untested": [
            {"verdict": one.verdict, "reason": one.reason, "cases": one.cases, "clauses": list(one.clauses)} for one in untested(report)
        ],
        "stale": list(report.stale),
        "census": [
            {"name": fact.name, "value": fact.value, "conversations": fact.conversations, "cases": list(fact.cases)}
            for fact in census(report)
        ],
    }
