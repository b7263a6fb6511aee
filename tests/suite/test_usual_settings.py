"""A broker whose settings are others than cases take for granted is judged all the same: namespaces of the run have policies of their own."""

import asyncio
import re
from pathlib import Path

import pytest

import conformance
from conformance.engine.verdict import Verdict
from conformance.judging.results import judge_log
from conformance.report.wording import given_policies
from conformance.running.probe import probe
from conformance.running.runner import Options, Silent, run_suite
from conformance.running.usual import AUTO_CREATION, USUAL, unusual, with_usual_policies
from conformance.targets import AdminClient, AdminResult, AttachedTarget, Endpoint, InProcessTarget
from refimpl.configuration import Configuration
from refimpl.net.embedded import EmbeddedBroker

OWN, USUAL_NAMESPACE = "core/producer/creates-topic", "core/command/unknown-field"
CREATED = {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}


def judged(suite, broker, select=(OWN, USUAL_NAMESPACE), **fields):
    """Run cases, by default one with a namespace of its own and one in public/default; return the header and the verdicts."""

    async def main():
        async with broker as running:
            target = AttachedTarget(Endpoint(name="x", service_url=running.service_url, admin_url=running.admin_url, **fields))
            options = Options(select=select)
            run, stopped = await run_suite(suite, target, options, lambda _: None, Silent())
            assert stopped is None
            return run.header, {one.case: one.verdict for one in judge_log(suite, run).results}

    return asyncio.run(main())


@pytest.mark.parametrize("setting", [{"allowAutoTopicCreation": "false"}, {"allowAutoTopicCreationType": "partitioned"}])
def test_topics_are_created_in_the_namespaces_of_a_run_if_the_broker_creates_none(suite, setting):
    header, verdicts = judged(suite, EmbeddedBroker(setting))
    assert (header.namespace_policies, header.capabilities["auto-creation"]) == ({AUTO_CREATION: CREATED}, False)
    assert verdicts == {OWN: Verdict.PASS, USUAL_NAMESPACE: Verdict.NOT_APPLICABLE}


def test_a_broker_with_the_usual_settings_is_given_no_policies(suite):
    header, verdicts = judged(suite, EmbeddedBroker())
    assert (header.namespace_policies, header.capabilities["auto-creation"]) == ({}, True)
    assert set(verdicts.values()) == {Verdict.PASS}


def test_namespaces_whose_deletion_can_not_be_forced_are_deleted_topic_by_topic(suite):
    cases = ("pip145/watch/unknown-namespace", "pip145/update/namespace-deleted*", "pip145/list/other-namespace", "core/push/namespace-*")
    _, verdicts = judged(suite, EmbeddedBroker({"forceDeleteNamespaceAllowed": "false"}), cases)
    assert set(verdicts.values()) == {Verdict.PASS}, verdicts


def test_cells_that_name_topics_of_a_domain_that_is_switched_off_accuse_nobody(suite):
    cases = ("core/deliver/partition-index", "core/deliver/non-persistent", "core/push/neighbours", "core/ack/many")
    told = {"enableNonPersistentTopics": "false"}

    async def main():
        async with EmbeddedBroker() as broker:
            target = AttachedTarget(Endpoint(name="x", service_url=broker.service_url, admin_url=broker.admin_url, config=told))
            run, _ = await run_suite(suite, target, Options(select=cases), lambda _: None, Silent())
            return {"".join([one.case, *one.cell.values()]): (one.verdict, one.summary) for one in judge_log(suite, run).results}

    found = asyncio.run(main())
    assert found["core/deliver/non-persistent"] == (
        Verdict.UNTESTABLE,
        "the target has enableNonPersistentTopics=false, and the case names such topics",
    )
    passed = {name for name, (verdict, _) in found.items() if verdict == Verdict.PASS}
    assert passed == {"core/ack/many", *(name for name in found if name.startswith("core/deliver/partition-indexpersistent"))}
    assert len(passed) > 1


@pytest.mark.parametrize(("types", "has"), [("[Exclusive, Failover]", False), ("[Exclusive, Key_Shared]", True), (None, True)])
def test_a_type_of_subscriptions_that_the_broker_has_switched_off_is_not_claimed(types, has):
    """Its policies can't switch Key_Shared on in a namespace (observed on 4.2.4)."""

    async def main():
        async with EmbeddedBroker() as broker:
            config = {} if types is None else {"subscriptionTypesEnabled": types}
            endpoint = Endpoint(name="x", service_url=broker.service_url, admin_url=broker.admin_url, config=config)
            return (await probe(endpoint)).capabilities["key-shared"]

    assert asyncio.run(main()) is has


def test_a_setting_that_is_not_listed_can_be_told(suite):
    header, _ = judged(suite, EmbeddedBroker(), config={"maxProducersPerTopic": "2", "allowAutoTopicCreation": "false"})
    assert set(header.namespace_policies) <= {AUTO_CREATION}, "what the broker does not take, it is not given"


@pytest.mark.parametrize("refused", ["create", "read"])
def test_what_is_not_taken_is_not_given(monkeypatch, suite, refused):
    usual = AdminClient.call

    async def call(self, op, args=None):
        if op == "create_namespace" and self.endpoint.namespace_policies and refused == "create":
            return AdminResult(400, None, "what is this?")
        answer = await usual(self, op, args)
        return AdminResult(200, {}, "") if op == "namespace_exists" and refused == "read" else answer

    monkeypatch.setattr(AdminClient, "call", call)
    header, verdicts = judged(suite, EmbeddedBroker({"allowAutoTopicCreation": "false"}))
    assert header.namespace_policies == {}
    assert verdicts == {OWN: Verdict.NOT_APPLICABLE, USUAL_NAMESPACE: Verdict.NOT_APPLICABLE}


def test_a_case_keeps_the_settings_that_it_asks_for():
    async def main():
        async with EmbeddedBroker({"allowAutoTopicCreation": "false"}) as broker:
            endpoint = Endpoint(name="x", service_url=broker.service_url, admin_url=broker.admin_url)
            asked = await with_usual_policies(endpoint, {"allowAutoTopicCreationType": "partitioned"})
            return asked.namespace_policies, (await with_usual_policies(endpoint, {"keepAliveIntervalSeconds": "1"})).namespace_policies

    assert asyncio.run(main()) == ({}, {AUTO_CREATION: CREATED})


def test_rates_are_lifted_in_each_cluster(monkeypatch):
    usual, made = AdminClient.call, []

    async def call(self, op, args=None):
        if op == "create_namespace":
            made.append(dict(self.endpoint.namespace_policies))
            return AdminResult(204, None, "")
        if op == "namespace_exists":
            return AdminResult(200, made[-1], "")
        return AdminResult(200, ["east", "west"], "") if op == "clusters" else await usual(self, op, args)

    monkeypatch.setattr(AdminClient, "call", call)

    async def main():
        async with EmbeddedBroker() as broker:
            told = {"subscribeThrottlingRatePerConsumer": "3", "maxProducersPerTopic": "2"}
            endpoint = Endpoint(name="x", service_url=broker.service_url, admin_url=broker.admin_url, config=told)
            return (await with_usual_policies(endpoint)).namespace_policies

    policies = asyncio.run(main())
    assert policies.keys() == {"clusterSubscribeRate", "max_producers_per_topic"}
    assert policies["clusterSubscribeRate"].keys() == {"east", "west"}


@pytest.mark.parametrize(
    ("case", "settings", "reason"),
    [
        ("pip145/list/filter", {"enableBrokerSideSubscriptionPatternEvaluation": "true"}, None),
        (
            "pip145/list/filter",
            {"enableBrokerSideSubscriptionPatternEvaluation": "false"},
            "the target has enableBrokerSideSubscriptionPatternEvaluation=false, and the case takes true for granted",
        ),
        (
            "core/flags/topic-watcher-reconcile",
            {"enableBrokerSideSubscriptionPatternEvaluation": "false"},
            "the target has enableBrokerSideSubscriptionPatternEvaluation=false, and the case takes true for granted",
        ),
        ("pip145/compat/switch-off", {"enableBrokerSideSubscriptionPatternEvaluation": "false"}, None),
        (
            "pip145/pattern/length",
            {"subscriptionPatternMaxLength": "200"},
            "the target has subscriptionPatternMaxLength=200, and the case takes 50 for granted",
        ),
        ("pip145/pattern/length", {}, None),
        (
            "pip145/list/filter",
            {"subscriptionPatternMaxLength": "49"},
            "the target has subscriptionPatternMaxLength=49, and the case takes 50 or more for granted",
        ),
        ("pip145/list/filter", {"subscriptionPatternMaxLength": "200"}, None),
        ("pip145/watch/pattern-length-setting", {"subscriptionPatternMaxLength": "10"}, None),
        ("core/producer/names", {"enableBrokerSideSubscriptionPatternEvaluation": "false"}, None),
    ],
)
def test_a_setting_that_a_case_takes_for_granted_is_named(suite, case, settings, reason):
    assert unusual(suite.transcripts[case], settings) == reason


def test_cases_in_which_deliveries_are_counted_take_that_for_granted(suite):
    folder = Path(conformance.__file__).parent / "transcripts"
    texts = {
        name: (folder / f"{name}.yaml").read_text(encoding="utf-8") for name, case in suite.transcripts.items() if "broker" in case.tests
    }
    counting = {name for name, text in texts.items() if re.search(r"message: .*redelivery_count: ([1-9]|{\$(any|gt))", text)}
    assert len(counting) > 10
    assert counting <= {name for name in texts if "subscriptionRedeliveryTrackerEnabled" in suite.transcripts[name].assumes}


def test_patterns_are_no_longer_than_brokers_take_even_late_in_a_run(suite):
    folder = Path(conformance.__file__).parent / "transcripts"
    longest = 50 - len("persistent://public/pc-0123-456/")
    for name, case in suite.transcripts.items():
        if "broker" in case.tests and "subscriptionPatternMaxLength" not in {**case.target_config, **case.assumes}:
            text = (folder / f"{name}.yaml").read_text(encoding="utf-8").replace("\\\\", "\\").replace("${i}", "179")
            found = re.findall(r'pattern: "persistent://\$\{ns\}/([^"$]*)"', text)
            assert max(map(len, found), default=0) <= longest, name


def test_what_a_case_takes_for_granted_is_what_the_reference_has(suite):
    usual = Configuration().settings()
    taken = {(key, value) for case in suite.transcripts.values() for key, value in case.assumes.items()}
    assert {key: value for key, value in taken if key in usual} == {key: usual[key] for key, _ in taken if key in usual}


def test_the_usual_settings_are_those_of_the_reference():
    async def main():
        async with InProcessTarget("default", None, 1).run() as endpoint, AdminClient(endpoint) as admin:
            return (await admin.call("runtime_configuration")).body

    listed = asyncio.run(main())
    assert {key: listed[key] for key in USUAL.keys() & listed.keys()} == {key: USUAL[key][0] for key in USUAL.keys() & listed.keys()}


def test_the_policies_are_told():
    told = given_policies({"b": 1, "a": 2})
    assert told == "the namespaces of the run have a, b of their own, since the broker's settings are not the usual ones"
