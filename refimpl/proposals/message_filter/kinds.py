"""PR 7629, the filters themselves: what a filter is, the two that look at bytes, and the registry that knows all by name.

A client names a filter by the Java class that the text gives it. Here such a name is a key of a registry and nothing else: no name
that a client sends is ever loaded as code.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import re2

from refimpl.indexes.topic_patterns import PATTERN_MEMORY
from refimpl.wire.pulsar_api_pb2 import MessageMetadata, Schema, SingleMessageMetadata

PACKAGE = "org.apache.pulsar.broker.service.filtering"
REGEX_FILTER = f"{PACKAGE}.RegexFilter"
BYTES_PREFIX_FILTER = f"{PACKAGE}.BytesPrefixFilter"
BASIC_AVRO_FILTER = f"{PACKAGE}.BasicAvroFilter"
"""The names of the built-in filters. The text shows the first in full; the others stand in the same package."""

REGEX_KEY = "regex_filter_pattern_key"
PREFIX_KEY = "bytes_prefix_filter_prefix"
PREFIX_BASE64_KEY = "bytes_prefix_filter_prefix_base64"
"""Keys of filter_properties. The text has the first; it names none for the prefix."""

REGEX_MAX_LENGTH = 1000
"""Longest regular expression of a filter, in characters."""

ENTRY_POINT_GROUP = "pulsar_conformance.message_filters"
"""The group in which other distributions register filters; an entry point's name is the name of the filter class."""


class InvalidFilter(Exception):
    """A filter that can't be built from its properties.

    Args:
        reason: What is wrong, for the person who wrote the properties.
        key: The property that it is about; None: about none in particular.
    """

    def __init__(self, reason: str, key: str | None = None) -> None:
        super().__init__(reason if key is None else f"{key!r}: {reason}")
        self.reason = reason
        self.key = key


class Undecidable(Exception):
    """A message that a filter can't judge; it is delivered and counted, so that nothing is lost silently."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message to be judged.

    Attributes:
        payload: Its bytes, decompressed.
        metadata: The header of its entry.
        single: Its own header inside a batch; None: it is not in a batch.
    """

    payload: bytes
    metadata: MessageMetadata
    single: SingleMessageMetadata | None = None


@dataclass(frozen=True, slots=True)
class SchemaAccess:
    """The schemas of a topic, as a filter needs them.

    Attributes:
        current: The schema of SUBSCRIBE, else the topic's newest; None: neither exists.
        of_version: Gives the schema of a version that a message names in its metadata; None: the topic has no such version.
    """

    current: Schema | None = None
    of_version: Callable[[bytes], Schema | None] = field(default=lambda _: None)


@runtime_checkable
class MessageFilter(Protocol):
    """Decides for one consumer or subscription. It must give the same answer whenever it is asked about the same message."""

    def matches(self, message: Candidate) -> bool:
        """Return whether a message is wanted.

        Raises:
            Undecidable: It can't be told. Any other exception counts as this one.
        """


FilterFactory = Callable[[Mapping[str, str], SchemaAccess], MessageFilter]
"""Builds a filter from its properties; raises `InvalidFilter`. A class whose constructor takes these two is one."""


class EntryPoint(Protocol):
    """What is needed of `importlib.metadata.EntryPoint`."""

    @property
    def name(self) -> str:
        """The name of the filter class."""

    def load(self) -> Any:
        """Import and return the factory."""


class RegexFilter:
    """Wants messages whose whole payload fits a regular expression.

    The payload is text if it is valid UTF-8, else each byte is the character of that number: pr7629.regex.text, .octets.

    Args:
        properties: `regex_filter_pattern_key`: RE2 syntax; `.` does not match a newline.
        schemas: Not looked at.

    Raises:
        InvalidFilter: pr7629.properties.missing-key, .unknown-key, pr7629.regex.invalid, .length-limit.
    """

    def __init__(self, properties: Mapping[str, str], schemas: SchemaAccess) -> None:  # noqa: ARG002
        only_keys(properties, REGEX_KEY)
        pattern = properties.get(REGEX_KEY)
        if pattern is None:
            raise InvalidFilter("this key is missing", REGEX_KEY)
        if len(pattern) > REGEX_MAX_LENGTH:  # pr7629.regex.length-limit
            raise InvalidFilter(f"the pattern has {len(pattern)} characters, {REGEX_MAX_LENGTH} are allowed", REGEX_KEY)
        self.pattern = pattern
        self._compiled = _compiled(pattern)

    def matches(self, message: Candidate) -> bool:
        """Return whether the whole payload fits: pr7629.regex.whole-payload, .newline, .linear."""
        data = message.payload
        if not _is_utf8(data):
            data = data.decode("latin-1").encode()
        return self._compiled.fullmatch(data) is not None


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as error:  # pr7629.regex.invalid
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise InvalidFilter(f"the pattern is no RE2 regular expression: {reason}", REGEX_KEY) from None


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class BytesPrefixFilter:
    """Wants messages whose payload begins with some bytes; a shorter payload does not: pr7629.prefix.match, .shorter.

    Args:
        properties: One of `bytes_prefix_filter_prefix`, as text that stands for its UTF-8 bytes (pr7629.prefix.text-key), and
            `bytes_prefix_filter_prefix_base64` (pr7629.prefix.base64-key). An empty prefix is one: pr7629.prefix.empty.
        schemas: Not looked at.

    Raises:
        InvalidFilter: pr7629.properties.missing-key, .unknown-key, pr7629.prefix.one-key, .invalid.
    """

    def __init__(self, properties: Mapping[str, str], schemas: SchemaAccess) -> None:  # noqa: ARG002
        only_keys(properties, PREFIX_KEY, PREFIX_BASE64_KEY)
        if not properties:
            raise InvalidFilter(f"this key is missing, and so is {PREFIX_BASE64_KEY!r}", PREFIX_KEY)
        if len(properties) > 1:  # pr7629.prefix.one-key
            raise InvalidFilter(f"this key excludes {PREFIX_KEY!r}", PREFIX_BASE64_KEY)
        self.prefix = properties[PREFIX_KEY].encode() if PREFIX_KEY in properties else _bytes(properties[PREFIX_BASE64_KEY])

    def matches(self, message: Candidate) -> bool:
        """Return whether the payload begins with the prefix."""
        return message.payload.startswith(self.prefix)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:  # pr7629.prefix.invalid
        raise InvalidFilter(f"the value is not Base64: {error}", PREFIX_BASE64_KEY) from None


def only_keys(properties: Mapping[str, str], *known: str) -> None:
    """Check that there are no other keys: pr7629.properties.unknown-key.

    Raises:
        InvalidFilter: There is one; names the first.
    """
    for key in properties:
        if key not in known:
            raise InvalidFilter(f"this key is unknown; known: {', '.join(known)}", key)


class FilterRegistry:
    """The filters that clients may ask for, by the name of their class: pr7629.class.extensible.

    Args:
        factories: By name.
        entry_points: Further ones, such as `importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)` gives them; they are loaded
            now, and never again. One whose name is taken does not count.

    Attributes:
        problems: Why a name can't be used although an entry point has it, by name.
    """

    def __init__(self, factories: Mapping[str, FilterFactory], entry_points: Iterable[EntryPoint] = ()) -> None:
        self._factories = dict(factories)
        self.problems: dict[str, str] = {}
        for entry_point in entry_points:
            self._add(entry_point)

    def _add(self, entry_point: EntryPoint) -> None:
        name = entry_point.name
        if name in self._factories:
            self.problems.setdefault(name, "an entry point has the name of another filter, which stays in force")
            return
        try:
            factory = entry_point.load()
        except Exception as error:  # code of others, of which one piece must not keep the rest from working
            self.problems[name] = f"it can't be loaded: {type(error).__name__}: {error}"
            return
        if not callable(factory):
            self.problems[name] = f"its entry point is no class or function but {type(factory).__name__}"
            return
        self._factories[name] = factory

    @property
    def names(self) -> frozenset[str]:
        """The names that can be used."""
        return frozenset(self._factories)

    def build(self, name: str, properties: Mapping[str, str], schemas: SchemaAccess) -> MessageFilter:
        """Build a filter.

        Raises:
            InvalidFilter: There is none of that name (pr7629.class.unknown), or the properties don't fit it.
        """
        factory = self._factories.get(name)
        if factory is None:
            raise InvalidFilter(self.problems.get(name, "there is no such filter"))
        try:
            built = factory(properties, schemas)
        except InvalidFilter:
            raise
        except Exception as error:  # pr7629.class.extension-fails
            raise InvalidFilter(f"it can't be built: {type(error).__name__}: {error}") from error
        if not isinstance(built, MessageFilter):
            raise InvalidFilter(f"what its entry point builds is no filter but {type(built).__name__}")
        return built
