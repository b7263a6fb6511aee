"""What the tests of the wire layer share: the golden frames, and random messages made from the schema."""

from dataclasses import dataclass
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

from refimpl.wire import pulsar_api_pb2 as pb
from refimpl.wire.commands import FIELD_BY_TYPE, wrap
from refimpl.wire.schema import inner_message, is_repeated, required_fields


@dataclass(frozen=True)
class Golden:
    name: str
    source: str
    direction: str
    data: bytes


def _read():
    text = (Path(__file__).parent / "golden_frames.txt").read_text()
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {name: Golden(name, source, direction, bytes.fromhex(data)) for name, source, direction, data in rows}


GOLDEN = _read()
SINGLE = {name: golden for name, golden in GOLDEN.items() if not name.startswith("segment-")}


def golden(name):
    return GOLDEN[name].data


_SCALARS = {
    FieldDescriptor.TYPE_STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=6),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
}


def _values(field, depth):
    if field.enum_type is not None:
        return st.sampled_from(sorted(field.enum_type.values_by_number))
    inner = inner_message(field)
    return _SCALARS[field.type] if inner is None else _fields(inner, depth + 1)


def _fields(descriptor, depth=0):
    required = {field.number for field in required_fields(descriptor)}
    always, maybe = {}, {}
    for field in descriptor.fields:
        if field.number in required:
            always[field.name] = _values(field, depth)
        elif depth < 2:
            one = _values(field, depth)
            maybe[field.name] = st.lists(one, max_size=2) if is_repeated(field) else one
    return st.fixed_dictionaries(always, optional=maybe)


def messages(kind):
    return _fields(kind.DESCRIPTOR).map(lambda fields: kind(**fields))


def commands():
    kinds = [type(getattr(pb.BaseCommand(), name)) for name in FIELD_BY_TYPE.values()]
    return st.sampled_from(kinds).flatmap(messages).map(wrap)
