"""A conversation as packets, of which those of one side may be recorded later or earlier than they were."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tests.samples.conversation import Line
from tests.samples.packets import Talk, framed

ACK = 16
Packet = tuple[int, float, bytes]
"""Who sent it, 0 for the client; when, in seconds; and the packet."""


def written(packets: Sequence[Packet], folder: Path) -> Path:
    """Write packets in their order."""
    text = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)
    for _, time, packet in packets:
        data = framed(packet, 1)
        text += struct.pack("<IIII", int(time), int(time % 1 * 1_000_000), len(data), len(data)) + data
    path = folder / "a.pcap"
    path.write_bytes(text)
    return path


def on_the_wire(lines: Sequence[Line]) -> list[Packet]:
    """Return the packets of the first connection of a conversation, with the handshake of TCP before them."""
    talk = Talk()
    client, broker = talk.opened()
    made = [(0, 99.9, client), (1, 99.91, broker), (0, 99.92, talk.segment(0, talk.next[0], ACK))]
    for line in lines:
        if line.connection == "1":
            side = 0 if line.direction == "->" else 1
            made.append((side, 100 + line.time, talk.data(side, line.frame().data)))
    return made


def shifted(packets: Sequence[Packet], seconds: float) -> list[Packet]:
    """Let all packets of the broker be recorded later, or earlier, by the times in the file."""
    moved = [(side, time + seconds * side, packet) for side, time, packet in packets]
    return sorted(moved, key=lambda one: one[1])
