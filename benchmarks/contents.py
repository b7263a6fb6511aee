"""Messages with contents: the laws of batches on Spark, beside a plain loop of pyarrow and protobuf in one process.

python benchmarks/contents.py --rows 200000

The loop does the least that can be done to see contents: it reads the same messages, encodes neighbours with equal regions as a batch,
compresses them in turn, opens them again and compares each message. It has no second formulation, no order over partitions and no shuffle.
Both are counted in seconds of processors, of all processes that take part, since the time on the clock depends on what else runs.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import groupby
from pathlib import Path

import cramjam
from crc32c import crc32c

from conformance.corpus.batching.contents import with_contents
from conformance.corpus.batching.entries import both
from conformance.corpus.batching.laws import find
from conformance.corpus.batching.opened import decompressed, read_entry, read_messages
from conformance.corpus.batching.settings import Setting
from conformance.corpus.corpora import messages
from conformance.corpus.session import spark_session
from conformance.corpus.sources.blocks import BLOCK
from conformance.corpus.sources.synthetic_messages import SyntheticMessages
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata

MOST = 1000
COMPRESS = (
    bytes,
    lambda body: bytes(cramjam.lz4.compress_block(body, store_size=False)),
    lambda body: bytes(cramjam.zlib.compress(body)),
    lambda body: bytes(cramjam.zstd.compress(body)),
    lambda body: bytes(cramjam.snappy.compress_raw(body)),
)


def plain(rows: int) -> float:
    """Return the seconds of the loop."""
    source = SyntheticMessages({"rows": str(rows)})
    began, entries, seen = time.process_time(), 0, 0
    for block in range(-(-rows // BLOCK)):
        batch = source.block(block, min(BLOCK, rows - block * BLOCK))
        names = ("sequence_id", "publish_time", "event_time", "key", "properties", "payload")
        drawn = zip(*(batch[name].to_pylist() for name in names), strict=True)
        for _, run in groupby(drawn, lambda row: dict(row[4]).get("region")):
            sent = list(run)[:MOST]
            read = read_messages(*_opened(sent, entries % 5))
            entries += 1
            seen += len(sent)
            for (number, _, event_time, key, properties, payload), (own, found) in zip(sent, read, strict=True):
                same = own.sequence_id == number and found == payload and [(one.key, one.value) for one in own.properties] == properties
                assert same
                assert (own.event_time if own.HasField("event_time") else None) == event_time
                assert (own.partition_key if own.HasField("partition_key") else None) == key
    print(f"plain loop: {seen:,} messages in {entries:,} entries")
    return time.process_time() - began


def _opened(sent: list[tuple], compression: int) -> tuple[MessageMetadata, bytes]:
    parts = []
    for number, _, event_time, key, properties, payload in sent:
        own = SingleMessageMetadata(payload_size=len(payload), sequence_id=number)
        for name, value in properties:
            own.properties.add(key=name, value=value)
        if key is not None:
            own.partition_key = key
        if event_time is not None:
            own.event_time = event_time
        header = own.SerializeToString()
        parts += [len(header).to_bytes(4, "big"), header, payload]
    body = b"".join(parts)
    metadata = MessageMetadata(producer_name="p", sequence_id=sent[0][0], publish_time=sent[0][1], uncompressed_size=len(body))
    metadata.compression, metadata.num_messages_in_batch = compression, len(sent)
    header = metadata.SerializeToString()
    covered = len(header).to_bytes(4, "big") + header + COMPRESS[compression](body)
    read, compressed = read_entry(b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") + covered)
    return read, decompressed(read, compressed)


def on_spark(rows: int, memory: int) -> dict[str, float]:
    """Return the seconds of processors and of the clock that the laws take: those of all rows without those of a tenth."""
    with spark_session("contents", megabytes=memory) as spark:
        used = []
        for count in (rows // 10, rows // 10, rows):  # the first one lets Java compile
            before, began = _processor_seconds(), time.perf_counter()
            drawn = with_contents(messages(spark, rows=count, producers=max(4, count // 250_000)))
            setting = Setting("region", {"region": ("eu", "us", "EU", "eu ", "asia")})
            found = find(both(drawn, setting), setting, ())
            assert not any(one.broken for one in found.outcomes)
            used.append((_processor_seconds() - before, time.perf_counter() - began))
        return {
            "processors": (used[2][0] - used[1][0]) / 0.9,
            "clock": (used[2][1] - used[1][1]) / 0.9,
            "cores": spark.sparkContext.defaultParallelism,
        }


def _processor_seconds() -> float:
    """Return what this process and all that it has started have used."""
    found: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    for _ in range(8):
        ours |= {process for process, (parent, _) in found.items() if parent in ours}
    return sum(found[process][1] for process in ours)


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--memory", type=int, default=2048)
    options = parser.parse_args()
    loop = plain(options.rows)
    print(f"plain loop: {options.rows / loop:,.0f} rows per second and core")
    spark = on_spark(options.rows, options.memory)
    print(
        f"Spark: {options.rows / spark['processors']:,.0f} rows per second and core, {spark['clock']:.0f} s on {spark['cores']:.0f} cores"
    )


if __name__ == "__main__":
    main()
