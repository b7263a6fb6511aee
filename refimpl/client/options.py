"""What can be chosen, with the values that Pulsar's own clients begin with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Literal

from refimpl.client.messages import LATEST, MessageId
from refimpl.proposals.message_filter import MessageFilterPolicy
from refimpl.proposals.uniform_batches import allowed_values, check_combination
from refimpl.wire import compress
from refimpl.wire.pulsar_api_pb2 import NONE, CommandSubscribe, ProducerAccessMode, Schema

PartitionsUpdateListener = Callable[[tuple[str, ...], tuple[int, ...]], Awaitable[object] | None]
"""Is called with topics and the number of partitions of each. Below `refimpl.net` what it returns is a `Pending`, or None."""

CLIENT_VERSION = f"pulsar-conformance {version('pulsar-conformance')}"


@dataclass(frozen=True)
class ClientOptions:
    """Choices for a whole client.

    Attributes:
        token: Shown to the broker as the credential; called anew for each connection and each challenge. None: no credential.
        operation_timeout: Seconds until a request without an answer fails, and until the first attempts to attach are given up.
        connection_timeout: Seconds for dialling and handshake together.
        keep_alive_interval: Seconds between two PING; a peer that is silent for one interval after a PING is given up.
        listener_name: The broker's advertised listener to be used; None: its default.
        client_version: What CONNECT calls the client.
    """

    token: Callable[[], str] | None = None
    operation_timeout: float = 30.0
    connection_timeout: float = 10.0
    keep_alive_interval: float = 30.0
    listener_name: str | None = None
    client_version: str = CLIENT_VERSION

    def __post_init__(self) -> None:
        for name in ("operation_timeout", "connection_timeout", "keep_alive_interval"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is a number of seconds above 0, not {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class PartitionGrowthOptions:
    """What producers and consumers alike can choose about topics that get more partitions.

    Attributes:
        auto_update_partitions: Whether partitions that a topic gets later are attached to.
        auto_update_partitions_interval: Seconds between two looks at their number, where the broker does not tell it.
        enable_notification_for_partition_update: Whether the broker is asked to tell it (PIP-247), if it can.
        partitions_update_listener: Is called with topics and their numbers of partitions whenever these are told, after new ones were
            attached to; if it raises, or what it returns fails, the broker tells them again.
    """

    auto_update_partitions: bool = True
    auto_update_partitions_interval: float = 60.0
    enable_notification_for_partition_update: bool = True
    partitions_update_listener: PartitionsUpdateListener | None = None

    def __post_init__(self) -> None:
        if not self.auto_update_partitions_interval > 0:
            seconds = self.auto_update_partitions_interval
            raise ValueError(f"auto_update_partitions_interval is a number of seconds above 0, not {seconds!r}")


@dataclass(frozen=True)
class ProducerOptions(PartitionGrowthOptions):
    """Choices for a producer, beside those of `PartitionGrowthOptions`.

    Attributes:
        name: The producer's name; None: the broker makes one up. With a name the sequence goes on where the last one of that name ended.
        batching: Whether messages are put together.
        batch_messages: Most messages in a batch.
        batch_bytes: Most bytes of a batch, before compression.
        batch_delay: Seconds that a message waits for others at most.
        compression: A `CompressionType`.
        max_pending_messages: Most messages that may wait for their receipts.
        send_timeout: Seconds until a message without a receipt fails; 0: never.
        access_mode: A `ProducerAccessMode`; those that wait for exclusive access are not supported.
        schema: What the payloads are written by, for others to read them; see `avro_schema` and `json_schema`. None: it is not said.
        properties: Shown to whoever looks at the topic's producers.
        restrict_same_values_in_batch_properties: PIP-191: allowed values by property name. Only messages that agree in them share a
            batch, whose header shows them to the broker's entry filters; empty: batches are made without regard to properties.
        batch_of_one: PIP-191: how a batch of one message is written with that setting, see `UniformBatchesProfile`; None: as the client's
            profile says.
        batcher: `key_based`, a batch for each key, is not supported.
    """

    name: str | None = None
    batching: bool = True
    batch_messages: int = 1000
    batch_bytes: int = 128 * 1024
    batch_delay: float = 0.001
    compression: int = NONE
    max_pending_messages: int = 1000
    send_timeout: float = 30.0
    access_mode: int = ProducerAccessMode.Shared
    schema: Schema | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    restrict_same_values_in_batch_properties: Mapping[str, Sequence[str]] = field(default_factory=dict)
    batch_of_one: Literal["batch", "java_single"] | None = None
    batcher: Literal["default", "key_based"] = "default"

    def __post_init__(self) -> None:
        allowed = allowed_values(self.restrict_same_values_in_batch_properties)
        check_combination(allowed, key_based=self.batcher == "key_based")
        if self.batcher != "default":
            raise ValueError(f"batcher {self.batcher!r} is not supported")
        if self.batch_of_one not in (None, "batch", "java_single"):
            raise ValueError(f"batch_of_one is 'batch' or 'java_single', not {self.batch_of_one!r}")
        if not self.batch_delay >= 0:
            raise ValueError(f"batch_delay is a number of seconds from 0, not {self.batch_delay!r}")
        compress(b"", self.compression)
        if min(self.batch_messages, self.batch_bytes, self.max_pending_messages) < 1:
            raise ValueError("batch_messages, batch_bytes and max_pending_messages are at least 1")
        if self.access_mode not in (ProducerAccessMode.Shared, ProducerAccessMode.Exclusive, ProducerAccessMode.ExclusiveWithFencing):
            raise ValueError(f"access mode {self.access_mode} is not supported")
        super().__post_init__()


@dataclass(frozen=True)
class ConsumerOptions(PartitionGrowthOptions):
    """Choices for a consumer, beside those of `PartitionGrowthOptions`.

    Attributes:
        subscription: Its name.
        type: A `CommandSubscribe.SubType`.
        initial_position: Where a new subscription begins, a `CommandSubscribe.InitialPosition`.
        durable: Whether the broker keeps the subscription; a reader's is not.
        start_message_id: After which message a subscription that is not durable begins.
        queue_size: Messages that the broker may send ahead of the application.
        name: The consumer's name; None: one is made up.
        priority: Of shared consumers those with the lowest number are served first.
        read_compacted: Whether only the last message of each key is wanted, of a compacted topic.
        force_topic_creation: Whether subscribing may create the topic.
        negative_ack_delay: Seconds until a message that was refused is asked for again.
        properties: Shown to whoever looks at the subscription's consumers.
        subscription_properties: Kept with a subscription that is created.
        schema: What the consumer reads by; None: whatever the topic has.
        message_filter_policy: Which messages are wanted; None: all. All consumers of a subscription have the same.
        without_message_filters: What to do where the broker has no message filters: `refuse` to subscribe, or `filter` here.
    """

    subscription: str
    type: int = CommandSubscribe.Exclusive
    initial_position: int = CommandSubscribe.Latest
    durable: bool = True
    start_message_id: MessageId = LATEST
    queue_size: int = 1000
    name: str | None = None
    priority: int = 0
    read_compacted: bool = False
    force_topic_creation: bool = True
    negative_ack_delay: float = 60.0
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    schema: Schema | None = None
    message_filter_policy: MessageFilterPolicy | None = None
    without_message_filters: Literal["refuse", "filter"] = "refuse"

    def __post_init__(self) -> None:
        if self.queue_size < 1:
            raise ValueError(f"queue_size is at least 1, not {self.queue_size}")
        if self.type not in CommandSubscribe.SubType.values():
            raise ValueError(f"{self.type} is no subscription type")
        if self.initial_position not in CommandSubscribe.InitialPosition.values():
            raise ValueError(f"{self.initial_position} is no initial position")
        if self.without_message_filters not in ("refuse", "filter"):
            raise ValueError(f"without_message_filters is refuse or filter, not {self.without_message_filters!r}")
        super().__post_init__()

    @property
    def ordered(self) -> bool:
        """Return whether messages come in their order, to one consumer at a time."""
        return self.type in (CommandSubscribe.Exclusive, CommandSubscribe.Failover)
