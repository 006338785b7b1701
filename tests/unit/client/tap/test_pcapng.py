from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.client.tap.pcapng import MOST_PAYLOAD, PacketWriter
from tests.unit.client.captures import names, packets, streams


def test_a_conversation_is_opened_and_its_frames_follow() -> None:
    writer = PacketWriter(process=0x010203)
    capture = (
        writer.header()
        + writer.frame(7, 0, is_request=True, data=b"question", time_ns=10**18 + 5)
        + writer.frame(7, 0, is_request=False, data=b"ok", time_ns=1)
    )
    found = packets(capture)
    assert [packet.flags for packet in found] == [0x02, 0x12, 0x10, 0x18, 0x18]
    client, node = ("10.1.2.3", 50_000), ("198.18.0.7", 9092)
    assert [(packet.source, packet.target) for packet in found[:2]] == [(client, node), (node, client)]
    assert found[3].time_ns == 10**18 + 5
    assert streams(capture) == {(client, node): b"question", (node, client): b"ok"}
    assert names(capture) == {"198.18.0.7": "node-7"}


@pytest.mark.parametrize("size", [0, 1, MOST_PAYLOAD, MOST_PAYLOAD + 1, 3 * MOST_PAYLOAD + 7])
def test_a_large_frame_is_cut_into_segments(size: int) -> None:
    writer = PacketWriter()
    data = bytes(index % 251 for index in range(size))
    capture = (
        writer.header()
        + writer.frame(1, 0, is_request=False, data=data, time_ns=0)
        + writer.frame(1, 0, is_request=True, data=b"x", time_ns=0)
    )
    assert b"x" in streams(capture).values()
    assert data in streams(capture).values()
    assert all(len(packet.payload) <= MOST_PAYLOAD for packet in packets(capture))


@given(st.lists(st.tuples(st.integers(-3, 200_000), st.integers(0, 3), st.booleans(), st.binary(max_size=50))))
def test_each_client_and_node_has_a_stream_of_its_own(frames: list[tuple[int, int, bool, bytes]]) -> None:
    writer = PacketWriter()
    capture = writer.header()
    sent: dict[tuple[int, int, bool], bytes] = {}
    for node_id, client, is_request, data in frames:
        capture += writer.frame(node_id, client, is_request=is_request, data=data, time_ns=0)
        sent.setdefault((node_id & 0x1FFFF, client, not is_request), b"")
        way = (node_id & 0x1FFFF, client, is_request)
        sent[way] = sent.get(way, b"") + data
    assert sorted(streams(capture).values()) == sorted(sent.values())


def test_sequence_numbers_begin_again_after_the_last() -> None:
    writer = PacketWriter()
    writer.frame(1, 0, is_request=True, data=b"", time_ns=0)
    (conversation,) = writer._conversations.values()
    conversation._next[0] = 2**32 - 3
    first, second = packets(
        writer.frame(1, 0, is_request=True, data=b"12345", time_ns=0)
        + writer.frame(1, 0, is_request=True, data=b"6", time_ns=0)
    )
    assert (first.sequence, second.sequence) == (2**32 - 3, 2)


def test_bootstrap_nodes_and_many_clients_have_their_addresses() -> None:
    writer = PacketWriter()
    capture = (
        writer.header()
        + writer.frame(-1, 12_345, is_request=True, data=b"a", time_ns=0)
        + writer.frame(70_000, 0, is_request=True, data=b"b", time_ns=0)
    )
    assert {packet.target[0] for packet in packets(capture) if packet.payload} == {"198.19.255.255", "198.19.17.112"}
    assert names(capture) == {"198.19.255.255": "node--1", "198.19.17.112": "node-70000"}
