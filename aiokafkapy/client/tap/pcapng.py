"""Frames as a packet capture that Wireshark reads: pcapng, with made-up TCP conversations that carry the frames.

Owns the bytes of blocks and packets. Pure: it knows no file and no clock, and does not look into frames. The formats
are those of draft-ietf-opsawg-pcapng, RFC 791 and RFC 9293; packets have no link layer (LINKTYPE_RAW).

Rules: a conversation has one client and one node, and begins with the three segments that open it; a frame is cut into
segments of ``MOST_PAYLOAD`` bytes, numbered on. Nodes listen on port 9092, where Wireshark looks for Kafka, and have
addresses of the network for benchmarks, 198.18.0.0/15 (RFC 2544), which name blocks call ``node-1`` and the like; the
address of a process, in 10.0.0.0/8, is its number, so that several processes may share one file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

__all__ = ["MOST_PAYLOAD", "PacketWriter"]

MOST_PAYLOAD: Final = 65_535 - 40
"""Bytes of a segment: the most that an IPv4 packet can have behind its two headers."""

_LINKTYPE_RAW: Final = 101
_SECTION, _INTERFACE, _NAMES, _PACKET = 0x0A0D0D0A, 1, 4, 6
_FIRST_CLIENT_PORT: Final = 50_000
_NODE_PORT: Final = 9092
_SYN, _ACK, _PSH = 0x02, 0x10, 0x08
_FIRST_SEQUENCE: Final = 1_000

IdSource: TypeAlias = Callable[[], int]
"""Returns each packet's identification number, which would identify its fragments (RFC 791)."""


class PacketWriter:
    """The blocks of one capture: ``header()`` first, then those of each frame. ``process`` is the process's number."""

    def __init__(self, process: int = 1) -> None:
        self._client_address = bytes((10, *(process & 0xFFFFFF).to_bytes(3)))
        self._conversations: dict[tuple[int, int], _Conversation] = {}
        self._named: set[int] = set()
        self._packet_id = 0

    def header(self) -> bytes:
        """The beginning of a capture: its section, and its one interface, with timestamps of nanoseconds."""
        section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
        interface = struct.pack("<HHI", _LINKTYPE_RAW, 0, 0) + _option(9, b"\x09") + _option(0, b"")
        return _block(_SECTION, section) + _block(_INTERFACE, interface)

    def frame(self, node_id: int, client: int, *, is_request: bool, data: bytes, time_ns: int) -> bytes:
        """The blocks of a whole frame, its size included, that ``client`` sent to a node, or the node to it."""
        blocks = []
        conversation = self._conversations.get((node_id, client))
        if conversation is None:
            conversation = self._conversations[node_id, client] = _Conversation(self._client_address, node_id, client)
            if node_id not in self._named:
                self._named.add(node_id)
                blocks.append(_name(conversation.node_address, f"node-{node_id}"))
            blocks += [self._packet(packet, time_ns) for packet in conversation.opened(self._next_id)]
        packets = conversation.segments(is_request, data, self._next_id)
        blocks += [self._packet(packet, time_ns) for packet in packets]
        return b"".join(blocks)

    # internals

    def _next_id(self) -> int:
        self._packet_id = (self._packet_id + 1) & 0xFFFF
        return self._packet_id

    def _packet(self, packet: bytes, time_ns: int) -> bytes:
        high, low = divmod(time_ns, 1 << 32)
        return _block(_PACKET, struct.pack("<IIIII", 0, high, low, len(packet), len(packet)) + _padded(packet))


class _Conversation:
    """One TCP connection, with the sequence numbers that it might have had."""

    def __init__(self, client_address: bytes, node_id: int, client: int) -> None:
        self._client_address = client_address
        # 198.18.0.0/15 has room for 17 bits; bootstrap nodes are negative, and stand at its end.
        number = node_id & 0x1FFFF
        self.node_address = bytes((198, 18 + (number >> 16), number >> 8 & 0xFF, number & 0xFF))
        self._client_port = _FIRST_CLIENT_PORT + client % 10_000
        # the next sequence number of each side: the client's, and the node's
        self._next = [_FIRST_SEQUENCE, _FIRST_SEQUENCE]

    def opened(self, packet_id: IdSource) -> Iterator[bytes]:
        yield self._segment(_SYN, b"", packet_id(), of_client=True)
        self._next[0] += 1
        yield self._segment(_SYN | _ACK, b"", packet_id(), of_client=False)
        self._next[1] += 1
        yield self._segment(_ACK, b"", packet_id(), of_client=True)

    def segments(self, is_request: bool, data: bytes, packet_id: IdSource) -> Iterator[bytes]:
        view = memoryview(data)
        for start in range(0, len(view), MOST_PAYLOAD):
            part = bytes(view[start : start + MOST_PAYLOAD])
            is_last = start + MOST_PAYLOAD >= len(view)
            yield self._segment(_ACK | (_PSH if is_last else 0), part, packet_id(), of_client=is_request)
            side = 0 if is_request else 1
            self._next[side] = (self._next[side] + len(part)) & 0xFFFFFFFF

    def _segment(self, flags: int, payload: bytes, packet_id: int, *, of_client: bool) -> bytes:
        addresses, ports = (self._client_address, self.node_address), (self._client_port, _NODE_PORT)
        sequence, acknowledged = self._next
        if not of_client:
            addresses, ports = addresses[::-1], ports[::-1]
            sequence, acknowledged = acknowledged, sequence
        if flags == _SYN:
            acknowledged = 0
        tcp = struct.pack(">HHIIBBHHH", *ports, sequence, acknowledged, 5 << 4, flags, 0xFFFF, 0, 0)
        pseudo = b"".join(addresses) + struct.pack(">BBH", 0, 6, len(tcp) + len(payload))
        tcp = tcp[:16] + struct.pack(">H", _checksum(pseudo + tcp + payload)) + tcp[18:]
        size = 20 + len(tcp) + len(payload)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, size, packet_id, 0x4000, 64, 6, 0) + b"".join(addresses)
        ip = ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:]
        return ip + tcp + payload


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071): a sum with end-around carry is the remainder by 65,535."""
    total = int.from_bytes(data if len(data) % 2 == 0 else data + b"\0") % 0xFFFF
    return 0xFFFF - total


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + 12
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _name(address: bytes, name: str) -> bytes:
    """A block that calls an IPv4 address by a name."""
    return _block(_NAMES, _option(1, address + name.encode() + b"\0") + _option(0, b""))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
