"""Tokens of roles, signed with the key that tests give their brokers."""

import jwt


def tokens(*roles: str) -> dict[str, str]:
    return {role: jwt.encode({"sub": role}, b"k" * 32, algorithm="HS256") for role in roles}
