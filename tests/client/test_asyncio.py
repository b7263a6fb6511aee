"""The asyncio client against the reference broker, in virtual time inside the process, and over TCP and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any

import pytest

from refimpl.client import EARLIEST, BrokerRefused, ClientOptions, Closed, ConnectionLost, MessageId, ProtocolError, QueueFull, TimedOut
from refimpl.configuration import Configuration
from refimpl.net.client import Client
from refimpl.net.memory_link import Faults
from refimpl.net.serving import serving
from refimpl.proposals.scalable_topics.broker import ScalableTopicsExtension
from refimpl.wire.pulsar_api_pb2 import LZ4, CommandSubscribe
from tests.fakes.certificates import Certificates
from tests.fakes.client_world import URL, World, eventually, received, virtually

S = CommandSubscribe


def test_what_is_produced_is_consumed_in_order() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            consumer = await client.subscribe("t", "s")
            producer = await client.create_producer("t", compression=LZ4)
            ids = await asyncio.gather(*(producer.send(b"%d" % i, properties={"i": str(i)}, key=f"k{i}") for i in range(50)))
            messages = await received(consumer, 50)
            assert [message.id for message in messages] == list(ids)
            assert [message.payload for message in messages] == [b"%d" % i for i in range(50)]
            assert messages[7].properties == {"i": "7"}
            assert messages[7].key == "k7"
            assert messages[0].publish_time // 1000 == 1_700_000_000
            await consumer.acknowledge(messages)
            assert await consumer.last_message_id() == ids[-1]

    virtually(test)


def test_what_is_acknowledged_does_not_come_again() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            async with await client.subscribe("t", "s") as consumer:
                producer = await client.create_producer("t", batching=False)
                for i in range(6):
                    await producer.send(b"%d" % i)
                messages = await received(consumer, 6)
                await consumer.acknowledge_cumulative(messages[2])
                await consumer.acknowledge(messages[4])
            async with await client.subscribe("t", "s") as consumer:
                assert [message.payload for message in await received(consumer, 2)] == [b"3", b"5"]
                await consumer.seek(messages[1])
                assert (await consumer.receive()).payload == b"1"
                await consumer.unsubscribe()

    virtually(test)


def test_a_cancelled_receive_loses_nothing() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            consumer = await client.subscribe("t", "s")
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(consumer.receive(), 0.5)
            waiting = asyncio.create_task(consumer.receive())
            await asyncio.sleep(0)
            producer = await client.create_producer("t")
            sending = producer.send_async(b"x")
            await sending
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
            if waiting.cancelled():
                assert (await consumer.receive()).payload == b"x"

    virtually(test)


def test_iterating_ends_when_the_consumer_is_closed() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            consumer = await client.subscribe("t", "s")
            producer = await client.create_producer("t")
            await producer.send(b"1")
            seen = []
            async for message in consumer:
                seen.append(message.payload)
                await consumer.close()
            assert seen == [b"1"]
            with pytest.raises(Closed):
                await consumer.receive()

    virtually(test)


def test_a_refused_message_comes_again() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            consumer = await client.subscribe("t", "s", type=S.Shared, negative_ack_delay=5.0)
            producer = await client.create_producer("t", batching=False)
            await producer.send(b"a")
            await producer.send(b"b")
            first, second = await received(consumer, 2)
            began = asyncio.get_running_loop().time()
            await consumer.negative_acknowledge(first)
            await consumer.acknowledge(second)
            again = await consumer.receive()
            assert (again.payload, again.redelivery_count) == (b"a", 1)
            assert asyncio.get_running_loop().time() - began == pytest.approx(5.0)

    virtually(test)


def test_a_cut_loses_no_message_of_a_producer_and_brings_the_consumer_back() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            consumer = await client.subscribe("t", "s")
            producer = await client.create_producer("t", batching=False)
            sendings = []
            for i in range(60):
                sendings.append(producer.send_async(b"%d" % i))
                if i % 20 == 10:
                    world.cut()
                    await asyncio.sleep(1.0)
            await asyncio.gather(*sendings)
            seen: list[bytes] = []
            while len(set(seen)) < 60:
                message = await consumer.receive()
                seen.append(message.payload)
                await consumer.acknowledge(message)
            assert list(dict.fromkeys(seen)) == [b"%d" % i for i in range(60)]

    virtually(test)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_on_bad_connections(seed: int) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            consumer = await client.subscribe("t", "s", queue_size=20)
            producer = await client.create_producer("t", batch_delay=0.02)
            sendings = [asyncio.create_task(producer.send(b"%d" % i)) for i in range(100)]
            seen: set[bytes] = set()
            while len(seen) < 100:
                message = await consumer.receive()
                seen.add(message.payload)
                await consumer.acknowledge(message)
            await asyncio.gather(*sendings)
            assert seen == {b"%d" % i for i in range(100)}

    virtually(test, Faults(seed=seed, delay=(0.0, 0.05), largest_piece=50, cut_after=(2000, 9000)))


def test_readers_begin_where_they_are_told() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            producer = await client.create_producer("t", batching=False)
            ids = [await producer.send(b"%d" % i) for i in range(5)]
            reader = await client.create_reader("t", EARLIEST)
            assert [message.payload for message in await received(reader, 5)] == [b"0", b"1", b"2", b"3", b"4"]
            after = await client.create_reader("t", ids[2])
            assert (await after.receive()).payload == b"3"
            world.cut()
            assert (await after.receive()).payload == b"4"
            latest = await client.create_reader("t")
            await producer.send(b"5")
            assert (await latest.receive()).payload == b"5"

    virtually(test)


def test_more_messages_than_allowed_wait_or_fail() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            producer = await client.create_producer("t", max_pending_messages=3, batch_delay=0.5)
            sendings = [asyncio.create_task(producer.send(b"x")) for _ in range(10)]
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                producer.send_async(b"x")
            assert len(set(await asyncio.gather(*sendings))) == 10
            more = []
            for _ in range(10):
                await producer.room()
                more.append(producer.send_async(b"x"))
            assert len(set(await asyncio.gather(*more))) == 10

    virtually(test)


def test_closing_the_client_wakes_everybody_up() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            consumer = await client.subscribe("t", "s")
            producer = await client.create_producer("t", batch_delay=60.0)
            sending = producer.send_async(b"x")
            waiting = asyncio.create_task(consumer.receive())
            await asyncio.sleep(1.0)
        assert isinstance(await sending, MessageId)
        with pytest.raises(Closed):
            await waiting
        with pytest.raises(Closed):
            await client.create_producer("t")
        with pytest.raises(Closed):
            await producer.send(b"late")

    virtually(test)


def test_a_cancelled_subscribe_leaves_no_consumer() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            for turns in range(12):
                subscribing = asyncio.create_task(client.subscribe("t", "s"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                subscribing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await subscribing).close()
            async with asyncio.timeout(5):
                await (await client.subscribe("t", "s")).close()

    virtually(test)


def test_nobody_at_the_address_is_an_error_in_time() -> None:
    async def test(world: World) -> None:
        async def refuse(host: str, port: int, protocol_factory: Any) -> None:
            raise ConnectionRefusedError(f"nobody at {host}:{port}")

        async def hang(host: str, port: int, protocol_factory: Any) -> None:
            await asyncio.Event().wait()

        for dial, seconds in ((refuse, 7.0), (hang, 20.0)):
            began = asyncio.get_running_loop().time()
            async with Client(URL, dial=dial, seed=1, options=ClientOptions(operation_timeout=5.0)) as client:
                with pytest.raises(ConnectionLost, match=r"nobody at broker:6650|take the connection within 10 s"):
                    await client.create_producer("t")
            assert asyncio.get_running_loop().time() - began < seconds

    virtually(test)


def test_patterns_follow_topics_through_a_cut() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            changes: list[Any] = []
            pattern = await client.subscribe_pattern("p-.*", "s", on_topics=changes.append, initial_position=S.Earliest)
            assert pattern.topics_hash == "00000000"
            producer = await client.create_producer("p-1")
            await eventually(lambda: len(pattern.attached) == 1, 1.0)
            await producer.send(b"1")
            message = await pattern.receive()
            assert message.topic == "persistent://public/default/p-1"
            await pattern.acknowledge(message)
            known = pattern.topics_hash
            world.cut()
            await eventually(lambda: len(pattern.attached) == 1)
            assert pattern.topics_hash == known
            await producer.send(b"2")
            assert (await pattern.receive()).payload == b"2"
            assert [change.added for change in changes] == [("persistent://public/default/p-1",)]

    virtually(test)


def test_wrong_arguments_are_value_errors_at_once() -> None:
    async def test(world: World) -> None:
        with pytest.raises(ValueError, match="pulsar://"):
            Client("localhost")
        async with world.client() as client:
            for call in (
                lambda: client.create_producer("a/b"),
                lambda: client.create_producer("t", compression=99),
                lambda: client.create_producer("t", access_mode=9),
                lambda: client.subscribe("t", "s", queue_size=0),
                lambda: client.subscribe_pattern("a/b", "s"),
                lambda: client.subscribe_pattern("public/default/[", "s"),
            ):
                attempt: Awaitable[Any] = call()  # type: ignore[no-untyped-call]
                with pytest.raises(ValueError, match=r"."):
                    await attempt
        assert world.transports == []

    virtually(test)


@contextlib.asynccontextmanager
async def served(settings: Mapping[str, str] | None = None) -> AsyncIterator[str]:
    async with asyncio.timeout(60), serving(Configuration.from_settings(settings or {})) as one:
        yield one.service_url_tls or one.service_url


def test_over_tcp() -> None:
    async def main() -> None:
        async with served() as url, Client(url) as client:
            consumer = await client.subscribe("t", "s")
            producer = await client.create_producer("t")
            await producer.send(b"x" * 1_000_000)
            assert len((await consumer.receive()).payload) == 1_000_000

    asyncio.run(main(), debug=True)
    gc.collect()


def test_over_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)

    async def main() -> None:
        async with served({**certificates.settings, "brokerServicePortTls": "0"}) as url:
            assert url.startswith("pulsar+ssl://")
            async with Client(url, tls=certificates.trusting()) as client:
                consumer = await client.subscribe("t", "s")
                producer = await client.create_producer("t")
                await producer.send(b"secret")
                assert (await consumer.receive()).payload == b"secret"
            turned_away = asyncio.Event()
            async with Client(url, log=lambda line: "CERTIFICATE_VERIFY_FAILED" in line and turned_away.set()) as client:
                creating = asyncio.create_task(client.create_producer("t"))
                await turned_away.wait()
                creating.cancel()
                await asyncio.gather(creating, return_exceptions=True)

    asyncio.run(main())
    gc.collect()


def test_a_real_refusal_is_the_brokers_own_error() -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            await client.subscribe("t", "s")
            with pytest.raises(BrokerRefused, match="ConsumerBusy"):
                await client.subscribe("t", "s")

    virtually(test)


def test_list_above_the_frame_limit_is_an_error_that_says_so() -> None:
    async def test(world: World) -> None:
        for number in range(120):
            world.broker.admin.create_topic(f"persistent://public/default/{'x' * 80}-{number}")
        async with world.client() as client:
            with pytest.raises(
                TimedOut, match=r"no list .* within 30 s; the last attempt ended so: .* a frame of \d+ bytes, 10340 are allowed"
            ):
                await client.subscribe_pattern("persistent://public/default/.*", "s")
            await (await client.create_producer("persistent://public/default/other")).send(b"served")

    virtually(test, max_message_size=100)


def test_snapshot_above_the_frame_limit_is_an_error_that_says_so() -> None:
    async def test(world: World) -> None:
        scalable = world.broker.extension(ScalableTopicsExtension).admin
        for number in range(120):
            scalable.create_scalable_topic(f"topic://public/default/{'x' * 80}-{number}")
        async with world.client() as client:
            with pytest.raises(ProtocolError, match=r"a frame of \d+ bytes, 10340 are allowed"):
                await client.subscribe_namespace("public/default", "s")
            await (await client.create_producer("persistent://public/default/other")).send(b"served")

    virtually(test, max_message_size=100)
