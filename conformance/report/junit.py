"""JUnit XML: one test suite for each group of cases, so that any build server can show a run."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from conformance.engine import log
from conformance.engine.verdict import Verdict
from conformance.judging.baseline import case_name
from conformance.report.conclusion import conclude, why_incomplete
from conformance.report.model import Report
from conformance.report.views import reason_of, results_by_group, seconds_of
from conformance.report.wording import clean, one_line, paragraph

_SKIPPED = (Verdict.UNTESTABLE, Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE, Verdict.XFAIL)


def render_junit(report: Report) -> str:
    """Write JUnit XML.

    A case that warns fails only if warnings count. A run that did not reach its end and a stale baseline entry are
    test cases of their own, so that a build server can't call such a run green.
    """
    root = Xml.Element("testsuites", name=f"Pulsar conformance: {one_line(report.run.header.target)}")
    for group, results in results_by_group(report).items():
        suite = Xml.SubElement(root, "testsuite", name=group, timestamp=report.run.header.started, hostname="localhost")
        _properties(suite, report)
        for result in results:
            _case(suite, report, result)
    _extra(root, report)
    for suite in root:
        _count(suite)
    _count(root)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _properties(suite: Xml.Element, report: Report) -> None:
    header = report.run.header
    listed = Xml.SubElement(suite, "properties")
    facts = {
        "target": header.target,
        "server_version": header.server_version,
        "profile": header.profile,
        "suite": header.suite,
        "transcripts": header.transcripts,
        "seed": header.seed,
        "conclusion": conclude(report).sentence,
    }
    for name, value in facts.items():
        Xml.SubElement(listed, "property", name=name, value=one_line(value))


def _case(suite: Xml.Element, report: Report, result: log.Result) -> None:
    place = result.case.rpartition("/")[0].replace("/", ".")
    name = one_line(case_name(result).removeprefix(result.case.rpartition("/")[0] + "/"))
    case = Xml.SubElement(suite, "testcase", classname=place, name=name, time=f"{seconds_of(report, result):.3f}")
    verdict, message = Verdict(result.verdict), one_line(reason_of(result) or result.verdict)
    details = "\n".join(paragraph(result.diagnosis or result.summary))
    if verdict is Verdict.ERROR:
        _child(case, "error", "ERROR", message, details)
    elif verdict is Verdict.FAIL or (verdict is Verdict.WARN and report.strict):
        _child(case, "failure", verdict.value, message, details)
    elif verdict in _SKIPPED:
        Xml.SubElement(case, "skipped", message=f"{verdict.value}: {message}")
    told = "".join(f"{one_line(clause)}: {one_line(text)}\n" for clause, text in result.clauses.items())
    if verdict not in (Verdict.PASS, Verdict.ERROR, Verdict.FAIL) and details:
        told = f"{verdict.value}: {details}\n{told}"
    Xml.SubElement(case, "system-out").text = told


def _child(case: Xml.Element, tag: str, kind: str, message: str, details: str) -> None:
    Xml.SubElement(case, tag, type=kind, message=message).text = details


def _extra(root: Xml.Element, report: Report) -> None:
    if report.run.complete and not report.stale:
        return
    suite = Xml.SubElement(root, "testsuite", name="run", timestamp=report.run.header.started, hostname="localhost")
    _properties(suite, report)
    if not report.run.complete:
        case = Xml.SubElement(suite, "testcase", classname="run", name="the run reached its end", time="0.000")
        _child(case, "error", "INCOMPLETE", one_line(why_incomplete(report)), clean(why_incomplete(report)))
    for entry in report.stale:
        case = Xml.SubElement(suite, "testcase", classname="run.baseline", name=one_line(entry), time="0.000")
        _child(case, "failure", "STALE", "a baseline entry no longer explains a failure", clean(entry))


def _count(element: Xml.Element) -> None:
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(name, str(sum(case.find(tag) is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")
