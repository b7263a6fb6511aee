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
from queue import SimpleQueue
from typing import Any

import pulsar

Request = dict[str, Any]

_clients: dict[str, pulsar.Client] = {}
_things: dict[str, Any] = {}  # producers, consumers and readers by name
_messages: dict[str, pulsar.Message] = {}  # received by "consumer/message id"
_output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
_writing = threading.Lock()


def tell(line: dict[str, Any]) -> None:
    with _writing:
        _output.write(json.dumps(line) + "\n")
        _output.flush()


def connect(request: Request) -> None:
    _clients[request["name"]] = pulsar.Client(request["url"], logger=logging.getLogger("pulsar"))


def end(request: Request) -> None:
    client = _clients.pop(request["name"])
    threading.Thread(target=client.close, daemon=True).start()


def producer(request: Request) -> None:
    batch = request.get("batch")
    batching = {"batching_enabled": True, "batching_max_messages": batch, "batching_max_publish_delay_ms": 60_000} if batch else {}
    compression = pulsar.CompressionType.__members__[request.get("compression", "NONE")]
    _things[request["name"]] = _clients[request["client"]].create_producer(request["topic"], compression_type=compression, **batching)


def send(request: Request) -> list[str]:
    sender: pulsar.Producer = _things[request["name"]]
    results: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
    for text, properties in zip(request["texts"], request["properties"], strict=True):
        sender.send_async(text.encode(), lambda result, message_id: results.put((result, message_id)), properties=properties)
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
        consumer_type=pulsar.ConsumerType.__members__[request.get("type", "Exclusive")],
        initial_position=pulsar.InitialPosition.__members__[request.get("position", "Latest")],
        negative_ack_redelivery_delay_ms=request.get("nack_delay_ms", 60_000),
        message_listener=_listener(request["name"]),
    )


def reader(request: Request) -> None:
    start = pulsar.MessageId.earliest if request["position"] == "Earliest" else pulsar.MessageId.latest
    _things[request["name"]] = _clients[request["client"]].create_reader(
        request["topic"], start, reader_listener=_listener(request["name"])
    )


def has_more(request: Request) -> bool:
    return bool(_things[request["name"]].has_message_available())


def ack(request: Request) -> None:
    for message in _received(request):
        _things[request["name"]].acknowledge(message)


def nack(request: Request) -> None:
    for message in _received(request):
        _things[request["name"]].negative_acknowledge(message)


def seek(request: Request) -> None:
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
        told = {"id": key, "topic": message.topic_name(), "text": message.data().decode(), "redelivered": message.redelivery_count()}
        tell({"to": name, "message": told})

    return arrived


def _id(message_id: Any) -> str:
    return f"{message_id.ledger_id()}:{message_id.entry_id()}:{message_id.partition()}:{message_id.batch_index()}"


COMMANDS: dict[str, Callable[[Request], Any]] = {
    function.__name__: function
    for function in (connect, end, producer, send, consumer, reader, has_more, ack, nack, seek, partitions, close)
}


def work(requests: "SimpleQueue[Request]") -> None:
    while True:
        request = requests.get()
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
