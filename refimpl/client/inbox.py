"""The receive queue of one or more consumers, in the order of arrival."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from refimpl.client.errors import ClientError
from refimpl.client.messages import Message
from refimpl.client.scheduler import Pending, Scheduler

if TYPE_CHECKING:
    from refimpl.client.consumer import Consumer


class Inbox:
    """Messages that wait for the application."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._messages: deque[tuple[Consumer, Message]] = deque()
        self._arrivals: list[Pending[None]] = []
        self._error: ClientError | None = None

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, consumer: Consumer, message: Message) -> None:
        """Add a message."""
        self._messages.append((consumer, message))
        self._announce()

    def take(self) -> Message | None:
        """Return the next message and notify its consumer; None if there is none.

        Raises:
            ClientError: There is none and none will come.
        """
        if self._messages:
            consumer, message = self._messages.popleft()
            consumer.taken(message)
            return message
        if self._error is not None:
            raise self._error.with_traceback(None)
        return None

    def arrival(self) -> Pending[None]:
        """Return a result that comes as soon as `take` has a message or an error; another caller may take it first."""
        pending: Pending[None] = Pending(self._scheduler)
        self._arrivals = [one for one in self._arrivals if not one.done] + [pending]
        if self._messages or self._error is not None:
            self._announce()
        return pending

    def drop(self, consumer: Consumer) -> int:
        """Drop the messages of one consumer; return their number."""
        before = len(self._messages)
        self._messages = deque(one for one in self._messages if one[0] is not consumer)
        return before - len(self._messages)

    def close(self, error: ClientError) -> None:
        """Accept no more messages; waiting messages can still be taken."""
        self._error = self._error or error
        self._announce()

    def _announce(self) -> None:
        arrivals, self._arrivals = self._arrivals, []
        for pending in arrivals:
            pending.succeed(None)
