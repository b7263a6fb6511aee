"""Names of topics as users and clients write them: ordinary or scalable, short or full."""

from __future__ import annotations

from refimpl.broker.names import parse_topic
from refimpl.names import TopicName
from refimpl.proposals.scalable_topics.layout import SCALABLE, SEGMENT, parse_scalable_topic


def topic_name(text: str) -> TopicName:
    """Parse a name.

    Raises:
        Refused: It is none.
    """
    return parse_scalable_topic(text) if text.startswith((f"{SCALABLE}://", f"{SEGMENT}://")) else parse_topic(text)
