"""Requests that wait for their answers.

An answer belongs to the request of the same kind with the same `request_id`. Requests of different kinds may use the same id, and
ERROR answers any of them (core.client.pending-by-kind).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from google.protobuf.message import Message

from refimpl import proposals
from refimpl.client.errors import BrokerRefused, ClientError
from refimpl.client.scheduler import Pending, Scheduler
from refimpl.wire import command, command_name, sub_message
from refimpl.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandGetLastMessageId,
    CommandGetSchema,
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandProducer,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
)

_SUCCESS = ("success",)
_OF_THE_CORE: Mapping[type[Message], tuple[str, ...]] = MappingProxyType(
    {
        CommandAck: ("ackResponse",),
        CommandCloseConsumer: _SUCCESS,
        CommandCloseProducer: _SUCCESS,
        CommandGetLastMessageId: ("getLastMessageIdResponse",),
        CommandGetSchema: ("getSchemaResponse",),
        CommandGetTopicsOfNamespace: ("getTopicsOfNamespaceResponse",),
        CommandLookupTopic: ("lookupTopicResponse",),
        CommandPartitionedTopicMetadata: ("partitionMetadataResponse",),
        CommandProducer: ("producer_success",),
        CommandSeek: _SUCCESS,
        CommandSubscribe: _SUCCESS,
        CommandUnsubscribe: _SUCCESS,
    }
)


def answers() -> dict[type[Message], tuple[str, ...]]:
    """Return the answers to each request of a client other than ERROR, by their fields in `BaseCommand`."""
    added = (one for proposal in proposals.PROPOSALS for one in proposal.commands if one.sender == "client" and one.answers)
    return {**_OF_THE_CORE, **{type(sub_message(command(one.name))): one.answers for one in added}}


def refusal_of(answer: BaseCommand) -> BrokerRefused | None:
    """Return the error of an answer; None if the request succeeded."""
    if answer.type == BaseCommand.ERROR:
        return BrokerRefused(answer.error.error, answer.error.message)
    if answer.type == BaseCommand.LOOKUP_RESPONSE:
        lookup = answer.lookupTopicResponse
        return BrokerRefused(lookup.error, lookup.message) if lookup.response == CommandLookupTopicResponse.Failed else None
    if answer.type == BaseCommand.PARTITIONED_METADATA_RESPONSE:
        metadata = answer.partitionMetadataResponse
        failed = metadata.response == CommandPartitionedTopicMetadataResponse.Failed
        return BrokerRefused(metadata.error, metadata.message) if failed else None
    if answer.type == BaseCommand.GET_SCHEMA_RESPONSE and answer.getSchemaResponse.HasField("error_code"):
        return BrokerRefused(answer.getSchemaResponse.error_code, answer.getSchemaResponse.error_message)
    if answer.type == BaseCommand.ACK_RESPONSE and answer.ackResponse.HasField("error"):
        return BrokerRefused(answer.ackResponse.error, answer.ackResponse.message)
    return None


@dataclass(frozen=True)
class _Waiting:
    pending: Pending[BaseCommand]
    keys: list[tuple[str, int]]


class RequestTable:
    """The unanswered requests of one connection.

    Attributes:
        kinds: The fields in `BaseCommand` of all possible answers other than ERROR.
        deferred: Ids of the requests whose producers the broker has put behind others: the answer comes when it is their turn, if ever.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._answers = answers()
        self.kinds = tuple(sorted({name for names in self._answers.values() for name in names}))
        self._waiting: dict[tuple[str, int], _Waiting] = {}
        self.deferred: set[int] = set()

    def is_answered(self, message: Message) -> bool:
        """Return whether a command is a request."""
        return type(message) in self._answers

    def expect(self, request: Message) -> Pending[BaseCommand]:
        """Register a request and return its pending answer.

        Returns:
            The answer, even if it is ERROR.

        Raises:
            ValueError: The command has no answer, or its id is in use.
        """
        names = self._answers.get(type(request))
        if names is None:
            raise ValueError(f"{type(request).__name__} is not a request: send it without waiting for an answer")
        request_id = cast(Any, request).request_id
        keys = [(name, request_id) for name in names]
        if any(key in self._waiting for key in keys):
            raise ValueError(f"request_id {request_id} is in use: take one from new_request_id()")
        pending: Pending[BaseCommand] = Pending(self._scheduler)
        self._waiting.update(dict.fromkeys(keys, _Waiting(pending, keys)))
        return pending

    def answered(self, answer: BaseCommand) -> bool:
        """Complete the request that an answer belongs to; return whether there is one."""
        request_id = cast(Any, sub_message(answer)).request_id
        names = self.kinds if answer.type == BaseCommand.ERROR else (command_name(answer),)
        waiting = next((found for name in names if (found := self._waiting.get((name, request_id)))), None)
        if waiting is None:
            return False
        if answer.type == BaseCommand.PRODUCER_SUCCESS and not answer.producer_success.producer_ready:
            self.deferred.add(request_id)
            return True
        for key in waiting.keys:
            del self._waiting[key]
        waiting.pending.succeed(answer)
        return True

    def give_up(self, request_id: int, error: ClientError) -> None:
        """Fail a request whose producer the broker has put behind others, because its turn will not come."""
        if request_id in self.deferred and (waiting := self._waiting.pop(("producer_success", request_id), None)) is not None:
            waiting.pending.fail(error)

    def fail_all(self, error: ClientError) -> None:
        """Fail all requests."""
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.pending.fail(error)
