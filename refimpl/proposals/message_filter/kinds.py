"""PR 7629, the filters: their interface, the two filters that read bytes, and the registry of all filters.

A client names a filter by its Java class in the text. Here the name is only a key of a registry: the broker never loads code by
a name that a client sends.
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
"""The names of the built-in filters. The text gives the first one in full; the others are in the same package."""

REGEX_KEY = "regex_filter_pattern_key"
PREFIX_KEY = "bytes_prefix_filter_prefix"
PREFIX_BASE64_KEY = "bytes_prefix_filter_prefix_base64"
"""Keys of filter_properties. The text names only the first."""

REGEX_MAX_LENGTH = 1000
"""Maximum length of a regular expression, in characters."""

ENTRY_POINT_GROUP = "pulsar_conformance.message_filters"
"""The entry point group for filters of other distributions; the name of an entry point is the name of the filter class."""


class InvalidFilter(Exception):
    """The properties of a filter are invalid.

    Args:
        reason: The reason, for the author of the properties.
        key: The key of the invalid property; None: no single property is wrong.
    """

    def __init__(self, reason: str, key: str | None = None) -> None:
        super().__init__(reason if key is None else f"{key!r}: {reason}")
        self.reason = reason
        self.key = key


class Undecidable(Exception):
    """A filter can't judge a message. The broker delivers and counts it, so that no message is lost."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message to judge.

    Attributes:
        payload: The payload, decompressed.
        metadata: The header of the entry.
        single: The message's own header in a batch; None: it is not in a batch.
    """

    payload: bytes
    metadata: MessageMetadata
    single: SingleMessageMetadata | None = None


@dataclass(frozen=True, slots=True)
class SchemaAccess:
    """The schemas of a topic, as a filter needs them.

    Attributes:
        current: The schema in SUBSCRIBE, or else the newest schema of the topic; None: neither exists.
        of_version: Returns a schema by the version in a message's metadata; None: the topic has no such version.
    """

    current: Schema | None = None
    of_version: Callable[[bytes], Schema | None] = field(default=lambda _: None)


@runtime_checkable
class MessageFilter(Protocol):
    """Judges messages for one consumer or subscription. It must always give the same answer for the same message."""

    def matches(self, message: Candidate) -> bool:
        """Return whether a message matches.

        Raises:
            Undecidable: The filter can't judge it. Any other exception has the same effect.
        """


FilterFactory = Callable[[Mapping[str, str], SchemaAccess], MessageFilter]
"""Builds a filter from properties and schemas, or raises `InvalidFilter`. A class with such a constructor is a factory."""


class EntryPoint(Protocol):
    """The part of `importlib.metadata.EntryPoint` that the registry uses."""

    @property
    def name(self) -> str:
        """The name of the filter class."""

    def load(self) -> Any:
        """Import and return the factory."""


class RegexFilter:
    """Matches messages whose whole payload matches a regular expression.

    The payload is decoded as UTF-8 if it is valid, or else as Latin-1: pr7629.regex.text, .octets.

    Args:
        properties: `regex_filter_pattern_key`: RE2 syntax; `.` does not match a newline.
        schemas: Not used.

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
        """Return whether the whole payload matches: pr7629.regex.whole-payload, .newline, .linear."""
        text = message.payload if _is_utf8(message.payload) else message.payload.decode("latin-1").encode()
        return self._compiled.fullmatch(text) is not None


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
    """Matches messages whose payload starts with a prefix; a shorter payload does not match: pr7629.prefix.match, .shorter.

    Args:
        properties: Either `bytes_prefix_filter_prefix`, a text that means its UTF-8 bytes (pr7629.prefix.text-key), or
            `bytes_prefix_filter_prefix_base64` (pr7629.prefix.base64-key). The prefix may be empty: pr7629.prefix.empty.
        schemas: Not used.

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
        """Return whether the payload starts with the prefix."""
        return message.payload.startswith(self.prefix)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:  # pr7629.prefix.invalid
        raise InvalidFilter(f"the value is not Base64: {error}", PREFIX_BASE64_KEY) from None


def only_keys(properties: Mapping[str, str], *known: str) -> None:
    """Refuse unknown keys: pr7629.properties.unknown-key.

    Raises:
        InvalidFilter: There is an unknown key; the error names the first.
    """
    for key in properties:
        if key not in known:
            raise InvalidFilter(f"this key is unknown; known: {', '.join(known)}", key)


class FilterRegistry:
    """The available filters, by class name: pr7629.class.extensible.

    Args:
        factories: The factories, by name.
        entry_points: More factories, such as those in `importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)`. They are loaded
            once, now. An entry point whose name is taken is ignored.

    Attributes:
        problems: The entry points that failed to load: the reason, by name.
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
        except Exception as error:  # third-party code: one failure must not affect the others
            self.problems[name] = f"it can't be loaded: {type(error).__name__}: {error}"
            return
        if not callable(factory):
            self.problems[name] = f"its entry point is no class or function but {type(factory).__name__}"
            return
        self._factories[name] = factory

    @property
    def names(self) -> frozenset[str]:
        """The names of the available filters."""
        return frozenset(self._factories)

    def build(self, name: str, properties: Mapping[str, str], schemas: SchemaAccess) -> MessageFilter:
        """Build a filter.

        Raises:
            InvalidFilter: No filter has this name (pr7629.class.unknown), or the properties are invalid.
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
