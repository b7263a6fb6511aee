"""What the pages tell a reader to run exists, and the examples in Python work."""

import asyncio
import doctest
import itertools
import os
import re
import subprocess
import sys
import tomllib

import pytest
import typer

from conformance.cli import app
from conformance.report.listing import line
from conformance.site.programming import EXAMPLES, PACKAGES
from conformance.site.sources import REPOSITORY
from refimpl.net.client import Client
from refimpl.net.embedded import EmbeddedBroker
from refimpl.net.faults import read_switch
from refimpl.proposals.message_filter import ENTRY_POINT_GROUP, Candidate, FilterRegistry, SchemaAccess
from refimpl.wire import command, command_name, decode_frame, encode_frame
from refimpl.wire.pulsar_api_pb2 import MessageMetadata

DOCS = REPOSITORY / "docs"
COMMANDS = typer.main.get_command(app).commands


def examples(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def test_the_embedded_broker_is_used_as_the_pages_say():
    for text in (examples("index.md")[0], examples("reference-broker.md")[0]):
        names = {"YourClient": str, "YourAdminClient": str}
        exec(text, names)
        assert re.fullmatch(r"pulsar://127\.0\.0\.1:\d+", names["client"])
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", names.get("admin", "http://127.0.0.1:0"))


@pytest.mark.parametrize("name", PACKAGES)
def test_the_session_of_an_api_page_goes_as_it_is_shown(name):
    session = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0)
    found = []
    doctest.DocTestRunner().run(session, out=found.append)
    assert session.examples
    assert found == []


def test_the_fixtures_are_used_as_the_page_says(tmp_path):
    pytest.importorskip("pulsar", reason="the client of PyPI is not installed")
    (text,) = [one for one in examples("reference-broker.md") if "pulsar_broker.stop()" in one]
    (tmp_path / "test_orders.py").write_text(text)
    plugin = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]["pulsar-conformance"]
    arguments = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        plugin,
        "--rootdir",
        str(tmp_path),
        "-c",
        os.devnull,
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_messages_are_filtered_as_the_page_says():
    text, own = (one for one in examples("reference-broker.md") if "MessageFilterPolicy" in one or "LongerFilter" in one)
    names = {}
    exec(text, names)
    assert names["received"] == [str(number).encode() for number in range(30, 60)]
    exec(own, names)
    registry = FilterRegistry({"org.example.LongerFilter": names["LongerFilter"]})
    built = registry.build("org.example.LongerFilter", {"least": "3"}, SchemaAccess())
    assert [built.matches(Candidate(payload, MessageMetadata())) for payload in (b"ab", b"abc")] == [False, True]
    assert f'"{ENTRY_POINT_GROUP}"' in (DOCS / "reference-broker.md").read_text()


def test_partitions_grow_as_the_page_says():
    (text,) = [text for text in examples("reference-broker.md") if "update_partitioned_topic" in text]
    names = {}
    exec(text, names)
    assert {(names["TOPIC"], 2), (names["TOPIC"], 4)} >= set(names["heard"]) > set()
    assert names["heard"][-1] == (names["TOPIC"], 4)


def test_a_namespace_of_scalable_topics_is_followed_as_the_page_says():
    (text,) = [text for text in examples("reference-broker.md") if "subscribe_namespace" in text]
    names = {}
    exec(text, names)
    assert (names["message"].payload, names["message"].topic) == (b"one", "segment://public/default/orders/0000-ffff-0")


def test_the_broker_without_sockets_is_used_as_the_page_says():
    names = {"data": encode_frame(command("connect", client_version="reader", protocol_version=21))}
    exec(examples("reference-broker.md")[-1], names)
    assert command_name(decode_frame(names["answer"]).command) == "connected"


def test_uniform_batches_are_filtered_as_the_page_says(capsys):
    (text,) = [one for one in examples("reference-broker.md") if "def orders_of_europe" in one]
    names = {}
    exec(text, names)
    with EmbeddedBroker() as broker:
        assert asyncio.run(names["orders_of_europe"](broker.service_url)) == [b"0", b"1", b"3"]
    messages_per_entry, header_bytes = map(float, capsys.readouterr().out.split())
    assert messages_per_entry == 4 / 3
    assert header_bytes > 0


def test_a_filter_of_ones_own_is_used_as_the_page_says():
    (text,) = [one for one in examples("reference-broker.md") if "class NotBefore" in one]
    names = {}
    exec(text, names)
    moments = itertools.count(1)  # the clock goes on with each question

    async def exchange(broker):
        async with Client(broker.service_url) as client:
            consumer = await client.subscribe("t", "s", subscription_properties={"not-before": "yes"})
            async with await client.create_producer("t", batching=False) as producer:
                await producer.send(b"late", properties={"not-before": "4"})
                await producer.send(b"now")
            return [await consumer.receive() for _ in range(2)]

    with names["with_not_before"](lambda: next(moments)) as broker:
        messages = asyncio.run(exchange(broker))
    assert [(message.payload, message.redelivery_count) for message in messages] == [(b"now", 0), (b"late", 2)]


def test_commands_and_options_that_the_pages_name_exist():
    for path in [*DOCS.rglob("*.md"), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]:
        for words in re.findall(r"pulsar-conformance ([a-z][^`\n]*)", path.read_text()):
            first, *rest = words.split()
            found = COMMANDS.get(first)
            assert found is not None, (path.name, words)
            inner = getattr(found, "commands", None)
            known = [option for one in (inner or {"": found}).values() for parameter in one.params for option in parameter.opts]
            assert inner is None or rest[0] in inner, (path.name, words)
            assert [word for word in rest if word.startswith("--") and word.rstrip(".,") not in known] == [], (path.name, words)


def test_faults_and_lines_of_the_proxy_are_written_as_the_page_says():
    page = (DOCS / "proxy.md").read_text()
    faults = [*re.findall(r"--fault '([a-z][^']+)'", page), *re.findall(r"^\| `'(.+?)'` \|", page, re.MULTILINE)]
    assert {read_switch(text).kind for text in faults} == {"drop", "twice", "delay", "refuse", "cut"}
    shown = re.findall(r"^ +([\d.]+) #(\d+) +(->|<-|  ) (.+)$", page, re.MULTILINE)
    assert len(shown) == 7
    arrows = {"->": "client", "<-": "broker", "  ": None}
    assert all(line(float(time), int(number), arrows[arrow], text) in page for time, number, arrow, text in shown)
