"""Variables, text with variables in it, and expressions."""

import pytest

from conformance.engine.values import NOW, Later, ValueProblem, resolve, resolve_known, variables_of
from refimpl.wire import pulsar_api_pb2 as pb

ENV = {"ns": "public/x", "n": 3, "all": ["b", "a"], "@seed": 5}


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("$n", 3),
        ("a$n", "a$n"),
        ("${ns}/t-${n}", "public/x/t-3"),
        ("^..$", "^..$"),
        (r"\d+$", r"\d+$"),
        ({"a": ["$n", {"b": "$ns"}]}, {"a": [3, {"b": "public/x"}]}),
        ({"$bind": "n"}, {"$bind": "n"}),
        ({"$union": ["$all", ["c", "a"]]}, ["b", "a", "c"]),
        ({"$union": [[{"id": 1}], [{"id": 2}, {"id": 1}]]}, [{"id": 1}, {"id": 2}]),
        ({"$minus": ["$all", ["a"]]}, ["b"]),
        ({"$take": ["$all", 1]}, ["b"]),
        ({"$count": "$all"}, 2),
        ({"$add": ["$n", 1]}, 4),
        ({"$range": [0, "$n"]}, [0, 1, 2]),
        ({"$repeat": ["ab", 2]}, "abab"),
        ({"$upper": "ab"}, "AB"),
        ({"$map": {"over": {"$range": [0, 2]}, "to": "${ns}/${item}"}}, ["public/x/0", "public/x/1"]),
        ({"$map": {"over": "$all", "as": "t", "to": {"k": "$t"}}}, [{"k": "b"}, {"k": "a"}]),
        ({"$topics_hash": []}, "00000000"),
        ({"$topics_hash": ["persistent://my-property/my-ns/pattern-topic-1"]}, "0d0602ed"),
        ({"$topics_hash": ["persistent://tenant/ns/topic2", "persistent://tenant/ns/topic1"]}, "21ed405c"),
        ({"$topics_hash": ["persistent://t/n/\U00010000", "persistent://t/n/\uff5e"]}, "18ec43c1"),
    ],
)
def test_resolve(value, result):
    assert resolve(value, ENV) == result


SEGMENTS = [pb.SegmentInfoProto(segment_id=12, hash_start=0x7000, hash_end=0xFFFF), pb.SegmentInfoProto(segment_id=9, hash_end=0x6FFF)]


def test_segments_are_named_in_the_order_of_their_hashes():
    names = [resolve({"$segment_name": ["topic://t/n/x/y", "$segments", place]}, {"segments": SEGMENTS}) for place in (0, 1)]
    assert names == ["segment://t/n/x/y/0000-6fff-9", "segment://t/n/x/y/7000-ffff-12"]
    assert resolve({"$values": ["$segments", "segment_id"]}, {"segments": SEGMENTS}) == [12, 9]
    with pytest.raises(ValueProblem, match=r"\$segment_name"):
        resolve({"$segment_name": ["topic://t/n/x", ["no segment"], 0]}, {})


def test_what_is_not_known_yet_is_known_later():
    known = resolve_known({"name": "${ns}/${number}", "all": ["$n", "$number"], "$bind": "n"}, ENV)
    assert known == Later({"name": "public/x/${number}", "all": [3, "$number"], "$bind": "n"})
    assert resolve("$known", {"known": known, "number": 7}) == {"name": "public/x/7", "all": [3, 7], "$bind": "n"}
    assert resolve_known("$n", ENV) == 3
    assert resolve_known(["$known", "a ${inner}"], {"known": Later("$number"), "inner": Later("b ${number}")}) == Later(
        ["$number", "a b ${number}"]
    )
    each = resolve_known({"$map": {"over": "$numbers", "to": "${ns}/${item}"}}, ENV)
    assert resolve("$each", {**ENV, "each": each, "numbers": [1, 2]}) == ["public/x/1", "public/x/2"]
    with pytest.raises(ValueProblem, match=r"\$number is not set"):
        resolve("$known", {"known": known})


def test_random_is_the_same_for_the_same_seed():
    spec = {"$random": [0.0, 1.0]}
    assert resolve(spec, {"@seed": 1}) == resolve(spec, {"@seed": 1}) != resolve(spec, {"@seed": 2})
    assert resolve({"$random": [3, 9]}, {"@seed": 1}) in range(3, 10)


def test_now_is_known_only_while_an_action_is_performed():
    assert resolve({"$now": 1.5}, {NOW: 1000.25}) == 1_001_750
    with pytest.raises(ValueProblem, match="the time of an action"):
        resolve({"$now": 0}, ENV)


def test_variable_that_is_not_set_names_those_that_are():
    with pytest.raises(ValueProblem, match=r"\$no is not set here \(set: all, n, ns\)"):
        resolve("$no", ENV)


def test_a_name_is_not_put_together():
    with pytest.raises(ValueProblem, match="a name can't be put together"):
        resolve("$t_${k}", {"k": 1, "t_1": "x"})


@pytest.mark.parametrize("spec", [{"$count": 3}, {"$take": [1]}, {"$map": {"over": []}}, {"$add": [1, "a"]}])
def test_expression_that_can_not_be_computed(spec):
    with pytest.raises(ValueProblem, match=r"\$"):
        resolve(spec, ENV)


def test_variables_of_leaves_out_what_map_introduces():
    value = {"a": "$x", "b": "${y}/z", "c": {"$map": {"over": "$w", "as": "i", "to": "$i $v ${u}"}}, "d": {"$bind": "no"}}
    assert variables_of(value) == {"x", "y", "w", "u"}
