import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refimpl.proposals.message_filter import (
    BUILT_IN,
    BUILT_IN_REGISTRY,
    BYTES_PREFIX_FILTER,
    PREFIX_BASE64_KEY,
    PREFIX_KEY,
    REGEX_FILTER,
    REGEX_KEY,
    Candidate,
    FilterRegistry,
    InvalidFilter,
    SchemaAccess,
)
from refimpl.wire.pulsar_api_pb2 import MessageMetadata
from tests.samples.message_filter import EXAMPLE, prefix, regex


def wants(message_filter, payload):
    return message_filter.matches(Candidate(payload, MessageMetadata()))


def refused(name, properties, key):
    with pytest.raises(InvalidFilter) as caught:
        BUILT_IN_REGISTRY.build(name, properties, SchemaAccess())
    assert caught.value.key == key
    assert key is None or repr(key) in str(caught.value)
    return caught.value.reason


def test_regex_of_the_example_fits_the_whole_payload():
    fits = [payload for payload in (*map(str, range(101)), "130", "x30", "30x", "30\n", "") if wants(regex(EXAMPLE), payload.encode())]
    assert fits == [str(number) for number in range(30, 60)]


@pytest.mark.parametrize(
    ("pattern", "payload", "expected"),
    [
        ("", b"", True),
        ("", b"a", False),
        (".*", b"a\nb", False),
        ("(?s).*", b"a\nb", True),
        ("a|ab", b"ab", True),
        ("^a$", b"a", True),
        ("(?m)^a$", b"a\na", False),
        (".", "é".encode(), True),
        ("é", "é".encode(), True),
        ("..", "é".encode(), False),
        ("\U0001f600", "\U0001f600".encode(), True),
        (".", b"\xff", True),  # not UTF-8: bytes
        ("ÿ", b"\xff", True),
        (r"\xff", b"\xff", True),
        ("é.", b"\xe9\xff", True),
        ("ÿþ.*", b"\xff\xfe\xc3\xa9", True),
        ("..", b"\xc3\xa9", False),
        ("...", b"\xc3\xa9\xff", True),
        (".", b"\xed\xa0\x80", False),  # a surrogate is not UTF-8: three bytes
        (r"a\x00b", b"a\0b", True),
    ],
)
def test_regex_reads_utf8_and_else_bytes(pattern, payload, expected):
    assert wants(regex(pattern), payload) is expected


@given(st.binary(max_size=20))
def test_regex_sees_as_many_characters_as_there_are(payload):
    try:
        length = len(payload.decode())
    except UnicodeDecodeError:
        length = len(payload)
    assert wants(regex(f"(?s).{{{length}}}"), payload)


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_quoted_regex_fits_its_text_only(text, other):
    literal = "".join(rf"\x{{{ord(character):x}}}" for character in text)
    assert wants(regex(literal), text.encode())
    assert wants(regex(literal), other.encode()) is (text == other)


@pytest.mark.parametrize("pattern", ["(", "[3-5", "a(?=b)", r"(a)\1", "a{2000}", "(?P<x>", "((a{100}){100}){100}"])
def test_regex_that_re2_does_not_take(pattern):
    assert "RE2" in refused(REGEX_FILTER, {REGEX_KEY: pattern}, REGEX_KEY)


@pytest.mark.parametrize(
    ("name", "properties", "key"),
    [
        (REGEX_FILTER, {}, REGEX_KEY),
        (REGEX_FILTER, {"pattern": "a"}, "pattern"),
        (REGEX_FILTER, {REGEX_KEY: "a", "": "b"}, ""),
        (REGEX_FILTER, {REGEX_KEY.upper(): "a"}, REGEX_KEY.upper()),
        (BYTES_PREFIX_FILTER, {}, PREFIX_KEY),
        (BYTES_PREFIX_FILTER, {"prefix": "a"}, "prefix"),
        (BYTES_PREFIX_FILTER, {PREFIX_KEY: "a", REGEX_KEY: "a"}, REGEX_KEY),
        (BYTES_PREFIX_FILTER, {PREFIX_KEY: "a", PREFIX_BASE64_KEY: "YQ=="}, PREFIX_BASE64_KEY),
        (BYTES_PREFIX_FILTER, {PREFIX_BASE64_KEY: "YQ"}, PREFIX_BASE64_KEY),
        (BYTES_PREFIX_FILTER, {PREFIX_BASE64_KEY: "Y Q=="}, PREFIX_BASE64_KEY),
        (BYTES_PREFIX_FILTER, {PREFIX_BASE64_KEY: "é"}, PREFIX_BASE64_KEY),
        ("java.lang.String", {}, None),
        ("RegexFilter", {REGEX_KEY: "a"}, None),
        ("", {}, None),
        ("os.system", {"command": "true"}, None),
    ],
)
def test_properties_that_do_not_fit(name, properties, key):
    refused(name, properties, key)


@given(st.binary(max_size=6), st.binary(max_size=8))
def test_prefix(expected, payload):
    encoded = prefix(**{PREFIX_BASE64_KEY: base64.b64encode(expected).decode()})
    assert wants(encoded, payload) is (payload[: len(expected)] == expected)
    assert wants(encoded, expected + payload)


@given(st.text(max_size=6), st.binary(max_size=8))
def test_prefix_as_text_stands_for_its_utf8(text, payload):
    assert wants(prefix(**{PREFIX_KEY: text}), payload) is payload.startswith(text.encode())


class EntryPoint:
    def __init__(self, name, found):
        self.name = name
        self.found = found
        self.loads = 0

    def load(self):
        self.loads += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class KeyFilter:
    def __init__(self, properties, schemas):
        if "key" not in properties:
            raise InvalidFilter("this key is missing", "key")
        self.key = properties["key"]

    def matches(self, message):
        return message.metadata.partition_key == self.key


def test_entry_points_add_filters_and_are_loaded_once():
    ours = EntryPoint("org.example.KeyFilter", KeyFilter)
    registry = FilterRegistry(BUILT_IN, [ours])
    assert registry.names == BUILT_IN_REGISTRY.names | {"org.example.KeyFilter"}
    built = [registry.build("org.example.KeyFilter", {"key": key}, SchemaAccess()) for key in ("a", "b")]
    assert [one.matches(Candidate(b"", MessageMetadata(partition_key="b"))) for one in built] == [False, True]
    assert ours.loads == 1
    with pytest.raises(InvalidFilter) as caught:
        registry.build("org.example.KeyFilter", {}, SchemaAccess())
    assert caught.value.key == "key"


def test_entry_points_that_fail_harm_nobody_else():
    def broken(properties, schemas):
        raise RuntimeError("no")

    points = [
        EntryPoint("x.Missing", ImportError("no module")),
        EntryPoint("x.Text", "not callable"),
        EntryPoint(REGEX_FILTER, KeyFilter),
        EntryPoint("x.Broken", broken),
        EntryPoint("x.NoFilter", lambda properties, schemas: 5),
        EntryPoint("x.Key", KeyFilter),
        EntryPoint("x.Key", broken),
    ]
    registry = FilterRegistry(BUILT_IN, points)
    assert set(registry.problems) == {"x.Missing", "x.Text", REGEX_FILTER, "x.Key"}
    assert points[2].loads == points[6].loads == 0
    for name, reason in (("x.Missing", "no module"), ("x.Text", "str"), ("x.Broken", "RuntimeError"), ("x.NoFilter", "int")):
        with pytest.raises(InvalidFilter, match=reason):
            registry.build(name, {}, SchemaAccess())
    assert wants(registry.build(REGEX_FILTER, {REGEX_KEY: "a"}, SchemaAccess()), b"a")
    assert registry.build("x.Key", {"key": "a"}, SchemaAccess())
