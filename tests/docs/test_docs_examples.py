"""What the pages tell a reader to run exists, and the examples in Python work."""

import re

import typer

from conformance.cli import app
from conformance.site.sources import REPOSITORY
from refimpl.wire import command, command_name, decode_frame, encode_frame

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


def test_a_namespace_of_scalable_topics_is_followed_as_the_page_says():
    (text,) = [text for text in examples("reference-broker.md") if "subscribe_namespace" in text]
    names = {}
    exec(text, names)
    assert (names["message"].payload, names["message"].topic) == (b"one", "segment://public/default/orders/0000-ffff-0")


def test_the_broker_without_sockets_is_used_as_the_page_says():
    names = {"octets": encode_frame(command("connect", client_version="reader", protocol_version=21))}
    exec(examples("reference-broker.md")[-1], names)
    assert command_name(decode_frame(names["answer"]).command) == "connected"


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
