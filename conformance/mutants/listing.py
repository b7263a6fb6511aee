"""What the brokers that lie about lists have in common: how to change a list, and nothing but a list."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

from conformance.mutants.model import Patches
from refimpl.broker import PROPOSALS, Broker, Session, lookups
from refimpl.proposals.topic_list import TopicListBroker
from refimpl.wire.pulsar_api_pb2 import CommandGetTopicsOfNamespace, CommandGetTopicsOfNamespaceResponse

Request = CommandGetTopicsOfNamespace
Answer = CommandGetTopicsOfNamespaceResponse


@dataclass(frozen=True)
class Matcher:
    """Stands in for a pattern.

    Attributes:
        matches: Tells whether it fits `tenant/namespace/local-name`.
    """

    matches: Callable[[str], bool]


def change_topics(patches: Patches, change: Callable[[Session, Request, list[str]], Iterable[str]]) -> None:
    """Change what a list is made of.

    Args:
        patches: Of the mutant.
        change: Gets the request and the full names of the topics that have its mode; returns those to take instead.
    """
    topics_of = lookups._topics
    patches.replace(lookups, "_topics", lambda session, request: change(session, request, list(topics_of(session, request))))


def change_answers(patches: Patches, change: Callable[[TopicListBroker, Request, Sequence[str], Answer], object]) -> None:
    """Change the answer to a request for a list, in place.

    Args:
        patches: Of the mutant.
        change: Gets also the topics that have the mode of the request, system topics included.
    """
    get_topics = TopicListBroker.get_topics

    def changed(lists: TopicListBroker, request: Request, topics: Iterable[str]) -> Answer:
        present = list(topics)
        answer = get_topics(lists, request, present)
        change(lists, request, present, answer)
        return answer

    patches.replace(TopicListBroker, "get_topics", changed)


def while_listing(patches: Patches, owner: Any, name: str, value: Any) -> None:
    """Replace an attribute of a class or module whenever a list is made; watchers go on without the change."""
    get_topics = TopicListBroker.get_topics

    def changed(lists: TopicListBroker, request: Request, topics: Iterable[str]) -> Answer:
        present, inner = list(topics), Patches()
        inner.replace(owner, name, value)
        try:
            return get_topics(lists, request, present)
        finally:
            inner.undo()

    patches.replace(TopicListBroker, "get_topics", changed)


def hash_in_order(names: Iterable[str]) -> str:
    """Hash names as `topics_hash` does, in the order given."""
    return crc32c(",".join(names).encode()).to_bytes(4, "little").hex()


def before_pip145(patches: Patches) -> None:
    """Let the broker be one from before the proposal."""
    make_broker = Broker.__init__

    def changed(broker: Broker, *args: Any, **settings: Any) -> None:
        make_broker(broker, *args, **(settings | {"proposals": settings.get("proposals", PROPOSALS) - {"pip145"}}))

    patches.replace(Broker, "__init__", changed)
