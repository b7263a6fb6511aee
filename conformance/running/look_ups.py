"""The look-ups of one conversation with a cluster: redirects are followed, and it is noted which other broker serves a topic."""

from __future__ import annotations

import contextlib

from conformance.engine.actions import NAME_ANY_TOPIC
from conformance.running.owners import OWNER_NAMED, named_elsewhere
from conformance.targets.model import Endpoint, TargetError
from refimpl.wire import FrameDecoder, WireError, encode_frame, wrap
from refimpl.wire.commands import command_name, sub_message
from refimpl.wire.pulsar_api_pb2 import BaseCommand, CommandLookupTopic, CommandLookupTopicResponse

_LOOK_UP = bytes([0x08, BaseCommand.Type.LOOKUP])
_REDIRECTS = 3
"""Redirects of one look-up that are followed."""


class LookUps:
    """What a conversation has looked up, and where that led.

    Args:
        last: Whether the case is not held once more.

    Attributes:
        may_move: Whether the case has no namespaces that decide where it is held.
        elsewhere: The broker that serves what the case looks up, if this one does not.
    """

    def __init__(self, *, last: bool) -> None:
        self.may_move = False
        self.elsewhere: str | None = None
        self._last = last
        self._asked: dict[tuple[str, int], tuple[CommandLookupTopic, int]] = {}
        self._away: dict[str, str] = {}

    def remember(self, at: str, data: bytes) -> None:
        """Remember the LOOKUPs in what is sent, so that their answers are understood.

        Raises:
            TargetError: It is for the owner of a topic that another broker serves, and nothing keeps the case at this one.
        """
        if _LOOK_UP not in data and not self._away:
            return
        with contextlib.suppress(WireError):
            for frame in FrameDecoder().receive(data):
                name = command_name(frame.command)
                if name == "lookupTopic":
                    request = frame.command.lookupTopic
                    self._asked[at, request.request_id] = request, 0
                elif name not in NAME_ANY_TOPIC and (topic := getattr(sub_message(frame.command), "topic", "")) in self._away:
                    raise self._sent_on(topic, self._away[topic])

    def check(self, at: str, answer: CommandLookupTopicResponse, broker: Endpoint) -> None:
        """Note whether another broker serves a topic: a case that may move cannot use it here. One that only looks it up can go on."""
        asked = self._asked.get((at, answer.request_id))
        if self.may_move and asked is not None and answer.response == CommandLookupTopicResponse.Connect:
            there = named_elsewhere(broker, answer)
            if there is not None:
                self._away[asked[0].topic] = there

    def redirected(self, at: str, answer: CommandLookupTopicResponse) -> bytes | None:
        """Return the look-up that follows a redirect: on the same connection, since a case talks to one broker.

        Raises:
            TargetError: There were too many.
        """
        asked = self._asked.get((at, answer.request_id))
        if asked is None:
            return None
        request, redirects = asked
        if redirects == _REDIRECTS:
            error = self._sent_on(request.topic, answer.brokerServiceUrl or answer.brokerServiceUrlTls)
            # each time it was sent on, the case was held where it was sent
            raise TargetError("a look-up leads from broker to broker", clause=OWNER_NAMED) if self._last else error
        self._asked[at, answer.request_id] = request, redirects + 1
        again = CommandLookupTopic()
        again.CopyFrom(request)
        again.authoritative = answer.authoritative
        return encode_frame(wrap(again))

    def _sent_on(self, topic: str, there: str) -> TargetError:
        self.elsewhere = there
        return TargetError(f"{topic} is served by another broker, at {there}")
