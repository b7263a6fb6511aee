"""Whatever a peer asks a message filter to be, and whatever it is then given to judge, others are served as before."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.broker import Broker
from refimpl.proposals.message_filter import (
    BASIC_AVRO_FILTER,
    BUILT_IN,
    BUILT_IN_REGISTRY,
    PREFIX_BASE64_KEY,
    PREFIX_KEY,
    REGEX_FILTER,
    REGEX_KEY,
)
from refimpl.wire import command, compress, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import LZ4, FilterMeta, IncompatibleSchema, KeyValue, MessageMetadata, NotAllowedError, Schema
from tests.fakes.broker_peer import TOPIC, Peer, make_broker
from tests.samples.message_filter import RECORD, avro, avro_payload

KEYS = st.sampled_from([REGEX_KEY, PREFIX_KEY, PREFIX_BASE64_KEY, "state", ""]) | st.text(max_size=5)
VALUES = st.sampled_from(["[3-5][0-9]", "(", "a{1000}{1000}", r"(\1)", "(?=x)", "====", "/wA=", "paid"]) | st.text(max_size=20)
METAS = st.builds(
    lambda name, pairs: FilterMeta(filter_class_name=name, filter_properties=[KeyValue(key=key, value=value) for key, value in pairs]),
    st.sampled_from([*BUILT_IN, "RegexFilter", "java.lang.String", "os.system", ""]) | st.text(max_size=10),
    st.lists(st.tuples(KEYS, VALUES), max_size=3),
)
DEFINITIONS = st.sampled_from([json.dumps(RECORD).encode(), b"", b"{", b"[]", b'"string"', b'{"type":"record"}', b"\xff"]) | st.binary(
    max_size=20
)
SCHEMAS = st.none() | st.builds(lambda kind, data: Schema(name="", type=kind, schema_data=data), st.sampled_from(range(22)), DEFINITIONS)
ENTRIES = st.lists(
    st.builds(
        lambda body, fields: encode_payload(MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, **fields), body),
        st.sampled_from(
            [b"30", b"", b"\xff\xfe", avro_payload({**dict.fromkeys(["note"]), "state": "paid", "amount": 1, "kind": "BUY", "items": []})]
        )
        | st.binary(max_size=40),
        st.fixed_dictionaries(
            {},
            optional={
                "num_messages_in_batch": st.integers(-1, 2**31 - 1),
                "compression": st.integers(0, 4),
                "uncompressed_size": st.integers(0, 2**32 - 1),
                "schema_version": st.binary(max_size=9),
                "num_chunks_from_msg": st.integers(0, 3),
                "marker_type": st.integers(0, 30),
            },
        ),
    ),
    max_size=5,
)


def drained(peer: Peer) -> None:
    while peer.session.data_to_send():
        pass


def still_served(good: Peer, entries: int) -> bool:
    """A subscription without a filter gets everything, and requests are answered."""
    good.subscribe(name="good", consumer_id=9)
    good.send("flow", consumer_id=9, messagePermits=2**31 - 1)
    return len(good.entries()) == entries and good.ask("ping").DESCRIPTOR.name == "CommandPong" and not good.session.closing


@given(METAS, SCHEMAS, ENTRIES)
def test_any_filter_with_any_schema_on_any_entries(meta: FilterMeta, schema: Schema | None, entries: list[bytes]) -> None:
    broker = make_broker()
    good, bad = Peer(broker), Peer(broker)
    good.producer()
    for kind in ("Exclusive", "Shared", "Key_Shared"):
        fields = {"subscription": kind, "subType": kind, "initialPosition": "Earliest", "topic": TOPIC, "filter_meta": meta}
        bad.send("subscribe", consumer_id=1, request_id=1, **fields, **({"schema": schema} if schema is not None else {}))
        (answer,) = bad.answers()
        accepted = answer.DESCRIPTOR.name == "CommandSuccess"
        assert accepted or answer.error in (NotAllowedError, IncompatibleSchema)
        assert (kind in broker.admin.subscriptions(TOPIC)) is accepted
        for data in entries:
            good.send("send", data, producer_id=1, sequence_id=0, num_messages=1)
        if accepted:
            bad.send("flow", consumer_id=1, messagePermits=2**31 - 1)
            stats = broker.admin.topic_stats(TOPIC)["subscriptions"][kind]
            counted = [stats[f"messageFilter{name}MsgCount"] for name in ("Accepted", "Rejected", "Undecidable")]
            assert sum(counted) == stats["messageFilterProcessedMsgCount"]
            bad.send("close_consumer", consumer_id=1, request_id=2)
        drained(bad)
    good.frames()
    assert still_served(good, len(broker.loaded(TOPIC).entries))


@pytest.mark.parametrize("seed", range(4))
def test_mutated_subscribes(seed: int) -> None:
    choice = random.Random(seed)
    broker = make_broker()
    good = Peer(broker)
    good.producer(schema=avro())
    meta = FilterMeta(filter_class_name=REGEX_FILTER, filter_properties=[KeyValue(key=REGEX_KEY, value="[3-5][0-9]")])
    fields = {"topic": TOPIC, "subscription": "s", "subType": "Shared", "consumer_id": 1, "request_id": 1, "schema": avro()}
    whole = encode_frame(command("subscribe", **fields, filter_meta=meta))
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(choice.randint(1, 3)):
            changed[choice.randrange(8, len(changed))] = choice.randrange(256)
        bad = Peer(broker)
        bad.session.receive(bytes(changed), broker.now)
        drained(bad)
        bad.session.eof(broker.now)
    assert still_served(good, 0)
    assert len(list(broker.sessions)) == 1


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)*c", "(a?){500}a{500}", "(.*)*" * 100, "(a|b|ab)*" * 20 + "z"])
def test_no_pattern_hangs_the_broker(pattern: str) -> None:
    broker = make_broker()
    peer, good = Peer(broker), Peer(broker)
    good.producer()
    meta = FilterMeta(filter_class_name=REGEX_FILTER, filter_properties=[KeyValue(key=REGEX_KEY, value=pattern)])
    peer.subscribe(filter_meta=meta)
    good.publish("a" * 100_000)
    peer.flow(10)
    good.frames()
    assert still_served(good, 1)


DEEP = {"type": "record", "name": "R", "fields": [{"name": "state", "type": "string"}]}
for _number in range(40):
    DEEP = {"type": "record", "name": f"R{_number}", "fields": [{"name": "state", "type": "string"}, {"name": "inner", "type": DEEP}]}
HOSTILE = {
    "recursive": {"type": "record", "name": "R", "fields": [{"name": "state", "type": "string"}, {"name": "next", "type": ["null", "R"]}]},
    "of nothing": {"type": "record", "name": "R", "fields": [{"name": "many", "type": {"type": "array", "items": "null"}}]},
    "deep": DEEP,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schema_that_can_not_be_read_by_is_refused_although_producers_may_have_it(name: str) -> None:
    broker = make_broker()
    peer, good = Peer(broker), Peer(broker)
    schema = avro(HOSTILE[name])
    assert good.producer(schema=schema).schema_version == bytes(8)
    meta = FilterMeta(filter_class_name=BASIC_AVRO_FILTER, filter_properties=[KeyValue(key="state", value="paid")])
    assert peer.subscribe(filter_meta=meta).error == NotAllowedError
    assert peer.subscribe(filter_meta=meta, schema=schema).error == NotAllowedError
    assert still_served(good, 0)


@pytest.mark.parametrize(
    "definition", [b'{"type":"array","items":' * 100_000, b"[" * 100_000, b'{"type":' * 200 + b'"int"' + b"}" * 200, b"1" * 10_000]
)
def test_a_schema_that_is_none_is_refused(definition: bytes) -> None:
    broker = make_broker()
    peer, good = Peer(broker), Peer(broker)
    for kind in (Schema.Avro, Schema.Json):
        assert peer.producer(schema=avro(definition, kind)).error == IncompatibleSchema
        assert peer.subscribe(schema=avro(definition, kind)).error == IncompatibleSchema
        answer = good.ask("getOrCreateSchema", request_id=1, topic=TOPIC, schema=avro(definition, kind))
        assert answer.HasField("error_code")
    good.producer()
    assert still_served(good, 0)


def test_a_filter_that_fails_delivers_and_dispatch_goes_on() -> None:
    class Fails:
        def __init__(self, properties: object, schemas: object) -> None:
            pass

        def matches(self, message: object) -> bool:
            raise RuntimeError

    registry = type(BUILT_IN_REGISTRY)({"org.example.Fails": Fails})
    peer = Peer(Broker(plugins={"pr7629": registry}))
    peer.producer()
    peer.subscribe(filter_meta=FilterMeta(filter_class_name="org.example.Fails"))
    peer.publish("a", "b")
    peer.frames()
    assert peer.flow(10) == ["a", "b"]
    assert peer.broker.admin.topic_stats(TOPIC)["subscriptions"]["s"]["messageFilterUndecidableMsgCount"] == 2


@pytest.mark.parametrize(("limit", "arrives"), [("1000", [0]), ("3000", [])])
def test_a_body_that_grows_beyond_the_limit_of_the_broker_is_not_judged(limit: str, arrives: list[int]) -> None:
    peer = Peer(make_broker(maxMessageSize=limit))
    peer.producer()
    meta = FilterMeta(filter_class_name=REGEX_FILTER, filter_properties=[KeyValue(key=REGEX_KEY, value="x")])
    peer.subscribe(filter_meta=meta)
    header = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, compression=LZ4, uncompressed_size=2000)
    peer.send("send", encode_payload(header, compress(b"y" * 2000, LZ4)), producer_id=1, sequence_id=0)
    peer.frames()
    peer.send("flow", consumer_id=1, messagePermits=1)
    assert peer.entries() == arrives
