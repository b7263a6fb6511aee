"""Synthetic messages: producers that write in bursts, properties with skewed values, payloads of all kinds.

A block is a chunk of consecutive messages of one producer, so that a producer's order depends on nothing but the seed:

    producer = block % producers            chunk = block // producers
    topic = producer % topics               sequence_id = chunk * BLOCK + number in the block

Values of a property are drawn by rank, the first being the most frequent: the probability of rank r is proportional to
r ** -exponent. The first ranks of each property are near misses of each other: upper and lower case, a superfluous space, a
prefix, the empty text, several scripts.

    region    runs of equal values whose lengths are geometric, of mean `burst`
    version   the same with longer runs, four times `burst`, and at most 20 values
    tag       chosen again for each message

Each is absent as if that were one more value. Payloads are, by documented shares, a decimal number "0" to "100", words, a JSON object
{"number":N,"text":"words"}, bytes that are not UTF-8, or empty. Two messages in three have an event_time, up to a minute before they are
published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conformance.corpus.columns import MAY_HAVE, MESSAGE_COLUMNS, ddl
from conformance.corpus.errors import CorpusError
from conformance.corpus.sources.blocks import BLOCK, COMMON, BlockSource, generator
from conformance.corpus.sources.options import Option
from conformance.corpus.sources.payloads import Payloads
from conformance.corpus.sources.zipf import draw, zipf_borders

EPOCH = 1_700_000_000_000
"""When the first message is published, in milliseconds since 1970."""

STREAM = 0x6D73
"""Of the draws of this source."""

VERSIONS = 20
"""Most values of `version`."""

_REGIONS = ("eu", "us", "EU", "eu ", "asia", "e", "", "eu-west", "地区", "región", "регион", "🌍", "us\u0301", "eu,us")
_VERSIONS = ("1", "2", "1.0", "01", " 1", "10", "", "٢", "v1")
_TAGS = ("a", "A", "b", "", "a b", "ß", "ss", "é", "e\u0301", "日本", "𝒂")
_KEYS = ("key-0", "KEY-0", "ключ", "鍵", "🔑", "")
Numbers = npt.NDArray[np.int64]


class SyntheticMessages(BlockSource):
    """The data source `synthetic_messages`."""

    OPTIONS: ClassVar[Sequence[Option]] = (
        *COMMON,
        Option("producers", 4, "how many producers; each has whole blocks of messages, so few rows have fewer producers", least=1),
        Option("topics", 2, "how many topics; producer P writes to topic P % topics", least=1),
        Option("values", 20, "how many values region and tag have; version has as many, but at most 20", least=1),
        Option("exponent", 1.1, "how skewed the values are; 0: all are equally frequent", least=0),
        Option("burst", 8.0, "mean length of a run of equal values of region, in messages", least=1),
        Option("absent", 0.1, "share of messages without the property, from 0 to 1", least=0),
        Option("keys", 1000, "how many keys, skewed like the values; one message in five has none", least=1),
        Option("rate", 5000.0, "messages per second of one producer", least=0.001),
        Option("at_once", 4.0, "mean number of messages that are published in the same instant", least=1),
        Option("payload", "yes", "no: payload is null, payload_size is the same", choices=("yes", "no")),
        Option("payload_median", 100.0, "median size of payloads that are words, JSON or bytes, in bytes", least=1),
        Option("payload_spread", 1.0, "standard deviation of the logarithm of that size", least=0),
    )

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        if not self.chosen["absent"] <= 1:
            raise CorpusError(f"{self.name()}: absent is a share from 0 to 1, not {self.chosen['absent']:g}")

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "synthetic_messages"

    def schema(self) -> str:
        """Return the columns."""
        return ddl({**MESSAGE_COLUMNS, **MAY_HAVE})

    def block(self, number: int, rows: int) -> pa.RecordBatch:
        """Draw a chunk of one producer."""
        producer, chunk = number % self.chosen["producers"], number // self.chosen["producers"]
        random = generator(self.chosen["seed"], STREAM, number)
        place = np.arange(rows, dtype=np.int64)
        properties = self._properties(random, rows)
        keys = self._keys(random, rows)
        times = self._times(random, chunk)[:rows]
        payload, sizes = self._payloads.draw(random, rows, filled=self.chosen["payload"] == "yes")
        topic = f"persistent://synthetic/messages/topic-{producer % self.chosen['topics']}"
        return pa.record_batch(
            {
                "id": place + number * BLOCK,
                "topic": _repeated(topic, rows),
                "producer_name": _repeated(f"producer-{producer}", rows),
                "sequence_id": place + chunk * BLOCK,
                "publish_time": times,
                "key": keys,
                "properties": properties,
                "payload": payload,
                "payload_size": sizes,
                "event_time": self._event_times(number, times),
            }
        )

    @cached_property
    def _payloads(self) -> Payloads:
        return Payloads(self.chosen["seed"], self.chosen["payload_median"], self.chosen["payload_spread"])

    @cached_property
    def _vocabularies(self) -> tuple[tuple[str, pa.Array, float], ...]:
        """Return name, values and mean run of each property."""
        count, burst = self.chosen["values"], self.chosen["burst"]
        return (
            ("region", vocabulary("region", _REGIONS, count), burst),
            ("version", vocabulary("version", _VERSIONS, min(count, VERSIONS)), 4 * burst),
            ("tag", vocabulary("tag", _TAGS, count), 1.0),
        )

    def _properties(self, random: np.random.Generator, rows: int) -> pa.Array:
        names = [name for name, _, _ in self._vocabularies]
        chosen, present, base = [], [], 0
        for _, values, burst in self._vocabularies:
            runs = run_numbers(random, rows, burst)
            count = int(runs[-1]) + 1 if rows else 0
            chosen.append(base + draw(random, zipf_borders(len(values), self.chosen["exponent"]), count)[runs])
            present.append((random.random(count) >= self.chosen["absent"])[runs])
            base += len(values)
        is_present, all_values = np.stack(present, axis=1), pa.concat_arrays([values for _, values, _ in self._vocabularies])
        offsets = np.concatenate([[0], np.cumsum(is_present.sum(axis=1))]).astype(np.int32)
        which = np.nonzero(is_present)[1]
        items = all_values.take(pa.array(np.stack(chosen, axis=1)[is_present]))
        return pa.MapArray.from_arrays(pa.array(offsets), pa.array(names).take(pa.array(which)), items)

    def _keys(self, random: np.random.Generator, rows: int) -> pa.Array:
        chosen = draw(random, zipf_borders(self.chosen["keys"], self.chosen["exponent"]), rows)
        return vocabulary("key", _KEYS, self.chosen["keys"]).take(pa.array(chosen, mask=random.random(rows) < 0.2))

    def _times(self, random: np.random.Generator, chunk: int) -> Numbers:
        """Draw a whole chunk, which takes up its share of the time, so that a producer's clock never goes back."""
        span = BLOCK / self.chosen["rate"] * 1000
        pauses = random.exponential(size=BLOCK + 1) * (random.random(BLOCK + 1) < 1 / self.chosen["at_once"])
        pauses[-1] += 1e-9
        passed = np.cumsum(pauses)
        first = EPOCH + int(chunk * span)
        times: Numbers = first + np.floor(passed[:-1] / passed[-1] * (int((chunk + 1) * span) - int(chunk * span))).astype(np.int64)
        return times

    def _event_times(self, block: int, times: Numbers) -> pa.Array:
        """Draw when what messages tell of happened: up to a minute before they were published; one in three does not say."""
        random = generator(self.chosen["seed"], STREAM + 1, block)
        ago = random.exponential(5000, len(times)).astype(np.int64).clip(0, 60_000)
        return pa.array(times - ago, mask=random.random(len(times)) < 1 / 3)


def vocabulary(name: str, first: Sequence[str], count: int) -> pa.Array:
    """Return the values of a property by rank.

    Args:
        name: What the values behind the first are called after.
        first: Those of the first ranks.
        count: How many there are.
    """
    return pa.array([*first[:count], *(f"{name}-{rank}" for rank in range(len(first), count))], pa.string())


def run_numbers(random: np.random.Generator, rows: int, mean: float) -> Numbers:
    """Divide rows into runs whose lengths are geometric; return the number of the run of each row."""
    begins = random.random(rows) < 1 / mean
    begins[:1] = True
    numbers: Numbers = np.cumsum(begins) - 1
    return numbers


def _repeated(text: str, rows: int) -> Any:
    return pa.repeat(pa.scalar(text), rows)
