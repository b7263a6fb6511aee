"""The job `conversations_hold`: a law for each monitor, which planted breaches break, and what it makes of captures that lack something."""

import json

import pyarrow as pa
import pytest

from conformance.captures import packet_rows
from conformance.captures.recording import Recording
from conformance.corpus.conversations import ALONE, EXPLAINED, FRAMES, of_connection
from conformance.corpus.jobs.conversations_hold import JOB, LAWS
from conformance.monitors import MONITORS
from conformance.monitors.explained import explanations
from tests.samples.conversation import conversation
from tests.samples.conversation_faults import BREACHES, broken
from tests.samples.faults import Fault
from tests.samples.on_the_wire import on_the_wire, shifted, written

JUDGED = {clause: kind.name for kind in MONITORS for clause in kind.clauses if not kind.of_all_connections}
OF_OTHER_CONNECTIONS = {"gives_permits_to_a_consumer_that_is_not_there", "sends_something_else_under_an_old_sequence_id"}
"""Only who sees all connections can tell that no other one knows the consumer, or what a producer has sent before."""
ALL_FAULTS = [
    Fault(name, "", lambda right: right, frozenset({JUDGED[clause]}))
    for name, (clause, _) in BREACHES.items()
    if clause in JUDGED and name not in OF_OTHER_CONNECTIONS
]


def table(lines, *, file="log.jsonl", connection="core/some/case#0 c", timed=True, lost=(), heard=()):
    """Return the rows of one connection; the frames with the numbers in `lost` are rows without a frame."""
    offsets = {"client": 0, "broker": 0}
    rows = []
    for number, line in enumerate(lines):
        direction = "client" if line.direction == "->" else "broker"
        data = line.frame().data
        rows.append(
            {
                "file": file,
                "connection": connection,
                "direction": direction,
                "offset": offsets[direction],
                "size": len(data),
                "heard": heard[number] if heard else None,
                "time": line.time if timed and number not in lost else None,
                "octets": data,
                "target": "some",
                "_corrupt": "cut: bytes are missing" if number in lost else None,
            }
        )
        offsets[direction] += len(data)
    return pa.Table.from_pylist(rows[::-1])  # Spark gives them in any order


def judged(talk, **options):
    """Return, for all connections, the laws that are broken, and the counts."""
    laws, counts = set(), {}
    for connection in ("1", "2"):
        lines = [line for line in talk.timed() if line.connection == connection]
        for row in of_connection(table(lines, **options)).to_pylist() if lines else ():
            laws |= {row["law"]} if row["broken"] else set()
            if not row["law"]:
                counts[row["clause"]] = counts.get(row["clause"], 0) + row["checked"]
    return laws, counts


def test_the_right_conversation_breaks_nothing_and_all_frames_count():
    laws, counts = judged(conversation())
    assert laws == set()
    assert counts == {FRAMES: len(conversation().lines), ALONE: 0, EXPLAINED: 0}


@pytest.mark.parametrize("one", ALL_FAULTS, ids=lambda one: one.name)
def test_a_breach_breaks_the_law_of_its_monitor(one):
    assert judged(broken(one.name))[0] == one.laws


@pytest.mark.parametrize("name", sorted(OF_OTHER_CONNECTIONS))
def test_what_other_connections_may_explain_is_no_breach(name):
    assert judged(broken(name))[0] == set()


def test_without_times_each_frame_is_judged_by_itself():
    laws, counts = judged(broken("sends_a_wrong_checksum"), timed=False)
    assert laws == {"sent-checksums"}
    assert counts[ALONE] == counts[FRAMES] == len(conversation().lines)


@pytest.mark.parametrize("first", range(0, len(conversation().lines), 4))
def test_frames_that_are_missing_accuse_nobody(first):
    assert judged(conversation(), lost=range(first, first + 2))[0] == set()


def of_packets(path):
    """Return the rows of a capture of packets as the job gets them."""
    rows = [
        {
            **{name: getattr(row.origin, name) for name in ("file", "connection", "direction", "target")},
            **{name: getattr(row, name) for name in ("offset", "size", "time", "heard")},
            "octets": row.data,
            "_corrupt": row.corrupt,
        }
        for row in packet_rows(path, path.name)
    ]
    return pa.Table.from_pylist(rows[::-1])


def judged_packets(packets, folder):
    found = of_connection(of_packets(written(packets, folder))).to_pylist()
    return {row["law"] for row in found if row["broken"]}, {row["clause"]: row["checked"] for row in found if not row["law"]}


@pytest.mark.parametrize("seconds", [-1.0, -0.015, 0.0, 0.015, 1.0])
def test_packets_of_one_side_that_are_recorded_late_or_early_change_nothing(tmp_path, seconds):
    lines = [line for line in conversation().timed() if line.connection == "1"]
    laws, counts = judged_packets(shifted(on_the_wire(lines), seconds), tmp_path)
    assert (laws, counts[FRAMES], counts[ALONE]) == (set(), len(lines), 0)
    early = on_the_wire(broken("sends_before_its_producer_is_there").timed())
    assert judged_packets(shifted(early, seconds), tmp_path)[0] == {"own-ids"}


@pytest.mark.parametrize("lost", range(3, 54, 3))
def test_packets_that_are_missing_accuse_nobody(tmp_path, lost):
    packets = on_the_wire(conversation().timed())
    laws, counts = judged_packets([one for number, one in enumerate(packets) if number != lost], tmp_path)
    assert laws == set()
    assert counts[ALONE] > 0


def test_answers_that_were_noted_before_their_requests_accuse_nobody():
    talk = conversation()
    for line in talk.timed():
        line.time -= 0.05 * (line.direction == "<-")
    lines = sorted((line for line in talk.lines if line.connection == "1"), key=lambda line: line.time)
    found = of_connection(table(lines)).to_pylist()
    assert {row["law"] for row in found if row["broken"]} == set()
    assert {row["clause"]: row["checked"] for row in found if not row["law"]}[ALONE] == len(lines)


def test_what_is_known_of_a_recording_is_counted_and_no_breach():
    entry = explanations()[0]
    talk = broken("the_broker_loses_an_update")
    laws, counts = judged(talk, connection=f"{entry.case.replace('*', 'create')}#3 c")
    assert entry.clause == "pip145.update.hash"
    assert (laws, counts[EXPLAINED]) == (set(), 1)
    assert judged(talk, connection="pip145/update/create#3 c")[0] == {"topic-list-hashes"}


def test_the_job_reads_a_capture(spark, tmp_path, monkeypatch, capsys):  # its session is that of the tests
    monkeypatch.setattr("conformance.corpus.job.spark_session", lambda *_, **__: _Lent(spark))
    result = tmp_path / "result.json"
    assert JOB.main(["--corpus", "tests/samples/captures/python", "--result", str(result)]) == 0
    assert '"frames that are judged by themselves"' in result.read_text()
    assert "holds   sent-checksums: 0 of" in capsys.readouterr().out
    assert {law.name for law in LAWS} == set(JUDGED.values())


def test_both_directions_of_a_raw_capture_are_one_connection(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("conformance.corpus.job.spark_session", lambda *_, **__: _Lent(spark))
    lines = [line for line in conversation().timed() if line.connection == "1"]
    for folder in ("a", "b"):  # in which connections have the same name
        recording = Recording(tmp_path / folder)
        recording.opened(1, 0.0)
        for line in sorted(lines, key=lambda line: line.time):
            recording.add(1, "client" if line.direction == "->" else "broker", line.frame().data, 100 + line.time)
        recording.flush()
    result = tmp_path / "result.json"
    assert JOB.main(["--corpus", str(tmp_path), "--result", str(result)]) == 0
    counters = json.loads(result.read_text())["counters"]
    assert (counters[FRAMES], counters[ALONE]) == (2 * len(lines), 0)


class _Lent:
    def __init__(self, session):
        self.session = session

    def __enter__(self):
        return self.session

    def __exit__(self, *_):
        return None
