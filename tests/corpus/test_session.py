"""Tables become frames with all their rows, and workers are forked from a process that may be forked."""

import subprocess
import sys

import pyarrow as pa
import pytest

from conformance.corpus.session import frame_of

SCHEMA = pa.schema([("number", pa.int64()), ("names", pa.list_(pa.string()))])


def chunk(count):
    return pa.RecordBatch.from_pylist([{"number": number, "names": ["a"] * (number % 3)} for number in range(count)], SCHEMA)


@pytest.mark.parametrize("counts", [(), (0,), (0, 0), (2,), (1, 2, 3), (0, 0, 1), (1, 0, 2, 0), (0, 3, 0, 0, 12_000, 1)])
def test_no_chunk_is_lost(spark, counts):
    table = pa.Table.from_batches([chunk(count) for count in counts], SCHEMA)
    assert table.num_rows == sum(counts)
    assert frame_of(spark, table).toArrow().to_pylist() == table.to_pylist()


_THREADS = """
from pathlib import Path
import conformance.corpus.daemon
print(*(path.read_text() for path in Path("/proc/self/task").glob("*/comm")), sep="")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the threads of a process")
def test_what_workers_are_forked_from_has_no_thread_that_they_would_miss():
    """But the main one, and that of jemalloc, which is started again after a fork."""
    found = subprocess.run([sys.executable, "-c", _THREADS], check=True, capture_output=True, text=True, env={"OMP_NUM_THREADS": "1"})
    assert len([name for name in found.stdout.split() if name != "jemalloc_bg_thd"]) == 1


def test_workers_are_forked_from_what_has_imported_the_reference(spark):
    def modules(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"found": ["refimpl.broker" in sys.modules] * batch.num_rows})

    assert all(row.found for row in spark.range(2).mapInArrow(modules, "found BOOLEAN").collect())
