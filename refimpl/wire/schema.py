"""Information about fields from the generated descriptors, for every supported protobuf release.

Newer releases warn about `FieldDescriptor.label` and older ones have nothing else; the descriptor's own message has
labels in all of them. Their type stubs differ too, hence the casts.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from google.protobuf.message import Message


def descriptor_of(message: Message | type[Message]) -> Descriptor:
    """Return the description of a message or of its class."""
    descriptor: Descriptor = cast(Any, message).DESCRIPTOR
    return descriptor


def inner_message(field: FieldDescriptor) -> Descriptor | None:
    """Return the description of the message that a field holds; None for any other field."""
    inner: Descriptor | None = cast(Any, field).message_type
    return inner


def fields_of(message: Message | type[Message]) -> dict[int, FieldDescriptor]:
    """Return the fields of a message by their numbers."""
    return {field.number: field for field in descriptor_of(message).fields}


@cache
def is_repeated(field: FieldDescriptor) -> bool:
    """Return whether a field may occur any number of times."""
    return _labels(cast(Any, field).containing_type)[field.number] == FieldDescriptorProto.LABEL_REPEATED


@cache
def required_fields(descriptor: Descriptor) -> tuple[FieldDescriptor, ...]:
    """List the fields that must be present."""
    labels = _labels(descriptor)
    return tuple(field for field in descriptor.fields if labels[field.number] == FieldDescriptorProto.LABEL_REQUIRED)


@cache
def _labels(descriptor: Descriptor) -> dict[int, int]:
    proto = DescriptorProto()
    cast(Any, descriptor).CopyToProto(proto)
    return {field.number: field.label for field in proto.field}
