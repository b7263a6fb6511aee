"""Messages that an application can't process, that are too large for one SEND, or that the broker can't read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.fakes.frame_proxy import FrameProxy
from tests.interop.stock_clients import Client, ClientFailed, received_by, texts

pytestmark = [pytest.mark.interop, pytest.mark.flows]

LARGE = "".join(f"{number:07} " for number in range(1_500_000))
"""12 MB: three chunks."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("keys")
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    files = {
        "private": private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
        "public": private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in files}


@pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True)
def test_dead_letters_wait_for_whoever_comes(client: Client, topic: str) -> None:
    policy = {"after": 2, "topic": f"{topic}-dead", "subscription": "letters"}
    consumer = client.consumer(topic, type="Shared", nack_delay_ms=100, dead_letters=policy)
    client.producer(topic).send("bad")
    for count in range(3):
        message = consumer.receive()
        assert (message.text, message.redelivered) == ("bad", count)
        consumer.nack([message])
    letters = client.consumer(policy["topic"], subscription="letters")  # it is there since the letter was sent
    letter = letters.receive()
    assert letter.text == "bad"
    letters.ack([letter])
    client.producer(topic).send("good")
    assert consumer.receive().text == "good"


@pytest.mark.parametrize("client", ["java", "go"], indirect=True)
def test_retry_letters_come_after_their_delay(client: Client, proxy: FrameProxy, topic: str) -> None:
    policy = {"after": 2, "topic": f"{topic}-dead", "subscription": "letters"}
    consumer = client.consumer(topic, type="Shared", dead_letters=policy, retry_topic=f"{topic}-retry")
    client.producer(topic).send("bad")
    message = consumer.receive()
    for _ in range(2):
        began = time.monotonic()
        consumer.later(message, 3000)
        message = consumer.receive()
        assert (message.text, message.topic) == ("bad", f"{topic}-retry")
        assert time.monotonic() - began > 1.5, "a broker may deliver a tick early"
    assert [frame.payload().metadata.HasField("deliver_at_time") for frame in proxy.frames("send")] == [False, True, True]
    consumer.later(message, 3000)
    assert client.consumer(policy["topic"], subscription="letters").receive().text == "bad"
    with pytest.raises(ClientFailed):
        consumer.receive(0.5)


@pytest.mark.parametrize("compression", ["NONE", "ZSTD"])
def test_a_large_message_goes_to_one_consumer_in_chunks(client: Client, proxy: FrameProxy, topic: str, compression: str) -> None:
    consumers = [client.consumer(topic, type="Shared") for _ in range(2)]
    client.producer(topic, chunking=True, compression=compression).send("before", LARGE, "after")
    got = received_by(consumers, 3)
    assert sorted(text for one in got for text in texts(one)) == sorted(["before", LARGE, "after"])
    if compression == "NONE":
        assert [frame.payload().metadata.num_chunks_from_msg for frame in proxy.frames("send")] == [0, 3, 3, 3, 0]
    for consumer, messages in zip(consumers, got, strict=True):
        consumer.ack(messages)
        consumer.close()
    last = client.consumer(topic, type="Shared")
    client.producer(topic).send("marker")
    assert last.receive().text == "marker"


def test_encrypted_messages_are_read_by_who_has_the_key(client: Client, proxy: FrameProxy, topic: str, keys: dict[str, str]) -> None:
    consumer = client.consumer(topic, keys=keys)
    client.producer(topic, keys=keys).send("one")
    client.producer(topic, keys=keys, batch=3, compression="LZ4").send("two", "three", "four")
    assert texts(consumer.receive_all(4)) == ["one", "two", "three", "four"]
    single, batch = (frame.payload() for frame in proxy.frames("send"))
    assert [one.key for one in (*single.metadata.encryption_keys, *batch.metadata.encryption_keys)] == ["key", "key"]
    assert b"one" not in single.body
    assert (batch.metadata.num_messages_in_batch, b"three" in batch.body) == (3, False)
