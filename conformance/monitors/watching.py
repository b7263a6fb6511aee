"""Watches: who may be told something, whether hashes fit what was announced, and versions of partition updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.monitors.link import Link
from conformance.monitors.model import Judged, Monitor, Seen, hears
from refimpl.indexes.topics_hash import EMPTY_HASH, TopicSet

_ASKED_BY: Final[Mapping[str, tuple[str, str, str]]] = {
    "watchTopicListSuccess": ("watchTopicList", "watcher_id", "pip145.flag.nothing-unasked"),
    "watchTopicUpdate": ("watchTopicList", "watcher_id", "pip145.flag.nothing-unasked"),
    "watchPartitionUpdateSuccess": ("watchPartitionUpdate", "watcher_id", "pip247.flag.nothing-unasked"),
    "partitionUpdate": ("watchPartitionUpdate", "watcher_id", "pip247.flag.nothing-unasked"),
    "watchScalableTopicsUpdate": ("watchScalableTopics", "watch_id", "pr25648.flag.nothing-unasked"),
}
"""What a broker sends for a watch: the request that opens it, the field with its id, and the clause."""
_IDS: Final = {request: name for request, name, _ in _ASKED_BY.values()}


class OnlyWatchers(Monitor):
    """A broker sends answers and updates only for watches that were asked for on the connection."""

    name = "only-watchers"
    side = "broker"
    clauses = tuple(dict.fromkeys(clause for _, _, clause in _ASKED_BY.values()))

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._asked: set[tuple[str, int]] = set()

    @hears(*(f"-> {request}" for request in _IDS))
    def asked(self, seen: Seen) -> Iterator[Judged]:
        """Note a watch."""
        self._asked.add((seen.name, getattr(seen.command, _IDS[seen.name])))
        return iter(())

    @hears(*(f"<- {name}" for name in _ASKED_BY))
    def told(self, seen: Seen) -> Iterator[Judged]:
        """Judge what comes for a watch."""
        request, name, clause = _ASKED_BY[seen.name]
        number = getattr(seen.command, name)
        asked = (request, number) in self._asked
        if asked or self.link.whole:
            yield clause, None if asked else f"{seen.name} for {name} {number}, for which there was no {request} on this connection"


class TopicListHashes(Monitor):
    """The hash of each answer and update is that of the set of topics that the broker has announced to the watcher until then."""

    name = "topic-list-hashes"
    side = "broker"
    clauses = ("pip145.hash.value", "pip145.watch.success-carries-hash", "pip145.update.hash")

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._asked: dict[int, str] = {}
        self._sets: dict[int, TopicSet] = {}

    @hears("<- getTopicsOfNamespaceResponse")
    def listed(self, seen: Seen) -> Iterator[Judged]:
        """Judge the hash of a list, which a watch may be asked with."""
        told = seen.command
        if told.changed and told.HasField("topics_hash"):
            found = TopicSet(told.topics)
            problem = f"topics_hash {told.topics_hash} for a list whose hash is {found.hash}"
            yield "pip145.hash.value", None if found.hash == told.topics_hash else problem
            self.link.conversation.sets.add(found, found.hash)

    @hears("-> watchTopicList")
    def asked(self, seen: Seen) -> Iterator[Judged]:
        """Note the hash that the client has."""
        self._asked[seen.command.request_id] = seen.command.topics_hash
        return iter(())

    @hears("<- watchTopicListSuccess")
    def answer(self, seen: Seen) -> Iterator[Judged]:
        """Judge the hash of an answer: of its list, or the one that the client has."""
        told = seen.command
        had = self._asked.pop(told.request_id, None)
        before = self._sets.pop(told.watcher_id, None)
        if told.topic or told.topics_hash == EMPTY_HASH:
            found = self._sets[told.watcher_id] = TopicSet(told.topic)
            problem = None if found.hash == told.topics_hash else f"topics_hash {told.topics_hash} for a list whose hash is {found.hash}"
        elif had is None:
            return
        else:
            kept = before if before is not None and before.hash == told.topics_hash else self.link.conversation.sets.get(told.topics_hash)
            if kept is not None:
                self._sets[told.watcher_id] = kept
            asked = f"the client asked with {had}" if had else "the client asked without a hash"
            problem = None if had == told.topics_hash else f"no topics, and topics_hash {told.topics_hash}, although {asked}"
        yield "pip145.watch.success-carries-hash", problem
        self._remember(told.watcher_id)

    @hears("<- watchTopicUpdate")
    def update(self, seen: Seen) -> Iterator[Judged]:
        """Judge the hash of an update: of the set that it leads to."""
        told = seen.command
        found = self._sets.get(told.watcher_id)
        if found is None:
            return
        for name in told.deleted_topics:
            found.remove(name)
        for name in told.new_topics:
            found.add(name)
        good = found.hash == told.topics_hash
        yield "pip145.update.hash", None if good else f"topics_hash {told.topics_hash} for a set whose hash is {found.hash}"
        if good:
            self._remember(told.watcher_id)
        else:
            del self._sets[told.watcher_id]  # which of the two is right is unknown

    def _remember(self, watcher: int) -> None:
        if watcher in self._sets:
            self.link.conversation.sets.add(self._sets[watcher], self._sets[watcher].hash)


class WatcherIds(Monitor):
    """While a topic list watcher is open, its id stands for one namespace and one pattern."""

    name = "watcher-ids"
    side = "client"
    clauses = ("pip145.client.watch-id-unique",)

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._open: dict[int, tuple[str, str]] = {}
        self._asked: dict[int, int] = {}

    @hears("-> watchTopicList")
    def asked(self, seen: Seen) -> Iterator[Judged]:
        """Judge the id of a watcher."""
        asked = seen.command
        of = (asked.namespace, asked.topics_pattern)
        open_for = self._open.setdefault(asked.watcher_id, of)
        self._asked[asked.request_id] = asked.watcher_id
        problem = f"watcher_id {asked.watcher_id} for {' '.join(of)}, while it stands for {' '.join(open_for)}"
        yield "pip145.client.watch-id-unique", None if open_for == of else problem

    @hears("-> watchTopicListClose")
    def closes(self, seen: Seen) -> Iterator[Judged]:
        """Note that an id is free."""
        self._open.pop(seen.command.watcher_id, None)
        return iter(())

    @hears("<- error")
    def refused(self, seen: Seen) -> Iterator[Judged]:
        """Note that an id may be free."""
        self._open.pop(self._asked.pop(seen.command.request_id, -1), None)
        return iter(())

    @hears("<- watchTopicListSuccess")
    def answered(self, seen: Seen) -> Iterator[Judged]:
        """Forget a request."""
        self._asked.pop(seen.command.request_id, None)
        return iter(())


class PartitionVersions(Monitor):
    """The versions of a watcher's partition updates grow; an update with the version of the one before has the same counts."""

    name = "partition-versions"
    side = "broker"
    clauses = ("pip247.version.grows",)

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._last: dict[int, tuple[int, dict[str, int]]] = {}

    @hears("-> watchPartitionUpdate", "-> watchPartitionUpdateClose")
    def again(self, seen: Seen) -> Iterator[Judged]:
        """Forget a watcher's version: those of a closed one begin again, and those of one with other topics have other counts."""
        self._last.pop(seen.command.watcher_id, None)
        return iter(())

    @hears("<- partitionUpdate")
    def update(self, seen: Seen) -> Iterator[Judged]:
        """Judge a version."""
        told = seen.command
        counts = {one.topic: one.partition for one in told.topic_with_partition}
        version, before = self._last.get(told.watcher_id, (0, counts))
        self._last[told.watcher_id] = told.version, counts
        problem = None
        if told.version < version:
            problem = f"version {told.version} for watcher_id {told.watcher_id} after {version}"
        elif told.version == version and counts != before:
            problem = f"version {told.version} for watcher_id {told.watcher_id} again, with other counts"
        yield "pip247.version.grows", problem


@dataclass
class _Results:
    """What a client may say of the updates of a watcher: how often each version has come, less how often it has answered."""

    due: Counter[int] = field(default_factory=Counter)
    told: set[int] = field(default_factory=set)
    open: bool = True


class PartitionResults(Monitor):
    """A client sends a result only for an update that has come, at most once for each, and none for a watcher that it has closed."""

    name = "partition-results"
    side = "client"
    clauses = ("pip247.client.result", "pip247.client.one-result", "pip247.client.unknown-id")

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._watchers: dict[int, _Results] = {}

    @hears("-> watchPartitionUpdate")
    def asked(self, seen: Seen) -> Iterator[Judged]:
        """Note a watcher. One that is asked for again keeps what has come."""
        self._watchers.setdefault(seen.command.watcher_id, _Results()).open = True
        return iter(())

    @hears("-> watchPartitionUpdateClose")
    def closes(self, seen: Seen) -> Iterator[Judged]:
        """Note that a client wants nothing more."""
        self._watchers.setdefault(seen.command.watcher_id, _Results()).open = False
        return iter(())

    @hears("<- partitionUpdate")
    def update(self, seen: Seen) -> Iterator[Judged]:
        """Note an update."""
        results = self._watchers.get(seen.command.watcher_id)
        if results is not None:
            results.due[seen.command.version] += 1
            results.told.add(seen.command.version)
        return iter(())

    @hears("-> partitionUpdateResult")
    def result(self, seen: Seen) -> Iterator[Judged]:
        """Judge a result."""
        number, version = seen.command.watcher_id, seen.command.version
        results = self._watchers.get(number)
        where = f"a result for version {version} of watcher_id {number}"
        if results is None or not results.open:
            if results is not None or self.link.whole:
                yield "pip247.client.unknown-id", f"{where}, which {'is closed' if results else 'was not asked for on this connection'}"
            return
        yield "pip247.client.unknown-id", None
        if version not in results.told:
            if self.link.whole:
                yield "pip247.client.result", f"{where}, which has not come"
            return
        results.due[version] -= 1
        yield "pip247.client.result", None
        yield "pip247.client.one-result", None if results.due[version] >= 0 else f"{where}, once more than it has come"


class ScalableHashes(Monitor):
    """The hash with which a client watches scalable topics is that of a set which a broker has announced to it."""

    name = "scalable-hashes"
    side = "client"
    clauses = ("pr25648.client.hash-on-reconnect",)
    of_all_connections = True

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._sets: dict[int, TopicSet] = {}

    @hears("-> watchScalableTopics")
    def asked(self, seen: Seen) -> Iterator[Judged]:
        """Judge a hash."""
        self._sets.pop(seen.command.watch_id, None)
        if not seen.command.HasField("current_hash"):
            return
        digest = seen.command.current_hash
        known = TopicSet() if digest == EMPTY_HASH else self.link.conversation.sets.get(digest)
        if known is not None:
            self._sets[seen.command.watch_id] = known
        if known is not None or (self.link.conversation.whole and self.link.conversation.sets.all_kept):
            problem = f"current_hash {digest}, of a set that no broker has announced"
            yield "pr25648.client.hash-on-reconnect", None if known is not None else problem

    @hears("<- watchScalableTopicsUpdate")
    def update(self, seen: Seen) -> Iterator[Judged]:
        """Note a set."""
        found = self._changed(seen.command)
        if found is not None:
            self._sets[seen.command.watch_id] = found
            self.link.conversation.sets.add(found, found.hash)
        return iter(())

    def _changed(self, told: Any) -> TopicSet | None:
        if told.HasField("snapshot"):
            return TopicSet(told.snapshot.topics)
        found = self._sets.get(told.watch_id)
        if found is not None and told.HasField("diff"):
            for name in told.diff.removed:
                found.remove(name)
            for name in told.diff.added:
                found.add(name)
        return found
