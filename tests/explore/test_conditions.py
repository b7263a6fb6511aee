"""The list of freedoms allows what it says, and nothing beside it."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from conformance.explore.conditions import entry_for, known_problem
from conformance.explore.difference import Difference
from conformance.explore.lines import Line
from conformance.explore.player import Step
from conformance.explore.said import Count, Told
from conformance.explore.world import Action, Scenario, World
from refimpl.wire import Frame, FrameDecoder, command, encode_frame, encode_payload
from refimpl.wire.pulsar_api_pb2 import MessageIdData, MessageMetadata

WORLD = World(1, ("t", "t/1"), ("{namespace}/t.*",))
TOPIC = "persistent://pc/n/t"


@dataclass
class Seen:
    """What a difference is made of."""

    kind: str = "flow"
    before: tuple[Action, ...] = ()
    missing: tuple[Line, ...] = ()
    extra: tuple[Line, ...] = ()
    told: Told = field(default_factory=lambda: Told({"a": "pc"}))
    other: Told = field(default_factory=lambda: Told({"a": "pc"}))

    def difference(self) -> Difference:
        actions = (*self.before, Action(self.kind, ()))
        steps = [Step(None), *(Step(action) for action in actions)]
        return Difference(Scenario(WORLD, actions), len(actions), self.missing, self.extra, steps, self.told, self.other)

    def finding(self, release: str | None = "5.0.0-M1") -> str | None:
        entry = entry_for(self.difference(), release)
        return None if entry is None else entry.finding or "a freedom"


def message(lane: str, *bodies: str, **more: Any) -> Line:
    fields = ", ".join(
        [f'"bodies": [{", ".join(f"{chr(34)}{one}{chr(34)}" for one in bodies)}]', *(f'"{key}": {value}' for key, value in more.items())]
    )
    return Line(lane, "message", f"{{{fields}}}")


def subscribed(told: Told, at: str, *, topic: str = TOPIC, kind: str = "Exclusive", priority: int = 0, count: Count | None = None) -> None:
    told.consumers[at, 1] = {"topic": topic, "subscription": "s", "subType": kind, "priority_level": priority}
    told.open_consumers.append((at, 1))
    told.counts[at, 1] = count or Count()


def delivered(body: str) -> Frame:
    message_id = MessageIdData(ledgerId=1, entryId=0)
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    return frame("message", encode_payload(metadata, body.encode()), consumer_id=1, message_id=message_id)


def frame(name: str, payload: bytes | None = None, **fields: Any) -> Frame:
    (read,) = FrameDecoder().receive(encode_frame(command(name, **fields), payload))
    return read


BATCH = (Action("publish_batch", ()),)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(Count(2, 6, 2), "batches-beyond-permits"), (Count(2, 6, 3), None), (Count(6, 6, 2), None)],
)
def test_too_many_messages_are_known_only_as_entries_within_the_permits(count: Count, expected: str | None) -> None:
    seen = Seen(before=BATCH, extra=(message("a", "x", "y", "z", consumer_id=1),))
    subscribed(seen.other, "a", count=count)
    assert seen.finding() == expected
    assert seen.finding(None) is None


def test_what_a_shared_consumer_gets_is_free_only_after_another_choice() -> None:
    lane = "subscription s of persistent://${a}/n/t"
    seen = Seen(kind="disconnect", missing=(message(lane, "x"),))
    seen.told.takers[lane] = {"x": [("a", 1)], "y": [("b", 1)]}
    seen.other.takers[lane] = {"x": [("a", 1), ("b", 1)]}
    assert seen.finding(None) is None
    seen.other.takers[lane]["y"] = [("a", 1)]
    assert seen.finding(None) == "a freedom"


def test_a_seek_may_leave_only_failover_consumers_open() -> None:
    seen = Seen(kind="seek", missing=(Line("a", "close_consumer", '{"consumer_id": 1}'),))
    subscribed(seen.other, "a", kind="Failover")
    assert (seen.finding(), seen.finding("3.0.7")) == ("seek-on-failover", None)
    seen.extra = (message("a", "m", consumer_id=1),)
    assert (seen.finding(), seen.finding("4.2.4")) == ("seek-on-failover", None)
    seen.extra = ()
    subscribed(seen.other, "a", kind="Shared")
    assert seen.finding() is None


@pytest.mark.parametrize(
    ("topic", "priority", "count", "expected"),
    [
        (f"non-{TOPIC}", 0, Count(1, 3, 1), "non-persistent-shared"),
        (f"non-{TOPIC}", 1, Count(), "non-persistent-shared"),
        (f"non-{TOPIC}", 0, Count(), None),
        (TOPIC, 0, Count(1, 3, 1), None),
    ],
)
def test_a_lost_message_needs_priorities_or_a_debt(topic: str, priority: int, count: Count, expected: str | None) -> None:
    seen = Seen(kind="publish")
    subscribed(seen.other, "a", topic=topic, kind="Shared", count=count)
    subscribed(seen.other, "b", topic=topic, kind="Shared", priority=priority)
    seen.missing = (message(seen.other.lane("a", 1), "x"),)
    assert seen.finding() == expected


def test_only_what_was_acknowledged_before_an_unload_may_come_again() -> None:
    seen = Seen(before=(Action("unload_topic", ()),), extra=(message("a", "x", consumer_id=1),))
    subscribed(seen.other, "a")
    assert seen.finding("4.2.4") is None
    seen.other.acknowledged.add((TOPIC, "s", "x"))
    seen.other.unloads("persistent://pc/n/u", 0)
    assert seen.finding("4.2.4") is None
    seen.other.unloads(TOPIC, 0)
    assert (seen.finding("4.2.4"), seen.finding("4.0.0")) == ("acknowledged-before-unload", None)


def test_what_of_a_batch_is_acknowledged_need_not_outlast_an_unload() -> None:
    seen = Seen(
        before=(Action("unload_topic", ()),),
        missing=(message("a", "x", ack_set=1, consumer_id=1),),
        extra=(message("a", "x", consumer_id=1),),
    )
    subscribed(seen.other, "a")
    seen.other.acknowledged.add((TOPIC, "s", "x"))
    assert seen.finding(None) is None
    seen.other.unloads(TOPIC, 0)
    assert seen.finding(None) == "a freedom"


def test_a_message_of_before_an_unload_may_be_missing_only_for_a_later_subscription_if_nobody_needs_it() -> None:
    def joined(at: str, name: str) -> None:
        told.consumers[at, 1] = {"topic": TOPIC, "subscription": name, "subType": "Exclusive", "initialPosition": "Earliest"}
        told.asks(at, {"subscribe": {**told.consumers[at, 1], "consumer_id": 1, "request_id": 1}})
        told.heard(at, frame("success", request_id=1))

    seen = Seen(kind="flow", missing=(message("a", "x3", consumer_id=1),))
    told = seen.other
    joined("b", "r")
    told.heard("b", delivered("x3"))
    told.unloads(TOPIC, 3)
    joined("a", "s")
    assert seen.finding(None) is None  # r needs it
    told.acknowledged.add((TOPIC, "r", "x3"))
    assert seen.finding(None) == "a freedom"
    seen.missing = (message("a", "x4", consumer_id=1),)
    assert seen.finding(None) is None  # it came later
    seen.missing = (message("b", "x3", consumer_id=1),)
    assert seen.finding(None) is None  # r was there before
    told.consumers["c", 1] = {"topic": TOPIC, "subscription": "shared", "subType": "Shared"}
    seen.missing = (message(told.subscription(TOPIC, "shared"), "x3"),)
    assert seen.finding(None) == "a freedom"
    told.acknowledged.clear()
    assert seen.finding(None) is None
    told.asks("b", {"seek": {"consumer_id": 1, "request_id": 2}})
    told.heard("b", frame("success", request_id=2))
    assert seen.finding(None) == "a freedom"  # r is elsewhere now


def test_a_message_may_be_missing_only_when_the_active_failover_consumer_has_left_right_after_a_delivery() -> None:
    seen = Seen(kind="disconnect", missing=(message("a", "x", consumer_id=1),))
    for at in "ab":
        subscribed(seen.other, at, kind="Failover")
    seen.other.gone("b")
    assert seen.finding() is None
    subscribed(seen.other, "b", kind="Failover")
    seen.other.open_producers = {("c", 1): TOPIC, ("c", 2): f"{TOPIC}-2"}
    seen.other.heard("b", delivered("x"))
    seen.other.gone("b")
    assert (seen.finding(), seen.finding(None)) == ("failover-takeover", None)
    seen.other.heard("c", frame("send_receipt", producer_id=2, sequence_id=0))
    assert seen.finding() == "failover-takeover"
    seen.other.heard("c", frame("send_receipt", producer_id=1, sequence_id=0))
    assert seen.finding() is None


def test_a_failover_consumer_that_leaves_later_hands_everything_over(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(kind="close_consumer", missing=(message("a", "x", consumer_id=1),))
    for at in "ab":
        subscribed(seen.other, at, kind="Failover")
    seen.other.heard("b", delivered("x"))
    monkeypatch.setattr("conformance.explore.said.RIGHT_AFTER", -1.0)
    seen.other.asks("b", {"close_consumer": {"consumer_id": 1, "request_id": 1}})
    assert seen.finding() is None


def test_a_snapshot_may_have_deleted_topics_only() -> None:
    def snapshot(*topics: str) -> Line:
        return Line("a", "watchScalableTopicsUpdate", json.dumps({"snapshot": {"topics": list(topics)}, "watch_id": 1}))

    seen = Seen(kind="watch_scalable_topics", missing=(snapshot(),), extra=(snapshot("topic://${a}/n/t%2F1"),))
    assert seen.finding() is None
    seen.before = (Action("delete_scalable_topic", (("topic", (0, 1, None)),)),)
    assert seen.finding() == "scalable-deletions"
    seen.before = (Action("delete_scalable_topic", (("topic", (0, 0, None)),)),)
    assert seen.finding() is None


def test_a_deletion_may_be_told_wrongly_and_nothing_else() -> None:
    def diff(**changes: list[str]) -> Line:
        return Line("a", "watchScalableTopicsUpdate", json.dumps({"diff": changes, "watch_id": 1}))

    def finding(missing: tuple[Line, ...], extra: tuple[Line, ...], kind: str = "delete_scalable_topic") -> str | None:
        difference = Seen(kind=kind, missing=missing, extra=extra).difference()
        action = Action(kind, (("topic", (0, 1, None)),))
        entry = entry_for(
            replace(difference, scenario=Scenario(WORLD, (action,)), steps=[Step(None), Step(action)]),
            "5.0.0-M1",
        )
        return None if entry is None else entry.finding

    right = diff(removed=["topic://${a}/n/t/1"])
    assert finding((right,), ()) == "scalable-deletions"
    assert finding((right,), (diff(added=["topic://${a}/n/t%2F1"]),)) == "scalable-deletions"
    assert finding((right,), (diff(added=["topic://${a}/n/t%252F1"]),)) == "scalable-deletions"
    assert finding((right,), (), "create_scalable_topic") is None
    assert finding((right,), (diff(removed=["topic://${a}/n/t"]),)) is None
    assert finding((right, Line("a", "closed", "")), ()) is None


@pytest.mark.parametrize(
    ("added", "again", "expected"),
    [("t%2F1", True, True), ("t%2F1", False, False), ("other", True, False)],
)
def test_commands_that_differ_may_each_be_known_for_another_reason(added: str, again: bool, expected: bool) -> None:
    def diff(name: str) -> Line:
        return Line("a", "watchScalableTopicsUpdate", f'{{"diff": {{"added": ["topic://${{a}}/n/{name}"]}}, "watch_id": 1}}')

    further = Line("b", "scalableTopicUpdate", '{"dag": {"epoch": 0}, "session_id": 1}')
    seen = Seen(kind="create_scalable_topic", missing=(diff("t/1"),), extra=(diff(added), further))
    for _ in range(2 if again else 1):
        seen.other.asks("b", {"scalableTopicLookup": {"session_id": 1, "topic": "topic://pc/n/t"}})
    entry = entry_for(seen.difference(), "5.0.0-M1")
    assert (entry is not None and entry.goes_on) == expected


def test_a_consumer_may_have_to_try_again_right_after_a_disconnect_only() -> None:
    refused = Line("a", "error", '{"error": "ServiceNotReady", "request_id": 8}')
    seen = Seen(kind="subscribe", missing=(Line("a", "success", '{"request_id": 8}'),), extra=(refused,))
    assert seen.finding() is None
    seen.before = (Action("disconnect", ()),)
    assert seen.finding() == "a freedom"
    seen.before = (Action("disconnect", ()), *[Action("flow", ())] * 3)
    assert seen.finding() is None


def test_an_encoded_name_may_leave_an_ordinary_topic_alone() -> None:
    def finding(name: int) -> str | None:
        topic = (("topic", (0, name, None)),)
        lines = {
            "missing": (Line("a", "error", '{"error": "TopicNotFound", "request_id": 1}'),),
            "extra": (Line("a", "success", '{"request_id": 1}'),),
        }
        seen = Seen(before=(Action("create_scalable_topic", topic),), **lines)
        difference = seen.difference()
        actions = (*seen.before, Action("subscribe", topic))
        steps = [Step(None), *(Step(action) for action in actions)]
        entry = entry_for(replace(difference, scenario=Scenario(WORLD, actions), steps=steps), "5.0.0-M1")
        return None if entry is None else entry.finding

    assert (finding(0), finding(1)) == (None, "encoded-names")


def test_an_encoded_name_may_hide_the_layout_of_its_topic_only() -> None:
    def finding(name: str) -> str | None:
        update = Line("a", "scalableTopicUpdate", '{"error": "TopicNotFound", "session_id": 1}')
        seen = Seen(kind="look_up_scalable_topic", extra=(update,))
        seen.other.asks("a", {"scalableTopicLookup": {"session_id": 1, "topic": f"topic://pc/n/{name}"}})
        return seen.finding()

    assert (finding("t-1"), finding("t%2F1"), finding("\u00fc")) == (None, "encoded-names", "encoded-names")


@pytest.mark.parametrize(
    ("refused", "again", "expected"),
    [(True, True, "scalable-repeated-id"), (False, True, "scalable-repeated-id"), (True, False, None), (False, False, None)],
)
def test_a_look_up_may_go_on_only_if_there_is_a_later_one_with_its_id(refused: bool, again: bool, expected: str | None) -> None:
    line = Line("a", "scalableTopicUpdate", '{"dag": {"epoch": 0}, "session_id": 1}')
    seen = Seen(kind="create_scalable_topic", extra=(line,))
    for told in (seen.told, seen.other):
        for _ in range(2 if again else 1):
            told.asks("a", {"scalableTopicLookup": {"session_id": 1, "topic": "topic://pc/n/t"}})
        more = {"error": "TopicNotFound", "message": "none"} if refused else {"dag": {"epoch": 0}}
        told.heard("a", frame("scalableTopicUpdate", session_id=1, **more))
    seen.told.asks("a", {"scalableTopicClose": {"session_id": 1}})  # the reference has played the whole scenario
    seen.other.heard("a", frame("scalableTopicUpdate", session_id=1, dag={"epoch": 0}))
    assert seen.finding() == expected


@pytest.mark.parametrize(
    ("partition", "deleted", "expected"),
    [(0, (0, 1, None), "deleted-partition-returns"), (None, (0, 1, None), None), (0, (0, 0, None), None), (0, None, None)],
)
def test_a_partition_may_be_there_again_only_after_its_topic_was_deleted(
    partition: int | None, deleted: tuple[int, int, None] | None, expected: str | None
) -> None:
    refused = Line("a", "error", '{"error": "NotAllowedError", "request_id": 1}')
    accepted = Line("a", "success", '{"request_id": 1}')
    before = () if deleted is None else (Action("delete_partitioned_topic", (("topic", deleted),)),)
    action = Action("subscribe", (("topic", (0, 1, partition)),))
    difference = Seen(before=before, missing=(refused,), extra=(accepted,)).difference()
    steps = [Step(None), *map(Step, (*before, action))]
    difference = replace(difference, scenario=Scenario(WORLD, (*before, action)), steps=steps, place=len(before) + 1)
    for release, known in (("4.2.4", expected), ("4.0.0", None)):
        entry = entry_for(difference, release)
        assert (None if entry is None else entry.finding) == known


def test_a_layout_that_comes_again_says_nothing() -> None:
    told = Told({"a": "pc"})
    told.asks("a", {"scalableTopicLookup": {"session_id": 1, "topic": "topic://pc/n/t"}})
    for _ in range(2):
        told.heard("a", frame("scalableTopicUpdate", session_id=1, dag={"epoch": 0}))
    told.heard("a", frame("scalableTopicUpdate", session_id=1, dag={"epoch": 1}))
    assert sum(told.lines.values()) == 2
    told.asks("a", {"scalableTopicClose": {"session_id": 1}})
    told.heard("a", frame("scalableTopicUpdate", session_id=1, dag={"epoch": 1}))
    assert sum(told.lines.values()) == 3


def test_names_may_be_encoded_and_nothing_else() -> None:
    def snapshot(*topics: str) -> Line:
        return Line(
            "a", "watchScalableTopicsUpdate", '{"snapshot": {"topics": [' + ", ".join(f'"{one}"' for one in topics) + ']}, "watch_id": 1}'
        )

    def finding(missing: Line, *extra: Line, used: int = 1) -> str | None:
        seen = Seen(kind="watch_scalable_topics", missing=(missing,), extra=extra)
        seen.other.watch_ids = Counter({("a", 1): used})
        return seen.finding()

    assert finding(snapshot("t-1", "t/1"), snapshot("t%2F1", "t-1")) == "encoded-names"
    assert finding(snapshot("t-1"), snapshot("t-2")) is None
    assert finding(snapshot("t/1"), snapshot("t%2F1"), snapshot("u")) is None
    assert finding(snapshot("t/1"), snapshot("t%2F1"), snapshot("u"), used=2) == "scalable-repeated-id"


def test_a_problem_of_concurrent_actors_is_known_on_its_releases_only() -> None:
    assert known_problem("it rains", "4.2.4") is None
