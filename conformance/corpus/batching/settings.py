"""The variants that are run on a corpus: settings of producers, and consumers that want one value of a property."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from conformance.corpus.errors import CorpusError
from refimpl.proposals.uniform_batches import MISSING, PREFIX, Allowed, UniformBatchesProfile, allowed_values, check_combination
from refimpl.wire.pulsar_api_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD

MESSAGES = 1000
"""Most messages in a batch unless said otherwise: what Java clients have."""
BYTES = 128 * 1024
"""Most bytes in a batch unless said otherwise: what Java clients have."""
MOST_OF_ONE = 250_000
"""Large corpora are drawn with more producers than the usual ones, so that each has so many messages: they are one task's work."""
CHUNK = 32 * 1024
"""A message with a larger payload is divided into chunks."""
COMPRESSIONS = (NONE, LZ4, ZLIB, ZSTD, SNAPPY)
"""All of them, as producers use them in turn."""
DELAY = 1
"""Milliseconds that a batch waits at most unless said otherwise: what Java clients have."""


@dataclass(frozen=True)
class Setting:
    """How producers make batches.

    Attributes:
        name: Its name in results.
        allowed: Allowed values by property name (`restrictSameValuesInBatchProperties`); empty: batches as without the proposal.
        max_messages: Most messages in a batch.
        max_bytes: Most bytes in a batch, as producers estimate them.
        delay: Milliseconds that the first message of a batch waits for others at most.
        batch_of_one: How a batch of one message is written.
        by_key: Whether what is sent at once is divided into a batch for each key; not together with allowed values.
        compressions: Entry N of a producer has the compression of place N % their number.
        chunk: Most bytes of a payload that is not divided into chunks; what is divided goes alone.
    """

    name: str
    allowed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    max_messages: int = MESSAGES
    max_bytes: int = BYTES
    delay: int = DELAY
    batch_of_one: Literal["batch", "java_single"] = "batch"
    by_key: bool = False
    compressions: Sequence[int] = COMPRESSIONS
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        try:
            check_combination(allowed_values(self.allowed), key_based=self.by_key)
        except ValueError as error:
            raise CorpusError(f"setting {self.name}: {error}") from None
        if min(self.max_messages, self.max_bytes) < 1 or self.delay < 0:
            limits = f"{self.max_messages}, {self.max_bytes}, {self.delay}"
            raise CorpusError(f"setting {self.name}: a batch has at least 1 message and 1 byte, and waits 0 ms or more, not {limits}")

    @property
    def rule(self) -> Allowed:
        """The allowed values in the form of the reference; their order is that of extracted sets."""
        return allowed_values(self.allowed)

    @property
    def profile(self) -> UniformBatchesProfile:
        """The profile that it belongs to."""
        return UniformBatchesProfile(batch_of_one=self.batch_of_one)


@dataclass(frozen=True)
class Want:
    """A consumer that wants a value of a property, or one of several, through an entry filter.

    Attributes:
        name: Of the property.
        value: The wanted value; without a comma, which separates values in the subscription's property.
        missing: What happens to an entry whose header lacks the property.
        others: Further values that it wants.
    """

    name: str
    value: str
    missing: Literal["accept", "reject"] = "accept"
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or any("," in value for value in self.values):
            raise CorpusError(f"a consumer wants a property that has a name, and a value without a comma, not {self.name!r} {self.value!r}")

    @property
    def values(self) -> tuple[str, ...]:
        """All values that it wants."""
        return (*self.others, self.value)

    @property
    def subscription_properties(self) -> dict[str, str]:
        """The properties of its subscription."""
        return {PREFIX + self.name: ",".join(self.values), MISSING: self.missing}

    def is_safe(self, setting: Setting) -> bool:
        """Tell whether the filter must not lose messages: entries without the property pass, or producers extract the values."""
        return self.missing == "accept" or {*self.values} <= {*setting.allowed.get(self.name, ())}


def frequent_values(messages: DataFrame, names: Sequence[str], most: int) -> dict[str, tuple[str, ...]]:
    """Return the most frequent values of properties in a corpus.

    Args:
        messages: With the column `properties`.
        names: Of the properties.
        most: Number of values of each.

    Returns:
        Values by name, the most frequent first, equally frequent ones in the order of their bytes; those of a property that no message
        has are empty.
    """
    pairs = messages.select(sql.explode("properties").alias("name", "value")).where(sql.col("name").isin(list(names)))
    ranked = sql.row_number().over(Window.partitionBy("name").orderBy(sql.desc("count"), "value"))
    rows = pairs.groupBy("name", "value").count().withColumn("rank", ranked).where(sql.col("rank") <= most).sort("rank").collect()
    return {name: tuple(row["value"] for row in rows if row["name"] == name) for name in names}


def wanted_values(values: Sequence[str]) -> list[str]:
    """Return the values that a consumer can want: where it lists them, commas stand between them."""
    return [value for value in values if "," not in value]


def sweep(frequent: Mapping[str, Sequence[str]]) -> list[Setting]:
    """Return settings that each differ from the usual one in one respect.

    Args:
        frequent: From `frequent_values`, the properties in the order in which they are added to the setting.

    Returns:
        First without the proposal, then with one property, two, all, of which the later ones allow values that make sets look alike; then
        fewer values, other limits, and the Java form of a batch of one, batches by key, and no batches.
    """
    names = list(frequent)
    first = {name: tuple(frequent[name]) for name in names[:1]}
    usual = Setting(f"{names[0]}: {len(frequent[names[0]])} values", first)
    wider = [
        Setting(" and ".join(names[:count]), first | dict.fromkeys(names[1:count], confusable_values(frequent, names[:count])))
        for count in range(2, len(names) + 1)
    ]
    return [
        Setting("without the proposal"),
        usual,
        *wider,
        replace(usual, name=f"{names[0]}: 1 value", allowed={names[0]: tuple(frequent[names[0]][:1])}),
        replace(usual, name="10 messages", max_messages=10),
        replace(usual, name="32 messages or 4 KiB, 100 ms", max_messages=32, max_bytes=4096, delay=100),
        replace(usual, name="delay 10 ms", delay=10),
        replace(usual, name="delay 100 ms", delay=100),
        replace(usual, name="delay 100 ms, without the proposal", allowed={}, delay=100),
        replace(usual, name="batches of one as Java writes them", batch_of_one="java_single"),
        replace(usual, name="batches by key, 100 ms", allowed={}, delay=100, by_key=True),
        replace(usual, name="no batches", allowed={}, max_messages=1),
    ]


def confusable_values(frequent: Mapping[str, Sequence[str]], names: Sequence[str]) -> tuple[str, ...]:
    """Return values that make other sets look alike: those of each property, the empty one, and what the first two are when joined."""
    joined = (f"{one},{other}" for one in frequent[names[0]] for other in frequent[names[1]])
    return tuple(dict.fromkeys([*(value for name in names for value in frequent[name]), "", *joined]))


def awkward_values(values: Sequence[str]) -> list[str]:
    """Return the first of the values that has a space at an end; none if no value has."""
    return [value for value in values if value != value.strip()][:1]


def wants(frequent: Mapping[str, Sequence[str]]) -> list[Want]:
    """Return consumers of the most and the least frequent of the values, one that accepts and one that rejects what lacks the property.

    A further one, which rejects, wants a value with a space at an end, if there is one, or the most frequent one.
    """
    values = [(name, value) for name in frequent for value in dict.fromkeys([frequent[name][0], frequent[name][-1]]) if "," not in value]
    kinds: tuple[Literal["accept", "reject"], ...] = ("accept", "reject")
    usual = [Want(name, value, missing) for name, value in values for missing in kinds]
    awkward = [
        Want(name, value, "reject", tuple(wanted_values(frequent[name])[:1]))
        for name in frequent
        for value in awkward_values(wanted_values(frequent[name]))
    ]
    return list(dict.fromkeys([*usual, *awkward]))
