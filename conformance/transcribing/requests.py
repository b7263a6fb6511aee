"""Which request each answer is for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from conformance.transcribing.recorded import Said, TranscribeProblem
from refimpl.wire.pulsar_api_pb2 import ServiceNotReady

_ANSWERS = {
    "connect": ("connected",),
    "producer": ("producer_success",),
    "lookupTopic": ("lookupTopicResponse",),
    "partitionMetadata": ("partitionMetadataResponse",),
    "ack": ("ackResponse",),
    "consumerStats": ("consumerStatsResponse",),
    "getLastMessageId": ("getLastMessageIdResponse",),
    "getTopicsOfNamespace": ("getTopicsOfNamespaceResponse",),
    "getSchema": ("getSchemaResponse",),
    "getOrCreateSchema": ("getOrCreateSchemaResponse",),
    "watchTopicList": ("watchTopicListSuccess",),
    **dict.fromkeys(("subscribe", "unsubscribe", "seek", "close_producer", "close_consumer", "watchTopicListClose"), ("success",)),
}
UNANSWERED = frozenset({"send", "flow", "redeliverUnacknowledgedMessages", "ack"})
"""What a client sends that gets no answer by its request id."""
PUSHED = frozenset(
    {
        *("send_receipt", "send_error", "message", "active_consumer_change", "reachedEndOfTopic"),
        *("close_consumer", "close_producer", "watchTopicUpdate"),
    }
)
"""What a broker sends by itself, or for what has no request id."""


def check_commands(said: Sequence[Said]) -> None:
    """Refuse commands that no transcript is made of.

    Raises:
        TranscribeProblem: There is one.
    """
    answers = {name for names in _ANSWERS.values() for name in names} | PUSHED | {"error"}
    for one in said:
        known = _ANSWERS.keys() | UNANSWERED if one.by_client else answers
        if one.name not in known:
            raise TranscribeProblem(
                f"connection {one.connection}: {one.name} is a command that can't be transcribed; choose others with --connection"
            )
        if one.name == "lookupTopicResponse" and one.message.response == one.message.Redirect:
            raise TranscribeProblem(f"connection {one.connection}: a look-up was redirected to another broker: capture one broker alone")


def requests_of(said: Sequence[Said]) -> dict[int, int]:
    """Find the request of each answer; both by their place in the conversation.

    Raises:
        TranscribeProblem: There is an answer without a request.
    """
    asked: defaultdict[tuple[int, int | None], list[int]] = defaultdict(list)
    for place, one in enumerate(said):
        if one.by_client and one.name in _ANSWERS:
            asked[_key(one)].append(place)
    found: dict[int, int] = {}
    for place, one in enumerate(said):
        if one.by_client or one.name in PUSHED:
            continue
        key = _key(one) if one.name != "error" or _key(one) in asked else (one.connection, None)
        request = next((number for number in asked[key] if one.name == "error" or one.name in _ANSWERS[said[number].name]), None)
        if request is None:
            raise TranscribeProblem(f"connection {one.connection}: {one.name} answers a request that is not in the capture")
        found[place] = request
        if one.name != "producer_success" or one.message.producer_ready:
            asked[key].remove(request)
    return found


def without_retries(said: Sequence[Said]) -> list[Said]:
    """Leave out requests that the broker was not ready for, with their refusals: the client asks again.

    Raises:
        TranscribeProblem: There is an answer without a request.
    """
    pairs = [(place, asked) for place, asked in requests_of(said).items() if _is_transient(said[place])]
    left_out = {place for pair in pairs for place in pair}
    return [one for place, one in enumerate(said) if place not in left_out]


def _is_transient(one: Said) -> bool:
    return (one.name == "error" and one.message.error == ServiceNotReady) or (
        one.name in ("lookupTopicResponse", "partitionMetadataResponse") and one.message.error == ServiceNotReady
    )


def _key(one: Said) -> tuple[int, int | None]:
    has_id = "request_id" in one.message.DESCRIPTOR.fields_by_name
    return one.connection, one.message.request_id if has_id else None
