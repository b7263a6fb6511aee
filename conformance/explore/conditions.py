"""Whether a difference is in the list of freedoms. Conditions that a signature can't express look at what both sides have said."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from conformance.explore.difference import Difference
from conformance.explore.freedoms import FreeDifference, KnownProblem, load_freedoms
from conformance.explore.lines import Line, number_of


def allows(entry: FreeDifference, difference: Difference, release: str | None) -> bool:
    """Tell whether a difference is one of the list.

    Args:
        entry: The entry of the list.
        difference: The difference.
        release: The release of Apache Pulsar that it was met with; None: another broker.
    """
    if (entry.only and release not in entry.only) or (entry.after and difference.kinds.isdisjoint(entry.after)):
        return False
    if not fnmatch.fnmatchcase(difference.signature, entry.signature):
        return False
    return entry.when is None or all(_CONDITIONS[entry.when](difference, line) for line in (*difference.missing, *difference.extra))


def entry_for(difference: Difference, release: str | None) -> FreeDifference | None:
    """Return the entry of the list that allows a difference; None: there is none.

    If several commands differ, each may have an entry of its own. Then it is the first one after which the scenario can't go on.
    """
    for entry in load_freedoms().differences:
        if allows(entry, difference, release):
            return entry
    parts = difference.parts()
    found = [entry for entry in (entry_for(part, release) for part in parts) if entry is not None] if len(parts) > 1 else []
    if len(found) < len(parts) or any(entry.until_publish for entry in found):
        return None
    return next((entry for entry in found if not entry.goes_on), found[0])


def known_problem(problem: str, release: str | None) -> KnownProblem | None:
    """Return the entry of the list for something that does not hold after actions at the same time; None: there is none."""
    entries = load_freedoms().concurrent
    return next((one for one in entries if release in one.only and fnmatch.fnmatchcase(problem, one.signature)), None)


def _left_waiting(difference: Difference, line: Line) -> bool:
    """It is about a producer, after one has left that waited for a topic."""
    left = difference.told.left_waiting | difference.other.left_waiting
    return line.name in ("producer_success", "error") and bool(left)


def _other_consumers(difference: Difference, line: Line) -> bool:
    """Before this, a message of the shared subscription has gone to another consumer than on the reference."""
    here, there = (told.takers.get(line.lane, {}) for told in (difference.told, difference.other))
    return any(one != other for body in here.keys() & there.keys() for one, other in zip(here[body], there[body], strict=False))


def _beyond_permits(difference: Difference, line: Line) -> bool:
    """It is an entry to a consumer that has got more messages than permits, but not more entries."""
    told = difference.other
    return any(one.messages > one.permits >= one.entries for key, one in told.counts.items() if told.lane(*key) == line.lane)


def _shared_without_order(difference: Difference, line: Line) -> bool:
    """The shared subscription is of a non-persistent topic, and its consumers have several priorities, or one of them has a debt."""
    told = difference.other
    consumers = [key for key in told.open_consumers if told.lane(*key) == line.lane]
    priorities = {told.consumers[key].get("priority_level", 0) for key in consumers}
    in_debt = any(told.counts[key].messages > told.counts[key].permits for key in consumers)
    return " of non-persistent://" in line.lane and len(consumers) > 1 and (len(priorities) > 1 or in_debt)


def _failover(difference: Difference, line: Line) -> bool:
    """It is about a consumer of a failover subscription."""
    return difference.other.consumers.get((line.lane, line.value("consumer_id")), {}).get("subType") == "Failover"


def _acknowledged_before_unload(difference: Difference, line: Line) -> bool:
    """It is an entry that was acknowledged before its topic was unloaded."""
    if line.name != "message":
        return False
    return (_subscription(difference, line), ",".join(line.value("bodies"))) in difference.other.unsafe


def _subscription(difference: Difference, line: Line) -> str:
    """Return the subscription of a message, as `Told.subscription` names it; the messages of shared ones have it in place of a consumer."""
    consumer = line.value("consumer_id")
    return line.lane if consumer is None else difference.other.subscription_of(line.lane, consumer)


def _nobody_keeps(difference: Difference, line: Line) -> bool:
    """It is a message from before an unload of its topic, for a later subscription, and no other one still needs it."""
    if line not in difference.missing or line.name != "message":
        return False
    told = difference.other
    mine, bodies = _subscription(difference, line), line.value("bodies")
    topic = next((one["topic"] for key, one in told.consumers.items() if told.subscription_of(*key) == mine), "")
    unloads = [told.unloaded[name] for name in (topic, topic.rpartition("-partition-")[0]) if name in told.unloaded]
    done = {told.subscription(*order[:2]) for order in told.acknowledged if order[2] == ",".join(bodies)}
    needed = {subscription for subscription, of in told.holding.items() if of == topic} - done
    return any(number_of(bodies[-1]) <= drawn and mine not in known and not needed & known for drawn, known in unloads)


def _failover_takeover(difference: Difference, line: Line) -> bool:
    """It is a message of a failover subscription whose active consumer left right after it was served; none was published since."""
    told = difference.other
    return line.name == "message" and told.subscription_of(line.lane, line.value("consumer_id")) in told.abandoned


def _deleted_topics(difference: Difference, line: Line) -> bool:  # noqa: ARG001
    """Snapshots differ by topics that were deleted before, and are in the target's only."""
    actions = difference.scenario.until(difference.place).actions
    world = difference.scenario.world
    deleted = {world.topic(dict(one.arguments)["topic"], "topic") for one in actions if one.kind == "delete_scalable_topic"}
    told = [{_plain(topic) for line in lines for topic in _snapshot(line)} for lines in (difference.missing, difference.extra)]
    return told[0] < told[1] and told[1] - told[0] <= {_plain(topic) for topic in deleted}


def _deletion(difference: Difference, line: Line) -> bool:
    """It is a diff about the topic that the action deletes, and about no other."""
    arguments = dict(difference.scenario.until(difference.place).actions[-1].arguments)
    told = line.value("diff") or {}
    topics = {_plain(topic) for topic in (*told.get("added", ()), *told.get("removed", ()))}
    return topics == {_plain(difference.scenario.world.topic(arguments["topic"], "topic"))}


def _deleted_partition(difference: Difference, line: Line) -> bool:  # noqa: ARG001
    """The action is about a partition of a partitioned topic that was deleted before."""
    world, (*before, action) = difference.scenario.world, difference.scenario.until(difference.place).actions
    place = dict(action.arguments).get("topic", (0, 0, None))
    deleted = {world.topic(dict(one.arguments)["topic"]) for one in before if one.kind == "delete_partitioned_topic"}
    return place[2] is not None and world.topic((*place[:2], None)) in deleted


def _deleted_before(difference: Difference, line: Line) -> bool:  # noqa: ARG001
    """The action is about a topic that was deleted before, or of which a partition was."""
    world, (*before, action) = difference.scenario.world, difference.scenario.until(difference.place).actions
    place = dict(action.arguments)["topic"]
    deleted = [dict(one.arguments)["topic"] for one in before if one.kind in ("delete_topic", "delete_partitioned_topic")]
    return world.topic((*place[:2], None)) in {world.topic((*one[:2], None)) for one in deleted}


def _plain(topic: str) -> str:
    """Return a name without percent-encoding, of which releases may add one to that of the name itself."""
    return unquote(unquote(topic))


def _snapshot(line: Line) -> list[str]:
    return list((line.value("snapshot") or {}).get("topics", ()))


def _after_disconnect(difference: Difference, line: Line) -> bool:  # noqa: ARG001
    """One of the three actions before was the end of a connection."""
    actions = difference.scenario.until(difference.place).actions
    return any(action.kind == "disconnect" for action in actions[-4:-1])


def _encoded_names(difference: Difference, line: Line) -> bool:
    """Both sides say the same, but for characters that are percent-encoded, once or twice."""
    lines = difference.missing if line in difference.extra else difference.extra
    return any((line.lane, line.name, _decoded(line.fields)) == (one.lane, one.name, _decoded(one.fields)) for one in lines)


def _repeated_id(difference: Difference, line: Line) -> bool:
    """It is said as well, and of a watch over scalable topics whose id was used for another one before."""
    return line in difference.extra and difference.other.watch_ids[line.lane, line.value("watch_id")] > 1


def _repeated_id_or_encoded_names(difference: Difference, line: Line) -> bool:
    return _repeated_id(difference, line) or _encoded_names(difference, line)


def _encoded_twin(difference: Difference, line: Line) -> bool:  # noqa: ARG001
    """A scalable topic has the name of the topic that is used, and percent-encoding changes it."""
    world, actions = difference.scenario.world, difference.scenario.until(difference.place).actions
    topic = world.topic(dict(actions[-1].arguments).get("topic", (0, 0, None)))
    twins = [world.topic(dict(action.arguments)["topic"]) for action in actions if action.kind == "create_scalable_topic"]
    local = topic.split("/", 4)[4]
    return quote(local, safe="") != local and any(topic == twin or topic.startswith(f"{twin}-partition-") for twin in twins)


def _encoded_look_up(difference: Difference, line: Line) -> bool:
    """It is about the layout of a scalable topic whose name percent-encoding changes."""
    topic = difference.other.look_ups.get((line.lane, line.value("session_id")), "")
    return line.name == "scalableTopicUpdate" and quote(topic, safe="/:") != topic


def _look_up_again(difference: Difference, line: Line) -> bool:
    """It is said as well, and of a look-up whose id another open one had before."""
    return line in difference.extra and (line.lane, line.value("session_id")) in difference.other.look_ups_again


def _decoded(text: str) -> str:
    """Return fields without percent-encoding, and with their lists in order."""

    def in_order(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: in_order(one) for key, one in value.items()}
        return sorted(value) if isinstance(value, list) else value

    return json.dumps(in_order(json.loads(unquote(unquote(text))))) if text.startswith("{") else text


_CONDITIONS: Mapping[str, Callable[[Difference, Line], bool]] = {
    "other-consumers": _other_consumers,
    "left-waiting": _left_waiting,
    "nobody-keeps": _nobody_keeps,
    "beyond-permits": _beyond_permits,
    "shared-without-order": _shared_without_order,
    "failover": _failover,
    "failover-takeover": _failover_takeover,
    "deleted-topics": _deleted_topics,
    "deletion": _deletion,
    "deleted-partition": _deleted_partition,
    "deleted-before": _deleted_before,
    "encoded-names": _encoded_names,
    "encoded-twin": _encoded_twin,
    "encoded-look-up": _encoded_look_up,
    "look-up-again": _look_up_again,
    "repeated-id": _repeated_id,
    "repeated-id-or-encoded-names": _repeated_id_or_encoded_names,
    "acknowledged-before-unload": _acknowledged_before_unload,
    "after-disconnect": _after_disconnect,
}
"""Conditions on each line that differs, by their name in freedoms.yaml."""
