"""Synthetic messages: producers that write in bursts, properties with skewed values, payloads of all kinds.

Rows come in chunks, each of consecutive messages of one producer, so that a producer's order depends on nothing but the seed:

    producer = chunk % producers            turn = chunk // producers
    topic = producer % topics               sequence_id = first + turn * CHUNK + number in the chunk

Values of a property are drawn by rank, the first being the most frequent: the probability of rank r is proportional to
r ** -exponent. The first ranks of each property are near misses of each other: upper and lower case, a superfluous space, a
prefix, the empty text, several scripts.

    region    runs of equal values whose lengths are geometric, of mean `burst`
    version   the same with longer runs, four times `burst`, and at most 20 values
    tag       chosen again for each message

Each is absent as if that were one more value. Payloads are, by documented shares, a decimal number "0" to "100", words, a JSON object
{"number":N,"text":"words"}, bytes that are not UTF-8, or empty. Two messages in three have an event_time, up to a minute before they are
published.

A small share (`rare`) is unusual in one way, each as often:

    order     the properties stand in the other order; one in four of these has a large payload, of 40,000 bytes, or as many as one or two
              chunks have, one less or one more
    back      it is published before the one in front of it
    ahead     its event_time is after it is published, by up to an hour; one in eight of these has 0, and one in eight nanoseconds
    long      a property more, `note`: hundreds of characters that have several bytes each; one in three has a long name instead, and one in
              three a long key
    same      `version` has the value of `region`
    similar   a property more, `Region`, with the value of `region`; in one in four of these it has an empty name
    twin      it and the one in front of it have a `region` and a `version` of which one text is made when they are joined, or when what
              is missing counts as empty

And one chunk in eight has a run of 100 to 199 messages of equal `region`, so that there are large batches. Most of these count for 128
bytes of a batch, so that some batches are filled just so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from conformance.corpus.columns import MAY_HAVE, MESSAGE_COLUMNS, ddl
from conformance.corpus.errors import CorpusError
from conformance.corpus.sources.blocks import BLOCK, COMMON, BlockSource, generator
from conformance.corpus.sources.options import Option
from conformance.corpus.sources.payloads import Payloads
from conformance.corpus.sources.zipf import draw, zipf_borders

CHUNK = 256
"""Messages of one producer in a row; it divides a block."""

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
_NOTES = ("größe " * 60, "地区" * 150, "регион " * 50, "🌍" * 200)
_NAMES = ("region", "version", "tag", "note", "Region", "", "note of a name that is longer than any other: " + "n" * 100)
_REGION, _VERSION, _, _NOTE, _SIMILAR, _EMPTY, _LONG_NAME = range(len(_NAMES))
_TWINS: Sequence[tuple[tuple[str | None, str | None], tuple[str | None, str | None]]] = (
    (("eu", None), (None, "eu")),
    (("eu", "1"), (None, "eu,1")),
    (("eu", None), ("eu", "")),
    ((None, None), ("", "")),
)
"""`region` and `version` of two neighbours."""
_RARE = ("order", "back", "ahead", "long", "same", "similar", "twin")
_LONG_RUN = (100, 200)
_LARGE = np.array([65_536, 32_768, 65_537, 32_769, 65_536, 32_767, 40_000])
_EVEN, _UNEVEN = 128, (127, 129, 256)
"""What messages of a long run count for, in bytes; and one in 64 of them instead."""
_OF_EACH, _OF_PROPERTY = 16, 6
"""Bytes for which producers count the header of a message, and of a property."""
_TOPIC = "persistent://synthetic/messages/topic-"
_JOINED = (
    (f"{_TOPIC}0", "1"),
    *(pair for by in ("", ",", " ", "-", "/") for pair in ((f"{_TOPIC}0", f"0{by}1"), (f"{_TOPIC}0{by}0", "1"))),
)
"""Topics and names of which each two are one text when they are joined by what stands between; and a name that all topics have."""
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Rare:
    """What is unusual in a block.

    Attributes:
        which: For each row the way, a place in `_RARE`; -1: none.
        distance: How far it goes there, from 1 on.
        run_of: The row whose `region` it has.
        in_run: Whether it is in a long run.
    """

    which: Numbers
    distance: Numbers
    run_of: Numbers
    in_run: npt.NDArray[np.bool_]

    def of(self, way: str) -> npt.NDArray[np.bool_]:
        """Tell which rows are unusual in one way."""
        found: npt.NDArray[np.bool_] = self.which == _RARE.index(way)
        return found


class SyntheticMessages(BlockSource):
    """The data source `synthetic_messages`."""

    OPTIONS: ClassVar[Sequence[Option]] = (
        *COMMON,
        Option("producers", 4, "how many producers; they take turns of 256 messages, so few rows have fewer producers", least=1),
        Option("topics", 2, "how many topics; producer P writes to topic P % topics", least=1),
        Option(
            "names",
            "own",
            "names of producers: own, or those of other topics, too, as where a client writes to partitions; the first can't be told apart "
            "where topic and name are joined",
            choices=("own", "shared"),
        ),
        Option("first", 0, "sequence_id of the first message of each producer", least=0),
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
        Option("rare", 0.03, "share of messages that are unusual, from 0 to 1; 0: there are no long runs, either", least=0),
    )

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        for share in ("absent", "rare"):
            if not self.chosen[share] <= 1:
                raise CorpusError(f"{self.name()}: {share} is a share from 0 to 1, not {self.chosen[share]:g}")

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "synthetic_messages"

    def schema(self) -> str:
        """Return the columns."""
        return ddl({**MESSAGE_COLUMNS, **MAY_HAVE})

    def block(self, number: int, rows: int) -> pa.RecordBatch:
        """Draw chunks of producers."""
        random = generator(self.chosen["seed"], STREAM, number)
        place = np.arange(rows, dtype=np.int64)
        turn, producer = np.divmod(number * (BLOCK // CHUNK) + place // CHUNK, self.chosen["producers"])
        rare = self._rare(number, rows)
        properties = self._properties(random, rows, rare)
        keys = self._keys(random, rows, rare)
        times = self._times(random, number)[:rows]
        payload, sizes = self._payloads.draw(random, rows, _wanted_sizes(rare, properties, keys), filled=self.chosen["payload"] == "yes")
        topics, names = self._senders(producer)
        return pa.record_batch(
            {
                "id": place + number * BLOCK,
                "topic": topics,
                "producer_name": names,
                "sequence_id": self.chosen["first"] + turn * CHUNK + place % CHUNK,
                "publish_time": np.where(rare.of("back"), times - 1 - rare.distance % 100, times),
                "key": keys,
                "properties": properties,
                "payload": payload,
                "payload_size": sizes,
                "event_time": self._event_times(number, times, rare),
            }
        )

    def _senders(self, producers: Numbers) -> tuple[pa.Array, pa.Array]:
        """Return topics and names of producers."""
        count = self.chosen["topics"]
        if self.chosen["names"] == "own":
            return _texts(producers, lambda one: (f"{_TOPIC}{one % count}", f"producer-{one}"))
        return _texts(producers, lambda one: _JOINED[one] if one < len(_JOINED) else (f"{_TOPIC}{one % count}", f"producer-{one // count}"))

    def _rare(self, block: int, rows: int) -> _Rare:
        """Draw what is unusual, by itself: the other rows are the same whatever the share."""
        random = generator(self.chosen["seed"], STREAM + 2, block)
        which = np.where(random.random(BLOCK) < self.chosen["rare"], random.integers(0, len(_RARE), BLOCK), -1)
        distance = random.integers(1, 3_600_000, BLOCK)
        begins = np.arange(0, BLOCK, 8 * CHUNK) + random.integers(0, CHUNK - _LONG_RUN[1], BLOCK // (8 * CHUNK))
        lengths = random.integers(*_LONG_RUN, len(begins)) if self.chosen["rare"] else np.zeros(len(begins), np.int64)
        run_of, in_run = np.arange(BLOCK), np.zeros(BLOCK, bool)
        for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True):
            run_of[begin : begin + length], in_run[begin : begin + length] = begin, True
        return _Rare(which[:rows], distance[:rows], run_of[:rows], in_run[:rows])

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

    def _properties(self, random: np.random.Generator, rows: int, rare: _Rare) -> pa.Array:
        """Draw for each name, in the order of `_NAMES`, which of all values it has, and whether it is there."""
        chosen, present, base = np.zeros((rows, len(_NAMES)), np.int64), np.zeros((rows, len(_NAMES)), bool), 0
        for name, (_, values, burst) in enumerate(self._vocabularies):
            runs = run_numbers(random, rows, burst)
            count = int(runs[-1]) + 1 if rows else 0
            chosen[:, name] = base + draw(random, zipf_borders(len(values), self.chosen["exponent"]), count)[runs]
            present[:, name] = (random.random(count) >= self.chosen["absent"])[runs]
            base += len(values)
        chosen[:, _REGION], present[:, _REGION] = chosen[rare.run_of, _REGION], present[rare.run_of, _REGION]
        nameless = rare.of("similar") & (rare.distance % 4 == 0)
        for name, which in ((_VERSION, rare.of("same")), (_SIMILAR, rare.of("similar") & ~nameless), (_EMPTY, nameless)):
            chosen[:, name] = np.where(which, chosen[:, _REGION], chosen[:, name])
            present[:, name] = np.where(which, present[:, _REGION], present[:, name])
        chosen[:, (_NOTE, _LONG_NAME)] = (base + rare.distance % len(_NOTES))[:, None]
        present[:, _NOTE], present[:, _LONG_NAME] = (rare.of("long") & (rare.distance % 3 == kind) for kind in (0, 1))
        base += len(_NOTES)
        second = np.flatnonzero(rare.of("twin") & ~rare.in_run & ~np.roll(rare.in_run, 1) & (np.arange(rows) % CHUNK > 0))
        for neighbour in (0, 1):  # the values stand behind all others, in the order of `_TWINS`
            which = rare.distance[second] % len(_TWINS)
            for place, name in enumerate((_REGION, _VERSION)):
                chosen[second + neighbour - 1, name] = base + 4 * which + 2 * neighbour + place
                present[second + neighbour - 1, name] = np.array([pair[neighbour][place] is not None for pair in _TWINS])[which]
        order = np.where(rare.of("order")[:, None], np.arange(len(_NAMES))[::-1], np.arange(len(_NAMES)))
        is_present = np.take_along_axis(present, order, 1)
        offsets = np.concatenate([[0], np.cumsum(is_present.sum(axis=1))]).astype(np.int32)
        of_twins = pa.array([value or "" for pair in _TWINS for values in pair for value in values])
        all_values = pa.concat_arrays([*(values for _, values, _ in self._vocabularies), pa.array(_NOTES), of_twins])
        items = all_values.take(pa.array(np.take_along_axis(chosen, order, 1)[is_present]))
        return pa.MapArray.from_arrays(pa.array(offsets), pa.array(_NAMES).take(pa.array(order[is_present])), items)

    def _keys(self, random: np.random.Generator, rows: int, rare: _Rare) -> pa.Array:
        chosen = draw(random, zipf_borders(self.chosen["keys"], self.chosen["exponent"]), rows)
        keys = vocabulary("key", _KEYS, self.chosen["keys"]).take(pa.array(chosen, mask=random.random(rows) < 0.2))
        return pc.if_else(pa.array(rare.of("long") & (rare.distance % 3 == 2)), pa.array(_NOTES).take(rare.distance % len(_NOTES)), keys)

    def _times(self, random: np.random.Generator, block: int) -> Numbers:
        """Draw whole chunks, each of which takes up its share of its producer's time, so that a producer's clock never goes back."""
        turns = (block * (BLOCK // CHUNK) + np.arange(BLOCK // CHUNK)) // self.chosen["producers"]
        span = CHUNK / self.chosen["rate"] * 1000
        first, after = (EPOCH + (some * span).astype(np.int64) for some in (turns, turns + 1))
        pauses = random.exponential(size=BLOCK + 1) * (random.random(BLOCK + 1) < 1 / self.chosen["at_once"])
        passed = np.cumsum(pauses[:-1].reshape(len(turns), CHUNK), axis=1)
        within = np.floor(passed / (passed[:, -1:] + 1e-9) * (after - first)[:, None]).astype(np.int64)
        times: Numbers = (first[:, None] + within).ravel()
        return times

    def _event_times(self, block: int, times: Numbers, rare: _Rare) -> pa.Array:
        """Draw when what messages tell of happened: up to a minute before they were published; one in three does not say."""
        random = generator(self.chosen["seed"], STREAM + 1, block)
        ago = random.exponential(5000, len(times)).astype(np.int64).clip(0, 60_000)
        unknown = (random.random(len(times)) < 1 / 3) & ~rare.of("ahead")
        later = np.select(
            [rare.distance % 8 == 0, rare.distance % 8 == 1], [np.zeros_like(times), times * 1_000_000], times + rare.distance
        )
        return pa.array(np.where(rare.of("ahead"), later, times - ago), mask=unknown)


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


def _wanted_sizes(rare: _Rare, properties: pa.MapArray, keys: pa.Array) -> Numbers:
    """Return how many bytes the payloads have that are large, or of a long run; 0: any number."""
    large = rare.of("order") & (rare.distance % 4 == 0)
    even = np.where(rare.distance % 64 == 0, np.array(_UNEVEN)[rare.distance // 64 % len(_UNEVEN)], _EVEN)
    texts = pc.add(pc.utf8_length(properties.keys), pc.utf8_length(properties.items)).to_numpy()
    ends = np.concatenate([[0], np.cumsum(texts + _OF_PROPERTY)])[properties.offsets.to_numpy()]
    others = np.diff(ends) + pc.fill_null(pc.utf8_length(keys), 0).to_numpy() + _OF_EACH
    wanted = np.where(rare.in_run, np.maximum(even - others, 0), 0)
    sizes: Numbers = np.where(large, _LARGE[(np.cumsum(large) - 1) % len(_LARGE)], wanted)
    return sizes


def _texts(numbers: Numbers, of: Callable[[int], tuple[str, str]]) -> tuple[pa.Array, pa.Array]:
    """Return two texts for each number."""
    different, places = np.unique(numbers, return_inverse=True)
    columns = zip(*map(of, different.tolist()), strict=True) if len(different) else ((), ())
    topics, names = (pa.array(list(texts), pa.string()).take(pa.array(places)) for texts in columns)
    return topics, names
