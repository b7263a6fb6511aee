"""What the backdrop itself has refused to a client, for a person who wonders why nothing more came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from conformance.engine import log
from conformance.engine.matching import see
from refimpl.wire.pulsar_api_pb2 import BaseCommand, ServerError


def refusals(events: Iterable[log.Event]) -> str:
    """Say which requests of the client the backdrop refused, and how often, without what rules of the case refused.

    Returns:
        Such as "the backdrop refused PARTITIONED_METADATA with TopicNotFound 3 times"; empty if it refused nothing.
    """
    asked: dict[tuple[int | None, int], str] = {}
    refused: Counter[tuple[str, str]] = Counter()
    for event in events:
        if not isinstance(event, log.Frame | log.Passed) or (frame := (seen := see(event)).frame) is None:
            continue
        command = getattr(frame.command, seen.name)
        number = getattr(command, "request_id", None)
        if number is None:
            continue
        if isinstance(event, log.Frame):
            asked[event.link, number] = BaseCommand.Type.Name(frame.command.type)
        elif event.rule is None and "error" in command.DESCRIPTOR.fields_by_name and command.HasField("error"):
            refused[asked.get((event.link, number), "a request"), ServerError.Name(command.error)] += 1
    told = [f"{what} with {error}" + (f" {times} times" if times > 1 else "") for (what, error), times in refused.items()]
    return f"the backdrop refused {', '.join(told)}" if told else ""
