"""Frames as transcripts write them: checked against the schema when a file is loaded, turned into bytes when they are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from conformance.engine.matchers import MATCHERS, bytes_of
from conformance.engine.parts import BytesSpec
from conformance.engine.values import EXPRESSIONS, Value
from conformance.names import did_you_mean
from refimpl.wire import batch, compression, encode_frame, payload
from refimpl.wire import pulsar_api_pb2 as pb
from refimpl.wire.commands import wrap
from refimpl.wire.schema import is_repeated

_TEXT = {FieldDescriptor.CPPTYPE_STRING: str, FieldDescriptor.CPPTYPE_BOOL: bool}
_PAYLOAD_KEYS = ("metadata", "batch", "body", "checksum", "compression", "broker_entry_metadata")
_GIVEN_AS_BYTES = {"octets"}
"""A payload may be written as what it is made of, or as these alone."""


class FrameProblem(ValueError):
    """A frame that can't be written as the transcript says; the message starts with the place inside the frame."""


def problems(spec: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Check a frame of a transcript against the schema.

    Yields:
        The place inside the frame and what is wrong there; nothing for a good frame.
    """
    ((name, fields),) = spec.items()
    command = pb.BaseCommand.DESCRIPTOR.fields_by_name.get(name)
    if command is None or command.message_type is None:
        yield (name,), f"unknown command {name!r}{did_you_mean(name, [f.name for f in pb.BaseCommand.DESCRIPTOR.fields if f.message_type])}"
    else:
        yield from _message_problems(command.message_type, fields, (name,))


def _message_problems(descriptor: Descriptor, fields: Mapping[str, Any], place: tuple[str | int, ...]) -> Iterator[Any]:
    for name, value in fields.items():
        if name == "$only":
            continue
        field = descriptor.fields_by_name.get(name)
        if field is None:
            known = [one.name for one in descriptor.fields]
            yield (*place, name), f"unknown field {name!r} of {descriptor.name}{did_you_mean(name, known)}"
        else:
            yield from _value_problems(field, value, (*place, name))


def _value_problems(field: FieldDescriptor, value: Value, place: tuple[str | int, ...]) -> Iterator[Any]:
    if isinstance(value, dict) and any(key.startswith("$") for key in value):
        unknown = [key for key in value if key not in MATCHERS and key not in EXPRESSIONS and key not in ("example", "$only", "$next")]
        yield from (((*place, key), f"unknown matcher {key!r}{did_you_mean(key, [*MATCHERS, *EXPRESSIONS])}") for key in unknown)
        if "example" in value:
            yield from _value_problems(field, value["example"], (*place, "example"))
    elif isinstance(value, str) and "$" in value:
        return
    elif is_repeated(field) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _one_problem(field, item, (*place, index))
    elif is_repeated(field):
        yield place, f"{field.name} is repeated: write a list"
    else:
        yield from _one_problem(field, value, place)


def _one_problem(field: FieldDescriptor, value: Value, place: tuple[str | int, ...]) -> Iterator[Any]:
    if (isinstance(value, str) and "$" in value) or (isinstance(value, dict) and any(key.startswith("$") for key in value)):
        return
    if field.message_type is not None:
        if isinstance(value, dict):
            yield from _message_problems(field.message_type, value, place)
        else:
            yield place, f"{field.name} is a {field.message_type.name}: write its fields"
    elif field.enum_type is not None:
        if isinstance(value, str) and value not in field.enum_type.values_by_name:
            yield place, f"{value!r} is no {field.enum_type.name}{did_you_mean(value, list(field.enum_type.values_by_name))}"
    elif field.type == FieldDescriptor.TYPE_BYTES:
        if not isinstance(value, str | dict | bytes):
            yield place, f"{field.name} holds bytes: write text, or {{hex: ..}}"
    else:
        wanted = _TEXT.get(field.cpp_type, int)
        if type(value) is not wanted:
            hint = "; quote it" if wanted is str else ""
            yield place, f"{field.name} is {'text' if wanted is str else wanted.__name__}, not {type(value).__name__} {value!r}{hint}"


def example(value: Value) -> Value:
    """Replace every matcher that has an `example` by the example: a frame that is sent must be concrete.

    Raises:
        FrameProblem: A matcher has no example.
    """
    if isinstance(value, dict):
        if "example" in value:
            return value["example"]
        matchers = [key for key in value if key in MATCHERS]
        if matchers:
            raise FrameProblem(f"{matchers[0]} can't be sent: give it an `example`")
        return {key: example(item) for key, item in value.items()}
    return [example(item) for item in value] if isinstance(value, list) else value


def build_command(spec: Mapping[str, Any]) -> pb.BaseCommand:
    """Build the command that a resolved frame describes.

    Raises:
        FrameProblem: A field is unknown or its value has the wrong type.
    """
    ((name, fields),) = spec.items()
    for place, text in problems(spec):
        raise FrameProblem(f"{'.'.join(map(str, place))}: {text}")
    message: Message = getattr(pb.BaseCommand(), name).__class__()
    fill(message, example(fields))
    return wrap(message)


def fill(message: Message, fields: Mapping[str, Any]) -> None:
    """Set fields of a message; what they hold already stays beside repeated ones.

    Raises:
        FrameProblem: A value can't be written into its field.
    """
    for name, value in fields.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        try:
            if is_repeated(field):
                for item in value:
                    if field.message_type is not None:
                        fill(getattr(message, name).add(), item)
                    else:
                        getattr(message, name).append(_scalar(field, item))
            elif field.message_type is not None:
                getattr(message, name).SetInParent()
                fill(getattr(message, name), value)
            else:
                setattr(message, name, _scalar(field, value))
        except (TypeError, ValueError, AttributeError) as error:
            raise FrameProblem(f"{name}: {value!r} can't be written there: {error}") from None


def _scalar(field: FieldDescriptor, value: Value) -> Value:
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes_of(value)
    return value


def build_frame(spec: Mapping[str, Any], payload_spec: Mapping[str, Any] | None = None) -> bytes:
    """Encode a resolved frame, with its payload if it has one.

    Raises:
        FrameProblem: It can't be written: a field is unknown, missing, or has a value of another type.
    """
    command, content = build_command(spec), None if payload_spec is None else build_payload(payload_spec)
    try:
        return encode_frame(command, content)
    except ValueError as error:
        raise FrameProblem(str(error)) from None


def build_payload(spec: Mapping[str, Any]) -> bytes:
    """Encode {metadata, body or batch: [{metadata, body}], checksum, compression, broker_entry_metadata}, or {octets}: all bytes.

    Raises:
        FrameProblem: A key is unknown, or both body and batch are given, or neither is.
    """
    if set(spec) == _GIVEN_AS_BYTES:
        return bytes_of(spec["octets"])
    unknown = set(spec) - set(_PAYLOAD_KEYS)
    if unknown or ("body" in spec) == ("batch" in spec):
        allowed = "metadata and either body or batch, and may have checksum, compression and broker_entry_metadata; or it has octets alone"
        raise FrameProblem(f"a payload has {allowed}; not {sorted(spec)}")
    metadata = pb.MessageMetadata()
    fill(metadata, example(spec.get("metadata", {})))
    if "batch" in spec:
        singles = []
        for one in example(spec["batch"]):
            single = pb.SingleMessageMetadata()
            content = bytes_of(one["body"])
            fill(single, {"payload_size": len(content), **one.get("metadata", {})})
            singles.append(batch.SingleMessage(single, content))
        body = batch.encode_batch(singles)
        metadata.num_messages_in_batch = len(singles)
    else:
        body = bytes_of(spec["body"])
    if "compression" in spec:
        metadata.compression = spec["compression"]
        metadata.uncompressed_size = len(body)
        body = compression.compress(body, int(metadata.compression))
    added = None
    if "broker_entry_metadata" in spec:
        added = pb.BrokerEntryMetadata()
        fill(added, spec["broker_entry_metadata"])
    return payload.encode_payload(metadata, body, checksum=spec.get("checksum", "valid"), broker_entry_metadata=added)


def build_bytes(spec: BytesSpec, resolved: Mapping[str, Any]) -> bytes:
    """Build raw or damaged bytes.

    Args:
        spec: What to damage, and how.
        resolved: The resolved values of `spec`: of, payload, command, hex, text, append.
    """
    if resolved.get("hex") is not None:
        data = bytes.fromhex(resolved["hex"])
    elif resolved.get("text") is not None:
        data = resolved["text"].encode()
    else:
        data = _sized(spec, resolved)
    if spec.flip is not None:
        data = data[: spec.flip] + bytes([data[spec.flip] ^ 0xFF]) + data[spec.flip + 1 :]
    return data if spec.truncate is None else data[: spec.truncate]


def _sized(spec: BytesSpec, resolved: Mapping[str, Any]) -> bytes:
    if resolved.get("command") is not None:
        command, rest = bytes.fromhex(resolved["command"]), b""
    else:
        whole = build_frame(resolved["of"], resolved.get("payload"))
        size = int.from_bytes(whole[4:8], "big")
        command, rest = whole[8 : 8 + size], whole[8 + size :]
    rest += bytes.fromhex(resolved.get("append") or "")
    if spec.pad_to_size is not None:
        rest += bytes(spec.pad_to_size - 8 - len(command) - len(rest))
    command_size = len(command) if spec.command_size is None else spec.command_size
    total_size = 4 + len(command) + len(rest) if spec.total_size is None else spec.total_size
    return total_size.to_bytes(4, "big") + command_size.to_bytes(4, "big") + command + rest
