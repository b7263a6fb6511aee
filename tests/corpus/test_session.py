"""Tables become frames with all their rows."""

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
