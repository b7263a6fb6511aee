"""The persistent state of a broker: tenants, namespaces, topics with their messages, and cursors."""

from refimpl.store.memory import Cursor, Entries, Entry, MemoryStore, StoredNamespace, StoredTopic

__all__ = ["Cursor", "Entries", "Entry", "MemoryStore", "StoredNamespace", "StoredTopic"]
