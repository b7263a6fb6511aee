"""The proxy writes captures that have all messages a stock client sent."""

import asyncio
from pathlib import Path

import pytest

from conformance.captures import MAX_FRAME_SIZE, check_capture, find_pieces
from conformance.corpus import captured
from tests.interop.captures import capture

pytestmark = pytest.mark.interop


def test_a_capture_of_the_python_client(tmp_path: Path) -> None:
    written = asyncio.run(capture(tmp_path, clients=("python",)))["python"]
    check_capture(str(tmp_path))
    rows = [row for piece in find_pieces(tmp_path, 1 << 24, MAX_FRAME_SIZE)[0] for row in piece.rows(MAX_FRAME_SIZE)]
    assert (written.frames, written.left_out) == (len(rows), 0)
    assert {row.corrupt for row in rows} == {None}
    sent, received = ([row.data for row in rows if row.origin.direction == side] for side in ("client", "broker"))
    assert len(list(captured.messages_of(sent, received, "c"))) == 74
