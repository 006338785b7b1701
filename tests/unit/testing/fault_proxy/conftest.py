"""A proxy before a server of plain frames, one before a dev broker, and connections to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.testing import FaultProxy

from .harness import Client, Connect, Server, turns


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    yield server
    listening.close()
    for writer in server.writers:
        writer.transport.abort()
    await turns()


@pytest.fixture
async def plain(server: Server) -> AsyncIterator[FaultProxy]:
    """A proxy before the server of plain frames."""
    async with FaultProxy(f"127.0.0.1:{server.port}") as proxy:
        yield proxy
    assert proxy.connection_count() == 0


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=3)
        yield broker


@pytest.fixture
async def proxy(broker: DevBroker) -> AsyncIterator[FaultProxy]:
    """A proxy before a dev broker of three nodes, of which it is told of one."""
    async with FaultProxy(broker.bootstrap_servers.split(",")[0]) as proxy:
        yield proxy
    assert proxy.connection_count() == 0


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """A function that connects to a proxy, or to one of its nodes."""
    clients: list[Client] = []

    async def connect(proxy: FaultProxy, node_id: int | None = None) -> Client:
        host, _, port = proxy.bootstrap_servers.partition(",")[0].partition(":")
        address = (host, int(port)) if node_id is None else proxy.address_of(node_id)
        clients.append(Client(*await asyncio.open_connection(*address)))
        return clients[-1]

    yield connect
    for client in clients:
        client.writer.transport.abort()
    await turns()
