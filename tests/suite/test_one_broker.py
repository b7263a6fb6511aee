"""A service URL and an admin URL of two brokers are told before anything is judged; those of one broker, or cluster, never are."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from typer.testing import CliRunner

from conformance.cli import app
from conformance.judging.results import judge_log
from conformance.running import one_broker as module
from conformance.running.one_broker import check_one_broker, see_one_broker
from conformance.running.runner import Options, Silent, run_suite
from conformance.suite import load_suite
from conformance.targets import AdminClient, AdminResult, AttachedTarget, Endpoint, TargetError, WrongUsage
from refimpl.net.embedded import EmbeddedBroker
from refimpl.wire import command, command_name, encode_frame
from tests.fakes.peers import Peer, running
from tests.samples.cases import OWN_NAMESPACE


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 0.5)


def with_two(work):
    """Run `work` with the addresses of two brokers."""

    async def main():
        async with EmbeddedBroker() as first, EmbeddedBroker() as second:
            return await work(first, second)

    return asyncio.run(main())


def endpoint(of, admin):
    return Endpoint(name="x", service_url=of.service_url, admin_url=admin.admin_url)


def namespaces(one):
    async def ask():
        async with AdminClient(one) as admin:
            return (await admin.call("namespaces", "public")).body

    return ask()


def test_the_admin_url_of_another_broker_is_refused_and_nothing_is_left_there():
    async def work(first, second):
        with pytest.raises(WrongUsage) as caught:
            await see_one_broker(endpoint(first, second))
        left = [await namespaces(endpoint(one, one)) for one in (first, second)]
        return str(caught.value) == (
            f"{first.service_url} and {second.admin_url} are two brokers: 0.5 s after a topic was created at the second address, "
            "the first one does not know it (give --admin-url of the same broker, or cluster)"
        ), left

    assert with_two(work) == (True, [["public/default"], ["public/default"]])


def test_one_broker_is_seen_as_one():
    async def work(first, _):
        await see_one_broker(endpoint(first, first))
        return await namespaces(endpoint(first, first))

    assert with_two(work) == ["public/default"]


@pytest.mark.parametrize("command", [["run", "--select", "core/deliver/order"], ["doctor"], ["explore", "--scenarios", "1"]])
def test_it_is_wrong_usage(command, tmp_path):
    report = [] if command[0] == "doctor" else ["--report", str(tmp_path)]
    with EmbeddedBroker() as first, EmbeddedBroker() as second:
        addresses = first.service_url, second.admin_url
        found = CliRunner().invoke(app, [command[0], addresses[0], "--admin-url", addresses[1], *command[1:], *report])
    assert found.exit_code == 2
    assert f"{addresses[0]} and {addresses[1]} are two brokers" in found.output


def test_a_run_on_one_cluster_removes_the_namespace_at_its_end(tmp_path):
    with EmbeddedBroker(brokers=2) as broker:
        at = [broker.service_url, "--admin-url", broker.admin_url]
        found = CliRunner().invoke(app, ["run", *at, "--select", "core/deliver/order", "--report", str(tmp_path)])
        assert found.exit_code == 0, found.output
        assert asyncio.run(namespaces(endpoint(broker, broker))) == ["public/default"]


class Says(Peer):
    """Answers both questions as it is told to: a number of partitions, and whether it lists the topic; None: not at all."""

    def __init__(self, partitions, listed):
        self.partitions, self.listed = partitions, listed

    async def answer(self, frame, writer):
        name, message = command_name(frame.command), getattr(frame.command, command_name(frame.command))
        if name == "partitionMetadata" and self.partitions is not None:
            fields = {"request_id": message.request_id, "partitions": self.partitions}
            writer.write(encode_frame(command("partitionMetadataResponse", **fields)))
        elif name == "getTopicsOfNamespace" and self.listed is not None:
            topics = [f"persistent://{message.namespace}/one-broker-partition-0"] if self.listed else []
            writer.write(encode_frame(command("getTopicsOfNamespaceResponse", request_id=message.request_id, topics=topics)))
        elif name == "connect":
            await super().answer(frame, writer)


class Admin:
    """An admin interface that creates everything, or refuses."""

    def __init__(self, status=204):
        self.status = status

    async def call(self, op, args=None):
        return AdminResult(self.status, None, "" if self.status == 204 else "no")

    async def remove_namespace(self, namespace):
        return await self.call("delete_namespace")


def checked(peer, admin):
    async def main():
        async with AsyncExitStack() as stack:
            target: AttachedTarget = await stack.enter_async_context(running(peer))
            return await check_one_broker(target.endpoint, admin)

    return asyncio.run(main())


@pytest.mark.parametrize(("partitions", "listed"), [(3, False), (0, True), (None, False), (0, None)])
def test_a_broker_with_one_fault_is_judged_and_not_refused(partitions, listed):
    found = checked(Says(partitions, listed), Admin())
    assert found.namespace.startswith("public/pc-")
    assert found.missing == {}


def test_a_broker_that_knows_it_in_no_way_is_another_one():
    with pytest.raises(WrongUsage):
        checked(Says(0, False), Admin())


@pytest.mark.parametrize(
    ("status", "missing"), [(409, {}), (500, {}), (404, {"create_namespace": "404 no"}), (501, {"create_namespace": "501 no"})]
)
def test_nothing_is_refused_where_no_namespace_can_be_created(status, missing):
    found = checked(Says(0, False), Admin(status))
    assert (found.namespace, found.missing) == (None, missing)


def test_who_may_create_no_namespaces_is_told():
    with pytest.raises(TargetError, match=r"refuses to create namespace .* with 403 no \(give the token of an administrator"):
        checked(Says(0, False), Admin(403))


def test_cases_that_need_namespaces_are_untestable_without_an_interface_that_creates_some(add, monkeypatch):
    async def without(endpoint, admin):
        return module.Checked(missing={"create_namespace": "501 not offered"})

    monkeypatch.setattr("conformance.running.runner.check_one_broker", without)
    home = add(OWN_NAMESPACE, "test/own")

    async def work(first, _):
        suite, target = load_suite(home), AttachedTarget(endpoint(first, first))
        run, _ = await run_suite(suite, target, Options(), lambda _: None, Silent())
        return {(one.verdict, one.summary) for one in judge_log(suite, run).results}

    assert with_two(work) == {("UNTESTABLE", "the admin interface of the target has no create_namespace: it answers 501 not offered")}
