"""The proxy's verbs, each against an echo server; nothing waits for time to pass, only for bytes or ends to come."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from aiokafkapy.testing.fault_proxy import Direction, FaultProxy

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo:
    """Sends back what it gets; knows who is connected."""

    def __init__(self) -> None:
        self.port = 0
        self.received = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while data := await reader.read(65536):
                self.received += len(data)
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()
            self.ended.set()


@pytest_asyncio.fixture
async def echo() -> AsyncIterator[Echo]:
    echo = Echo()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    echo.port = server.sockets[0].getsockname()[1]
    yield echo
    server.close()
    for writer in echo.writers:
        writer.close()
    for writer in echo.writers:
        try:
            await writer.wait_closed()
        except OSError:
            pass


@pytest_asyncio.fixture
async def proxy(echo: Echo) -> AsyncIterator[FaultProxy]:
    async with FaultProxy("127.0.0.1", echo.port) as proxy:
        yield proxy
    assert proxy.open_connections == 0


@pytest_asyncio.fixture
async def connection(proxy: FaultProxy) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(*proxy.address)
    assert await _echoed((reader, writer), b"hello") == b"hello"
    yield reader, writer
    await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        pass


async def _echoed(connection: Connection, data: bytes) -> bytes:
    reader, writer = connection
    writer.write(data)
    return await reader.readexactly(len(data))


async def _turns(count: int = 50) -> None:
    """Let the loop go round, so that whatever could happen has happened."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_passes_bytes_both_ways_and_counts_them(proxy: FaultProxy, connection: Connection) -> None:
    data = bytes(range(256)) * 4096
    assert await _echoed(connection, data) == data
    assert proxy.bytes_to_target == proxy.bytes_to_client == len(data) + 5
    assert (proxy.connections_accepted, proxy.open_connections) == (1, 1)
    assert proxy.bootstrap_servers == "{}:{}".format(*proxy.address)


async def test_cut_resets_connections_and_welcomes_new_ones(proxy: FaultProxy, connection: Connection) -> None:
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        await connection[0].readexactly(1)
    reader, writer = await asyncio.open_connection(*proxy.address)
    assert await _echoed((reader, writer), b"again") == b"again"
    await _close(writer)


async def test_an_orderly_cut_is_an_end_of_file(proxy: FaultProxy, connection: Connection) -> None:
    proxy.cut(reset=False)
    assert await connection[0].read() == b""


async def test_refuse_refuses_new_connections_only(proxy: FaultProxy, connection: Connection) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*proxy.address)
    assert await _echoed(connection, b"still here") == b"still here"
    await proxy.accept()
    reader, writer = await asyncio.open_connection(*proxy.address)
    assert await _echoed((reader, writer), b"back") == b"back"
    await _close(writer)


async def test_stall_moves_nothing_until_resume(echo: Echo, proxy: FaultProxy, connection: Connection) -> None:
    proxy.stall()
    connection[1].write(b"waiting")
    late_reader, late_writer = await asyncio.open_connection(*proxy.address)
    late_writer.write(b"late")
    await _turns()
    assert echo.received == proxy.bytes_to_target == 5
    proxy.resume()
    assert await connection[0].readexactly(7) == b"waiting"
    assert await late_reader.readexactly(4) == b"late"
    await _close(late_writer)


async def test_a_writer_into_a_stalled_proxy_meets_a_full_pipe(proxy: FaultProxy, connection: Connection) -> None:
    proxy.stall()
    reader, writer = connection
    data = b"x" * 32 * 1024 * 1024
    writer.write(data)
    await _turns()
    drained = asyncio.ensure_future(writer.drain())
    await _turns()
    assert not drained.done()
    proxy.resume()
    assert await reader.readexactly(len(data)) == data
    await drained


async def test_half_open_swallows_and_resume_cuts(echo: Echo, proxy: FaultProxy, connection: Connection) -> None:
    proxy.half_open()
    connection[1].write(b"into the void")
    await connection[1].drain()
    await _turns()
    assert echo.received == 5
    proxy.resume()
    with pytest.raises(ConnectionResetError):
        await connection[0].readexactly(1)


async def test_slow_lets_bytes_through_piece_by_piece_and_in_order(proxy: FaultProxy, connection: Connection) -> None:
    proxy.slow(20_000)
    reader, writer = connection
    data = bytes(range(250)) * 8
    writer.write(data)
    first = await reader.read(65536)
    assert len(first) == 400
    assert first + await reader.readexactly(len(data) - 400) == data
    proxy.resume()
    assert await _echoed(connection, data) == data


async def test_tear_cuts_in_the_middle(proxy: FaultProxy, connection: Connection) -> None:
    proxy.tear(after_bytes=3)
    connection[1].write(b"a frame")
    assert await connection[0].read() == b"a f"
    reader, writer = await asyncio.open_connection(*proxy.address)
    assert await _echoed((reader, writer), b"a frame") == b"a frame"
    await _close(writer)


async def test_the_targets_end_reaches_the_client(echo: Echo, connection: Connection) -> None:
    echo.writers[0].write(b"bye")
    echo.writers[0].close()
    assert await connection[0].read() == b"bye"


async def test_the_clients_end_reaches_the_target(echo: Echo, proxy: FaultProxy) -> None:
    reader, writer = await asyncio.open_connection(*proxy.address)
    assert await _echoed((reader, writer), b"x") == b"x"
    await _close(writer)
    await echo.ended.wait()


async def test_a_target_that_refuses_resets_the_client() -> None:
    async with FaultProxy("127.0.0.1", 1) as proxy:
        reader, writer = await asyncio.open_connection(*proxy.address)
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        await _close(writer)


async def test_a_subclass_may_alter_what_passes(echo: Echo) -> None:
    class Shouting(FaultProxy):
        def alter(self, direction: Direction, data: bytes) -> bytes:
            return data.upper() if direction is Direction.TO_CLIENT else data

    async with Shouting("127.0.0.1", echo.port) as proxy:
        reader, writer = await asyncio.open_connection(*proxy.address)
        assert await _echoed((reader, writer), b"quiet") == b"QUIET"
        await _close(writer)
