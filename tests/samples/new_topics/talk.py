"""A client of the reference keeps a watch of the proposal on a broker of the reference, over sockets; prints the counts that it is told."""

import asyncio

from refimpl.net.client import Client
from refimpl.net.embedded import EmbeddedBroker
from refimpl.proposals.new_topics import NewTopicsWatch

DEADLINE = 30


async def main() -> None:
    news = asyncio.Event()
    async with EmbeddedBroker() as broker, Client(broker.service_url) as client:
        watch = client.watch(NewTopicsWatch(7), news.set)
        for topic in ("a", "b", None):
            known = watch.machine.count
            while watch.machine.count == known:
                news.clear()
                await asyncio.wait_for(news.wait(), DEADLINE)
            print(watch.machine.count)
            if topic is not None:
                broker.call(lambda served, name=topic: served.admin.create_topic(f"persistent://public/default/{name}"))
        watch.close()


asyncio.run(main())
