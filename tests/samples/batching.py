"""Small corpora of messages, made to be awkward to put into batches."""

import random

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("producer_name", pa.string()),
        ("sequence_id", pa.int64()),
        ("publish_time", pa.int64()),
        ("event_time", pa.int64()),
        ("key", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("payload", pa.binary()),
        ("payload_size", pa.int32()),
    ]
)


def table(rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def one_producer(messages, name="p"):
    """A producer's messages: (time, size, properties)."""
    return table(
        ("t", name, number, time, None, None, list(properties.items()), bytes(size), size)
        for number, (time, size, properties) in enumerate(messages)
    )


def awkward(seed, producers=60):
    """Producers with clocks that stand still, jump or go back, sizes at the limits, and properties that nearly agree."""
    draw = random.Random(seed)
    rows = []
    for producer in range(producers):
        time = draw.choice([0, 1, 1_700_000_000_000])
        size = draw.choice([0, 10, 300])
        steps = draw.choice([[0], [0, 0, 0, 1], [0, 1, 5, 10, 11], [-3, 0, 4], [100]])
        change = draw.choice([0.0, 0.05, 0.5])
        properties = {}
        for number in range(draw.choice([1, 2, 40, 300, 700])):
            time = max(0, time + draw.choice(steps))
            if draw.random() < change:
                properties = {
                    name: value
                    for name in ("region", "version", "tag", "")
                    if (value := draw.choice(["eu", "EU", "", "1", "🌍", None])) is not None
                }
            exact = draw.choice([size, size, 0, 127, 128, 1000 - 16, 16_384])
            key = draw.choice([None, "", "k", "ключ", "🔑" * 40])
            rows.append(
                (
                    f"t{producer % 3}",
                    f"p{producer}",
                    number,
                    time,
                    draw.choice([None, time]),
                    key,
                    list(properties.items()),
                    draw.randbytes(exact),
                    exact,
                )
            )
    draw.shuffle(rows)
    return table(rows)


def with_all_contents(topic, count=120):
    """A producer's messages with payloads, keys, properties and event times: the second 60 with two properties, the rest for one long batch.

    From 44 on some neighbours have sets that look alike. Each from 100 to 119 counts for 225 bytes, one
    of them for 226.
    """
    alike = {44: (("region", "eu"),), 45: (("tag", "eu"),), 46: (("region", "eu"),), 47: (("region", "eu"), ("tag", ""))}
    draw = random.Random(7)
    time, rows = 1000, []
    for number in range(count):
        time += draw.choice((0, 0, 1, 12)) * (number not in alike and not 100 <= number < 120)
        properties = [("region", draw.choice(("eu", "eu", "eu", "us", "ñ"))), ("n", str(number))]
        payload = draw.randbytes(800 if number in (20, 40) else draw.choice((2, 30, 90)))
        if 60 <= number < 120:
            properties = [("region", draw.choice(("eu", "us", "EU", "eu-1"))), ("tag", draw.choice("aab")), ("n", str(number))]
            draw.shuffle(properties)
        elif number >= 120:
            properties[0] = ("region", "eu")
        if number % 5 == 1:
            payload = b"\xff\xfe" + payload[2:]
        event_time = draw.choice((None, time - 5))
        key = draw.choice((None, "k1", "ключ"))
        if number % 10 == 0 and event_time:
            event_time = 1_700_000_000_000_000_000
        if number in alike:
            properties = [*alike[number], ("n", "m" * 199 + str(number))]
        if 100 <= number < 120:
            properties = [("region", "eu"), ("tag", "a")]
            payload = bytes(225 - 16 - 14 - 10 - len(key or "") + (number == 107))
        rows.append((topic, "p", number, time, event_time, key, properties, payload, len(payload)))
    return table(rows)
