"""What is known of a connection, and of all connections of a conversation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Link:
    """What the frames of a connection have told so far.

    Attributes:
        name: The connection.
        whole: All its frames were seen, from its first on.
    """

    name: str
    whole: bool
