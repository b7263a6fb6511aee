"""TCP segments in captures of packets: pcap and pcapng, as tcpdump, Wireshark and others write them.

    pcap     [magic u32][version u16 u16][0 u32][0 u32][longest u32][link type u32]
             and for each packet [seconds u32][fraction u32][bytes kept u32][bytes sent u32][packet]
    pcapng   [block type u32][size u32][body, to four bytes][size u32] ..
             a section header says in which order bytes are, an interface says which link type

Read are Ethernet with VLAN tags, the loopback of BSD, Linux's `-i any` in both forms, and bare IP; IPv4 and IPv6, also inside each other.
A packet may be shorter in the capture than on the wire. Packets without TCP are passed over.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000, 0),
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000, 0),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000, 0),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000, 0),
    b"\x34\xcd\xb2\xa1": ("<", 1_000_000, 8),
    b"\xa1\xb2\xcd\x34": (">", 1_000_000, 8),
}
"""How pcap starts: order of bytes, units of a second, and bytes that a packet's header has beyond the usual ones."""
SECTION = b"\x0a\x0d\x0d\x0a"
"""How pcapng starts."""
SYN, ACK = 0x02, 0x10
_LARGEST = 1 << 24
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_ETHERNET, _SLL, _SLL2 = 1, 113, 276
_BEFORE_IP = {0: 4, 108: 4, 12: 0, 14: 0, 101: 0, 228: 0, 229: 0}
"""Bytes before the IP header, by link type, where no field says what follows."""
_TAGS = (0x8100, 0x88A8, 0x9100)
_IP = (0x0800, 0x86DD)
_TCP, _INNER = 6, (4, 41)
_OPTIONS_OF_IPV6 = (0, 43, 60)
_FRAGMENT = 44


class Damaged(ValueError):
    """The capture can't be read further.

    Args:
        offset: Where, in bytes.
        why: What is wrong.
        ended: Whether it just ends there.
    """

    def __init__(self, offset: int, why: str, *, ended: bool = False) -> None:
        super().__init__(why)
        self.offset = offset
        self.ended = ended


@dataclass(frozen=True, slots=True, order=True)
class End:
    """One end of a connection: the address in bytes, and the port."""

    address: bytes
    port: int

    def __str__(self) -> str:
        address = ip_address(self.address)
        return f"[{address}]:{self.port}" if address.version == 6 else f"{address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Segment:
    """A TCP segment.

    Attributes:
        time: When it was seen, in seconds since 1970.
        source: Who sent it.
        target: To whom.
        sequence: Number of its first byte, or of the SYN.
        flags: Those of TCP.
        data: What it carries, as far as it was captured.
        size: Bytes that it carried.
        acknowledged: Number behind the last byte that its sender has got; what it says counts with the flag ACK only.
    """

    time: float
    source: End
    target: End
    sequence: int
    flags: int
    data: bytes
    size: int
    acknowledged: int


@dataclass(frozen=True, slots=True)
class _Packet:
    time: float
    link: int
    data: bytes


def segments(file: io.BufferedReader[Any]) -> Iterator[Segment]:
    """Read the TCP segments of a capture of packets, in its order.

    Raises:
        Damaged: It is no such capture, has a link type that is not known, or is damaged.
    """
    reader = _Reader(file)
    if reader.at_end():
        raise Damaged(0, "the file is empty")
    magic = reader.take(4)
    if magic == SECTION:
        packets = _pcapng_packets(reader)
    elif magic in MAGIC:
        packets = _pcap_packets(reader, *MAGIC[magic])
    else:
        raise Damaged(0, "the file starts neither as pcap nor as pcapng")
    for packet in packets:
        found = _segment(packet.time, _network(packet.link, packet.data))
        if found is not None:
            yield found


class _Reader:
    def __init__(self, file: io.BufferedReader[Any]) -> None:
        self._file = file
        self.offset = 0

    def take(self, size: int) -> bytes:
        """Take exactly so many bytes.

        Raises:
            Damaged: There are fewer.
        """
        data = self._file.read(size)
        if len(data) < size:
            raise Damaged(self.offset, "the file ends inside a packet", ended=True)
        self.offset += size
        return data

    def at_end(self) -> bool:
        return not self._file.peek(1)


def _known(link: int, reader: _Reader) -> int:
    if link not in (_ETHERNET, _SLL, _SLL2, *_BEFORE_IP):
        raise Damaged(reader.offset, f"link type {link} is not known; known: Ethernet, loopback, Linux cooked, raw IP")
    return link


def _pcap_packets(reader: _Reader, order: str, units: int, beyond: int) -> Iterator[_Packet]:
    *_, network = struct.unpack(f"{order}HHIIII", reader.take(20))
    link = _known(network & 0xFFFF, reader)
    header = struct.Struct(f"{order}IIII")
    while not reader.at_end():
        start = reader.offset
        seconds, fraction, kept, _ = header.unpack(reader.take(16))
        if kept > _LARGEST:
            raise Damaged(start, f"a packet of {kept:,} bytes")
        reader.take(beyond)
        yield _Packet(seconds + fraction / units, link, reader.take(kept))


def _pcapng_packets(reader: _Reader) -> Iterator[_Packet]:
    order = _section_order(reader)
    interfaces: list[tuple[int, float, int, int]] = []
    while not reader.at_end():
        start = reader.offset
        kind = reader.take(4)
        if kind == SECTION:
            order, interfaces = _section_order(reader), []
            continue
        (number,) = struct.unpack(f"{order}I", kind)
        body = _body(reader, order, start)
        try:
            if number == _INTERFACE:
                interfaces.append(_interface(body, order))
            elif number in (_PACKET, _OLD_PACKET):
                packet = _packet(body, order, interfaces, old=number == _OLD_PACKET)
                _known(packet.link, reader)
                yield packet
            elif number == _SIMPLE_PACKET:
                link, _, _, longest = interfaces[0]
                size = min(struct.unpack_from(f"{order}I", body)[0], longest or len(body))
                yield _Packet(0.0, _known(link, reader), body[4 : 4 + size])
        except (struct.error, IndexError):
            raise Damaged(start, f"a block of type {number} that is too short, or names an interface that is not there") from None


def _section_order(reader: _Reader) -> str:
    size = reader.take(4)
    magic = reader.take(4)
    order = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}.get(magic)
    if order is None:
        raise Damaged(reader.offset - 4, "a section header without its magic")
    (length,) = struct.unpack(f"{order}I", size)
    if not 28 <= length <= _LARGEST:
        raise Damaged(reader.offset - 8, f"a section header of {length:,} bytes")
    reader.take(length - 12)
    return order


def _body(reader: _Reader, order: str, start: int) -> bytes:
    (length,) = struct.unpack(f"{order}I", reader.take(4))
    if not 12 <= length <= _LARGEST or length % 4:
        raise Damaged(start, f"a block of {length:,} bytes")
    body = reader.take(length - 12)
    if struct.unpack(f"{order}I", reader.take(4)) != (length,):
        raise Damaged(start, "a block that says two sizes")
    return body


def _interface(body: bytes, order: str) -> tuple[int, float, int, int]:
    """Return link type, seconds of a unit, seconds to add, and bytes of the longest packet. A link need not be known yet."""
    link, _, longest = struct.unpack_from(f"{order}HHI", body)
    unit, beyond, place = 1e-6, 0, 8
    while place + 4 <= len(body):
        code, length = struct.unpack_from(f"{order}HH", body, place)
        value = body[place + 4 : place + 4 + length]
        if code == 9 and value:
            unit = 2.0 ** -(value[0] & 0x7F) if value[0] & 0x80 else 10.0 ** -value[0]
        elif code == 14 and len(value) == 8:
            (beyond,) = struct.unpack(f"{order}q", value)
        place += 4 + length + -length % 4
    return link, unit, beyond, longest


def _packet(body: bytes, order: str, interfaces: list[tuple[int, float, int, int]], *, old: bool) -> _Packet:
    number, high, low, kept, _ = struct.unpack_from(f"{order}H2xIIII" if old else f"{order}IIIII", body)
    link, unit, beyond, _ = interfaces[number]
    if kept > len(body) - 20:
        raise IndexError
    return _Packet(beyond + (high << 32 | low) * unit, link, body[20 : 20 + kept])


def _network(link: int, data: bytes) -> bytes:
    """Return what follows the header of the link; empty if that is not IP."""
    if link in _BEFORE_IP:
        return data[_BEFORE_IP[link] :]
    if link == _SLL2:
        kind, place = int.from_bytes(data[:2], "big"), 20
    else:
        place = 14 if link == _ETHERNET else 16
        kind = int.from_bytes(data[place - 2 : place], "big")
    while kind in _TAGS:
        kind, place = int.from_bytes(data[place + 2 : place + 4], "big"), place + 4
    return data[place:] if kind in _IP else b""


def _segment(time: float, packet: bytes) -> Segment | None:
    """Return the segment in an IP packet, if that is what it has."""
    try:
        version = packet[0] >> 4
        if version == 4:
            protocol, header, addresses = packet[9], (packet[0] & 15) * 4, (packet[12:16], packet[16:20])
            length = int.from_bytes(packet[2:4], "big") or len(packet)  # 0: the network card divides it later
            if int.from_bytes(packet[6:8], "big") & 0x1FFF:
                return None  # a later fragment, which has no header
        elif version == 6:
            protocol, header, addresses = packet[6], 40, (packet[8:24], packet[24:40])
            length = 40 + int.from_bytes(packet[4:6], "big")
            length = length if length > 40 else len(packet)
            while protocol in _OPTIONS_OF_IPV6 or protocol == _FRAGMENT:
                if protocol == _FRAGMENT and int.from_bytes(packet[header + 2 : header + 4], "big") >> 3:
                    return None
                protocol, header = packet[header], header + (8 if protocol == _FRAGMENT else 8 * (packet[header + 1] + 1))
        else:
            return None
        if protocol in _INNER:
            return _segment(time, packet[header:length])
        if protocol != _TCP:
            return None
        tcp = packet[header:length]
        ports = int.from_bytes(tcp[0:2], "big"), int.from_bytes(tcp[2:4], "big")
        own, flags = (tcp[12] >> 4) * 4, tcp[13]
    except IndexError:
        return None
    if own < 20:
        return None
    source, target = (End(bytes(address), port) for address, port in zip(addresses, ports, strict=True))
    numbers = int.from_bytes(tcp[4:8], "big"), int.from_bytes(tcp[8:12], "big")
    return Segment(time, source, target, numbers[0], flags, bytes(tcp[own:]), max(0, length - header - own), numbers[1])
