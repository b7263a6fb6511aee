"""The admin operations on schemas. A topic need not exist to have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refimpl.broker.admin.part import AdminPart
from refimpl.broker.schemas import described, posted
from refimpl.proposals.refused import AdminRefused, Refused


class SchemaAdmin(AdminPart):
    """The operations."""

    def schema(self, topic: str, version: int | None) -> dict[str, Any]:
        """Return a schema of a topic: a given version, or the newest."""
        return described(self._broker.schemas.versions(self._name(topic)), version)

    def schemas(self, topic: str) -> dict[str, Any]:
        """Return all schemas of a topic, in the order of their versions."""
        versions = self._broker.schemas.versions(self._name(topic))
        return {"getSchemaResponses": [described(versions, number) for number in range(len(versions))]}

    def add_schema(self, topic: str, kind: str, definition: str, properties: Mapping[str, str]) -> dict[str, Any]:
        """Add a compatible schema to a topic."""
        schema = posted(kind, definition, properties)
        name = self._name(topic)
        try:
            self._broker.schemas.check(schema)
        except Refused as refused:
            raise AdminRefused(422, refused.message) from None
        try:
            version = self._broker.schemas.add(name, schema, by_admin=True)
        except Refused as refused:
            raise AdminRefused(409, refused.message) from None
        return {"version": {"version": int.from_bytes(version, "big")}}

    def delete_schema(self, topic: str) -> dict[str, Any]:
        """Delete all schemas of a topic."""
        name = self._name(topic)
        deleted = len(self._broker.schemas.versions(name))
        self._broker.schemas.forget(name)
        return {"version": deleted}
