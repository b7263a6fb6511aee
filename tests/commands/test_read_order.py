"""The command `read` judges each side by what it knew: how the packets of both sides were recorded against each other accuses nobody."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from conformance.captures import MAX_FRAME_SIZE, packet_rows
from conformance.captures.recording import Recording
from conformance.cli import app
from conformance.exit_codes import EXIT_CONFORMANT, EXIT_INCONCLUSIVE, EXIT_NOT_CONFORMANT
from tests.samples.conversation import Line, conversation
from tests.samples.conversation_faults import BREACHES, broken
from tests.samples.on_the_wire import Packet, on_the_wire, shifted, written
from tests.samples.packets import Talk


def judged(path: Path) -> tuple[int, str]:
    """Return the exit code, and all that is said."""
    done = CliRunner().invoke(app, ["read", str(path), "--judge"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout + done.stderr


@functools.cache
def right() -> tuple[Packet, ...]:
    return tuple(on_the_wire(conversation().timed()))


@functools.cache
def wrong(name: str) -> tuple[Packet, ...]:
    return tuple(on_the_wire(broken(name).timed()))


FAULTS = [name for name in sorted(BREACHES) if name != "gives_permits_to_a_consumer_that_is_not_there"]


@functools.cache
def plain(name: str) -> int:
    """Return the exit code for a conversation with a fault as it was recorded."""
    with TemporaryDirectory() as folder:
        return judged(written(wrong(name), Path(folder)))[0]


def test_the_right_conversation_passes(tmp_path: Path) -> None:
    code, said = judged(written(right(), tmp_path))
    assert code == EXIT_CONFORMANT, said


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seconds=st.floats(-5, 5))
def test_a_shift_of_one_side_accuses_nobody(tmp_path: Path, seconds: float) -> None:
    code, said = judged(written(shifted(right(), seconds), tmp_path))
    assert code == EXIT_CONFORMANT, said


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_order_across_both_sides_accuses_nobody(tmp_path: Path, data: st.DataObject) -> None:
    sides = [[one for one in right() if one[0] == side] for side in (0, 1)]
    turns = data.draw(st.permutations([side for side, _, _ in right()]))
    code, said = judged(written([sides[side].pop(0) for side in turns], tmp_path))
    assert code in (EXIT_CONFORMANT, EXIT_INCONCLUSIVE), said
    assert "BREACH" not in said


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seconds=st.floats(-0.2, 0.2), lost=st.sets(st.integers(3, 80), max_size=3))
def test_a_shift_and_lost_packets_accuse_nobody(tmp_path: Path, seconds: float, lost: set[int]) -> None:
    rest = [one for number, one in enumerate(right()) if number not in lost]
    code, said = judged(written(shifted(rest, seconds), tmp_path))
    assert "BREACH" not in said
    assert code in (EXIT_CONFORMANT, EXIT_INCONCLUSIVE), said


@pytest.mark.parametrize("seconds", [-0.015, 1.0])
@pytest.mark.parametrize("name", FAULTS)
def test_a_shift_hides_no_breach(tmp_path: Path, name: str, seconds: float) -> None:
    code, said = judged(written(shifted(wrong(name), seconds), tmp_path))
    assert code == plain(name), said


def test_most_breaches_are_found_in_packets() -> None:
    assert {name for name in FAULTS if plain(name) != EXIT_NOT_CONFORMANT} == {
        # which connections belong to one client is not in a capture
        *("acknowledges_an_entry_that_did_not_come", "acknowledges_all_that_will_ever_come", "names_a_set_that_it_never_had"),
        "sends_something_else_under_an_old_sequence_id",  # the producer may have attached on another one before
        "filters_at_a_broker_without_filters",  # on the second connection
    }


@pytest.mark.parametrize("frozen", [{0, 1}, {0}, {1}])
def test_packets_that_acknowledge_nothing_accuse_nobody(tmp_path: Path, frozen: set[int]) -> None:
    """Some programs write packets whose acknowledgements mean nothing."""
    first = Talk()
    made = []
    for side, time, packet in right():
        number = struct.pack(">I", first.first[1 - side] + 1)
        made.append((side, time, packet[:28] + number + packet[32:] if side in frozen else packet))
    code, said = judged(written(made, tmp_path))
    assert "BREACH" not in said
    assert code == EXIT_INCONCLUSIVE, said
    assert "the order of both sides is not known: TCP does not say what each of them had got" in said


def test_rows_tell_what_their_sender_had_got(tmp_path: Path) -> None:
    talk = Talk()
    lines = [line.frame().data for line in conversation().lines[:4]]
    made = [*talk.opened(), talk.client(lines[0]), talk.broker(lines[1]), talk.client(lines[2] + lines[3][:5]), talk.client(lines[3][5:])]
    path = written([(0, float(number), one) for number, one in enumerate(made)], tmp_path)
    rows = list(packet_rows(path, "a", limit=MAX_FRAME_SIZE))
    assert [(row.command, row.heard) for row in rows] == [
        ("connect", 0),
        ("connected", len(lines[0])),
        ("partitionMetadata", len(lines[1])),
        ("producer", len(lines[1])),
    ]


def recorded(folder: Path, lines: Sequence[Line], seconds: float) -> Path:
    """Write a raw capture in which what the broker sent has other times."""
    recording = Recording(folder)
    recording.opened(1, 0.0)
    moved = [(line.time + (seconds if line.direction == "<-" else 0), line) for line in lines if line.connection == "1"]
    for time, line in sorted(moved, key=lambda one: one[0]):
        recording.add(1, "client" if line.direction == "->" else "broker", line.frame().data, 100 + time)
    recording.flush()
    return folder


def test_answers_before_their_requests_in_a_raw_capture_accuse_nobody(tmp_path: Path) -> None:
    code, said = judged(recorded(tmp_path / "c", conversation().timed(), -0.05))
    assert code == EXIT_INCONCLUSIVE, said
    assert "BREACH" not in said
    assert "the order of both sides is not known: connected before connect" in said
    assert judged(recorded(tmp_path / "d", conversation().timed(), 0.0))[0] == EXIT_CONFORMANT
