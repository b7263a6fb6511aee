"""What administrators do with scalable topics, PR 25648.

Statuses and reasons are those that Apache Pulsar 5.0.0-M1 was observed to answer with, with these differences:

    a name is decoded, as that of any topic; it may not be blank, and not that of a partition
    the properties of a topic can be changed, for which 5.0.0-M1 has no call
    a namespace with scalable topics is not empty, and takes them with it when it is deleted by force
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from refimpl.broker.errors import AdminRefused
from refimpl.proposals.scalable_topics import first_layout, is_scalable_topic
from refimpl.proposals.scalable_topics.rules import fits
from refimpl.proposals.topic_list import partitioned_topic_name

if TYPE_CHECKING:
    from refimpl.broker.broker import Broker
    from refimpl.store import StoredScalableTopic

MOST_SEGMENTS = 10_000
"""More segments than this are refused, so that one call can't fill the memory."""


class ScalableTopicsAdmin:
    """The operations; `Admin` has all others. Topics are given by full name, `topic://tenant/namespace/name`.

    Raises:
        AdminRefused: In every method: the status and the reason.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def create_scalable_topic(self, topic: str, properties: Mapping[str, str] | None = None, *, segments: int = 1) -> None:
        """Create a scalable topic, also in a namespace that does not exist."""
        self._check_known()
        if not is_scalable_topic(topic) or partitioned_topic_name(topic) != topic:
            raise AdminRefused(412, f"Invalid topic name: {topic}")
        try:
            first_layout(topic, segments)
        except ValueError as error:
            raise AdminRefused(412, str(error)) from None
        if segments > MOST_SEGMENTS:
            raise AdminRefused(412, f"numInitialSegments must be <= {MOST_SEGMENTS}")
        if self._broker.scalable.record(topic) is not None:
            raise AdminRefused(409, f"Scalable topic already exists: {topic}")
        self._broker.scalable.create(topic, properties or {}, segments)

    def set_scalable_topic_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        """Give a scalable topic these properties and no others; the reference's own operation."""
        self._record(topic)
        self._broker.scalable.change(topic, properties)

    def scalable_topic(self, topic: str) -> dict[str, Any]:
        """Return what a scalable topic is made of, and its properties."""
        record = self._record(topic)
        layout = first_layout(topic, record.segments)
        segments = {
            str(one.number): {
                "segmentId": one.number,
                "hashRange": {"start": one.start, "end": one.end},
                "state": "ACTIVE",
                "parentIds": [],
                "childIds": [],
                "createdAtEpoch": layout.epoch,
            }
            for one in layout.segments
        }
        return {"epoch": layout.epoch, "nextSegmentId": len(segments), "segments": segments, "properties": dict(record.properties)}

    def scalable_topics(self, namespace: str, filters: Iterable[str] = ()) -> list[str]:
        """List the scalable topics of a namespace.

        Args:
            namespace: Need not exist.
            filters: Properties that a topic must have, each as key=value.
        """
        self._check_known()
        wanted = dict(_filter(text) for text in filters)
        scalable = self._broker.scalable
        return [topic for topic in scalable.names(namespace) if fits(self._record(topic).properties, wanted)]

    def delete_scalable_topic(self, topic: str) -> None:
        """Delete a scalable topic, also one that is in use."""
        self._record(topic)
        self._broker.scalable.delete(topic)

    def _check_known(self) -> None:
        if "pr25648" not in self._broker.proposals:
            raise AdminRefused(404, "this broker knows no scalable topics")

    def _record(self, topic: str) -> StoredScalableTopic:
        self._check_known()
        record = self._broker.scalable.record(topic)
        if record is None:
            raise AdminRefused(404, f"Scalable topic not found: {topic}")
        return record


def _filter(text: str) -> tuple[str, str]:
    """Read a property that a topic must have: pr25648.admin.list."""
    key, _, value = text.partition("=")
    if not key or not value:
        raise AdminRefused(412, f"property filter must be in the form key=value, got: {text}")
    return key, value
