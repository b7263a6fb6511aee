"""The admin operations on topics: what there is, what they hold, and their end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from refimpl.broker.admin.part import AdminPart
from refimpl.broker.bundles import bundle_of
from refimpl.broker.policies import MOST_PARTITIONS
from refimpl.broker.stats import internal_info, internal_stats, topic_stats, total_stats
from refimpl.broker.topic import Topic
from refimpl.names import DOMAINS, TopicName, is_system_topic
from refimpl.proposals.refused import AdminRefused, Refused
from refimpl.store import Entry

_NUMBER = re.compile(r"[+-]?\d{1,18}")
"""What Java parses as a number: a sign, leading zeros and any Unicode digits. Observed on Apache Pulsar 2.10.5 and 4.2.4."""


class TopicAdmin(AdminPart):
    """The operations."""

    def topics(self, namespace: str, domain: str, *, include_system: bool = False, in_bundle: str | None = None) -> list[str]:
        """List the topics of a namespace, or of one of its bundles, with partitions listed individually."""
        boundaries = self._namespace(namespace).bundles
        broker = self._broker
        found = broker.persistent_topics(namespace) if domain == DOMAINS[0] else broker.non_persistent_topics(namespace)
        if not include_system:
            found = [topic for topic in found if not is_system_topic(topic)]
        return found if in_bundle is None else [topic for topic in found if bundle_of(topic, boundaries) == in_bundle]

    def partitioned_topics(self, namespace: str, domain: str, *, include_system: bool = False) -> list[str]:
        """List the partitioned topics of a namespace."""
        found = sorted(self._namespace(namespace).partitioned)
        return [topic for topic in found if topic.startswith(f"{domain}://") and (include_system or not is_system_topic(topic))]

    def create_topic(self, topic: str, properties: Mapping[str, str] | None = None) -> None:
        """Create a non-partitioned topic."""
        name = self._name(topic)
        self._check_new(name)
        base, mark, number = name.local.partition("-partition-")
        if mark and _NUMBER.fullmatch(number):
            partitions = self._broker.partition_count(f"{name.domain}://{name.namespace}/{base}")
            begin = f'Can\'t create topic {name.local} with "-partition-" followed by'
            if not partitions:
                raise AdminRefused(412, f"{begin} numeric value if there isn't a partitioned topic {base} created.")
            if int(number) >= partitions:
                raise AdminRefused(412, f"{begin} a number smaller than number of partition of partitioned topic {base}")
        if name.partition >= 0:
            try:
                self._broker.check_partition(name)
            except Refused as refused:
                raise AdminRefused(409, refused.message) from None
        self._broker.create_topic(name)
        self._set_properties(name, properties or {})

    def delete_topic(self, topic: str, *, force: bool = False) -> None:
        """Delete a non-partitioned topic or a partition; with `force`, even if it is in use."""
        name = self._name(topic)
        if self._broker.partitions(name):
            raise AdminRefused(
                409, f"{topic} is a partitioned topic, instead of calling delete topic, please call delete-partitioned-topic."
            )
        if not name.persistent and not self._broker.exists(name):
            return
        self._present(topic)
        self._check_unused(name, force=force)
        self._broker.delete_topic(name)

    def unload_topic(self, topic: str) -> None:
        """Disconnect the producers and consumers of a topic, or of all its partitions."""
        names = self._parts(topic) or [self._existing(topic)]
        missing = [name for name in names if not self._broker.exists(name)]
        for name in names:
            self._broker.unload(name)
        for name in missing:
            self._existing(name.full)

    def create_partitioned_topic(self, topic: str, partitions: int, properties: Mapping[str, str] | None = None) -> None:
        """Create a partitioned topic."""
        name = self._name(topic)
        if "-partition-" in name.local:
            raise _no_partitioned_name()
        self._check_partitions(partitions)
        self._check_new(name)
        self._broker.create_partitions(name, partitions)
        self._set_properties(name, properties or {})

    def update_partitioned_topic(self, topic: str, partitions: int) -> None:
        """Increase the partition count of a topic; partitions that were deleted are created again."""
        name = self._partitioned_name(topic)
        present = self._namespace(name.namespace).partitioned.get(name.full)
        if present is None:
            raise AdminRefused(409, f"Topic {topic} is not the partitioned topic.")
        if partitions < present:
            raise AdminRefused(422, f"Desired partitions {partitions} can't be less than the current partitions {present}.")
        self._check_partitions(partitions)
        self._broker.create_partitions(name, partitions)

    def create_missed_partitions(self, topic: str) -> None:
        """Create the partitions of a topic that were deleted."""
        name = self._partitioned_name(topic)
        if not self._parts(topic):
            raise AdminRefused(404, f"Topic {topic} does not exist")
        self._broker.create_partitions(name, len(self._parts(topic)))

    def delete_partitioned_topic(self, topic: str, *, force: bool = False) -> None:
        """Delete a partitioned topic; with `force`, even if it is in use. If it is refused, the partitions that are not in use are gone."""
        name = self._partitioned_name(topic)
        parts = self._parts(topic)
        if not parts and self._broker.exists(name):
            raise AdminRefused(409, f"{topic} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete.")
        if not parts:
            raise AdminRefused(404, f"Topic {topic} not found.")
        used = [part for part in parts if not force and self._in_use(part)]
        for part in parts:
            if part not in used and self._broker.exists(part):
                self._broker.delete_topic(part)
        for part in used:
            self._check_unused(part, force=force)
        del self._namespace(name.namespace).partitioned[name.full]
        self._broker.forget(name)
        self._broker.partitions_changed(name.full)

    def partitioned_metadata(self, topic: str, *, create: bool = False) -> dict[str, Any]:
        """Return the partition count of a topic; 0: it is not partitioned.

        Args:
            topic: The topic.
            create: Whether it may be missing and is created with partitions, if that is the type of its namespace, as for clients that
                look topics up over HTTP.
        """
        name = self._name(topic)
        partitions = self._broker.partitions(name)
        if not partitions and not (create and self._broker.is_creatable(name) and not self._broker.takes_name(name)):
            self._present(topic)
        elif not partitions and not self._broker.exists(name):
            partitions = self._broker.create_by_default(name)
        properties = self._namespace(name.namespace).properties.get(name.full)
        return {"partitions": partitions, "deleted": False, **({"properties": properties} if partitions and properties else {})}

    def properties(self, topic: str) -> dict[str, str]:
        """Return the properties of a topic."""
        self._check_persistent(topic)
        name = self._used(topic)
        return dict(self._namespace(name.namespace).properties.get(name.full, {}))

    def update_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        """Add properties to a topic, or change them."""
        all_of_them = {**self.properties(topic), **properties}
        self._set_properties(self._used(topic), all_of_them)

    def remove_property(self, topic: str, key: str) -> None:
        """Remove a property of a topic."""
        left = {name: value for name, value in self.properties(topic).items() if name != key}
        self._set_properties(self._used(topic), left)

    def terminate_topic(self, topic: str) -> dict[str, int]:
        """End a topic: it takes no more messages. Return the id of the last one."""
        self._check_persistent(topic)
        if self._parts(topic):
            raise AdminRefused(405, "Termination of a partitioned topic is not allowed")
        found = self._topic(topic)
        self._broker.terminate(found)
        return _id(found, len(found.entries) - 1)

    def terminate_partitioned_topic(self, topic: str) -> dict[int, dict[str, int]]:
        """End all partitions of a topic. Return the id of the last message of each."""
        parts = self._parts(topic)
        if not parts:
            raise AdminRefused(405, "Termination of a non-partitioned topic is not allowed using partitioned-terminate")
        return {part.partition: self.terminate_topic(part.full) for part in parts}

    def truncate_topic(self, topic: str) -> None:
        """Let all subscriptions of a topic, or of its partitions, skip all messages, and free them, whatever retention keeps."""
        if not self._name(topic).persistent:
            raise AdminRefused(412, "unsupport truncate")
        for found in self._topics(topic):
            for subscription in found.subscriptions.values():
                subscription.skip(None)
            found.entries.free(found.entries.end)

    def trim_topic(self, topic: str) -> None:
        """Free what retention does not keep any longer, of a topic or of all its partitions."""
        if not self._name(topic).persistent:
            raise AdminRefused(405, "Trim on a non-persistent topic is not allowed")
        for found in self._topics(topic):
            found.free()

    def compaction_status(self, topic: str) -> dict[str, str]:
        """Return that a topic was never compacted."""
        self._check_stored(self._topic(topic))
        return {"status": "NOT_RUN", "lastError": ""}

    # What a topic holds

    def last_message_id(self, topic: str) -> dict[str, int]:
        """Return the id of the last message of a topic."""
        if self._name(topic).persistent:
            self._existing(topic)  # which a partitioned topic does not, but its partitions
        found = self._stored(topic, "GetLastMessageId")
        return {**_id(found, len(found.entries) - 1), "batchIndex": found.last_batch_index}

    def message_id_at(self, topic: str, timestamp: int) -> dict[str, int]:
        """Return the id of the first message published at a time or later, in milliseconds since 1970."""
        found = self._stored(topic, "Get message ID by timestamp")
        if timestamp < 0:
            raise AdminRefused(500, "CompactedTopicContext is not initialized")
        if not timestamp:
            return {**_id(found, -1), "ledgerId": -1}
        return _id(found, found.index_at(timestamp))

    def message(self, topic: str, ledger: int, entry: int) -> tuple[Topic, int, Entry]:
        """Return an entry by its id, with its topic and index."""
        found = self._stored(topic, "Get message by id")
        if ledger != found.stored.ledger_id or not found.entries.first <= entry < found.entries.end:
            raise AdminRefused(404, "Message id not found")
        return found, entry, found.entries[entry]

    def examine_message(self, topic: str, position: int, *, latest: bool) -> tuple[Topic, int, Entry]:
        """Return the n-th entry from the beginning or the end, counted from 1, with its topic and index."""
        found = self._stored(topic, "Examine messages")
        first, end = found.entries.first, found.entries.end
        if first == end:
            raise AdminRefused(412, "Could not examine messages due to the total message is zero")
        index = min(max(end - position if latest else first + position - 1, first), end - 1)
        return found, index, found.entries[index]

    def lookup(self, topic: str, *, listener: str | None = None) -> dict[str, str]:
        """Return the service URL of the broker that serves a topic; it has no listeners with names."""
        name = self._name(topic)
        if listener:
            raise AdminRefused(500, f"the broker do not have {listener} listener")
        if name.persistent and not (self._parts(topic) or self._broker.exists(name) or self._broker.is_creatable(name)):
            raise AdminRefused(404, f"Topic not found {topic}")
        owner = self._broker.members.owner(name.namespace, self.topic_bundle(topic))
        urls = {"brokerUrl": owner.service_url, "httpUrl": owner.admin_url, "nativeUrl": owner.service_url}
        return {**urls, "brokerUrlTls": owner.service_url_tls or "", "brokerUrlSsl": owner.service_url_tls or ""}

    def topic_stats(self, topic: str, **options: bool) -> dict[str, Any]:
        """Return the counters of a topic, its producers and subscriptions."""
        return self._stats(self._existing(topic), options)

    def partitioned_stats(self, topic: str, *, per_partition: bool = False, **options: bool) -> dict[str, Any]:
        """Return the counters of a partitioned topic."""
        parts = self._parts_of_partitioned(self._partitioned_name(topic))
        stats = {part.full: self._stats(part, options) for part in parts}
        return {
            **total_stats(list(stats.values())),
            "metadata": {"partitions": len(parts), "deleted": False},
            "partitions": stats if per_partition else {},
        }

    def _stats(self, name: TopicName, options: Mapping[str, bool]) -> dict[str, Any]:
        owner = self._broker.members.owner(name.namespace, self.topic_bundle(name.full))
        return {**topic_stats(self._broker.topic(name), **options), "ownerBroker": owner.broker_id}

    def internal_stats(self, topic: str) -> dict[str, Any]:
        """Return the ledgers and cursors of a topic."""
        return internal_stats(self._topic(topic))

    def partitioned_internal_stats(self, topic: str) -> dict[str, Any]:
        """Return the ledgers and cursors of all partitions of a topic."""
        parts = self._parts_of_partitioned(self._name(topic))
        stats = {part.full: internal_stats(self._broker.topic(part)) for part in parts}
        return {"metadata": {"partitions": len(parts), "deleted": False}, "partitions": stats}

    def internal_info(self, topic: str) -> dict[str, Any]:
        """Return what is stored about the ledgers and cursors of a topic. Where nothing is, Pulsar fails instead of saying so."""
        name, parts = self._name(topic), self._parts(topic)
        if not name.persistent or not (parts or self._broker.exists(name)):
            raise AdminRefused(500, "Request failed.")
        if parts:
            return {"version": 0, "partitions": {part.full: internal_info(self._broker.topic(part)) for part in parts}}
        return internal_info(self._topic(topic))

    def topic_bundle(self, topic: str) -> str:
        """Return the bundle of a topic."""
        name = self._name(topic)
        return bundle_of(name.full, self._namespace(name.namespace).bundles)

    # Helpers of the operations

    def _parts_of_partitioned(self, name: TopicName) -> list[TopicName]:
        if parts := self._parts(name.full):
            return parts
        raise AdminRefused(404, f"Partitioned Topic {name.full} not found")

    def _partitioned_name(self, topic: str) -> TopicName:
        name = self._name(topic)
        if name.partition >= 0:
            raise _no_partitioned_name()
        return name

    def _set_properties(self, name: TopicName, properties: Mapping[str, str]) -> None:
        self._namespace(name.namespace).properties[name.full] = dict(properties)

    def _check_persistent(self, topic: str) -> None:
        if not self._name(topic).persistent:
            raise AdminRefused(406, "Need to provide a persistent topic name")

    def _stored(self, topic: str, what: str) -> Topic:
        """Return a persistent topic without partitions, or a partition."""
        if self._parts(topic):
            raise AdminRefused(405, f"{what} on a partitioned topic is not allowed, please try do it on specific topic partition")
        self._existing(topic)
        if not self._name(topic).persistent:
            raise AdminRefused(405, f"{what} on a non-persistent topic is not allowed")
        return self._topic(topic)

    def _check_new(self, name: TopicName) -> None:
        if self._broker.exists(name) or name.full in self._namespace(name.namespace).partitioned:
            raise AdminRefused(409, "This topic already exists")

    def _check_partitions(self, partitions: int) -> None:
        if partitions < 1:
            raise AdminRefused(406, "Number of partitions should be more than 0")
        if partitions > MOST_PARTITIONS:
            raise AdminRefused(406, f"Number of partitions should be between 1 and {MOST_PARTITIONS}")

    def _check_unused(self, name: TopicName, *, force: bool) -> None:
        if not force and self._in_use(name):
            topic = self._broker.topic(name)
            producers, consumers = len(topic.producers), sum(len(one.consumers) for one in topic.subscriptions.values())
            clients = "1 client" if producers + consumers == 1 else f"{producers + consumers} clients"
            detail = f"Including {consumers} consumers, {producers} producers, and 0 replicators."
            raise AdminRefused(412, f"Topic has {clients} connected {detail}")

    def _in_use(self, name: TopicName) -> bool:
        topic = self._broker.loaded(name.full)
        return topic is not None and topic.in_use


def _no_partitioned_name() -> AdminRefused:
    return AdminRefused(412, "Partitioned Topic Name should not contain '-partition-'")


def _id(topic: Topic, index: int) -> dict[str, int]:
    return {
        "ledgerId": topic.stored.ledger_id,
        "entryId": index,
        "partitionIndex": topic.name.partition,
        "batchIndex": -1,
        "batchSize": 0,
    }
