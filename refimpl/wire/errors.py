"""The error for malformed bytes."""

from __future__ import annotations


class WireError(ValueError):
    """Malformed input: what is wrong, and where.

    Attributes:
        offset: Bytes from the start of the frame, or of the buffer that was given, to the place of the defect.
        reason: What is wrong there, in one sentence without a full stop.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        """Name both, for logs and reports."""
        return f"at byte {self.offset}: {self.reason}"
