"""The error of captures: of what can't be read or written."""

from __future__ import annotations


class CaptureError(ValueError):
    """A capture that can't be read, or can't be written. The message says where, why, and what to do, in one line."""
