"""The table of what the reference broker refuses: each row is so, and each refusal of the code has a row."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.site.sources import REPOSITORY
from refimpl.broker import Configuration
from refimpl.broker.rest import handle
from refimpl.broker.schemas import MOST_VERSIONS
from refimpl.proposals.administration import AdminRequest
from refimpl.proposals.scalable_topics.broker import ScalableTopicsExtension
from refimpl.wire import FrameDecoder, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, Schema, ServerError
from tests.fakes.broker_peer import TOPIC, Peer, make_broker

PAGE = (REPOSITORY / "docs" / "reference-broker.md").read_text()
PHRASE = "is not supported by this broker"
NOT_ALLOWED = "NotAllowedError"
Answer = tuple[str, str]


def rows() -> dict[str, tuple[str, str]]:
    """Return answer and text by what is asked for."""
    tables = re.findall(r"^\| asked for \| answer \| text \|\n.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^\| (.+?) \| (\w+) \| `(.+?)` \|$", "".join(tables), re.MULTILINE)
    return {asked: (answer, text) for asked, answer, text in found}


def refusals() -> Iterator[tuple[str, str]]:
    """Yield the place and text of each refusal of the code with NotAllowedError, or of what is not supported; two dots stand for a value."""
    for part in ("broker", "proposals"):
        for path in sorted((REPOSITORY / "refimpl" / part).rglob("*.py")):
            if path.name != "client.py":
                yield from _refusals(path)


def _refusals(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        text = _text(node)
        if text is not None and PHRASE in text and not text.startswith(" "):
            yield f"{path}:{node.lineno}", text
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        first, last = node.args[0], _text(node.args[-1])
        if name == "unsupported":
            yield f"{path}:{node.lineno}", f"{_text(first)} {PHRASE}"
        elif name == "Refused" and isinstance(first, ast.Name) and first.id == NOT_ALLOWED and last:
            yield f"{path}:{node.lineno}", str(last)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(one.value if isinstance(one, ast.Constant) else ".." for one in node.values)
    return None


def test_each_refusal_of_the_code_has_a_row():
    texts = [text for _, text in rows().values()]
    found = list(refusals())
    assert len(found) > 20
    assert {place: pattern for place, pattern in found if not any(fits(text, pattern) for text in texts)} == {}


def fits(text: str, pattern: str) -> bool:
    return re.fullmatch(".+".join(map(re.escape, pattern.split(".."))), text) is not None


# Limits


def table(*head: str) -> dict[str, tuple[str, ...]]:
    """Return all rows of the tables with this head, by their first cells."""
    line = re.escape(f"| {' | '.join(head)} |")
    tables = re.findall(rf"^{line}\n[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in "".join(tables).splitlines()]
    return {first: tuple(others) for first, *others in rows}


def test_each_setting_that_limits_is_one_with_this_default():
    defaults = Configuration().settings()
    found: dict[str, str] = {}
    for names, (default, _) in table("setting", "default", "beyond it").items():
        keys = re.findall(r"`(\w+)`", names)
        values = [re.split("[:;]", one)[0].removesuffix(" ms") for one in default.split(", ")]
        found |= dict(zip(keys, values * len(keys), strict=False))
    assert set(found) >= {key for key in defaults if key.startswith(("max", "httpMax", "brokerMax", "backlogQuotaDefaultLimit"))}
    stated = {key: {"none": "", "off": "false"}.get(value, value) for key, value in found.items() if not key.startswith("tls")}
    assert stated == {key: defaults[key].removesuffix(".0") for key in stated}


LIMITS = {
    "topic list watchers of a connection": "refimpl.proposals.topic_list.rules.WATCHERS_PER_CONNECTION",
    "partition update watchers of a connection": "refimpl.proposals.partition_watch.rules.WATCHERS_PER_CONNECTION",
    "topics of these watchers together": "refimpl.proposals.partition_watch.rules.TOPICS_PER_CONNECTION",
    "watches of scalable topics on a connection, and look-ups of them": "refimpl.proposals.scalable_topics.rules.WATCHES_PER_CONNECTION",
    "bytes that a client leaves unread": "refimpl.broker.session.OUTPUT_LIMIT",
    "partitions of a topic": "refimpl.broker.policies.MOST_PARTITIONS",
    "segments of a scalable topic": "refimpl.proposals.scalable_topics.admin.MOST_SEGMENTS",
    "bundles of a namespace": "refimpl.broker.bundles.MOST_BUNDLES",
    "versions of a schema": "refimpl.broker.schemas.MOST_VERSIONS",
    "types and fields of two schemas that are compared": "refimpl.broker.avro_schemas.MOST_STEPS",
    "bytes of the body of an admin call": "refimpl.net.admin_http.BODY_LIMIT",
}


def test_each_limit_without_a_setting_has_a_row_with_its_number():
    found = {limit: int(number.replace(",", "")) for limit, (number, _) in table("limit", "number", "beyond it").items()}
    assert found == {limit: getattr(importlib.import_module(path), name) for limit, (path, name) in _places()}
    constants = {
        f"{str(path.relative_to(REPOSITORY)).removesuffix('.py').replace('/', '.')}.{name}"
        for part in ("broker", "net", "proposals")
        for path in (REPOSITORY / "refimpl" / part).rglob("*.py")
        for name in re.findall(r"^(MOST_\w+|\w+_PER_CONNECTION|\w+_LIMIT) = ", path.read_text(), re.MULTILINE)
    }
    assert constants == {*LIMITS.values()}


def _places() -> Iterator[tuple[str, tuple[str, str]]]:
    for limit, place in LIMITS.items():
        path, _, name = place.rpartition(".")
        yield limit, (path, name)


# How each row comes about


def wire(
    name: str, *, before: Callable[[Peer], object] = lambda _: None, settings: Mapping[str, str] | None = None, **fields: Any
) -> Answer:
    peer = Peer(make_broker(**(settings or {})))
    before(peer)
    peer.frames()
    answer: Any = peer.ask(name, **fields)
    return ServerError.Name(answer.error), answer.message


def admin(method: str, path: str, body: object = None, **query: str) -> Answer:
    answer = handle(make_broker(), AdminRequest(method, f"/admin/v2/{path}".replace("v2/../", ""), query, json.dumps(body).encode()), 0.0)
    return str(int(answer.status)), json.loads(answer.body)["reason"]


def connected(*addresses: str, **settings: str) -> Answer:
    broker = make_broker(**settings)
    *_, last = (broker.connect(0.0, address) for address in addresses)
    (frame,) = FrameDecoder(max_frame_size=1000).receive(last.data_to_send())
    return ServerError.Name(frame.command.error.error), frame.command.error.message


def partitioned(topic: str = TOPIC) -> Callable[[Peer], object]:
    return lambda peer: peer.broker.admin.create_partitioned_topic(topic, 2)


def scalable(peer: Peer) -> None:
    peer.broker.extension(ScalableTopicsExtension).admin.create_scalable_topic("topic://public/default/x")


def versions(peer: Peer) -> None:
    schemas = [
        Schema(name="s", type=Schema.Avro, schema_data=b'{"type":"record","name":"R%d","fields":[]}' % number)
        for number in range(MOST_VERSIONS)
    ]
    peer.broker.store.namespaces["public/default"].schemas["public/default/t"] = schemas


MESSAGE = encode_payload(MessageMetadata(producer_name="p", sequence_id=0, publish_time=0), b"x")
PRODUCER = {"topic": TOPIC, "producer_id": 1, "request_id": 1}
SUBSCRIBE = {"topic": TOPIC, "subscription": "s", "subType": "Exclusive", "consumer_id": 1, "request_id": 1}
WATCH = {"request_id": 1, "watcher_id": 1, "namespace": "public/default", "topics_pattern": "public/default/t.*"}
COUNTS = {"request_id": 1, "watcher_id": 1, "topics": [TOPIC]}
QUOTA = {"limitSize": 1, "limitTime": -1, "policy": "consumer_backlog_eviction"}
PROVOKED: Mapping[str, Callable[[], Answer]] = {
    "transactions": lambda: wire("newTxn", request_id=1),
    "SEND in a transaction": lambda: wire(
        "send", before=lambda peer: peer.producer(), payload=MESSAGE, producer_id=1, sequence_id=0, txnid_most_bits=0, txnid_least_bits=1
    ),
    "ACK in a transaction": lambda: wire(
        "ack", before=lambda peer: peer.subscribe(), consumer_id=1, ack_type="Individual", request_id=2, txnid_most_bits=0, txnid_least_bits=1
    ),
    "a consumer that a scalable topic assigns its segments": lambda: wire(
        "scalableTopicSubscribe",
        topic="topic://public/default/x", subscription="s", consumer_name="c", consumer_id=1, request_id=1, consumer_type="STREAM",
    ),
    "functions, sources, sinks": lambda: admin("GET", "../v3/functions/public/default"),
    "transactions and packages, by an administrator": lambda: admin("GET", "../v3/transactions/coordinators"),
    "any other path of Pulsar's admin interface": lambda: admin("PUT", "persistent/public/default/t/compaction"),
    "another policy in the body that creates a namespace": lambda: admin("PUT", "namespaces/public/n", {"max_producers_per_topic": 1}),
    "permissions on topics or subscriptions in that body": lambda: admin(
        "PUT", "namespaces/public/n", {"auth_policies": {"destination_auth": {"t": {"r": ["consume"]}}}}
    ),
    "a policy of a topic for all clusters": lambda: admin("GET", "persistent/public/default/t/retention", isGlobal="true"),
    "a backlog quota by time": lambda: admin("POST", "namespaces/public/default/backlogQuota", QUOTA, backlogQuotaType="message_age"),
    "a backlog quota that drops messages": lambda: admin("POST", "namespaces/public/default/backlogQuota", QUOTA),
    "a connection beyond `brokerMaxConnections`": lambda: connected("a", "b", brokerMaxConnections="1"),
    "one beyond `brokerMaxConnectionsPerIp`": lambda: connected("192.0.2.1", "192.0.2.1", brokerMaxConnectionsPerIp="1"),
    "a producer or consumer on the name of a partitioned topic": lambda: wire("producer", before=partitioned(), **PRODUCER),
    "a partition of a topic that has none": lambda: wire("producer", **PRODUCER | {"topic": f"{TOPIC}-partition-0"}),
    "a partition beyond the last, of a non-persistent topic": lambda: wire(
        "producer", before=partitioned(f"non-{TOPIC}"), **PRODUCER | {"topic": f"non-{TOPIC}-partition-2"}
    ),
    "a reader with the name of a durable subscription": lambda: wire(
        "subscribe", before=lambda peer: peer.subscribe(consumer_id=2), **SUBSCRIBE, durable=False
    ),
    "the compacted topic, on a non-persistent topic": lambda: wire(
        "subscribe", **SUBSCRIBE | {"topic": f"non-{TOPIC}"}, read_compacted=True
    ),
    "the compacted topic, on a shared subscription": lambda: wire("subscribe", **SUBSCRIBE | {"subType": "Shared"}, read_compacted=True),
    "a topic list watcher, switched off": lambda: wire(
        "watchTopicList", settings={"enableBrokerSideSubscriptionPatternEvaluation": "false"}, **WATCH
    ),
    "one with a long pattern": lambda: wire("watchTopicList", **WATCH | {"topics_pattern": "public/default/" + "x" * 50}),
    "a partition update watcher, switched off": lambda: wire(
        "watchPartitionUpdate", settings={"enableNotificationForPartitionUpdate": "false"}, **COUNTS
    ),
    "one with topics that do not fit into a frame": lambda: wire(
        "watchPartitionUpdate", settings={"maxMessageSize": "1000"}, **COUNTS | {"topics": [f"{TOPIC}{number}" for number in range(300)]}
    ),
    "scalable topics, switched off": lambda: wire(
        "scalableTopicLookup", settings={"scalableTopicsEnabled": "false"}, topic="topic://public/default/x", session_id=1
    ),
    "a producer or consumer on the name of a scalable topic": lambda: wire(
        "producer", before=scalable, **PRODUCER | {"topic": "topic://public/default/x"}
    ),
    "a message filter that is unknown or invalid": lambda: wire("subscribe", **SUBSCRIBE, filter_meta={"filter_class_name": "none"}),
    "an entry filter with invalid properties": lambda: wire(
        "subscribe", **SUBSCRIBE, subscription_properties=[{"key": "entry-filter-missing", "value": "perhaps"}]
    ),
    "more than 10,000 partitions": lambda: admin("PUT", "persistent/public/default/t/partitions", 10_001),
    "more than 1,000 versions of a schema": lambda: wire(
        "producer", before=versions, **PRODUCER, schema={"name": "s", "type": "Avro", "schema_data": b'{"type":"record","name":"R","fields":[]}'}
    ),
}  # fmt: skip


def test_each_row_is_provoked():
    assert list(PROVOKED) == list(rows())


@pytest.mark.parametrize("asked", PROVOKED)
def test_each_row_is_so(asked):
    code, text = rows()[asked]
    answer = PROVOKED[asked]()
    assert answer[0] == code
    assert fits(answer[1], text), answer[1]
