"""Captures of packets to read, for the tests of connections: segments in any order and link type, in pcap and pcapng."""

import struct
from dataclasses import dataclass

CLIENT, BROKER = ("10.0.0.7", 51000), ("10.0.0.1", 6650)
SYN, ACK, PSH, FIN = 2, 16, 8, 1


@dataclass
class Talk:
    """A connection, of which segments are made: `client(data)` and `broker(data)` carry on where the last one ended."""

    ends: tuple = (CLIENT, BROKER)
    first: tuple = (1000, 5000)
    version: int = 4

    def __post_init__(self):
        self.next = [number + 1 for number in self.first]

    def opened(self):
        return [self.segment(0, self.first[0], SYN), self.segment(1, self.first[1], SYN | ACK)]

    def client(self, data):
        return self.data(0, data)

    def broker(self, data):
        return self.data(1, data)

    def data(self, side, data):
        made = self.segment(side, self.next[side], ACK | PSH, data)
        self.next[side] += len(data)
        return made

    def segment(self, side, sequence, flags, data=b""):
        (source, source_port), (target, target_port) = self.ends[side], self.ends[1 - side]
        tcp = (
            struct.pack(
                ">HHIIBBHHH", source_port, target_port, sequence % (1 << 32), self.next[1 - side] % (1 << 32), 5 << 4, flags, 1000, 0, 0
            )
            + data
        )
        return ip(source, target, tcp, self.version)


def ip(source, target, data, version=4, protocol=6):
    if version == 6:
        return struct.pack(">IHBB", 6 << 28, len(data), protocol, 64) + bytes(15) + b"\x07" + bytes(15) + b"\x01" + data
    addresses = b"".join(bytes(int(part) for part in text.split(".")) for text in (source, target))
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(data), 0, 0, 64, protocol, 0) + addresses + data


def framed(packet, link):
    kind = b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00"
    if link == 1:
        return bytes(12) + kind + packet + bytes(max(0, 46 - len(packet)))  # padded, as Ethernet does
    if link == "vlan":
        return bytes(12) + b"\x88\xa8\x00\x01\x81\x00\x00\x02" + kind + packet
    if link == 113:
        return bytes(14) + kind + packet
    if link == 276:
        return kind + bytes(18) + packet
    return (b"\x02\x00\x00\x00" if link in (0, 108) else b"") + packet


def pcap(packets, link=1, order="<", magic=0xA1B2C3D4, longest=1 << 18):
    number = 1 if link == "vlan" else link
    text = struct.pack(f"{order}IHHIIII", magic, 2, 4, 0, 0, longest, number)
    units = 1000 if magic == 0xA1B23C4D else 1
    for place, packet in enumerate(packets):
        data = framed(packet, link)
        text += struct.pack(f"{order}IIII", 100 + place, 500_000 * units, min(len(data), longest), len(data)) + data[:longest]
    return text


def block(kind, body, order="<"):
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def section(order="<"):
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link=1, order="<", options=b""):
    return block(1, struct.pack(f"{order}HHI", link, 0, 0) + options, order)


def pcapng(packets, link=1, order="<", kind=6):
    text = section(order) + interface(link, order) + block(5, bytes(12), order)
    for place, packet in enumerate(packets):
        data = framed(packet, link)
        ticks = (100 + place) * 1_000_000 + 500_000
        head = {
            6: struct.pack(f"{order}IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data)),
            2: struct.pack(f"{order}HHIIII", 0, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data)),
            3: struct.pack(f"{order}I", len(data)),
        }[kind]
        text += block(kind, head + data, order)
    return text
