"""PR 7629, the client's side: which messages a consumer wants, and which side filters them.

A policy describes the wanted messages. On each connection, the broker's feature flag decides which side filters: the broker; or
the client, if it is configured to; or neither. If neither does, the consumer does not subscribe, because it would receive unwanted
messages. `TRANSITIONS` is the state machine.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Literal

from refimpl.proposals.message_filter.kinds import (
    BASIC_AVRO_FILTER,
    BYTES_PREFIX_FILTER,
    PREFIX_BASE64_KEY,
    PREFIX_KEY,
    REGEX_FILTER,
    REGEX_KEY,
    FilterRegistry,
    MessageFilter,
    SchemaAccess,
)
from refimpl.proposals.message_filter.rules import BUILT_IN_REGISTRY, EntryJudgement, FilterCounters, judge, requested_filter
from refimpl.proposals.refused import Refused
from refimpl.proposals.state_machine import Table, Transition
from refimpl.wire import DEFAULT_MAX_MESSAGE_SIZE
from refimpl.wire.pulsar_api_pb2 import CommandSubscribe, FeatureFlags, FilterMeta, KeyValue, NotAllowedError

_NO_SCHEMAS = SchemaAccess()


@dataclass(frozen=True)
class MessageFilterPolicy:
    """Which messages a consumer wants: the name of a filter, and its properties.

    The static methods make policies for the built-in filters. Any other filter needs its name in the broker's registry.

    Attributes:
        class_name: The filter's name in the broker's registry.
        properties: The settings of the filter.
    """

    class_name: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.class_name:
            raise ValueError("a message filter has a class name")
        object.__setattr__(self, "properties", MappingProxyType(dict(self.properties)))

    @staticmethod
    def regex_filter_policy(pattern: str | re.Pattern[str]) -> MessageFilterPolicy:
        """Want messages whose whole payload matches a regular expression: pr7629.client.policies.

        Args:
            pattern: RE2 syntax. A compiled pattern is sent as its text; it can't have flags, because they would not reach the broker.

        Raises:
            ValueError: The pattern has flags.
        """
        if isinstance(pattern, re.Pattern):
            if pattern.flags & ~re.UNICODE:  # pr7629.client.pattern-flags
                raise ValueError("flags of a compiled pattern don't reach the broker; write them into the pattern, such as (?i)")
            pattern = pattern.pattern
        return MessageFilterPolicy(REGEX_FILTER, {REGEX_KEY: pattern})

    @staticmethod
    def bytes_prefix_filter_policy(prefix: bytes | str) -> MessageFilterPolicy:
        """Want messages whose payload starts with a prefix; a text means its UTF-8 bytes."""
        try:
            text = prefix if isinstance(prefix, str) else prefix.decode()
        except UnicodeDecodeError:
            return MessageFilterPolicy(BYTES_PREFIX_FILTER, {PREFIX_BASE64_KEY: base64.b64encode(bytes(prefix)).decode()})  # type: ignore[arg-type]
        return MessageFilterPolicy(BYTES_PREFIX_FILTER, {PREFIX_KEY: text})

    @staticmethod
    def basic_avro_filter_policy(fields: Mapping[str, str]) -> MessageFilterPolicy:
        """Want messages whose top-level fields have the given texts, by field name; the topic needs a schema."""
        return MessageFilterPolicy(BASIC_AVRO_FILTER, fields)

    def filter_meta(self) -> FilterMeta:
        """Return the FilterMeta for SUBSCRIBE: pr7629.client.sends-meta."""
        pairs = [KeyValue(key=key, value=value) for key, value in self.properties.items()]
        return FilterMeta(filter_class_name=self.class_name, filter_properties=pairs)


class MessageFilterState(Enum):
    """Which side filters."""

    OFFLINE = "there is no connection"
    BROKER = "the broker filters"
    CLIENT = "the client filters what the broker sends"
    REFUSED = "neither filters; the consumer does not subscribe"


class MessageFilterEvent(Enum):
    """The events of a consumer with a policy."""

    OFFERED = "a connection is ready, and its broker sets supports_message_filter"
    NOT_OFFERED = "a connection is ready, and its broker does not set it"
    DISCONNECTED = "the connection is lost"


def steps_in(consumer: ConsumerFilter) -> bool:
    """Return whether the client filters when the broker does not: pr7629.client.filters-itself."""
    return consumer.without_support == "filter"


_State, _Event = MessageFilterState, MessageFilterEvent

TRANSITIONS: tuple[Transition[MessageFilterState, MessageFilterEvent, Enum], ...] = (
    Transition(_State.OFFLINE, _Event.OFFERED, _State.BROKER),
    Transition(_State.OFFLINE, _Event.NOT_OFFERED, _State.CLIENT, when=steps_in),
    Transition(_State.OFFLINE, _Event.NOT_OFFERED, _State.REFUSED),
    Transition(_State.BROKER, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.CLIENT, _Event.DISCONNECTED, _State.OFFLINE),
    Transition(_State.REFUSED, _Event.DISCONNECTED, _State.OFFLINE),
)
"""The transitions of the client."""

IGNORED: Mapping[MessageFilterState, tuple[MessageFilterEvent, ...]] = MappingProxyType(
    {
        _State.OFFLINE: (_Event.DISCONNECTED,),
        _State.BROKER: (_Event.OFFERED, _Event.NOT_OFFERED),
        _State.CLIENT: (_Event.OFFERED, _Event.NOT_OFFERED),
        _State.REFUSED: (_Event.OFFERED, _Event.NOT_OFFERED),
    }
)
"""The events that each state ignores."""

_TABLE = Table(TRANSITIONS, IGNORED)


class ConsumerFilter:
    """The filter of one consumer.

    Args:
        policy: Which messages are wanted.
        without_support: What to do if the broker does not filter: `refuse` to subscribe, or `filter` in the client.
        registry: The filters that the client can run.
        max_message_size: Maximum size of a decompressed body, in bytes.

    Attributes:
        state: Which side filters on the current connection.
        without_support: What to do if the broker does not filter.
        counters: Counts of the messages that the client has judged.
    """

    def __init__(
        self,
        policy: MessageFilterPolicy,
        *,
        without_support: Literal["refuse", "filter"] = "refuse",
        registry: FilterRegistry = BUILT_IN_REGISTRY,
        max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE,
    ) -> None:
        self.policy = policy
        self.state = MessageFilterState.OFFLINE
        self.counters = FilterCounters()
        self.without_support = without_support
        self._registry = registry
        self._max_message_size = max_message_size
        self._own: MessageFilter | None = None

    def connected(self, flags: FeatureFlags | None) -> None:
        """Handle a new connection: pr7629.client.each-connection.

        Args:
            flags: Feature flags of CONNECTED; None: it had none.
        """
        self.disconnected()
        offered = flags is not None and flags.supports_message_filter
        self._happened(MessageFilterEvent.OFFERED if offered else MessageFilterEvent.NOT_OFFERED)

    def disconnected(self) -> None:
        """Handle the loss of the connection."""
        self._happened(MessageFilterEvent.DISCONNECTED)

    def prepare(self, request: CommandSubscribe, schemas: SchemaAccess | None = None) -> None:
        """Add the filter to a SUBSCRIBE for the current connection.

        Args:
            request: The SUBSCRIBE.
            schemas: The schemas of the topic that the client knows; needed only if the client filters.

        Raises:
            Refused: NotAllowedError: the client must not subscribe (pr7629.client.needs-flag), or it should filter and can't build the
                filter.
        """
        if self.state is MessageFilterState.BROKER:
            request.filter_meta.CopyFrom(self.policy.filter_meta())
        elif self.state is MessageFilterState.CLIENT:
            self._own = requested_filter(self.policy.filter_meta(), self._registry, schemas or _NO_SCHEMAS).filter
        else:
            name = self.policy.class_name
            raise Refused(NotAllowedError, f"The broker has no message filters, so {name} would let everything through")

    def judge(self, data: bytes, open_messages: frozenset[int] | None = None) -> EntryJudgement | None:
        """Judge a received entry if the client filters.

        The caller acknowledges the rejected messages and returns their permits: pr7629.client.own-acks.

        Args:
            data: Everything after the command in its frame.
            open_messages: For a batch, the indexes in `ack_set`; None: there is no `ack_set`.

        Returns:
            None if the broker filters, or before `prepare`.
        """
        if self.state is not MessageFilterState.CLIENT or self._own is None:
            return None
        judgement = judge(self._own, data, open_messages, max_size=self._max_message_size)
        self.counters.add(judgement)
        return judgement

    def _happened(self, event: MessageFilterEvent) -> None:
        row = _TABLE.row(self, self.state, event)
        if row is not None:
            self.state = row.target
