"""Captures of packets as rows: no frame is lost that is in them, and what they lack hides no more than it must."""

import gzip
import random
import struct
from itertools import pairwise

import pytest

from conformance.captures import connections, packet_rows, write_capture
from conformance.captures.connections import packet_defect
from refimpl.wire import command, encode_frame
from tests.samples import packets
from tests.samples.captured import CONNECT, LIST, PING, everything
from tests.samples.packets import BROKER, Talk, ip, pcap, pcapng

NAMES = [f"persistent://public/default/topic-{number}" for number in range(300)]
ANSWER = encode_frame(command("watchTopicListSuccess", request_id=1, watcher_id=2, topic=NAMES, topics_hash="0"))
SENT = [CONNECT, LIST, PING, LIST, PING]
RECEIVED = [encode_frame(command("connected", server_version="x", protocol_version=21)), ANSWER, PING]


def rows(folder, capture, name="a.pcap"):
    (folder / name).write_bytes(capture)
    return list(packet_rows(folder / name, name))


def frames(found):
    return {side: [row.data for row in found if row.origin.direction == side and row.corrupt is None] for side in ("client", "broker")}


def corrupt(found):
    return [(row.origin.direction, row.offset, row.size, row.corrupt) for row in found if row.corrupt]


def pieces(data, size):
    return [data[place : place + size] for place in range(0, len(data), size)]


def conversation(talk=None, size=500):
    """Give the packets of a connection: what both sides sent, in pieces, one after the other."""
    talk = talk or Talk()
    sent, received = (pieces(b"".join(data), size) for data in (SENT, RECEIVED))
    said = [talk.client(data) for data in sent[:1]] + [talk.broker(data) for data in received] + [talk.client(data) for data in sent[1:]]
    return [*talk.opened(), *said]


@pytest.mark.parametrize("link", [0, 1, "vlan", 12, 101, 108, 113, 228, 276])
def test_frames_of_both_directions_in_each_link_type(tmp_path, link):
    found = rows(tmp_path, pcap(conversation(), link))
    assert frames(found) == {"client": SENT, "broker": RECEIVED}
    assert corrupt(found) == []
    first = found[0]
    assert (first.origin.connection, first.origin.target, first.origin.file) == ("10.0.0.7:51000-10.0.0.1:6650", "10.0.0.1:6650", "a.pcap")
    assert (first.origin.started, first.time, first.offset, first.command) == (100.5, 102.5, 0, "connect")


@pytest.mark.parametrize(
    "capture",
    [
        pcap(conversation(), order=">"),
        pcap(conversation(), magic=0xA1B23C4D),
        gzip.compress(pcap(conversation())),
        pcapng(conversation()),
        pcapng(conversation(), order=">"),
        pcapng(conversation(), kind=2),
        pcapng(conversation(Talk(version=6)), link=101),
        pcapng(conversation()) + pcapng(conversation(Talk(ends=(("10.0.0.8", 1), BROKER))), order=">"),
    ],
)
def test_all_forms_of_captures_of_packets(tmp_path, capture):
    found = rows(tmp_path, capture)
    assert frames(found)["client"][:5] == SENT
    assert {tuple(data) for data in frames(found).values()} <= {(*SENT,), (*SENT, *SENT), (*RECEIVED,), (*RECEIVED, *RECEIVED)}
    assert corrupt(found) == []
    assert found[0].time == 102.5


def test_simple_packets_have_no_time(tmp_path):
    assert frames(rows(tmp_path, pcapng(conversation(), kind=3))) == {"client": SENT, "broker": RECEIVED}


def test_time_has_the_resolution_and_the_offset_of_its_interface(tmp_path):
    options = struct.pack("<HHB3xHHqHH", 9, 1, 0x80 | 10, 14, 8, 50, 0, 0)
    text = packets.section() + packets.interface(101, options=options)
    for packet in conversation():
        text += packets.block(6, struct.pack("<IIIII", 0, 0, 1536, len(packet), len(packet)) + packet)
    assert {row.time for row in rows(tmp_path, text)} == {51.5}


def test_interfaces_of_unknown_links_do_no_harm_until_a_packet_comes_from_there(tmp_path):
    text = packets.section() + packets.interface(249) + packets.interface(101)
    for packet in conversation():
        text += packets.block(6, struct.pack("<IIIII", 1, 0, 0, len(packet), len(packet)) + packet)
    assert frames(rows(tmp_path, text)) == {"client": SENT, "broker": RECEIVED}
    text += packets.block(6, struct.pack("<IIIII", 0, 0, 0, 4, 4) + bytes(4))
    assert rows(tmp_path, text)[-1].corrupt.startswith("packets: link type 249 is not known")


@pytest.mark.parametrize("seed", range(30))
def test_late_repeated_and_overlapping_segments_give_the_same_frames(tmp_path, seed):
    drawn = random.Random(seed)
    talk = Talk(first=(drawn.choice([7, (1 << 32) - 2]), (1 << 32) - 700))  # numbers begin again in the middle
    sides = [b"".join(SENT * 20), b"".join(RECEIVED * 3)]
    made = []
    for side, data in enumerate(sides):
        borders = sorted({0, len(data), *(drawn.randrange(len(data)) for _ in range(60))})
        for start, end in pairwise(borders):
            begin = max(0, start - drawn.choice([0, 0, 30, 200]))  # a repeated one may be longer
            made.append(talk.segment(side, talk.first[side] + 1 + begin, 24, data[begin:end]))
    made += drawn.sample(made, 30)
    drawn.shuffle(made)
    opened = [] if seed % 3 == 0 else talk.opened()
    place = drawn.choice([0, 1, 40])
    found = rows(tmp_path, pcap(made[:place] + opened + made[place:]))
    assert frames(found) == {"client": SENT * 20, "broker": RECEIVED * 3}
    assert corrupt(found) == []


@pytest.mark.parametrize("cut", [1, 3, 4, 8, 20, len(CONNECT), len(CONNECT) + 5])
def test_a_capture_that_begins_in_the_middle_of_a_connection(tmp_path, cut):
    data = b"".join(SENT)
    talk = Talk()
    talk.next[0] += cut
    found = rows(tmp_path, pcap([talk.client(piece) for piece in pieces(data[cut:], 40)] + [talk.broker(b"".join(RECEIVED))]))
    whole = [start for start in (0, len(CONNECT)) if start >= cut] or [len(CONNECT) + len(LIST)]
    hidden = whole[0] - cut
    assert b"".join(frames(found)["client"]) == data[cut + hidden :]
    assert frames(found)["broker"] == RECEIVED
    assert corrupt(found) == ([("client", 0, hidden, "cut: the capture begins inside a frame")] if hidden else [])


def test_a_missing_packet_hides_the_frames_that_it_is_in(tmp_path):
    talk = Talk()
    large = pieces(ANSWER, 1000)
    made = [*talk.opened(), talk.client(CONNECT), *(talk.broker(data) for data in (RECEIVED[0], *large, PING, ANSWER, PING, PING))]
    within = rows(tmp_path, pcap([packet for number, packet in enumerate(made) if number != 6]))
    assert frames(within)["broker"] == [RECEIVED[0], PING, ANSWER, PING, PING]
    assert corrupt(within) == [("broker", len(RECEIVED[0]), len(ANSWER), f"cut: the capture lacks 1,000 of {len(ANSWER):,} bytes")]
    last = rows(tmp_path, pcap([packet for number, packet in enumerate(made) if number not in (4 + len(large) - 1, 4 + len(large))]))
    assert frames(last)["broker"] in ([RECEIVED[0], ANSWER, PING, PING], [RECEIVED[0], PING, ANSWER, PING, PING])
    assert len(corrupt(last)) == 1


def test_a_frame_that_is_whole_and_lacks_its_neighbours_is_found(tmp_path):
    talk = Talk()
    made = [*talk.opened(), *(talk.client(data) for data in (CONNECT, LIST + PING, LIST, PING + LIST, LIST))]
    found = rows(tmp_path, pcap([made[number] for number in (0, 1, 2, 4, 6)]))
    assert frames(found)["client"] == [CONNECT, LIST, LIST]
    lacks = [(len(CONNECT), len(LIST + PING)), (len(CONNECT) + 2 * len(LIST) + len(PING), len(PING + LIST))]
    assert [(offset, size) for _, offset, size, _ in corrupt(found)] == lacks


def test_packets_that_were_cut_short_lack_their_ends(tmp_path):
    found = rows(tmp_path, pcap(conversation(size=1 << 14), longest=150))
    assert [row.command for row in found if row.corrupt is None][:3] == ["connect", "connected", "watchTopicList"] or frames(found)
    assert {row.origin.direction for row in found if row.corrupt} >= {"broker"}
    assert sum(row.size for row in found if row.origin.direction == "broker") == len(b"".join(RECEIVED))


def test_what_is_never_there_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "HELD", 5000)
    talk = Talk()
    made = [*talk.opened(), talk.client(CONNECT), talk.client(LIST), *(talk.client(LIST) for _ in range(200))]
    found = rows(tmp_path, pcap(made[:3] + made[4:]))
    assert frames(found)["client"] == [CONNECT] + [LIST] * 200
    assert found[-1].corrupt is None


def test_a_segment_that_is_far_from_all_others_is_a_row(tmp_path):
    talk = Talk()
    made = [*talk.opened(), talk.client(CONNECT), talk.segment(0, talk.next[0] + (1 << 30), 0x18, LIST), talk.client(PING)]
    found = rows(tmp_path, pcap(made))
    assert frames(found)["client"] == [CONNECT, PING]
    assert [row.corrupt for row in found if row.corrupt] == [f"cut: a segment of {len(LIST)} bytes, a gigabyte or more from the others"]


def test_connections_are_told_apart(tmp_path):
    others = [Talk(ends=((f"10.0.0.{number}", 5000), ("10.0.9.9", port))) for number, port in enumerate([6650, 16650, 8080])]
    made = [conversation(one) for one in others[:2]]
    http = [*others[2].opened(), others[2].client(b"GET / HTTP/1.1\r\n\r\n"), others[2].broker(b"HTTP/1.1 200 OK\r\n\r\n")]
    again = conversation(Talk(ends=others[0].ends, first=(77_000, 99_000)))
    mixed = [packet for three in zip(*made, http + http[:3] * 9, strict=False) for packet in three]
    rest = [packet for one in made for packet in one[len(mixed) // 3 :]]
    udp = ip("10.0.0.1", "10.0.0.2", bytes(30), protocol=17)
    found = rows(tmp_path, pcap([udp, *mixed, *rest, *again, b"\x45", ip("1.1.1.1", "2.2.2.2", b"short")]))
    assert corrupt(found) == []
    names = {row.origin.connection for row in found}
    assert names == {"10.0.0.0:5000-10.0.9.9:6650", "10.0.0.1:5000-10.0.9.9:16650", "10.0.0.0:5000-10.0.9.9:6650 (2)"}
    for name in names:
        assert frames([row for row in found if row.origin.connection == name]) == {"client": SENT, "broker": RECEIVED}


def test_later_fragments_and_options_and_tunnels(tmp_path):
    talk = Talk(version=6)
    plain = talk.client(CONNECT)
    with_options = plain[:6] + b"\x00" + plain[7:40] + b"\x06\x00" + bytes(6) + plain[40:]
    with_options = with_options[:4] + struct.pack(">H", len(with_options) - 40) + with_options[6:]
    assert [row.command for row in rows(tmp_path, pcap([*talk.opened(), with_options], 101))] == ["connect"]
    assert [row.command for row in rows(tmp_path, pcap([ip("9.9.9.9", "8.8.8.8", plain, protocol=41)], 101))] == ["connect"]
    fragment = bytearray(Talk().client(CONNECT))
    fragment[7] = 9
    assert rows(tmp_path, pcap([bytes(fragment)]))[0].corrupt.startswith("packets: no connection to a broker")


@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        (b"", "packets: the file is empty"),
        (b"\xd4\xc3", "packets: the file ends inside a packet"),
        (pcap([])[:9], "packets: the file ends inside a packet"),
        (pcap(conversation()[:1])[:-3], "packets: the file ends inside a packet"),
        (b"\x16\x03\x01\x02\x00\x01", "packets: the file starts neither as pcap nor as pcapng"),
        (pcap([], link=1)[:-4] + struct.pack("<I", 249), "packets: link type 249 is not known"),
        (pcap(conversation())[:-3], "truncated: the file ends inside a packet"),
        (pcap(conversation()) + b"\x01\x00", "truncated: the file ends inside a packet"),
        (pcap(conversation()) + b"\xff" * 16, "packets: a packet of 4,294,967,295 bytes"),
        (gzip.compress(pcap(conversation()))[:-9], "packets: the file can't be decompressed further"),
        (pcapng(conversation()) + struct.pack("<II", 6, 13), "packets: a block of 13 bytes"),
        (pcapng(conversation()) + struct.pack("<III", 6, 12, 16), "packets: a block that says two sizes"),
        (packets.section() + packets.block(6, bytes(20)), "packets: a block of type 6 that is too short"),
        (packets.section() + packets.block(1, b""), "packets: a block of type 1 that is too short"),
        (b"\x0a\x0d\x0d\x0a" + bytes(20), "packets: a section header without its magic"),
        (pcap([]), "packets: no connection to a broker (port 6650, or one to which CONNECT is sent): there is no TCP in it"),
        (
            pcap(
                [
                    *Talk(ends=(("1.2.3.4", 9), ("1.2.3.5", 6651))).opened(),
                    Talk(ends=(("1.2.3.4", 9), ("1.2.3.5", 6651))).client(b"\x16\x03\x01"),
                ]
            ),
            "packets: no connection to a broker (port 6650, or one to which CONNECT is sent): TCP goes to port 6651, port 9 with TLS",
        ),
        (
            pcap(
                [
                    *Talk(ends=(("1.2.3.4", 9000), ("1.2.3.5", 6651))).opened(),
                    Talk(ends=(("1.2.3.4", 9000), ("1.2.3.5", 6651))).client(b"\x16\x03\x01"),
                ]
            ),
            "packets: no connection to a broker (port 6650, or one to which CONNECT is sent): TCP goes to port 6651 with TLS, which can't",
        ),
    ],
)
def test_what_is_wrong_with_a_capture_is_its_last_row(tmp_path, capture, expected):
    *before, last = rows(tmp_path, capture)
    assert last.corrupt.startswith(expected)
    assert last.origin.connection is None
    assert [row.corrupt.partition(":")[0] for row in before if row.corrupt] in ([], ["truncated"])
    defect = packet_defect(tmp_path / "a.pcap")
    assert defect is None if expected.startswith("truncated") else defect


def test_any_damage_is_a_row(tmp_path):
    whole = pcapng(conversation())
    drawn = random.Random(5)
    for form in (whole, pcap(conversation(), 276)):
        for _ in range(150):
            data = bytearray(form[: drawn.choice([len(form), drawn.randrange(len(form))])])
            for _ in range(drawn.randint(0, 4)):
                if data:
                    data[drawn.randrange(len(data))] = drawn.randrange(256)
            for row in rows(tmp_path, bytes(data)):
                assert row.command is None or row.corrupt is None


def test_a_capture_of_packets_can_be_written_as_a_raw_capture(tmp_path):
    found = rows(tmp_path, pcap(conversation()))
    write_capture(tmp_path / "raw", found)
    assert frames(everything(tmp_path / "raw")) == {"client": SENT, "broker": RECEIVED}
