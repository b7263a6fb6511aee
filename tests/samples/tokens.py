"""Tokens of roles, and the setting of the brokers that accept them."""

import base64
import time

import jwt

_KEY = b"k" * 32
TOKEN_SECRET_KEY = f"data:;base64,{base64.b64encode(_KEY).decode()}"


def tokens(*roles: str) -> dict[str, str]:
    return {role: jwt.encode({"sub": role}, _KEY, algorithm="HS256") for role in roles}


def expiring_token(role: str, seconds: int) -> str:
    """Sign a token that counts for so many seconds; fewer than 0: it has expired."""
    return jwt.encode({"sub": role, "exp": int(time.time()) + seconds}, _KEY, algorithm="HS256")
