"""PIP-191, the rules: the profiles, what the setting allows, and which properties go into the header of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from refimpl.wire.pulsar_api_pb2 import KeyValue
from refimpl.wire.scan import varint_size

Allowed = Mapping[str, frozenset[str]]
"""The producer's setting: the allowed values of each property."""

Extracted = tuple[tuple[str, str], ...]
"""The extracted set of a message: names and values in the order of the setting, so that equal sets are equal tuples."""


@dataclass(frozen=True)
class UniformBatchesProfile:
    """Which reading of PIP-191 a peer speaks, where there are two."""

    batch_of_one: Literal["batch", "java_single"]
    """How to write a batch that has one message when it is sent. `batch`: as a batch, as the table of the text shows.
    `java_single`: as a single message with all its properties in the header, as Java clients do since PIP-189. The header is then
    not always the extracted set, and a filter can find values in it that the setting does not allow."""


DEFAULT = UniformBatchesProfile(batch_of_one="batch")
"""The settled reading."""

AS_WRITTEN = UniformBatchesProfile(batch_of_one="batch")
"""The text as written, which agrees with the settled reading."""

PROFILES: Mapping[str, UniformBatchesProfile] = MappingProxyType({"default": DEFAULT, "as-written": AS_WRITTEN})
"""Both profiles, by name."""


def allowed_values(setting: Mapping[str, Iterable[str]]) -> Allowed:
    """Check a producer's setting.

    Args:
        setting: Allowed values of each property; empty: the proposal is off (pip191.setting.empty-is-off).

    Raises:
        ValueError: A name is empty, or its values are not a list of strings (pip191.setting.invalid).
    """
    setting_name = "restrict_same_values_in_batch_properties"
    if not isinstance(setting, Mapping):
        raise ValueError(f"{setting_name} is a map of property names to lists of values, not {setting!r}")
    allowed: dict[str, frozenset[str]] = {}
    for name, values in setting.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"{setting_name} has {'an empty property name' if name == '' else f'{name!r} for a property name'}")
        if isinstance(values, str):
            raise ValueError(f"{setting_name}[{name!r}] is a list of values, not the text {values!r}")
        listed = tuple(values) if isinstance(values, Iterable) else (values,)
        if not isinstance(values, Iterable) or not all(isinstance(value, str) for value in listed):
            raise ValueError(f"{setting_name}[{name!r}] is a list of texts, not {values!r}")
        allowed[name] = frozenset(listed)
    return MappingProxyType(allowed)


def check_combination(allowed: Allowed, *, key_based: bool) -> None:
    """Refuse settings that exclude each other.

    Raises:
        ValueError: The setting is combined with key-based batching (pip191.setting.not-with-key-based).
    """
    if allowed and key_based:
        raise ValueError("restrict_same_values_in_batch_properties can't be combined with key-based batching")


def extracted_set(properties: Mapping[str, str] | Iterable[tuple[str, str]], allowed: Allowed) -> Extracted:
    """Return the properties of a message that the setting allows: pip191.extract.pairs.

    Args:
        properties: Properties of the message. The last value of a repeated name counts (pip191.extract.repeated-name); the order does
            not matter (pip191.extract.order).
        allowed: The setting. Names and values are compared exactly (pip191.extract.exact).
    """
    last = dict(properties)
    return tuple((name, last[name]) for name, values in allowed.items() if name in last and last[name] in values)


def header_bytes(header: Extracted | None) -> int:
    """Return the size in bytes of an extracted set in the header of an entry."""
    return sum(1 + varint_size(size) + size for size in (KeyValue(key=name, value=value).ByteSize() for name, value in header or ()))
