"""What the backdrop refused is told where nothing came."""

from conformance.engine import log
from conformance.engine.refusals import refusals
from refimpl.wire import encode_frame
from refimpl.wire.commands import wrap
from refimpl.wire.pulsar_api_pb2 import (
    CommandError,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    ServiceNotReady,
    TopicNotFound,
)


def asked(number: int) -> log.Frame:
    """Return a question for partitions."""
    return log.Frame(
        key="k", n=0, t=0, at="c", link=1, data=encode_frame(wrap(CommandPartitionedTopicMetadata(topic="t", request_id=number))).hex()
    )


def passed(message: CommandError | CommandPartitionedTopicMetadataResponse, rule: int | None = None) -> log.Passed:
    """Return an answer to the client."""
    return log.Passed(key="k", n=0, t=0, at="backdrop", link=1, data=encode_frame(wrap(message)).hex(), rule=rule)


def refused(number: int) -> CommandPartitionedTopicMetadataResponse:
    """Return a refusal of a question for partitions."""
    failed = CommandPartitionedTopicMetadataResponse.Failed
    return CommandPartitionedTopicMetadataResponse(request_id=number, response=failed, error=TopicNotFound, message="")


def test_refusals_are_counted() -> None:
    events = [asked(1), passed(refused(1)), asked(2), passed(refused(2)), asked(3)]
    events.append(passed(CommandError(request_id=3, error=ServiceNotReady, message="")))
    assert refusals(events) == (
        "the backdrop refused PARTITIONED_METADATA with TopicNotFound 2 times, PARTITIONED_METADATA with ServiceNotReady"
    )


def test_answers_and_refusals_of_the_case_are_none() -> None:
    good = CommandPartitionedTopicMetadataResponse(request_id=1, partitions=2, response=CommandPartitionedTopicMetadataResponse.Success)
    assert refusals([asked(1), passed(good), asked(2), passed(refused(2), rule=1)]) == ""
