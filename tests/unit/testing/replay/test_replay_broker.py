from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response
from aiokafkapy.testing import RecordingError, ReplayBroker, ReplayMismatchError

from ..fault_proxy.harness import Client, turns
from ..recordings import BROKER, SECOND, Tape, answer, heartbeat, produce, produced, records, request

FIRST, NEXT = produce(records(b"first")), produce(records(b"next"))
METADATA = request(ApiKey.METADATA, 9, topics=None)
HOUR = 3600.0
Connect = Callable[..., Any]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """A function that connects to one of the addresses of a replay."""
    clients: list[Client] = []

    async def connect(broker: ReplayBroker, number: int = 0) -> Client:
        host, _, port = broker.bootstrap_servers.split(",")[number].partition(":")
        clients.append(Client(*await asyncio.open_connection(host, int(port))))
        return clients[-1]

    yield connect
    for client in clients:
        client.writer.transport.abort()
    await turns()


async def test_a_client_gets_the_recorded_bytes(connect: Connect) -> None:
    made = Tape().connected().request(FIRST).answer(produced(0)).request(NEXT).answer(produced(1))
    async with ReplayBroker(made.read(), speed=None) as broker:
        client = await connect(broker)
        client.writer.write(produce(records(b"first"), 8) + produce(records(b"next"), 9))
        assert await client.frame() == produced(0, 8)[4:]
        assert await client.frame() == produced(1, 9)[4:]
        broker.check()
        assert broker.unplayed == []


async def test_answers_take_their_time_or_none(connect: Connect) -> None:
    made = Tape(step=0.2).connected().request(FIRST).answer(produced(0)).read()
    loop = asyncio.get_running_loop()
    async with ReplayBroker(made, speed=2) as broker:
        client = await connect(broker)
        before = loop.time()
        client.writer.write(FIRST)
        await client.frame()
        assert loop.time() - before >= 0.09
    async with ReplayBroker(
        Tape(step=HOUR).connected().request(FIRST).answer(produced(0)).read(), speed=None
    ) as broker:
        client = await connect(broker)
        client.writer.write(FIRST)
        await client.frame()  # an hour ago it would not have come yet


async def test_answers_keep_the_order_of_their_requests(connect: Connect) -> None:
    """The second was answered sooner after its request than the first after its own."""
    made = Tape(step=0.05).connected().request(FIRST).request(heartbeat(2)).answer(produced(0), number=1)
    made.answer(answer(ApiKey.HEARTBEAT, 4, 2), number=2)
    made.lines[-1]["at"] = made.lines[-2]["at"]
    async with ReplayBroker(made.read()) as broker:
        client = await connect(broker)
        client.writer.write(FIRST + heartbeat(2))
        assert await client.frame() == produced(0)[4:]
        assert await client.frame() == answer(ApiKey.HEARTBEAT, 4, 2)[4:]


async def test_silence_holds_up_nothing_else(connect: Connect) -> None:
    made = Tape().connected().request(FIRST).request(heartbeat(2)).answer(answer(ApiKey.HEARTBEAT, 4, 2))
    async with ReplayBroker(made.read(), speed=None) as broker:
        client = await connect(broker)
        client.writer.write(FIRST + heartbeat(2))
        assert await client.frame() == answer(ApiKey.HEARTBEAT, 4, 2)[4:]


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_connection_ends_where_and_as_the_cluster_ended_it(connect: Connect, is_reset: bool) -> None:
    made = Tape().connected().request(FIRST).answer(produced(0)[:9]).closed(reset=is_reset)
    async with ReplayBroker(made.read(), speed=None) as broker:
        client = await connect(broker)
        client.writer.write(FIRST)
        assert await client.reader.readexactly(9) == produced(0)[:9]
        assert await client.is_reset() is is_reset


async def test_every_address_has_a_port_and_answers_name_it(connect: Connect) -> None:
    nodes = [
        {"node_id": number, "host": host, "port": 9092}
        for number, host in enumerate(("kafka.example", "other.example", "third.example"))
    ]
    made = Tape(servers=(BROKER, SECOND)).connected(1).request(METADATA)
    made.answer(answer(ApiKey.METADATA, 9, brokers=nodes)).connected(2, SECOND).request(FIRST, 2).answer(produced(5), 2)
    async with ReplayBroker(made.read(), speed=None) as broker:
        client, other = await connect(broker, 0), await connect(broker, 1)
        client.writer.write(METADATA)
        _, body = decode_response(ApiKey.METADATA, 9, await client.frame())
        places = [f"{each.host}:{each.port}" for each in body.brokers]
        assert ",".join(places[:2]) == broker.bootstrap_servers
        assert len(set(places)) == 3
        assert {each.host for each in body.brokers} == {"127.0.0.1"}
        other.writer.write(FIRST)
        assert await other.frame() == produced(5)[4:]


async def test_a_request_that_was_not_recorded_ends_its_connection_and_is_told(connect: Connect) -> None:
    told: list[str] = []
    async with ReplayBroker(Tape().connected().request(FIRST).answer(produced(0)).read(), speed=None) as broker:
        broker.on_mismatch = lambda mismatch: told.append(str(mismatch))
        client = await connect(broker)
        client.writer.write(NEXT + FIRST)
        assert await client.rest() == b""
        with pytest.raises(ReplayMismatchError, match="b'next', and b'first' in the recording"):
            broker.check()
        assert told == [str(mismatch) for mismatch in broker.mismatches]
        assert broker.unplayed == ["PRODUCE v9 (line 3) of connection 1"]


async def test_bytes_that_are_not_frames_end_their_connection(connect: Connect) -> None:
    async with ReplayBroker(Tape().connected().request(FIRST).read()) as broker:
        client = await connect(broker)
        client.writer.write(b"\x16\x03\x01\x02\x00")  # TLS
        assert await client.rest() == b""


async def test_a_recording_is_played_from_its_start_again_and_leaves_nothing(connect: Connect) -> None:
    broker = ReplayBroker(Tape(step=HOUR).connected().request(FIRST).answer(produced(0)).read(), speed=None)
    with pytest.raises(RuntimeError, match="the replay is not running"):
        _ = broker.bootstrap_servers
    for _ in range(2):
        await broker.start()
        client = await connect(broker)
        client.writer.write(FIRST)
        assert await client.frame() == produced(0)[4:]
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        await broker.stop()
        await broker.stop()
        assert await client.is_reset()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_stopping_does_not_wait_for_delayed_answers(connect: Connect) -> None:
    async with ReplayBroker(Tape(step=HOUR).connected().request(FIRST).answer(produced(0)).closed().read()) as broker:
        client = await connect(broker)
        client.writer.write(FIRST)
        await turns()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"speed": 0}, "speed=0: write a number above 0, or None for no delays"),
        ({"speed": float("nan")}, "speed=nan"),
        ({"port": 65_536}, "port=65536: write 0 to 65535"),
    ],
)
def test_an_invalid_option_is_an_error_at_once(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ReplayBroker(Tape().read(), **options)


async def test_a_file_that_is_damaged_is_an_error_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bug.jsonl"
    file.write_bytes(Tape().connected().data + b'{"at": 1}\n')
    with pytest.raises(RecordingError, match=r"bug\.jsonl, line 3: 'event' is missing"):
        ReplayBroker(file)
    with pytest.raises(FileNotFoundError):
        ReplayBroker(tmp_path / "none")


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing() -> None:
    async with ReplayBroker(Tape().read()) as first:
        port = int(first.bootstrap_servers.rpartition(":")[2])
        second = ReplayBroker(Tape(servers=(BROKER, SECOND)).read(), port=port)
        with pytest.raises(OSError, match="in use"):
            await second.start()
    await second.start()
    assert second.bootstrap_servers.startswith(f"127.0.0.1:{port},")
    await second.stop()
