"""The vocabulary of matchers: each row has a pattern, what fits, what does not, and the exact diagnosis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.engine.frames import build_command, build_payload
from conformance.engine.matchers import Absent, bytes_of, match, match_message
from refimpl.wire import parse_payload
from refimpl.wire import pulsar_api_pb2 as pb

ABSENT = Absent()

TWO_SEGMENTS = "2 active segments with different numbers, whose ranges have each hash from 0 to 65535 once"


def segment(number, start, end, state=pb.ACTIVE):
    return pb.SegmentInfoProto(segment_id=number, hash_start=start, hash_end=end, state=state)


TABLE = [
    (7, [7], [(8, "f: expected 7, got 8"), (True, "f: expected 7, got true"), ("7", 'f: expected 7, got "7"')]),
    (1, [1], [(True, "f: expected 1, got true")]),
    (True, [True], [(1, "f: expected true, got 1"), (ABSENT, "f: expected true, got nothing (the field is absent)")]),
    ("a", ["a", b"a"], [("b", 'f: expected "a", got "b"')]),
    (False, [False, Absent(False)], [(Absent(True), "f: expected false, got nothing (the field is absent)")]),
    (0, [Absent(0)], [(ABSENT, "f: expected 0, got nothing (the field is absent)")]),
    (
        [1, 2],
        [[1, 2]],
        [
            ([2, 1], "f[0]: expected 1, got 2; f[1]: expected 2, got 1"),
            ([1], "f: expected 2 items [1, 2], got 1 items [1]"),
            (3, "f: expected [1, 2], got 3"),
        ],
    ),
    (
        {"$after": pb.MessageIdData(ledgerId=5, entryId=7)},
        [pb.MessageIdData(ledgerId=5, entryId=8), pb.MessageIdData(ledgerId=6, entryId=0)],
        [
            (pb.MessageIdData(ledgerId=5, entryId=7), "f: expected a message id after ledgerId: 5 entryId: 7, got ledgerId: 5 entryId: 7"),
            (1, "f: expected a message id after ledgerId: 5 entryId: 7, got 1"),
        ],
    ),
    ({"$any": True}, [1, "x", [], b""], [(ABSENT, "f: expected anything, got nothing (the field is absent)")]),
    ({"$absent": True}, [ABSENT, []], [(1, "f: expected nothing (the field is absent), got 1")]),
    ({"$absent": False}, [1], [(ABSENT, "f: expected a value, got nothing (the field is absent)")]),
    ({"$present": True}, [0], [(Absent(0), "f: expected a value, got nothing (the field is absent)")]),
    ({"$in": [1, 2]}, [1, 2], [(3, "f: expected one of [1, 2], got 3")]),
    ({"$not": 1}, [2, ABSENT], [(1, "f: expected anything but 1, got 1")]),
    ({"$re": "a.c"}, ["abc"], [("abcd", 'f: expected text that fits /a.c/, got "abcd"'), (1, "f: expected text that fits /a.c/, got 1")]),
    ({"$len": 2}, ["ab", [1, 2], b"ab"], [([1], "length of f: expected 2, got 1: [1]"), (5, "f: expected a length of 2, got 5")]),
    (
        {"$gt": 1},
        [2],
        [(1, "f: expected a number above 1, got 1"), (ABSENT, "f: expected a number above 1, got nothing (the field is absent)")],
    ),
    ({"$gte": 1, "$lt": 4}, [1, 3], [(4, "f: expected a number below 4, got 4"), (0, "f: expected a number of at least 1, got 0")]),
    ({"$lt": 1}, [0], [(1, "f: expected a number below 1, got 1"), (True, "f: expected a number below 1, got true")]),
    (
        {"$bag": ["a", "b"]},
        [["b", "a"]],
        [(["a"], 'f: expected also ["b"], got 1 items without it'), (["a", "b", "b"], 'f: expected nothing else, got also ["b"]')],
    ),
    ({"$bag": [1]}, [[1]], [([True], "f: expected also [1], got 1 items without it; f: expected nothing else, got also [true]")]),
    ({"$bag": ["a", "a"]}, [["a", "a"]], [(["a"], 'f: expected also ["a"], got 1 items without it')]),
    (
        {"$bag": [{"$gt": 1}, {"$gt": 5}]},
        [[9, 2], [2, 9]],
        [([2, 3], "f: expected also [{$gt: 5}], got 2 items without it; f: expected nothing else, got also [3]")],
    ),
    ({"$contains": ["a"]}, [["b", "a"]], [(["b"], 'f: expected to contain ["a"], got ["b"]')]),
    ({"$each": {"$gt": 1}}, [[2, 3], []], [([2, 1], "f[1]: expected a number above 1, got 1")]),
    (
        {"$segments": 2},
        [
            [segment(7, 5, 65535), segment(9, 0, 4)],
            {
                "7": {"hashRange": {"start": 0, "end": 4}, "state": "ACTIVE"},
                "8": {"hashRange": {"start": 5, "end": 65535}, "state": "ACTIVE"},
            },
        ],
        [
            ([], f"f: expected {TWO_SEGMENTS}, got []"),
            (ABSENT, f"f: expected {TWO_SEGMENTS}, got nothing (the field is absent)"),
            ({"a": {"hashRange": {}}}, f"f: expected {TWO_SEGMENTS}, got {{a: {{hashRange: {{}}}}}}"),
        ],
    ),
    ({"hex": "00ff"}, [b"\x00\xff"], [(b"", "f: expected bytes 00ff (2), got bytes  (0)")]),
    ({"text": "ab", "repeat": 2}, [b"abab"], [(b"ab", "f: expected bytes 61626162 (4), got bytes 6162 (2)")]),
    ({"$bind": "x"}, [1], [(ABSENT, "f: expected a value to remember as $x, got nothing (the field is absent)")]),
    ({"a": 1}, [{"a": 1, "b": 2}], [({"b": 2}, "f.a: expected 1, got nothing (the field is absent)")]),
]


@pytest.mark.parametrize(("pattern", "fitting", "failing"), TABLE, ids=[str(row[0]) for row in TABLE])
def test_matcher(pattern, fitting, failing):
    for value in fitting:
        assert match(pattern, value, "f").differences == ()
    for value, diagnosis in failing:
        assert "; ".join(map(str, match(pattern, value, "f").differences)) == diagnosis


@pytest.mark.parametrize(
    "segments",
    [
        [segment(0, 0, 65535)],
        [segment(0, 0, 4), segment(0, 5, 65535)],
        [segment(0, 0, 4), segment(1, 6, 65535)],
        [segment(0, 0, 5), segment(1, 5, 65535)],
        [segment(0, 1, 4), segment(1, 5, 65535)],
        [segment(0, 0, 4), segment(1, 5, 65534)],
        [segment(0, 0, 65535), segment(1, 65536, 65535)],
        [segment(0, 0, 4), segment(1, 5, 65535, pb.SEALED)],
    ],
    ids=["one", "one number twice", "a gap", "an overlap", "no first hash", "no last hash", "no hash", "sealed"],
)
def test_segments_that_are_not_a_layout(segments):
    assert not match({"$segments": 2}, segments)


def test_bindings_are_kept_beside_other_matchers():
    found = match({"$bind": "x", "$gt": 3}, 5)
    assert found
    assert found.bindings == (("x", 5),)


def test_message_ignores_what_is_not_named():
    update = pb.CommandWatchTopicUpdate(watcher_id=7, new_topics=["a"], topics_hash="00000000")
    assert match_message({"watcher_id": 7}, update)
    assert not match_message({"watcher_id": 7, "$only": True}, update)
    assert match_message({"watcher_id": 7, "new_topics": ["a"], "topics_hash": "00000000", "$only": True}, update)


def test_absent_field_fits_its_declared_default_only():
    answer = pb.CommandGetTopicsOfNamespaceResponse(request_id=1)
    assert match_message({"filtered": False, "changed": True}, answer)
    assert not match_message({"filtered": {"$present": True}}, answer)
    assert not match_message({"changed": False}, answer)
    assert not match_message({"topics_hash": ""}, answer)
    assert match_message({"topics": []}, answer)


def test_enums_are_compared_by_name():
    error = pb.CommandError(request_id=1, error=pb.NotAllowedError, message="")
    assert match_message({"error": "NotAllowedError"}, error)
    assert [str(d) for d in match_message({"error": "MetadataError"}, error).differences] == [
        'error: expected "MetadataError", got "NotAllowedError"'
    ]


def test_field_that_the_schema_does_not_have():
    found = match_message({"nope": 1}, pb.CommandPing())
    assert [str(d) for d in found.differences] == ["nope: expected a field of this name, got none in CommandPing"]


@pytest.mark.parametrize("spec", [{}, {"hex": "0", "text": "a"}, {"hex": "zz"}, {"text": "a", "more": 1}])
def test_bytes_that_are_not_well_written(spec):
    with pytest.raises(ValueError, match=r"bytes|hexadecimal"):
        bytes_of(spec)


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_bag_is_equality_of_sorted_lists(expected, actual):
    assert bool(match({"$bag": expected}, actual)) == (sorted(expected) == sorted(actual))


@given(st.lists(st.integers(0, 9), max_size=6), st.permutations(range(6)))
def test_bag_of_matchers_finds_a_pairing_if_there_is_one(values, order):
    shuffled = [values[i] for i in order if i < len(values)]
    assert match({"$bag": [{"$gte": value} for value in values]}, shuffled)


def test_bytes_that_were_bound_are_sent_as_they_came():
    version = match({"$bind": "version"}, b"\x00\xff").bindings[0][1]
    metadata = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, "schema_version": version}
    assert parse_payload(build_payload({"metadata": metadata, "body": version})).metadata.schema_version == b"\x00\xff"
    assert build_command({"getSchema": {"request_id": 1, "topic": "t", "schema_version": version}}).getSchema.schema_version == b"\x00\xff"
