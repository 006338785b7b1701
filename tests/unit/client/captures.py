"""Reads packet captures again, for tests: blocks, packets, checksums, and the streams that they make."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Packet", "names", "packets", "streams"]


class Packet(NamedTuple):
    """A TCP segment."""

    source: tuple[str, int]
    target: tuple[str, int]
    sequence: int
    acknowledged: int
    flags: int
    payload: bytes
    time_ns: int


def packets(capture: bytes) -> list[Packet]:
    """All packets, whose checksums must be right."""
    return [_packet(body) for kind, body in _blocks(capture) if kind == 6]


def names(capture: bytes) -> dict[str, str]:
    """The names of addresses."""
    found = {}
    for kind, body in _blocks(capture):
        if kind == 4:
            code, size = struct.unpack_from("<HH", body)
            assert code == 1
            found[".".join(map(str, body[4:8]))] = body[8 : 4 + size].rstrip(b"\0").decode()
    return found


def streams(capture: bytes) -> dict[tuple[tuple[str, int], tuple[str, int]], bytes]:
    """The bytes from each side of each conversation, in sequence, without a gap."""
    found: dict[tuple[tuple[str, int], tuple[str, int]], bytes] = {}
    expected: dict[tuple[tuple[str, int], tuple[str, int]], int] = {}
    for packet in packets(capture):
        way = (packet.source, packet.target)
        assert packet.sequence == expected.get(way, packet.sequence), "no gap"
        if way[::-1] in expected and packet.flags & 0x10:
            assert packet.acknowledged == expected[way[::-1]]
        expected[way] = packet.sequence + len(packet.payload) + (packet.flags & 0x02) // 2
        found[way] = found.get(way, b"") + packet.payload
    return found


def _blocks(capture: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(capture):
        kind, size = struct.unpack_from("<II", capture, position)
        assert size % 4 == 0
        assert struct.unpack_from("<I", capture, position + size - 4) == (size,)
        yield kind, capture[position + 8 : position + size - 4]
        position += size
    assert position == len(capture)


def _packet(body: bytes) -> Packet:
    interface, high, low, captured, size = struct.unpack_from("<IIIII", body)
    assert (interface, captured) == (0, size)
    packet = body[20 : 20 + size]
    version, _, total, _, _, _, protocol, _ = struct.unpack_from(">BBHHHBBH", packet)
    assert (version, total, protocol) == (0x45, size, 6)
    assert _sums_up(packet[:20])
    assert _sums_up(packet[12:20] + struct.pack(">BBH", 0, 6, size - 20) + packet[20:])
    source_port, target_port, sequence, acknowledged, offset, flags = struct.unpack_from(">HHIIBB", packet, 20)
    assert offset == 5 << 4
    source, target = (".".join(map(str, packet[at : at + 4])) for at in (12, 16))
    return Packet(
        (source, source_port), (target, target_port), sequence, acknowledged, flags, packet[40:], (high << 32) + low
    )


def _sums_up(data: bytes) -> bool:
    """The checksum as RFC 1071 has it, word by word."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF
