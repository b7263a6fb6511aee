"""What becomes of a recorded conversation, and what can't become a transcript."""

import gzip
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from conformance.cli import app
from conformance.exit_codes import EXIT_USAGE
from conformance.judging.results import judge_log
from conformance.running import recorder
from conformance.running.in_process import run_in_process
from conformance.suite import load_suite
from conformance.transcribing import read_conversation, transcribe
from conformance.transcribing.cited import ADMINISTRATION, ANSWERS, OTHERS
from refimpl.indexes.topics_hash import topics_hash
from tests.interop.captured_flows import FLOWS
from tests.transcribing.conversations import (
    CONNECT,
    CONNECTED,
    OPEN,
    PRODUCER,
    PRODUCER_SUCCESS,
    SUBSCRIBE,
    TOPIC,
    capture,
    message,
    octets,
    receipt,
    send,
)

SAMPLES = Path(__file__).parents[1] / "samples" / "captures"
ACK = ("->", "ack", {"consumer_id": 7, "ack_type": 0, "message_id": [{"ledgerId": 55, "entryId": 0}]})
CLOSE = ("->", "close_consumer", {"consumer_id": 7, "request_id": 50}), ("<-", "success", {"request_id": 50})


def written(tmp_path, *connections, chosen=(), timed=False):
    return yaml.safe_load(transcribe(read_conversation(capture(tmp_path / "c", *connections, timed=timed), chosen), "transcribed/x"))


def passes(path):
    """Run a transcript on the reference; return its verdict and what went wrong."""
    suite = load_suite(more=[path])
    name = yaml.safe_load(path.read_text(encoding="utf-8"))["id"]
    (result,) = judge_log(suite, run_in_process(suite, [name])).results
    return result.verdict, result.summary


def sent(case, name):
    return [step["client"][name] for step in case["steps"] if name in step.get("client", {})]


def heard(steps, name):
    found = []
    for step in steps:
        lanes = [one for lane in step.get("any_order", ()) for one in lane]
        found += [one["broker"][name] for one in (step, *lanes) if name in one.get("broker", {})]
    return found


# What becomes of it


def test_ids_and_names_become_variables(tmp_path):
    case = written(tmp_path, [*OPEN, send(0), receipt(0, 0), message(0, 0), ACK, *CLOSE])
    assert case["vars"] == {"n": {"$fresh": "namespace"}, "t": "persistent://${n}/t"}
    (subscribe,) = sent(case, "subscribe")
    assert (subscribe["topic"], subscribe["consumer_id"], subscribe["request_id"]) == (
        "$t",
        {"$bind": "c1", "example": 7},
        {"$bind": "r1", "example": 40},
    )
    (success,) = heard(case["steps"], "producer_success")
    assert success["producer_name"] == {"$bind": "name1"}
    (payload,) = [step["payload"] for step in case["steps"] if "send" in step.get("client", {})]
    assert payload == {"metadata": {"producer_name": "$name1", "sequence_id": 0, "publish_time": 1}, "body": "hello"}
    (got,) = heard(case["steps"], "message")
    (ack,) = sent(case, "ack")
    place = got["message_id"]
    assert ack["message_id"] == [{"ledgerId": f"${place['ledgerId']['$bind']}", "entryId": f"${place['entryId']['$bind']}"}]
    assert "acme" not in str(case)
    assert "Some-Client-v1 with Some Broker" in case["origin"]
    assert sent(case, "connect")[0]["client_version"] == "pulsar-conformance"


def test_a_message_from_before_is_that_of_its_receipt(tmp_path):
    case = written(tmp_path, [*OPEN[:2], *OPEN[5:], send(0), receipt(0, 0), *OPEN[2:5], message(0, 0)])
    (told,) = heard(case["steps"], "send_receipt")
    (got,) = heard(case["steps"], "message")
    assert got["message_id"] == {name: f"${bound['$bind']}" for name, bound in told["message_id"].items()}


def test_what_one_frame_causes_on_different_streams_comes_in_any_order(tmp_path):
    case = written(tmp_path, [*OPEN, send(0), message(0, 0), receipt(0, 0)])
    (either,) = [step["any_order"] for step in case["steps"] if "any_order" in step]
    assert sorted(next(iter(lane[0]["broker"])) for lane in either) == ["message", "send_receipt"]


def test_pipelined_requests_are_followed_by_their_answers(tmp_path):
    other = ("->", "subscribe", {**SUBSCRIBE[2], "consumer_id": 8, "request_id": 42, "subscription": "o"})
    answers = ("<-", "success", {"request_id": 42}), ("<-", "success", {"request_id": 40})
    case = written(tmp_path, [CONNECT, CONNECTED, SUBSCRIBE, other, *answers])
    assert [next(iter(step.get("client") or step.get("broker") or step)) for step in case["steps"]][3:] == [
        *("subscribe", "success", "subscribe", "success")
    ]


def test_a_message_waits_for_its_permit(tmp_path):
    small = ("->", "flow", {"consumer_id": 7, "messagePermits": 1})
    said = [*OPEN[:4], small, *OPEN[5:], send(0), receipt(0, 0), send(1), receipt(1, 1), message(0, 0), small, message(1, 1)]
    case = written(tmp_path, said)
    flows = [number for number, step in enumerate(case["steps"]) if "flow" in step.get("client", {})]
    assert len(heard(case["steps"][: flows[1]], "message")) == 1
    assert len(heard(case["steps"][flows[1] :], "message")) == 1


def test_hashes_are_those_of_the_topics_that_were_told(tmp_path):
    listed = ("->", "getTopicsOfNamespace", {"request_id": 1, "namespace": "acme/shop", "topics_pattern": "acme/shop/.*"})
    answer = {"request_id": 1, "topics": [TOPIC], "filtered": True, "topics_hash": topics_hash([TOPIC]), "changed": True}
    watch = {
        "request_id": 2,
        "watcher_id": 9,
        "namespace": "acme/shop",
        "topics_pattern": "acme/shop/.*",
        "topics_hash": answer["topics_hash"],
    }
    success = {"request_id": 2, "watcher_id": 9, "topics_hash": answer["topics_hash"]}
    update = {"watcher_id": 9, "new_topics": [f"{TOPIC}2"], "topics_hash": topics_hash([TOPIC, f"{TOPIC}2"])}
    case = written(
        tmp_path,
        [
            *(CONNECT, CONNECTED, listed, ("<-", "getTopicsOfNamespaceResponse", answer)),
            *(("->", "watchTopicList", watch), ("<-", "watchTopicListSuccess", success), ("<-", "watchTopicUpdate", update)),
        ],
    )
    assert sent(case, "watchTopicList")[0]["topics_hash"] == {"$topics_hash": ["$t1"]}
    assert heard(case["steps"], "watchTopicUpdate")[0]["topics_hash"] == {"$topics_hash": ["$t1", "$t2"]}
    assert [step["admin"] for step in case["steps"] if "admin" in step] == [[{"create_topic": "$t1"}], [{"create_topic": "$t2"}]]
    assert sent(case, "getTopicsOfNamespace")[0]["topics_pattern"] == "${n}/.*"


@pytest.mark.parametrize(
    ("said", "call"),
    [
        ([("<-", "close_consumer", {"consumer_id": 7, "request_id": 0})], {"unload_topic": "$t"}),
        ([("<-", "reachedEndOfTopic", {"consumer_id": 7})], {"terminate_topic": "$t"}),
        (
            [
                ("->", "partitionMetadata", {"topic": f"{TOPIC}p", "request_id": 60}),
                ("<-", "partitionMetadataResponse", {"request_id": 60, "partitions": 3, "response": 0}),
            ],
            {"create_partitioned_topic": {"topic": "$t2", "partitions": 3}},
        ),
    ],
)
def test_what_nobody_asked_for_was_done_by_the_administration(tmp_path, said, call):
    case = written(tmp_path, [*OPEN, *said, *CLOSE])
    assert [step["admin"] for step in case["steps"] if "admin" in step] == [[call]]


def test_background_is_left_out(tmp_path):
    case = written(tmp_path, [*OPEN[:2], ("->", "ping", {}), ("<-", "pong", {}), ("<-", "ping", {}), ("->", "pong", {}), *OPEN[2:4]])
    assert "ping" not in str(case["steps"])


def test_connections_of_a_capture_with_times_stay_apart(tmp_path):
    producer = [CONNECT, CONNECTED, *OPEN[5:]]
    consumer = [*OPEN[:5]]
    case = written(tmp_path, consumer, [*producer, send(0), receipt(0, 0)], timed=True)
    assert [step["open"] for step in case["steps"] if "open" in step] == ["c", "c2"]
    assert {step.get("at") for step in case["steps"] if "send" in step.get("client", {})} == {"c2"}


def test_cited_clauses_are_those_of_the_suite():
    clauses = load_suite(checked=False).clauses
    assert {
        name for name in (*ANSWERS.values(), *ADMINISTRATION.values(), *OTHERS) if name not in clauses or clauses[name].excluded
    } == set()


# Whole conversations


@pytest.mark.parametrize("client", ["python", "java"])
def test_a_conversation_of_a_stock_client_holds_on_the_reference(tmp_path, client):
    path = tmp_path / "case.yaml"
    path.write_text(transcribe(read_conversation(SAMPLES / client), f"transcribed/sample-{client}"), encoding="utf-8")
    assert passes(path) == ("PASS", "")


ROUND_TRIPS = {
    "core/ack/cumulative": 2,
    "core/redeliver/named": 2,
    "core/seek/closes-all": 3,
    "core/send/batch": 1,
    "core/position/last-message": 2,
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_a_run_of_a_case_becomes_a_transcript_that_holds(tmp_path, name):
    events = tmp_path / "r" / "events.jsonl"
    assert CliRunner().invoke(app, ["run", "in-process", "--select", name, "--report", str(tmp_path / "r")]).exit_code == 0
    path = tmp_path / "case.yaml"
    path.write_text(transcribe(read_conversation(events), "transcribed/again"), encoding="utf-8")
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert len([step for step in case["steps"] if "open" in step]) == ROUND_TRIPS[name]
    assert passes(path) == ("PASS", "")


def test_a_transcript_tells_a_broker_that_answers_otherwise(tmp_path):
    path = tmp_path / "case.yaml"
    again = ("<-", "message", {**message(0, 0)[2]}, message(0, 0)[3])
    path.write_text(transcribe(read_conversation(capture(tmp_path / "c", [*OPEN, send(0), receipt(0, 0), again, again])), "transcribed/x"))
    verdict, summary = passes(path)
    assert verdict == "FAIL"
    assert "nothing came: the case waits for message" in summary


def test_the_cases_that_were_made_so_have_a_flow_each():
    suite = load_suite(checked=False)
    cases = {name.partition("/")[2]: case for name, case in suite.transcripts.items() if name.startswith("transcribed/")}
    assert {name: case.title for name, case in cases.items()} == {name: flow.title for name, flow in FLOWS.items()}
    assert all("Pulsar Server4.2.4" in (case.origin or "") for case in cases.values())


# What can't become a transcript

TOKEN = "eyJhbGciOiJIUzI1NiJ9.secret"
REDIRECT = {"request_id": 1, "response": 0, "brokerServiceUrl": "pulsar://other:6650"}
LOOKUP = ("->", "lookupTopic", {"topic": TOPIC, "request_id": 1})
CLAIMS = (("->", "connect", {**CONNECT[2], "auth_method_name": "token", "auth_data": TOKEN.encode()}), CONNECTED)
SHARED = [
    ("->", "subscribe", {**SUBSCRIBE[2], "subType": 1}),
    *OPEN[3:5],
    ("->", "subscribe", {**SUBSCRIBE[2], "subType": 1, "consumer_id": 8, "request_id": 42}),
    ("<-", "success", {"request_id": 42}),
    ("->", "flow", {"consumer_id": 8, "messagePermits": 10}),
]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (OPEN[2:], "begins in the middle of the conversation, with subscribe in place of connect"),
        ([CONNECT], "nothing that the broker sent is in the capture"),
        (CLAIMS, "connect carries credentials, which are never written into a transcript"),
        ([*OPEN[:2], ("<-", "authChallenge", {})], "authChallenge carries credentials"),
        ([*OPEN, message(0, 0)], "message 55:0 of persistent://acme/shop/t was not sent on these connections"),
        ([*OPEN, ("<-", "send_receipt", {"producer_id": 3, "sequence_id": 5})], "send_receipt 5 answers a SEND that is not in the capture"),
        ([CONNECT, CONNECTED, PRODUCER_SUCCESS], "producer_success answers a request that is not in the capture"),
        ([CONNECT, CONNECTED, LOOKUP, ("<-", "lookupTopicResponse", REDIRECT)], "a look-up was redirected to another broker"),
        ([CONNECT, CONNECTED, ("->", "newTxn", {"request_id": 1})], "newTxn is a command that can't be transcribed"),
        ([CONNECT, CONNECTED, ("->", *PRODUCER[1:2], {**PRODUCER[2], "topic": "t"})], "producer has the topic 't', without its namespace"),
        ([CONNECT, CONNECTED, ("->", "subscribe", {**SUBSCRIBE[2], "subscription": "${n}"})], "reads as a variable in a transcript"),
        ([*OPEN, ACK], "message 55:0 is named, but the broker did not tell of it in the capture"),
        ([*OPEN[:2], *SHARED, *OPEN[5:], send(0), receipt(0, 0), message(0, 0), *CLOSE], "leaves before all messages are acknowledged"),
    ],
)
def test_what_can_not_be_transcribed_is_one_line(tmp_path, said, words):
    refused(tmp_path, capture(tmp_path / "c", said), words)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("c/1.client", octets(CONNECT) + octets(SUBSCRIBE)[:-1], "what the client sent, byte 30: truncated: the stream ends"),
        ("c/1.client", b"\x16\x03\x01\x02\x00\x01", "(this looks like TLS): a transcript needs every frame"),
        ("c/index.jsonl", b"{}\n", "connection: Field required"),
        ("x.txt", b"", "is neither an event log nor a capture of packets"),
        ("x.pcap", b"?" * 40, "packets: the file starts neither as"),
        ("x.jsonl", b"{}\n", "not a record of an event log"),
    ],
)
def test_what_can_not_be_read_is_one_line(tmp_path, name, content, words):
    folder = capture(tmp_path / "c", OPEN)
    (tmp_path / name).write_bytes(content)
    refused(tmp_path, folder if name.startswith("c/") else tmp_path / name, words)


def test_what_is_not_there_is_one_line(tmp_path):
    refused(tmp_path, tmp_path / "nothing", "there is no such file or folder")
    refused(tmp_path, capture(tmp_path / "c", OPEN), "there is no connection 3; there are 1 (client 1)", "--connection", "3")
    refused(tmp_path, capture(tmp_path / "d", OPEN, OPEN), "does not tell which connection spoke first: choose one with --connection")
    refused(tmp_path, tmp_path / "c", "is no id of a case", "--id", "No Id")


def test_one_conversation_of_a_log_is_chosen(tmp_path):
    log = recorder.HOME / "apache-pulsar@4.2.4" / "pip145.jsonl.gz"
    (tmp_path / "log.jsonl").write_bytes(gzip.decompress(log.read_bytes()))
    refused(tmp_path, tmp_path / "log.jsonl", "holds several conversations: choose the connections of one with --connection")
    done = CliRunner().invoke(app, ["transcribe", str(tmp_path / "log.jsonl"), "--connection", "1", "--id", "transcribed/one"])
    assert done.exit_code == 0
    assert yaml.safe_load(done.stdout)["id"] == "transcribed/one"


def refused(tmp_path, path, words, *options):
    out = tmp_path / "case.yaml"
    done = CliRunner().invoke(app, ["transcribe", str(path), "-o", str(out), *options])
    assert done.exit_code == EXIT_USAGE, done.output
    (line,) = done.stderr.splitlines()
    assert words in line
    assert TOKEN not in done.output
    assert not out.exists()
