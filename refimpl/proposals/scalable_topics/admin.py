"""PR 25648, the admin operations on scalable topics.

Statuses and reasons are as observed on Apache Pulsar 5.0.0-M1, with these differences:

    a name is percent-decoded, like that of any topic; it can't be blank, or end like a partition
    one more call changes the properties of a topic
    a namespace with scalable topics is not empty; deleting it by force deletes them, too
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
"""Maximum number of segments, so that one call can't exhaust the memory."""

_NAMESPACE = "/admin/v2/scalable/{tenant}/{namespace}"
_TOPIC = f"{_NAMESPACE}/{{topic}}"


class ScalableTopicsAdmin:
    """The operations. Topics are given by full name, `topic://tenant/namespace/name`.

    Args:
        scalable: The extension, which has the records.

    Raises:
        AdminRefused: In every method: the status and the reason.
    """

    def __init__(self, scalable: ScalableTopicsExtension) -> None:
        self._scalable = scalable

    @property
    def routes(self) -> tuple[ExtensionRoute, ...]:
        """Return the routes of the operations."""
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
        """Create a scalable topic; the namespace need not exist."""
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
        """Replace the properties of a scalable topic. Only the reference broker has this operation."""
        self._record(topic)
        self._scalable.change(topic, properties)

    def scalable_topic(self, topic: str) -> dict[str, Any]:
        """Return the layout of a scalable topic, and its properties."""
        record = self._record(topic)
        layout = first_layout(topic, record.segment_count)
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
        following = max(one.number for one in layout.segments) + 1
        return {"epoch": layout.epoch, "nextSegmentId": following, "segments": segments, "properties": dict(record.properties)}

    def scalable_topics(self, namespace: str, filters: Iterable[str] = ()) -> list[str]:
        """List the scalable topics of a namespace.

        Args:
            namespace: The namespace; it need not exist.
            filters: Properties that a topic must have, each as key=value.
        """
        wanted = dict(_filter(text) for text in filters)
        return [topic for topic in self._scalable.topics_of(namespace) if fits(self._record(topic).properties, wanted)]

    def delete_scalable_topic(self, topic: str) -> None:
        """Delete a scalable topic, even if it is in use."""
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
    """Parse a property filter: pr25648.admin.list."""
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
