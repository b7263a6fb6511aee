"""Tokens of roles, and the setting of the brokers that accept them."""

import base64

import jwt

_KEY = b"k" * 32
TOKEN_SECRET_KEY = f"data:;base64,{base64.b64encode(_KEY).decode()}"


def tokens(*roles: str) -> dict[str, str]:
    return {role: jwt.encode({"sub": role}, _KEY, algorithm="HS256") for role in roles}
