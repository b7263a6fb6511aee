"""The admin client against a server that records what it is asked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from conformance.engine import log
from conformance.targets import OPERATIONS, AdminClient, AdminResult, AdminUnreachable, Endpoint, TargetError, check_arguments
from conformance.targets import admin as admin_module
from conformance.targets.admin import missing_operations, unconfirmed_settings
from conformance.targets.policies import POLICIES
from conformance.targets.process import free_ports

MAX = 2**63 - 1
T = "persistent://t/n/x"


@dataclass
class Recorder:
    """Answers what it is told to, 204 otherwise."""

    answers: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    release: asyncio.Event | None = None

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.seen.append((request.method, request.raw_path.removeprefix("/admin/v2/"), await request.text()))
        self.headers.append(dict(request.headers))
        if self.release:
            await self.release.wait()
        planned = self.answers.get(f"{request.method} {self.seen[-1][1]}") or [(204, "")]
        status, body = planned.pop(0) if len(planned) > 1 else planned[0]
        return web.Response(status=status, text=body)


@asynccontextmanager
async def serving(recorder: Recorder) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(recorder.answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def with_admin(
    recorder: Recorder, work: Callable[[AdminClient], Awaitable[Any]], *, token: str | None = None, seconds: float = 10.0
) -> Any:
    async def main() -> Any:
        async with serving(recorder) as url:
            endpoint = Endpoint(name="e", service_url="pulsar://h", admin_url=url, token=SecretStr(token) if token else None)
            async with AdminClient(endpoint, seconds=seconds) as admin:
                return await work(admin)

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("op", "args", "method", "path", "body"),
    [
        ("create_tenant", {"tenant": "t", "allowed_clusters": ["c"]}, "PUT", "tenants/t", '{"adminRoles": [], "allowedClusters": ["c"]}'),
        ("delete_tenant", "t", "DELETE", "tenants/t?force=false", ""),
        ("create_namespace", "t/n", "PUT", "namespaces/t/n", ""),
        ("create_namespace", {"namespace": "t/n", "bundles": 1}, "PUT", "namespaces/t/n", '{"bundles": {"numBundles": 1}}'),
        ("create_namespace", "t/a b", "PUT", "namespaces/t/a%20b", ""),
        ("delete_namespace", {"namespace": "t/n", "force": True}, "DELETE", "namespaces/t/n?force=true", ""),
        ("unload_namespace", "t/n", "PUT", "namespaces/t/n/unload", ""),
        (
            "grant_permission",
            {"namespace": "t/n", "role": "a/b c", "actions": ["produce", "consume"]},
            *("POST", "namespaces/t/n/permissions/a%2Fb%20c", '["produce", "consume"]'),
        ),
        ("revoke_permission", {"namespace": "t/n", "role": "r"}, "DELETE", "namespaces/t/n/permissions/r", ""),
        ("create_topic", T, "PUT", "persistent/t/n/x", ""),
        ("create_topic", "non-persistent://t/n/x", "PUT", "non-persistent/t/n/x", ""),
        ("create_topic", "persistent://t/n/été", "PUT", "persistent/t/n/%C3%A9t%C3%A9", ""),
        ("create_topic", "persistent://t/n/a b", "PUT", "persistent/t/n/a%20b", ""),
        ("create_topic", "persistent://t/n/a/b", "PUT", "persistent/t/n/a%2Fb", ""),
        ("create_topic", "persistent://t/n/a%2Fb", "PUT", "persistent/t/n/a%252Fb", ""),
        ("create_topic", "persistent://t/n/a?b#c&d+e=f", "PUT", "persistent/t/n/a%3Fb%23c%26d%2Be%3Df", ""),
        ("create_topic", "persistent://t/n/a\nb", "PUT", "persistent/t/n/a%0Ab", ""),
        ("delete_topic", T, "DELETE", "persistent/t/n/x?force=false&deleteSchema=true", ""),
        ("delete_topic", {"topic": T, "force": True}, "DELETE", "persistent/t/n/x?force=true&deleteSchema=true", ""),
        ("unload_topic", T, "PUT", "persistent/t/n/x/unload", ""),
        ("create_partitioned_topic", {"topic": T, "partitions": 2}, "PUT", "persistent/t/n/x/partitions", "2"),
        ("update_partitioned_topic", {"topic": T, "partitions": 4}, "POST", "persistent/t/n/x/partitions", "4"),
        ("create_missed_partitions", {"topic": T}, "POST", "persistent/t/n/x/createMissedPartitions", ""),
        ("delete_partitioned_topic", T, "DELETE", "persistent/t/n/x/partitions?force=false&deleteSchema=true", ""),
        (
            "create_subscription",
            {"topic": T, "subscription": "s/ é"},
            *("PUT", "persistent/t/n/x/subscription/s%2F%20%C3%A9?replicated=false"),
            f'{{"ledgerId": {MAX}, "entryId": {MAX}, "partitionIndex": -1}}',
        ),
        (
            "create_subscription",
            {"topic": T, "subscription": "s", "position": "earliest"},
            *("PUT", "persistent/t/n/x/subscription/s?replicated=false", '{"ledgerId": -1, "entryId": -1, "partitionIndex": -1}'),
        ),
        ("delete_subscription", {"topic": T, "subscription": "s"}, "DELETE", "persistent/t/n/x/subscription/s?force=false", ""),
        ("skip_messages", {"topic": T, "subscription": "s", "count": 2}, "POST", "persistent/t/n/x/subscription/s/skip/2", ""),
        ("skip_all_messages", {"topic": T, "subscription": "s"}, "POST", "persistent/t/n/x/subscription/s/skip_all", ""),
        ("reset_cursor", {"topic": T, "subscription": "s", "timestamp": 5}, "POST", "persistent/t/n/x/subscription/s/resetcursor/5", ""),
        (
            "reset_cursor_to",
            {"topic": T, "subscription": "s", "message_id": {"ledgerId": 3, "entryId": 4}},
            *("POST", "persistent/t/n/x/subscription/s/resetcursor", '{"partitionIndex": -1, "ledgerId": 3, "entryId": 4}'),
        ),
        (
            "expire_messages",
            {"topic": T, "subscription": "s", "seconds": 5},
            *("POST", "persistent/t/n/x/subscription/s/expireMessages/5", ""),
        ),
        ("terminate_topic", {"topic": T}, "POST", "persistent/t/n/x/terminate", ""),
        ("terminate_partitioned_topic", {"topic": T}, "POST", "persistent/t/n/x/terminate/partitions", ""),
        ("set_policy", {"of": "t/n", "policy": "deduplication", "value": True}, "POST", "namespaces/t/n/deduplication", "true"),
        ("set_policy", {"of": T, "policy": "deduplication", "value": False}, "POST", "persistent/t/n/x/deduplicationEnabled", "false"),
        ("set_policy", {"of": "t/n", "policy": "deduplication", "value": None}, "DELETE", "namespaces/t/n/deduplication", ""),
        (
            "set_policy",
            {"of": "t/n", "policy": "schema_compatibility", "value": "FULL"},
            *("PUT", "namespaces/t/n/schemaCompatibilityStrategy", '"FULL"'),
        ),
        ("set_policy", {"of": "t/n", "policy": "message_ttl", "value": 3}, "POST", "namespaces/t/n/messageTTL", "3"),
        ("set_policy", {"of": T, "policy": "message_ttl", "value": 3}, "POST", "persistent/t/n/x/messageTTL?messageTTL=3", ""),
        ("policy", {"of": "t/n", "policy": "backlog_quota"}, "GET", "namespaces/t/n/backlogQuotaMap", ""),
        ("policy", {"of": T, "policy": "retention"}, "GET", "persistent/t/n/x/retention", ""),
        ("unload_bundle", {"namespace": "t/n", "bundle": "0x0_0x8"}, "PUT", "namespaces/t/n/0x0_0x8/unload", ""),
        ("create_namespace", {"namespace": "t/n", "bundles": 4}, "PUT", "namespaces/t/n", '{"bundles": {"numBundles": 4}}'),
        ("truncate_topic", {"topic": T}, "DELETE", "persistent/t/n/x/truncate", ""),
        ("partitioned_stats", {"topic": T}, "GET", "persistent/t/n/x/partitioned-stats", ""),
        ("list_subscriptions", {"topic": T}, "GET", "persistent/t/n/x/subscriptions", ""),
        (
            "create_scalable_topic",
            {"topic": "topic://t/n/x", "properties": {"owner": "é"}},
            *("PUT", "scalable/t/n/x?numInitialSegments=1", '{"owner": "é"}'),
        ),
        ("delete_scalable_topic", {"topic": "topic://t/n/x", "force": True}, "DELETE", "scalable/t/n/x?force=true", ""),
        (
            "set_scalable_topic_properties",
            {"topic": "topic://t/n/x", "properties": {"": ""}},
            *("PUT", "scalable/t/n/x/properties", '{"": ""}'),
        ),
        ("namespaces", "t", "GET", "namespaces/t", ""),
        ("namespace_exists", "t/n", "GET", "namespaces/t/n", ""),
        ("list_topics", "t/n", "GET", "persistent/t/n?includeSystemTopic=false", ""),
        (
            "list_partitioned_topics",
            {"namespace": "t/n", "domain": "non-persistent", "system": True},
            *("GET", "non-persistent/t/n/partitioned?includeSystemTopic=true", ""),
        ),
        ("list_scalable_topics", "t/n", "GET", "scalable/t/n", ""),
        (
            "list_scalable_topics",
            {"namespace": "t/n", "properties": ["a=b", "c=d=é"]},
            *("GET", "scalable/t/n?property=a%3Db&property=c%3Dd%3D%C3%A9", ""),
        ),
        ("get_scalable_topic", "topic://t/n/x", "GET", "scalable/t/n/x", ""),
        ("partitioned_metadata", T, "GET", "persistent/t/n/x/partitions", ""),
        ("topic_stats", T, "GET", "persistent/t/n/x/stats", ""),
        ("look_up", T, "GET", "/lookup/v2/topic/persistent/t/n/x", ""),
        ("clusters", None, "GET", "clusters", ""),
        ("broker_health", None, "GET", "brokers/health", ""),
        ("brokers", None, "GET", "brokers", ""),
        ("runtime_configuration", {}, "GET", "brokers/configuration/runtime", ""),
    ],
)
def test_each_operation_asks_for_its_path(op: str, args: object, method: str, path: str, body: str) -> None:
    recorder = Recorder()
    assert with_admin(recorder, lambda admin: admin.call(op, args)) == AdminResult(204, None, "")
    assert recorder.seen == [(method, path, body)]


def test_the_table_of_paths_covers_every_operation() -> None:
    (mark,) = [mark for mark in test_each_operation_asks_for_its_path.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    assert {row[0] for row in mark.args[1]} == set(OPERATIONS)


def test_a_tenant_is_allowed_on_every_cluster_unless_told() -> None:
    recorder = Recorder({"GET clusters": [(200, '["global", "a", "b"]')]})
    with_admin(recorder, lambda admin: admin.call("create_tenant", "t"))
    assert recorder.seen[-1][2] == '{"adminRoles": [], "allowedClusters": ["a", "b"]}'


def test_a_body_has_a_type_and_the_token_is_sent() -> None:
    recorder = Recorder()
    with_admin(recorder, lambda admin: admin.call("create_partitioned_topic", {"topic": T, "partitions": 2}), token="top-secret")
    (headers,) = recorder.headers
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == "Bearer top-secret"


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (200, '{"partitions": 3}', AdminResult(200, {"partitions": 3}, "")),
        (200, "ok", AdminResult(200, "ok", "")),
        (
            409,
            '{"reason": "This topic already exists"}',
            AdminResult(409, {"reason": "This topic already exists"}, "This topic already exists"),
        ),
        (404, '{"message": "Not Found"}', AdminResult(404, {"message": "Not Found"}, "Not Found")),
        (500, "<html>", AdminResult(500, "<html>", "<html>")),
        (503, "", AdminResult(503, None, "")),
    ],
)
def test_an_answer_is_never_an_exception(status: int, text: str, expected: AdminResult) -> None:
    recorder = Recorder({"GET namespaces/t": [(status, text)]})
    result = with_admin(recorder, lambda admin: admin.call("namespaces", "t"))
    assert result == expected
    assert result.ok == (status == 200)


@pytest.mark.parametrize(
    ("status", "text", "unconfirmed"),
    [
        (200, '{"a": "1"}', {"b"}),
        (200, '{"a": 1, "b": null, "c": 3}', set()),
        (200, "{}", set()),
        (200, "[]", set()),
        (404, '{"reason": "nothing here"}', set()),
    ],
)
def test_a_target_has_the_settings_that_it_lists(status: int, text: str, unconfirmed: set[str]) -> None:
    async def main() -> frozenset[str]:
        async with serving(Recorder({"GET brokers/configuration/runtime": [(status, text)]})) as url:
            return await unconfirmed_settings(Endpoint(name="e", service_url="pulsar://h", admin_url=url, config={"a": "1", "b": "2"}))

    assert asyncio.run(main()) == unconfirmed


def test_settings_that_nobody_lists_are_taken_for_known() -> None:
    endpoint = Endpoint(name="e", service_url="pulsar://h", config={"a": "1"})
    (port,) = free_ports(1)
    for admin_url in (None, f"http://127.0.0.1:{port}"):
        assert asyncio.run(unconfirmed_settings(replace(endpoint, admin_url=admin_url))) == set()


@pytest.mark.parametrize(("status", "missing"), [(200, False), (404, True), (405, True), (501, True), (500, False), (401, False)])
def test_an_admin_interface_without_scalable_topics(status: int, missing: bool) -> None:
    found = with_admin(Recorder({"GET scalable/public/default": [(status, "[]")]}), missing_operations)
    assert ("create_scalable_topic" in found) == missing
    assert "create_topic" not in found


def test_an_admin_interface_without_one_policy() -> None:
    found = with_admin(Recorder({"GET namespaces/public/default/schemaValidationEnforced": [(404, "")]}), missing_operations)
    assert found == {"set_policy schema_validation"}


def test_an_admin_interface_without_policies() -> None:
    places = [policy.namespace + policy.ending for policy in POLICIES.values()]
    found = with_admin(Recorder({f"GET namespaces/public/default/{place}": [(405, "")] for place in places}), missing_operations)
    assert found >= {"set_policy", "policy", "set_policy deduplication", "reset_cursor_to", "expire_messages", "unload_bundle"}
    assert "reset_cursor" not in found


def test_a_policy_that_is_none_is_named() -> None:
    for args, message in (
        (
            {"of": "t/n", "policy": "deduplicaton"},
            "there is no policy 'deduplicaton'; did you mean 'deduplication'? (there are: auto_topic_creation, ",
        ),
        ({"of": T, "policy": "auto_topic_creation"}, "topics have no policy auto_topic_creation: it is one of namespaces"),
    ):
        with pytest.raises(TargetError) as caught:
            with_admin(Recorder(), lambda admin, args=args: admin.call("policy", args))  # type: ignore[misc]
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        ("create_topics", T, "there is no admin operation 'create_topics'; did you mean 'create_topic'? (there are: create_tenant, "),
        ("create_topic", {"topik": T}, "admin operation create_topic has no argument 'topik'; did you mean 'topic'? (it takes: topic)"),
        ("create_topic", None, "admin operation create_topic needs topic (it takes: topic)"),
        ("delete_topic", {"force": True}, "admin operation delete_topic needs topic (it takes: topic, force)"),
        ("clusters", 3, "admin operation clusters takes no argument"),
    ],
)
def test_wrong_operations_and_arguments_are_named(op: str, args: object, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        check_arguments(op, args)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        (
            "create_topic",
            "x",
            "'x' is not the full name of a topic (it has the form persistent or non-persistent://tenant/namespace/local)",
        ),
        ("create_topic", "topic://t/n/x", "'topic://t/n/x' is not the full name of a topic"),
        ("create_scalable_topic", T, f"'{T}' is not the full name of a topic (it has the form topic://tenant/namespace/local)"),
        ("create_namespace", "n", "'n' is not the name of a namespace (it has the form tenant/name)"),
        (
            "create_subscription",
            {"topic": T, "subscription": "s", "position": "now"},
            "'now' is not a position (it is one of: latest, earliest)",
        ),
    ],
)
def test_wrong_names_are_refused_before_anything_is_sent(op: str, args: object, message: str) -> None:
    recorder = Recorder()
    with pytest.raises(TargetError) as caught:
        with_admin(recorder, lambda admin: admin.call(op, args))
    assert str(caught.value).startswith(message)
    assert recorder.seen == []


def test_no_answer_is_unreachable() -> None:
    (port,) = free_ports(1)

    async def main() -> None:
        async with AdminClient(Endpoint(name="e", service_url="pulsar://h", admin_url=f"http://127.0.0.1:{port}")) as admin:
            await admin.call("clusters")

    with pytest.raises(AdminUnreachable, match=f"GET http://127.0.0.1:{port}/admin/v2/clusters: no answer"):
        asyncio.run(main())


def test_an_answer_that_takes_too_long_is_unreachable() -> None:
    recorder = Recorder(release=asyncio.Event())

    async def work(admin: AdminClient) -> None:
        try:
            await admin.call("clusters")
        finally:
            assert recorder.release is not None
            recorder.release.set()

    with pytest.raises(AdminUnreachable, match="no answer"):
        with_admin(recorder, work, seconds=0.2)


async def _bad(request: web.BaseRequest) -> web.StreamResponse:
    """Answer by what the path asks for."""
    what = request.path.rpartition("/")[2]
    location = {
        "elsewhere": "http://127.0.0.2:1/x",
        "here": "/admin/v2/namespaces/end",
        "round": "/admin/v2/namespaces/round",
        "none": "http://[x",
    }
    if what in location:
        return web.Response(status=307, headers={"Location": location[what]})
    if what == "end":
        return web.json_response(["t/n"])
    response = web.StreamResponse(headers={"Content-Encoding": "gzip"} if what == "gzip" else {})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b" " * (1 if what == "drip" else 1 << 16))
            await asyncio.sleep(0.02 if what == "drip" else 0)
    return response


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("endless", "its body is longer than 1 MB"),
        ("gzip", "its body comes as gzip, which it was not asked for"),
        ("drip", "no answer"),
        ("round", "redirects more than 3 times"),
        ("none", "redirects to what is no address"),
    ],
)
def test_an_answer_without_an_end_is_no_answer(monkeypatch: pytest.MonkeyPatch, what: str, words: str) -> None:
    monkeypatch.setattr(admin_module, "LARGEST_ANSWER", 1 << 20)
    monkeypatch.setattr(Recorder, "answer", lambda _, request: _bad(request))
    with pytest.raises(AdminUnreachable, match=words):
        with_admin(Recorder(), lambda admin: admin.call("namespaces", what), seconds=1.0)


def test_a_redirect_is_followed_to_hosts_of_the_target_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "answer", lambda _, request: _bad(request))
    assert with_admin(Recorder(), lambda admin: admin.call("namespaces", "here")).body == ["t/n"]
    refused = with_admin(Recorder(), lambda admin: admin.call("namespaces", "elsewhere"))
    assert not refused.ok
    assert refused.reason == "it redirects to http://127.0.0.2:1, which is not on a host of the target; --allow-host allows another one"


@pytest.mark.parametrize("text", ["[" * 100_000, '["\\ud800"]', "9" * 100_000, "[" * 300 + "]" * 300])
def test_an_answer_that_no_log_can_hold_is_text(text: str) -> None:
    recorder = Recorder({"GET namespaces/t": [(200, text)]})
    assert isinstance(
        log.dump(log.End(key="", n=0, t=0, step="0.0.0", body=with_admin(recorder, lambda admin: admin.call("namespaces", "t")).body)), str
    )


def test_an_answer_of_too_many_values_is_refused() -> None:
    recorder = Recorder({"GET namespaces/t": [(200, "[" + "[]," * 500_000 + "0]")]})
    with pytest.raises(AdminUnreachable, match="more than 500000 values"):
        with_admin(recorder, lambda admin: admin.call("namespaces", "t"))


def test_a_call_that_is_refused_because_of_a_rate_is_made_again() -> None:
    recorder = Recorder({"GET namespaces/t": [(429, ""), (429, ""), (200, "[]")]})
    assert with_admin(recorder, lambda admin: admin.call("namespaces", "t")).ok
    assert len(recorder.seen) == 3
    always = Recorder({"GET namespaces/t": [(429, "too many")]})
    assert with_admin(always, lambda admin: admin.call("namespaces", "t"), seconds=0.4).status == 429


def test_an_endpoint_without_admin_url_has_no_client() -> None:
    with pytest.raises(TargetError, match="e has no admin URL"):
        AdminClient(Endpoint(name="e", service_url="pulsar://h"))


FORCED, PLAIN = "DELETE namespaces/t/n?force=true", "DELETE namespaces/t/n?force=false"


def test_a_namespace_is_removed_by_force() -> None:
    recorder = Recorder({"GET scalable/t/n": [(200, '["topic://t/n/s", "topic://t/other/s", "a", 1]')]})
    assert with_admin(recorder, lambda admin: admin.remove_namespace("t/n")).ok
    assert [f"{method} {path}" for method, path, _ in recorder.seen] == ["GET scalable/t/n", "DELETE scalable/t/n/s?force=true", FORCED]


def test_a_namespace_is_removed_topic_by_topic_where_force_is_refused() -> None:
    recorder = Recorder(
        {
            "GET scalable/t/n": [(404, "")],
            FORCED: [(405, '{"reason": "Broker doesn\'t allow forced deletion of namespaces"}')],
            PLAIN: [(409, '{"reason": "Cannot delete non empty namespace"}'), (204, "")],
            "GET persistent/t/n/partitioned?includeSystemTopic=true": [(200, '["persistent://t/n/p"]'), (200, "[]")],
            "GET persistent/t/n?includeSystemTopic=true": [(200, f'["{T}"]'), (200, "[]")],
            "GET non-persistent/t/n/partitioned?includeSystemTopic=true": [(200, "[]")],
            "GET non-persistent/t/n?includeSystemTopic=true": [(200, "[]")],
        }
    )
    assert with_admin(recorder, lambda admin: admin.remove_namespace("t/n")).ok
    deleted = [path for method, path, _ in recorder.seen if method == "DELETE"]
    assert deleted == [
        "namespaces/t/n?force=true",
        "persistent/t/n/p/partitions?force=true&deleteSchema=true",
        "persistent/t/n/x?force=true&deleteSchema=true",
        "namespaces/t/n?force=false",
        "namespaces/t/n?force=false",
    ]


def test_answers_that_pass_are_asked_again() -> None:
    recorder = Recorder({"GET scalable/t/n": [(404, "")], FORCED: [(500, ""), (409, ""), (204, "")]})
    assert with_admin(recorder, lambda admin: admin.remove_namespace("t/n")).status == 204


def test_an_answer_that_may_pass_is_final_where_there_is_no_patience() -> None:
    recorder = Recorder({"GET scalable/t/n": [(404, "")], FORCED: [(409, ""), (204, "")]})
    assert with_admin(recorder, lambda admin: admin.remove_namespace("t/n", patient=False)).status == 409


def test_a_namespace_that_does_not_exist_is_no_trouble() -> None:
    recorder = Recorder({"GET scalable/t/n": [(404, "")], FORCED: [(404, "{}")]})
    assert with_admin(recorder, lambda admin: admin.remove_namespace("t/n")).status == 404
