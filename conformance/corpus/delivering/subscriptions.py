"""What consumers ask for: a message filter, an entry filter, both or none."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from conformance.corpus.batching.settings import Want
from conformance.corpus.errors import CorpusError

RECORD = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "region", "type": ["null", "string"]},
        {"name": "number", "type": "long"},
        {"name": "text", "type": "string"},
    ],
}
"""The Avro schema of the topics."""


@dataclass(frozen=True)
class Subscription:
    """A subscription.

    Attributes:
        name: Its name.
        regex: What payloads have to fit; None: no such filter. There is at most one of the filters.
        prefix: What payloads begin with.
        fields: Fields of a record and their texts.
        schema: The schema by which records are read.
        want: Values of a property in the header; None: no entry filter.
        also: Values of another property that its entry filter looks at; what happens if it is missing is as for the first.
    """

    name: str
    regex: str | None = None
    prefix: bytes | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    schema: Literal["avro", "json"] = "avro"
    want: Want | None = None
    also: Want | None = None

    def __post_init__(self) -> None:
        if (self.regex is not None) + (self.prefix is not None) + bool(self.fields) > 1:
            raise CorpusError(f"subscription {self.name}: a consumer has one message filter")

    @property
    def wants(self) -> list[Want]:
        """Return what its entry filter looks at."""
        return [one for one in (self.want, self.also) if one is not None]

    @property
    def filter(self) -> tuple[str, dict[str, str]] | None:
        """Return the name of the message filter's class, without its package, and its properties; None: there is none."""
        if self.regex is not None:
            return "RegexFilter", {"regex_filter_pattern_key": self.regex}
        if self.prefix is not None:
            return "BytesPrefixFilter", {"bytes_prefix_filter_prefix_base64": base64.b64encode(self.prefix).decode()}
        return ("BasicAvroFilter", dict(self.fields)) if self.fields else None

    @property
    def schema_data(self) -> bytes:
        """Return the definition of the schema."""
        return json.dumps(RECORD).encode() if self.schema == "avro" else b"{}"


def subscriptions(often: str, rare: str, name: str = "region", awkward: str = " ") -> list[Subscription]:
    """Return subscriptions of all kinds.

    Args:
        often: A frequent value of the property, without a comma.
        rare: A rare one.
        name: The property.
        awkward: A value with a space at an end.
    """
    return [
        Subscription("all"),
        Subscription("regex", regex=r'(?s).*"number":\d*[05].*'),
        Subscription("regex, whole", regex=r"[^; \n]*;\d+;[0-9A-F]*[éÿ]?"),
        Subscription("prefix", prefix=b'{"region":' + json.dumps(often, ensure_ascii=False).encode()),
        Subscription("avro", fields={"region": often, "text": ""}),
        Subscription("json", fields={"region": often}, schema="json"),
        Subscription("json, digits", fields={"digit": "1"}, schema="json"),
        Subscription("json, true", fields={"digit": "true"}, schema="json"),
        Subscription("property", want=Want(name, often)),
        Subscription("property, strict", want=Want(name, rare, "reject")),
        Subscription("property with a space", want=Want(name, awkward, "reject")),
        Subscription("property and prefix", prefix=b'{"region":', want=Want(name, often)),
        Subscription("properties and bytes", prefix=b"\xff\xfe", want=Want(name, often, others=(rare,)), also=Want("version", "1")),
        Subscription("property, strict, and avro", fields={"region": rare}, want=Want(name, rare, "reject")),
    ]


def asked_fields(wanted: Sequence[Subscription], schema: str) -> list[str]:
    """Return the fields that some subscription looks at, by the schema."""
    return sorted({name for one in wanted if one.schema == schema for name in one.fields})
