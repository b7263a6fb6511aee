"""The columns that all corpora have, with their types as Spark writes them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

TOPIC_COLUMNS: Mapping[str, str] = {"id": "bigint", "topic": "string", "kind": "string", "properties": "map<string,string>"}
"""Columns of topics; more may follow them."""
MESSAGE_COLUMNS: Mapping[str, str] = {
    "id": "bigint",
    "topic": "string",
    "producer_name": "string",
    "sequence_id": "bigint",
    "publish_time": "bigint",
    "key": "string",
    "properties": "map<string,string>",
    "payload": "binary",
    "payload_size": "int",
}
"""Columns of messages; more may follow them."""
ARROW_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
"""The type in Arrow of each of these."""


def ddl(columns: Mapping[str, str]) -> str:
    """Return columns as a schema of Spark."""
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return columns as a schema of Arrow."""
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in columns.items()])


MAY_HAVE: Mapping[str, str] = {"event_time": "bigint"}
"""A column that messages may have besides: when that happened of which they tell, in milliseconds."""
