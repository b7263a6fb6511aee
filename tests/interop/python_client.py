"""The PyPI client in a process of its own, driven by JSON lines; `java/Client.java` speaks the same language.

In: `{"id": 1, "do": "producer", "name": "p", ...}`. Out: `{"id": 1, "answer": ...}` or `{"id": 1, "error": "text"}`, and whenever a message
reaches a consumer or a reader `{"to": "c", "message": {...}}`. The end of the input ends the process, whatever it is doing.
"""

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pulsar
from pulsar import schema

Request = dict[str, Any]

_clients: dict[str, pulsar.Client] = {}
_things: dict[str, Any] = {}  # producers, consumers and readers by name
_records: dict[str, type[schema.Record]] = {}  # of producers with a schema, by name
_messages: dict[str, pulsar.Message] = {}  # received by "consumer/message id"
_output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
_writing = threading.Lock()


def tell(line: dict[str, Any]) -> None:
    with _writing:
        _output.write(json.dumps(line) + "\n")
        _output.flush()


def connect(request: Request) -> None:
    token = Path(request["token_file"]).read_text if "token_file" in request else None
    authentication = pulsar.AuthenticationToken(token) if token else None
    _clients[request["name"]] = pulsar.Client(request["url"], logger=logging.getLogger("pulsar"), authentication=authentication)


def end(request: Request) -> None:
    client = _clients.pop(request["name"])
    threading.Thread(target=client.close, daemon=True).start()


def producer(request: Request) -> None:
    batch = request.get("batch")
    batching = {"batching_enabled": True, "batching_max_messages": batch, "batching_max_publish_delay_ms": 60_000} if batch else {}
    compression = pulsar.CompressionType.__members__[request.get("compression", "NONE")]
    access = pulsar.ProducerAccessMode.__members__[request.get("access", "Shared")]
    _things[request["name"]] = _clients[request["client"]].create_producer(
        request["topic"],
        compression_type=compression,
        access_mode=access,
        producer_name=request.get("as"),
        chunking_enabled=request.get("chunking", False),
        encryption_key="key" if "keys" in request else None,
        crypto_key_reader=_keys(request),
        schema=_schema(request),
        **batching,
    )


def _schema(request: Request) -> schema.Schema:
    """Return the schema that a request defines, `schema` and `definition`: a record of texts and numbers."""
    if "schema" not in request:
        return schema.BytesSchema()
    definition = json.loads(request["definition"])
    fields = {one["name"]: _field(one) for one in definition["fields"]}
    record = _records[request["name"]] = type(definition["name"], (schema.Record,), fields)
    return {"AVRO": schema.AvroSchema, "JSON": schema.JsonSchema}[request["schema"]](record)


def _field(definition: dict[str, Any]) -> schema.Field:
    optional = "default" in definition
    return (schema.String if definition["type"] == "string" else schema.Integer)(required=not optional, required_default=optional)


def _keys(request: Request) -> pulsar.CryptoKeyReader | None:
    return pulsar.CryptoKeyReader(request["keys"]["public"], request["keys"]["private"]) if "keys" in request else None


def send(request: Request) -> list[str]:
    sender: pulsar.Producer = _things[request["name"]]
    record = _records.get(request["name"])
    results: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
    keys = request.get("keys") or [None for _ in request["texts"]]
    sequence_ids = request.get("sequence_ids") or [None for _ in request["texts"]]
    later = timedelta(milliseconds=request["after_ms"]) if "after_ms" in request else None
    for text, properties, key, sequence_id in zip(request["texts"], request["properties"], keys, sequence_ids, strict=True):
        sender.send_async(
            record(name=text) if record else text.encode(),
            lambda result, message_id: results.put((result, message_id)),
            properties=properties,
            partition_key=key,
            sequence_id=sequence_id,
            deliver_after=later,
        )
    sender.flush()
    answers = [results.get() for _ in request["texts"]]
    failed = [str(result) for result, _ in answers if result != pulsar.Result.Ok]
    if failed:
        raise RuntimeError(f"not sent: {failed}")
    return [_id(message_id) for _, message_id in answers]


def consumer(request: Request) -> None:
    topic = re.compile(request["pattern"]) if "pattern" in request else request["topic"]
    _things[request["name"]] = _clients[request["client"]].subscribe(
        topic,
        request["subscription"],
        consumer_type=pulsar.ConsumerType.__members__[request.get("type", "Exclusive").replace("_", "")],
        key_shared_policy=_ranges(request["ranges"]) if "ranges" in request else None,
        initial_position=pulsar.InitialPosition.__members__[request.get("position", "Latest")],
        negative_ack_redelivery_delay_ms=request.get("nack_delay_ms", 60_000),
        crypto_key_reader=_keys(request),
        dead_letter_policy=_dead_letters(request["dead_letters"]) if "dead_letters" in request else None,
        consumer_name=request.get("as"),
        batch_index_ack_enabled=request.get("batch_index_ack", False),
        schema=_schema(request),
        message_listener=_listener(request["name"]),
    )


def _dead_letters(policy: dict[str, Any]) -> pulsar.ConsumerDeadLetterPolicy:
    return pulsar.ConsumerDeadLetterPolicy(policy["after"], policy["topic"], policy["subscription"])


def _ranges(ranges: list[list[int]]) -> pulsar.ConsumerKeySharedPolicy:
    return pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(start, end) for start, end in ranges])


def reader(request: Request) -> None:
    start = pulsar.MessageId.earliest if request.get("position") == "Earliest" else pulsar.MessageId.latest
    if "from" in request:
        start = _messages[request["from"]].message_id()
    _things[request["name"]] = _clients[request["client"]].create_reader(
        request["topic"],
        start,
        reader_listener=_listener(request["name"]),
        start_message_id_inclusive=request.get("inclusive", False),
    )


def has_more(request: Request) -> bool:
    return bool(_things[request["name"]].has_message_available())


def ack(request: Request) -> None:
    for message in _received(request):
        _things[request["name"]].acknowledge(message)


def ack_cumulative(request: Request) -> None:
    _things[request["name"]].acknowledge_cumulative(next(_received(request)))


def unsubscribe(request: Request) -> None:
    _things[request["name"]].unsubscribe()


def nack(request: Request) -> None:
    for message in _received(request):
        _things[request["name"]].negative_acknowledge(message)


def seek(request: Request) -> None:
    if "time" in request:
        _things[request["name"]].seek(request["time"])
        return
    place = pulsar.MessageId.earliest if request["message"] == "Earliest" else next(_received(request)).message_id()
    _things[request["name"]].seek(place)


def partitions(request: Request) -> list[str]:
    return list(_clients[request["client"]].get_topic_partitions(request["topic"]))


def close(request: Request) -> None:
    _things.pop(request["name"]).close()


def _received(request: Request) -> Iterator[pulsar.Message]:
    for key in request.get("messages") or [request["message"]]:
        yield _messages[f"{request['name']}/{key}"]


def _listener(name: str) -> Callable[[Any, pulsar.Message], None]:
    def arrived(_: Any, message: pulsar.Message) -> None:
        key = _id(message.message_id())
        _messages[f"{name}/{key}"] = message
        value = message.value()
        text = value.decode() if isinstance(value, bytes) else value.name
        told = {"id": key, "topic": message.topic_name(), "text": text, "redelivered": message.redelivery_count()}
        tell({"to": name, "message": told})

    return arrived


def _id(message_id: Any) -> str:
    return f"{message_id.ledger_id()}:{message_id.entry_id()}:{message_id.partition()}:{message_id.batch_index()}"


COMMANDS: dict[str, Callable[[Request], Any]] = {
    function.__name__: function
    for function in (
        connect,
        end,
        producer,
        send,
        consumer,
        reader,
        has_more,
        ack,
        ack_cumulative,
        nack,
        seek,
        unsubscribe,
        partitions,
        close,
    )
}


def work(requests: "SimpleQueue[Request]") -> None:
    while True:
        request = requests.get()
        if request.get("aside"):  # it may take long
            threading.Thread(target=perform, args=(request,), daemon=True).start()
        else:
            perform(request)


def perform(request: Request) -> None:
    try:
        tell({"id": request["id"], "answer": COMMANDS[request["do"]](request)})
    except Exception as error:
        tell({"id": request["id"], "error": f"{type(error).__name__}: {error}"})


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    requests: SimpleQueue[Request] = SimpleQueue()
    threading.Thread(target=work, args=(requests,), daemon=True).start()
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
