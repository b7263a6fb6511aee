"""Freedoms at the loss of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.clients.variants.model import client_variant
from conformance.mutants.model import Patches
from refimpl.client.attached import Attached
from refimpl.client.consumer import Consumer
from refimpl.client.errors import ConnectionLost
from refimpl.client.messages import Message, MessageId
from refimpl.client.producer import Producer


@client_variant("core.client.sends-again", not_kept=("core.client.persists-again",))
def tells_of_the_loss_at_once(patches: Patches) -> None:
    """The user of a producer that is closed, or has lost its connection, is told that messages without a receipt may not be stored."""

    def losing(lose: Callable[..., None]) -> Callable[..., None]:
        def changed(attached: Any, *, at_once: bool = False) -> None:
            unconfirmed: dict[int, Any] = {}
            if isinstance(attached, Producer):
                unconfirmed, attached._unconfirmed = attached._unconfirmed, {}
            lose(attached, at_once=at_once)
            for entry in unconfirmed.values():
                entry.fail(ConnectionLost("the connection was lost before the receipt"))

        return changed

    patches.wrap(Attached, "lose", losing)


@client_variant("core.client.sends-again", not_kept=("core.client.persists-again",))
def sends_nothing_without_a_connection(patches: Patches) -> None:
    """What the user sends while there is no connection fails at once, and so does what has no receipt when one ends."""
    tells_of_the_loss_at_once(patches)

    def sending(transmit: Callable[..., None]) -> Callable[..., None]:
        def changed(producer: Any, entry: Any) -> None:
            if producer.connection is None:
                producer._unconfirmed.pop(entry.sequence_id)
                entry.fail(ConnectionLost("there is no connection"))
            else:
                transmit(producer, entry)

        return changed

    patches.wrap(Producer, "_transmit", sending)


@client_variant("core.client.reattaches-after-close")
def shows_what_its_user_has_only_once(patches: Patches) -> None:
    """What the user holds, and has neither acknowledged nor given back, is not shown again when it comes again after a reconnect."""

    def held(consumer: Any) -> set[MessageId]:
        found: set[MessageId] = consumer.__dict__.setdefault("held", set())
        return found

    def taken(taken: Callable[..., None]) -> Callable[..., None]:
        def changed(consumer: Consumer, message: Message) -> None:
            held(consumer).add(message.id)
            taken(consumer, message)

        return changed

    def forgetting(method: Callable[..., Any]) -> Callable[..., Any]:
        def changed(consumer: Consumer, *arguments: Any) -> Any:
            held(consumer).clear()
            return method(consumer, *arguments)

        return changed

    def given_back(negative_acknowledge: Callable[..., None]) -> Callable[..., None]:
        def changed(consumer: Consumer, message_id: MessageId) -> None:
            position = message_id.position
            consumer.__dict__["held"] = {one for one in held(consumer) if one.position != position}
            negative_acknowledge(consumer, message_id)

        return changed

    def open_ones(still_open: Callable[..., list[Message]]) -> Callable[..., list[Message]]:
        def changed(consumer: Any, *arguments: Any) -> list[Message]:
            found = still_open(consumer, *arguments)
            return [one for one in found if not consumer.options.durable or not consumer._stored or one.id not in held(consumer)]

        return changed

    patches.wrap(Consumer, "taken", taken)
    patches.wrap(Consumer, "redeliver", forgetting)
    patches.wrap(Consumer, "_moved", forgetting)
    patches.wrap(Consumer, "negative_acknowledge", given_back)
    patches.wrap(Consumer, "_still_open", open_ones)
