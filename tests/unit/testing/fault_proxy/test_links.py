"""Connections through the proxy: frames, cuts, stalls, half-open ones, and each end, which reaches the other side.

Nothing waits for time to pass, only for bytes, ends and counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response
from aiokafkapy.testing import FaultProxy, Recording
from aiokafkapy.testing.connections import MAX_FRAME
from aiokafkapy.testing.fault_proxy import Answer
from tests.tcp_servers import closed_port

from .harness import DEADLINE, METADATA_VERSION, Connect, Server, framed, is_answered, metadata_of, plain_request, turns


async def test_bytes_that_are_not_kafkas_are_passed_on(server: Server, plain: FaultProxy, connect: Connect) -> None:
    server.answer = framed
    client = await connect(plain)
    for frame in (b"", b"x", b"\0\x03\x7f\x7fabc", b"\0\0\0\x0dabcd\xff\xff\0yz"):
        client.writer.write(framed(frame))
        assert await client.frame() == frame
    assert [request.api_key for request in plain.requests] == [-1, -1, -1, ApiKey.PRODUCE]


async def test_large_frames_pass_in_both_directions(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    payload = bytes(range(256)) * 4096 * 30
    assert await client.echoed(payload) == payload


@pytest.mark.parametrize("size", [-1, MAX_FRAME + 1, 2**31 - 1])
async def test_a_frame_too_large_or_negative_ends_the_link(
    server: Server, plain: FaultProxy, connect: Connect, size: int
) -> None:
    client = await connect(plain)
    client.writer.write(struct.pack(">i", size) + b"x" * 100)
    await client.is_reset()
    server.answer = lambda _: struct.pack(">i", size) + b"x" * 100
    client = await connect(plain)
    client.writer.write(plain_request(1, b""))
    await client.is_reset()
    await plain.until(lambda: plain.connection_count() == 0, DEADLINE)


async def test_cut_resets_connections_and_welcomes_new_ones(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    assert plain.cut() == 1
    assert await client.is_reset()
    assert await (await connect(plain)).echoed(b"again") == b"again"


async def test_an_orderly_cut_is_an_end_of_file(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    plain.cut(reset=False)
    assert not await client.is_reset()


async def test_refuse_refuses_new_connections_only(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    before = plain.bootstrap_servers
    plain.refuse()
    with pytest.raises(ConnectionRefusedError):
        await connect(plain)
    assert await client.echoed(b"still here") == b"still here"
    await plain.accept()
    assert plain.bootstrap_servers == before
    assert await (await connect(plain)).echoed(b"back") == b"back"


async def test_stall_moves_nothing_until_resume(server: Server, plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    plain.stall()
    client.writer.write(plain_request(1, b"waiting"))
    late = await connect(plain)
    late.writer.write(plain_request(1, b"late"))
    await turns()
    assert len(server.received) == len(plain.requests) == 1
    plain.resume()
    assert await client.frame() == b"\0\0\0\1waiting"
    assert await late.frame() == b"\0\0\0\1late"


async def test_bytes_that_came_in_one_piece_are_stalled_in_the_middle(plain: FaultProxy, connect: Connect) -> None:
    """A verb holds when it returns, also for the next frame of the same read."""
    client = await connect(plain)
    plain.on_request(999, lambda request: plain.stall())
    client.writer.write(plain_request(1, b"") + plain_request(2, b"") + plain_request(3, b""))
    await plain.seen(999)
    await turns()
    assert len(plain.requests) == 1
    plain.clear(999)
    plain.resume()
    assert [await client.frame() for _ in range(3)] == [struct.pack(">i", n) for n in (1, 2, 3)]


@pytest.mark.parametrize("reason", ["stalled", "the target does not read"])
async def test_a_writer_meets_a_full_pipe_in_the_end(
    server: Server, plain: FaultProxy, connect: Connect, reason: str
) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    target: Any = server.writers[0].transport
    if reason == "stalled":
        plain.stall()
    else:
        target.pause_reading()
        server.answer = lambda _: b""
    frame = plain_request(1, bytes(64 * 1024))
    for _ in range(1_000):  # more than the system's buffers take
        client.writer.write(frame)
    await turns(500)
    drained = asyncio.ensure_future(client.writer.drain())
    await turns()
    assert not drained.done()
    assert len(plain.requests) < 750
    if reason == "stalled":
        plain.resume()
    else:
        target.resume_reading()
    await asyncio.wait_for(drained, DEADLINE)
    await plain.seen(999, 1_001, timeout=DEADLINE)


async def test_a_client_that_reads_nothing_stops_the_broker_and_not_the_memory(
    server: Server, plain: FaultProxy, connect: Connect
) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    client.writer.transport.pause_reading()
    big = framed(b"\0\0\0\1" + bytes(256 * 1024))
    server.answer = lambda _: big
    for _ in range(250):
        client.writer.write(plain_request(1, b""))
    await plain.seen(999, 251)
    await turns(500)
    assert plain.answers_received < 190
    client.writer.transport.resume_reading()
    for _ in range(250):
        assert len(await client.frame()) == len(big) - 4


async def test_half_open_swallows_and_resume_cuts(server: Server, plain: FaultProxy, connect: Connect) -> None:
    client, unharmed = await connect(plain), await connect(plain)
    await client.echoed(b"x")
    await unharmed.echoed(b"x")
    plain.half_open()
    client.writer.write(plain_request(1, b"into the void"))
    late = await connect(plain)
    late.writer.write(plain_request(1, b"too"))
    server.writers[0].write(framed(b"\0\0\0\1unasked"))
    await turns()
    assert len(server.received) == len(plain.requests) == 2
    plain.resume()
    assert await client.is_reset()
    assert await late.is_reset()
    assert await unharmed.echoed(b"y") == b"y"


async def test_slow_lets_bytes_through_piece_by_piece_and_in_order(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    payload = bytes(range(250)) * 400
    plain.slow(2_000)
    client.writer.write(plain_request(1, b"abcde"))
    assert await client.frame() == b"\0\0\0\1abcde"
    plain.on_request(999, lambda _: Answer(forward=False, replace=lambda *_: framed(b"\0\0\0\1" + payload)))
    client.writer.write(plain_request(1, b""))
    async with asyncio.timeout(DEADLINE):
        first = await client.reader.readexactly(8)
        some = await client.reader.read(len(payload))
    assert first == struct.pack(">ii", len(payload) + 4, 1)
    assert 0 < len(some) < len(payload), "all of it takes 50 s"
    plain.slow(None)
    async with asyncio.timeout(DEADLINE):
        assert some + await client.reader.readexactly(len(payload) - len(some)) == payload
    for rate in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"bytes_per_second={rate}: .*stall"):
            plain.slow(rate)


async def test_a_verb_may_be_for_one_node(broker: DevBroker, proxy: FaultProxy, connect: Connect) -> None:
    """It may be for a node that is not known yet."""
    proxy.refuse(node_id=3)
    bootstrap = await connect(proxy)
    await metadata_of(bootstrap)
    with pytest.raises(ConnectionRefusedError):
        await connect(proxy, 3)
    await proxy.accept(node_id=3)
    one, two, three = [await connect(proxy, node_id) for node_id in (1, 2, 3)]
    for client in (one, two, three):
        await metadata_of(client)
    proxy.stall(node_id=2)
    proxy.half_open(node_id=3)
    for client in (two, three):
        client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    await metadata_of(one)
    await turns()
    assert proxy.request_count(ApiKey.METADATA, 2) == proxy.request_count(ApiKey.METADATA, 3) == 1
    proxy.resume(node_id=2)
    await two.frame()
    assert proxy.request_count(ApiKey.METADATA, 3) == 1
    proxy.resume(node_id=3)
    assert await three.is_reset()
    assert proxy.cut(node_id=2) == 1
    assert await two.is_reset()
    await metadata_of(one)
    proxy.drop_next(ApiKey.METADATA, node_id=2)
    await metadata_of(one)
    assert not await is_answered(await connect(proxy, 2))


async def test_a_setting_for_all_nodes_replaces_that_of_each(proxy: FaultProxy, connect: Connect) -> None:
    await metadata_of(await connect(proxy))
    proxy.stall(node_id=2)
    proxy.stall()
    proxy.resume(node_id=1)
    assert await is_answered(await connect(proxy, 1))
    proxy.resume()
    assert await is_answered(await connect(proxy, 2))


async def test_the_brokers_end_reaches_the_client_after_its_last_bytes(
    server: Server, plain: FaultProxy, connect: Connect
) -> None:
    client = await connect(plain)
    await client.echoed(b"x")
    client.writer.write(plain_request(2, b"bye"))
    assert await client.frame() == b"\0\0\0\2bye"
    server.writers[0].write(framed(b"\0\0\0\3unasked"))
    server.writers[0].close()
    assert await client.rest() == framed(b"\0\0\0\3unasked")


async def test_the_brokers_end_is_not_kept_back_by_answers_that_are(
    server: Server, plain: FaultProxy, connect: Connect
) -> None:
    client = await connect(plain)
    plain.hold(999)
    client.writer.write(plain_request(1, b"held"))
    await plain.until(lambda: plain.answers_received == 1)
    server.writers[0].close()
    assert await client.rest() == b""


async def test_the_clients_end_reaches_the_broker_after_its_last_bytes(server: Server, plain: FaultProxy) -> None:
    (port,) = plain.ports
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(plain_request(1, b"last words") + plain_request(2, b"really"))
    await asyncio.wait_for(server.ended.wait(), DEADLINE)
    assert [frame[10:] for frame in server.received] == [b"last words", b"really"]


async def test_a_target_that_refuses_resets_the_client(connect: Connect) -> None:
    with closed_port() as port:
        async with FaultProxy(f"127.0.0.1:{port}") as proxy:
            assert await (await connect(proxy)).is_reset()


def sockets() -> int:
    """The number of this process's sockets."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(entry.readlink()).startswith("socket:")
    return found


@pytest.mark.parametrize("round_trips", range(8))
async def test_leaving_while_connections_are_accepted_leaves_nothing(server: Server, round_trips: int) -> None:
    before, tasks = sockets(), asyncio.all_tasks()
    clients = [socket.socket() for _ in range(40)]
    async with FaultProxy(f"127.0.0.1:{server.port}") as proxy:
        (port,) = proxy.ports
        for client in clients:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(("127.0.0.1", port))
        await turns(round_trips)
    assert proxy.connection_count() == 0
    assert [task for task in asyncio.all_tasks() - tasks if "testing/fault_proxy/" in repr(task)] == []
    for client in clients:
        client.close()
    async with asyncio.timeout(DEADLINE):
        while sockets() != before:  # the server's ends go too
            await turns(1)


async def test_leaving_ends_all_that_holds_connections_up(server: Server, connect: Connect) -> None:
    async with FaultProxy(f"127.0.0.1:{server.port}") as proxy:
        stalled, delayed, held = [await connect(proxy) for _ in range(3)]
        proxy.delay(1, 3_600)
        proxy.hold(2)
        delayed.writer.write(plain_request(1, b"", 1))
        held.writer.write(plain_request(1, b"", 2))
        await proxy.until(lambda: proxy.answers_received == 2)
        proxy.stall()
        stalled.writer.write(plain_request(1, b""))
    for client in (stalled, delayed, held):
        await client.is_reset()
    assert all(handle.cancelled() for handle in getattr(asyncio.get_running_loop(), "_scheduled", ()))


# recordings


async def test_a_recording_has_the_answers_that_the_client_got_and_the_side_that_ended_each_connection(
    broker: DevBroker, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "it.jsonl"
    async with FaultProxy(broker.bootstrap_servers.split(",")[0], record=file) as proxy:
        leaving = await connect(proxy)
        await metadata_of(leaving)
        leaving.writer.close()
        await proxy.until(lambda: proxy.connection_count() == 0)
        cut = await connect(proxy)
        proxy.drop_next(ApiKey.METADATA)
        assert not await is_answered(cut)
        torn = await connect(proxy)
        proxy.truncate(ApiKey.METADATA, 6)
        torn.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
        assert len(await torn.rest()) == 6
        reset = await connect(proxy)
        await metadata_of(reset)
        proxy.cut()
        assert await reset.is_reset()
        staying = await connect(proxy)
        proxy.answer_next(ApiKey.METADATA, Answer(lose=True))
        staying.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
        await proxy.until(lambda: proxy.answers_sent == 5)
    recording = Recording.read(file)
    told = [
        (
            [None if each.answer is None else len(each.answer) > 6 for each in conversation.exchanges],
            conversation.closed_at is not None,
            conversation.is_closed_by_client,
            conversation.is_reset,
        )
        for conversation in recording.conversations
    ]
    assert told == [
        ([True], True, True, False),
        ([None], True, False, False),
        ([False], True, False, False),
        ([True], True, False, True),
        ([None], False, False, False),
    ]


async def test_a_recording_has_the_part_of_an_answer_that_went_before_a_cut(
    broker: DevBroker, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "it.jsonl"
    async with FaultProxy(broker.bootstrap_servers.split(",")[0], record=file) as proxy:
        client = await connect(proxy)
        await metadata_of(client)
        proxy.slow(500)  # ten bytes at a time
        client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
        first = await client.reader.readexactly(1)
        proxy.cut(reset=False)
        rest = await client.rest()
    whole, part = Recording.read(file).conversations[0].exchanges
    assert whole.answer is not None
    assert part.answer is not None
    assert len(part.answer) == len(first + rest) < len(whole.answer)


async def test_a_recording_has_the_brokers_own_addresses_also_in_answers_of_the_proxy(
    broker: DevBroker, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "it.jsonl"
    async with FaultProxy(broker.bootstrap_servers.split(",")[0], record=file) as proxy:
        client = await connect(proxy)
        told = await metadata_of(client)
        assert {each.port for each in told.brokers} <= proxy.ports
    recording = Recording.read(file)
    (exchange,) = recording.exchanges
    assert exchange.answer is not None
    _, body = decode_response(ApiKey.METADATA, METADATA_VERSION, exchange.answer[4:])
    assert ",".join(f"{each.host}:{each.port}" for each in body.brokers) == broker.bootstrap_servers
    assert [f"{host}:{port}" for host, port in recording.addresses] == broker.bootstrap_servers.split(",")[:1]
