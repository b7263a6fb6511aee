"""The options of clients, producers and consumers, with the defaults of Pulsar's own clients."""

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
"""Called with topics and the partition count of each. Below `refimpl.net` it returns a `Pending` or None."""

CLIENT_VERSION = f"pulsar-conformance {version('pulsar-conformance')}"


@dataclass(frozen=True)
class ClientOptions:
    """Options of a client.

    Attributes:
        token: Returns the authentication token; called for each connection and each challenge. None: no authentication.
        operation_timeout: Seconds until an unanswered request fails, and until the first attempts to attach are given up.
        connection_timeout: Seconds for connecting and handshake together.
        keep_alive_interval: Seconds between two PINGs; the connection ends if the peer is silent for an interval after a PING.
        listener_name: The advertised listener to use; None: the broker's default.
        client_version: The client's version string in CONNECT.
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
    """Options of producers and consumers for topics that get more partitions.

    Attributes:
        auto_update_partitions: Whether to attach to new partitions.
        auto_update_partitions_interval: Seconds between two polls of the count, if the broker does not notify the client.
        enable_notification_for_partition_update: Whether to watch the count (PIP-247), if the broker supports it.
        partitions_update_listener: Called with topics and their partition counts after each notification, once new partitions are
            attached. If it raises or its result fails, the broker resends the notification.
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
    """Options of a producer, in addition to `PartitionGrowthOptions`.

    Attributes:
        name: The producer's name; None: the broker generates one. A named producer continues the sequence ids of the last one with its
            name.
        batching: Whether to batch messages.
        chunking: Whether to send a message that is larger than the broker accepts in chunks. They are not batched.
        batch_messages: Maximum number of messages in a batch.
        batch_bytes: Maximum size of a batch in bytes, before compression.
        batch_delay: Maximum time in seconds that a message waits for others.
        compression: A `CompressionType`.
        max_pending_messages: Maximum number of messages that wait for their receipts.
        send_timeout: Seconds until a message without a receipt fails; 0: never.
        access_mode: A `ProducerAccessMode`. With `WaitForExclusive` the producer is there when no other is, however long that takes.
        schema: The schema of the payloads, see `avro_schema` and `json_schema`; None: none.
        properties: The properties of the producer, which topic stats show.
        restrict_same_values_in_batch_properties: PIP-191: allowed values by property name. Only messages that agree in them share a
            batch, whose header shows them to the broker's entry filters; empty: properties do not matter.
        batch_of_one: PIP-191: how to write a batch of one message with that setting, see `UniformBatchesProfile`; None: as in the
            client's profile.
        batcher: `key_based`, a batch for each key, is not supported.
    """

    name: str | None = None
    batching: bool = True
    chunking: bool = False
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
            raise ValueError(f"batcher {self.batcher!r} is not supported; only 'default' is")
        if self.batch_of_one not in (None, "batch", "java_single"):
            raise ValueError(f"batch_of_one is 'batch' or 'java_single', not {self.batch_of_one!r}")
        if not self.batch_delay >= 0:
            raise ValueError(f"batch_delay is a number of seconds from 0, not {self.batch_delay!r}")
        compress(b"", self.compression)
        if min(self.batch_messages, self.batch_bytes, self.max_pending_messages) < 1:
            raise ValueError("batch_messages, batch_bytes and max_pending_messages are at least 1")
        if self.access_mode not in ProducerAccessMode.values():
            raise ValueError(f"access_mode is a ProducerAccessMode, not {self.access_mode}")
        super().__post_init__()


@dataclass(frozen=True)
class ConsumerOptions(PartitionGrowthOptions):
    """Options of a consumer, in addition to `PartitionGrowthOptions`.

    Attributes:
        subscription: Its name.
        type: A `CommandSubscribe.SubType`.
        initial_position: Where a new subscription starts, a `CommandSubscribe.InitialPosition`.
        durable: Whether the broker keeps the subscription; a reader's is not.
        start_message_id: The message after which a non-durable subscription starts.
        queue_size: Number of messages that the broker may send before the application receives them.
        name: The consumer's name; None: the client generates one.
        priority: The priority level; shared consumers with the lowest number receive messages first.
        read_compacted: Whether to read only the last message of each key, on a compacted topic.
        force_topic_creation: Whether subscribing may create the topic.
        negative_ack_delay: Seconds before a negatively acknowledged message is redelivered.
        properties: The properties of the consumer, which topic stats show.
        subscription_properties: The properties of a new subscription.
        schema: The schema of the consumer; None: any schema of the topic.
        message_filter_policy: Which messages are wanted; None: all. All consumers of a subscription need the same policy.
        without_message_filters: What to do if the broker has no message filters: `refuse` to subscribe, or `filter` in the client.
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
            raise ValueError(f"type is a CommandSubscribe.SubType, not {self.type}")
        if self.initial_position not in CommandSubscribe.InitialPosition.values():
            raise ValueError(f"initial_position is a CommandSubscribe.InitialPosition, not {self.initial_position}")
        if self.without_message_filters not in ("refuse", "filter"):
            raise ValueError(f"without_message_filters is refuse or filter, not {self.without_message_filters!r}")
        super().__post_init__()

    @property
    def ordered(self) -> bool:
        """Return whether the subscription delivers messages in order to one consumer at a time."""
        return self.type in (CommandSubscribe.Exclusive, CommandSubscribe.Failover)
