"""Bytes of lists and watches of PIP-145, for notebooks."""

from __future__ import annotations

from refimpl.wire import DEFAULT_MAX_FRAME_SIZE, command, encode_frame

_ASKED = {"request_id": 9, "namespace": "shop/eu", "topics_pattern": "persistent://shop/eu/order-.*"}
_HASH = "00000000"


def an_hour(topics: int, matching: int, created: int, polls: int = 60) -> dict[str, int]:
    """Return how many bytes one subscription to a pattern costs in an hour, in both directions, by the way in which it learns of topics.

    Args:
        topics: All topics of the namespace.
        matching: How many of them match the pattern.
        created: How many matching topics are created in the hour, one at a time.
        polls: How often the client asks.
    """
    unfiltered = _size("getTopicsOfNamespace", request_id=9, namespace="shop/eu")
    filtered = _size("getTopicsOfNamespace", **_ASKED)
    hashed = _size("getTopicsOfNamespace", **_ASKED, topics_hash=_HASH)
    unchanged = _size("getTopicsOfNamespaceResponse", request_id=9, topics_hash=_HASH, filtered=True, changed=False)
    watched = _size("watchTopicList", **_ASKED, watcher_id=0, topics_hash=_HASH)
    nothing_new = _size("watchTopicListSuccess", request_id=9, topics_hash=_HASH, watcher_id=0)
    update = _size("watchTopicUpdate", watcher_id=0, new_topics=[topic(0)], topics_hash=_HASH)
    return {
        "whole list": polls * (unfiltered + list_size(topics)),
        "with a pattern": polls * (filtered + list_size(matching)),
        "with pattern and hash": polls * hashed + (polls - created) * unchanged + created * list_size(matching),
        "watch": polls * (watched + nothing_new) + list_size(matching) + created * update,
    }


def list_size(topics: int) -> int:
    """Return how many bytes the answer with so many topics has."""
    return _size("getTopicsOfNamespaceResponse", request_id=9, topics_hash=_HASH, topics=map(topic, range(topics)))


def most_topics() -> int:
    """Return how many names of this length one answer can have: it is one frame, and those have a limit."""
    each = (list_size(100) - list_size(10)) / 90
    return int((DEFAULT_MAX_FRAME_SIZE - list_size(0)) / each)


def topic(number: int) -> str:
    """Return the name of a topic that matches."""
    return f"persistent://shop/eu/order-{number:06}"


def _size(name: str, **fields: object) -> int:
    return len(encode_frame(command(name, **fields)))
