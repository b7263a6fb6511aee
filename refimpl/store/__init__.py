"""The persistent state of a broker: tenants, namespaces, topics with their messages, and cursors."""

from refimpl.store.memory import Chunk, Cursor, Entries, Entry, FullLedger, MemoryStore, StoredNamespace, StoredTopic

__all__ = ["Chunk", "Cursor", "Entries", "Entry", "FullLedger", "MemoryStore", "StoredNamespace", "StoredTopic"]
