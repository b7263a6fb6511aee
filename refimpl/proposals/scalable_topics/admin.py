"""PR 25648, what administrators do with scalable topics.

Statuses and reasons are those that Apache Pulsar 5.0.0-M1 was observed to answer with, with these differences:

    a name is decoded, as that of any topic; it may not be blank, and not that of a partition
    the properties of a topic can be changed, for which 5.0.0-M1 has no call
    a namespace with scalable topics is not empty, and takes them with it when it is deleted by force
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from refimpl.names import partitioned_topic_name
from refimpl.proposals.administration import AdminRequest, ExtensionRoute
from refimpl.proposals.refused import AdminRefused
from refimpl.proposals.scalable_topics.layout import first_layout, is_scalable_topic
from refimpl.proposals.scalable_topics.rules import fits

if TYPE_CHECKING:
    from refimpl.proposals.scalable_topics.broker import ScalableTopicsExtension, StoredScalableTopic

MOST_SEGMENTS = 10_000
"""More segments than this are refused, so that one call can't fill the memory."""

_NAMESPACE = "/admin/v2/scalable/{tenant}/{namespace}"
_TOPIC = f"{_NAMESPACE}/{{topic}}"


class ScalableTopicsAdmin:
    """The operations. Topics are given by full name, `topic://tenant/namespace/name`.

    Args:
        scalable: Has the records.

    Raises:
        AdminRefused: In every method: the status and the reason.
    """

    def __init__(self, scalable: ScalableTopicsExtension) -> None:
        self._scalable = scalable

    @property
    def routes(self) -> tuple[ExtensionRoute, ...]:
        """Return where the operations are found."""
        return (
            ExtensionRoute("GET", _NAMESPACE, lambda path, request: self.scalable_topics(_namespace(path), request.filters)),
            ExtensionRoute("PUT", _TOPIC, self._create),
            ExtensionRoute("GET", _TOPIC, lambda path, _: self.scalable_topic(_topic(path))),
            ExtensionRoute("DELETE", _TOPIC, lambda path, _: self.delete_scalable_topic(_topic(path))),
            ExtensionRoute(
                "PUT",
                f"{_TOPIC}/properties",
                lambda path, request: self.set_scalable_topic_properties(_topic(path), _properties(request)),
            ),
        )

    def _create(self, path: Mapping[str, str], request: AdminRequest) -> None:
        self.create_scalable_topic(_topic(path), _properties(request), segments=_segments(request))

    def create_scalable_topic(self, topic: str, properties: Mapping[str, str] | None = None, *, segments: int = 1) -> None:
        """Create a scalable topic, also in a namespace that does not exist."""
        if not is_scalable_topic(topic) or partitioned_topic_name(topic) != topic:
            raise AdminRefused(412, f"Invalid topic name: {topic}")
        try:
            first_layout(topic, segments)
        except ValueError as error:
            raise AdminRefused(412, str(error)) from None
        if segments > MOST_SEGMENTS:
            raise AdminRefused(412, f"numInitialSegments must be <= {MOST_SEGMENTS}")
        if self._scalable.record(topic) is not None:
            raise AdminRefused(409, f"Scalable topic already exists: {topic}")
        self._scalable.create(topic, properties or {}, segments)

    def set_scalable_topic_properties(self, topic: str, properties: Mapping[str, str]) -> None:
        """Give a scalable topic these properties and no others; the reference's own operation."""
        self._record(topic)
        self._scalable.change(topic, properties)

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
        wanted = dict(_filter(text) for text in filters)
        return [topic for topic in self._scalable.topics_of(namespace) if fits(self._record(topic).properties, wanted)]

    def delete_scalable_topic(self, topic: str) -> None:
        """Delete a scalable topic, also one that is in use."""
        self._record(topic)
        self._scalable.delete(topic)

    def _record(self, topic: str) -> StoredScalableTopic:
        record = self._scalable.record(topic)
        if record is None:
            raise AdminRefused(404, f"Scalable topic not found: {topic}")
        return record


def _namespace(path: Mapping[str, str]) -> str:
    return f"{path['tenant']}/{path['namespace']}"


def _topic(path: Mapping[str, str]) -> str:
    return f"topic://{_namespace(path)}/{path['topic']}"


def _filter(text: str) -> tuple[str, str]:
    """Read a property that a topic must have: pr25648.admin.list."""
    key, _, value = text.partition("=")
    if not key or not value:
        raise AdminRefused(412, f"property filter must be in the form key=value, got: {text}")
    return key, value


def _properties(request: AdminRequest) -> dict[str, str]:
    properties = request.table()
    if not all(isinstance(value, str) for value in properties.values()):
        raise AdminRefused(400, "the value of a property has to be a text")
    return properties


def _segments(request: AdminRequest) -> int:
    text = request.query.get("numInitialSegments", "1")
    if not re.fullmatch("-?[0-9]{1,9}", text):
        raise AdminRefused(400, f"numInitialSegments has to be a number, not {text!r}")
    return int(text)
