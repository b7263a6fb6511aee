"""What a broker keeps when it stops: tenants, namespaces, topics with their messages, and cursors."""

from refimpl.store.memory import Cursor, Entry, MemoryStore, StoredNamespace, StoredTopic

__all__ = ["Cursor", "Entry", "MemoryStore", "StoredNamespace", "StoredTopic"]
