"""Schemas for applications. The client sends them to the broker but does not encode payloads with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from refimpl.wire.pulsar_api_pb2 import Schema


def avro_schema(definition: str | Mapping[str, Any]) -> Schema:
    """Return an Avro schema.

    Args:
        definition: The definition of a record, as text or as parsed JSON.
    """
    return Schema(name="", type=Schema.Avro, schema_data=_bytes(definition))


def json_schema(definition: str | Mapping[str, Any]) -> Schema:
    """Return a schema of JSON objects.

    Args:
        definition: An Avro definition, as text or as parsed JSON.
    """
    return Schema(name="", type=Schema.Json, schema_data=_bytes(definition))


def _bytes(definition: str | Mapping[str, Any]) -> bytes:
    return (definition if isinstance(definition, str) else json.dumps(definition)).encode()
