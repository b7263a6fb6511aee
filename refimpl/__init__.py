"""The reference implementation: wire format, proposals, broker and client."""
