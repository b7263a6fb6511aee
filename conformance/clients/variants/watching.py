"""Freedoms of those who follow topics and partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.clients.variants.model import client_variant
from conformance.mutants.model import Patches
from refimpl.client.client import ClientCore
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.names import Target, is_scalable
from refimpl.client.options import ConsumerOptions
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.client.watch_driver import WatchDriver
from refimpl.names import partition_name
from refimpl.proposals.topic_list import TopicChanges
from refimpl.proposals.topic_list.client import TopicListOffer, TopicListState, TopicListWatch


@client_variant("pip145.client.watch-periodic", cases=("pip145/*",))
def checks_its_watcher_often(patches: Patches) -> None:
    """A client with a watcher checks its topics five times in a discovery period."""

    def make(new_deadline: Callable[..., float | None]) -> Callable[..., float | None]:
        def changed(watch: Any, event: Any, now: float) -> float | None:
            return now + watch._period / 5 if watch.state is TopicListState.WATCHING else new_deadline(watch, event, now)

        return changed

    patches.wrap(TopicListWatch, "_new_deadline", make)


@client_variant("pip145.client.watch-periodic", not_kept=("pip145.client.watch-periodic",), cases=("pip145/*",))
def checks_with_lists(patches: Patches) -> None:
    """A client with a watcher checks its topics by asking for the list, also where it could repeat its watch request."""

    def make(offer_of: Callable[..., TopicListOffer]) -> Callable[..., TopicListOffer]:
        return lambda watch, flags: min(offer_of(watch, flags), TopicListOffer.WATCHERS, key=list(TopicListOffer).index)

    patches.wrap(TopicListWatch, "_offer_of", make)


@client_variant("pip145.client.list-whole-set", cases=("pip145/*",))
def attaches_to_topics_in_another_order(patches: Patches) -> None:
    """Of several new topics, the last one is attached to first."""
    patches.wrap(
        PatternConsumer,
        "_apply",
        lambda apply: lambda group, changes: apply(group, TopicChanges(changes.added[::-1], changes.removed[::-1])),
    )


@client_variant("pip247.client.registers", cases=("pip247/*",))
def watches_partitions_before_it_attaches(patches: Patches) -> None:
    """A consumer of a partitioned topic sends its watch request before its SUBSCRIBEs."""

    def make(subscribe: Callable[..., Any]) -> Callable[..., Any]:
        async def changed(core: ClientCore, topic: str, options: ConsumerOptions) -> Any:
            count = 0 if is_scalable(topic) else await core._partitions(topic)
            if not count:
                return await subscribe(core, topic, options)
            group = MultiTopicsConsumer(core, options)
            core._parts[group] = None
            group.follow(topic, count)
            await group.add([partition_name(topic, number) for number in range(count)])
            for consumer in group.members.values():
                consumer.outlives_topic = True
            return group

        return changed

    patches.wrap(ClientCore, "_subscribe", make)


@dataclass(frozen=True, slots=True)
class _WatchTarget(Target):
    """Where a watch is held: a connection of its own to a broker."""

    watch: tuple[object, ...] = ()


@client_variant("pip247.client.other-broker", cases=("pip145/*", "pip247/*", "pr25648/*"))
def opens_a_connection_for_each_watch(patches: Patches) -> None:
    """Each watch has a connection of its own to its broker."""

    def make(init: Callable[..., None]) -> Callable[..., None]:
        def changed(driver: WatchDriver[Any], core: Any, machine: Any, *given: Any, **options: Any) -> None:
            init(driver, core, machine, *given, **options)
            locate = driver._locate

            async def own() -> Any:
                found = (await locate()).target
                return await core.pool.connection(_WatchTarget(found.host, found.port, found.tls, found.proxy_to, machine.address))

            driver._locate = own

        return changed

    patches.wrap(WatchDriver, "__init__", make)
