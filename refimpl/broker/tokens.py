"""Tokens: JSON Web Tokens, signed with HS256."""

import math

import jwt
from jwt.types import Options

_TIMES_ARE_CHECKED_HERE: Options = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}


def subject(token: str, key: bytes, now: float) -> str | None:
    """Return whom a token is about; None if it is not valid.

    Args:
        token: The token.
        key: The key that it has to be signed with.
        now: The time, in seconds since 1970: a token may expire, and begin to hold later.
    """
    try:
        claims = jwt.decode(token, key, algorithms=["HS256"], options=_TIMES_ARE_CHECKED_HERE)
    except (jwt.InvalidTokenError, UnicodeError):
        return None
    begins, expires, about = claims.get("nbf", 0), claims.get("exp", math.inf), claims.get("sub")
    holds = isinstance(begins, int | float) and isinstance(expires, int | float) and begins <= now < expires
    return about if holds and isinstance(about, str) else None


def expiry(token: str) -> float | None:
    """Return when a valid token expires, in seconds since 1970; None: never."""
    return jwt.decode(token, options={"verify_signature": False}).get("exp")
