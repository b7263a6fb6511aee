"""Brokers that take message filters which they should refuse, refuse those which they should take, or refuse in the wrong way."""

import base64
import re
from collections.abc import Iterable, Mapping

from conformance.mutants.model import Patches, mutant
from refimpl.broker import Session, consuming
from refimpl.proposals import message_filter
from refimpl.proposals.message_filter import (
    BYTES_PREFIX_FILTER,
    PREFIX_BASE64_KEY,
    PREFIX_KEY,
    REGEX_KEY,
    FilterRegistry,
    InvalidFilter,
    MessageFilter,
    MessageFilterBroker,
    RequestedFilter,
    SchemaAccess,
)
from refimpl.proposals.message_filter import avro as message_filter_avro
from refimpl.proposals.message_filter import kinds as message_filter_kinds
from refimpl.proposals.message_filter import rules as message_filter_rules
from refimpl.proposals.message_filter.avro import BasicAvroFilter
from refimpl.proposals.message_filter.kinds import BytesPrefixFilter, RegexFilter
from refimpl.proposals.refused import ProtocolViolation, Refused
from refimpl.wire.frames import Frame
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, ConsumerBusy, FilterMeta, KeyValue, NotAllowedError, Schema

_NO_SCHEMAS = SchemaAccess()


@mutant("pr7629.subscribe.refused")
def ends_the_connection_for_a_bad_filter(patches: Patches) -> None:
    """A SUBSCRIBE whose filter can't be built gets no ERROR: the connection ends."""
    build = message_filter_rules.requested_filter

    def changed(meta: FilterMeta, registry: FilterRegistry, schemas: SchemaAccess) -> RequestedFilter:
        try:
            return build(meta, registry, schemas)
        except Refused as refused:
            raise ProtocolViolation(refused.message) from None

    patches.replace(message_filter, "requested_filter", changed)


@mutant("pr7629.subscribe.nothing-created")
def creates_the_topic_before_it_looks_at_the_filter(patches: Patches) -> None:
    """A SUBSCRIBE whose filter is refused leaves the topic behind that it would have created."""

    def changed(session: Session, request: CommandSubscribe, frame: Frame) -> None:
        if request.HasField("filter_meta"):
            session.broker.topic_to_use(session.broker.topic_name(request.topic), create=request.force_topic_creation)
        consuming.subscribe(session, request, frame)

    patches.request("subscribe", lambda _: changed)


@mutant("pr7629.scope.bad-before-busy")
def blames_another_consumer_for_a_bad_filter(patches: Patches) -> None:
    """A filter that can't be built gets ConsumerBusy where a consumer is connected."""

    def changed(session: Session, request: CommandSubscribe, frame: Frame) -> None:
        try:
            consuming.subscribe(session, request, frame)
        except Refused as refused:
            topic = session.broker.loaded(session.broker.topic_name(request.topic).full)
            found = topic.subscriptions.get(request.subscription) if topic is not None else None
            if refused.code == NotAllowedError and found is not None and found.consumers:
                raise Refused(ConsumerBusy, "Exclusive consumer is already connected") from None
            raise

    patches.request("subscribe", lambda _: changed)


@mutant("pr7629.class.built-in")
def refuses_a_prefix_beside_a_schema(patches: Patches) -> None:
    """BytesPrefixFilter, which needs no schema, is refused where SUBSCRIBE brings one."""
    requested = MessageFilterBroker.requested

    def changed(filters: MessageFilterBroker, request: CommandSubscribe, schemas: SchemaAccess = _NO_SCHEMAS) -> RequestedFilter | None:
        if request.HasField("schema") and request.filter_meta.filter_class_name == BYTES_PREFIX_FILTER:
            raise Refused(NotAllowedError, "BytesPrefixFilter takes no schema")
        return requested(filters, request, schemas)

    patches.replace(MessageFilterBroker, "requested", changed)


@mutant("pr7629.class.unknown")
def overlooks_the_letter_case_of_a_name(patches: Patches) -> None:
    """A filter is also found under its name in other letter case."""
    build = FilterRegistry.build

    def changed(registry: FilterRegistry, name: str, properties: Mapping[str, str], schemas: SchemaAccess) -> MessageFilter:
        return build(registry, {one.lower(): one for one in registry.names}.get(name.lower(), name), properties, schemas)

    patches.replace(FilterRegistry, "build", changed)


@mutant("pr7629.properties.missing-key")
def takes_a_missing_prefix_for_an_empty_one(patches: Patches) -> None:
    """BytesPrefixFilter without a key lets everything through."""
    make = BytesPrefixFilter.__init__

    def changed(one: BytesPrefixFilter, properties: Mapping[str, str], schemas: SchemaAccess) -> None:
        make(one, properties or {PREFIX_KEY: ""}, schemas)

    patches.replace(BytesPrefixFilter, "__init__", changed)


@mutant("pr7629.properties.unknown-key")
def overlooks_an_empty_key(patches: Patches) -> None:
    """RegexFilter takes an empty key beside the right one."""
    make = RegexFilter.__init__

    def changed(one: RegexFilter, properties: Mapping[str, str], schemas: SchemaAccess) -> None:
        make(one, {key: value for key, value in properties.items() if key}, schemas)

    patches.replace(RegexFilter, "__init__", changed)


@mutant("pr7629.properties.repeated-key")
def takes_a_key_twice_if_its_value_is_the_same(patches: Patches) -> None:
    """A key that stands there twice with the same value counts as one."""
    read = message_filter_rules._properties

    def changed(pairs: Iterable[KeyValue]) -> dict[str, str]:
        return read([KeyValue(key=key, value=value) for key, value in dict.fromkeys((pair.key, pair.value) for pair in pairs)])

    patches.replace(message_filter_rules, "_properties", changed)


@mutant("pr7629.properties.key-named")
def keeps_the_key_to_itself(patches: Patches) -> None:
    """The message of a refusal says what is wrong, and not with which key."""
    patches.replace(message_filter_rules, "_explained", lambda _: "a property is missing, unknown, repeated or has a bad value")


@mutant("pr7629.regex.invalid")
def falls_back_to_an_engine_that_backtracks(patches: Patches) -> None:
    """A pattern that RE2 can't compile is served by another engine, if that can."""
    compile_pattern = message_filter_kinds._compiled

    def changed(pattern: str) -> object:
        try:
            return compile_pattern(pattern)
        except InvalidFilter:
            try:
                return re.compile(pattern.encode())
            except re.error:
                pass
            raise

    patches.replace(message_filter_kinds, "_compiled", changed)


@mutant("pr7629.regex.length-limit")
def measures_the_pattern_of_a_filter_in_octets(patches: Patches) -> None:
    """A pattern of more than 1,000 octets is refused."""
    make = RegexFilter.__init__

    def changed(one: RegexFilter, properties: Mapping[str, str], schemas: SchemaAccess) -> None:
        if len(properties.get(REGEX_KEY, "").encode()) > 1000:
            raise InvalidFilter("the pattern is too long", REGEX_KEY)
        make(one, properties, schemas)

    patches.replace(RegexFilter, "__init__", changed)


@mutant("pr7629.regex.linear")
def refuses_nested_quantifiers(patches: Patches) -> None:
    """A pattern with a quantifier behind a group that ends in one, such as (a*)*, is refused as dangerous."""
    make = RegexFilter.__init__

    def changed(one: RegexFilter, properties: Mapping[str, str], schemas: SchemaAccess) -> None:
        if re.search(r"[*+]\)[*+{]", properties.get(REGEX_KEY, "")):
            raise InvalidFilter("the pattern may take too long", REGEX_KEY)
        make(one, properties, schemas)

    patches.replace(RegexFilter, "__init__", changed)


@mutant("pr7629.prefix.one-key")
def lets_base64_win_over_text(patches: Patches) -> None:
    """Of both keys of a prefix, the one in Base64 counts."""
    make = BytesPrefixFilter.__init__

    def changed(one: BytesPrefixFilter, properties: Mapping[str, str], schemas: SchemaAccess) -> None:
        overruled = {PREFIX_KEY} if PREFIX_BASE64_KEY in properties else set()
        make(one, {key: value for key, value in properties.items() if key not in overruled}, schemas)

    patches.replace(BytesPrefixFilter, "__init__", changed)


@mutant("pr7629.prefix.invalid")
def adds_padding_that_is_missing(patches: Patches) -> None:
    """Base64 without its padding is decoded."""
    decode = message_filter_kinds._bytes

    def changed(text: str) -> bytes:
        return base64.b64decode(f"{text}=") if re.fullmatch(r"[A-Za-z]{3}", text) else decode(text)

    patches.replace(message_filter_kinds, "_bytes", changed)


@mutant("pr7629.avro.needs-schema")
def overlooks_the_schema_of_the_topic(patches: Patches) -> None:
    """BasicAvroFilter is refused where SUBSCRIBE brings no schema, also if the topic has one."""
    requested = MessageFilterBroker.requested

    def changed(filters: MessageFilterBroker, request: CommandSubscribe, schemas: SchemaAccess = _NO_SCHEMAS) -> RequestedFilter | None:
        return requested(filters, request, SchemaAccess(None, schemas.of_version))

    patches.replace(MessageFilterBroker, "requested", changed)


@mutant("pr7629.avro.needs-field")
def takes_a_filter_that_asks_for_nothing(patches: Patches) -> None:
    """BasicAvroFilter without a field is served, and every message matches."""
    make = BasicAvroFilter.__init__

    def changed(one: BasicAvroFilter, properties: Mapping[str, str], schemas: SchemaAccess) -> None:
        make(one, properties or {"any": ""}, schemas)
        one._expected = dict(properties)

    patches.replace(BasicAvroFilter, "__init__", changed)


@mutant("pr7629.avro.avro-and-json")
def reads_json_by_a_schema_of_any_type(patches: Patches) -> None:
    """A schema that is neither Avro nor Json is served as Json."""
    read_by = message_filter_avro._reader

    def changed(schema: Schema, wanted: Mapping[str, str]) -> object:
        return read_by(schema, wanted) if schema.type == Schema.Avro else message_filter_avro._JsonReader()

    patches.replace(message_filter_avro, "_reader", changed)


@mutant("pr7629.avro.schema-refused")
def serves_a_schema_that_is_no_record(patches: Patches) -> None:
    """With an Avro schema that is no record a filter is served, and no message matches."""
    read_by = message_filter_avro._reader

    def changed(schema: Schema, wanted: Mapping[str, str]) -> object:
        try:
            return read_by(schema, wanted)
        except ValueError as error:
            if str(error) != "it is no record":
                raise
            return message_filter_avro._JsonReader()

    patches.replace(message_filter_avro, "_reader", changed)


@mutant("pr7629.avro.hostile-payload")
def loses_producers_to_a_recursive_schema(patches: Patches) -> None:
    """A consumer with a recursive schema ends the connections of the topic's producers."""

    def changed(session: Session, request: CommandSubscribe, frame: Frame) -> None:
        try:
            consuming.subscribe(session, request, frame)
        except Refused as refused:
            topic = session.broker.loaded(session.broker.topic_name(request.topic).full)
            if topic is not None and "recursive" in refused.message:
                for producer in list(topic.producers.values()):
                    producer.session.end("the topic ran out of stack")
            raise

    patches.request("subscribe", lambda _: changed)
