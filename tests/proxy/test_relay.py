"""What the proxy passes on is what came, in both directions, whoever watches; garbage, slow peers and ends cost their own connection only."""

import asyncio
import random

import pytest

from conformance.proxy import Watcher
from conformance.proxy import lane as lanes
from conformance.proxy.relay import BUFFERED
from refimpl.wire import command, encode_frame
from tests.proxy.stand import PING, PONG, RECEIPT, Kept, Peer, Stand, at_stand, pieces, send

LARGE = send(7, 300_000)
LIST = encode_frame(
    command("watchTopicListSuccess", request_id=1, watcher_id=1, topic=[f"persistent://a/b/{n}" for n in range(9000)], topics_hash="0")
)
TALK = b"".join([PING, send(1), LARGE, PONG, send(2, 0), LIST, RECEIPT * 50, PING])
NAMES = ["ping", "send", "send", "pong", "send", "watchTopicListSuccess", *["send_receipt"] * 50, "ping"]
UNKNOWN = encode_frame(command("ping")).replace(bytes([8, 18]), bytes([8, 117]))
WAYS = {
    "nobody watches": lambda: Kept(()),
    "one command is seen": lambda: Kept(("send",)),
    "all are seen": lambda: Kept(None),
    "all are taken whole": lambda: Kept(None, whole=True),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", [(1, 2, 3, 5, 7, 1 << 20), (4096,), (1 << 22,)], ids=["small", "4096", "whole"])
def test_bytes_arrive_as_they_were_sent(way, sizes):
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        for peer, other in ((client, broker), (broker, client)):
            for piece in pieces(TALK, sizes):
                peer.write(piece)
                await peer.writer.drain()
            assert await other.bytes(len(TALK)) == TALK
        assert (stand.kept.notes, stand.kept.unseen_on) == ([], []) if way != "all are seen" else stand.kept.notes
        assert {bytes(one) for one in stand.kept.bytes.values()} == {TALK}
        told = {"nobody watches": [], "one command is seen": ["send"] * 3, "all are taken whole": NAMES}
        if way in told:
            assert [stand.kept.names(side) for side in ("client", "broker")] == [told[way]] * 2
        else:
            assert stand.kept.names("client") == [
                name for name in NAMES if name != "watchTopicListSuccess"
            ]  # which is too large to be shown
            assert [text for _, text in stand.kept.notes] == [
                f"{way} watchTopicListSuccess of {len(LIST):,} bytes, too large to be shown" for way in ("->", "<-")
            ]

    at_stand(test, kept=WAYS[way])


def test_what_is_told_of_a_frame():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(send(1, 100), PING)
        await broker.bytes(len(send(1, 100) + PING))
        first, second = stand.kept.passed
        assert (first.connection, first.direction, first.frame.command.send.sequence_id, first.remark, first.dropped) == (
            1,
            "client",
            1,
            "",
            False,
        )
        assert (first.payload, second.payload) == (len(send(1, 100)) - len(encode_frame(first.frame.command)), 0)
        assert 0 < first.time <= second.time

    at_stand(test)


def test_random_talk_in_random_pieces():
    draw = random.Random(1)

    async def test(stand: Stand) -> None:
        for _ in range(20):
            client, broker = await stand.pair()
            talk = b"".join(draw.choice([PING, RECEIPT, send(1, draw.randrange(200)), send(2, 5000)]) for _ in range(60))
            for piece in pieces(talk, [draw.randint(1, 400) for _ in range(30)]):
                client.write(piece)
                await asyncio.sleep(0)
            assert await broker.bytes(len(talk)) == talk

    at_stand(test, kept=lambda: Kept(("send",)), faults=["twice watchTopicUpdate", "drop pong"])


@pytest.mark.parametrize(
    ("garbage", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "-> no frame, passed on as it is, with all that follows: a frame of 1,195,725,860 bytes"),
        (bytes(20), "-> no frame, passed on as it is, with all that follows: total size 0 leaves no room for the command size"),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_garbage_is_passed_on_and_told_once(garbage, words, way):
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(PING, garbage, PING)
        assert await broker.bytes(2 * len(PING) + len(garbage)) == PING + garbage + PING
        broker.write(PONG)
        assert await client.bytes(len(PONG)) == PONG
        assert stand.kept.notes == [(1, words)]
        assert stand.kept.unseen_on == [1]

    at_stand(test, kept=WAYS[way])


def test_a_client_that_comes_with_tls_where_none_is_spoken_is_told_so():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        hello = bytes.fromhex("16030100c8010000c40303") + bytes(193)
        client.write(hello)
        assert await broker.bytes(len(hello)) == hello
        [(_, note)] = stand.kept.notes
        assert note.endswith("a frame of 369,295,620 bytes (this looks like TLS)")

    at_stand(test)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (bytes.fromhex("0000000800000004ffffffff"), "a varint is cut"),
        (bytes.fromhex("000000080000ffff08121a00"), "command size 65535 does not fit"),
        (bytes.fromhex("0000000400000000"), "command size 0"),
        (UNKNOWN, "unknown value 117"),
    ],
)
def test_contents_that_are_none_are_passed_on_and_the_next_frame_is_seen(bad, words, whole):
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(bad, PING)
        assert await broker.bytes(len(bad + PING)) == bad + PING
        assert stand.kept.names() == ["ping"]
        ((number, text),) = stand.kept.notes
        assert number == 1
        assert text.startswith("-> a frame whose contents are none, passed on as it is: at byte ")
        assert words in text

    at_stand(test, kept=lambda: Kept(None, whole=whole))


@pytest.mark.parametrize("whole", [False, True])
def test_an_end_inside_a_frame_arrives_with_the_bytes_before_it(whole):
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(PING, LARGE[:200_000])
        client.writer.write_eof()
        assert await broker.rest() == PING + LARGE[:200_000]
        assert stand.kept.notes == [(1, "-> the connection ends inside a frame")]

    at_stand(test, kept=lambda: Kept(None, whole=whole))


def test_a_client_that_ends_its_half_still_gets_the_answer():
    async def test(stand: Stand) -> None:
        client, broker = await stand.pair()
        client.write(PING)
        client.writer.write_eof()
        assert await broker.rest() == PING
        broker.write(PONG)
        broker.close()
        assert await client.rest() == PONG
        await stand.over()
        assert stand.kept.ends == [(1, "client"), (1, "broker")]

    at_stand(test)


@pytest.mark.parametrize("ending", ["close", "abort"])
@pytest.mark.parametrize("by", ["client", "broker"])
def test_the_end_of_one_side_is_the_end_of_the_other(by, ending):
    async def test(stand: Stand) -> None:
        peers = dict(zip(("client", "broker"), await stand.pair(), strict=True))
        peers["client"].write(PING)
        await peers["broker"].bytes(len(PING))
        other = peers["broker" if by == "client" else "client"]
        getattr(peers[by].writer.transport, ending)()
        assert await other.rest() == b""
        other.close()
        await stand.over()
        assert stand.kept.ends[0] == (1, by)

    at_stand(test)


def test_a_broker_that_is_not_there_ends_the_connection_and_says_why():
    async def test(stand: Stand) -> None:
        client = await stand.client()
        assert await client.rest() == b""
        await stand.over()
        ((number, text),) = stand.kept.notes
        assert (number, text.startswith("pulsar://127.0.0.1:1 can't be reached: ")) == (1, True)

    at_stand(test, service_url="pulsar://127.0.0.1:1")


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("slow", ["client", "broker"])
def test_who_does_not_read_slows_the_other_side_and_nobody_else(slow, whole):
    """What waits in the proxy is bounded: the rest waits with its sender."""

    async def test(stand: Stand) -> None:
        peers = dict(zip(("client", "broker"), await stand.pair(), strict=True))
        fast = peers["broker" if slow == "client" else "client"]
        peers[slow].reader._transport.pause_reading()  # type: ignore[attr-defined]
        (relay,) = stand.proxy._relays
        before = -1
        while before != relay.lanes["broker" if slow == "client" else "client"].size:  # nothing more is taken
            before = relay.lanes["broker" if slow == "client" else "client"].size
            for _ in range(200):
                if fast.writer.transport.get_write_buffer_size() < 1 << 22:
                    fast.write(LARGE)
                await asyncio.sleep(0.001)
        assert fast.writer.transport.get_write_buffer_size() >= 1 << 22
        waiting = relay.sides[slow].transport.get_write_buffer_size()
        assert waiting <= BUFFERED + 2 * len(LARGE)
        client, broker = await stand.pair()
        client.write(PING)
        assert await broker.bytes(len(PING)) == PING
        peers[slow].reader._transport.resume_reading()  # type: ignore[attr-defined]
        assert await peers[slow].bytes(20 * len(LARGE)) == LARGE * 20

    at_stand(test, kept=lambda: Kept(None, whole=whole))


def test_unfinished_frames_are_collected_up_to_a_limit_and_go_on_unseen(monkeypatch):
    monkeypatch.setattr(lanes, "COLLECTED", 1 << 20)

    async def test(stand: Stand) -> None:
        pairs = [await stand.pair() for _ in range(8)]
        for client, _ in pairs:
            client.write(LARGE[:-1])
        await stand.kept.until(lambda kept: bool(kept.notes))
        for client, _ in pairs:
            client.write(LARGE[-1:], PING)
        for _, broker in pairs:
            assert await broker.bytes(len(LARGE + PING)) == LARGE + PING
        seen = [stand.kept.names().count(name) for name in ("send", "ping")]
        assert seen == [8 - len(stand.kept.notes), 8]
        assert all("a frame passed on unseen" in text for _, text in stand.kept.notes)

    at_stand(test, kept=lambda: Kept(None, whole=True))


def test_many_connections_at_a_time():
    async def test(stand: Stand) -> None:
        async def talk(client: Peer, number: int) -> None:
            client.write(*[send(number)] * 20)
            assert await client.bytes(20 * len(RECEIPT)) == RECEIPT * 20
            client.close()

        async def serve() -> None:
            broker = await stand.broker.next()
            await broker.bytes(20 * len(send(1)))
            broker.write(RECEIPT * 20)
            assert await broker.rest() == b""
            broker.close()

        clients = [await stand.client() for _ in range(100)]
        await asyncio.gather(*(talk(client, number % 100) for number, client in enumerate(clients)), *(serve() for _ in clients))
        await stand.over(100)
        assert (stand.proxy.frames, stand.proxy.size["client"]) == ({"client": 2000, "broker": 2000}, 2000 * len(send(1)))

    at_stand(test, watchers=lambda: [Watcher()])
