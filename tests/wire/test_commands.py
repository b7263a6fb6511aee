"""The table of commands, building them, and writing them on one line."""

import re

import pytest

from refimpl.wire import (
    FIELD_BY_TYPE,
    TYPE_BY_FIELD,
    command,
    command_name,
    decode_frame,
    encode_frame,
    line_notation,
    sub_message,
    type_name,
    wrap,
)
from refimpl.wire import pulsar_api_pb2 as pb
from tests.samples.wire import golden

PRIVATE = set(range(2471, 2476))


def test_each_type_has_the_field_of_its_number():
    fields = {field.number: field.name for field in pb.BaseCommand.DESCRIPTOR.fields if field.name != "type"}
    assert dict(FIELD_BY_TYPE) == fields
    assert {fields[number]: number for number in fields} == dict(TYPE_BY_FIELD)


def test_numbers_in_use():
    assert set(FIELD_BY_TYPE) == {*range(2, 41), *range(50, 69), *range(70, 83), *PRIVATE}
    assert FIELD_BY_TYPE[64] == "watchTopicList"
    assert FIELD_BY_TYPE[21] == "partitionMetadata"
    assert FIELD_BY_TYPE[2474] == "partitionUpdateResult"
    assert pb.BaseCommand.Type.Name(2471) == "WATCH_PARTITION_UPDATE"


def test_private_numbers_of_fields():
    flags = {field.name: field.number for field in pb.FeatureFlags.DESCRIPTOR.fields}
    assert (flags["supports_partition_update_watchers"], flags["supports_message_filter"]) == (247, 7629)
    assert pb.CommandSubscribe.DESCRIPTOR.fields_by_name["filter_meta"].number == 7629


@pytest.mark.parametrize("name", TYPE_BY_FIELD)
def test_wrap_marks_even_an_empty_sub_message(name):
    base = wrap(type(getattr(pb.BaseCommand(), name))())
    assert base.HasField(name)
    assert (command_name(base), base.type) == (name, TYPE_BY_FIELD[name])
    assert type_name(base) == pb.BaseCommand.Type.Name(base.type)
    assert sub_message(base) == getattr(base, name)


def test_wrap_copies():
    ping = pb.CommandSuccess(request_id=1)
    base = wrap(ping)
    ping.request_id = 2
    assert base.success.request_id == 1


def test_command_takes_nested_values():
    built = command(
        "subscribe", topic="t", subscription="s", subType="Shared", consumer_id=1, request_id=2,
        filter_meta={"filter_class_name": "f", "filter_properties": [{"key": "k", "value": "v"}]},
    )  # fmt: skip
    assert built.subscribe.subType == pb.CommandSubscribe.Shared
    assert built.subscribe.filter_meta.filter_properties[0].value == "v"
    assert decode_frame(encode_frame(built)).command == built


def test_an_empty_dict_is_a_present_message():
    built = command("watchScalableTopicsUpdate", watch_id=1, snapshot={})
    assert encode_frame(built) == golden("scalable-snapshot-empty")


@pytest.mark.parametrize(("name", "fields", "text"), [
    ("watchTopicLists", {}, "no command is called 'watchTopicLists'; did you mean 'watchTopicList'"),
    ("type", {}, "no command is called 'type'"),
    ("ping", {"id": 1}, "ping has no field 'id'"),
    ("watchTopicList", {"watch_id": 1}, "watchTopicList has no field 'watch_id'; did you mean 'watcher_id'"),
    ("success", {"request_id": "7"}, "success can't be built from"),
    ("success", {"request_id": -1}, "success can't be built from"),
    ("error", {"error": "Nope"}, "error can't be built from"),
    ("error", {"message": b"\xff"}, "error can't be built from"),
    ("success", {"schema": {"nope": 1}}, "success can't be built from"),
])  # fmt: skip
def test_clear_errors(name, fields, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        command(name, **fields)


def test_wrap_refuses_what_is_no_command():
    with pytest.raises(ValueError, match="KeyValue is the sub-message of no command"):
        wrap(pb.KeyValue())


def test_commands_without_type_or_sub_message():
    for ask in (command_name, type_name, sub_message, line_notation):
        with pytest.raises(ValueError, match="no type"):
            ask(pb.BaseCommand(ping=pb.CommandPing()))
    with pytest.raises(ValueError, match="PING without its sub-message ping"):
        sub_message(pb.BaseCommand(type=pb.BaseCommand.PING))


ERROR = {"request_id": 2**64 - 1, "error": "MetadataError", "message": 'a "b"\n\x01é'}
CONNECT = {"client_version": "x", "auth_data": b"\x0a\xff", "feature_flags": {"supports_topic_watchers": False}}
ACK = {"consumer_id": 1, "ack_type": "Individual", "message_id": [{"ledgerId": 1, "entryId": 2, "ack_set": [-1, 5]}]}
STATS = {"request_id": 1, "msgRateOut": 0.5}


@pytest.mark.parametrize(("name", "fields", "text"), [
    ("ping", {}, "PING{}"),
    ("error", ERROR, r'ERROR{request_id: 18446744073709551615, error: MetadataError, message: "a \"b\"\n\u0001é"}'),
    ("connect", CONNECT, 'CONNECT{client_version: "x", auth_data: 0x0aff, feature_flags: {supports_topic_watchers: false}}'),
    ("ack", ACK, "ACK{consumer_id: 1, ack_type: Individual, message_id: [{ledgerId: 1, entryId: 2, ack_set: [-1, 5]}]}"),
    ("consumerStatsResponse", STATS, "CONSUMER_STATS_RESPONSE{request_id: 1, msgRateOut: 0.5}"),
])  # fmt: skip
def test_line_notation(name, fields, text):
    assert line_notation(command(name, **fields)) == text


def test_line_notation_of_a_frame():
    assert line_notation(decode_frame(golden("vector-send-hello"))) == "SEND{producer_id: 1, sequence_id: 0} + 22 bytes"
