import json
import math
from collections import Counter
from itertools import groupby, pairwise

import pyarrow as pa
import pytest

from conformance.corpus.columns import MAY_HAVE, MESSAGE_COLUMNS
from conformance.corpus.errors import CorpusError
from conformance.corpus.sources.blocks import BLOCK
from conformance.corpus.sources.synthetic_messages import _NAMES, _TWINS, CHUNK, SyntheticMessages


def source(**options):
    return SyntheticMessages({name: str(value) for name, value in options.items()})


def read(blocks=3, last=BLOCK, **options):
    drawn = source(rows=(blocks - 1) * BLOCK + last, **options)
    return pa.Table.from_batches([drawn.block(number, last if number == blocks - 1 else BLOCK) for number in range(blocks)])


def of_property(table, name):
    return [dict(row).get(name) for row in table["properties"].to_pylist()]


def test_rows_depend_on_the_seed_alone():
    first, again, other = (source(seed=seed).block(4, 500) for seed in (7, 7, 8))
    assert first.equals(again)
    assert not first.equals(other)
    first.validate(full=True)


def test_a_block_is_the_same_whatever_was_drawn_before():
    drawn = source(seed=3)
    drawn.block(0, BLOCK)
    assert drawn.block(2, 100).equals(source(seed=3).block(2, 100))


def test_columns_are_those_of_the_schema():
    assert source().block(0, 1).schema.names == [*MESSAGE_COLUMNS, *MAY_HAVE]


def test_sequence_ids_have_no_gaps_and_no_clock_goes_back():
    table = read(5, 777, producers=2, topics=3, rare=0)
    assert table["id"].to_pylist() == list(range(4 * BLOCK + 777))
    by_producer = {}
    for row in table.select(["producer_name", "topic", "sequence_id", "publish_time"]).to_pylist():
        by_producer.setdefault(row["producer_name"], []).append(row)
    assert len(by_producer) == 2
    for rows in by_producer.values():
        assert [row["sequence_id"] for row in rows] == list(range(len(rows)))
        assert len({row["topic"] for row in rows}) == 1
        times = [row["publish_time"] for row in rows]
        assert times == sorted(times)


def test_producers_take_turns():
    names = read(1, 4 * CHUNK + 7)["producer_name"].to_pylist()
    assert names[::CHUNK] == [f"producer-{number}" for number in (0, 1, 2, 3, 0)]
    assert all(len(set(names[first : first + CHUNK])) == 1 for first in range(0, len(names), CHUNK))


def size_in_batch(row):
    return len(row["payload"]) + sum(len(name) + len(value) + 6 for name, value in row["properties"]) + len(row["key"] or "") + 16


def unusual(table):
    """Count what is unusual, by name."""
    sets, found, last, runs = (
        [],
        Counter(),
        {},
        groupby((row["producer_name"], dict(row["properties"]).get("region")) for row in table.to_pylist()),
    )
    for row in table.to_pylist():
        names, properties = [name for name, _ in row["properties"]], dict(row["properties"])
        found["order"] += len(names) > 1 and names == sorted(names, key=_NAMES[::-1].index)
        found["as large as a chunk"] += row["payload_size"] == 32_768
        found["larger by one"] += row["payload_size"] == 32_769
        found["as large as two chunks"] += row["payload_size"] == 65_536
        found["long key"] += len((row["key"] or "").encode()) > 127
        found["long name"] += max(map(len, names), default=0) > 127
        found["back"] += row["publish_time"] < last.get(row["producer_name"], 0)
        found["ahead"] += row["event_time"] is not None and row["event_time"] > row["publish_time"]
        found["long"] += len(properties.get("note", "").encode()) > 1.1 * len(properties.get("note", "")) > 200
        found["same"] += "eu" == properties.get("version") == properties.get("region")
        found["similar"] += "Region" in properties
        sets += [(properties.get("region"), properties.get("version"))]
        found["nameless"] += "" in properties
        found["at 0"] += row["event_time"] == 0
        found["in nanoseconds"] += (row["event_time"] or 0) > 1e18
        last[row["producer_name"]] = row["publish_time"]
    for pair in _TWINS:
        found[f"twins {pair}"] = sum(neighbours == pair for neighbours in pairwise(sets))
    found["long run"] = sum(len(list(run)) >= 100 for _, run in runs)
    return found


def test_each_unusual_class_occurs_in_few_rows():
    assert min(unusual(read(1, 4000)).values()) > 0
    assert len(unusual(read(1, 4000))) == 15 + len(_TWINS)
    assert set((+unusual(read(1, 4000, rare=0))).values()) == set()


def test_long_runs_fill_batches_just_so():
    sizes = Counter(map(size_in_batch, read(1, 4000).to_pylist()))
    assert sizes[128] > 200
    assert min(sizes[127], sizes[129], sizes[256]) > 0
    assert Counter(map(size_in_batch, read(1, 4000, rare=0).to_pylist()))[128] < 100


@pytest.mark.parametrize("by", ["", ",", " ", "-", "/"])
def test_shared_names_are_alike_when_they_are_joined(by):
    senders = read(1, 4000, names="shared", producers=12).select(["topic", "producer_name"]).to_pylist()
    every = {tuple(row.values()) for row in senders}
    assert len(every) == 12
    assert max(Counter(by.join(pair) for pair in every).values()) == 2
    assert sum(name == "1" for _, name in every) > 1


def test_the_other_rows_are_the_same_whatever_is_unusual():
    some, none = read(1, 4000).to_pylist(), read(1, 4000, rare=0).to_pylist()
    assert 0.85 < sum(one == other for one, other in zip(some, none, strict=True)) / 4000 < 1


def test_messages_come_at_the_rate_and_in_bursts():
    times = read(2, rate=1000, at_once=10, producers=1)["publish_time"].to_pylist()
    assert times[-1] - times[0] == pytest.approx(2 * BLOCK, rel=0.01)
    assert 0.05 < len(set(times)) / len(times) < 0.2


def test_values_are_skewed_as_asked_for():
    def share(exponent):
        counts = Counter(of_property(read(3, exponent=exponent, absent=0, burst=1, values=10), "tag"))
        return counts.most_common(1)[0][1] / counts.total()

    assert share(0) == pytest.approx(0.1, abs=0.01)
    assert share(1) == pytest.approx(1 / math.fsum(1 / rank for rank in range(1, 11)), abs=0.02)


def test_runs_of_equal_values_have_the_mean_that_is_asked_for():
    regions = of_property(read(3, burst=16, values=10_000, exponent=0, absent=0, rare=0), "region")
    runs = len(list(groupby(regions)))
    assert len(regions) / runs == pytest.approx(16, rel=0.1)


def test_a_share_of_the_draws_leaves_a_property_out():
    table = read(3, absent=0.25)
    for name in ("region", "version", "tag"):
        missing = sum(value is None for value in of_property(table, name)) / len(table)
        assert missing == pytest.approx(0.25, abs=0.05)
    assert all(of_property(read(1, 500, absent=0, rare=0), "region")[index] is not None for index in range(500))
    assert read(1, 500, absent=1, rare=0)["properties"].to_pylist() == [[]] * 500


def test_a_partition_can_have_nothing_but_equal_properties():
    table = read(2, values=1, absent=0, producers=1, rare=0)
    assert len({tuple(row) for row in table["properties"].to_pylist()}) == 1


def test_values_have_near_misses_and_several_scripts():
    values = set(of_property(read(3, burst=1, exponent=0), "region"))
    assert {"eu", "EU", "eu ", "e", "", "地区", "🌍"} <= values


def test_one_message_in_five_has_no_key():
    keys = read(2)["key"].to_pylist()
    assert keys.count(None) / len(keys) == pytest.approx(0.2, abs=0.02)
    assert "🔑" in keys


def classes(payloads):
    for payload in payloads:
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            yield "octets"
            continue
        if text.isdecimal() and 0 <= int(text) <= 100 and str(int(text)) == text:
            yield "number"
        elif text.startswith("{"):
            assert set(json.loads(text)) == {"number", "text"}
            yield "json"
        else:
            assert all(letter.islower() or letter == " " for letter in text)
            yield "words" if text else "empty"


def test_payloads_are_of_the_documented_classes():
    counts = Counter(classes(read(2)["payload"].to_pylist()))
    shares = {name: count / counts.total() for name, count in counts.items()}
    assert shares == pytest.approx({"number": 0.25, "words": 0.35, "json": 0.25, "octets": 0.13, "empty": 0.02}, abs=0.02)


def test_sizes_are_those_of_the_payloads_and_have_long_tails():
    table = read(4, payload_median=200)
    sizes = table["payload_size"].to_pylist()
    assert sizes == [len(payload) for payload in table["payload"].to_pylist()]
    assert max(sizes) > 20_000
    assert min(sizes) == 0
    assert sorted(size for size in sizes if size > 3)[len(sizes) // 3] == pytest.approx(200, rel=0.3)


def test_payloads_can_be_left_out_without_changing_the_rest():
    with_bytes, without = read(1, 900), read(1, 900, payload="no")
    assert without["payload"].null_count == 900
    assert with_bytes.drop(["payload"]).equals(without.drop(["payload"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"absent": 2}, "absent is a share from 0 to 1, not 2"),
        ({"rare": 1.5}, "rare is a share from 0 to 1, not 1.5"),
        ({"burst": 0}, "burst is at least 1, not 0"),
        ({"rate": "nan"}, "rate is at least 0.001, not nan"),
        ({"payload": "maybe"}, "payload is one of yes, no, not 'maybe'"),
        ({"producer": 2}, "there is no option producer, did you mean producers?"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message):
    with pytest.raises(CorpusError, match=r"^synthetic_messages: ") as refused:
        source(**options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_spark_reads_the_same_rows_whatever_the_partitions(spark):
    def rows(partitions):
        frame = spark.read.format("synthetic_messages").options(rows=40_000, partitions=partitions, payload_spread=2).load()
        return frame.sort("id").toArrow()

    one = rows(1)
    assert one.equals(rows(5))
    drawn = source(rows=40_000, payload_spread=2).block(2, 40_000 - 2 * BLOCK)
    assert one.slice(2 * BLOCK)["publish_time"].to_pylist() == drawn["publish_time"].to_pylist()
    assert one.slice(2 * BLOCK)["payload"].to_pylist() == drawn["payload"].to_pylist()
