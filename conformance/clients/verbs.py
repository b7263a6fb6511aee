"""What a driver can be asked, and what it tells: arguments of verbs and details of events, as docs/drivers.md says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

Compression = Literal["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"]
Position = Literal["Earliest", "Latest"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Batch(_Part):
    """When a batch is closed: at the first of these limits; what is missing shall not close it early."""

    messages: PositiveInt = 1000
    bytes: PositiveInt | None = Field(default=None, description="of the payloads and properties together")
    delay_ms: PositiveInt = 60_000
    key_based: bool = False


class Filter(_Part):
    """A message filter of PR 7629."""

    class_name: str
    properties: dict[str, str] = {}


class ListenerOf(_Part):
    """How the listener of PIP-247 behaves."""

    fails: list[PositiveInt] = Field(default=[], description="the calls that fail, counted from 1 for each producer or consumer")
    takes_ms: NonNegativeInt = 0


class _Growth(_Part):
    """Options about partitions, of producers and of consumers of a topic or a pattern."""

    partitions_interval_ms: PositiveInt | None = Field(default=None, description="period of the poll")
    partition_notifications: bool = Field(default=True, description="whether the client may watch instead of polling")
    listener: ListenerOf = ListenerOf()


class Greet(_Part):
    """Who are you? No client exists yet."""

    protocol: int


class Begin(_Part):
    """A case begins."""

    service_url: str


class End(_Part):
    """A case ends: everything is closed, and all names are forgotten."""


class Start(_Part):
    """The client is created with options."""

    operation_timeout_ms: PositiveInt | None = None
    keep_alive_ms: PositiveInt | None = Field(default=None, description="period of the client's PING")
    listener_name: str | None = Field(default=None, description="the advertised listener that it uses")
    token: str | None = Field(default=None, description="the token that it shows; none: no authentication")


class Refresh(_Part):
    """The user has another token: a client with a token shows this one from now on, where it is asked for one."""

    token: str


class Producer(_Growth):
    """A producer is created."""

    name: str
    topic: str
    batch: Batch | None = Field(default=None, description="none: each message goes by itself")
    uniform: Any = Field(default=None, description="restrictSameValuesInBatchProperties of PIP-191: an object of lists of values")
    compression: Compression = "NONE"
    access: Literal["Shared", "Exclusive", "WaitForExclusive", "ExclusiveWithFencing"] = "Shared"
    as_: str | None = Field(default=None, alias="as", description="its name for the broker")
    chunks: bool = Field(default=False, description="whether it sends what is larger than a broker takes in chunks")
    send_timeout_ms: PositiveInt | None = None


class Send(_Part):
    """Texts are sent; a list has an element for each text."""

    producer: str
    texts: list[str]
    properties: list[dict[str, str]] | None = None
    keys: list[str] | None = None
    event_times: list[NonNegativeInt] | None = Field(default=None, description="milliseconds since 1970")
    sequence_ids: list[NonNegativeInt] | None = None
    deliver_after_ms: NonNegativeInt | None = None
    flush: bool = True


class Consumer(_Growth):
    """A subscription by a consumer of a topic, a pattern or a namespace: just one of them."""

    name: str
    subscription: str
    topic: str | None = None
    pattern: str | None = None
    namespace: str | None = Field(default=None, description="tenant/namespace: its scalable topics")
    type: Literal["Exclusive", "Shared", "Failover", "Key_Shared"] = "Exclusive"
    position: Position = "Latest"
    queue: NonNegativeInt = 1000
    as_: str | None = Field(default=None, alias="as", description="its name for the broker")
    nack_delay_ms: NonNegativeInt | None = None
    discovery_ms: PositiveInt | None = None
    property_filters: dict[str, str] | None = None
    filter: Filter | None = None
    own_filtering: bool = False
    takes: NonNegativeInt | None = Field(default=None, description="so many messages are taken, and no more until `take`")


class Reader(_Part):
    """A reader is created."""

    name: str
    topic: str
    position: Position = "Latest"
    takes: NonNegativeInt | None = Field(default=None, description="so many messages are taken, and no more until `take`")


class Take(_Part):
    """A consumer or reader with the option `takes` takes all messages from now on."""

    consumer: str


class Acknowledge(_Part):
    """A message is acknowledged."""

    consumer: str
    message: str
    cumulative: bool = False


class NegativeAcknowledge(_Part):
    """A message is given back."""

    consumer: str
    message: str


class Seek(_Part):
    """A consumer or reader goes to a position."""

    consumer: str
    to: str = Field(description="Earliest, Latest or the number of a message")


class Unsubscribe(_Part):
    """A consumer unsubscribes, and is gone."""

    consumer: str


class Close(_Part):
    """A producer, consumer or reader is closed."""

    name: str


class MessageEvent(_Part):
    """The user gets a message."""

    consumer: str
    message: str = Field(description="by which later requests name it")
    topic: str
    text: str
    properties: dict[str, str]
    redelivered: NonNegativeInt


class TopicsEvent(_Part):
    """The set of topics of a pattern or a namespace has changed."""

    consumer: str
    added: list[str]
    removed: list[str]


class PartitionsEvent(_Part):
    """The listener of PIP-247 is called."""

    of: str
    topics: list[str]
    counts: list[int]


VERBS: Final[Mapping[str, type[_Part]]] = MappingProxyType(
    {
        "hello": Greet,
        "begin": Begin,
        "end": End,
        "start": Start,
        "refresh": Refresh,
        "producer": Producer,
        "send": Send,
        "consumer": Consumer,
        "reader": Reader,
        "take": Take,
        "acknowledge": Acknowledge,
        "negative_acknowledge": NegativeAcknowledge,
        "seek": Seek,
        "unsubscribe": Unsubscribe,
        "close": Close,
    }
)
EVENTS: Final[Mapping[str, type[_Part]]] = MappingProxyType({"message": MessageEvent, "topics": TopicsEvent, "partitions": PartitionsEvent})


def problem(kinds: Mapping[str, type[_Part]], name: str, given: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the arguments of a verb or the detail of an event; None: nothing is.

    Args:
        kinds: `VERBS` or `EVENTS`.
        name: The verb or event.
        given: Its arguments or detail.
    """
    if name not in kinds:
        return f"{name} is unknown"
    try:
        kinds[name].model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, (name, *first['loc'])))}: {first['msg']}"
    return None
