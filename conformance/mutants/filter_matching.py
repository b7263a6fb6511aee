"""Brokers that find other messages than a message filter asks for."""

import base64
from collections.abc import Callable, Mapping

from fastavro.read import SchemaResolutionError

from conformance.mutants.model import Patches, mutant
from refimpl.proposals.message_filter import (
    PREFIX_BASE64_KEY,
    PREFIX_KEY,
    Candidate,
    MessageFilterBroker,
    RequestedFilter,
    SchemaAccess,
    Undecidable,
)
from refimpl.proposals.message_filter import kinds as message_filter_kinds
from refimpl.proposals.message_filter.avro import _UNREADABLE, BasicAvroFilter
from refimpl.proposals.message_filter.kinds import BytesPrefixFilter, RegexFilter
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe

_NO_SCHEMAS = SchemaAccess()
Fits = Callable[[Mapping[str, str], Mapping[str, object]], bool]


def _compare(patches: Patches, fits: Fits) -> None:
    """Let BasicAvroFilter compare the fields of a message otherwise."""

    def matches(one: BasicAvroFilter, message: Candidate) -> bool:
        version = message.metadata.schema_version
        reader = one._reader_of(version) if version else one._reader
        try:
            return fits(one._expected, reader.fields(message.payload))
        except _UNREADABLE:
            return False

    patches.replace(BasicAvroFilter, "matches", matches)


@mutant("pr7629.regex.whole-payload")
def lets_a_newline_follow(patches: Patches) -> None:
    """A newline at the end of the payload is not looked at."""
    matches = RegexFilter.matches

    def changed(one: RegexFilter, message: Candidate) -> bool:
        return matches(one, message) or matches(one, Candidate(message.payload.removesuffix(b"\n"), message.metadata))

    patches.replace(RegexFilter, "matches", changed)


@mutant("pr7629.regex.text")
def takes_every_octet_for_a_character(patches: Patches) -> None:
    """A payload in UTF-8, too, is matched octet by octet."""
    patches.replace(message_filter_kinds, "_is_utf8", lambda octets: octets.isascii())


@mutant("pr7629.regex.octets")
def matches_nothing_that_is_no_text(patches: Patches) -> None:
    """A payload that is not valid UTF-8 does not match."""
    is_utf8, matches = message_filter_kinds._is_utf8, RegexFilter.matches
    patches.replace(RegexFilter, "matches", lambda one, message: is_utf8(message.payload) and matches(one, message))


@mutant("pr7629.regex.newline")
def lets_a_dot_match_a_newline(patches: Patches) -> None:
    """A dot matches every character."""
    compile_pattern = message_filter_kinds._compiled
    patches.replace(message_filter_kinds, "_compiled", lambda pattern: compile_pattern(f"(?s){pattern}"))


@mutant("pr7629.prefix.match")
def finds_the_prefix_anywhere(patches: Patches) -> None:
    """A payload matches that holds the prefix anywhere."""
    patches.replace(BytesPrefixFilter, "matches", lambda one, message: one.prefix in message.payload)


@mutant("pr7629.prefix.shorter")
def compares_as_many_octets_as_there_are(patches: Patches) -> None:
    """A payload matches that is the beginning of the prefix."""
    matches = BytesPrefixFilter.matches
    patches.replace(BytesPrefixFilter, "matches", lambda one, message: matches(one, message) or one.prefix.startswith(message.payload))


@mutant("pr7629.prefix.text-key")
def writes_a_prefix_in_latin_1(patches: Patches) -> None:
    """A prefix that is given as text stands for its octets in Latin-1."""
    make = BytesPrefixFilter.__init__

    def changed(one: BytesPrefixFilter, properties: Mapping[str, str], schemas: SchemaAccess) -> None:
        make(one, properties, schemas)
        if PREFIX_KEY in properties:
            one.prefix = properties[PREFIX_KEY].encode("latin-1", "replace")

    patches.replace(BytesPrefixFilter, "__init__", changed)


@mutant("pr7629.prefix.base64-key")
def takes_base64_for_text(patches: Patches) -> None:
    """A prefix in Base64 is compared as it is written, not decoded."""
    make = BytesPrefixFilter.__init__

    def changed(one: BytesPrefixFilter, properties: Mapping[str, str], schemas: SchemaAccess) -> None:
        make(one, properties, schemas)
        if PREFIX_BASE64_KEY in properties:
            one.prefix = base64.b64encode(one.prefix)

    patches.replace(BytesPrefixFilter, "__init__", changed)


@mutant("pr7629.avro.all-fields-equal")
def is_content_with_one_of_the_fields(patches: Patches) -> None:
    """A message matches if any of the fields has its text."""

    def changed(expected: Mapping[str, str], found: Mapping[str, object]) -> bool:
        return any(found.get(name) == text for name, text in expected.items())

    _compare(patches, changed)


@mutant("pr7629.avro.missing-field")
def takes_a_missing_field_for_an_empty_one(patches: Patches) -> None:
    """A field that a message does not have counts as empty text."""

    def changed(expected: Mapping[str, str], found: Mapping[str, object]) -> bool:
        return all(found.get(name, "") == text for name, text in expected.items())

    _compare(patches, changed)


@mutant("pr7629.avro.other-type")
def writes_numbers_as_text(patches: Patches) -> None:
    """A value that is no text is compared as it would be written."""

    def changed(expected: Mapping[str, str], found: Mapping[str, object]) -> bool:
        return all(name in found and str(found[name]) == text for name, text in expected.items())

    _compare(patches, changed)


@mutant("pr7629.avro.undecodable")
def delivers_what_it_can_not_read(patches: Patches) -> None:
    """A payload that the schema can't read counts as undecidable and is delivered."""
    matches = BasicAvroFilter.matches

    def changed(one: BasicAvroFilter, message: Candidate) -> bool:
        try:
            one._reader.fields(message.payload)
        except SchemaResolutionError:
            return False  # it can be read, and the field is no text
        except _UNREADABLE:
            raise Undecidable("the payload can't be read") from None
        return matches(one, message)

    patches.replace(BasicAvroFilter, "matches", changed)


@mutant("pr7629.avro.subscribe-schema")
def prefers_the_schema_of_the_topic(patches: Patches) -> None:
    """The schema of SUBSCRIBE serves only where the topic has none."""
    requested = MessageFilterBroker.requested

    def changed(filters: MessageFilterBroker, request: CommandSubscribe, schemas: SchemaAccess = _NO_SCHEMAS) -> RequestedFilter | None:
        if schemas.current is not None and request.HasField("schema"):
            copy = CommandSubscribe()
            copy.CopyFrom(request)
            copy.schema.CopyFrom(schemas.current)
            request = copy
        return requested(filters, request, schemas)

    patches.replace(MessageFilterBroker, "requested", changed)


@mutant("pr7629.avro.writer-schema")
def reads_every_version_by_one_schema(patches: Patches) -> None:
    """Messages are read by one schema, whatever version they name."""
    patches.replace(BasicAvroFilter, "_reader_of", lambda one, version: one._reader)  # noqa: ARG005


@mutant("pr7629.avro.unknown-version")
def reads_an_unknown_version_by_the_schema_at_hand(patches: Patches) -> None:
    """A message that names a version which the topic does not have is read by the schema of those that name none."""
    reader_of = BasicAvroFilter._reader_of

    def changed(one: BasicAvroFilter, version: bytes) -> object:
        try:
            return reader_of(one, version)
        except Undecidable:
            return one._reader

    patches.replace(BasicAvroFilter, "_reader_of", changed)
