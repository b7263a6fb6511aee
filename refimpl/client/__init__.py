"""The reference client without I/O: the caller passes in bytes and the time, opens its connections, and sends its output.

    core = ClientCore("pulsar://127.0.0.1:6650", random=random.Random(0))
    with core.entered(now):
        creating = core.create_producer("persistent://public/default/t")
    for connection in core.connections_to_open(): ...      # connect to its target, then call opened(), receive(), data_to_send()

`refimpl.net.client` is this client for asyncio.
"""

from refimpl.client.client import ClientCore
from refimpl.client.connection import Connection
from refimpl.client.errors import (
    BrokerRefused,
    ClientError,
    Closed,
    ConnectionLost,
    InvalidMessage,
    ProtocolError,
    QueueFull,
    TimedOut,
)
from refimpl.client.messages import EARLIEST, LATEST, Message, MessageId, OutgoingMessage
from refimpl.client.multi_topics_consumer import MultiTopicsConsumer
from refimpl.client.names import Target
from refimpl.client.options import ClientOptions, ConsumerOptions, ProducerOptions
from refimpl.client.partitioned_producer import PartitionedProducer
from refimpl.client.pattern_consumer import PatternConsumer
from refimpl.client.producer_stats import ProducerStats
from refimpl.client.scalable_consumer import NamespaceConsumer
from refimpl.client.scheduler import Pending, Scheduler
from refimpl.client.schemas import avro_schema, json_schema
from refimpl.proposals.message_filter import MessageFilterPolicy

__all__ = [
    "EARLIEST",
    "LATEST",
    "BrokerRefused",
    "ClientCore",
    "ClientError",
    "ClientOptions",
    "Closed",
    "Connection",
    "ConnectionLost",
    "ConsumerOptions",
    "InvalidMessage",
    "Message",
    "MessageFilterPolicy",
    "MessageId",
    "MultiTopicsConsumer",
    "NamespaceConsumer",
    "OutgoingMessage",
    "PartitionedProducer",
    "PatternConsumer",
    "Pending",
    "ProducerOptions",
    "ProducerStats",
    "ProtocolError",
    "QueueFull",
    "Scheduler",
    "Target",
    "TimedOut",
    "avro_schema",
    "json_schema",
]
