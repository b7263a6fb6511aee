"""Freedoms of Key_Shared subscriptions and of access modes: which consumer gets which key, and how producers learn that they are fenced."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from conformance.mutants.model import Patches
from conformance.variants.model import variant
from refimpl.broker import key_shared
from refimpl.broker.access_modes import ProducerAccess
from refimpl.broker.consumer import Consumer
from refimpl.broker.key_shared import AutoSplit, KeyShared
from refimpl.broker.topic import MAX_U64
from refimpl.wire.pulsar_api_pb2 import CommandCloseProducer, KeySharedMeta, MessageMetadata

_CASES = ("core/key-shared/*", "core/access/*", "pr7629/*", "pip191/*")


@variant("core.key-shared.spread", cases=_CASES)
def divides_keys_otherwise(patches: Patches) -> None:
    """Without hash ranges, keys have another hash, and belong to consumers by the remainder of a division."""

    def owner(assignment: AutoSplit, hash_: int) -> Consumer | None:
        consumers = sorted(assignment._places, key=lambda one: (one.name, one.consumer_id))
        return consumers[hash_ % len(consumers)] if consumers else None

    patches.wrap(AutoSplit, "hash_of", lambda _: lambda _, key: zlib.crc32(key) + 1)
    patches.wrap(AutoSplit, "owner", lambda _: owner)


@variant("core.key-shared.no-key", cases=_CASES)
def has_one_key_for_messages_without(patches: Patches) -> None:
    """Messages without a key go to one consumer, as releases before 4.0 have it."""

    def key_of(metadata: MessageMetadata) -> bytes:
        has_key = metadata.HasField("ordering_key") or metadata.HasField("partition_key")
        return original(metadata) if has_key else b"NONE_KEY"

    original = key_shared.key_of
    patches.function(original, key_of)


@variant("core.key-shared.order", cases=_CASES)
def keeps_new_consumers_waiting(patches: Patches) -> None:
    """A consumer that joins gets nothing until all that was pending then is settled, as releases before 4.0 have it."""

    def joined(original: Callable[..., list[int]]) -> Callable[..., list[int]]:
        def changed(keys: KeyShared, consumer: Consumer, meta: KeySharedMeta) -> list[int]:
            before = {index for one in keys._consumers for index in one.pending}
            keys.__dict__.setdefault("joined_with", {})[consumer] = before
            return original(keys, consumer, meta)

        return changed

    def taker(original: Callable[..., Consumer | None]) -> Callable[..., Consumer | None]:
        def changed(keys: KeyShared, index: int, takes: Callable[[Consumer], bool]) -> Consumer | None:
            return original(keys, index, lambda one: takes(one) and not _waits(keys, one, index))

        return changed

    def settled(original: Callable[..., list[int]]) -> Callable[..., list[int]]:
        def changed(keys: KeyShared, consumer: Consumer, index: int) -> list[int]:
            released = original(keys, consumer, index)
            return [*released, *keys.served(lambda _: True)]

        return changed

    patches.wrap(KeyShared, "joined", joined)
    patches.wrap(KeyShared, "taker", taker)
    patches.wrap(KeyShared, "settled", settled)


def _waits(keys: Any, consumer: Consumer, index: int) -> bool:
    """Return whether an entry is for a consumer that has joined and waits for what was pending with others."""
    before: set[int] = keys.__dict__.get("joined_with", {}).get(consumer, set())
    return keys._drains and index not in before and any(before & set(one.pending) for one in keys._consumers)


@variant("core.access.fencing", cases=_CASES)
def tells_fenced_producers(patches: Patches) -> None:
    """A producer that is fenced is told so by CLOSE_PRODUCER."""

    def fence(original: Callable[[ProducerAccess], None]) -> Callable[[ProducerAccess], None]:
        def changed(access: ProducerAccess) -> None:
            fenced = list(access._topic.producers.values())
            original(access)
            for one in fenced:
                one.session.send(CommandCloseProducer(producer_id=one.producer_id, request_id=MAX_U64))

        return changed

    patches.wrap(ProducerAccess, "_fence", fence)
