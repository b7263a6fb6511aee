"""The admin interface without HTTP: every route, every status, names of all kinds, who may."""

from __future__ import annotations

import inspect
import json
import re
from functools import partial
from itertools import pairwise
from urllib.parse import quote

import jwt
import pytest

from conformance.targets.operations import OPERATIONS
from refimpl.broker import Broker, Configuration, Member
from refimpl.broker.admin import Admin
from refimpl.broker.rest import ROUTES, handle
from refimpl.broker.rest_arguments import PARTITIONED
from refimpl.broker.unsupported import UNSUPPORTED
from refimpl.proposals.administration import AdminRequest
from refimpl.wire.pulsar_api_pb2 import MessageMetadata
from tests.fakes.admin_calls import ask, call, publish
from tests.fakes.broker_peer import Peer

NS = "public/default"
T = f"persistent://{NS}/t"
VALUES = {
    "tenant": "acme", "namespace": "public/n", "topic": T, "role": "reader", "actions": ["consume"], "partitions": 2,
    "subscription": "s", "properties": {}, "count": 2, "timestamp": 0,
    "of": "public/n", "policy": "deduplication", "value": True, "bundle": "0x00000000_0x40000000", "seconds": 5,
    "message_id": {"ledgerId": 0, "entryId": 0},
}  # fmt: skip
PRIVATE = {"authenticate"}


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_every_operation_of_the_suite_has_a_route_and_none_is_answered_as_unknown():
    for op, operation in OPERATIONS.items():
        broker = Broker()
        arguments = {name: VALUES[name] for name in operation.required}
        arguments |= {"topic": f"topic://{NS}/t"} if "scalable_topic" in op and "topic" in arguments else {}
        arguments |= {"allowed_clusters": []} if op == "create_tenant" else {}
        status, body = call(broker, op, arguments)
        unknown = isinstance(body, dict) and re.match(r"there is nothing at|.* takes ", str(body.get("reason")))
        assert status < 500, (op, status, body)
        assert not unknown, (op, body)


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_what_is_served_goes_before_what_is_not(domain):
    assert handle(Broker(), AdminRequest("GET", f"/admin/v2/{domain}/public/default/partitioned"), 0.0).status == 200


def test_every_operation_of_the_broker_has_a_route():
    operations = {name for name, _ in inspect.getmembers(Admin, inspect.isfunction) if not name.startswith("_")} - PRIVATE
    routed = {route.operation.__name__.lstrip("_") for route in ROUTES}
    assert operations == routed & operations
    assert len({(route.method, route.template) for route in ROUTES}) == len(ROUTES)


NO_TENANTS = [
    (None, "TenantInfo is null"),
    ({}, "Clusters cannot be null"),
    ({"allowedClusters": []}, "Clusters cannot be empty or blank"),
    ({"allowedClusters": ["none"]}, "Clusters do not exist"),
    ({"allowedClusters": ["standalone", "none"]}, "Clusters do not exist"),
    ({"allowedClusters": ["standalone"], "adminRoles": [" "]}, "AdminRoles contains whitespace in the beginning or end."),
]


def test_life_of_a_tenant(broker):
    assert call(broker, "create_tenant", {"tenant": "acme", "admin_roles": ["boss"], "allowed_clusters": ["standalone"]})[0] == 204
    assert broker.store.tenants["acme"] == {"boss"}
    assert ask(broker, "GET", "/admin/v2/tenants") == (200, ["acme", "public", "pulsar"])
    here = {"allowedClusters": ["standalone"]}
    assert ask(broker, "PUT", "/admin/v2/tenants/acme", here) == (409, {"reason": "Tenant already exist"})
    assert ask(broker, "PUT", "/admin/v2/tenants/a%2Fb", here) == (412, {"reason": "Tenant name is not valid"})
    assert ask(broker, "PUT", "/admin/v2/tenants/x", {"adminRoles": "boss"})[0] == 400
    for method in ("PUT", "POST"):
        for body, reason in NO_TENANTS:
            assert ask(broker, method, "/admin/v2/tenants/acme", body) == (412, {"reason": reason})
    assert ask(broker, "GET", "/admin/v2/tenants/acme") == (200, {"adminRoles": ["boss"], **here})
    assert ask(broker, "POST", "/admin/v2/tenants/acme", {"adminRoles": ["b", "a"], **here}) == (204, b"")
    assert ask(broker, "GET", "/admin/v2/tenants/acme") == (200, {"adminRoles": ["a", "b"], **here})
    assert ask(broker, "GET", "/admin/v2/tenants/none") == (404, {"reason": "Tenant does not exist"})
    assert ask(broker, "POST", "/admin/v2/tenants/none", here) == (404, {"reason": "Tenant none not found"})
    assert ask(broker, "PUT", "/admin/v2/tenants/x", [])[0] == 400
    assert call(broker, "create_namespace", "acme/n")[0] == 204
    assert call(broker, "delete_tenant", "acme")[0] == 409
    refused = (405, {"reason": "Broker doesn't allow forced deletion of tenants"})
    assert call(broker, "delete_tenant", {"tenant": "acme", "force": True}) == refused
    broker = Broker(Configuration(force_delete_tenant_allowed=True), store=broker.store)
    assert call(broker, "delete_tenant", {"tenant": "acme", "force": True})[0] == 204
    assert call(broker, "delete_tenant", "acme")[0] == 404
    assert call(broker, "namespaces", "acme")[0] == 404


def test_life_of_a_namespace(broker):
    assert ask(broker, "PUT", "/admin/v2/namespaces/public/n", {"auth_policies": {}, "bundles": None}) == (204, b"")
    assert ask(broker, "PUT", "/admin/v2/namespaces/public/n", {})[0] == 409
    assert ask(broker, "PUT", "/admin/v2/namespaces/public/m", raw=b"{")[0] == 400
    assert ask(broker, "PUT", "/admin/v2/namespaces/public/m", raw=b"[" * 100_000)[0] == 400
    assert ask(broker, "PUT", "/admin/v2/namespaces/public/a%20b")[0] == 412
    assert ask(broker, "PUT", "/admin/v2/namespaces/nobody/n")[0] == 404
    assert call(broker, "namespaces", "public") == (200, ["public/default", "public/n"])
    assert call(broker, "namespace_exists", "public/n")[0] == 200
    assert call(broker, "namespace_exists", "public/m")[0] == 404
    assert call(broker, "grant_permission", {"namespace": "public/n", "role": "a b", "actions": ["consume", "produce"]})[0] == 204
    assert ask(broker, "GET", "/admin/v2/namespaces/public/n/permissions") == (200, {"a b": ["consume", "produce"]})
    assert call(broker, "grant_permission", {"namespace": "public/n", "role": "x", "actions": ["fly"]})[0] == 400
    assert ask(broker, "POST", "/admin/v2/namespaces/public/n/permissions/x") == (400, {"reason": "Actions should not be null"})
    assert ask(broker, "POST", "/admin/v2/namespaces/public/n/permissions/x", {"not": "a list"})[0] == 400
    assert call(broker, "revoke_permission", {"namespace": "public/n", "role": "a b"})[0] == 204
    assert call(broker, "unload_namespace", "public/n")[0] == 204
    assert call(broker, "create_topic", "persistent://public/n/t")[0] == 204
    assert call(broker, "delete_namespace", "public/n")[0] == 409
    assert call(broker, "delete_namespace", {"namespace": "public/n", "force": True})[0] == 204
    assert call(broker, "delete_namespace", "public/n")[0] == 404


def test_life_of_a_topic(broker):
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/t", {}) == (204, b"")
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/t") == (409, {"reason": "This topic already exists"})
    assert call(broker, "create_topic", "persistent://public/none/t")[0] == 404
    assert call(broker, "partitioned_metadata", T) == (200, {"partitions": 0, "deleted": False})
    assert call(broker, "partitioned_metadata", f"{T}x") == (404, {"reason": f"Topic {T}x not found"})
    assert call(broker, "topic_stats", T)[0] == 200
    assert call(broker, "topic_stats", f"{T}x")[0] == 404
    assert ask(broker, "GET", f"/admin/v2/persistent/{NS}/t/internalStats?metadata=false")[0] == 200
    assert call(broker, "unload_topic", T)[0] == 204
    assert ask(broker, "GET", f"/lookup/v2/topic/persistent/{NS}/t")[1]["brokerUrl"] == broker.members.leader.service_url
    assert call(broker, "list_topics", NS) == (200, [T])
    assert ask(broker, "GET", f"/admin/v2/namespaces/{NS}/topics?includeSystemTopic=false&mode=ALL") == (200, [T])
    assert ask(broker, "GET", f"/admin/v2/namespaces/{NS}/topics?mode=NON_PERSISTENT") == (200, [])
    assert call(broker, "list_topics", {"namespace": NS, "domain": "non-persistent"}) == (200, [])
    assert call(broker, "delete_topic", {"topic": T, "force": True})[0] == 204
    assert call(broker, "delete_topic", T) == (404, {"reason": f"Topic {T} not found"})


def test_partitions(broker):
    path = f"/admin/v2/persistent/{NS}/p/partitions"
    for body in (b"x", b"", b'"x"', b"true", b"{}", b'{"partitions": 2}', b"[2]", b"\xff"):
        assert ask(broker, "PUT", path, raw=body)[0] == 400, body
    assert ask(broker, "PUT", path, 0)[0] == 406
    assert ask(broker, "POST", f"{path}?updateLocalTopicOnly=false&force=false", 4)[0] == 409
    assert ask(broker, "PUT", f"{path}?createLocalTopicOnly=false", 2)[0] == 204
    assert ask(broker, "PUT", path, 2)[0] == 409
    assert ask(broker, "POST", path, 1)[0] == 422
    assert ask(broker, "POST", path, 4)[0] == 204
    assert ask(broker, "GET", path) == (200, {"partitions": 4, "deleted": False})
    assert call(broker, "list_partitioned_topics", NS) == (200, [f"persistent://{NS}/p"])
    for number, body in enumerate((b'"2"', b"2.5")):
        assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/{number}/partitions", raw=body)[0] == 204
        assert call(broker, "delete_partitioned_topic", f"persistent://{NS}/{number}")[0] == 204
    assert ask(broker, "GET", f"/admin/v2/persistent/{NS}/p/partitioned-stats?perPartition=false")[1]["partitions"] == {}
    assert len(ask(broker, "GET", f"/admin/v2/persistent/{NS}/p/partitioned-stats")[1]["partitions"]) == 4
    assert call(broker, "create_subscription", {"topic": f"persistent://{NS}/p", "subscription": "s"})[0] == 204
    assert call(broker, "partitioned_stats", f"persistent://{NS}/p")[1]["subscriptions"]["s"]["msgBacklog"] == 0
    assert call(broker, "delete_subscription", {"topic": f"persistent://{NS}/p", "subscription": "s"})[0] == 204
    asked = {"partitions": 1, "properties": {}}
    assert ask(broker, "PUT", f"/admin/v2/non-persistent/{NS}/q/partitions", asked, content_type=PARTITIONED)[0] == 204
    assert call(broker, "delete_partitioned_topic", f"persistent://{NS}/p")[0] == 204
    assert call(broker, "delete_partitioned_topic", f"persistent://{NS}/p")[0] == 404
    assert call(broker, "create_topic", f"persistent://{NS}/x-partition-3")[0] == 412


def test_subscriptions_and_messages(broker):
    call(broker, "create_topic", T)
    subscription = f"/admin/v2/persistent/{NS}/t/subscription/s%20%C3%A9"
    end = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0}
    assert ask(broker, "PUT", f"{subscription}?replicated=false", end)[0] == 204
    assert ask(broker, "PUT", subscription, end)[0] == 409
    assert ask(broker, "PUT", subscription, {"ledgerId": "x"})[0] == 400
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/t/subscription/without-a-body")[0] == 204
    assert ask(broker, "GET", f"/admin/v2/persistent/{NS}/t/subscriptions") == (200, ["s é", "without-a-body"])
    header = {"producer_name": "pé\r\n", "sequence_id": 1, "publish_time": 1_000, "properties": [{"key": "k", "value": "vé"}]}
    publish(broker, *(MessageMetadata(**header) for _ in range(3)), MessageMetadata(producer_name="p", sequence_id=2, publish_time=2**63))
    answer = handle(broker, AdminRequest("GET", f"{subscription}/position/2"), 0.0)
    assert (answer.status, answer.body) == (200, b"hello 1")
    assert re.fullmatch(r"\d+:1", answer.headers["X-Pulsar-Message-ID"])
    assert json.loads(answer.headers["X-Pulsar-PROPERTY"]) == {"k": "vé"}
    assert answer.headers["X-Pulsar-publish-time"] == "1970-01-01T00:00:01.000Z"
    assert all(value.isascii() and value.isprintable() for value in answer.headers.values())
    assert ask(broker, "GET", f"{subscription}/position/4")[0] == 200
    assert ask(broker, "GET", f"{subscription}/position/5")[0] == 404
    assert ask(broker, "GET", f"{subscription}/position/x")[0] == 404
    assert ask(broker, "POST", f"{subscription}/skip/1")[0] == 204
    assert ask(broker, "GET", f"{subscription}/position/1")[1] == b"hello 1"
    assert ask(broker, "POST", f"{subscription}/skip/-1")[0] == 204
    assert ask(broker, "POST", f"{subscription}/skip/{2**31}")[0] == 404
    assert ask(broker, "POST", f"{subscription}/skip_all")[0] == 204
    assert ask(broker, "GET", f"{subscription}/position/1")[0] == 404
    assert ask(broker, "DELETE", f"{subscription}?force=false")[0] == 204
    assert ask(broker, "DELETE", subscription)[0] == 404


@pytest.mark.parametrize(
    "name",
    ["a b", "é", "😀", "50%", "a%2Fb", "%25", "x+y", "q?a=b&c#d", "a:b", ".", "[]", "'\"|\\", "partitioned", "permissions", "stats"],
)
def test_names_are_decoded_once(broker, name):
    path = f"/admin/v2/persistent/{NS}/{quote(name, safe='')}"
    assert ask(broker, "PUT", path)[0] == 204
    assert ask(broker, "GET", f"/admin/v2/persistent/{NS}") == (200, [f"persistent://{NS}/{name}"])
    assert ask(broker, "GET", f"{path}/stats")[0] == 200
    assert ask(broker, "DELETE", path)[0] == 204


TOPICS_AND_SUBSCRIPTIONS = [
    ("m;n=1", "m", "m"), ("a+b", "a b", "a b"), ("a%2Bb", "a+b", "a b"), ("%2525", "%25", "%"), ("k%20l", "k l", "k l"), ("a%3Bb;c", "a;b", "a;b"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "topic", "subscription"), TOPICS_AND_SUBSCRIPTIONS)
def test_names_as_java_decodes_them(broker, written, topic, subscription):
    """In a topic a plus is a space, a subscription is decoded twice, and what a semicolon begins is left out."""
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/{written}")[0] == 204
    assert ask(broker, "GET", f"/admin/v2/persistent/{NS}") == (200, [f"persistent://{NS}/{topic}"])
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/{written}/subscription/{written}")[0] == 204
    assert ask(broker, "GET", f"/admin/v2/persistent/{NS}/{written}/subscriptions") == (200, [subscription])


def test_a_subscription_with_half_an_escape_fails(broker):
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/t/subscription/i%25")[0] == 500


def test_a_mark_of_partitions_in_a_namespace_does_not_count(broker):
    path = "/admin/v2/persistent/public/n-partition-1"
    assert ask(broker, "PUT", "/admin/v2/namespaces/public/n-partition-1")[0] == 204
    assert [
        ask(broker, "PUT", f"{path}/{rest}", body)[0] for rest, body in (("p/partitions", 2), ("t", None), ("p/subscription/s", None))
    ] == [204] * 3
    assert ask(broker, "PUT", f"{path}/a-partition-b/partitions", 2)[0] == 412


LONE = "Partition metadata not found for the partitioned topic: {topic}"
MISSING = [
    ("GET", "x-partition-0/stats", (404, "Partitioned Topic not found: {topic} has zero partitions"), (409, LONE)),
    ("PUT", "x-partition-0/unload", (404, "Partitioned Topic not found: {topic} has zero partitions"), (409, LONE)),
    ("GET", "x-partition-0/lastMessageId", (404, "Partitioned Topic not found: {topic} has zero partitions"), (409, LONE)),
    ("POST", "x-partition-0/subscription/s/skip/1", (404, "Partitioned Topic not found: {topic} has zero partitions"), (409, LONE)),
    ("GET", "p-partition-9/stats", (404, "Topic partitions were not yet created"), (409, LONE)),
    ("PUT", "x-partition-0/subscription/s", (409, LONE), (400, "Create subscription on non-persistent topic can only be done through client")),
    ("PUT", "p-partition-9/subscription/s", (412, "Topic does not exist and cannot be auto-created"), (400, "Create subscription on non-persistent topic can only be done through client")),
    ("GET", "x-partition-0/partitioned-stats", *[(412, "Partitioned Topic Name should not contain '-partition-'")] * 2),
    ("GET", "none/partitioned-internalStats", *[(404, "Partitioned Topic {topic} not found")] * 2),
    ("DELETE", "none/partitions", *[(404, "Topic {topic} not found.")] * 2),
    ("DELETE", "none", (404, "Topic {topic} not found"), (204, None)),
    ("DELETE", "x-partition-0", (404, "Topic {topic} not found"), (204, None)),
    ("GET", "none/properties", (404, "Topic {topic} not found"), (406, "Need to provide a persistent topic name")),
    ("PUT", "none/properties", (404, "Topic {topic} not found"), (406, "Need to provide a persistent topic name")),
    ("PUT", "x-partition-0", *[(412, "Can't create topic x-partition-0 with \"-partition-\" followed by numeric value if there isn't a partitioned topic x created.")] * 2),
]  # fmt: skip


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
@pytest.mark.parametrize(("method", "rest", "stored", "not_stored"), MISSING)
def test_what_is_asked_of_topics_that_are_missing(broker, domain, method, rest, stored, not_stored):
    ask(broker, "PUT", f"/admin/v2/persistent/{NS}/p/partitions", 2)
    status, body = ask(broker, method, f"/admin/v2/{domain}/{NS}/{rest}", {"a": "b"} if rest.endswith("properties") else None)
    expected, reason = stored if domain == "persistent" else not_stored
    assert (status, body["reason"] if reason else None) == (
        expected,
        reason and reason.format(topic=f"{domain}://{NS}/{rest.partition('/')[0]}"),
    )


def test_a_topic_in_use_is_not_deleted(broker):
    peer = Peer(broker)
    peer.producer()
    path = f"/admin/v2/persistent/{NS}/t"
    assert ask(broker, "DELETE", path)[1]["reason"] == "Topic has 1 client connected Including 0 consumers, 1 producers, and 0 replicators."
    peer.subscribe()
    assert (
        ask(broker, "DELETE", path)[1]["reason"] == "Topic has 2 clients connected Including 1 consumers, 1 producers, and 0 replicators."
    )


@pytest.mark.parametrize(("domain", "status"), [("persistent", 412), ("non-persistent", 204)])
def test_a_subscription_in_use_is_deleted_where_nothing_is_stored(broker, domain, status):
    Peer(broker).subscribe(f"{domain}://{NS}/t")
    assert ask(broker, "DELETE", f"/admin/v2/{domain}/{NS}/t/subscription/s")[0] == status


def test_the_health_of_brokers(broker):
    own = ask(broker, "GET", "/admin/v2/brokers")[1][0]
    asked = [f"/admin/v2/brokers/health?brokerId={one}" for one in (own, "", "foo")]
    assert [ask(broker, "GET", one)[0] for one in asked] == [200, 200, 404]


@pytest.mark.parametrize(("method", "path", "status", "body"), [
    ("HEAD", "clusters", 200, ["standalone"]), ("HEAD", "nothing", 404, None), ("OPTIONS", "clusters", 200, b"GET, HEAD, OPTIONS"),
    ("OPTIONS", f"persistent/{NS}/none/unload", 200, b"OPTIONS, PUT"), ("OPTIONS", "nothing", 404, None),
])  # fmt: skip
def test_head_and_options(broker, method, path, status, body):
    found = ask(broker, method, f"/admin/v2/{path}")
    assert found[0] == status
    assert body in (None, found[1])


def test_names_that_no_topic_has(broker):
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/a%2Fb")[0] == 412
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/%20")[0] == 412
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/%ff")[0] == 400


@pytest.mark.parametrize(
    "path",
    ["/", "", "/admin", "/admin/v2", "/admin/v2/nothing", "/admin/v3/clusters", f"/admin/v2/topic/{NS}/t",
     f"/admin/v2/persistent/{NS}/t/u/v/w", "/admin/v2/persistent/public//t", "/ADMIN/v2/clusters"],
)  # fmt: skip
def test_unknown_paths(broker, path):
    for method in ("GET", "PUT"):
        status, body = ask(broker, method, path)
        assert (status, list(body)) == (404, ["reason"])


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/admin/v2/clusters", "GET, HEAD, OPTIONS"),
        ("HEAD", f"/admin/v2/persistent/{NS}/t/unload", "OPTIONS, PUT"),
        ("BREW", "/admin/v2/namespaces/public/n", "DELETE, GET, HEAD, OPTIONS, PUT"),
        ("get", "/admin/v2/clusters", "GET, HEAD, OPTIONS"),
    ],
)
def test_wrong_methods(broker, method, path, allowed):
    answer = handle(broker, AdminRequest(method, path), 0.0)
    assert (answer.status, answer.headers["Allow"]) == (405, allowed)
    assert json.loads(answer.body) == {"reason": f"{path} takes {allowed}"}


@pytest.mark.parametrize(("status", "method", "path"), [
    (503, "GET", "/admin/v3/transactions/coordinators"), (503, "GET", "/admin/v3/packages/function/public/default"),
    (409, "GET", "/admin/v3/functions/public/default"), (409, "DELETE", "/admin/v3/sources/public/default/x"), (409, "PUT", "/admin/v2/worker/rebalance"),
    (405, "GET", f"/admin/v2/namespaces/{NS}/publishRate"), (405, "DELETE", f"/admin/v2/persistent/{NS}/t/maxProducers"),
    (405, "PUT", "/admin/v2/clusters/standalone"), (405, "GET", "/admin/v2/brokers/configuration"), (405, "PUT", f"/admin/v2/non-persistent/{NS}/t/compaction"),
    (405, "DELETE", f"/admin/v2/namespaces/{NS}/0x00000000_0xffffffff"), (405, "POST", f"/topics/persistent/{NS}/t"),
])  # fmt: skip
def test_what_pulsar_has_and_this_broker_has_not_is_not_unknown(broker, status, method, path):
    assert ask(broker, method, path) == (status, {"reason": f"{method} {path} is not supported by this broker"})


def test_each_path_that_is_not_supported_is_refused_so(broker):
    values = {"domain": "persistent", "tenant": "public", "namespace": "default"}
    routes = {(route.method, re.sub(r"{.*?}", "{}", route.template)) for route in ROUTES}
    for one in UNSUPPORTED:
        assert (one.method, re.sub(r"{.*?}", "{}", one.template)) not in routes, "this one is supported"
        path = re.sub(r"{(.*?)}", lambda found: values.get(found[1], "x"), one.template)
        assert ask(broker, one.method, path)[1]["reason"] == f"{one.method} {path} is not supported by this broker"


def test_health_clusters_and_settings(broker):
    addresses = {"serviceUrl": Member().admin_url, "brokerServiceUrl": Member().service_url}
    assert ask(broker, "GET", "/admin/v2/clusters/standalone") == (200, addresses)
    assert ask(broker, "GET", "/admin/v2/clusters/none") == (404, {"reason": "Cluster does not exist"})
    assert ask(broker, "GET", "/admin/v2/brokers") == ask(broker, "GET", "/admin/v2/brokers/standalone") == (200, ["127.0.0.1:8080"])
    assert ask(broker, "GET", "/admin/v2/brokers/leaderBroker") == (200, {"brokerId": "127.0.0.1:8080", "serviceUrl": Member().admin_url})
    assert ask(broker, "GET", "/admin/v2/brokers/version") == (200, broker.server_version.encode())
    assert ask(broker, "GET", "/admin/v2/brokers/ready") == (200, b"ok")
    assert ask(broker, "GET", "/admin/v2/brokers/backlog-quota-check") == (204, b"")
    assert call(broker, "broker_health") == (200, b"ok")
    assert call(broker, "clusters") == (200, ["standalone"])
    assert call(broker, "runtime_configuration")[1]["subscriptionPatternMaxLength"] == "50"


def secured() -> Broker:
    settings = {
        "authenticationEnabled": "true", "authorizationEnabled": "true", "superUserRoles": "root", "forceDeleteTenantAllowed": "true",
        "tokenSecretKey": "data:;base64,MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    }  # fmt: skip
    return Broker(Configuration.from_settings(settings))


def status_for(broker: Broker, role: str | None, method: str, path: str, body: object = None) -> int:
    token = None if role is None else jwt.encode({"sub": role}, b"0123456789abcdef0123456789abcdef", algorithm="HS256")
    return ask(broker, method, path, body, token=token)[0]


def test_who_may():
    broker = secured()
    status = partial(status_for, broker)
    assert status(None, "GET", "/admin/v2/clusters") == 401
    assert status(None, "GET", "/nothing") == 401
    assert ask(broker, "GET", "/admin/v2/clusters", token="nonsense")[0] == 401
    assert status("root", "PUT", "/admin/v2/tenants/acme", {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}) == 204
    assert status("boss", "PUT", "/admin/v2/namespaces/acme/n", {}) == 204
    assert status("boss", "PUT", "/admin/v2/namespaces/public/n", {}) == 401
    assert status("boss", "PUT", "/admin/v2/persistent/acme/n/t", {}) == 204
    assert status("reader", "GET", "/lookup/v2/topic/persistent/acme/n/t") == 401
    assert status("boss", "POST", "/admin/v2/namespaces/acme/n/permissions/reader", ["consume"]) == 204
    assert status("reader", "GET", "/lookup/v2/topic/persistent/acme/n/t") == 200
    assert status("reader", "GET", "/admin/v2/persistent/acme/none/t/stats") == 401
    assert status("reader", "GET", "/admin/v2/persistent/acme/n/none/stats") == 404
    assert status("root", "DELETE", "/admin/v2/tenants/acme?force=true") == 204


N, P, S = "/admin/v2/namespaces/acme/n", "/admin/v2/persistent/acme/n/t", "/admin/v2/schemas/acme/n/t"
EXPIRE = "expireMessages/5"
ROLES = [
    # what nobody, who may produce, who may consume and an admin of the tenant get, as Apache Pulsar 4.2.4 answers
    ((200, 200, 200, 200), "GET", "/admin/v2/clusters /admin/v2/brokers/version /admin/v2/brokers/ready"),
    ((401, 401, 401, 401), "GET", "/admin/v2/clusters/standalone /admin/v2/brokers /admin/v2/brokers/health /admin/v2/brokers/leaderBroker "
     "/admin/v2/brokers/backlog-quota-check /admin/v2/brokers/configuration/runtime /admin/v2/brokers/standalone /admin/v2/tenants"),
    ((401, 401, 401, 401), "PUT", f"/admin/v2/tenants/new {N}/unload {N}/0x00000000_0x40000000/unload"),
    ((401, 401, 401, 200), "GET", f"/admin/v2/tenants/acme /admin/v2/namespaces/acme {P}/compaction"),
    ((401, 401, 401, 204), "PUT", f"/admin/v2/namespaces/acme/new {P}/unload {P}/properties"),
    ((401, 401, 401, 200), "POST", f"{P}/terminate {P}/trim"),
    ((401, 401, 401, 204), "DELETE", f"/admin/v2/namespaces/acme/new {P}/properties?key=a {P}/truncate"),
    ((401, 401, 401, 200), "DELETE", f"{S}/schema"),
    ((403, 403, 403, 200), "GET", f"{N} {N}/replication {N}/permissions {N}/retention {N}/backlogQuotaMap {P}/messageTTL {P}/retention"),
    ((403, 403, 403, 204), "PUT", "/admin/v2/persistent/acme/n/new"),
    ((403, 403, 403, 204), "DELETE", f"{N}/retention {N}/permissions/r {P}/messageTTL /admin/v2/persistent/acme/n/new"),
    ((401, 200, 200, 200), "GET", f"{P}/partitions {P}/properties {P}/stats {P}/internalStats {P}/internal-info {P}/stats {S}/schema "
     f"{S}/schemas {S}/schema/0 /lookup/v2/topic/persistent/acme/n/t"),
    ((403, 200, 200, 200), "GET", f"{N}/bundles {N}/topics /admin/v2/persistent/acme/n /admin/v2/persistent/acme/n/partitioned "
     "/lookup/v2/topic/persistent/acme/n/t/bundle"),
    ((401, 200, 401, 200), "POST", f"{S}/schema"),
    ((401, 401, 200, 200), "GET", f"{P}/lastMessageId {P}/messageid/1 {P}/subscriptions {P}/subscription/s/properties"),
    ((401, 401, 412, 412), "GET", f"{P}/examinemessage"),
    ((401, 401, 404, 404), "GET", f"{P}/ledger/9/entry/9 {P}/subscription/s/position/1"),
    ((401, 401, 204, 204), "PUT", f"{P}/subscription/new"),
    ((401, 401, 204, 204), "POST", f"{P}/subscription/s/skip/1 {P}/subscription/s/skip_all {P}/subscription/s/resetcursor/1"),
    ((401, 401, 409, 409), "POST", f"{P}/subscription/s/{EXPIRE} {P}/all_subscription/{EXPIRE}"),
    ((401, 401, 204, 204), "DELETE", f"{P}/subscription/s"),
    ((403, 403, 204, 204), "POST", f"{N}/clearBacklog"),
]  # fmt: skip
STRING = {"type": "STRING", "schema": "", "properties": {}}


@pytest.mark.parametrize(("expected", "method", "path"), [(one[0], one[1], path) for one in ROLES for path in one[2].split()])
def test_what_each_role_may(expected, method, path):
    found = []
    for role in ("nobody", "producer", "consumer", "boss"):
        broker = secured()
        for setting, body in (
            ("/admin/v2/tenants/acme", {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}), (N, {}),
            (P, {}), (f"{P}/subscription/s", None), *((one, {}) for one in (path,) if method == "DELETE" and path.endswith("/new")),
        ):  # fmt: skip
            assert status_for(broker, "root", "PUT", setting, body) == 204
        assert status_for(broker, "root", "POST", f"{S}/schema", STRING) == 200
        for permitted, action in (("producer", "produce"), ("consumer", "consume")):
            assert status_for(broker, "root", "POST", f"{N}/permissions/{permitted}", [action]) == 204
        body = STRING if path.endswith("/schema") else {} if method == "PUT" else None
        found.append(status_for(broker, role, method, path, body))
    assert tuple(found) == expected


POISON = [
    ("PUT", f"persistent/{NS}/t/subscription/bad", {"ledgerId": 1, "entryId": -60}),
    ("PUT", f"persistent/{NS}/t/subscription/bad", {"ledgerId": 1, "entryId": -3}),
    ("PUT", f"persistent/{NS}/t/subscription/bad", {"ledgerId": -2, "entryId": 0}),
    ("PUT", f"persistent/{NS}/t/subscription/bad", {"ledgerId": 1, "entryId": 2**63}),
    ("PUT", f"persistent/{NS}/t/subscription/bad", {"ledgerId": 1, "entryId": True}),
    ("PUT", f"persistent/{NS}/t/subscription/bad", {"ledgerId": 1, "entryId": 0.5}),
    ("PUT", f"persistent/{NS}/t/subscription/bad", {"properties": {"a": "\ud800"}}),
    ("PUT", f"persistent/{NS}/t/subscription/bad", {"properties": {"\udfff": "a"}}),
    ("PUT", f"persistent/{NS}/%ED%A0%80", None),
    ("PUT", f"persistent/{NS}/\udcff", None),
    ("PUT", "tenants/bad", {"adminRoles": ["\ud800"]}),
    ("POST", f"namespaces/{NS}/permissions/bad%ff", ["produce"]),
    ("POST", f"schemas/{NS}/t/schema", {"type": "STRING", "schema": "\ud800", "properties": {}}),
    ("POST", f"schemas/{NS}/t/schema", {"type": "STRING", "schema": "", "properties": {"a": "\ud800"}}),
    ("PUT", f"scalable/{NS}/bad", {"a": "\ud800"}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), POISON)
def test_poison_is_refused_and_changes_nothing(broker, method, path, body):
    call(broker, "create_topic", {"topic": T})
    peer = Peer(broker)
    peer.producer()
    peer.publish("a", "b")
    peer.frames()
    places = ("tenants", f"namespaces/{NS}", f"namespaces/{NS}/topics", f"persistent/{NS}/t/stats", f"persistent/{NS}/t/internalStats",
              f"schemas/{NS}/t/schema", f"scalable/{NS}")  # fmt: skip
    before = [ask(broker, "GET", f"/admin/v2/{place}") for place in places]
    status, _ = ask(broker, method, f"/admin/v2/{path}", body)
    assert status in (400, 412)
    assert [ask(broker, "GET", f"/admin/v2/{place}") for place in places] == before


def test_whoever_looks_up_over_http_may_create_topics(broker):
    path = f"/admin/v2/persistent/{NS}/t/partitions"
    assert ask(broker, "GET", path)[0] == 404
    assert ask(broker, "GET", f"{path}?checkAllowAutoCreation=false")[0] == 404
    assert ask(broker, "GET", f"{path}?checkAllowAutoCreation=true")[1]["partitions"] == 0
    assert ask(broker, "GET", f"/admin/v2/persistent/{NS}") == (200, [])
    broker = Broker(Configuration(allow_auto_topic_creation_type="partitioned", default_num_partitions=3))
    assert ask(broker, "GET", path)[0] == 404
    assert ask(broker, "GET", f"{path}?checkAllowAutoCreation=true")[1]["partitions"] == 3
    assert ask(broker, "GET", path)[1]["partitions"] == 3


def test_a_listener_that_there_is_not(broker):
    path = f"/lookup/v2/topic/persistent/{NS}/t"
    assert ask(broker, "GET", f"{path}?listenerName=")[0] == 200
    assert ask(broker, "GET", f"{path}?listenerName=none") == (500, {"reason": "the broker do not have none listener"})


def test_topics_of_a_bundle(broker):
    call(broker, "create_namespace", "public/n")
    for name in "abcdef":
        call(broker, "create_topic", f"persistent://public/n/{name}")
    boundaries = ask(broker, "GET", "/admin/v2/namespaces/public/n/bundles")[1]["boundaries"]
    found = {}
    for bundle in map("_".join, pairwise(boundaries)):
        for topic in ask(broker, "GET", f"/admin/v2/persistent/public/n?bundle={bundle}")[1]:
            found[topic] = bundle
            assert ask(broker, "GET", f"/lookup/v2/topic/{topic.replace('://', '/')}/bundle") == (200, bundle.encode())
    assert sorted(found) == [f"persistent://public/n/{name}" for name in "abcdef"]
    assert len({*found.values()}) > 1
    assert ask(broker, "GET", "/admin/v2/persistent/public/n?bundle=none") == (200, [])


@pytest.mark.parametrize(("mode", "status"), [("", 200), ("ALL", 200), ("NON_PERSISTENT", 200), ("all", 404), ("NONE", 404)])
def test_modes_of_a_list(broker, mode, status):
    assert ask(broker, "GET", f"/admin/v2/namespaces/{NS}/topics?mode={mode}")[0] == status


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_policies_of_all_clusters_are_refused(broker, method):
    call(broker, "create_topic", T)
    path = f"/admin/v2/persistent/{NS}/t/retention"
    assert ask(broker, "POST", f"{path}?isGlobal=false", {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1})[0] == 204
    before = ask(broker, "GET", path)
    assert ask(broker, method, f"{path}?isGlobal=true", {"retentionTimeInMinutes": 5, "retentionSizeInMB": 5})[0] == 405
    assert ask(broker, "GET", path) == before


def test_a_subscription_that_one_partition_has_is_created_on_the_others(broker):
    call(broker, "create_partitioned_topic", {"topic": T, "partitions": 3})
    assert ask(broker, "PUT", f"/admin/v2/persistent/{NS}/t-partition-1/subscription/s", {})[0] == 204
    assert [ask(broker, "PUT", f"/admin/v2/persistent/{NS}/t/subscription/s", {})[0] for _ in range(2)] == [204, 409]
    assert [list(broker.loaded(f"{T}-partition-{number}").subscriptions) for number in range(3)] == [["s"]] * 3
