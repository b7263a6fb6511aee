"""Payloads as transcripts expect them: metadata, single messages of a batch, body, checksum, compression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.engine.matchers import FITS, Difference, Match, match, match_message
from refimpl.wire import WireError, batch, compression
from refimpl.wire import pulsar_api_pb2 as pb
from refimpl.wire.frames import Frame


def match_payload(spec: Mapping[str, Any], frame: Frame) -> Match:
    """Compare the payload of a frame with {metadata, body or batch, checksum, compression}, each optional, or with {octets}: all bytes."""
    if "octets" in spec:
        return match(spec["octets"], frame.payload_bytes or b"", "payload.octets")
    try:
        content = frame.payload()
        if content is None:
            return Match((Difference("payload", "a payload", "none"),))
        result = FITS
        if "checksum" in spec:
            kinds = {None: "absent", True: "valid", False: "invalid"}
            result += match(spec["checksum"], kinds[content.checksum_valid], "payload.checksum")
        if "metadata" in spec:
            result += match_message(spec["metadata"], content.metadata, "payload.metadata")
        if "compression" in spec:
            result += match(spec["compression"], pb.CompressionType.Name(content.metadata.compression), "payload.compression")
        if "body" in spec or "batch" in spec:
            body = compression.decompress(content.body, content.metadata.compression, content.metadata.uncompressed_size)
            result += _match_batch(spec["batch"], body, content.metadata) if "batch" in spec else match(spec["body"], body, "payload.body")
    except WireError as error:
        return Match((Difference("payload", "a payload that can be read", str(error)),))
    return result


def _match_batch(expected: list[Mapping[str, Any]], body: bytes, metadata: pb.MessageMetadata) -> Match:
    if not metadata.HasField("num_messages_in_batch"):
        return Match((Difference("payload", "a batch", "a single message (num_messages_in_batch is absent)"),))
    singles = batch.decode_batch(body, metadata.num_messages_in_batch)
    if len(singles) != len(expected):
        return Match((Difference("payload.batch", f"{len(expected)} messages", f"{len(singles)} messages"),))
    result = FITS
    for index, (want, single) in enumerate(zip(expected, singles, strict=True)):
        if "metadata" in want:
            result += match_message(want["metadata"], single.metadata, f"payload.batch[{index}].metadata")
        if "body" in want:
            result += match(want["body"], single.body, f"payload.batch[{index}].body")
    return result
