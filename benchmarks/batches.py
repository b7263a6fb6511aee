"""Measures the cost of uniform batches (PIP-191): the reference producer and broker in one thread, without sockets.

Times are those of the processor: nothing waits, and other work on the machine does not count.
"""

import gc
import itertools
import random
import statistics
import time
from collections.abc import Mapping

from figures import row

from refimpl.broker import Broker
from refimpl.client import ClientCore, OutgoingMessage, ProducerOptions, ProducerStats

MESSAGES = 10_000
ROUNDS = 5
NAME = "region"


def batching() -> None:
    """Batching with 1, 10 and 1,000 distinct extracted sets, against batching without the setting; rounds alternate."""
    choice = random.Random(1)
    mixed = {count: [choice.randrange(count) for _ in range(MESSAGES)] for count in (1, 10, 1000)}
    rows = {f"{count:,} {'set' if count == 1 else 'sets'}, at random": (values, count) for count, values in mixed.items()}
    rows["10 sets, 100 messages in a row"] = ([number // 100 % 10 for number in range(MESSAGES)], 10)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    stats: dict[str, ProducerStats] = {}
    for number, (name, (values, count)) in itertools.product(range(ROUNDS), rows.items()):
        messages = [OutgoingMessage(bytes(100), {NAME: str(value)}) for value in values]
        took: dict[bool, float] = {}
        for uniform in (number % 2 == 0, number % 2 == 1):
            took[uniform], one = _produce(messages, {NAME: [str(value) for value in range(count)]} if uniform else {})
            if uniform:
                stats[name] = one
        times[name].append((took[True], took[False]))
    for name, pairs in times.items():
        ours, without = (statistics.median(pair[place] for pair in pairs) for place in (0, 1))
        one = stats[name]
        row(
            "batches",
            f"{MESSAGES / ours:,.0f} messages/s",
            f"{name}; without the setting: {MESSAGES / without:,.0f}, {ours / without:.2f} times the time; "
            f"{one.messages_per_entry:,.1f} messages in a batch, {one.bytes_per_message:.0f} bytes a message, "
            f"{one.header_bytes_per_message:.3g} of them header",
        )


def _produce(messages: list[OutgoingMessage], setting: Mapping[str, list[str]]) -> tuple[float, ProducerStats]:
    """Send messages and take their receipts.

    Returns:
        Seconds of the processor, and what the producer counted.
    """
    broker = Broker()
    session = broker.connect(0.0)
    core = ClientCore(broker.service_url, random=random.Random(1))
    options = ProducerOptions(restrict_same_values_in_batch_properties=setting, max_pending_messages=len(messages))
    with core.entered(0.0):
        creating = core.create_producer("t", options)
    (connection,) = core.connections_to_open()
    connection.opened(0.0)

    def exchange() -> None:
        while (data := connection.data_to_send(1 << 20)) or (answers := session.data_to_send(1 << 20)):
            if data:
                session.receive(data, 0.0)
            else:
                connection.receive(answers, 0.0)

    exchange()
    producer = creating.value()

    gc.collect()  # what an earlier round has left
    begin = time.process_time()
    for chunk in range(0, len(messages), 1000):
        with core.entered(0.0):
            receipts = [producer.send(message) for message in messages[chunk : chunk + 1000]]
            core.scheduler.spawn(producer.flush())
        exchange()
        assert receipts[-1].done
    return time.process_time() - begin, producer.stats
