"""A consumer at a scripted broker, and what its application takes."""

from refimpl.client import ConsumerOptions, Message, MultiTopicsConsumer
from tests.fakes.scripted_broker import TOPIC, ScriptedBroker


def consuming(**choices: object) -> tuple[ScriptedBroker, MultiTopicsConsumer]:
    broker = ScriptedBroker()
    subscribing = broker.begin(broker.core.subscribe, "t", ConsumerOptions("s", **choices))  # type: ignore[arg-type]
    broker.accept()
    broker.answer_partitions()
    assert broker.answer_lookup() == TOPIC
    broker.succeed("subscribe")
    assert broker.expect("flow").messagePermits == choices.get("queue_size", 1000)
    return broker, subscribing.value()


def take(broker: ScriptedBroker, group: MultiTopicsConsumer) -> list[Message]:
    taken = []
    with broker.core.entered(broker.now):
        while (message := group.take()) is not None:
            taken.append(message)
    return taken
