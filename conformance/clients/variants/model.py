"""What a legal variant of the client is: the reference client, right in every clause, that uses a freedom otherwise.

Variants of clients are written as those of brokers are, in conformance/variants/model.py:

    @client_variant("core.client.permits-returned")
    def gives_each_permit_back_at_once(patches):
        \"\"\"Each message that the user takes is followed by a FLOW with one permit.\"\"\"
        patches.wrap(Consumer, "_return", ...)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

from conformance.mutants.model import Patches, before_sending
from conformance.variants.model import Variant, registering
from refimpl.client.connection import Connection

CLIENT_VARIANTS: Final[dict[str, Variant]] = {}
"""All variants of the client by name, once the modules that hold them are imported."""

client_variant = registering(CLIENT_VARIANTS)


def outgoing(patches: Patches, change: Callable[[Connection, Any], object], *kinds: type[Message]) -> None:
    """Change every command of some kinds before the client sends it.

    Args:
        patches: Gets the change.
        change: Changes the message in place; returns False if it is not to be sent.
        kinds: The sub-messages, such as `CommandConnect`; none: all of them.
    """
    patches.wrap(Connection, "send", before_sending(change, *kinds))


def after(patches: Patches, owner: type, name: str, act: Callable[..., None]) -> None:
    """Let a method of the client be followed by something, with the same arguments."""

    def make(method: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **options: Any) -> Any:
            found = method(*args, **options)
            act(*args, **options)
            return found

        return changed

    patches.wrap(owner, name, make)
