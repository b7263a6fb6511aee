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
        valid = self._broker.schemas.valid(self._name(topic))
        number = max(valid, default=0) if version is None else version
        if number not in valid:
            raise AdminRefused(404, "Schema not found")
        return described(valid[number], number)

    def schemas(self, topic: str) -> dict[str, Any]:
        """Return all schemas of a topic, in the order of their versions."""
        valid = self._broker.schemas.valid(self._name(topic))
        return {"getSchemaResponses": [described(schema, number) for number, schema in valid.items()]}

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

    def delete_schema(self, topic: str, *, force: bool = False) -> dict[str, Any]:
        """Delete all schemas of a topic; with `force` as if there had been none. Return the version of the deletion."""
        name = self._name(topic)
        if force:
            self._broker.schemas.forget(name)
        return {"version": -1 if force else self._broker.schemas.delete(name)}
