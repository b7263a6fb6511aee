"""The headline names what was judged and what was not claimed, in the same words everywhere."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date
from xml.etree import ElementTree

import pytest
import yaml

from conformance.engine.model import Baseline
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_INCONCLUSIVE, EXIT_NOT_CONFORMANT
from conformance.judging.baseline import load_baseline
from conformance.mutants.model import patched
from conformance.report.badge import badge, to_json
from conformance.report.conclusion import conclude
from conformance.report.html import render_html
from conformance.report.junit import render_junit
from conformance.report.model import build_report
from conformance.report.show import baseline_text
from conformance.running import recorder
from conformance.running.probe import claimed, probe
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import load_suite
from conformance.targets import Endpoint, InProcessTarget, TargetError
from conformance.targets.model import NOTHING
from refimpl.net.virtual_time import VirtualTimeLoop
from refimpl.proposals import PROPOSALS
from refimpl.proposals.message_filter.broker import MessageFilterExtension
from refimpl.proposals.partition_watch.broker import PartitionWatchExtension
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.proposals.scalable_topics.broker import ScalableTopicsExtension
from refimpl.proposals.topic_list.broker import TopicListExtension
from refimpl.wire.pulsar_api_pb2 import CommandAckResponse, CommandConnected, ServerError

EXTENSIONS = {
    "pip145": (TopicListExtension, "watchTopicList"),
    "pip247": (PartitionWatchExtension, "watchPartitionUpdate"),
    "pr25648": (ScalableTopicsExtension, "watchScalableTopics"),
    "pr7629": (MessageFilterExtension, "subscribe"),
}
FLAGS = {proposal.register: proposal.flags for proposal in PROPOSALS}


@pytest.fixture(scope="module")
def suite():
    return load_suite()


def judged(suite, *select, fault=lambda patches: None, profile="default", claims=(), capabilities=None, target=InProcessTarget):
    """Run cases on the reference with a fault."""
    options = Options(select=select, profile=profile, claims=claims, jobs=1)
    with patched(fault), pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        if capabilities is not None:
            patch.setattr("conformance.targets.reference.CAPABILITIES", capabilities)
        run, stopped = runner.run(run_suite(suite, target(profile), options, lambda _: None, Silent()))
    assert stopped is None
    return build_report(suite, run, Baseline(format=1, target="none"), date(2026, 1, 1))


def sentence(report):
    return conclude(report).sentence


def forgets_the_flag(register):
    return lambda patches: patches.replace(EXTENSIONS[register][0], "advertise", lambda *_: None)


def does_not_serve(register, how):
    def serve(session, request, frame):
        if how == "refused":
            raise Refused(ServerError.NotAllowedError, "not here")
        if how == "the connection is closed":
            raise ProtocolViolation("not here")

    def apply(patches):
        patches.handlers(lambda name, handler: serve if name == EXTENSIONS[register][1] else handler)

    return apply


def announces_on_the_first_connection_only(register):
    told = []

    def change(_, connected):
        told.append(connected)
        for flag in FLAGS[register] if len(told) > 1 else ():
            connected.feature_flags.ClearField(flag)

    return lambda patches: patches.outgoing(CommandConnected, change)


FEW = {
    "pip145": ("pip145/flag/*", "pip145/watch/create-then-delete", "pip145/list/filter"),
    "pip247": ("pip247/flag/*", "pip247/update/growth"),
    "pr25648": ("pr25648/flag/*", "pr25648/diff/create"),
    "pr7629": ("pr7629/flag/*", "pr7629/regex/*"),
}


@pytest.mark.parametrize(
    ("register", "words", "code"),
    [
        ("pip145", "core, PIP-145: not conformant, 1 clause failed; served but not announced: PIP-145 watchers", EXIT_NOT_CONFORMANT),
        ("pip247", "core, PIP-247: not conformant, 1 clause failed; served but not announced: PIP-247", EXIT_NOT_CONFORMANT),
        ("pr25648", "core: conformant in the selected cases; served but not announced: PR 25648 watches", EXIT_CONFORMANT),
        ("pr7629", "core: conformant in the selected cases; served but not announced: PR 7629", EXIT_CONFORMANT),
    ],
)
def test_what_is_served_and_not_announced_is_said(suite, register, words, code):
    capabilities = {"property-entry-filter": True, "scalable-topic-properties": True, "scalable-layout": register == "pr25648"}
    report = judged(suite, "core/handshake/*", *FEW[register], fault=forgets_the_flag(register), capabilities=capabilities)
    assert sentence(report) == words
    assert report.exit_code == code
    assert badge(report)["color"] != "brightgreen"


@pytest.mark.parametrize("how", ["refused", "nothing comes", "the connection is closed"])
@pytest.mark.parametrize("register", ["pip247", "pip145"])
def test_what_is_announced_and_not_served_is_said(suite, register, how):
    report = judged(suite, f"{register}/watch/*", fault=does_not_serve(register, how))
    assert f"; claimed but {how}: " in sentence(report)
    assert report.exit_code == EXIT_NOT_CONFORMANT


def test_a_case_that_needs_two_parts_of_a_proposal_does_not_say_which_one_is_not_served(suite):
    report = judged(suite, "pip145/update/*", fault=does_not_serve("pip145", "nothing comes"))
    assert sentence(report).endswith("; claimed but nothing comes: PIP-145 watchers")


@pytest.mark.parametrize("register", EXTENSIONS)
def test_a_flag_of_the_first_connection_only_fails(suite, register):
    report = judged(suite, *FEW[register], fault=announces_on_the_first_connection_only(register))
    assert report.exit_code == EXIT_NOT_CONFORMANT
    assert {name for name, verdict in report.clauses.items() if verdict == "FAIL"} <= {
        f"{register}.flag.{name}" for name in ("advertised", "set", "whatever-client", "default-on", "reconcile")
    } | {"pr25648.watch.protocol-version"}


def without(register):
    """Make a broker that neither announces nor knows the commands of a proposal."""
    commands = {command.name for proposal in PROPOSALS if proposal.register == register for command in proposal.commands}

    def unknown(session, request, frame):
        raise ProtocolViolation("unknown")

    def apply(patches):
        forgets_the_flag(register)(patches)
        patches.handlers(lambda name, handler: unknown if name in commands else handler)

    return apply


@pytest.mark.parametrize("register", ["pip145", "pip247", "pr25648"])
def test_a_broker_without_a_proposal_is_not_accused(suite, register):
    capabilities = {"property-entry-filter": True}
    report = judged(suite, "core/handshake/*", *FEW[register], fault=without(register), capabilities=capabilities)
    assert {str(one.verdict) for one in report.results} <= {"PASS", "NOT-APPLICABLE"}
    assert "not claimed: P" in sentence(report)
    assert "served" not in sentence(report)


@pytest.mark.parametrize(
    ("client", "claimed"), [("java", ["core", "PIP-145"]), ("java_v5", ["core", "PR 25648"]), ("python", ["core"]), ("rust", ["core"])]
)
def test_a_client_claims_what_its_driver_names_and_not_what_binds_every_client(suite, client, claimed):
    run = recorder.load_target(f"client-{client}", recorder.CLIENT_HOME)
    assert run is not None
    report = build_report(suite, run, Baseline(format=1, target="none"), date(2026, 1, 1))
    assert list(report.claims.judged) == claimed


def test_a_run_in_which_nothing_was_claimed_is_not_conformant(suite):
    report = judged(suite, "pip247/**", fault=without("pip247"))
    assert conclude(report).kind == "nothing claimed"
    assert sentence(report).endswith("; not claimed: PIP-247")
    assert report.exit_code == EXIT_INCONCLUSIVE


class WithoutAdmin(InProcessTarget):
    """A broker whose user gives no admin URL."""

    @asynccontextmanager
    async def run(self, config=NOTHING, *, progress=None):
        async with super().run(config, progress=progress) as endpoint:
            yield replace(endpoint, admin_url=None)


def test_what_is_claimed_and_could_not_be_judged_is_named(suite):
    report = judged(suite, "core/handshake/*", "pip247/update/*", target=WithoutAdmin)
    assert conclude(report).kind == "inconclusive"
    assert sentence(report).endswith("; claimed but not judged: PIP-247")
    assert to_json(report)["claimed_but_not_judged"] == ["PIP-247"]
    assert report.exit_code == EXIT_INCONCLUSIVE


def test_a_run_passes_with_the_baseline_that_was_written_of_it(suite):
    without = judged(suite, "core/ack/*", fault=lambda patches: patches.outgoing(CommandAckResponse, lambda _, __: False))
    assert any("it did not get so far" in one.summary for one in without.results if one.verdict == "UNTESTABLE")
    written = Baseline.model_validate(yaml.safe_load(baseline_text(without, "To be looked at.", date(2026, 1, 1))))
    report = build_report(suite, without.run, written, date(2026, 1, 1))
    assert {str(one.verdict) for one in report.results} == {"PASS", "XFAIL", "UNTESTABLE"}
    assert report.exit_code == EXIT_CONFORMANT


def test_all_reports_have_the_same_words(suite):
    report = judged(suite, "core/handshake/*", "pip145/list/filter", "pip247/flag/*", fault=without("pip247"))
    words = "core, PIP-145: conformant in the selected cases; not claimed: PIP-247"
    assert sentence(report) == words
    assert badge(report)["message"] == words
    assert to_json(report)["sentence"] == words
    assert to_json(report)["judged"] == ["core", "PIP-145"]
    assert to_json(report)["not_claimed"] == ["PIP-247"]
    assert f'<p class="sentence conformant">{words}</p>' in render_html(report)
    properties = ElementTree.fromstring(render_junit(report)).iter("property")
    assert words in [one.get("value") for one in properties if one.get("name") == "conclusion"]


def test_the_letter_is_named(suite):
    report = judged(suite, "core/handshake/*", profile="as-written")
    assert sentence(report) == "core: conformant to the letter in the selected cases"


def test_what_only_a_declaration_tells_can_be_claimed(suite):
    select = ("core/handshake/ping-first", "pip191/carry/old-broker", "pip191/filter/live")
    silent = judged(suite, *select, capabilities={})
    assert sentence(silent) == "core: conformant in the selected cases; served but not announced: PIP-191"
    told = {one.case: one.summary for one in silent.results}
    assert told["pip191/filter/live"].endswith("; if it has, declare it with --claim property-entry-filter")
    assert told["pip191/carry/old-broker"].endswith(": if it has, declare it with --claim property-entry-filter")
    claimed = judged(suite, *select, capabilities={}, claims=["property-entry-filter"])
    assert sentence(claimed) == "core, PIP-191: conformant in the selected cases"


def test_message_filters_can_be_claimed_without_a_flag(suite):
    report = judged(
        suite, *FEW["pr7629"], fault=forgets_the_flag("pr7629"), capabilities={"scalable-layout": True}, claims=["message-filter"]
    )
    assert sentence(report) == "PR 7629: conformant in the selected cases"
    assert [one.case for one in report.results if one.verdict == "NOT-APPLICABLE" and one.case == "pr7629/flag/advertised"]


def test_a_broker_with_the_watch_and_no_layouts_is_not_judged_by_layouts(suite):
    def unknown(session, request, frame):
        raise ProtocolViolation("unknown")

    def no_layouts(patches):
        patches.handlers(lambda name, handler: unknown if name.startswith("scalableTopic") else handler)

    select = ("pr25648/diff/create", "pr25648/layout/one-segment")
    assert sentence(judged(suite, *select, fault=no_layouts, capabilities={})) == (
        "PR 25648: conformant in the selected cases; not claimed: PR 25648 layouts"
    )
    assert judged(suite, *select, fault=no_layouts, capabilities={}, claims=["scalable-layout"]).exit_code == EXIT_NOT_CONFORMANT
    assert sentence(judged(suite, *select, capabilities={})) == "PR 25648: conformant in the selected cases"


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("apache-pulsar@2.10.5", ("PIP-145", "PR 7629", "PIP-247", "PR 25648", "PIP-191")),
        ("apache-pulsar@4.2.4", ("PR 7629", "PIP-247", "PR 25648", "PIP-191")),
        ("apache-pulsar@5.0.0-M1", ("PR 7629", "PIP-247", "PIP-191")),
    ],
)
def test_releases_do_not_claim_what_they_do_not_have(suite, target, names):
    cases = [case.id for case in suite.transcripts.values() if "/flag/" in case.id or "/handshake/" in case.id or "/carry/" in case.id]
    run = recorder.load_target(target, only=cases)
    claims = build_report(suite, run, load_baseline(target), date(2026, 1, 1)).claims
    assert claims.not_claimed == names
    assert claims.unannounced == ()


def test_without_admin_calls_for_scalable_topics_their_cases_are_untestable(suite, monkeypatch):
    async def missing(_):
        return frozenset({"create_scalable_topic"})

    monkeypatch.setattr("conformance.running.runner.missing_operations", missing)
    report = judged(suite, "pr25648/diff/create", "pr25648/flag/advertised")
    told = {one.case: (str(one.verdict), one.summary) for one in report.results}
    assert told["pr25648/diff/create"] == ("UNTESTABLE", "the admin interface of the target has no create_scalable_topic")
    assert told["pr25648/flag/advertised"][0] == "PASS"


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"property-entry-filer": True}, "e declares an unknown capability property-entry-filer; did you mean 'property-entry-filter'?"),
        ({"partition-watch": True}, "e declares partition-watch, but its CONNECTED does not set supports_partition_update_watchers"),
    ],
)
def test_a_declaration_is_checked(declared, words):
    async def main():
        async with InProcessTarget().run() as endpoint:
            await probe(claimed(replace(endpoint, name="e", capabilities=declared), []))

    with patched(forgets_the_flag("pip247")), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, pytest.raises(TargetError) as caught:
        runner.run(main())
    assert str(caught.value).startswith(words)


def test_a_file_and_the_command_line_declare_alike():
    file = Endpoint(name="e", service_url="pulsar://h", capabilities={"scalable-layout": False, "message-filter": True})
    line = Endpoint(name="e", service_url="pulsar://h", capabilities={"scalable-layout": False})
    assert claimed(line, ["message-filter"]) == file
