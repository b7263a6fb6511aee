"""Faults of PR 7629: the kinds of message filters, and how they read what a consumer asks for."""

import re

import re2

from conformance.mutants.model import in_place_of, mutant
from refimpl.proposals.message_filter import kinds
from refimpl.proposals.message_filter.avro import BasicAvroFilter
from refimpl.proposals.message_filter.broker import MessageFilterBroker
from refimpl.proposals.message_filter.kinds import (
    PREFIX_BASE64_KEY,
    PREFIX_KEY,
    REGEX_KEY,
    BytesPrefixFilter,
    FilterRegistry,
    InvalidFilter,
    RegexFilter,
    SchemaAccess,
    Undecidable,
    only_keys,
)
from refimpl.proposals.message_filter.rules import requested_filter
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, KeyValue, Schema

_NO_SCHEMAS = SchemaAccess()


@in_place_of(FilterRegistry.build, clause="pr7629.class.unknown")
def finds_filters_by_their_last_name(build, registry, name, properties, schemas):
    """A filter is also found by its name in other letter case or without its package."""
    known = {one.rpartition(".")[2].lower(): one for one in registry.names}
    return build(registry, known.get(name.rpartition(".")[2].lower(), name), properties, schemas)


@in_place_of(only_keys, clause="pr7629.properties.unknown-key")
def overlooks_keys_that_it_does_not_know(check, properties, *known):
    """A filter takes keys that it does not know."""


@in_place_of(BytesPrefixFilter.__init__, clause="pr7629.properties.missing-key")
def takes_a_missing_prefix_for_an_empty_one(make, one, properties, schemas):
    """BytesPrefixFilter without a key lets everything through."""
    make(one, properties or {PREFIX_KEY: ""}, schemas)


@in_place_of(requested_filter, clause="pr7629.properties.repeated-key")
def lets_the_last_of_repeated_keys_count(build, meta, registry, schemas):
    """Of a key that stands there twice the last one counts."""
    last = {pair.key: pair.value for pair in meta.filter_properties}
    copy = type(meta)(filter_class_name=meta.filter_class_name)
    copy.filter_properties.extend(KeyValue(key=key, value=value) for key, value in last.items())
    return build(copy, registry, schemas)


# What matches


@in_place_of(RegexFilter.matches, clause="pr7629.regex.whole-payload")
def searches_the_payload(matches, one, message):
    """A payload matches that begins with something the pattern fits."""
    return re2.match(one.pattern.encode(), message.payload) is not None


@in_place_of(RegexFilter.matches, clause="pr7629.regex.text")
def takes_every_byte_for_a_character(matches, one, message):
    """A payload in UTF-8, too, is matched byte by byte."""
    return re2.fullmatch(one.pattern, message.payload.decode("latin-1")) is not None


@in_place_of(RegexFilter.matches, clause="pr7629.regex.octets")
def matches_nothing_that_is_no_text(matches, one, message):
    """A payload that is not valid UTF-8 does not match."""
    return message.payload == message.payload.decode(errors="replace").encode() and matches(one, message)


@in_place_of(RegexFilter.__init__, clause="pr7629.regex.newline")
def lets_a_dot_match_a_newline(make, one, properties, schemas):
    """A dot matches every character."""
    make(one, {key: f"(?s){value}" if key == REGEX_KEY else value for key, value in properties.items()}, schemas)


@in_place_of(RegexFilter.__init__, clause="pr7629.regex.invalid")
def falls_back_to_a_literal_comparison(make, one, properties, schemas):
    """A pattern that can't be compiled is taken literally."""
    try:
        make(one, properties, schemas)
    except InvalidFilter:
        make(one, {key: re.escape(value) for key, value in properties.items()}, schemas)


@mutant("pr7629.regex.length-limit")
def measures_the_pattern_of_a_filter_in_bytes(patches):
    """A pattern of more than 1,000 bytes is refused."""
    make = RegexFilter.__init__

    def changed(one, properties, schemas):
        if len(properties.get(REGEX_KEY, "").encode()) > kinds.REGEX_MAX_LENGTH:
            raise InvalidFilter("the pattern is too long", REGEX_KEY)
        make(one, properties, schemas)

    patches.replace(RegexFilter, "__init__", changed)


@in_place_of(RegexFilter.__init__, clause="pr7629.regex.linear")
def refuses_nested_quantifiers(make, one, properties, schemas):
    """A pattern with a quantifier behind a group that ends in one, such as (a*)*, is refused as dangerous."""
    if re.search(r"[*+]\)[*+{]", properties.get(REGEX_KEY, "")):
        raise InvalidFilter("the pattern may take too long", REGEX_KEY)
    make(one, properties, schemas)


@in_place_of(BytesPrefixFilter.matches, clause="pr7629.prefix.match")
def finds_the_prefix_anywhere(matches, one, message):
    """A payload matches that holds the prefix anywhere."""
    return one.prefix in message.payload


@in_place_of(BytesPrefixFilter.matches, clause="pr7629.prefix.shorter")
def compares_as_many_bytes_as_there_are(matches, one, message):
    """A payload matches that is the beginning of the prefix."""
    return matches(one, message) or one.prefix.startswith(message.payload)


@in_place_of(BytesPrefixFilter.__init__, clause="pr7629.prefix.text-key")
def writes_a_prefix_in_latin_1(make, one, properties, schemas):
    """A prefix that is given as text stands for its bytes in Latin-1."""
    make(one, properties, schemas)
    if PREFIX_KEY in properties:
        one.prefix = properties[PREFIX_KEY].encode("latin-1", "replace")


@in_place_of(BytesPrefixFilter.__init__, clause="pr7629.prefix.one-key")
def lets_base64_win_over_text(make, one, properties, schemas):
    """Of both keys of a prefix, the one in Base64 counts."""
    overruled = {PREFIX_KEY} if PREFIX_BASE64_KEY in properties else set()
    make(one, {key: value for key, value in properties.items() if key not in overruled}, schemas)


@in_place_of(BytesPrefixFilter.__init__, clause="pr7629.prefix.invalid")
def forgives_what_is_no_base64(make, one, properties, schemas):
    """Of a prefix in Base64 those characters are left out that are none of it, and padding is added."""
    text = re.sub(r"[^A-Za-z0-9+/]", "", properties.get(PREFIX_BASE64_KEY, ""))
    padded = {PREFIX_BASE64_KEY: text + "=" * (-len(text) % 4)} if PREFIX_BASE64_KEY in properties else {}
    make(one, {**properties, **padded}, schemas)


def _fields(one, message):
    """Return the fields of a message as its schema has them; none if it can't be read."""
    version = message.metadata.schema_version
    try:
        return (one._reader_of(version) if version else one._reader).fields(message.payload)
    except (EOFError, LookupError, ValueError):
        return None


@in_place_of(BasicAvroFilter.matches, clause="pr7629.avro.all-fields-equal")
def is_content_with_one_of_the_fields(matches, one, message):
    """A message matches if any of the fields has its text."""
    found = _fields(one, message) or {}
    return any(found.get(name) == text for name, text in one._expected.items())


@in_place_of(BasicAvroFilter.matches, clause="pr7629.avro.missing-field")
def takes_a_missing_field_for_an_empty_one(matches, one, message):
    """A field that a message does not have counts as empty text."""
    found = _fields(one, message)
    return found is not None and all(found.get(name, "") == text for name, text in one._expected.items())


@in_place_of(BasicAvroFilter.matches, clause="pr7629.avro.other-type")
def writes_numbers_as_text(matches, one, message):
    """A value that is no text is compared as it would be written."""
    found = _fields(one, message) or {}
    return all(name in found and str(found[name]) == text for name, text in one._expected.items())


@in_place_of(BasicAvroFilter.matches, clause="pr7629.avro.undecodable")
def delivers_what_it_can_not_read(matches, one, message):
    """A payload that the schema can't read counts as undecidable and is delivered."""
    if _fields(one, message) is None:
        raise Undecidable("the payload can't be read")
    return matches(one, message)


@in_place_of(BasicAvroFilter._reader_of, clause="pr7629.avro.writer-schema")
def reads_every_version_by_one_schema(reader_of, one, version):
    """Messages are read by one schema, whatever version they name."""
    return one._reader


@mutant("pr7629.avro.writer-schema")
def keeps_readers_for_all_topics(patches):
    """What a version means is remembered, whichever topic it was of."""
    readers = {}

    def reading(reader_of):
        def changed(one, version):
            if version not in readers:
                readers[version] = reader_of(one, version)
            return readers[version]

        return changed

    patches.wrap(BasicAvroFilter, "_reader_of", reading)


@in_place_of(BasicAvroFilter._reader_of, clause="pr7629.avro.unknown-version")
def reads_an_unknown_version_by_the_schema_at_hand(reader_of, one, version):
    """A message that names a version which the topic does not have is read by the schema of those that name none."""
    try:
        return reader_of(one, version)
    except Undecidable:
        return one._reader


@in_place_of(BasicAvroFilter.__init__, clause="pr7629.avro.needs-field")
def takes_a_filter_that_asks_for_nothing(make, one, properties, schemas):
    """BasicAvroFilter without a field is served, and every message matches."""
    make(one, properties or {"any": ""}, schemas)
    one._expected = dict(properties)


@in_place_of(BasicAvroFilter.__init__, clause="pr7629.avro.avro-and-json")
def reads_json_by_a_schema_of_any_type(make, one, properties, schemas):
    """A schema that is neither Avro nor Json is served as Json."""
    if schemas.current is not None and schemas.current.type not in (Schema.Avro, Schema.Json):
        schemas = SchemaAccess(Schema(name="", schema_data=b"", type=Schema.Json), schemas.of_version)
    make(one, properties, schemas)


@in_place_of(BasicAvroFilter.__init__, clause="pr7629.avro.schema-refused")
def serves_a_schema_that_it_can_not_read(make, one, properties, schemas):
    """A filter with a schema that can't be read by is served as if it were Json."""
    try:
        make(one, properties, schemas)
    except InvalidFilter:
        if schemas.current is None or not properties:
            raise
        make(one, properties, SchemaAccess(Schema(name="", schema_data=b"", type=Schema.Json), schemas.of_version))


@in_place_of(MessageFilterBroker.requested, clause="pr7629.avro.needs-schema")
def overlooks_the_schema_of_the_topic(requested, filters, request, schemas=_NO_SCHEMAS):
    """BasicAvroFilter is refused where SUBSCRIBE brings no schema, also if the topic has one."""
    return requested(filters, request, SchemaAccess(None, schemas.of_version))


@in_place_of(MessageFilterBroker.requested, clause="pr7629.avro.subscribe-schema")
def prefers_the_schema_of_the_topic(requested, filters, request, schemas=_NO_SCHEMAS):
    """The schema of SUBSCRIBE serves only where the topic has none."""
    if schemas.current is not None and request.HasField("schema"):
        copy = CommandSubscribe()
        copy.CopyFrom(request)
        copy.schema.CopyFrom(schemas.current)
        request = copy
    return requested(filters, request, schemas)
