"""Authentication and authorization: tokens, roles, permissions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from refimpl.configuration import Configuration
from refimpl.proposals.refused import Refused
from refimpl.store import MemoryStore
from refimpl.wire.pulsar_api_pb2 import AuthenticationError, AuthorizationError

ACTIONS = frozenset({"produce", "consume", "functions", "sources", "sinks", "packages"})
_DATA_URL = "data:;base64,"


class Authorization:
    """Checks tokens and permissions by configuration and store. Without authentication, the role is None and may do everything.

    Args:
        configuration: The settings of the broker.
        store: What tenants and namespaces have stored of permissions.
        time_of_day: Returns the seconds since 1970.

    Raises:
        ValueError: `tokenSecretKey` is missing or invalid.
    """

    def __init__(self, configuration: Configuration, store: MemoryStore, time_of_day: Callable[[], float]) -> None:
        self._store = store
        self._time_of_day = time_of_day
        self._authenticates = configuration.authentication_enabled
        self._authorizes = configuration.authorization_enabled
        self._super_users = {role.strip() for role in configuration.super_user_roles.split(",") if role.strip()}
        self._key = _secret(configuration.token_secret_key) if self._authenticates else b""

    def authenticate(self, method: str, token: str) -> str | None:
        """Return the role of a CONNECT or an admin call; None if authentication is off.

        Args:
            method: Name of the authentication method; only `token` is supported.
            token: The token.

        Raises:
            Refused: AuthenticationError.
        """
        if not self._authenticates:
            return None
        role = None
        if method == "token":
            from refimpl.broker import tokens  # noqa: PLC0415 -- what it needs takes 8 MB, which few brokers need

            role = tokens.subject(token, self._key, self._time_of_day())
        if not role:
            raise Refused(AuthenticationError, "Failed to authenticate")
        return role

    def expires(self, token: str) -> float | None:
        """Return when a valid token expires, in seconds since 1970; None: never, or authentication is off."""
        if not self._authenticates:
            return None
        from refimpl.broker import tokens  # noqa: PLC0415

        return tokens.expiry(token)

    def is_super_user(self, role: str | None) -> bool:
        """Return whether a role may do everything."""
        return not self._authorizes or role in self._super_users

    def administers(self, role: str | None, tenant: str) -> bool:
        """Return whether a role may do everything in a tenant."""
        return self.is_super_user(role) or role in self._store.tenants.get(tenant, ())

    def allows(self, role: str | None, namespace: str, *actions: str) -> bool:
        """Return whether a role has permission for one of the actions in a namespace."""
        if self.administers(role, namespace.partition("/")[0]):
            return True
        stored = self._store.namespaces.get(namespace)
        granted = stored.permissions.get(role or "", set()) if stored else set()
        return not granted.isdisjoint(actions)

    def check(self, role: str | None, namespace: str, what: str, *actions: str) -> None:
        """Check that a role has permission for a request.

        Args:
            role: The role.
            namespace: The namespace.
            what: The request's purpose, for the error message.
            actions: The role needs one of them.

        Raises:
            Refused: AuthorizationError.
        """
        if not self.allows(role, namespace, *actions):
            raise Refused(AuthorizationError, f"Client is not authorized to {what}")

    def knows_tenant(self, namespace: str) -> bool:
        """Return whether the tenant of a namespace exists."""
        return namespace.partition("/")[0] in self._store.tenants


def _secret(text: str) -> bytes:
    if not text.startswith(_DATA_URL):
        raise ValueError(f"authenticationEnabled needs tokenSecretKey in the form {_DATA_URL}...")
    try:
        return base64.b64decode(text.removeprefix(_DATA_URL), validate=True)
    except binascii.Error:
        raise ValueError("tokenSecretKey: what follows the comma is not base64") from None
