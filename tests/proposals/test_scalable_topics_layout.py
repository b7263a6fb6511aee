"""What scalable topics are made of: commands 70 to 72; the ids are those of the clauses."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.proposals.scalable_topics import (
    LAST_HASH,
    Layout,
    LayoutBroker,
    Segment,
    active_segments,
    first_layout,
    parse_segment_topic,
    segment_topic,
    supersedes,
)
from refimpl.wire import decode_frame, encode_frame, wrap
from refimpl.wire.pulsar_api_pb2 import (
    SEALED,
    AuthorizationError,
    CommandScalableTopicClose,
    CommandScalableTopicLookup,
    CommandScalableTopicUpdate,
    InvalidTopicName,
    NotAllowedError,
    TooManyRequests,
    TopicNotFound,
)

URL = "pulsar://localhost:30000"
T1 = "topic://public/a7/t1"
CREATED = 1795220905764
TWO_SEGMENTS = (
    "0000008e0000008a0847ba0484010801126a080012130800100018ffff012000380048a4be84dc9f34121508011080800218ffff032000380048a4be84dc9f34"
    "1a1c0801121870756c7361723a2f2f6c6f63616c686f73743a33303030301a1c0800121870756c7361723a2f2f6c6f63616c686f73743a33303030302a14"
    "746f7069633a2f2f7075626c69632f61372f7431"
)
"""An update of Apache Pulsar 5.0.0-M1."""


class Broker:
    def __init__(self, *layouts, tls=None, **arguments):
        self.layouts = {layout.topic: layout for layout in layouts}
        self.side = LayoutBroker(self.layouts.get, service_urls=lambda _: (URL, tls), **arguments)

    def lookup(self, topic=T1, session_id=1, connection="a"):
        return self.side.lookup(connection, CommandScalableTopicLookup(session_id=session_id, topic=topic))

    def close(self, session_id=1, connection="a"):
        return self.side.close(connection, CommandScalableTopicClose(session_id=session_id))


def test_update_of_a_real_broker_pr25648_layout_answer():
    real = decode_frame(bytes.fromhex(TWO_SEGMENTS)).command.scalableTopicUpdate
    real.dag.segment_brokers.reverse()  # their order means nothing
    update = Broker(first_layout(T1, 2, CREATED)).lookup()
    assert update == real
    assert encode_frame(wrap(update)) == encode_frame(wrap(real))


def test_one_segment_pr25648_layout_answer():
    update = Broker(first_layout(T1, created_at_ms=CREATED)).lookup(session_id=2**64 - 1)
    (segment,) = update.dag.segments
    assert (segment.segment_id, segment.hash_start, segment.hash_end, segment.created_at_ms) == (0, 0, 65535, CREATED)
    assert not segment.HasField("legacy_topic_name")
    assert (update.session_id, update.dag.epoch, update.resolved_topic_name) == (2**64 - 1, 0, T1)  # pr25648.layout.resolved-name
    (place,) = update.dag.segment_brokers  # pr25648.layout.brokers
    assert (place.segment_id, place.broker_url, place.HasField("broker_url_tls")) == (0, URL, False)
    assert tuple(active_segments(update)) == ("segment://public/a7/t1/0000-ffff-0",)  # pr25648.layout.segment-name


def test_tls_pr25648_layout_brokers():
    url = "pulsar+ssl://localhost:6651"
    (place,) = Broker(first_layout(T1), tls=url).lookup().dag.segment_brokers
    assert (place.broker_url, place.broker_url_tls) == (URL, url)


@given(segments=st.integers(1, 300))
def test_segments_cover_each_hash_once_pr25648_layout_covers_hashes(segments):
    parts = first_layout(T1, segments).segments
    assert [part.number for part in parts] == list(range(segments))
    assert (parts[0].start, parts[-1].end) == (0, LAST_HASH)
    assert all(one.end + 1 == other.start for one, other in pairwise(parts))
    assert len({part.end - part.start for part in parts[:-1]}) <= 1


@pytest.mark.parametrize("segments", [0, -1, LAST_HASH + 2])
def test_number_of_segments(segments):
    with pytest.raises(ValueError, match="numInitialSegments must be"):
        first_layout(T1, segments)
    assert len(first_layout(T1, LAST_HASH + 1).segments) == LAST_HASH + 1


@given(local=st.text(min_size=1).filter(str.strip), segments=st.integers(1, 40), data=st.data())
def test_names_of_segments_can_be_read(local, segments, data):
    topic = f"topic://public/ns/{local}"
    segment = data.draw(st.sampled_from(first_layout(topic, segments).segments))
    assert parse_segment_topic(segment_topic(topic, segment)) == (topic, segment)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "topic://public/ns/t/0000-ffff-0",
        "persistent://public/ns/t/0000-ffff-0",
        "segment://public/ns/0000-ffff-0",
        "segment://public/ns/t",
        "segment://public/ns/t/0000-ffff",
        "segment://public/ns/t/0000-FFFF-0",
        "segment://public/ns/t/0000-ffff-00",
        "segment://public/ns/t/0000-ffff--1",
        "segment://public/ns/t/0000-10000-0",
        "segment://public/ns/t/8000-7fff-0",
        "segment://public/ns/ /0000-ffff-0",
        "segment://public/n s/t/0000-ffff-0",
        "segment://public/ns/t/0000-ffff-0\n",
        "segment://public/ns/t/0000-ffff-99999999999999999999",
    ],
)
def test_other_names_are_no_segments(name):
    assert parse_segment_topic(name) is None


@pytest.mark.parametrize(
    ("name", "ordinary"),
    [
        ("persistent://public/a7/p1", "persistent://public/a7/p1"),
        ("public/a7/p1", "persistent://public/a7/p1"),
        ("nonsense", "persistent://public/default/nonsense"),
    ],
)
def test_an_ordinary_topic_is_its_own_segment_pr25648_layout_ordinary_topic(name, ordinary):
    update = Broker().lookup(name)
    assert (update.dag.epoch, update.resolved_topic_name) == (0, ordinary.replace("persistent", "topic", 1))
    assert tuple(active_segments(update)) == (ordinary,)


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "topic://nonsense", "topic://public/a7/ ", "topic://public/a b/t", "a/b", "non-persistent://public/a7/t",
        "segment://public/a7/t/0000-ffff-0", "persistent://public/cluster/a7/t",
    ],
)  # fmt: skip
def test_invalid_names_pr25648_layout_invalid_name(name):
    broker = Broker()
    update = broker.lookup(name)
    assert (update.error, update.message) == (InvalidTopicName, f"Invalid topic name: {name}")
    assert not update.HasField("dag")
    assert broker.side.session_count("a") == 0


def test_missing_topic_is_not_created_pr25648_layout_not_created():
    broker = Broker()
    update = broker.lookup()
    assert update == CommandScalableTopicUpdate(session_id=1, error=TopicNotFound, message=f"Scalable topic not found: {T1}")
    broker.layouts[T1] = first_layout(T1)
    assert broker.side.changed(T1) == []  # an error ends the look-up: pr25648.layout.error-in-update


def test_switched_off_pr25648_layout_error_in_update():
    update = Broker(first_layout(T1), enabled=False).lookup()
    assert update.error == NotAllowedError
    assert encode_frame(wrap(update)).hex() == (
        "0000003a000000360847ba043108011816222b5363616c61626c6520746f70696373206172652064697361626c6564206f6e20746869732062726f6b6572"
    )


def test_unauthorized_pr25648_layout_error_in_update():
    broker = Broker(first_layout(T1), may_look_up=lambda connection, namespace: (connection, namespace) == ("a", "public/a7"))
    assert broker.lookup(connection="a").HasField("dag")
    assert broker.lookup(connection="b").error == AuthorizationError
    assert broker.lookup("persistent://public/other/t").error == AuthorizationError


def test_limit_of_sessions():
    broker = Broker(first_layout(T1), max_sessions=1)
    assert broker.lookup().HasField("dag")
    assert broker.lookup(session_id=2).error == TooManyRequests
    assert broker.lookup().HasField("dag")
    assert broker.lookup(session_id=2, connection="b").HasField("dag")


def test_another_layout_is_pushed_pr25648_layout_pushed():
    broker = Broker(first_layout(T1), first_layout("topic://public/a7/t2"))
    for connection, session_id in (("a", 1), ("a", 2), ("b", 1)):
        broker.lookup(connection=connection, session_id=session_id)
    broker.lookup("topic://public/a7/t2", session_id=3)
    del broker.layouts[T1]
    assert broker.side.changed(T1) == []  # pr25648.layout.deletion-silent
    broker.layouts[T1] = first_layout(T1, 2)
    broker.close(session_id=2)
    pushed = broker.side.changed(T1)
    assert [(connection, update.session_id, len(update.dag.segments)) for connection, update in pushed] == [("a", 1, 2), ("b", 1, 2)]
    broker.lookup("topic://public/a7/t2", session_id=1)  # the older look-up with this id ends
    assert [connection for connection, _ in broker.side.changed(T1)] == ["b"]


def test_close_pr25648_layout_close_silent():
    broker = Broker(first_layout(T1))
    broker.lookup()
    broker.lookup(connection="b")
    assert (broker.close(), broker.close(), broker.close(session_id=9)) == (None, None, None)
    broker.side.disconnected("b")
    broker.side.disconnected("b")
    assert (broker.side._sessions, broker.side._interested) == ({}, {})


def test_sealed_segments_are_not_attached_to_pr25648_layout_client_attaches():
    update = Broker(first_layout(T1, 2)).lookup()
    update.dag.segments[0].state = SEALED
    assert tuple(active_segments(update)) == ("segment://public/a7/t1/8000-ffff-1",)


@pytest.mark.parametrize(("known", "epoch", "applied"), [(None, 0, True), (0, 0, True), (0, 1, True), (2, 1, False), (2, 2, True)])
def test_epochs_pr25648_layout_client_epoch(known, epoch, applied):
    layout = Layout(T1, (Segment(0, 0, LAST_HASH),), epoch)
    assert supersedes(Broker(layout).lookup(), known) is applied
    assert not supersedes(Broker().lookup(), known)  # an error is no layout
