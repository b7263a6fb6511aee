"""Which broker of a cluster a case is held at: look-ups are followed as clients do, and only to hosts that the user named."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from conformance.engine.verdict import Verdict
from conformance.judging.results import judge_log
from conformance.running import owners as module
from conformance.running.in_process import run_in_process
from conformance.running.owners import OWNER_NAMED, Owners, behind, look_up, owners
from conformance.running.probe import probe
from conformance.suite import load_suite
from conformance.targets import AdminResult, Endpoint, TargetError
from refimpl.broker.bundles import bundle_of
from refimpl.broker.members import Directions, Members
from refimpl.wire import command, command_name, encode_frame
from tests.fakes.peers import Peer, running

REDIRECT, CONNECT, FAILED = 0, 1, 2
NOT_READY, REFUSED = 6, 10
NAMED, OTHER = "pulsar://in-process:6650", "pulsar://in-process:6651"


class Broker(Peer):
    """A broker that answers look-ups by a table of namespaces, else with Connect; it is told where the others are."""

    def __init__(self):
        self.url = ""
        self.answers = {}
        self.asked = []
        self.proxied_to = []

    async def answer(self, frame, writer):
        if command_name(frame.command) == "connect":
            self.proxied_to.append(frame.command.connect.proxy_to_broker_url)
        if command_name(frame.command) != "lookupTopic":
            await super().answer(frame, writer)
            return
        request = frame.command.lookupTopic
        namespace = request.topic.removeprefix("persistent://").rpartition("/")[0]
        self.asked.append((namespace, request.authoritative, request.advertised_listener_name))
        given = self.answers.get(namespace, [{"response": CONNECT}])
        fields = given.pop(0) if len(given) > 1 else given[0]
        fields = {"brokerServiceUrl": self.url, **fields} if fields["response"] != FAILED else fields
        writer.write(encode_frame(command("lookupTopicResponse", request_id=request.request_id, **fields)))


class Unloading:
    """An admin interface that only unloads, and what happens then."""

    def __init__(self, happens):
        self.happens = happens
        self.calls = []

    async def call(self, op, args=None):
        self.calls.append((op, args))
        self.happens(args)
        return AdminResult(204, None, "")

    async def remove_namespace(self, namespace):
        return await self.call("remove_namespace", namespace)


class NoCluster:
    """An admin interface of one broker."""

    async def call(self, op, args=None):
        return AdminResult(200, ["one:8080"], "")


class ToldToNobody:
    """An admin interface that names the brokers to superusers only."""

    async def call(self, op, args=None):
        return AdminResult(401, {"reason": "needs to be a super user"}, "needs to be a super user")


def with_two(work):
    """Run `work` with two brokers and the endpoint of the first one."""

    async def main():
        async with AsyncExitStack() as stack:
            brokers = Broker(), Broker()
            endpoints = [(await stack.enter_async_context(running(broker))).endpoint for broker in brokers]
            for broker, endpoint in zip(brokers, endpoints, strict=True):
                broker.url = endpoint.service_url
            return await work(*brokers, endpoints[0])

    return asyncio.run(main())


def test_a_redirect_is_followed_with_what_it_says():
    async def work(first, second, endpoint):
        first.answers["t/n"] = [{"response": REDIRECT, "brokerServiceUrl": second.url, "authoritative": True}]
        found = await look_up(replace(endpoint, listener="outside"), "t/n")
        return found.service_url == second.url, first.asked, second.asked

    assert with_two(work) == (True, [("t/n", False, "outside")], [("t/n", True, "outside")])


def test_connect_may_name_another_broker():
    async def work(first, second, endpoint):
        first.answers["t/n"] = [{"response": CONNECT, "brokerServiceUrl": second.url}]
        return (await look_up(endpoint, "t/n")).service_url == second.url

    assert with_two(work)


def test_a_broker_may_call_itself_by_another_name():
    async def work(first, _, endpoint):
        first.answers["t/n"] = [{"response": CONNECT, "brokerServiceUrl": endpoint.service_url.replace("127.0.0.1", "localhost")}]
        return (await look_up(endpoint, "t/n")).service_url == endpoint.service_url

    assert with_two(work)


def test_a_broker_that_is_not_ready_is_asked_again(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE", 0.0)

    async def work(first, _, endpoint):
        first.answers["t/n"] = [{"response": FAILED, "error": NOT_READY}, {"response": FAILED, "error": NOT_READY}, {"response": CONNECT}]
        return (await look_up(endpoint, "t/n")) is endpoint, len(first.asked)

    assert with_two(work) == (True, 3)


@pytest.mark.parametrize("inside", ["inside:6650", "[fd00::1]:6650"])
def test_a_proxy_is_told_the_broker_in_connect(inside):
    async def work(first, second, endpoint):
        proxied = {"response": CONNECT, "brokerServiceUrl": f"pulsar://{inside}", "proxy_through_service_url": True}
        first.answers["t/n"] = first.answers["public/default"] = [proxied]
        found = await look_up(endpoint, "t/n")
        assert (found.service_url, found.proxy_to, found.broker) == (endpoint.service_url, inside, f"pulsar://{inside}")
        reached = await behind(endpoint)
        assert (reached.service_url, reached.proxy_to) == (endpoint.service_url, inside)
        assert await owners(reached, NoCluster()) is None
        first.answers["t/n"] = [{"response": CONNECT, "brokerServiceUrl": "pulsar://inside-2:6650"}]  # the broker knows of no proxy
        again = await look_up(found, "t/n")
        return again.service_url == endpoint.service_url, again.proxy_to, first.proxied_to[-1]

    assert with_two(work) == (True, "inside-2:6650", inside)


def test_a_standalone_broker_is_no_proxy():
    async def work(first, _, endpoint):
        first.answers["public/default"] = [{"response": CONNECT, "proxy_through_service_url": True}]
        return await behind(endpoint) is endpoint, await owners(endpoint, NoCluster())

    assert with_two(work) == (True, None)


def test_a_broker_that_minds_a_broker_in_connect_is_behind_a_proxy():
    class Proxy(Broker):
        async def answer(self, frame, writer):
            if frame.command.connect.proxy_to_broker_url not in ("", "inside:6650"):
                refused = command("error", request_id=0, error=NOT_READY, message="Target broker cannot be validated.")
                writer.write(encode_frame(refused))
            else:
                await super().answer(frame, writer)

    async def direct(peer):
        proxied = {"response": CONNECT, "brokerServiceUrl": "pulsar://inside:6650", "proxy_through_service_url": True}
        peer.answers["public/default"] = [proxied]
        async with running(peer) as target:
            return (await probe(await behind(target.endpoint))).capabilities["direct"]

    assert asyncio.run(direct(Proxy())) is False
    assert asyncio.run(direct(Broker())) is True, "a single broker that calls its host by another name"


@pytest.mark.parametrize(("balanced", "named_owns"), [(True, False), (False, False), (False, True)])
def test_a_case_without_namespaces_is_not_held_at_a_load_balancer(balanced, named_owns):
    """An address that no look-up ever names, while as many others are named as there are brokers, is that of none of them."""

    class Listed(Unloading):
        async def call(self, op, args=None):
            return AdminResult(200, ["a:1", "b:1"], "") if op == "brokers" else AdminResult(204, None, "")

    async def work(first, second, endpoint):
        away = {"response": CONNECT, "brokerServiceUrl": second.url}
        third = {"response": CONNECT, "brokerServiceUrl": first.url if not balanced else "pulsar://127.0.0.1:1"}
        first.answers["public/default"] = [{"response": CONNECT} if named_owns else away]
        first.answers["public/pc-brokers"] = [away, third]
        found = Owners(endpoint, Listed(lambda _: None))
        return (await found.of([])).service_url == (second.url if balanced else endpoint.service_url), len(first.asked) > 5

    assert with_two(work) == (True, not named_owns)


def test_another_broker_is_looked_for_in_the_bundles_of_a_new_namespace():
    async def work(first, second, endpoint):
        first.answers["public/pc-brokers"] = [{"response": CONNECT}, {"response": CONNECT, "brokerServiceUrl": second.url}]
        admin = Unloading(lambda _: None)
        found = Owners(endpoint, admin)
        other = await found.other(endpoint)
        assert other.service_url == second.url
        assert (await found.other(other)).service_url == endpoint.service_url
        return [op for op, _ in admin.calls]

    assert with_two(work) == ["create_namespace", "remove_namespace"]


def test_a_cluster_whose_other_brokers_take_nothing_is_told():
    async def work(_, __, endpoint):
        with pytest.raises(TargetError, match="no other broker of the cluster"):
            await Owners(endpoint, Unloading(lambda _: None)).other(endpoint)

    with_two(work)


def test_where_who_is_asked_takes_a_topic_each_broker_is_asked_over_http(monkeypatch):
    rightly = Members.look_up

    def takes(self, asked, namespace, topic, *, authoritative):
        return rightly(self, asked, namespace, topic, authoritative=True)

    monkeypatch.setattr(Members, "look_up", takes)
    results = judge_log(load_suite(), run_in_process(load_suite(), ["core/cluster/lists"], "default", 2)).results
    assert [one.verdict for one in results] == [Verdict.PASS]


def test_a_case_without_namespaces_is_held_where_a_look_up_says(monkeypatch):
    rightly = Members.look_up

    def second_serves(self, asked, namespace, topic, *, authoritative):
        self.give(namespace, bundle_of(topic, self._store.namespaces[namespace].bundles), self.running[1])
        return rightly(self, asked, namespace, topic, authoritative=authoritative)

    monkeypatch.setattr(Members, "look_up", second_serves)
    results = judge_log(load_suite(), run_in_process(load_suite(), ["pip145/list/mode-unknown"], "default", 2)).results
    assert [one.verdict for one in results] == [Verdict.PASS]


def test_a_case_that_only_looks_topics_up_need_not_be_held_where_they_are_served(monkeypatch):
    def spread(self, asked, namespace, topic, *, authoritative):
        return Directions(self.running[topic.endswith("2")], redirect=False, authoritative=True)

    monkeypatch.setattr(Members, "look_up", spread)
    results = judge_log(load_suite(), run_in_process(load_suite(), ["core/request/id-reused"], "default", 2)).results
    assert [one.verdict for one in results] == [Verdict.PASS]


@pytest.mark.parametrize(
    ("case", "broker"),
    [
        ("pip145/update/created-again", OTHER),
        ("pip247/update/growth", OTHER),
        ("core/cluster/moved", NAMED),
    ],
)
def test_what_any_broker_answers_is_asked_of_another_one_than_the_owner(case, broker):
    run = run_in_process(load_suite(), [case], "default", 2)
    held_at = {one.begin.broker for one in run.trial_logs.values()}
    assert held_at == {broker}
    assert {one.verdict for one in judge_log(load_suite(), run).results} == {Verdict.PASS}


def test_the_broker_that_the_user_named_may_take_the_namespace():
    async def work(first, second, endpoint):
        await Owners(endpoint, NoCluster()).of(["t/a"], named=True)
        return first.asked

    assert with_two(work) == [("t/a", True, "")]


def test_a_loop_ends():
    async def work(first, second, endpoint):
        first.answers["t/n"] = [{"response": REDIRECT, "brokerServiceUrl": second.url}]
        second.answers["t/n"] = [{"response": REDIRECT, "brokerServiceUrl": first.url}]
        with pytest.raises(TargetError, match="redirected more than 8 times") as error:
            await look_up(endpoint, "t/n")
        return len(first.asked) + len(second.asked), error.value.clause

    assert with_two(work) == (8, "core.cluster.owner-named")


def test_a_redirect_to_the_broker_that_was_asked_ends_at_once():
    async def work(first, _, endpoint):
        first.answers["t/n"] = [{"response": REDIRECT, "brokerServiceUrl": first.url}]
        with pytest.raises(TargetError, match="redirects a look-up to itself") as error:
            await look_up(endpoint, "t/n")
        return len(first.asked), error.value.clause

    assert with_two(work) == (1, "core.cluster.owner-named")


def test_a_cluster_that_sends_look_ups_in_circles_fails_the_clause_about_them_and_no_other(monkeypatch):
    suite = load_suite()
    rightly = Members.look_up

    def asked_again(self, asked, *where, authoritative):
        return rightly(self, asked, *where, authoritative=authoritative)._replace(authoritative=False)

    monkeypatch.setattr(Members, "look_up", asked_again)
    run = run_in_process(suite, ["core/cluster/look-up", "core/cluster/lists", "pip145/list/mode-unknown"], "default", 2)
    results = {one.case: one for one in judge_log(suite, run).results}
    assert {case: one.verdict for case, one in results.items() if one.clauses.get(OWNER_NAMED)} == {"core/cluster/look-up": Verdict.FAIL}
    assert {one.verdict for case, one in results.items() if case != "core/cluster/look-up"} <= {Verdict.UNTESTABLE, Verdict.PASS}
    assert results["core/cluster/lists"].summary == f"a look-up is redirected more than 8 times: {OWNER_NAMED}"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"response": FAILED, "error": REFUSED, "message": "no"}, "the look-up of .*t/n/.* fails: .* no"),
        ({"response": REDIRECT, "brokerServiceUrl": "pulsar://elsewhere:6650"}, "pulsar://elsewhere:6650.*--allow-host elsewhere"),
    ],
)
def test_what_leads_nowhere_is_told(answer, words):
    async def work(first, _, endpoint):
        first.answers["t/n"] = [answer]
        with pytest.raises(TargetError, match=words):
            await look_up(endpoint, "t/n")

    with_two(work)


def test_namespaces_of_a_case_are_brought_together():
    async def work(first, second, endpoint):
        first.answers["t/a"] = [{"response": REDIRECT, "brokerServiceUrl": second.url}]
        second.answers["t/b"] = [{"response": REDIRECT, "brokerServiceUrl": first.url}]
        admin = Unloading(second.answers.pop)
        owner = await Owners(endpoint, admin).of(["t/a", "t/b"])
        return owner.service_url == second.url, admin.calls

    assert with_two(work) == (True, [("unload_namespace", "t/b")])


def test_a_cluster_that_chooses_by_itself_is_told_the_broker():
    destinations = []

    class Choosing(Unloading):
        async def call(self, op, args=None):
            if op == "brokers":
                return AdminResult(200, ["one:8080", "two:8080"], "")
            if op == "unload_bundle":
                destinations.append(args["destination"])
            self.happens(op, args)
            return AdminResult(204, None, "")

    async def work(first, second, endpoint):
        first.answers["t/n"] = [{"response": CONNECT, "brokerServiceUrl": second.url}]

        def unloaded(op, args):
            if op == "unload_bundle" and args["destination"] == "two:8080":
                first.answers.clear()

        await Owners(endpoint, Choosing(unloaded)).bring("t/n", endpoint)

    with_two(work)
    assert destinations == ["one:8080", "two:8080"]


def test_namespaces_that_stay_apart_are_told():
    async def work(first, second, endpoint):
        first.answers["t/b"] = [{"response": REDIRECT, "brokerServiceUrl": second.url}]
        with pytest.raises(TargetError, match="t/b stays at another broker"):
            await Owners(endpoint, Unloading(lambda _: None)).of(["t/a", "t/b"])

    with_two(work)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("pulsar://broker-1:6651", True),
        ("http://admin:8080", True),
        ("pulsar://broker-2:6650", True),
        ("pulsar://broker-3:6650", False),
        ("pulsar://localhost:6650", False),
    ],
)
def test_only_named_hosts_are_allowed(url, allowed):
    endpoint = Endpoint(name="c", service_url="pulsar://broker-1", admin_url="http://admin", allow_hosts=("broker-2",))
    assert endpoint.allows(url) is allowed
    assert Endpoint(name="c", service_url="pulsar://127.0.0.1:1").allows("http://localhost:2")


def test_look_ups_are_followed_where_the_user_is_not_told_how_many_brokers_there_are():
    async def work(one, two, endpoint):
        one.answers["public/b"] = [{"response": REDIRECT, "brokerServiceUrl": two.url}]
        found = await owners(endpoint, ToldToNobody())
        return [(await found.of([name])).service_url for name in ("public/a", "public/b")] == [one.url, two.url]

    assert with_two(work)
