"""PIP-247 over real sockets: new partitions are produced to and consumed from within a second."""

import asyncio

from refimpl.net.client import Client
from refimpl.net.embedded import EmbeddedBroker
from refimpl.proposals.partition_watch import PartitionWatchExtension

T = "persistent://public/default/t"


async def grown(producer, consumer, count):
    while not producer.partitions == len(consumer.attached) == count:
        await asyncio.sleep(0.005)


def test_growth_is_used_within_a_second():
    async def test():
        async with EmbeddedBroker() as broker, Client(broker.service_url) as client:
            broker.call(lambda one: one.admin.create_partitioned_topic(T, 2))
            producer = await client.create_producer("t", batching=False)
            consumer = await client.subscribe("t", "s")
            for count in (3, 6):
                broker.call(lambda one, count=count: one.admin.update_partitioned_topic(T, count))
                async with asyncio.timeout(1.0):
                    await grown(producer, consumer, count)
                    sent = {(await producer.send(b"x")).partition for _ in range(count)}
                    assert {(await consumer.receive()).id.partition for _ in range(count)} == sent == set(range(count))
            watches = broker.broker.extension(PartitionWatchExtension).watches
            while watches.next_deadline() is not None:  # until the last result is there
                await asyncio.sleep(0.005)
            assert sum(map(watches.watcher_count, broker.broker.sessions)) == 2
            assert watches.unexpected_results == 0

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_broker_that_is_off_is_asked():
    async def test():
        config = {"enableNotificationForPartitionUpdate": "false"}
        async with EmbeddedBroker(config) as broker, Client(broker.service_url) as client:
            broker.call(lambda one: one.admin.create_partitioned_topic(T, 1))
            choices = {"auto_update_partitions_interval": 0.05}
            producer = await client.create_producer("t", **choices)
            consumer = await client.subscribe("t", "s", **choices)
            broker.call(lambda one: one.admin.update_partitioned_topic(T, 3))
            await grown(producer, consumer, 3)
            assert sum(map(broker.broker.extension(PartitionWatchExtension).watches.watcher_count, broker.broker.sessions)) == 0

    asyncio.run(asyncio.wait_for(test(), 30))
